"""Callbacks: hooks before and after every round that may watch training and stop it.

A callback is a `Callback`, or any function that takes the `RoundContext` and is then called after every round. A
hook stops training by returning True.
"""

from __future__ import annotations

import copy
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np

from abc_plugins.core.runtime.atomic import check_target, remove_leftovers
from abc_plugins.core.runtime.checks import check_flag, check_integer, check_real, fail, library_of
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.training.progress import Display, make_display
from abc_plugins.training.stopping import BestRounds, refuse_unknown, warn_of_unknown

Evaluations = dict[str, dict[str, list[float]]]
"""Name of the evaluation set -> name of the metric -> its value after every round."""

TRAINING = "training"
"""Name of an evaluation set that is the training data; it never stops training early."""


@dataclass
class RoundContext:
    """What callbacks see of the training.

    Attributes
    ----------
    booster : object
        The booster in training.
    n_rounds : int
        Rounds planned.
    round_index : int
        The round about to start or just done, from 0; -1 before training.
    base_class : int
        Base class of the last round done, CLASSIC (-1) if it had none.
    train_loss : float
        Total log loss of the training data after the last round done; NaN before the first.
    total_weight : float
        Weight of the training data: `train_loss` divided by it is the mean.
    evals_result : dict
        Name of the evaluation set -> metric -> values after every round.
    higher_is_better : dict
        Metric -> whether higher values are better.
    seconds : float
        Time since training began.
    trees_grown : int
        Distinct trees grown so far, those of losing candidates included.
    best_iteration : int or None
        Number of rounds of the best model, set by `early_stopping`.
    stopped_because : str or None
        Why training ended; a callback that stops it may say why. None while it goes on.
    n_rounds_done : int
        Rounds of the model so far.
    is_refit : bool
        Whether this is the second training of a fit, on all rows, for as many rounds as early stopping has found.
    save_checkpoint : function or None
        Call it with a path after a round to write the whole state of the training, see `checkpoint`, or with None to
        check that it could be written. None if the engine has no checkpoints, and after Ctrl-C or an error.
    """

    booster: Any
    n_rounds: int
    round_index: int = -1
    base_class: int = CLASSIC
    train_loss: float = math.nan
    total_weight: float = 1.0
    evals_result: Evaluations = field(default_factory=dict)
    higher_is_better: dict[str, bool] = field(default_factory=dict)
    seconds: float = 0.0
    trees_grown: int = 0
    best_iteration: int | None = None
    stopped_because: str | None = None
    is_refit: bool = False
    n_rounds_done: int = 0
    save_checkpoint: Callable[[str | os.PathLike[str] | None], None] | None = None

    def evaluations(self) -> list[tuple[str, str, float]]:
        """Set, metric and value of all evaluations of the last round, in the order they were given."""
        return [
            (name, metric, values[-1])
            for name, metrics in self.evals_result.items()
            for metric, values in metrics.items()
            if values
        ]


class Callback:
    """Base of all callbacks: override the hooks that are needed.

    Callbacks run in ascending `order`, those of the same order as they were given. All of them run in a round, even if
    one of them stops the training. Those that have `in_refit` set run again in the second training of a fit with
    `refit`, which has no evaluation sets.
    """

    order = 0
    in_refit = True

    def before_training(self, context: RoundContext) -> None:
        """Prepare; called once before the first round, again for every fit."""

    def before_round(self, context: RoundContext) -> bool | None:  # noqa: ARG002
        """Return True to stop training before this round."""
        return None

    def after_round(self, context: RoundContext) -> bool | None:  # noqa: ARG002
        """Return True to stop training after this round."""
        return None

    def after_training(self, context: RoundContext) -> None:
        """Clean up; called once at the end, also after Ctrl-C or an error."""

    def get_state(self) -> Any:
        """Return what a resumed training needs, as plain JSON values; None: nothing."""
        return None

    def set_state(self, state: Any, context: RoundContext) -> None:
        """Take back what `get_state` returned; called after `before_training` if training goes on from a checkpoint.

        Raise a ValueError if it cannot be right: the file may be anybody's.
        """


class CallbackList:
    """Run several callbacks in their order.

    Parameters
    ----------
    callbacks : iterable of Callback or function, optional
    """

    def __init__(self, callbacks: Iterable[Callback | Callable[[RoundContext], Any]] | None = None) -> None:
        if callbacks is not None and (isinstance(callbacks, str | dict) or not isinstance(callbacks, Iterable)):
            fail("callbacks", callbacks, "a list of callbacks", TypeError)
        wrapped = [_as_callback(callback, index) for index, callback in enumerate(callbacks or ())]
        self.callbacks: list[Callback] = sorted(wrapped, key=lambda callback: callback.order)
        self.is_cut_short = False  # by any but early stopping, which has found the best number of rounds

    def before_training(self, context: RoundContext) -> None:
        """Call the hook of every callback."""
        for callback in self.callbacks:
            callback.before_training(context)

    def before_round(self, context: RoundContext) -> bool:
        """Call the hook of every callback; return whether one of them stops the training."""
        return self._any_stops("before_round", context)

    def after_round(self, context: RoundContext) -> bool:
        """Call the hook of every callback; return whether one of them stops the training."""
        return self._any_stops("after_round", context)

    def after_training(self, context: RoundContext) -> None:
        """Call the hook of every callback."""
        for callback in self.callbacks:
            callback.after_training(context)

    def _any_stops(self, hook: str, context: RoundContext) -> bool:
        stop = False
        for callback in self.callbacks:
            answer = getattr(callback, hook)(context)
            if not isinstance(answer, bool | np.bool_ | None):
                fail(f"What {hook} of a callback returns", answer, "True (stop), False or None", TypeError)
            if answer:
                stop = True
                self.is_cut_short = self.is_cut_short or not isinstance(callback, _EarlyStopping)
        return stop


def log_evaluation(period: int = 1, *, file: TextIO | None = None) -> Callback:
    """Print mean losses and time every `period` rounds and why training ended, to `file` (standard output)."""
    return _LogEvaluation(check_integer("period", period, minimum=1), file)


def record_evaluation(evals_result: Evaluations) -> Callback:
    """Copy the metrics of every round into `evals_result`: set -> metric -> list of values."""
    if not isinstance(evals_result, dict):
        fail("evals_result", evals_result, "a dict to record into", TypeError)
    return _RecordEvaluation(evals_result)


def progress_bar(*, file: TextIO | None = None) -> Callback:
    """Show round, loss, metrics and time left; drawn by rich or tqdm if installed, else a plain line.

    Parameters
    ----------
    file : text stream, optional
        Standard error by default.
    """
    return _ProgressBar(file)


def early_stopping(
    stopping_rounds: int, first_metric_only: bool = False, *, min_delta: float = 0.0, verbose: bool = False
) -> Callback:
    """Stop when a metric of an evaluation set has not improved for `stopping_rounds` rounds.

    Any metric of any set but the training data can stop the training, and `best_iteration` is its best round. If no
    metric does, `best_iteration` is the best round of the first metric of the first set. Metrics that are NaN
    are warned of and do not stop it; if all are, and do not become numbers, that is an error.

    Parameters
    ----------
    stopping_rounds : int
        At least 1.
    first_metric_only : bool, default=False
        Look only at the first metric (of every evaluation set).
    min_delta : float, default=0.0
        An improvement must be larger than this.
    verbose : bool, default=False
        Print why training stopped.
    """
    return _EarlyStopping(
        check_integer("stopping_rounds", stopping_rounds, minimum=1),
        check_flag("first_metric_only", first_metric_only),
        check_real("min_delta", min_delta, minimum=0.0),
        check_flag("verbose", verbose),
    )


def checkpoint(
    path: str | os.PathLike[str], *, every_rounds: int | None = None, every_seconds: float | None = None
) -> Callback:
    """Write the model and the whole state of the training to a file now and then, and when training ends.

    `fit(..., resume_from=path)` goes on from there, and ends with the model that an uninterrupted training gives, bit
    for bit. `ABCBoostClassifier.load_model(path)` reads the model as far as it was trained. Whatever happens, the file
    is a whole checkpoint. If it cannot be written, training goes on with a warning. After Ctrl-C or an error it is the
    last one from before: part of a round may have been done.

    Parameters
    ----------
    path : path
        An existing file is replaced. Each training needs a file of its own.
    every_rounds : int, optional
        Write every this many rounds; 10 if `every_seconds` is not given either.
    every_seconds : float, optional
        Write after the first round that ends this many seconds after the last time.
    """
    if not isinstance(path, str | os.PathLike):
        fail("path", path, "the path of a file", TypeError)
    if every_rounds is None and every_seconds is None:
        every_rounds = 10
    return _Checkpoint(
        path,
        math.inf if every_rounds is None else check_integer("every_rounds", every_rounds, minimum=1),
        math.inf if every_seconds is None else check_real("every_seconds", every_seconds, minimum=0.0),
    )


# ------------------------------------------------------------------------------------- running callbacks


class _FunctionCallback(Callback):
    """A plain function, called after every round."""

    def __init__(self, function: Callable[[RoundContext], Any], order: int) -> None:
        self.function = function
        self.order = order

    def after_round(self, context: RoundContext) -> bool | None:
        return self.function(context)


def _as_callback(callback: Any, index: int) -> Callback:
    if isinstance(callback, Callback):
        return callback
    library = library_of(callback)
    if library is not None:
        ours = "early_stopping, log_evaluation, record_evaluation or checkpoint"
        raise TypeError(f"callbacks[{index}] is one of {library}'s: take abc_plugins.callbacks.{ours} instead.")
    if isinstance(callback, type) or not callable(callback):
        fail(f"callbacks[{index}]", callback, "a Callback object or a function of the round's context", TypeError)
    return _FunctionCallback(callback, getattr(callback, "order", 0))


# ---------------------------------------------------------------------------------- ready-made callbacks


def _describe(context: RoundContext) -> str:
    metrics = [f"{name} {metric} {value:.6g}" for name, metric, value in context.evaluations()]
    return ", ".join([f"train logloss {context.train_loss / context.total_weight:.6g}", *metrics])


class _LogEvaluation(Callback):
    order = 10

    def __init__(self, period: int, file: TextIO | None) -> None:
        self.period = period
        self.file = file

    def after_round(self, context: RoundContext) -> None:
        if (context.round_index + 1) % self.period == 0:
            self._print(f"[{context.round_index + 1}] {_describe(context)}, {context.seconds:.1f} s")

    def after_training(self, context: RoundContext) -> None:
        if context.stopped_because is not None:
            what = "Refit on all rows ended" if context.is_refit else "Training ended"
            n_rounds = context.n_rounds_done
            self._print(f"{what} after {n_rounds} rounds and {context.seconds:.1f} s: {context.stopped_because}.")

    def _print(self, line: str) -> None:
        # The line and its end together: an interruption must not fall between them.
        print(line + "\n", end="", file=self.file or sys.stdout, flush=True)


class _RecordEvaluation(Callback):
    order = 20
    in_refit = False

    def __init__(self, evals_result: Evaluations) -> None:
        self.evals_result = evals_result

    def before_training(self, context: RoundContext) -> None:
        self.evals_result.clear()
        self.evals_result.update(copy.deepcopy(context.evals_result))  # a resumed training has some already

    def after_round(self, context: RoundContext) -> None:
        for name, metric, value in context.evaluations():
            self.evals_result.setdefault(name, {}).setdefault(metric, []).append(value)


class _EarlyStopping(Callback):
    order = 30
    in_refit = False

    def __init__(self, stopping_rounds: int, first_metric_only: bool, min_delta: float, verbose: bool) -> None:
        self.stopping_rounds = stopping_rounds
        self.first_metric_only = first_metric_only
        self.verbose = verbose
        self.best = BestRounds(min_delta)

    def before_training(self, context: RoundContext) -> None:
        self.best.clear()
        context.best_iteration = None

    def before_round(self, context: RoundContext) -> bool:
        """Stop here only if the checkpoint that training goes on from is of the very round that should have stopped."""
        return self._stops(context, context.round_index)

    def after_round(self, context: RoundContext) -> bool:
        n_rounds, watched = context.round_index + 1, self._watched(context)
        if not self.best.rounds:
            warn_of_unknown(watched)
        for name, metric, value in watched:
            self.best.add(name, metric, value, n_rounds, context.higher_is_better[metric])
        context.best_iteration, is_last = self.best.of_first(), n_rounds == context.n_rounds
        if context.best_iteration is None and (is_last or self.best.has_waited(n_rounds, self.stopping_rounds)):
            refuse_unknown(self.best.rounds)
        return not is_last and self._stops(context, n_rounds)

    def _stops(self, context: RoundContext, n_rounds: int) -> bool:
        """Whether, after `n_rounds` rounds, a metric has not improved for long enough."""
        stale = self.best.find_stale(n_rounds, self.stopping_rounds)
        if stale is None:
            return False
        best = self.best.rounds[stale]
        context.best_iteration = best.n_rounds
        what = f"{' '.join(stale)} was best, {best.value:.6g}, after round {best.n_rounds}"
        context.stopped_because = f"{what}, and did not improve for {self.stopping_rounds} more"
        if self.verbose:
            print(f"Stopped after round {n_rounds}: {what}.", flush=True)
        return True

    def get_state(self) -> Any:
        return self.best.to_list()

    def set_state(self, state: Any, context: RoundContext) -> None:
        self.best.set_from(state, most_rounds=context.round_index + 1)

    def _watched(self, context: RoundContext) -> list[tuple[str, str, float]]:
        found = [entry for entry in context.evaluations() if entry[0] != TRAINING]
        if not found:
            but = f'; a set called "{TRAINING}" does not count' if TRAINING in context.evals_result else ""
            raise ValueError(
                f"early stopping needs at least one evaluation set (eval_set) besides the training data{but}."
            )
        return [entry for entry in found if entry[1] == found[0][1]] if self.first_metric_only else found


class _Checkpoint(Callback):
    order = 40  # after early stopping, whose state is part of it

    def __init__(self, path: str | os.PathLike[str], every_rounds: float, every_seconds: float) -> None:
        self.path = path
        self.every_rounds = every_rounds
        self.every_seconds = every_seconds
        self.n_saved = 0
        self.last_time = -math.inf

    def before_training(self, context: RoundContext) -> None:
        if context.save_checkpoint is None:
            raise TypeError("checkpoint() is for ABCBoostClassifier; the engine in training has no checkpoints.")
        check_target(self.path)
        context.save_checkpoint(None)
        remove_leftovers(self.path)  # of a training that was killed while it wrote
        self.n_saved, self.last_time = context.n_rounds_done, time.monotonic()

    def after_round(self, context: RoundContext) -> None:
        n_rounds = context.round_index + 1
        due = n_rounds - self.n_saved >= self.every_rounds or time.monotonic() - self.last_time >= self.every_seconds
        if due and context.save_checkpoint is not None:
            self._save(context.save_checkpoint)
            self.n_saved, self.last_time = n_rounds, time.monotonic()

    def after_training(self, context: RoundContext) -> None:
        if context.save_checkpoint is not None and context.n_rounds_done > self.n_saved:
            self._save(context.save_checkpoint)

    def _save(self, save_checkpoint: Callable[[str | os.PathLike[str] | None], None]) -> None:
        try:
            save_checkpoint(self.path)
        except OSError as error:  # a full disk must not end a training of days
            warnings.warn(f"The checkpoint {os.fspath(self.path)} could not be written: {error}", stacklevel=2)


# ------------------------------------------------------------------------------------------ progress bar


class _ProgressBar(Callback):
    order = 15

    def __init__(self, file: TextIO | None) -> None:
        self.file = file
        self.display: Display | None = None

    def before_training(self, context: RoundContext) -> None:
        self.display = make_display(context.n_rounds, self.file or sys.stderr)

    def after_round(self, context: RoundContext) -> None:
        done = context.round_index + 1
        seconds_left = context.seconds / done * (context.n_rounds - done)
        if self.display is not None:
            self.display.update(done, _describe(context), seconds_left)

    def after_training(self, context: RoundContext) -> None:  # noqa: ARG002
        if self.display is not None:
            self.display.close()
            self.display = None
