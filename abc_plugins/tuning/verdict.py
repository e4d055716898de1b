"""Whether a study found anything: the best trial against the defaults, fold by fold."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from abc_plugins.tuning.objective import COST, FOLD_SCORES, outcome
from abc_plugins.tuning.study.confirmation import fresh_scores, trial_of_defaults
from abc_plugins.tuning.study.storage import PREFIX
from abc_plugins.tuning.study.trials import complete_trials, maximizes

TEST_SHARE = PREFIX + "test_share"
"""Attribute of a study: rows that score a trial for each row that it is trained with."""


@dataclass(frozen=True)
class Verdict:
    """The best trial against the defaults.

    Attributes
    ----------
    leader : optuna.trial.FrozenTrial
        The complete trial with the best mean score. Where some were scored again on fresh folds, it is one of those,
        and the mean is over all folds.
    defaults : optuna.trial.FrozenTrial or None
        The trial of the defaults; None if it was not completed.
    chosen : optuna.trial.FrozenTrial
        The leader if it beats the defaults beyond the spread of the difference, else the defaults.
    is_confirmed : bool
        Whether leader and defaults are compared on fresh folds, and not on those that chose the leader.
    leader_score, defaults_score : float
        Their mean scores on the folds that they are compared on.
    gain : float
        How much better the leader is than the defaults there.
    margin : float
        Standard error of the gain.
    n_better, n_folds : int
        Folds in which the leader is strictly better, and the number of folds.
    n_alike : int
        Complete trials, but for the leader, that it does not beat beyond the spread of the difference.
    n_complete : int
    """

    leader: Any
    defaults: Any
    chosen: Any
    is_confirmed: bool
    leader_score: float
    defaults_score: float
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
    complete, defaults = complete_trials(study), trial_of_defaults(study)
    if not complete:
        raise ValueError(f"the study {study.study_name!r} has no finished trial: give it more trials or more time.")
    share = study.user_attrs.get(TEST_SHARE, 0.0)
    rivals = [trial for trial in complete if fresh_scores(study, trial) and trial.number != defaults.number]
    leader = best_trial(study, rivals or complete)
    mine, theirs = _scores(leader), _scores(defaults or leader)
    if rivals:
        mine, theirs = fresh_scores(study, leader) or [], fresh_scores(study, defaults) or []
    gains = _gains(study, mine, theirs)
    keeps = defaults is not None and not _beats(gains, share)
    others = [_gains(study, _scores(leader), _scores(other)) for other in complete if other.number != leader.number]
    return Verdict(
        leader=leader,
        defaults=defaults,
        chosen=defaults if keeps else leader,
        is_confirmed=bool(rivals),
        leader_score=statistics.fmean(mine),
        defaults_score=statistics.fmean(theirs),
        gain=statistics.fmean(gains),
        margin=standard_error(gains, share),
        n_better=sum(gain > 0 for gain in gains),
        n_folds=len(gains),
        n_alike=sum(not _beats(own, share) for own in others),
        n_complete=len(complete),
    )


def best_trial(study: Any, trials: Sequence[Any]) -> Any:
    """The best mean over all folds that a trial was scored on, the fresh ones included; of equal ones the cheapest."""
    sign = -1.0 if maximizes(study) else 1.0

    def rank(trial: Any) -> tuple[float, int, int]:
        scores = [*_scores(trial), *(fresh_scores(study, trial) or [])]
        return sign * statistics.fmean(scores), outcome(trial)[COST], trial.number

    return min(trials, key=rank)


def _scores(trial: Any) -> list[float]:
    scores: list[float] = outcome(trial)[FOLD_SCORES]
    return scores


def _gains(study: Any, mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """How much better scores are than others, fold by fold."""
    sign = 1.0 if maximizes(study) else -1.0
    return [sign * (one - other) for one, other in zip(mine, theirs, strict=True)]


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
