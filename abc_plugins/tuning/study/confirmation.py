"""The best trials and the defaults scored again, on folds that had no part in choosing them.

The best of many trials is in part the luckiest, so that its score on the folds of the study is too good. On fresh folds
it is not chosen for its luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abc_plugins.tuning.study.storage import DEFAULTS, PREFIX, START
from abc_plugins.tuning.study.trials import complete_trials, maximizes

_SCORES = PREFIX + "fresh_scores:"
"""Begins the names of attributes of a study, one for each trial that was scored on the fresh folds."""


def unconfirmed_trials(study: Any, n_leaders: int) -> list[Any]:
    """Those of the defaults and the best trials that have no scores on fresh folds yet.

    Only trials that are better than the defaults count; if there are none, there is nothing to confirm.
    """
    complete, defaults = complete_trials(study), trial_of_defaults(study)
    if defaults is None:
        return []
    sign = -1.0 if maximizes(study) else 1.0
    better = [trial for trial in complete if sign * trial.values[0] < sign * defaults.values[0]]
    leaders = sorted(better, key=lambda trial: (sign * trial.values[0], trial.number))[:n_leaders]
    wanted = [defaults, *leaders] if leaders else []
    return [trial for trial in wanted if fresh_scores(study, trial) is None]


def keep_fresh_scores(study: Any, trial: Any, scores: Sequence[float]) -> None:
    """Keep the scores of a trial on the fresh folds."""
    study.set_user_attr(f"{_SCORES}{trial.number}", list(scores))


def fresh_scores(study: Any, trial: Any) -> list[float] | None:
    """Scores of a trial on the fresh folds, or None."""
    scores: list[float] | None = study.user_attrs.get(f"{_SCORES}{trial.number}")
    return scores


def trial_of_defaults(study: Any) -> Any:
    """The trial of the defaults; None if it was not completed."""
    return next((trial for trial in complete_trials(study) if trial.user_attrs.get(START) == DEFAULTS), None)
