"""One callback for all engines, called after every round; and the one that a study's own fits have."""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from abc_plugins.callbacks import Callback, RoundContext
from abc_plugins.tuning.study.interrupts import Interrupts

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


class RoundCallback(Callback):
    """A callback of `ABCBoostClassifier`, of LightGBM (stock or ours) and of XGBoost (stock or ours)."""

    order = 5  # before early stopping, which leaves the loop in LightGBM

    before_iteration = _NothingBefore()

    def __init__(self) -> None:
        xgboost_callbacks = sys.modules.get("xgboost.callback")
        if xgboost_callbacks is not None:  # XGBoost insists on its own type, which cannot be imported without it
            xgboost_callbacks.TrainingCallback.register(type(self))

    @abstractmethod
    def look(self, round_index: int, evaluations: Sequence[tuple[str, str, float]]) -> None:
        """Do what is to be done after a round: (evaluation set, metric, value) are its evaluations."""

    def before_training(self, model: Any) -> Any:
        """Return what is given: XGBoost, which names the argument, wants its model back."""
        return model

    def after_training(self, model: Any) -> Any:
        """Return what is given."""
        return model

    def after_round(self, context: RoundContext) -> None:
        """Look, for the native engine."""
        self.look(context.round_index, context.evaluations())

    def __call__(self, env: Any) -> None:
        """Look, for LightGBM."""
        found = [(entry[0], entry[1], entry[2]) for entry in env.evaluation_result_list or ()]
        self.look(env.iteration - env.begin_iteration, found)

    def after_iteration(self, model: Any, epoch: int, evals_log: dict[str, Any]) -> bool:  # noqa: ARG002
        """Look, for XGBoost."""
        found = [(name, metric, values[-1]) for name, log in evals_log.items() for metric, values in log.items()]
        self.look(epoch, [(n, m, v[0] if isinstance(v, tuple) else v) for n, m, v in found])
        return False


class Pulse(RoundCallback):
    """Notes in the trial that its process is alive, and ends the fit after an interruption that somebody swallowed."""

    def __init__(self, trial: Any | None, interrupts: Interrupts) -> None:
        super().__init__()
        self.trial = trial
        self.interrupts = interrupts
        self._last = time.monotonic()

    def look(self, round_index: int, evaluations: Sequence[tuple[str, str, float]]) -> None:  # noqa: ARG002
        """Show life now and then."""
        self.interrupts.check()
        if self.trial is not None and time.monotonic() - self._last >= _PULSE_SECONDS:
            with self.interrupts.writing():
                self.trial.set_user_attr(ALIVE, time.time())
            self._last = time.monotonic()
