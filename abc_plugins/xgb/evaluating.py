"""Evaluation metrics of an ABC model while it is trained.

XGBoost itself computes them: a booster without trees is given the scores as margins of a matrix that holds nothing
but labels and weights. So every metric has XGBoost's own value, also where workers of a cluster share the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from xgboost import Booster, DMatrix

from abc_plugins.core.runtime.arrays import AnyArray, Floats

CustomMetric = Callable[[AnyArray, DMatrix], Any]
Objective = Callable[[AnyArray, DMatrix], tuple[AnyArray, AnyArray]]
Scored = tuple[DMatrix, str, Floats]
"""A matrix, its name and its scores of shape (n_classes, n_samples)."""


class XGBoostMetrics:
    """The evaluation metrics of one training run.

    Parameters
    ----------
    params : dict
        Objective, metrics, threads.
    n_classes : int
    """

    def __init__(self, params: Mapping[str, Any], n_classes: int) -> None:
        self._params = {**params, "num_class": n_classes, "base_score": 0.0}
        self._shadows: WeakKeyDictionary[DMatrix, DMatrix] = WeakKeyDictionary()

    def evaluate(self, sets: Sequence[Scored], iteration: int) -> str:
        """Evaluate the metrics of the parameters; the line that `Booster.eval_set` returns."""
        shadows = [(self._shadow(matrix, scores), name) for matrix, name, scores in sets]
        if not shadows:
            return f"[{iteration}]"
        booster = Booster(self._params, [shadow for shadow, _ in shadows])
        return booster.eval_set(shadows, iteration)

    def _shadow(self, matrix: DMatrix, scores: Floats) -> DMatrix:
        """Labels, weights and scores of `matrix`, as they are now."""
        shadow = self._shadows.get(matrix)
        if shadow is None:
            nothing = np.zeros((matrix.num_row(), 1), dtype=np.float32)
            shadow = DMatrix(nothing, nthread=int(self._params.get("nthread", 0)) or None)
            self._shadows[matrix] = shadow
        shadow.set_label(matrix.get_label())
        shadow.set_weight(matrix.get_weight())
        shadow.set_base_margin(np.ascontiguousarray(scores.T, dtype=np.float32))
        return shadow


def custom_metric_line(
    metric: CustomMetric, sets: Sequence[Scored], *, output_margin: bool, objective: str = "multi:softprob"
) -> str:
    """Evaluate a user's metric, which gets what the objective predicts: probabilities or labels; or margins."""
    line = ""
    for matrix, name, scores in sets:
        margins = np.ascontiguousarray(scores.T, dtype=np.float32)
        predicted = margins if output_margin else softmax(margins)
        if objective == "multi:softmax" and not output_margin:
            predicted = margins.argmax(axis=1).astype(np.float32)
        result = metric(predicted, matrix)
        for metric_name, value in result if isinstance(result, list) else [result]:
            line += f"\t{name}-{metric_name}:{value:f}"
    return line


def softmax(margins: AnyArray) -> AnyArray:
    """Probabilities of margins of shape (n_samples, n_classes)."""
    powers = np.exp(margins - margins.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
