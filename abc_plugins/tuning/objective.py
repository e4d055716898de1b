"""The objective of a study: fit every fold, stop early on the inner split, score the outer one."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna import TrialPruned

from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.tuning.engines.base import FoldData, FoldFit, FoldStopping, TunedEngine
from abc_plugins.tuning.metric import TunedMetric
from abc_plugins.tuning.space import Space, draw
from abc_plugins.tuning.study.interrupts import Interrupts
from abc_plugins.tuning.study.rounds import Pulse
from abc_plugins.tuning.study.storage import DEFAULTS, START, claim, is_surplus

PARAMS, OUTCOME = "params", "outcome"
"""User attributes of a trial: parameters of the estimator, and what came out."""

FOLD_SCORES, ROUNDS, COST, SECONDS, BASES = "fold_scores", "rounds", "cost", "seconds", "base_class_rounds"
"""Parts of the outcome: scores and rounds by fold, trees grown, fit time, rounds by base class."""

LEAST_ROUNDS = 10
"""A setting that stops after fewer rounds takes steps that are too large, or was stopped by accident."""


class SurplusTrialError(Exception):
    """Other processes have begun all trials that were left."""


@dataclass
class Objective:
    """Callable for `optuna.Study.optimize`.

    Attributes
    ----------
    engine : TunedEngine
    metric : TunedMetric
    folds : sequence of FoldData
    space : dict
    stopping : FoldStopping
    n_trials : int
        Trials that the study is to have.
    with_cost : bool
        Whether the number of trees grown is a second objective.
    keep_probabilities : bool
        Whether to remember what trials predicted for the test rows of the folds.
    interrupts : Interrupts
    running, surplus : set of int
        Numbers of the trials in work, and of those that other processes have left no place for.
    probabilities : dict
        Number of a complete trial -> its probabilities, fold by fold.
    """

    engine: TunedEngine
    metric: TunedMetric
    folds: Sequence[FoldData]
    space: Space
    stopping: FoldStopping
    n_trials: int
    with_cost: bool
    keep_probabilities: bool = False
    interrupts: Interrupts = field(default_factory=Interrupts)
    running: set[int] = field(default_factory=set)
    surplus: set[int] = field(default_factory=set)
    probabilities: dict[int, list[Floats]] = field(default_factory=dict)

    def __call__(self, trial: Any) -> float | tuple[float, float]:
        """Return the mean score of the folds, and the cost if it is an objective."""
        self.running.add(trial.number)
        if is_surplus(trial.study, trial, self.n_trials):
            self.surplus.add(trial.number)
            raise SurplusTrialError(f"The study has its {self.n_trials} trials.")
        claim(trial)
        parameters = self._parameters(trial)
        trial.set_user_attr(PARAMS, parameters)
        scores: list[float] = []
        fits: list[FoldFit] = []
        seconds = 0.0
        try:
            for index, fold in enumerate(self.folds):
                started = time.perf_counter()
                fits.append(self.fit_fold(trial, fold, parameters))
                scores.append(self._score(fold, fits[-1], f"fold {index} of trial {trial.number}"))
                seconds += time.perf_counter() - started
                self._judge(trial, scores)
            self._judge_rounds(trial, fits)
        except TrialPruned:
            trial.set_user_attr(OUTCOME, _outcome(scores, fits, seconds))
            self.running.discard(trial.number)
            raise
        trial.set_user_attr(OUTCOME, _outcome(scores, fits, seconds))
        if self.keep_probabilities:
            self.probabilities[trial.number] = [fit.probabilities for fit in fits]
        self.running.discard(trial.number)
        mean = statistics.fmean(scores)
        return (mean, float(sum(fit.trees_grown for fit in fits))) if self.with_cost else mean

    def fit_fold(self, trial: Any, fold: FoldData, parameters: dict[str, Any]) -> FoldFit:
        """Fit one fold, for a trial or for none; SIGINT ends it."""
        pulse = Pulse(trial, self.interrupts)
        with self.interrupts.fitting():
            return self.engine.fit_fold(fold, parameters, self.stopping, pulse)

    def score_fresh(self, folds: Sequence[FoldData], trial: Any) -> list[float]:
        """Score a finished trial on other folds."""
        scores = []
        for index, fold in enumerate(folds):
            fit = self.fit_fold(None, fold, trial.user_attrs[PARAMS])
            scores.append(self._score(fold, fit, f"fresh fold {index} of trial {trial.number}"))
        return scores

    def _score(self, fold: FoldData, fit: FoldFit, where: str) -> float:
        """The metric of a fit; Optuna would take NaN for a failed trial, which is run again."""
        value = self.metric.value(fold.test.codes, fit.probabilities, fold.test.weights)
        if not math.isfinite(value):
            raise ValueError(f"metric must give finite numbers; {self.metric.name!r} is {value} for {where}.")
        return value

    def _parameters(self, trial: Any) -> dict[str, Any]:
        given = {**self.engine.not_tuned, **self.engine.fixed}
        drawn = draw(trial, self.space, given)
        if trial.user_attrs.get(START) == DEFAULTS:  # what is drawn tells the sampler where the defaults are
            return self.engine.kept_as_default()
        return self.engine.complete(drawn)

    def _judge(self, trial: Any, scores: Sequence[float]) -> None:
        """Report the mean of the folds done, and let the pruner decide whether to go on."""
        if len(trial.study.directions) > 1:
            return
        trial.report(statistics.fmean(scores), len(scores) - 1)
        is_default = trial.user_attrs.get(START) == DEFAULTS
        if len(scores) < len(self.folds) and not is_default and trial.should_prune():
            raise TrialPruned(f"Pruned after fold {len(scores) - 1}.")

    def _judge_rounds(self, trial: Any, fits: Sequence[FoldFit]) -> None:
        mean = statistics.fmean(fit.n_rounds for fit in fits)
        is_default = trial.user_attrs.get(START) == DEFAULTS
        if mean < min(LEAST_ROUNDS, self.stopping.max_rounds // 4) and not is_default:
            raise TrialPruned(f"Stopped after {mean:.1f} rounds in the mean.")


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
