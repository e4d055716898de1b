"""The objective of a study: fit every fold, stop early on the inner split, score the outer one."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna import TrialPruned

from tuning.engines.base import Engine, FoldData, FoldFit, Stopping
from tuning.pruning import ABCPruningCallback
from tuning.space import Space, draw, plain_name
from tuning.studies import OMIT, SETTINGS, is_surplus, sign

REPORT_INTERVAL, RARE_REPORT_INTERVAL = 10, 200
"""Rounds between two reports, with a pruner that looks at them and with one that does not: they cost time."""

PARAMS, OUTCOME = "params", "outcome"
"""User attributes of a trial: parameters of the estimator, and what came out."""

FOLD_SCORES, ROUNDS, COST, SECONDS, BASES = "fold_scores", "rounds", "cost", "seconds", "base_class_rounds"
"""Parts of the outcome: scores and rounds by fold, trees grown, fit time, rounds by base class."""


class SurplusTrialError(Exception):
    """Other processes have begun all trials that were left."""


@dataclass
class Objective:
    """Callable for `optuna.Study.optimize`.

    Attributes
    ----------
    engine : Engine
    folds : sequence of FoldData
    space : dict
    stopping : Stopping
    n_trials : int
        Trials that the study is to have.
    with_cost : bool
        Whether the number of trees grown is a second objective.
    report_interval : int
        Rounds between two reports.
    """

    engine: Engine
    folds: Sequence[FoldData]
    space: Space
    stopping: Stopping
    n_trials: int
    with_cost: bool
    report_interval: int

    def __call__(self, trial: Any) -> float | tuple[float, float]:
        """Return the mean score of the folds, and the cost if it is an objective."""
        if is_surplus(trial.study, trial, self.n_trials):
            raise SurplusTrialError(f"The study has its {self.n_trials} trials.")
        sign(trial)
        parameters = self._parameters(trial)
        trial.set_user_attr(PARAMS, parameters)
        scores: list[float] = []
        fits: list[FoldFit] = []
        seconds = 0.0
        try:
            for fold in self.folds:
                callback = self._callback(trial, scores)
                started = time.perf_counter()
                fits.append(self.engine.fit(fold, parameters, self.stopping, callback))
                scores.append(self.engine.metric.value(fold.test.codes, fits[-1].probabilities, fold.test.weights))
                seconds += time.perf_counter() - started - callback.seconds
                self._judge(trial, scores)
        finally:
            if fits:
                trial.set_user_attr(OUTCOME, _outcome(scores, fits, seconds))
        mean = statistics.fmean(scores)
        return (mean, float(sum(fit.trees_grown for fit in fits))) if self.with_cost else mean

    @property
    def steps_per_fold(self) -> int:
        """Optuna's steps of a fold: its rounds, and one more for its score."""
        return self.stopping.max_rounds + 1

    def _parameters(self, trial: Any) -> dict[str, Any]:
        omitted = trial.user_attrs.get(OMIT, ())
        space = {name: value for name, value in self.space.items() if plain_name(name) not in omitted}
        return self.engine.translate({**draw(trial, space), **trial.user_attrs.get(SETTINGS, {})})

    def _callback(self, trial: Any, scores: Sequence[float]) -> ABCPruningCallback:
        return ABCPruningCallback(
            trial,
            metric=self.engine.metric.name,
            interval=self.report_interval,
            fold_scores=scores,
            first_step=len(scores) * self.steps_per_fold,
        )

    def _judge(self, trial: Any, scores: Sequence[float]) -> None:
        """Report the mean of the folds done, and let the pruner decide whether to go on."""
        if len(trial.study.directions) > 1:
            return
        trial.report(float(np.mean(scores)), len(scores) * self.steps_per_fold - 1)
        if len(scores) < len(self.folds) and trial.should_prune():
            raise TrialPruned(f"Pruned after fold {len(scores) - 1}.")


def outcome(trial: Any) -> dict[str, Any]:
    """What came out of a trial; nothing if no fold was done."""
    found: dict[str, Any] = trial.user_attrs.get(OUTCOME, {})
    return found


def _outcome(scores: Sequence[float], fits: Sequence[FoldFit], seconds: float) -> dict[str, Any]:
    bases = Counter(base for fit in fits for base in fit.bases)
    return {
        FOLD_SCORES: list(scores),
        ROUNDS: [fit.n_rounds for fit in fits],
        COST: sum(fit.trees_grown for fit in fits),
        SECONDS: seconds,
        BASES: {str(base): count for base, count in sorted(bases.items())},
    }
