"""Evaluation sets and metrics during training."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from abc_plugins.core.losses import mean_loss
from abc_plugins.core.model.ensemble import FlatTrees
from abc_plugins.core.model.predicting import add_tree_scores
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.sparse_table import Table

MetricFunction = Callable[..., tuple[str, float, bool]]
"""metric(y_true, y_proba) or metric(y_true, y_proba, weight) -> (name, value, higher is better), as in LightGBM."""


@dataclass
class EvalSet:
    """Samples that are scored after every round.

    Attributes
    ----------
    name : str
    X : array or SparseTable, shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Labels as the user gave them.
    codes : array of int32, shape (n_samples,)
        Class indices of the labels.
    weights : array of float64, shape (n_samples,)
    scores : array of float64, shape (n_samples, n_classes)
    """

    name: str
    X: Table
    y: AnyArray
    codes: Integers
    weights: Floats
    scores: Floats

    def add_round(self, trees: FlatTrees, workers: Workers) -> None:
        """Add the trees of one round to the scores."""
        add_tree_scores(self.X, trees, 0, 1, self.scores, workers)


def softmax(scores: Floats) -> Floats:
    """Probabilities of scores of shape (n_samples, n_classes)."""
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def _log_loss(eval_set: EvalSet) -> float:
    return float(mean_loss(eval_set.scores, eval_set.codes, eval_set.weights))


def _error(eval_set: EvalSet) -> float:
    return float(np.average(eval_set.scores.argmax(axis=1) != eval_set.codes, weights=eval_set.weights))


_BUILT_IN: dict[str, Callable[[EvalSet], float]] = {"logloss": _log_loss, "error": _error}
_ALIASES = {
    "multi_logloss": "logloss",
    "mlogloss": "logloss",
    "log_loss": "logloss",
    "multi_error": "error",
    "merror": "error",
}


class Metrics:
    """The metrics of a training run.

    Parameters
    ----------
    eval_metric : str, callable, or list of them
        "logloss" or "error" (LightGBM's and XGBoost's names for them are understood), or functions as described
        at `MetricFunction`.
    """

    def __init__(self, eval_metric: Any) -> None:
        several = isinstance(eval_metric, list | tuple)
        # The same metric under two names is one.
        resolved = dict.fromkeys(self._resolve(metric) for metric in (eval_metric if several else [eval_metric]))
        self._metrics = list(resolved)
        if not self._metrics:
            fail("eval_metric", eval_metric, "at least one metric")
        self.higher_is_better: dict[str, bool] = {}

    @staticmethod
    def _resolve(metric: Any) -> str | MetricFunction:
        if callable(metric):
            return metric
        name = _ALIASES.get(metric, metric) if isinstance(metric, str) else metric
        if not isinstance(name, str) or name not in _BUILT_IN:
            allowed = ", ".join(repr(known) for known in _BUILT_IN)
            fail(
                "eval_metric",
                metric,
                f"{allowed}, a function (y_true, y_proba) -> (name, value, higher_is_better), or a list of them",
                ValueError if isinstance(metric, str) else TypeError,
            )
        return name

    def evaluate(self, eval_set: EvalSet) -> list[tuple[str, float]]:
        """Name and value of every metric on one evaluation set."""
        results: list[tuple[str, float]] = []
        for metric in self._metrics:
            if isinstance(metric, str):
                name, value, higher = metric, _BUILT_IN[metric](eval_set), False
            else:
                name, value, higher = _call_metric(metric, eval_set)
            if any(name == earlier for earlier, _ in results):
                fail("eval_metric", f"two functions that call it {name!r}", "metrics with different names")
            self.higher_is_better[name] = higher
            results.append((name, value))
        return results


def _call_metric(metric: MetricFunction, eval_set: EvalSet) -> tuple[str, float, bool]:
    arguments = [eval_set.y, softmax(eval_set.scores), eval_set.weights]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(metric).parameters.values()
    wanted = 3 if sum(parameter.kind in positional for parameter in parameters) >= 3 else 2
    result = metric(*arguments[:wanted])
    if not isinstance(result, tuple) or len(result) != 3:
        fail("eval_metric", result, "a function that returns (name, value, higher_is_better)", TypeError)
    name, value, higher = result
    return str(name), float(value), bool(higher)
