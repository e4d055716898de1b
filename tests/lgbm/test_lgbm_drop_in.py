"""What users of LightGBM do around training: copies, callbacks, continued training, aliases, numbers passed on."""

import copy
import pickle
import subprocess
import sys

import lightgbm as lgb
import numpy as np
import pytest

import abc_plugins.lgbm as abc_lgbm
from abc_plugins.lgbm import ABCLGBMClassifier, model_info

from .conftest import N_CLASSES, make_data


@pytest.fixture(scope="module")
def stopped():
    """A model that stopped early, its held-out data and the log loss of every round."""
    (X, y), (X_valid, y_valid) = make_data(), make_data(300, seed=1)
    params = {"num_class": N_CLASSES, "num_leaves": 6, "min_data_in_leaf": 5, "num_threads": 1, "verbosity": -1}
    evals = {}
    booster = abc_lgbm.train(
        {**params, "learning_rate": 0.4},
        lgb.Dataset(X, y),
        100,
        valid_sets=[lgb.Dataset(X_valid, y_valid)],
        callbacks=[lgb.early_stopping(5, verbose=False), lgb.record_evaluation(evals)],
        method="abcrobustlogit",
        gap=1,
        warmup=2,
    )
    return booster, X_valid, y_valid, evals["valid_0"]["multi_logloss"]


def log_loss(probabilities, y):
    return -np.log(probabilities[np.arange(y.size), y]).mean()


def test_rounds_after_the_best_one_are_dropped(stopped):
    booster, X_valid, y_valid, losses = stopped
    best = int(np.argmin(losses)) + 1
    assert best + 5 == len(losses)
    assert model_info(booster)["best_round"] == best == len(model_info(booster)["base_classes"])
    assert booster.best_iteration == booster.current_iteration()
    assert booster.num_trees() == N_CLASSES * booster.best_iteration
    for everything in (booster.predict(X_valid, num_iteration=-1), copy.deepcopy(booster).predict(X_valid)):
        assert log_loss(everything, y_valid) == pytest.approx(losses[best - 1], rel=1e-9)


def test_continued_training_starts_at_the_best_round(stopped):
    booster, X_valid, y_valid, losses = stopped
    evals = {}
    further = abc_lgbm.train(
        {"num_class": N_CLASSES, "learning_rate": 1e-9, "num_threads": 1, "verbosity": -1},
        lgb.Dataset(X_valid, y_valid, free_raw_data=False),
        1,
        valid_sets=[lgb.Dataset(X_valid, y_valid, free_raw_data=False)],
        init_model=booster,
        callbacks=[lgb.record_evaluation(evals)],
    )
    assert evals["valid_0"]["multi_logloss"][0] == pytest.approx(min(losses), rel=1e-6)
    assert len(model_info(further)["base_classes"]) == int(np.argmin(losses)) + 2


def test_copies_know_what_the_model_knows(stopped):
    booster, X_valid, _, _ = stopped
    copies = [copy.copy(booster), copy.deepcopy(booster), pickle.loads(pickle.dumps(booster))]
    for copied in copies:
        assert model_info(copied) == model_info(booster)
        np.testing.assert_array_equal(copied.predict(X_valid), booster.predict(X_valid))
    model_info(copies[1])["base_classes"].append(7)
    assert 7 not in model_info(booster)["base_classes"]
    assert type(copies[2]) is lgb.Booster


def test_pickles_need_lightgbm_alone(stopped, tmp_path):
    booster, X_valid, _, _ = stopped
    (tmp_path / "model.pickle").write_bytes(pickle.dumps((booster, X_valid, booster.predict(X_valid))))
    code = (
        "import pickle, sys\n"
        "booster, X, expected = pickle.load(open('model.pickle', 'rb'))\n"
        "assert (booster.predict(X) == expected).all()\n"
        "assert 'abc_plugins' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_a_cut_inside_a_round_is_noticed(stopped):
    booster, X_valid, _, _ = stopped
    ends = list(model_info(booster)["round_iterations"].values())
    with pytest.warns(UserWarning, match=r"num_iteration=.* cuts a round"):
        booster.predict(X_valid, num_iteration=ends[-1] - 1)
    booster.predict(X_valid, num_iteration=ends[0])  # warnings are errors where pytest.warns is not


def test_kept_booster_takes_further_data(data, params):
    X, y = data
    X_valid, y_valid = make_data(200, seed=2)
    train_set = lgb.Dataset(X, y)
    booster = abc_lgbm.train(params, train_set, 6, keep_training_booster=True, method="abcrobustlogit", gap=1, warmup=2)
    booster.add_valid(lgb.Dataset(X_valid, y_valid, reference=train_set), "later")
    later = lgb.Dataset(X_valid, y_valid, reference=train_set)
    expected = log_loss(booster.predict(X_valid), y_valid)
    (result,) = booster.eval_valid()
    assert tuple(result)[:3] == ("later", "multi_logloss", pytest.approx(expected, rel=1e-9))
    (result,) = booster.eval(later, "again")
    assert tuple(result)[:3] == ("again", "multi_logloss", pytest.approx(expected, rel=1e-9))
    booster.update()
    after = log_loss(booster.predict(X_valid), y_valid)
    assert [tuple(result)[2] for result in booster.eval_valid()] == [pytest.approx(after, rel=1e-9)] * 2
    assert after != expected
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(booster)).predict(X_valid), booster.predict(X_valid))


def test_kept_booster_keeps_the_rounds_after_the_best_one(data, params):
    X_valid, y_valid = make_data(300, seed=1)
    train_set, evals = lgb.Dataset(*data), {}
    booster = abc_lgbm.train(
        {**params, "learning_rate": 0.4},
        train_set,
        100,
        valid_sets=[lgb.Dataset(X_valid, y_valid, reference=train_set)],
        callbacks=[lgb.early_stopping(5, verbose=False), lgb.record_evaluation(evals)],
        keep_training_booster=True,
        method="abcrobustlogit",
        warmup=2,
    )
    losses = evals["valid_0"]["multi_logloss"]
    assert log_loss(booster.predict(X_valid), y_valid) == pytest.approx(min(losses), rel=1e-9)
    assert log_loss(booster.predict(X_valid, num_iteration=-1), y_valid) == pytest.approx(losses[-1], rel=1e-9)
    assert tuple(booster.eval_valid()[0])[2] == pytest.approx(losses[-1], rel=1e-9)


@pytest.mark.parametrize("own", [False, True], ids=["plain", "with init_score"])
def test_datasets_are_the_callers_again(data, params, own):
    X, y = data
    scores = np.random.default_rng(0).normal(size=(len(X), N_CLASSES)) if own else None
    used, fresh = (lgb.Dataset(X, y, init_score=scores) for _ in range(2))
    stock = {**params, "objective": "multiclass"}
    abc_lgbm.train(params, used, 5, keep_training_booster=True)
    expected = lgb.train(stock, fresh, 5).predict(X, raw_score=True)
    np.testing.assert_array_equal(lgb.train(stock, used, 5).predict(X, raw_score=True), expected)


@pytest.mark.parametrize("metric", [None, [], "", "None", ["multi_error", "auc_mu"]])
def test_metric_is_what_it_is_in_lightgbm(data, params, metric):
    texts = []
    for train in (lgb.train, abc_lgbm.train):
        evals, train_set = {}, lgb.Dataset(*data)
        booster = train(
            {**params, "objective": "multiclass", "metric": metric},
            train_set,
            2,
            valid_sets=[train_set],
            callbacks=[lgb.record_evaluation(evals)],
        )
        line = next(line for line in booster.model_to_string().split("\n") if line.startswith("[metric:"))
        texts.append((line, list(evals.get("training", {}))))
    assert texts[0] == texts[1]


def test_numbers_as_text(data, params):
    X, y = data
    as_text = {name: str(value) for name, value in params.items()}
    booster = abc_lgbm.train({**as_text, "multi_error_top_k": "2"}, lgb.Dataset(X, y), 3)
    np.testing.assert_array_equal(booster.predict(X), abc_lgbm.train(params, lgb.Dataset(X, y), 3).predict(X))


class Messages:
    """What LightGBM says, warnings of its C++ code too, which come as information."""

    def __init__(self):
        self.heard = []
        self.info = self.warning = self.heard.append


@pytest.fixture
def messages():
    """What LightGBM says while a test runs."""
    from lightgbm import basic

    before = basic._LOGGER, basic._INFO_METHOD_NAME, basic._WARNING_METHOD_NAME
    heard = Messages()
    lgb.register_logger(heard)
    yield heard
    basic._LOGGER, basic._INFO_METHOD_NAME, basic._WARNING_METHOD_NAME = before


def test_aliases_count_and_warn_as_in_lightgbm(data, messages):
    X, y = data
    params = {"num_classes": N_CLASSES, "num_threads": 1, "verbosity": 1, "max_leaves": 7, "max_leaf": 3, "num_leaf": 5}
    params |= {"shrinkage_rate": 0.3, "eta": 0.2, "num_boost_round": 4, "n_iter": 2}
    heard, boosters = [], []
    for train in (lgb.train, abc_lgbm.train):
        messages.heard.clear()
        boosters.append(train({**params, "application": "softmax"}, lgb.Dataset(X, y)))
        heard.append([message for message in messages.heard if "num_leaves is set" in message])
        assert any("conflicting values for num_iterations" in message for message in messages.heard)
    assert heard[0]
    assert set(heard[0]) == set(heard[1])
    stock, own = boosters
    assert len(model_info(own)["base_classes"]) == stock.current_iteration() == 2
    assert own.params | {"objective": "softmax"} == stock.params
    for line in ("[num_leaves: 3]", "[learning_rate: 0.2]", "[num_iterations: 2]", "[objective: multiclass]"):
        assert line in stock.model_to_string()
        assert line in own.model_to_string()


def test_callbacks_evaluate_pickle_and_leave_marks(data, params):
    X, y = data
    X_valid, y_valid = make_data(200, seed=3)
    train_set = lgb.Dataset(X, y)
    valid_set = lgb.Dataset(X_valid, y_valid, reference=train_set)
    seen = []

    def mean_error(probabilities, dataset):
        return "own", float((probabilities.argmax(axis=1) != dataset.get_label()).mean()), False

    def watch(env):
        model = env.model
        valid = [tuple(result) for result in model.eval_valid(mean_error)]
        assert valid == [tuple(result) for result in env.evaluation_result_list[2:]]
        assert [tuple(r) for r in model.eval_train([mean_error])] == [tuple(r) for r in env.evaluation_result_list[:2]]
        assert [("x", *result[1:]) for result in valid] == [tuple(r) for r in model.eval(valid_set, "x", mean_error)]
        restored, copied = pickle.loads(pickle.dumps(model)), copy.deepcopy(model)
        np.testing.assert_array_equal(restored.predict(X_valid), model.predict(X_valid))
        np.testing.assert_array_equal(copied.predict(X_valid), model.predict(X_valid))
        with pytest.raises(ValueError, match="data must be the training set or a validation set"):
            model.eval(lgb.Dataset(X, y), "other")
        model.mark = seen
        seen.append(env.iteration)

    booster = abc_lgbm.train(
        {**params, "metric": "multi_logloss"},
        train_set,
        4,
        valid_sets=[train_set, valid_set],
        feval=mean_error,
        callbacks=[watch, lgb.reset_parameter(learning_rate=lambda i: 0.1 / (1 + i))],
        method="abcrobustlogit",
        warmup=1,
    )
    assert booster.mark == [0, 1, 2, 3]
    assert booster.params["learning_rate"] == 0.1 / 4


def test_cross_validation_by_groups_and_with_other_classes(data, params):
    from sklearn.model_selection import GroupKFold

    X, y = data
    sizes = [150, 50, 100, 200, 100]
    rows = []

    def note_rows(train_set, valid_set, fold_params):
        assert fold_params["num_class"] == N_CLASSES
        rows.append(sorted(valid_set.construct().used_indices))
        labels = np.append(train_set.construct().get_label()[:-1], N_CLASSES)
        train_set = lgb.Dataset(train_set.get_data(), labels)
        valid_set = lgb.Dataset(valid_set.get_data(), valid_set.get_label(), reference=train_set)
        return train_set, valid_set, {**fold_params, "num_class": N_CLASSES + 1}

    data_set = lgb.Dataset(X, y, group=sizes, free_raw_data=False)
    results = abc_lgbm.cv(params, data_set, 2, folds=GroupKFold(5), fpreproc=note_rows, return_cvbooster=True)
    assert sorted(map(len, rows)) == sorted(sizes)
    assert all(np.ptp(fold) == len(fold) - 1 for fold in rows)
    assert results["cvbooster"].boosters[0].predict(X).shape == (600, N_CLASSES + 1)


def test_numbers_of_the_estimator_are_rounds(stopped):
    (X, y), (_, X_valid, y_valid, losses) = make_data(), stopped
    options = {
        "num_leaves": 6,
        "min_child_samples": 5,
        "n_jobs": 1,
        "learning_rate": 0.4,
        "verbosity": -1,
        "method": "abcrobustlogit",
        "gap": 1,
        "warmup": 2,
    }
    model = ABCLGBMClassifier(n_estimators=100, **options)
    model.fit(X, y, eval_set=[(X_valid, y_valid)], callbacks=[lgb.early_stopping(5, verbose=False)])
    best = model.best_iteration_
    assert model.evals_result_["valid_0"]["multi_logloss"] == pytest.approx(losses)
    assert best == int(np.argmin(losses)) + 1 == model.n_estimators_ == len(model.base_classes_)
    expected = model.predict_proba(X_valid)
    np.testing.assert_array_equal(model.predict_proba(X_valid, num_iteration=best), expected)
    np.testing.assert_array_equal(model.predict(X_valid, num_iteration=best), model.predict(X_valid))
    again = ABCLGBMClassifier(n_estimators=best, **options).fit(X, y)
    np.testing.assert_allclose(again.predict_proba(X_valid), expected, atol=1e-12)
    with pytest.raises(
        ValueError, match="num_iteration must be a number of rounds after which the model can be cut: 0, 1, 2"
    ):
        model.predict_proba(X_valid, num_iteration=best - 1)
    assert log_loss(model.predict_proba(X_valid, num_iteration=2), y_valid) == pytest.approx(losses[1], rel=1e-9)
    model = ABCLGBMClassifier(n_estimators=best, layout="rounds", **options).fit(X, y)
    for n in range(1, best + 1):
        part = model.predict_proba(X_valid, num_iteration=n)
        assert log_loss(part, y_valid) == pytest.approx(losses[n - 1], rel=1e-9)
    first, rest = (
        model.predict(X_valid, raw_score=True, **cut) for cut in ({"num_iteration": 3}, {"start_iteration": 3})
    )
    np.testing.assert_allclose(first + rest, model.predict(X_valid, raw_score=True), atol=1e-9)


@pytest.mark.parametrize(
    "given",
    [
        {"monotone_constraints": np.zeros(6, dtype=int)},
        {"monotone_constraints": "0,0,0,0,0,0"},
        {"monotone_constraints": [0] * 6},
        {"linear_tree": "false"},
        {"linear_tree": None},
        {"objective": "MULTICLASS"},
    ],
)
def test_values_that_change_nothing_are_taken(data, params, given):
    X, y = data
    plain = abc_lgbm.train(params, lgb.Dataset(X, y), 2).predict(X)
    np.testing.assert_array_equal(abc_lgbm.train({**params, **given}, lgb.Dataset(X, y), 2).predict(X), plain)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"monotone_constraints": np.array([0, 1, 0, 0, 0, 0])}, "monotone_constraints must be unset"),
        ({"monotone_constraints": "0,-1"}, "monotone_constraints must be unset"),
        ({"monotone_constraints": "up"}, "monotone_constraints must be numbers; got 'up'"),
        ({"max_delta_step": "much"}, "max_delta_step must be a number; got 'much'"),
        ({"linear_tree": "true"}, "linear_tree must be False"),
        ({"objective": "REGRESSION"}, "directional trees and base classes belong to the softmax loss"),
    ],
)
def test_what_is_refused_is_named(data, params, given, message):
    with pytest.raises(ValueError, match=message):
        abc_lgbm.train({**params, **given}, lgb.Dataset(*data), 2)
