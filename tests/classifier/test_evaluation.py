"""Evaluation sets, metrics and early stopping."""

import numpy as np
import pytest

from .conftest import accuracy, assert_same_models, quick


def own_log_loss(y_true, y_proba, weight):
    codes = np.searchsorted([0, 1, 2, 3], y_true)
    return "own", np.average(-np.log(y_proba[np.arange(y_true.size), codes]), weights=weight), False


def test_several_sets_and_metrics(data):
    weights = 1.0 + np.arange(80) % 3
    model = quick(eval_metric=["logloss", "error", own_log_loss, accuracy]).fit(
        data.X, data.y, sample_weight=weights, eval_set=[(data.X, data.y, weights), (data.X[:40], data.y[:40])]
    )
    assert {name: set(metrics) for name, metrics in model.evals_result_.items()} == {
        name: {"logloss", "error", "own", "accuracy"} for name in ("valid_0", "valid_1")
    }
    first, second = model.evals_result_["valid_0"], model.evals_result_["valid_1"]
    np.testing.assert_allclose(first["logloss"], model.train_loss_ / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(first["own"], first["logloss"], rtol=1e-12)
    for m, predicted in enumerate(model.staged_predict(data.X)):
        assert first["error"][m] == pytest.approx(np.average(predicted != data.y, weights=weights))
        assert second["accuracy"][m] == pytest.approx(np.mean(predicted[:40] == data.y[:40]))
        assert second["error"][m] == pytest.approx(1 - second["accuracy"][m])


@pytest.mark.parametrize("name", ["logloss", "multi_logloss", "mlogloss", ["log_loss", "mlogloss"]], ids=str)
def test_a_metric_under_other_names_is_counted_once(data, name):
    model = quick(eval_metric=name).fit(data.X, data.y, eval_set=(data.X, data.y))
    given = name if isinstance(name, str) else name[0]
    assert {metric: len(values) for metric, values in model.evals_result_["valid_0"].items()} == {given: 6}


def test_early_stopping_with_an_evaluation_set(data):
    rng = np.random.default_rng(0)
    valid = (data.X_test, rng.integers(0, 4, data.X_test.shape[0]))
    model = quick(n_estimators=200, early_stopping_rounds=3).fit(data.X, data.y, eval_set=[valid])
    losses = model.evals_result_["valid_0"]["logloss"]
    assert model.best_iteration_ == np.argmin(losses) + 1
    assert len(losses) == model.model_.n_rounds == model.best_iteration_ + 3
    staged = list(model.staged_predict_proba(data.X_test))
    np.testing.assert_array_equal(model.predict_proba(data.X_test), staged[model.best_iteration_ - 1])


def test_early_stopping_without_an_evaluation_set(make_data):
    data = make_data(3, 200)
    options = {"n_estimators": 200, "learning_rate": 0.5, "early_stopping_rounds": 2, "validation_fraction": 0.25,
               "refit": False}  # fmt: skip
    model = quick(**options, random_state=1).fit(data.X, data.y)
    losses = model.evals_result_["validation"]["logloss"]
    assert model.best_iteration_ == np.argmin(losses) + 1 < model.model_.n_rounds < 200
    root = next(model.model_.trees())
    assert root.weight[0] == 150
    assert_same_models(model, quick(**options, random_state=1).fit(data.X, data.y), data.X_test)
    assert quick(**options, random_state=2).fit(data.X, data.y).train_loss_[0] != model.train_loss_[0]


@pytest.mark.parametrize(
    ("eval_set", "error", "message"),
    [
        ("valid", TypeError, r"eval_set must be a list of \(X, y\) or \(X, y, sample_weight\) tuples; got 'str'"),
        ([np.ones(3)], TypeError, r"eval_set\[0\] must be a tuple \(X, y\) or \(X, y, sample_weight\); got 'ndarray'"),
        ([(1, 2, 3, 4)], ValueError, r"eval_set\[0\] must be a tuple \(X, y\) or \(X, y, sample_weight\); got 4 parts"),
        ([(np.ones((2, 4)), [0])], ValueError, r"X and y in eval_set\[0\] must have the same number of samples"),
        ([(np.ones((2, 3)), [0, 1])], ValueError, r"X of eval_set\[0\] has 3 features, but .* expecting 4"),
        ([(np.ones((2, 4)), [0, 9])], ValueError, r"y of eval_set\[0\] has labels that are not among the classes"),
        ([(np.ones((2, 4)), [0, 1], [1, -1])], ValueError, r"sample_weight\[1\] must be 0 or larger"),
    ],
)
def test_impossible_evaluation_sets(data, eval_set, error, message):
    with pytest.raises(error, match=message):
        quick().fit(data.X, data.y, eval_set=eval_set)


@pytest.mark.parametrize(
    ("eval_metric", "error", "message"),
    [
        ("rmse", ValueError, "eval_metric must be 'logloss', 'error', 'accuracy', .* a function .*; got 'rmse'"),
        ("top_0", ValueError, "eval_metric must be 'logloss', .* 'top_3', .* a function .*; got 'top_0'"),
        (3, TypeError, "eval_metric must be 'logloss', 'error', 'accuracy', .* a function .*; got 3"),
        ([], ValueError, "eval_metric must be at least one metric"),
        (lambda y, p: y[0] + p[0, 0], TypeError, r"returns \(name, value, higher_is_better\); it returned"),
        (lambda y, p: None, TypeError, r"returns \(name, value, higher_is_better\); it returned None\."),  # noqa: ARG005
        (
            [accuracy, lambda y, p: accuracy(y, p)],
            ValueError,
            "got two metrics called 'accuracy'",
        ),
    ],
)
def test_impossible_metrics(data, eval_metric, error, message):
    with pytest.raises(error, match=message):
        quick(eval_metric=eval_metric).fit(data.X, data.y, eval_set=[(data.X, data.y)])
