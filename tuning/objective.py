"""The objective of a study: fit every fold, stop early on the inner split, score the outer one."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna import TrialPruned

from tuning.engines import Engine, FoldData, FoldFit, Stopping
from tuning.pruning import ALIVE, ABCPruningCallback
from tuning.space import Space, draw, plain_name
from tuning.studies import OMIT, SETTINGS, is_surplus, sign

REPORT_INTERVAL = 10
"""Rounds between two reports: every report is written to the storage."""

PARAMS, FOLD_SCORES, ROUNDS, COST, SECONDS, BASES = (
    "params",
    "fold_scores",
    "rounds",
    "cost",
    "seconds",
    "base_class_rounds",
)
"""User attributes of a trial: parameters of the estimator, scores and rounds by fold, trees grown, fit time, bases."""


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
    """

    engine: Engine
    folds: Sequence[FoldData]
    space: Space
    stopping: Stopping
    n_trials: int
    with_cost: bool

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
        for index, fold in enumerate(self.folds):
            if index:
                trial.set_user_attr(ALIVE, time.time())
            started = time.perf_counter()
            fits.append(self._fit(trial, fold, parameters, scores))
            scores.append(self.engine.metric.value(fold.test.codes, fits[-1].probabilities, fold.test.weights))
            seconds += time.perf_counter() - started
            self._note(trial, scores, fits, seconds)
            self._judge(trial, scores)
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

    def _fit(self, trial: Any, fold: FoldData, parameters: Mapping[str, Any], scores: Sequence[float]) -> FoldFit:
        callback = ABCPruningCallback(
            trial,
            metric=self.engine.metric.name,
            interval=REPORT_INTERVAL,
            fold_scores=scores,
            first_step=len(scores) * self.steps_per_fold,
        )
        return self.engine.fit(fold, parameters, self.stopping, callback)

    def _note(self, trial: Any, scores: Sequence[float], fits: Sequence[FoldFit], seconds: float) -> None:
        """Write what is known so far, once the trial is done or may be pruned."""
        bases = Counter(base for fit in fits for base in fit.bases)
        trial.set_user_attr(FOLD_SCORES, list(scores))
        if len(scores) == len(self.folds) or len(trial.study.directions) == 1:
            trial.set_user_attr(ROUNDS, [fit.n_rounds for fit in fits])
            trial.set_user_attr(COST, sum(fit.trees_grown for fit in fits))
            trial.set_user_attr(SECONDS, seconds)
            trial.set_user_attr(BASES, {str(base): count for base, count in sorted(bases.items())})

    def _judge(self, trial: Any, scores: Sequence[float]) -> None:
        """Report the mean of the folds done, and let the pruner decide whether to go on."""
        if len(trial.study.directions) > 1:
            return
        trial.report(float(np.mean(scores)), len(scores) * self.steps_per_fold - 1)
        if len(scores) < len(self.folds) and trial.should_prune():
            raise TrialPruned(f"Pruned after fold {len(scores) - 1}.")
