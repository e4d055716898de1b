"""The metric that is tuned: one definition for all engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import fail
from abc_plugins.training.evaluation import EvalSet, Metrics

_ALLOWED = "'error', 'logloss' or a function (y_true, y_proba) -> (name, value, higher_is_better)"
SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)
"""As in scikit-learn's log_loss: a row of a class that a fold was not trained on costs 36."""


class TunedMetric:
    """A metric of class probabilities.

    Parameters
    ----------
    metric : {"error", "logloss"} or callable
        A function takes (y_true, y_proba) or (y_true, y_proba, weight) and returns (name, value, higher_is_better),
        as `eval_metric` of the estimators does.
    classes : array of shape (n_classes,)

    Attributes
    ----------
    name : str
    higher_is_better : bool
    classes : array of shape (n_classes,)
    eval_metric : str or callable
        For the native engine.
    """

    def __init__(self, metric: str | Callable[..., Any], classes: AnyArray) -> None:
        if not callable(metric) and metric not in ("error", "logloss"):
            fail("metric", metric, _ALLOWED, ValueError if isinstance(metric, str) else TypeError)
        self.eval_metric = metric
        self.classes = classes
        self._metrics = Metrics(metric)
        # One look at guesses without any knowledge tells the name and the direction of a function.
        codes = np.arange(classes.size, dtype=np.int32)
        [(self.name, _)] = self._evaluate(codes, np.full((codes.size, classes.size), 1.0 / classes.size), None)
        self.higher_is_better = self._metrics.higher_is_better[self.name]

    @property
    def direction(self) -> str:
        """Optuna's direction."""
        return "maximize" if self.higher_is_better else "minimize"

    def value(self, codes: Integers, probabilities: Floats, weights: Floats | None) -> float:
        """Value for class indices of shape (n_samples,) and probabilities of shape (n_samples, n_classes)."""
        return self._evaluate(codes, probabilities, weights)[0][1]

    def _evaluate(self, codes: Integers, probabilities: Floats, weights: Floats | None) -> list[tuple[str, float]]:
        scores = np.asarray(probabilities, dtype=np.float64)
        if self.eval_metric != "error":  # logarithms could make two probabilities equal and change the label
            scores = np.log(np.maximum(scores, SMALLEST_PROBABILITY))
        weights = np.ones(codes.size) if weights is None else weights
        return self._metrics.evaluate(
            EvalSet("", np.empty((0, 0)), self.classes[codes], codes, weights, scores, self.classes)
        )
