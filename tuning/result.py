"""What a study found: the best trial against the baselines, with the spread over the folds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optuna.study import StudyDirection
from optuna.trial import TrialState

from tuning.objective import BASES, COST, FOLD_SCORES, PARAMS, ROUNDS, SECONDS, outcome
from tuning.studies import PREFIX, START

PAPER, DEFAULTS, PLAIN, SAMPLED = "paper", "defaults", "plain", "sampled"
"""Names of the trials that a study starts with."""


@dataclass(frozen=True)
class Comparison:
    """The best trial against another one, fold by fold.

    Attributes
    ----------
    name : str
        Of the other trial.
    score, spread : float
        Mean and standard deviation of the other's folds.
    gain, gain_spread : float
        Mean and standard deviation over the folds of how much better the best trial is.
    n_better, n_folds : int
        Folds in which the best trial is strictly better, and all of them.
    """

    name: str
    score: float
    spread: float
    gain: float
    gain_spread: float
    n_better: int
    n_folds: int


@dataclass(frozen=True)
class TuneResult:
    """Result of `tuning.tune`.

    Attributes
    ----------
    study : optuna.Study
    best_trial : optuna.trial.FrozenTrial
        The best mean score; of equal ones the cheapest.
    best_params : dict
        For the estimator, `n_estimators` included.
    best_score : float
        Mean of the metric over the outer folds.
    best_estimator : estimator or None
        Fitted on all data with `best_params`; None without `refit`.
    test_score : float or None
        The metric of `best_estimator` on the test set, if there is one.
    """

    study: Any
    best_trial: Any
    best_params: dict[str, Any]
    best_score: float
    best_estimator: Any = None
    test_score: float | None = None

    @property
    def trials(self) -> list[dict[str, Any]]:
        """One record a trial; `pandas.DataFrame(result.trials)` makes a table of it."""
        return trial_records(self.study)

    @property
    def front(self) -> list[dict[str, Any]]:
        """Trials that no other one beats in score and cost, the best score first."""
        return pareto_front(self.study)

    def summary(self) -> str:
        """The best trial against the baselines, as text."""
        lines = [summary_text(self.study)]
        if self.test_score is not None:
            lines.append(f"test set         {self.study.user_attrs[PREFIX + 'metric']} {self.test_score:.5g}")
        return "\n".join(lines)


def find_best(study: Any) -> Any:
    """The complete trial with the best mean score; of equal ones the one that grew the fewest trees."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        raise ValueError(f"the study {study.study_name!r} has no finished trial: give it more trials or more time.")
    sign = -1.0 if maximizes(study) else 1.0
    return min(complete, key=lambda trial: (sign * trial.values[0], outcome(trial)[COST], trial.number))


def maximizes(study: Any) -> bool:
    """Whether higher values of the metric are better."""
    return study.directions[0] == StudyDirection.MAXIMIZE


def mean_rounds(trial: Any) -> int:
    """Rounds to refit with: the mean over the folds."""
    return max(1, round(statistics.fmean(outcome(trial)[ROUNDS])))


def trial_records(study: Any) -> list[dict[str, Any]]:
    """One record a trial."""
    records = []
    for trial in study.get_trials(deepcopy=False):
        scores = outcome(trial).get(FOLD_SCORES, [])
        rounds = outcome(trial).get(ROUNDS)
        records.append(
            {
                "number": trial.number,
                "state": trial.state.name.lower(),
                "start": trial.user_attrs.get(START, ""),
                "score": statistics.fmean(scores) if scores else None,
                "spread": _spread(scores) if scores else None,
                "folds": len(scores),
                "rounds": statistics.fmean(rounds) if rounds else None,
                "cost": outcome(trial).get(COST),
                "seconds": outcome(trial).get(SECONDS),
                **{f"params_{name}": value for name, value in trial.user_attrs.get(PARAMS, {}).items()},
            }
        )
    return records


def pareto_front(study: Any) -> list[dict[str, Any]]:
    """Complete trials that are not beaten in score and cost, the best score first."""
    sign = -1.0 if maximizes(study) else 1.0
    complete = [record for record in trial_records(study) if record["state"] == "complete"]
    front: list[dict[str, Any]] = []
    for record in sorted(complete, key=lambda record: (sign * record["score"], record["cost"], record["number"])):
        if not front or record["cost"] < front[-1]["cost"]:
            front.append(record)
    return front


def compare(study: Any) -> list[Comparison]:
    """Compare the best trial with those that the study started with."""
    best = find_best(study)
    own = outcome(best)[FOLD_SCORES]
    sign = 1.0 if maximizes(study) else -1.0
    comparisons: list[Comparison] = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        name = trial.user_attrs.get(START)
        if name is None or any(known.name == name for known in comparisons):
            continue
        scores = outcome(trial)[FOLD_SCORES]
        gains = [sign * (mine - other) for mine, other in zip(own, scores, strict=True)]
        comparisons.append(
            Comparison(
                name,
                statistics.fmean(scores),
                _spread(scores),
                statistics.fmean(gains),
                _spread(gains),
                sum(gain > 0 for gain in gains),
                len(gains),
            )
        )
    return comparisons


def base_class_rounds(study: Any) -> dict[str, int]:
    """How many rounds of the best trial, all folds together, had each class as base; "classic" for none."""
    labels = study.user_attrs[PREFIX + "classes"]
    counts = outcome(find_best(study))[BASES]
    return {"classic" if base == "-1" else labels[int(base)]: count for base, count in counts.items()}


def summary_text(study: Any) -> str:
    """The best trial against the baselines, with the spread over the folds."""
    attributes = study.user_attrs
    best = find_best(study)
    records = trial_records(study)
    states = ", ".join(
        f"{sum(record['state'] == state for record in records)} {state}"
        for state in ("complete", "pruned", "fail", "running")
        if any(record["state"] == state for record in records)
    )
    metric, scores = attributes[PREFIX + "metric"], outcome(best)[FOLD_SCORES]
    parameters = {**best.user_attrs[PARAMS], "n_estimators": mean_rounds(best)}
    lines = [
        f"study            {study.study_name}: {attributes[PREFIX + 'engine']} engine, {states}",
        f"best             {metric} {statistics.fmean(scores):.5g} +- {_spread(scores):.2g} over {len(scores)} folds, "
        f"trial {best.number}, {outcome(best)[COST]} trees grown",
        "parameters       " + ", ".join(f"{name}={_shown(value)}" for name, value in parameters.items()),
    ]
    lines += [
        f"against {c.name:<9}{metric} {c.score:.5g} +- {c.spread:.2g}, better by {c.gain:.2g} +- {c.gain_spread:.2g}, "
        f"in {c.n_better} of {c.n_folds} folds"
        for c in compare(study)
    ]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0
