"""Trials of a study, by their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optuna.trial import TrialState

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


def finished_trials(study: Any) -> list[Any]:
    """All trials that were completed or pruned."""
    return study.get_trials(deepcopy=False, states=FINISHED)


def running_trials(study: Any) -> list[Any]:
    """All trials in work, those of dead processes included."""
    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def counted_trials(study: Any) -> list[Any]:
    """All trials that are finished or in work."""
    return study.get_trials(deepcopy=False, states=(*FINISHED, TrialState.RUNNING))


def trials_when_asked(study: Any, states: Sequence[TrialState] | None = None) -> list[Any]:
    """Trials as they were when this thread asked for its trial.

    Reading them from a database takes as long as some rounds of boosting; Optuna's own samplers share them like this.
    """
    return study._get_trials(deepcopy=False, states=states, use_cache=True)
