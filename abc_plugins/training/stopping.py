"""How a fit finds its number of rounds: all of them, early stopping by evaluation sets or by a validation part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from abc_plugins.core.runtime.checks import check_flag, check_integer, check_real, fail
from abc_plugins.data.columns import warn_caller
from abc_plugins.training.metrics import ALIASES

ENOUGH_ROWS = 200
"""With fewer training rows a validation part says less than it costs."""

PATIENCE = 100
"""Rounds without improvement that end a training, unless the user says how many."""


@dataclass(frozen=True)
class Stopping:
    """How a training ends.

    Attributes
    ----------
    patience : int or None
        Rounds without improvement; None: all rounds are done.
    held_out_share : float or None
        Share of the training rows that are set aside to be evaluated on; None: none are.
    refits : bool
        Whether the model is then trained anew on all rows.
    """

    patience: int | None = None
    held_out_share: float | None = None
    refits: bool = False


def check_stopping(early_stopping: Any, early_stopping_rounds: Any, validation_fraction: Any, refit: Any) -> None:
    """Check the parameters that `choose_stopping` takes."""
    is_text = isinstance(early_stopping, str)
    if early_stopping != "auto" if is_text else not isinstance(early_stopping, bool | np.bool_):
        fail("early_stopping", early_stopping, '"auto", True or False', ValueError if is_text else TypeError)
    if early_stopping_rounds is not None:
        check_integer("early_stopping_rounds", early_stopping_rounds, minimum=1)
        if not early_stopping:
            fail("early_stopping_rounds", early_stopping_rounds, "None with early_stopping=False")
    check_real("validation_fraction", validation_fraction, above=0.0, maximum=0.9)
    check_flag("refit", refit)


def is_asked_to_stop(early_stopping: str | bool | np.bool_, early_stopping_rounds: int | None) -> bool:
    """Whether the user wants early stopping whatever the fit is given."""
    return early_stopping_rounds is not None or (not isinstance(early_stopping, str) and bool(early_stopping))


def choose_stopping(
    early_stopping: str | bool | np.bool_,
    early_stopping_rounds: int | None,
    n_estimators: int | None,
    validation_fraction: float,
    refit: bool,
    *,
    n_samples: int,
    has_eval_sets: bool,
) -> Stopping:
    """Decide how a training ends, from the parameters of `ABCBoostClassifier` and what the fit is given."""
    stops = is_asked_to_stop(early_stopping, early_stopping_rounds)
    if not stops and isinstance(early_stopping, str) and n_estimators is None:
        stops = has_eval_sets or n_samples >= ENOUGH_ROWS
    if not stops:
        return Stopping()
    patience = PATIENCE if early_stopping_rounds is None else early_stopping_rounds
    return Stopping(patience) if has_eval_sets else Stopping(patience, validation_fraction, refit)


# ------------------------------------------------------------------------------------------------ best rounds


@dataclass
class BestRound:
    """The best value of one metric of one evaluation set, and the number of rounds that gave it."""

    value: float
    n_rounds: int


class BestRounds:
    """The best rounds of several metrics.

    Parameters
    ----------
    min_delta : float
        An improvement must be larger than this.

    Attributes
    ----------
    rounds : dict
        (Evaluation set, metric) -> BestRound, in the order of the metrics.
    """

    def __init__(self, min_delta: float) -> None:
        self.min_delta = min_delta
        self.rounds: dict[tuple[str, str], BestRound] = {}

    def clear(self) -> None:
        """Forget all rounds."""
        self.rounds = {}

    def add(self, name: str, metric: str, value: float, n_rounds: int, higher_is_better: bool) -> None:
        """Add the value of a metric after `n_rounds` rounds."""
        best = self.rounds.setdefault((name, metric), BestRound(value, n_rounds))
        is_first = math.isnan(best.value) and not math.isnan(value)
        least = best.value + (self.min_delta if higher_is_better else -self.min_delta)
        if is_first or (value > least if higher_is_better else value < least):
            best.value, best.n_rounds = value, n_rounds

    def of_first(self) -> int | None:
        """The best round of the first metric that has been a number; None if none has."""
        return next((best.n_rounds for best in self._known.values()), None)

    def find_stale(self, n_rounds: int, patience: int) -> tuple[str, str] | None:
        """Evaluation set and metric of the first that has not improved for `patience` rounds, if there is one."""
        return next((key for key, best in self._known.items() if n_rounds - best.n_rounds >= patience), None)

    def has_waited(self, n_rounds: int, patience: int) -> bool:
        """Whether `patience` rounds have been done since the first."""
        return n_rounds - next(iter(self.rounds.values())).n_rounds >= patience

    def to_list(self) -> list[list[Any]]:
        """Plain values for a checkpoint."""
        return [[name, metric, best.value, best.n_rounds] for (name, metric), best in self.rounds.items()]

    def set_from(self, values: Any, most_rounds: int) -> None:
        """Take back what `to_list` returned, or raise a ValueError or TypeError."""
        self.rounds = {(str(name), str(metric)): BestRound(float(value), n) for name, metric, value, n in values}
        for best in self.rounds.values():
            check_integer("best round", best.n_rounds, minimum=1, maximum=most_rounds)

    @property
    def _known(self) -> dict[tuple[str, str], BestRound]:
        """Those of metrics that have been a number."""
        return {key: best for key, best in self.rounds.items() if not math.isnan(best.value)}


def warn_of_unknown(watched: Sequence[tuple[str, str, float]]) -> None:
    """Warn of metrics that are NaN after the first round, and refuse to stop by those that always will be."""
    unknown = [(name, metric) for name, metric, value in watched if math.isnan(value)]
    if len(unknown) == len(watched) and all(ALIASES.get(metric, metric) == "auc" for _, metric in unknown):
        refuse_unknown(unknown)  # for want of two classes; a metric of the user's may become a number
    if unknown:
        warn_caller(f"{_are_nan(unknown)}, and will not stop the training unless that changes.")


def refuse_unknown(metrics: Iterable[tuple[str, str]]) -> NoReturn:
    """Raise the error of a training that is to stop by these metrics (set and name), which are NaN."""
    raise ValueError(
        f"early stopping needs a metric that is a number: {_are_nan(metrics)}. Give another eval_metric, evaluation "
        "sets on which it can be computed (auc needs two classes), or early_stopping=False."
    )


def _are_nan(metrics: Iterable[tuple[str, str]]) -> str:
    names = [" ".join(metric) for metric in metrics]
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} NaN"
