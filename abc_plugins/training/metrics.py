"""Metrics that have a name: what they are of weighted class probabilities."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np

from abc_plugins.core.runtime.arrays import Floats, Integers

Metric = Callable[[Floats, Integers, Floats], float]
"""metric(probabilities of shape (n_samples, n_classes), class indices, weights) -> value."""

ALIASES = {
    "multi_logloss": "logloss",
    "mlogloss": "logloss",
    "log_loss": "logloss",
    "multi_error": "error",
    "merror": "error",
    "macro_f1": "f1_macro",
    "brier_score": "brier",
    "roc_auc": "auc",
    "roc_auc_ovr": "auc",
}
"""Names of other libraries, and other ways to write ours."""

_TOP = re.compile(r"top_([1-9][0-9]{0,5})")


def find_metric(name: str) -> tuple[Metric, bool] | None:
    """The metric of this name (not an alias), and whether higher is better; None if there is none."""
    top = _TOP.fullmatch(name)
    if top is not None:
        return partial(_top, int(top[1])), True
    return _NAMED.get(name) or _SCORERS.get(name)


def metric_names() -> str:
    """Names to choose from, as text."""
    return ", ".join(repr(name) for name in ("logloss", *_NAMED, "top_3"))


def _error(proba: Floats, codes: Integers, weights: Floats) -> float:
    return float(np.average(proba.argmax(axis=1) != codes, weights=weights))


def _accuracy(proba: Floats, codes: Integers, weights: Floats) -> float:
    return float(np.average(proba.argmax(axis=1) == codes, weights=weights))


def _totals(proba: Floats, codes: Integers, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Weight of the samples of every class, of those predicted to be of it, and of those that rightly are."""
    n_classes, predicted = proba.shape[1], proba.argmax(axis=1)
    right = predicted == codes
    actual = np.bincount(codes, weights=weights, minlength=n_classes)
    claimed = np.bincount(predicted, weights=weights, minlength=n_classes)
    correct = np.bincount(codes[right], weights=weights[right], minlength=n_classes)
    return np.asarray(actual, float), np.asarray(claimed, float), np.asarray(correct, float)


def _balanced_accuracy(proba: Floats, codes: Integers, weights: Floats) -> float:
    """Mean over the classes that there are of the share that is recognised."""
    actual, _, correct = _totals(proba, codes, weights)
    there = actual > 0.0
    return float((correct[there] / actual[there]).mean())


def _f1_macro(proba: Floats, codes: Integers, weights: Floats) -> float:
    """Mean of the F1 scores of the classes that there are or that are predicted."""
    actual, claimed, correct = _totals(proba, codes, weights)
    there = actual + claimed > 0.0
    return float((2.0 * correct[there] / (actual + claimed)[there]).mean())


def _auc(proba: Floats, codes: Integers, weights: Floats) -> float:
    """Mean over classes of the area under the ROC curve of the class against the rest; NaN if there is but one."""
    from sklearn.metrics import roc_auc_score

    if proba.shape[1] == 2:
        classes = [1] if 0 < np.count_nonzero(codes) < codes.size else []
    else:
        classes = [k for k in range(proba.shape[1]) if 0 < np.count_nonzero(codes == k) < codes.size]
    areas = [roc_auc_score(codes == k, proba[:, k], sample_weight=weights) for k in classes]
    return float(np.mean(areas)) if areas else float("nan")


def _brier(proba: Floats, codes: Integers, weights: Floats) -> float:
    """Mean of the squared distance between the probabilities and the truth, from 0 to 2."""
    squares = (proba**2).sum(axis=1) - 2.0 * proba[np.arange(codes.size), codes] + 1.0
    return float(np.average(squares, weights=weights))


def _negative_brier(proba: Floats, codes: Integers, weights: Floats) -> float:
    """As scikit-learn has it: of two classes half of ours."""
    return -_brier(proba, codes, weights) / (2.0 if proba.shape[1] == 2 else 1.0)


def _top(k: int, proba: Floats, codes: Integers, weights: Floats) -> float:
    """Share of the samples whose class is among the `k` most probable; of equal ones, the first count."""
    own = proba[np.arange(codes.size), codes][:, None]
    earlier = np.arange(proba.shape[1]) < codes[:, None]
    rank = ((proba > own) | ((proba == own) & earlier)).sum(axis=1)
    return float(np.average(rank < k, weights=weights))


_NAMED: dict[str, tuple[Metric, bool]] = {
    "error": (_error, False),
    "accuracy": (_accuracy, True),
    "balanced_accuracy": (_balanced_accuracy, True),
    "f1_macro": (_f1_macro, True),
    "auc": (_auc, True),
    "brier": (_brier, False),
}

_SCORERS: dict[str, tuple[Metric, bool]] = {
    "neg_brier_score": (_negative_brier, True),
    "top_k_accuracy": (partial(_top, 2), True),
}
"""Scorers of scikit-learn that we compute ourselves: its own refuse samples that lack a class."""
