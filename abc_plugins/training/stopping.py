"""How a fit finds its number of rounds: all of them, early stopping by evaluation sets or by a validation part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from abc_plugins.core.runtime.checks import check_flag, check_integer, check_real, fail

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
    if not isinstance(early_stopping, bool) and early_stopping != "auto":
        fail("early_stopping", early_stopping, '"auto", True or False', _kind_of_error(early_stopping))
    if early_stopping_rounds is not None:
        check_integer("early_stopping_rounds", early_stopping_rounds, minimum=1)
        if early_stopping is False:
            fail("early_stopping_rounds", early_stopping_rounds, "None with early_stopping=False")
    check_real("validation_fraction", validation_fraction, above=0.0, maximum=0.9)
    check_flag("refit", refit)


def choose_stopping(
    early_stopping: str | bool,
    early_stopping_rounds: int | None,
    n_estimators: int | None,
    validation_fraction: float,
    refit: bool,
    *,
    n_samples: int,
    has_eval_sets: bool,
) -> Stopping:
    """Decide how a training ends, from the parameters of `ABCBoostClassifier` and what the fit is given."""
    stops = early_stopping is True or early_stopping_rounds is not None
    if not stops and early_stopping == "auto" and n_estimators is None:
        stops = has_eval_sets or n_samples >= ENOUGH_ROWS
    if not stops:
        return Stopping()
    patience = PATIENCE if early_stopping_rounds is None else early_stopping_rounds
    return Stopping(patience) if has_eval_sets else Stopping(patience, validation_fraction, refit)


def _kind_of_error(value: Any) -> type[Exception]:
    return ValueError if isinstance(value, str) else TypeError
