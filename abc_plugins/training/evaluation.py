"""Evaluation sets and metrics during training."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from abc_plugins.core.directional.leaf_vectors import LEAST_PROBABILITY, ProbabilityRows
from abc_plugins.core.losses import mean_loss
from abc_plugins.core.model.ensemble import FlatTrees
from abc_plugins.core.model.predicting import add_tree_scores, find_value_rows
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.sparse_table import SparseTable, Table
from abc_plugins.core.runtime.values import softmax
from abc_plugins.training.metrics import ALIASES, find_metric, metric_names

_LOG_LOSS = "logloss"
"""Computed from scores, which is faster and has no rounding of small probabilities."""

_NEGATIVE_LOG_LOSS = "neg_log_loss"
"""scikit-learn's, which would refuse samples that lack a class."""

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
        Not up to date if probabilities are kept in their place, see `start`.
    classes : array of shape (n_classes,)
        Labels of all classes, those that these samples lack included.
    given_scores : array of shape (n_samples, n_classes) or None
        Scores before the first round; None: those that a model starts with.
    """

    name: str
    X: Table
    y: AnyArray
    codes: Integers
    weights: Floats
    scores: Floats
    classes: AnyArray
    given_scores: Floats | None = None
    _rows: ProbabilityRows | None = None
    _total_weight: float = 0.0

    def start(self, scores: Floats, max_leaves: int | None, workers: Workers) -> None:
        """Set the scores before the first round, shape (n_classes,), unless the samples have their own.

        With `max_leaves`, the most leaves of a tree, probabilities are kept in place of scores: trees that move all
        classes change them with one exponential per leaf and class.
        """
        self.scores[:] = scores if self.given_scores is None else self.given_scores
        self._rows = None
        self._total_weight = float(self.weights.sum())
        if not isinstance(self.X, SparseTable):
            self.X = np.ascontiguousarray(self.X, dtype=np.float64)  # else every round would copy it
        if max_leaves is not None:
            self._rows = ProbabilityRows(self.codes, self.weights, softmax(self.scores[:1])[0], max_leaves, workers)
            if self.given_scores is not None:
                self._rows.set_probabilities(np.maximum(softmax(self.scores), LEAST_PROBABILITY))

    @property
    def state(self) -> Floats:
        """Scores or probabilities, whichever are kept: all that the rounds so far have left."""
        return self.scores if self._rows is None else self._rows.probabilities

    def set_state(self, state: Floats) -> None:
        """Go on from what `state` was, after `start`."""
        if self._rows is None:
            self.scores[:] = state
        else:
            self._rows.set_probabilities(state)

    def add_round(self, trees: FlatTrees, workers: Workers) -> None:
        """Add the trees of one round."""
        if self._rows is None:
            add_tree_scores(self.X, trees, 0, 1, self.scores, workers)
            return
        for t in range(trees.n_trees):
            classes = trees.classes[trees.class_start[t] : trees.class_start[t + 1]]
            values = trees.values[trees.value_start[t] : trees.value_start[t + 1]].reshape(-1, classes.size)
            if classes.size < self.classes.size:
                moved = np.zeros((len(values), self.classes.size))
                moved[:, classes] = values
                values = moved
            self._rows.move_by(find_value_rows(self.X, trees, t, workers), values)

    @property
    def probabilities(self) -> Floats:
        """Class probabilities, shape (n_samples, n_classes)."""
        return softmax(self.scores) if self._rows is None else self._rows.probabilities

    def log_loss(self) -> float:
        """Weighted mean of the log loss."""
        if self._rows is None:
            return float(mean_loss(self.scores, self.codes, self.weights))
        return self._rows.loss() / self._total_weight


class Metrics:
    """The metrics of a training run.

    Parameters
    ----------
    eval_metric : str, callable, or list of them
        Names of metrics: "logloss", those in `abc_plugins.training.metrics`, LightGBM's and XGBoost's names for them,
        and those of scikit-learn's scorers; scorers; or functions as described at `MetricFunction`.
    """

    def __init__(self, eval_metric: Any) -> None:
        several = isinstance(eval_metric, list | tuple)
        # The same metric under two names is one. It is reported under the name that the user gave it.
        self._names: dict[str | MetricFunction, Any] = {}
        for metric in eval_metric if several else [eval_metric]:
            self._names.setdefault(_resolve(metric), metric)
        self._metrics = list(self._names)
        if not self._metrics:
            fail("eval_metric", eval_metric, "at least one metric")
        self.higher_is_better: dict[str, bool] = {}

    def evaluate(self, eval_set: EvalSet) -> list[tuple[str, float]]:
        """Name and value of every metric on one evaluation set."""
        results: list[tuple[str, float]] = []
        proba = None if self._metrics == [_LOG_LOSS] else eval_set.probabilities
        for metric in self._metrics:
            name, value, higher = _evaluate(metric, eval_set, proba)
            name = self._names[metric] if isinstance(metric, str) else name
            if any(name == earlier for earlier, _ in results):
                fail("eval_metric", f"two metrics called {name!r}", "metrics with different names")
            self.higher_is_better[name] = higher
            results.append((name, value))
        return results


def _resolve(metric: Any) -> str | MetricFunction:
    if callable(metric):
        return metric
    name = ALIASES.get(metric, metric) if isinstance(metric, str) else metric
    if isinstance(name, str) and (name == _LOG_LOSS or find_metric(name) is not None):
        return name
    if not isinstance(name, str) or name not in _scorer_names():
        fail(
            "eval_metric",
            metric,
            f"{metric_names()}, the name of a scorer of scikit-learn, a scorer, a function (y_true, y_proba) -> (name, "
            "value, higher_is_better), or a list of them",
            ValueError if isinstance(metric, str) else TypeError,
        )
    return name


def _evaluate(metric: str | MetricFunction, eval_set: EvalSet, proba: Floats | None) -> tuple[str, float, bool]:
    """Name and value of a metric, and whether higher is better; `proba` is None if none needs it."""
    if metric == _LOG_LOSS:
        return _LOG_LOSS, eval_set.log_loss(), False
    if metric == _NEGATIVE_LOG_LOSS:
        return metric, -eval_set.log_loss(), True
    assert proba is not None
    if isinstance(metric, str):
        found = find_metric(metric)
        if found is not None:
            return metric, found[0](proba, eval_set.codes, eval_set.weights), found[1]
        return metric, _call_scorer(_get_scorer(metric), metric, eval_set, proba), True
    if _is_scorer(metric):
        name = getattr(getattr(metric, "_score_func", metric), "__name__", type(metric).__name__)
        return name, _call_scorer(metric, name, eval_set, proba), True
    return _call_metric(metric, eval_set, proba)


def _call_metric(metric: MetricFunction, eval_set: EvalSet, proba: Floats) -> tuple[str, float, bool]:
    arguments = [eval_set.y, proba, eval_set.weights]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(metric).parameters.values()
    wanted = 3 if sum(parameter.kind in positional for parameter in parameters) >= 3 else 2
    result = metric(*arguments[:wanted])
    if not isinstance(result, tuple) or len(result) != 3:
        raise TypeError(
            f"eval_metric must be a function that returns (name, value, higher_is_better); it returned {result!r}."
        )
    name, value, higher = result
    return str(name), float(value), bool(higher)


# ------------------------------------------------------------------------------------------------ scorers


class _Scored(ClassifierMixin, BaseEstimator):
    """What a scorer takes for a fitted classifier: it answers with what has been predicted already."""

    def __init__(self, proba: Floats, classes: AnyArray) -> None:
        self.proba = proba
        self.classes_ = classes

    def predict_proba(self, _X: Any) -> Floats:
        return self.proba

    def predict(self, _X: Any) -> AnyArray:
        return self.classes_[self.proba.argmax(axis=1)]


def _call_scorer(scorer: Any, name: str, eval_set: EvalSet, proba: Floats) -> float:
    weights = {} if (eval_set.weights == eval_set.weights[0]).all() else {"sample_weight": eval_set.weights}
    try:
        return float(scorer(_Scored(proba, eval_set.classes), eval_set.X, eval_set.y, **weights))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"eval_metric {name!r} cannot be computed on the evaluation set {eval_set.name!r}: {error}"
        ) from error


def _is_scorer(metric: Any) -> bool:
    return hasattr(metric, "_score_func") and hasattr(metric, "_sign")


def _scorer_names() -> list[str]:
    from sklearn.metrics import get_scorer_names  # imports much more, and most fits do without

    return list(get_scorer_names())


def _get_scorer(name: str) -> Any:
    from sklearn.metrics import get_scorer

    return get_scorer(name)
