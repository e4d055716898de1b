"""LightGBM's built-in multi-class metrics, computed from the scores that ABC-Boost keeps itself.

LightGBM can only evaluate the sums of its own trees, which are not the scores. Names, values and directions here
are those that `lightgbm.train` reports for objective multiclass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import fail

_NAMES = {
    **dict.fromkeys(
        ("multi_logloss", "multiclass", "softmax", "multiclassova", "multiclass_ova", "ova", "ovr"), "multi_logloss"
    ),
    "multi_error": "multi_error",
    "auc_mu": "auc_mu",
}
_NONE = ("None", "none", "na", "null", "custom")
_SMALLEST_PROBABILITY = 1e-15


class Evaluated(NamedTuple):
    """One data set to evaluate.

    Attributes
    ----------
    scores, probabilities : array of shape (n_classes, n_samples)
    labels : array of int, shape (n_samples,)
    weights : array of shape (n_samples,), or None
    """

    scores: Floats
    probabilities: Floats
    labels: AnyArray
    weights: Floats | None


class Metric(NamedTuple):
    """A metric as LightGBM reports it."""

    name: str
    maximize: bool
    value: Callable[[Evaluated], float]


def parse_metrics(metric: Any, *, top_k: int, auc_mu_weights: Sequence[float] | None, n_classes: int) -> list[Metric]:
    """Translate LightGBM's parameter `metric`: None is the objective's own, a string may hold several.

    Raises
    ------
    ValueError
        For a metric that is not one of LightGBM's multi-class metrics.
    """
    given = [metric] if metric is None or isinstance(metric, str) else list(metric)
    names: list[str] = []
    for text in given:
        for name in ("",) if text is None else (part.strip() for part in str(text).split(",")):
            if name in _NONE:
                continue
            if name and name not in _NAMES:
                fail("metric", name, f"one of {', '.join(map(repr, _NAMES))} or 'None'")
            names.append(_NAMES[name] if name else "multi_logloss")
    available = {
        "multi_logloss": Metric("multi_logloss", False, multi_logloss),
        "multi_error": Metric(
            "multi_error" if top_k == 1 else f"multi_error@{top_k}", False, lambda data: multi_error(data, top_k)
        ),
        "auc_mu": Metric("auc_mu", True, lambda data: auc_mu(data, _auc_mu_matrix(auc_mu_weights, n_classes))),
    }
    return [available[name] for name in dict.fromkeys(names)]


def multi_logloss(data: Evaluated) -> float:
    """Average log loss."""
    own = data.probabilities[data.labels, np.arange(data.labels.size)]
    return float(np.average(-np.log(np.maximum(own, _SMALLEST_PROBABILITY)), weights=data.weights))


def multi_error(data: Evaluated, top_k: int = 1) -> float:
    """Share of samples whose class is not among the `top_k` best; of equal scores the own one counts as last."""
    own = data.probabilities[data.labels, np.arange(data.labels.size)]
    rank = (data.probabilities >= own).sum(axis=0)
    return float(np.average(rank > top_k, weights=data.weights))


def auc_mu(data: Evaluated, class_weights: Floats) -> float:
    """AUC mu of Kleiman and Page (2019): the average over pairs of classes of the AUC of their separation."""
    n_classes = data.scores.shape[0]
    weights = np.ones(data.labels.size) if data.weights is None else data.weights
    members = [np.flatnonzero(data.labels == k) for k in range(n_classes)]
    total = 0.0
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            direction = class_weights[i] - class_weights[j]
            direction = (direction[i] - direction[j]) * direction
            used = np.flatnonzero(direction)
            first = direction[used] @ data.scores[np.ix_(used, members[i])]
            second = direction[used] @ data.scores[np.ix_(used, members[j])]
            total += _auc(first, weights[members[i]], second, weights[members[j]])
    return 2.0 * total / (n_classes * (n_classes - 1.0))


def _auc(first: Floats, first_weights: Floats, second: Floats, second_weights: Floats) -> float:
    """Share of pairs with first > second, ties counting half; nan if a class is empty, as in LightGBM."""
    if not first.size or not second.size:
        return float("nan")
    order = np.argsort(second)
    cumulated = np.concatenate(([0.0], np.cumsum(second_weights[order])))
    below = cumulated[np.searchsorted(second[order], first, side="left")]
    not_above = cumulated[np.searchsorted(second[order], first, side="right")]
    return float(first_weights @ (0.5 * (below + not_above)) / (first_weights.sum() * cumulated[-1]))


def _auc_mu_matrix(auc_mu_weights: Sequence[float] | None, n_classes: int) -> Floats:
    if auc_mu_weights is None or len(auc_mu_weights) == 0:
        return 1.0 - np.eye(n_classes)
    if len(auc_mu_weights) != n_classes**2:
        fail("auc_mu_weights", f"{len(auc_mu_weights)} values", f"{n_classes**2} values, one for each pair of classes")
    return np.asarray(auc_mu_weights, dtype=np.float64).reshape(n_classes, n_classes)
