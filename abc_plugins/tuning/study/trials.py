"""Trials of a study, by their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optuna.study import StudyDirection
from optuna.trial import TrialState

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


def maximizes(study: Any) -> bool:
    """Whether higher values of the metric are better."""
    return bool(study.directions[0] == StudyDirection.MAXIMIZE)


def complete_trials(study: Any) -> list[Any]:
    """All trials that have a score of all folds."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def finished_trials(study: Any) -> list[Any]:
    """All trials that were completed or pruned."""
    return study.get_trials(deepcopy=False, states=FINISHED)


def running_trials(study: Any) -> list[Any]:
    """All trials in work, those of dead processes included."""
    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def counted_trials(study: Any) -> list[Any]:
    """All trials that are finished or in work."""
    return study.get_trials(deepcopy=False, states=(*FINISHED, TrialState.RUNNING))


def trials_when_asked(study: Any, number: int, states: Sequence[TrialState] = tuple(TrialState)) -> list[Any]:
    """Trials as they were when trial `number` was asked for.

    Reading them from a database takes as long as some rounds of boosting; Optuna's own samplers share them like this,
    too. If another thread has asked for the trial, those that this one knows are older, and they are read.
    """
    known = study._get_trials(deepcopy=False, states=None, use_cache=True)
    if all(trial.number != number for trial in known):
        known = study.get_trials(deepcopy=False)
    return [trial for trial in known if trial.state in states]
