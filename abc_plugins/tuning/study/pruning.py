"""Pruning: a callback for studies of one's own, and a pruner that judges whole folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from optuna import TrialPruned
from optuna.pruners import BasePruner
from optuna.study import StudyDirection

from abc_plugins.callbacks import TRAINING
from abc_plugins.core.runtime.checks import check_integer
from abc_plugins.tuning.study.rounds import RoundCallback
from abc_plugins.tuning.study.trials import FINISHED, trials_when_asked


class ABCPruningCallback(RoundCallback):
    """Report a metric to an Optuna trial after every round, and end the trial if its pruner says so.

    The same object works as a callback of `ABCBoostClassifier`, of LightGBM (stock or `abc_plugins.lgbm`) and of
    XGBoost (stock or `abc_plugins.xgb`). Multi-objective studies are neither reported to nor pruned: Optuna cannot.

    Parameters
    ----------
    trial : optuna.Trial
    metric : str, optional
        Name of the metric; by default the first one.
    valid_name : str, optional
        Name of the evaluation set; by default the first one that is not the training data.
    interval : int, default=1
        Rounds between two reports.
    fold_scores : sequence of float, default=()
        In cross-validation, the scores of the folds done before. What is reported is their mean with the metric.
    first_step : int, default=0
        Optuna's step of the first round; folds need steps of their own.
    """

    def __init__(
        self,
        trial: Any,
        *,
        metric: str | None = None,
        valid_name: str | None = None,
        interval: int = 1,
        fold_scores: Sequence[float] = (),
        first_step: int = 0,
    ) -> None:
        super().__init__()
        self.trial = trial
        self.metric = metric
        self.valid_name = valid_name
        self.interval = check_integer("interval", interval, minimum=1)
        self.fold_scores = list(fold_scores)
        self.first_step = check_integer("first_step", first_step, minimum=0)
        self._reports = len(trial.study.directions) == 1

    def look(self, round_index: int, evaluations: Sequence[tuple[str, str, float]]) -> None:
        """Report, and ask the pruner."""
        if not self._reports or (round_index + 1) % self.interval:
            return
        value = self._value(evaluations)
        self.trial.report(float(np.mean([*self.fold_scores, value])), self.first_step + round_index)
        if self.trial.should_prune():
            raise TrialPruned(f"Pruned in fold {len(self.fold_scores)} after round {round_index + 1}.")

    def _value(self, evaluations: Sequence[tuple[str, str, float]]) -> float:
        for name, metric, value in evaluations:
            if self.valid_name is None and name in (TRAINING, "train"):
                continue
            if self.valid_name in (None, name) and self.metric in (None, metric):
                return value
        wanted = f"{self.valid_name or 'any evaluation set'} {self.metric or 'any metric'}"
        known = ", ".join(f"{name} {metric}" for name, metric, _ in evaluations) or "none"
        raise ValueError(f"the metric to prune by must be among the evaluations, which are {known}; got {wanted}.")


class FoldPruner(BasePruner):
    """Give a trial up after a fold if the mean of its folds is worse than the median of the trials before it.

    A trial of `tune` reports the mean of its folds after each of them; the steps are the folds. What is compared are
    the same folds, so that a fold that is hard for all does no harm.

    Parameters
    ----------
    n_startup_trials : int, default=6
        Trials that must have done the fold before others are judged.
    """

    def __init__(self, n_startup_trials: int = 6) -> None:
        self.n_startup_trials = check_integer("n_startup_trials", n_startup_trials, minimum=1)

    def prune(self, study: Any, trial: Any) -> bool:
        """Judge the trial at its last step."""
        step = trial.last_step
        if step is None:
            return False
        finished = trials_when_asked(study, trial.number, FINISHED)
        others = [other.intermediate_values[step] for other in finished if step in other.intermediate_values]
        if len(others) < self.n_startup_trials:
            return False
        median = float(np.median(others))
        own = trial.intermediate_values[step]
        return own < median if study.direction == StudyDirection.MAXIMIZE else own > median
