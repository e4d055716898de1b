"""Pruning: one callback for all three engines, and a pruner that judges whole folds."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from optuna import TrialPruned
from optuna.pruners import BasePruner
from optuna.study import StudyDirection

from abc_plugins.callbacks import TRAINING, Callback, RoundContext
from abc_plugins.core.runtime.checks import check_integer
from tuning.trials import FINISHED, trials_when_asked

ALIVE = "alive"
"""User attribute of a trial: when its process last showed a sign of life."""

_PULSE_SECONDS = 30.0


class _NothingBefore:
    """What to do before a round: nothing.

    XGBoost calls the `before_iteration` of a callback; for LightGBM its truth value says whether the callback itself
    is to be called before the rounds.
    """

    def __bool__(self) -> bool:
        return False

    def __call__(self, *_: Any) -> bool:
        return False


class ABCPruningCallback(Callback):
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
        Report every so many rounds.
    fold_scores : sequence of float, default=()
        In cross-validation, the scores of the folds done before. What is reported is their mean with the metric.
    first_step : int, default=0
        Optuna's step of the first round; folds need steps of their own.

    Attributes
    ----------
    seconds : float
        Time spent on reports.
    """

    order = 5  # before early stopping, which leaves the loop in LightGBM

    before_iteration = _NothingBefore()

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
        self.trial = trial
        self.metric = metric
        self.valid_name = valid_name
        self.interval = check_integer("interval", interval, minimum=1)
        self.fold_scores = list(fold_scores)
        self.first_step = check_integer("first_step", first_step, minimum=0)
        self._reports = len(trial.study.directions) == 1
        self.seconds = 0.0
        self._last_pulse = time.monotonic()
        xgboost_callbacks = sys.modules.get("xgboost.callback")
        if xgboost_callbacks is not None:  # XGBoost insists on its own type, which cannot be imported without it
            xgboost_callbacks.TrainingCallback.register(type(self))

    def before_training(self, model: Any) -> Any:
        """Return what is given: XGBoost, which names the argument, wants its model back."""
        return model

    def after_training(self, model: Any) -> Any:
        """Return what is given."""
        return model

    def after_round(self, context: RoundContext) -> None:
        """Report for the native engine."""
        self._look(context.round_index, context.evaluations())

    def __call__(self, env: Any) -> None:
        """Report for LightGBM."""
        found = [(entry[0], entry[1], entry[2]) for entry in env.evaluation_result_list or ()]
        self._look(env.iteration - env.begin_iteration, found)

    def after_iteration(self, model: Any, epoch: int, evals_log: dict[str, Any]) -> bool:  # noqa: ARG002
        """Report for XGBoost."""
        found = [(name, metric, values[-1]) for name, log in evals_log.items() for metric, values in log.items()]
        self._look(epoch, [(n, m, v[0] if isinstance(v, tuple) else v) for n, m, v in found])
        return False

    def _look(self, round_index: int, evaluations: Sequence[tuple[str, str, float]]) -> None:
        self._show_life()
        if not self._reports or (round_index + 1) % self.interval:
            return
        value = self._value(evaluations)
        started = time.perf_counter()
        self.trial.report(float(np.mean([*self.fold_scores, value])), self.first_step + round_index)
        prune = self.trial.should_prune()
        self.seconds += time.perf_counter() - started
        if prune:
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

    def _show_life(self) -> None:
        if time.monotonic() - self._last_pulse >= _PULSE_SECONDS:
            self.trial.set_user_attr(ALIVE, time.time())
            self._last_pulse = time.monotonic()


class FoldPruner(BasePruner):
    """Give a trial up after a fold if the mean of its folds is worse than the median of the trials before it.

    Rounds within a fold are not compared: with a small learning rate, a good trial is behind for a long time.

    Parameters
    ----------
    steps_per_fold : int
        The last step of every fold is its score.
    n_startup_trials : int, default=8
        Trials that must have done the fold before others are judged.
    """

    def __init__(self, steps_per_fold: int, n_startup_trials: int = 8) -> None:
        self.steps_per_fold = check_integer("steps_per_fold", steps_per_fold, minimum=1)
        self.n_startup_trials = check_integer("n_startup_trials", n_startup_trials, minimum=1)

    def prune(self, study: Any, trial: Any) -> bool:
        """Judge the trial at its last step."""
        step = trial.last_step
        if step is None or (step + 1) % self.steps_per_fold:
            return False
        finished = trials_when_asked(study, trial.number, FINISHED)
        others = [other.intermediate_values[step] for other in finished if step in other.intermediate_values]
        if len(others) < self.n_startup_trials:
            return False
        median = float(np.median(others))
        own = trial.intermediate_values[step]
        return own < median if study.direction == StudyDirection.MAXIMIZE else own > median
