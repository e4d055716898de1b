"""Evaluation sets by X_val and by name, in pipelines; temperature."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from abc_plugins import ABCBoostClassifier
from abc_plugins.training.eval_sets import hold_out
from abc_plugins.training.evaluation import EvalSet

OPTIONS = {"n_estimators": 20, "num_leaves": 5, "max_depth": 3, "n_jobs": 1, "random_state": 0, "learning_rate": 0.3}


def model(**changes):
    return ABCBoostClassifier(**{**OPTIONS, **changes})


@pytest.fixture
def data(make_data):
    return make_data(3, 150, weights="integer")


def test_a_validation_set_is_an_evaluation_set(data):
    X, y, w = data.X, data.y, data.weights
    options = {"early_stopping_rounds": 3}
    one = model(**options).fit(X[:90], y[:90], X_val=X[90:], y_val=y[90:], sample_weight_val=w[90:])
    other = model(**options).fit(X[:90], y[:90], eval_set=[(X[90:], y[90:], w[90:])], eval_names=["validation"])
    assert one.evals_result_ == other.evals_result_
    assert list(one.evals_result_) == ["validation"]
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"X_val": np.ones((2, 4))}, ValueError, "X_val is provided, but y_val was not provided"),
        ({"y_val": [0]}, ValueError, "y_val is provided, but X_val was not provided"),
        ({"X_val": np.ones((2, 4)), "y_val": [0, 1], "eval_set": []}, ValueError, "eval_set must be None with X_val"),
        ({"X_val": np.ones((2, 3)), "y_val": [0, 1]}, ValueError, "X_val has 3 features"),
        ({"X_val": np.ones((2, 4)), "y_val": [0, 7]}, ValueError, "y_val has labels that are not among the classes"),
        ({"X_val": np.ones((2, 4)), "y_val": [0]}, ValueError, "X and y of X_val must have the same number of samples"),
        ({"eval_names": ["a"]}, ValueError, r"eval_names must be a list of 0 different names"),
        ({"eval_names": "a"}, TypeError, "eval_names must be a list of"),
        (
            {"X_val": np.ones((2, 4)), "y_val": [0, 1], "eval_names": ["a"]},
            ValueError,
            "eval_names must be None with X_val, which is called \"validation\"; got \\['a'\\]",
        ),
        ({"sample_weight_val": [1.0]}, ValueError, "sample_weight_val is provided, but X_val was not provided"),
        (
            {"eval_set": [(np.ones((2, 4)), [0, 1])], "eval_init_score": [[], []]},
            ValueError,
            "eval_init_score must be a list of scores for each of the 1 sets in eval_set; got 2 of them",
        ),
        ({"eval_init_score": 3}, TypeError, "eval_init_score must be a list of scores for .*; got 'int'"),
    ],
)
def test_impossible_validation_sets(data, given, error, message):
    with pytest.raises(error, match=message):
        model().fit(data.X, data.y, **given)


def test_names_of_evaluation_sets(data):
    sets = [(data.X, data.y), (data.X[:50], data.y[:50])]
    fitted = model().fit(data.X, data.y, eval_set=sets, eval_names=["all", "some"])
    assert list(fitted.evals_result_) == ["all", "some"]
    with pytest.raises(ValueError, match="eval_names must be a list of 2 different names"):
        model().fit(data.X, data.y, eval_set=sets, eval_names=["all", "all"])


def test_sets_may_be_in_a_tuple(data):
    sets = [(data.X, data.y), (data.X[:50], data.y[:50])]
    plain, fitted = (model().fit(data.X, data.y, eval_set=given) for given in (sets, tuple(sets)))
    assert fitted.evals_result_ == plain.evals_result_
    assert len(fitted.evals_result_) == 2


def test_the_only_row_of_a_class_is_trained_on():
    codes = np.repeat([0, 1, 3, 4], [60, 30, 1, 9]).astype(np.int32)  # and no row of class 2
    inner, held = hold_out(codes, 0.1, seed=0)
    np.testing.assert_array_equal(np.sort(np.concatenate([inner, held])), np.arange(100))
    assert np.bincount(codes[held]).tolist() == [6, 3, 0, 0, 1]


@pytest.mark.parametrize(("n_rows", "n_held"), [(2, 1), (5, 1), (21, 3)])
def test_rows_are_held_out_even_if_every_class_has_one(n_rows, n_held):
    inner, held = hold_out(np.arange(n_rows, dtype=np.int32), 0.1, seed=0)
    assert (inner.size, held.size) == (n_rows - n_held, n_held)


def test_a_pipeline_transforms_the_validation_set(data):
    with config_context(enable_metadata_routing=True):
        classifier = model(early_stopping_rounds=3).set_fit_request(X_val=True, y_val=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("model", classifier)], transform_input=["X_val"])
        pipeline.fit(data.X[:90], data.y[:90], X_val=data.X[90:], y_val=data.y[90:])
    scaler = StandardScaler().fit(data.X[:90])
    expected = model(early_stopping_rounds=3).fit(
        scaler.transform(data.X[:90]), data.y[:90], X_val=scaler.transform(data.X[90:]), y_val=data.y[90:]
    )
    assert pipeline["model"].evals_result_ == expected.evals_result_


@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
def test_a_temperature_makes_probabilities_right(make_data, method, tmp_path):
    """Of labels that are wrong for a third of the samples, a model that is trained too long is too sure."""
    data = make_data(3, 600)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(600) < 0.33, rng.integers(0, 3, 600), data.y)
    options = {"method": method, "n_estimators": 120, "num_leaves": 20, "max_depth": 6, "min_samples_leaf": 1}
    sets = {"eval_set": [(data.X[400:500], y[400:500])]}
    plain = model(**options).fit(data.X[:400], y[:400], **sets)
    warm = model(**options, calibration="temperature").fit(data.X[:400], y[:400], **sets)
    assert plain.temperature_ == 1.0 < warm.temperature_
    np.testing.assert_allclose(
        warm.decision_function(data.X) * warm.temperature_, plain.decision_function(data.X), rtol=1e-9, atol=1e-9
    )

    def loss(fitted, rows, factor=1.0):
        scores = fitted.decision_function(data.X[rows]) * factor
        return np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(scores.shape[0]), y[rows]])

    held, new = slice(400, 500), slice(500, 600)
    assert loss(warm, held) < min(loss(warm, held, 1.02), loss(warm, held, 0.98))
    assert loss(warm, new) < loss(plain, new)
    warm.save_model(tmp_path / "model")
    loaded = ABCBoostClassifier.load_model(tmp_path / "model")
    assert loaded.temperature_ == warm.temperature_
    np.testing.assert_array_equal(loaded.predict_proba(data.X), warm.predict_proba(data.X))


def test_a_refitted_model_has_the_temperature_of_the_first(data):
    options = {"early_stopping_rounds": 4, "calibration": "temperature"}
    first, second = (model(**options, refit=refit).fit(data.X, data.y) for refit in (False, True))
    assert first.temperature_ == second.temperature_ != 1.0
    plain = model(early_stopping_rounds=4).fit(data.X, data.y)
    np.testing.assert_allclose(
        second.decision_function(data.X) * second.temperature_, plain.decision_function(data.X), rtol=1e-9, atol=1e-9
    )


def test_a_temperature_needs_held_out_samples(data):
    with pytest.raises(ValueError, match="calibration must be None without evaluation sets and early stopping"):
        model(calibration="temperature").fit(data.X, data.y)
    with pytest.raises(ValueError, match="calibration must be None with init_score"):
        model(calibration="temperature", early_stopping=True).fit(data.X, data.y, init_score=np.zeros((150, 3)))


@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_evaluation_sets_are_converted_once(make_data, monkeypatch, method, dtype):
    data = make_data(3, 120)
    X = np.asfortranarray(np.nan_to_num(8 * data.X).astype(dtype))
    seen = []
    add_round = EvalSet.add_round

    def look(self, *given):
        seen.append(self.X)
        add_round(self, *given)

    monkeypatch.setattr(EvalSet, "add_round", look)
    ABCBoostClassifier(method=method, n_estimators=4, n_jobs=1).fit(X, data.y, eval_set=[(X, data.y)])
    assert len(seen) == 4
    assert all(one is seen[0] for one in seen)
    assert seen[0].dtype == np.float64
    assert seen[0].flags.c_contiguous
