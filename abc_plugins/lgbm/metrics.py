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


def parse_metrics(
    metric: Any, *, top_k: int, auc_mu_weights: Sequence[float] | Floats | None, n_classes: int
) -> list[Metric]:
    """Translate LightGBM's parameter `metric`: None and [] are the objective's own, a string may hold several.

    Raises
    ------
    ValueError
        For a metric that is not one of LightGBM's multi-class metrics.
    """
    given = [metric] if metric is None or isinstance(metric, str) else list(metric) or [None]
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
    """AUC mu of Kleiman and Page (2019): the average over pairs of classes of the AUC of their separation.

    A pair (i, j) is separated by `factor * (separation[i] - separation[j])`. The pairs of one i are ranked together.
    """
    n_classes = data.scores.shape[0]
    by_class = np.argsort(data.labels, kind="stable")
    labels = data.labels[by_class]
    weights = np.ones(labels.size) if data.weights is None else data.weights[by_class]
    starts = np.searchsorted(labels, np.arange(n_classes + 1))
    # What all classes have in common does not matter. Without it, default weights leave the scores as they are.
    separation = (class_weights - class_weights.max(axis=0)) @ data.scores[:, by_class]
    own = np.diag(class_weights)
    factors = own[:, None] - class_weights.T - class_weights + own
    total = 0.0
    for i in range(n_classes - 1):
        first, later = slice(starts[i], starts[i + 1]), slice(starts[i + 1], None)
        factor, other = factors[i, i + 1 :], labels[later]
        ahead = factor[:, None] * (separation[i, first] - separation[i + 1 :, first])
        behind = factors[i, other] * (separation[i, later] - separation[other, starts[i + 1] + np.arange(other.size)])
        total += _auc_of_groups(ahead, weights[first], behind, weights[later], other - i - 1)
    return 2.0 * total / (n_classes * (n_classes - 1.0))


def _auc_of_groups(
    first: Floats, first_weights: Floats, second: Floats, second_weights: Floats, group: AnyArray
) -> float:
    """Sum over groups of the share of pairs with first > second, ties counting half.

    Parameters
    ----------
    first : array of shape (n_groups, n_first)
    first_weights : array of shape (n_first,)
    second, second_weights, group : arrays of shape (n_second,)

    Returns
    -------
    total : float
        nan if a group has nothing to compare, as in LightGBM.
    """
    n_groups, n_first = first.shape
    groups = np.concatenate([np.repeat(np.arange(n_groups), n_first), group])
    values = np.concatenate([first.ravel(), second])
    order = np.lexsort((values, groups))
    groups, values = groups[order], values[order]
    weights_ahead = np.concatenate([np.tile(first_weights, n_groups), np.zeros(second.size)])[order]
    weights_behind = np.concatenate([np.zeros(first.size), second_weights])[order]
    passed = np.concatenate([[0.0], np.cumsum(weights_behind)])
    is_new = np.concatenate([[True], (np.diff(values) != 0.0) | (np.diff(groups) != 0)])
    begins = np.append(np.flatnonzero(is_new), values.size)
    tie = np.cumsum(is_new) - 1
    before_group = passed[np.searchsorted(groups, np.arange(n_groups))]
    below = 0.5 * (passed[begins[tie]] + passed[begins[tie + 1]]) - before_group[groups]
    wins = np.bincount(groups, weights_ahead * below, minlength=n_groups)
    with np.errstate(invalid="ignore"):
        pairs = first_weights.sum() * np.bincount(group, second_weights, minlength=n_groups)
        return float((wins / pairs).sum())


def _auc_mu_matrix(auc_mu_weights: Sequence[float] | Floats | None, n_classes: int) -> Floats:
    if auc_mu_weights is None or len(auc_mu_weights) == 0:
        return 1.0 - np.eye(n_classes)
    if len(auc_mu_weights) != n_classes**2:
        fail("auc_mu_weights", f"{len(auc_mu_weights)} values", f"{n_classes**2} values, one for each pair of classes")
    return np.asarray(auc_mu_weights, dtype=np.float64).reshape(n_classes, n_classes)
