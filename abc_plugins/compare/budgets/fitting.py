"""One fit: train a contender under a stopwatch and score it on the test rows after every round."""

from __future__ import annotations

import base64
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from abc_plugins.compare.budgets.contenders import BudgetContender
from abc_plugins.compare.budgets.engines import Stopwatch, base_schedule
from abc_plugins.compare.budgets.settings import CompareSettings
from abc_plugins.compare.parameters import plain_parameters
from abc_plugins.core.runtime.arrays import AnyArray

_SMALLEST_PROBABILITY = 1e-15


def fit_and_score(
    contender: BudgetContender, settings: CompareSettings, X: AnyArray, y: AnyArray, X_test: AnyArray, y_test: AnyArray
) -> dict[str, Any]:
    """Fit a contender and score it.

    Parameters
    ----------
    contender : BudgetContender
    settings : CompareSettings
    X, y : arrays of shape (n_samples, n_features) and (n_samples,)
        Training rows; labels are class indices 0 .. K - 1, all of which occur.
    X_test, y_test : arrays
        Test rows; -1 is a label that no training row has.

    Returns
    -------
    dict of plain JSON values
        errors, log_loss, seconds, trees: lists, one value per round, the last two added up from the start of the fit;
        bases: base class of every round or None; phases: seconds by what was done; parameters: of the classifier;
        wrong: which test rows the whole model has wrong, as packed bits in base 64.
    """
    model, watch = contender.make(settings), Stopwatch()
    with threadpool_limits(settings.n_jobs):  # for scikit-learn, which takes no number of threads
        contender.engine.fit(model, X, y, watch)
        started = time.perf_counter()
        model.predict_proba(X_test)
        predicting = time.perf_counter() - started
        curves = _Curves(y_test)
        for rows, index, probabilities in contender.engine.staged_probabilities(model, X_test, watch):
            curves.add(rows, index, probabilities)
    n_classes, n_rounds = int(y.max()) + 1, len(curves.errors)
    return {
        "errors": curves.errors,
        "log_loss": [loss / y_test.size for loss in curves.losses],
        "seconds": [moment - watch.started for moment in watch.rounds[:n_rounds]],
        "trees": contender.engine.trees(model, n_classes, watch)[:n_rounds],
        "bases": contender.engine.bases(model),
        "phases": {**_phases(watch, _search_rounds(model, n_classes, n_rounds)), "predicting": predicting},
        "parameters": plain_parameters(model),
        "wrong": pack_wrong(curves.wrong),
    }


def pack_wrong(wrong: AnyArray) -> str:
    """Write which rows are wrong as packed bits in base 64."""
    return base64.b64encode(np.packbits(wrong).tobytes()).decode()


def unpack_wrong(text: str, n_test: int) -> AnyArray:
    """Read `wrong` of a fit: an array of bool, one per test row."""
    packed = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
    return np.unpackbits(packed, count=n_test).astype(bool)


class _Curves:
    """Errors and summed log loss by round, added up over blocks of rows."""

    def __init__(self, y: AnyArray) -> None:
        self.y = y
        self.errors: list[int] = []
        self.losses: list[float] = []
        self.wrong = np.zeros(y.size, dtype=bool)

    def add(self, rows: slice, index: int, probabilities: AnyArray) -> None:
        """Score some rows after one round."""
        if index == len(self.errors):
            self.errors.append(0)
            self.losses.append(0.0)
        y = self.y[rows]
        wrong = probabilities.argmax(axis=1) != y
        own = np.where(y >= 0, probabilities[np.arange(y.size), y], 0.0)
        self.errors[index] += int(wrong.sum())
        self.losses[index] += float(-np.log(np.maximum(own, _SMALLEST_PROBABILITY)).sum())
        self.wrong[rows] = wrong


def _search_rounds(model: Any, n_classes: int, n_rounds: int) -> list[bool]:
    """Whether a round tries several base classes."""
    if not hasattr(model, "search") or getattr(model, "method", "abc")[:3] != "abc":
        return [False] * n_rounds
    schedule = base_schedule(model, n_classes)
    searching = []
    for _ in range(n_rounds):
        plan = schedule.plan([0.0] * n_classes)
        searching.append(len(plan.candidates) > 1)
        schedule.record(-1 if plan.is_classic else plan.candidates[0])
    return searching


def _phases(watch: Stopwatch, searching: list[bool]) -> dict[str, float]:
    """Seconds by what was done."""
    durations = np.diff([watch.ready, *watch.rounds])[: len(searching)]
    return {
        "preparing": watch.ready - watch.started,
        "rounds": float(durations[~np.array(searching)].sum()),
        "searching": float(durations[np.array(searching)].sum()),
        "finishing": watch.ended - watch.rounds[-1],
    }
