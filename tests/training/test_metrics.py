"""Metrics by name and scorers, against scikit-learn's own."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.runtime.values import softmax
from abc_plugins.training.evaluation import EvalSet, Metrics

CLASSES = np.array(["a", "b", "c", "d"])


def make_set(weighted, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, 60).astype(np.int32)
    scores = rng.normal(size=(60, n_classes)).round(1) + np.eye(n_classes)[codes]
    weights = rng.uniform(0.2, 3.0, 60) if weighted else np.ones(60)
    classes = CLASSES[:n_classes]
    return EvalSet("valid", np.zeros((60, 1)), classes[codes], codes, weights, scores, classes)


def expected(name, y, proba, predicted, weights, labels):
    weight = {"sample_weight": weights}
    return {
        "logloss": lambda: metrics.log_loss(y, proba, labels=labels, **weight),
        "error": lambda: 1 - metrics.accuracy_score(y, predicted, **weight),
        "accuracy": lambda: metrics.accuracy_score(y, predicted, **weight),
        "balanced_accuracy": lambda: metrics.balanced_accuracy_score(y, predicted, **weight),
        "f1_macro": lambda: metrics.f1_score(y, predicted, average="macro", **weight),
        "auc": lambda: np.mean([metrics.roc_auc_score(y == k, proba[:, i], **weight) for i, k in enumerate(labels)]),
        "brier": lambda: np.average(((proba - (y[:, None] == labels)) ** 2).sum(axis=1), weights=weights),
        "top_2": lambda: metrics.top_k_accuracy_score(y, proba, k=2, labels=labels, **weight),
        "top_4": lambda: 1.0,
    }[name]()  # fmt: skip


NAMES = ["logloss", "error", "accuracy", "balanced_accuracy", "f1_macro", "auc", "brier", "top_2", "top_4"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_metrics_by_name(name, weighted):
    of = make_set(weighted)
    proba = softmax(of.scores)
    predicted = CLASSES[proba.argmax(axis=1)]
    evaluated = Metrics(name)
    ((found, value),) = evaluated.evaluate(of)
    assert found == name
    assert value == pytest.approx(expected(name, of.y, proba, predicted, of.weights, CLASSES), rel=1e-9)
    assert evaluated.higher_is_better == {name: name not in ("logloss", "error", "brier")}


def test_results_have_the_names_that_the_user_gave():
    of = make_set(False)
    evaluated = Metrics(["multi_logloss", "logloss", "merror", "macro_f1"])
    values, plain = dict(evaluated.evaluate(of)), dict(Metrics(["logloss", "error", "f1_macro"]).evaluate(of))
    assert list(values) == ["multi_logloss", "merror", "macro_f1"] == list(evaluated.higher_is_better)
    assert list(values.values()) == list(plain.values())


def test_two_classes_have_the_usual_area():
    of = make_set(True, n_classes=2)
    ((_, value),) = Metrics("auc").evaluate(of)
    assert value == pytest.approx(metrics.roc_auc_score(of.codes, softmax(of.scores)[:, 1], sample_weight=of.weights))


def test_classes_that_a_set_lacks_do_not_count():
    of = make_set(False)
    of.codes[:] = of.codes % 2
    with np.errstate(all="raise"):
        values = dict(Metrics(["auc", "balanced_accuracy", "f1_macro"]).evaluate(of))
    predicted = of.scores.argmax(axis=1)
    assert values["balanced_accuracy"] == pytest.approx(
        np.mean([(predicted[of.codes == k] == k).mean() for k in (0, 1)])
    )
    assert values["f1_macro"] == pytest.approx(metrics.f1_score(of.codes, predicted, average="macro"))
    of.codes[:] = 0
    assert np.isnan(dict(Metrics("auc").evaluate(of))["auc"])


@pytest.mark.parametrize("weighted", [False, True])
def test_scorers(weighted):
    of = make_set(weighted)
    proba = softmax(of.scores)
    predicted = CLASSES[proba.argmax(axis=1)]
    own = metrics.make_scorer(metrics.cohen_kappa_score)
    names = ["neg_log_loss", "f1_weighted", own, metrics.get_scorer("matthews_corrcoef")]
    evaluated = Metrics(names)
    values = dict(evaluated.evaluate(of))
    assert list(values) == ["neg_log_loss", "f1_weighted", "cohen_kappa_score", "matthews_corrcoef"]
    assert all(evaluated.higher_is_better.values())
    weight = {"sample_weight": of.weights}
    assert values["neg_log_loss"] == pytest.approx(-metrics.log_loss(of.y, proba, **weight))
    assert values["f1_weighted"] == pytest.approx(metrics.f1_score(of.y, predicted, average="weighted", **weight))
    assert values["cohen_kappa_score"] == pytest.approx(metrics.cohen_kappa_score(of.y, predicted, **weight))
    assert values["matthews_corrcoef"] == pytest.approx(metrics.matthews_corrcoef(of.y, predicted, **weight))


def test_a_score_stops_the_training_when_it_falls(make_data):
    data = make_data(3, 120)
    model = ABCBoostClassifier(
        n_estimators=80, early_stopping_rounds=5, eval_metric="balanced_accuracy", max_depth=2, n_jobs=1, random_state=0
    )
    model.fit(data.X[:80], data.y[:80], eval_set=[(data.X[80:], data.y[80:])])
    scores = model.evals_result_["valid_0"]["balanced_accuracy"]
    assert model.best_iteration_ == np.argmax(scores) + 1
    assert len(scores) == model.best_iteration_ + 5


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scorers_that_are_computed_here_are_those_of_scikit_learn(n_classes):
    of = make_set(True, n_classes)
    proba = softmax(of.scores)
    values = dict(Metrics(["neg_brier_score", "neg_log_loss"]).evaluate(of))
    squares = ((proba - np.eye(n_classes)[of.codes]) ** 2).sum(axis=1)
    expected_brier = np.average(squares, weights=of.weights) / (2 if n_classes == 2 else 1)
    assert values["neg_brier_score"] == pytest.approx(-expected_brier)
    assert values["neg_log_loss"] == pytest.approx(-metrics.log_loss(of.y, proba, sample_weight=of.weights))
    if n_classes == 2:
        brier = metrics.brier_score_loss(of.codes, proba[:, 1], sample_weight=of.weights)
        assert values["neg_brier_score"] == pytest.approx(-brier)
    else:
        top = metrics.top_k_accuracy_score(of.y, proba, sample_weight=of.weights)
        assert dict(Metrics("top_k_accuracy").evaluate(of))["top_k_accuracy"] == pytest.approx(top)


@pytest.mark.parametrize("metric", ["neg_log_loss", "neg_brier_score", "top_k_accuracy"])
def test_rows_that_are_held_out_may_lack_a_class(make_data, metric):
    data = make_data(3, 120)
    y = data.y.copy()
    y[:3] = 9
    options = {"n_estimators": 20, "early_stopping_rounds": 3, "n_jobs": 1, "random_state": 0}
    fitted = ABCBoostClassifier(eval_metric=metric, **options).fit(data.X, y)
    assert np.isfinite(fitted.best_score_["validation"][metric])


def test_errors_of_scorers_name_metric_and_set():
    of = make_set(False)
    of.codes[:] = 0
    of.y[:] = "a"
    with pytest.raises(
        ValueError, match="eval_metric 'roc_auc_ovo' cannot be computed on the evaluation set 'valid': "
    ):
        Metrics("roc_auc_ovo").evaluate(of)
