"""Training that goes on from a model or from scores: init_model, warm_start, init_score."""

from __future__ import annotations

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import Callback, checkpoint
from abc_plugins.core.model.validation import ModelFormatError

METHODS = ["directional", "abcrobustlogit"]
OPTIONS = {"n_estimators": 6, "num_leaves": 5, "max_depth": 3, "min_samples_leaf": 2, "n_jobs": 1, "random_state": 0}


@pytest.fixture(params=METHODS)
def make(request):
    return lambda **changes: ABCBoostClassifier(**{**OPTIONS, "method": request.param, **changes})


@pytest.fixture
def data(make_data):
    return make_data(4, 160, missing=0.05)


def first_trees(model, n_rounds):
    return [tree.values.tobytes() + tree.threshold.tobytes() for tree in model.model_.trees(n_rounds)]


def test_more_rounds_on_the_same_data(make, data):
    first = make().fit(data.X, data.y)
    more = make().fit(data.X, data.y, init_model=first)
    assert (more.n_iter_, len(more.base_classes_), len(more.train_loss_)) == (12, 12, 12)
    assert first_trees(more, 6) == first_trees(first, 6)
    assert np.all(np.diff(more.train_loss_) < 0)
    assert first.n_iter_ == 6  # it is left alone
    straight = make(n_estimators=12).fit(data.X, data.y)
    assert more.train_loss_[-1] == pytest.approx(straight.train_loss_[-1], rel=0.3)


def test_more_rounds_on_new_data(make, data, tmp_path):
    first = make().fit(data.X[:100], data.y[:100])
    first.save_model(tmp_path / "model")
    one, other = (make().fit(data.X[100:], data.y[100:], init_model=m) for m in (first, tmp_path / "model"))
    np.testing.assert_array_equal(one.predict_proba(data.X), other.predict_proba(data.X))
    proba = one.predict_proba(data.X[100:])[np.arange(60), data.y[100:]]
    assert -np.log(proba).sum() == pytest.approx(one.train_loss_[-1], rel=1e-6)  # the trees before count in it
    assert one.train_loss_[-1] < -np.log(first.predict_proba(data.X[100:])[np.arange(60), data.y[100:]]).sum()


def test_new_data_may_lack_classes_but_have_no_new_ones(make, data):
    first = make().fit(data.X, data.y)
    few = data.y < 3
    assert make().fit(data.X[few], data.y[few], init_model=first).classes_.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="y has labels that are not among the classes of the training data: 9"):
        make().fit(data.X, np.where(data.y == 3, 9, data.y), init_model=first)
    with pytest.raises(ValueError, match="X has 3 features, but the model to go on from is expecting 4"):
        make().fit(data.X[:, :3], data.y, init_model=first)
    with pytest.raises(TypeError, match="init_model must be a fitted ABCBoostClassifier, the path of a model file"):
        make().fit(data.X, data.y, init_model=3)


def test_categories_are_those_of_the_model_before(make, data):
    X = np.column_stack([data.X.astype(object), np.array(["red", "green", "blue", "grey"])[np.arange(160) % 4]])
    first = make().fit(X[:100], data.y[:100])
    later = X[100:].copy()
    later[:20, 4] = "new"
    more = make().fit(later, data.y[100:], init_model=first)
    assert more.categories_[4].tolist() == first.categories_[4].tolist() == ["blue", "green", "grey", "red"]


def test_evaluation_and_early_stopping_go_on(make, data):
    first = make().fit(data.X[:100], data.y[:100])
    valid = (data.X[100:], data.y[100:])
    more = make(n_estimators=40, learning_rate=0.5, early_stopping_rounds=3)
    more.fit(data.X[:100], data.y[:100], eval_set=[valid], init_model=first)
    losses = more.evals_result_["valid_0"]["logloss"]
    assert more.n_iter_ == 6 + len(losses)
    assert more.best_iteration_ == 6 + int(np.argmin(losses)) + 1
    assert more.best_score_["valid_0"]["logloss"] == min(losses)
    staged = list(more.staged_predict_proba(valid[0]))
    for n_rounds, loss in enumerate(losses, start=6):
        assert loss == pytest.approx(-np.log(staged[n_rounds][np.arange(60), valid[1]]).mean(), rel=1e-9)


def test_a_refit_goes_on_from_the_model_before(make, data):
    first = make().fit(data.X, data.y)
    options = {"n_estimators": 30, "learning_rate": 0.5, "early_stopping_rounds": 3}
    more = make(**options).fit(data.X, data.y, init_model=first)
    assert first_trees(more, 6) == first_trees(first, 6)
    assert more.n_iter_ == more.best_iteration_ == 6 + int(np.argmin(more.evals_result_["validation"]["logloss"])) + 1


def test_a_warm_start_counts_all_rounds(make, data):
    model = make(warm_start=True).fit(data.X, data.y)
    before = first_trees(model, 6)
    model.set_params(n_estimators=9).fit(data.X, data.y)
    assert model.n_iter_ == 9
    assert first_trees(model, 6) == before
    model.fit(data.X, data.y)
    assert model.n_iter_ == 9
    with pytest.raises(ValueError, match="n_estimators must be at least the 9 rounds that there are; got 8"):
        model.set_params(n_estimators=8).fit(data.X, data.y)
    assert make().fit(data.X, data.y).fit(data.X, data.y).n_iter_ == 6  # without it a fit starts anew


def test_scores_to_begin_with(make, data):
    """Those of another model: what is learnt comes on top of them, and is no more than the rest."""
    first = make(n_estimators=20).fit(data.X, data.y)
    scores = first.decision_function(data.X)
    model = make().fit(data.X, data.y, init_score=scores)
    assert not model.model_.start_scores.any()
    total = scores + model.decision_function(data.X)
    proba = np.exp(total) / np.exp(total).sum(axis=1, keepdims=True)
    assert -np.log(proba[np.arange(160), data.y]).sum() == pytest.approx(model.train_loss_[-1], rel=1e-6)
    assert model.train_loss_[-1] < first.train_loss_[-1]


def test_scores_of_evaluation_sets(make, data):
    scores = np.random.default_rng(0).normal(size=(160, 4))
    given = {"init_score": scores[:100], "eval_init_score": [scores[100:]]}
    model = make().fit(data.X[:100], data.y[:100], eval_set=[(data.X[100:], data.y[100:])], **given)
    total = scores[100:] + model.decision_function(data.X[100:])
    proba = np.exp(total) / np.exp(total).sum(axis=1, keepdims=True)
    expected = -np.log(proba[np.arange(60), data.y[100:]]).mean()
    assert model.evals_result_["valid_0"]["logloss"][-1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"init_score": np.zeros((160, 3))}, r"init_score must be a score for every row and class, shape \(160, 4\)"),
        ({"init_score": np.full((160, 4), np.nan)}, "init_score must be numbers from"),
        ({"init_score": [["a"]]}, "init_score must be an array of numbers"),
    ],
)
def test_impossible_scores(make, data, given, message):
    with pytest.raises(ValueError, match=message):
        make().fit(data.X, data.y, **given)


def test_evaluation_sets_need_scores_as_well(make, data):
    eval_set = [(data.X, data.y)]
    with pytest.raises(ValueError, match="eval_init_score must be given with init_score"):
        make().fit(data.X, data.y, eval_set=eval_set, init_score=np.zeros((160, 4)))
    with pytest.raises(ValueError, match="eval_init_score must be given with init_score"):
        make().fit(data.X, data.y, eval_set=eval_set, eval_init_score=[np.zeros((160, 4))])
    with pytest.raises(ValueError, match="eval_init_score must be given with init_score for all evaluation sets"):
        make().fit(
            data.X,
            data.y,
            eval_set=2 * eval_set,
            init_score=np.zeros((160, 4)),
            eval_init_score=[np.zeros((160, 4)), None],
        )


def test_a_checkpoint_of_a_training_that_went_on(make, data, tmp_path):
    class Stop(Callback):
        order = 99

        def after_round(self, context):
            if context.round_index == 8:
                raise KeyboardInterrupt

    first = make().fit(data.X, data.y)
    given = {"eval_set": [(data.X, data.y)], "init_model": first}
    with pytest.raises(KeyboardInterrupt):
        make().fit(data.X, data.y, callbacks=[checkpoint(tmp_path / "run", every_rounds=1), Stop()], **given)
    resumed = make().fit(data.X, data.y, resume_from=tmp_path / "run", **given)
    straight = make().fit(data.X, data.y, **given)
    assert first_trees(resumed, 12) == first_trees(straight, 12)
    assert resumed.evals_result_ == straight.evals_result_
    with pytest.raises(ValueError, match="resume_from must be a checkpoint of a training with the same data"):
        make().fit(data.X, data.y, resume_from=tmp_path / "run", eval_set=given["eval_set"])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [{}, {"search": 2, "gap": 3}])
def test_more_rounds_on_the_same_data_are_those_of_one_fit(data, tmp_path, method, options):
    options = {**OPTIONS, **options, "method": method, "n_estimators": 22}  # in the second block of directions
    whole = ABCBoostClassifier(**{**options, "n_estimators": 40}).fit(data.X, data.y)
    warm = ABCBoostClassifier(**options, warm_start=True).fit(data.X, data.y)
    warm.save_model(tmp_path / "model.abc")
    warm.set_params(n_estimators=40).fit(data.X, data.y)
    from_file = ABCBoostClassifier(**{**options, "n_estimators": 18})
    from_file.fit(data.X, data.y, init_model=tmp_path / "model.abc")
    for model in (warm, from_file):
        np.testing.assert_allclose(model.predict_proba(data.X), whole.predict_proba(data.X), rtol=0, atol=1e-9)


def test_a_model_that_was_cut_draws_its_directions_anew(data):
    first = ABCBoostClassifier(**{**OPTIONS, "n_estimators": 22}).fit(data.X, data.y)
    first.best_iteration_ = 20
    more = ABCBoostClassifier(**OPTIONS).fit(data.X, data.y, init_model=first)
    first._directions = {}
    without = ABCBoostClassifier(**OPTIONS).fit(data.X, data.y, init_model=first)
    np.testing.assert_array_equal(more.predict_proba(data.X), without.predict_proba(data.X))


@pytest.mark.parametrize(
    ("directions", "message"),
    [
        ({"spread": 1.0}, "spread must be lists of 4 numbers"),
        ({"more": [[1.0]]}, "directions must be an object with spread and kept_directions"),
        ({"spread": [[1.0] * 4] * 3}, r"spread must be numbers of shape \(4, 4\)"),
        ({"spread": [["1.0"] * 4] * 4}, "spread must be lists of 4 numbers"),
        ({"spread": [[1e200] * 4] * 4}, "spread must be numbers of shape"),
        ({"spread": [[float("nan")] * 4] * 4}, "spread must be numbers of shape"),
        ({"spread": [[0.0] * 4] * 4}, "spread must be a symmetric matrix with eigenvalues of at least 0.9"),
        ({"kept_directions": [[9.0] * 4]}, "kept_directions must be numbers of shape"),
        ({"kept_directions": [[1.0] * 3]}, "kept_directions must be lists of 4 numbers"),
    ],
)
def test_wrong_directions_in_a_file_are_found(data, tmp_path, directions, message):
    model = ABCBoostClassifier(**OPTIONS).fit(data.X, data.y)
    model._directions = directions
    model.save_model(tmp_path / "model.abc")
    with pytest.raises(ModelFormatError, match=message):
        ABCBoostClassifier.load_model(tmp_path / "model.abc")


def test_files_of_many_classes_have_no_directions(tmp_path):
    X = np.arange(129.0)[:, None]
    model = ABCBoostClassifier(**OPTIONS).fit(X, X[:, 0])
    model.save_model(tmp_path / "model.abc")
    assert model._directions
    assert ABCBoostClassifier.load_model(tmp_path / "model.abc")._directions == {}


def test_load_model_on_an_instance_fills_it(data, tmp_path):
    saved = ABCBoostClassifier(**OPTIONS).fit(data.X, data.y)
    saved.save_model(tmp_path / "model.abc")
    model = ABCBoostClassifier(n_estimators=1).fit(data.X[:, :2], data.y)
    assert model.load_model(tmp_path / "model.abc") is model
    assert model.get_params() == saved.get_params()
    np.testing.assert_array_equal(model.predict_proba(data.X), saved.predict_proba(data.X))
    with pytest.raises(FileNotFoundError):
        model.load_model(tmp_path / "no.abc")
    assert model.n_iter_ == saved.n_iter_  # a file that cannot be read changes nothing
    assert ABCBoostClassifier.load_model(tmp_path / "model.abc") is not model
