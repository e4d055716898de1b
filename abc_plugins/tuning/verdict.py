"""Whether a study found anything: the best trial against the defaults, fold by fold."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optuna.study import StudyDirection
from optuna.trial import TrialState

from abc_plugins.tuning.objective import COST, FOLD_SCORES, outcome
from abc_plugins.tuning.study.storage import DEFAULTS, PREFIX, START

TEST_SHARE = PREFIX + "test_share"
"""Attribute of a study: rows that score a trial for each row that it is trained with."""


@dataclass(frozen=True)
class Verdict:
    """The best trial against the defaults.

    Attributes
    ----------
    leader : optuna.trial.FrozenTrial
        The complete trial with the best mean score.
    defaults : optuna.trial.FrozenTrial or None
        The trial of the defaults; None if it was not completed.
    chosen : optuna.trial.FrozenTrial
        The leader if it beats the defaults beyond the spread of the difference, else the defaults.
    gain : float
        How much better the leader is than the defaults, in the mean over the folds.
    margin : float
        Standard error of the gain.
    n_better, n_folds : int
        Folds in which the leader is strictly better, and all of them.
    n_alike : int
        Complete trials, but for the leader, that it does not beat beyond the spread of the difference.
    n_complete : int
    """

    leader: Any
    defaults: Any
    chosen: Any
    gain: float
    margin: float
    n_better: int
    n_folds: int
    n_alike: int
    n_complete: int

    @property
    def keeps_defaults(self) -> bool:
        """Whether the defaults were kept."""
        return self.defaults is not None and self.chosen.number == self.defaults.number


def judge(study: Any) -> Verdict:
    """Compare the best trial of a study with the defaults."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        raise ValueError(f"the study {study.study_name!r} has no finished trial: give it more trials or more time.")
    sign = -1.0 if maximizes(study) else 1.0
    leader = min(complete, key=lambda trial: (sign * trial.values[0], outcome(trial)[COST], trial.number))
    defaults = next((trial for trial in complete if trial.user_attrs.get(START) == DEFAULTS), None)
    share = study.user_attrs.get(TEST_SHARE, 0.0)
    others = [trial for trial in complete if trial.number != leader.number]
    n_alike = sum(not _beats(gains_over(study, leader, other), share) for other in others)
    gains = [0.0] if defaults is None else gains_over(study, leader, defaults)
    keeps = defaults is not None and not _beats(gains, share)
    return Verdict(
        leader=leader,
        defaults=defaults,
        chosen=defaults if keeps else leader,
        gain=statistics.fmean(gains),
        margin=standard_error(gains, share),
        n_better=sum(gain > 0 for gain in gains),
        n_folds=len(gains),
        n_alike=n_alike,
        n_complete=len(complete),
    )


def maximizes(study: Any) -> bool:
    """Whether higher values of the metric are better."""
    return study.directions[0] == StudyDirection.MAXIMIZE


def gains_over(study: Any, trial: Any, other: Any) -> list[float]:
    """How much better a trial is than another one, fold by fold."""
    sign = 1.0 if maximizes(study) else -1.0
    pairs = zip(outcome(trial)[FOLD_SCORES], outcome(other)[FOLD_SCORES], strict=True)
    return [sign * (mine - theirs) for mine, theirs in pairs]


def standard_error(gains: Sequence[float], test_share: float) -> float:
    """Standard error of a mean over folds that share training rows (Nadeau and Bengio 2003).

    Parameters
    ----------
    gains : sequence of float
        One for each fold.
    test_share : float
        Rows that score for each row that is trained with.
    """
    if len(gains) < 2:
        return 0.0
    return statistics.stdev(gains) * math.sqrt(1.0 / len(gains) + test_share)


def _beats(gains: Sequence[float], test_share: float) -> bool:
    return statistics.fmean(gains) > standard_error(gains, test_share)
