"""Built-in metrics against LightGBM's own values on the same scores."""

import lightgbm as lgb
import numpy as np
import pytest

from abc_plugins.lgbm.metrics import Evaluated, parse_metrics

from .conftest import make_data


def lightgbm_values(scores, y, weights, **params):
    """Let LightGBM evaluate scores that it did not make: as initial scores of a booster without trees."""
    X, _ = make_data(y.size)
    data = lgb.Dataset(X, y, weight=weights, init_score=scores.T)
    booster = lgb.Booster({"objective": "multiclass", "num_class": scores.shape[0], "verbosity": -1, **params}, data)
    return {tuple(result)[1]: tuple(result)[2:4] for result in booster.eval_train()}


def softmax(scores):
    e = np.exp(scores - scores.max(axis=0))
    return e / e.sum(axis=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["smooth", "ties", "sure"])
@pytest.mark.parametrize("top_k", [1, 2])
def test_values_are_lightgbms(weighted, kind, top_k):
    rng = np.random.default_rng(5)
    _, y = make_data(400)
    scores = rng.normal(size=(5, 400)) + 1.5 * (np.arange(5)[:, None] == y)
    if kind == "ties":
        scores = np.round(scores)
    if kind == "sure":
        scores *= 40.0
    weights = rng.uniform(0.2, 3.0, 400).astype(np.float32) if weighted else None
    expected = lightgbm_values(
        scores, y, weights, metric=["multi_logloss", "multi_error", "auc_mu"], multi_error_top_k=top_k
    )
    metrics = parse_metrics("multi_logloss,multi_error,auc_mu", top_k=top_k, auc_mu_weights=None, n_classes=5)
    data = Evaluated(scores, softmax(scores), y, None if weights is None else weights.astype(float))
    assert [metric.name for metric in metrics] == list(expected)
    for metric in metrics:
        value, maximize = expected[metric.name]
        assert metric.value(data) == pytest.approx(value, rel=1e-6)
        assert metric.maximize == maximize


def test_auc_mu_weights():
    rng = np.random.default_rng(2)
    _, y = make_data(300, n_classes=3)
    scores = rng.normal(size=(3, 300)) + (np.arange(3)[:, None] == y)
    weights = [0, 1, 5, 2, 0, 1, 1, 3, 0]
    expected = lightgbm_values(scores, y, None, metric="auc_mu", auc_mu_weights=weights)
    (metric,) = parse_metrics(["auc_mu"], top_k=1, auc_mu_weights=weights, n_classes=3)
    assert metric.value(Evaluated(scores, softmax(scores), y, None)) == pytest.approx(expected["auc_mu"][0])
    with pytest.raises(ValueError, match="auc_mu_weights must be 9 values"):
        parse_metrics("auc_mu", top_k=1, auc_mu_weights=[1.0], n_classes=3)[0].value(
            Evaluated(scores, softmax(scores), y, None)
        )


def test_names():
    def names(metric):
        return [m.name for m in parse_metrics(metric, top_k=1, auc_mu_weights=None, n_classes=3)]

    assert (
        names(None)
        == names([])
        == names("")
        == names("softmax")
        == names(["multiclass", "multi_logloss"])
        == ["multi_logloss"]
    )
    assert names("None") == names(["None"]) == []
    assert names("auc_mu, multi_error") == ["auc_mu", "multi_error"]
    with pytest.raises(ValueError, match=r"metric must be one of .*got 'auc'"):
        names("auc")
