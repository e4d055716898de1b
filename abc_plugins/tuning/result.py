"""What a study found: the chosen settings against the defaults, with the spread over the folds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from abc_plugins.tuning.ensemble import EnsembleReport
from abc_plugins.tuning.objective import BASES, COST, FOLD_SCORES, PARAMS, ROUNDS, SECONDS, outcome
from abc_plugins.tuning.study.storage import FINGERPRINT, PREFIX, START
from abc_plugins.tuning.study.trials import maximizes
from abc_plugins.tuning.verdict import Verdict, judge

ROWS_RATIO = PREFIX + "rows_ratio"
"""Attribute of a study: rows of the final fit for each row that grows the trees of a fold."""

MISSING_CLASSES = PREFIX + "missing_classes"
"""Attribute of a study: labels, as text, that the training rows of some fold do not have."""

_NAMED_CLASSES = 5
_NEARLY = 0.98
"""Early stopping returns the best round, which lies a little before the last one."""


@dataclass(frozen=True)
class TuneResult:
    """Result of `tuning.tune`.

    Attributes
    ----------
    study : optuna.Study
    best_trial : optuna.trial.FrozenTrial
        The best mean score, if it beats the defaults beyond the spread of the difference, on fresh folds where there
        are some; else the defaults. Of equal scores the cheapest.
    best_params : dict
        For the estimator, `n_estimators` included.
    best_score : float
        Mean of the metric over the outer folds.
    best_estimator : estimator or None
        Fitted on all data with `best_params`, or a `WeightedEnsemble`; None without `refit`. It takes tables like those
        that were tuned on and predicts their labels; on LightGBM and XGBoost the library's own estimator, which knows
        class numbers, is its `estimator_`.
    test_score : float or None
        The metric of `best_estimator` on the test set; None if there is none, or if it could not be predicted.
    ensemble : EnsembleReport or None
        Members and gain of the ensemble, if one was asked for.
    """

    study: Any
    best_trial: Any
    best_params: dict[str, Any]
    best_score: float
    best_estimator: Any = None
    test_score: float | None = None
    ensemble: EnsembleReport | None = None

    @property
    def verdict(self) -> Verdict:
        """The best trial against the defaults."""
        return judge(self.study)

    @property
    def trials(self) -> list[dict[str, Any]]:
        """One record per trial; `pandas.DataFrame(result.trials)` makes a table of it."""
        return trial_records(self.study)

    @property
    def front(self) -> list[dict[str, Any]]:
        """Trials that no other one beats in score and cost, the best score first."""
        return pareto_front(self.study)

    def summary(self) -> str:
        """What was found, and whether to believe it, as text."""
        lines = [summary_text(self.study)]
        if self.ensemble is not None:
            lines.append(f"ensemble         {self.ensemble.sentence()}")
        if self.test_score is not None:
            lines.append(f"test set         {self.study.user_attrs[PREFIX + 'metric']} {self.test_score:.5g}")
        return "\n".join(lines)


def final_rounds(study: Any, trial: Any) -> int:
    """Rounds to refit with: the mean over the folds, times the square root of the ratio of the rows."""
    rounds = statistics.fmean(outcome(trial)[ROUNDS]) * math.sqrt(study.user_attrs.get(ROWS_RATIO, 1.0))
    return min(max(1, round(rounds)), _max_rounds(study))


def fit_parameters(study: Any, trial: Any) -> dict[str, Any]:
    """Parameters of the estimator for the final fit."""
    return {**trial.user_attrs[PARAMS], "n_estimators": final_rounds(study, trial)}


def _max_rounds(study: Any) -> int:
    most: int = study.user_attrs[FINGERPRINT]["settings"]["max_rounds"]
    return most


def trial_records(study: Any) -> list[dict[str, Any]]:
    """One record per trial."""
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
                "spread": spread(scores) if scores else None,
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


def base_class_rounds(study: Any) -> dict[str, int]:
    """How many rounds of the chosen trial, all folds together, had each class as base; "none" for no base."""
    labels = study.user_attrs[PREFIX + "classes"]
    counts = outcome(judge(study).chosen)[BASES]
    return {"none" if base == "-1" else labels[int(base)]: count for base, count in counts.items()}


# ------------------------------------------------------------------------------------------------ in words


def finding(study: Any) -> str:
    """What was found, in a sentence or two."""
    verdict, metric = judge(study), study.user_attrs[PREFIX + "metric"]
    leader = f"trial {verdict.leader.number} ({metric} {verdict.leader_score:.4g})"
    if verdict.defaults is None:
        return f"The best is {leader}. The defaults were not completed, so that there is nothing to compare it with."
    defaults = f"the defaults ({metric} {verdict.defaults_score:.4g})"
    if verdict.leader.number == verdict.defaults.number:
        return f"The defaults are kept: no trial is better ({metric} {verdict.defaults_score:.4g})."
    change = abs(verdict.gain / verdict.defaults_score) if verdict.defaults_score else 0.0
    folds = f"in {verdict.n_better} of {verdict.n_folds} {'fresh ' if verdict.is_confirmed else ''}folds"
    by = f"by {abs(verdict.gain):.2g} ({change:.1%}) +- {verdict.margin:.2g}, {folds}"
    if not verdict.keeps_defaults:
        return f"Better settings were found: {leader} beats {defaults} {by}."
    if verdict.gain <= 0:  # on fresh folds alone: it has led on those of the study
        return f"The defaults are kept: {leader} is not better than {defaults}, {folds}; it led by luck."
    return f"The defaults are kept: {leader} is better than {defaults} {by}, which is not beyond the noise."


def noise(study: Any) -> str | None:
    """A warning if many trials are as good as the best one within the noise."""
    verdict = judge(study)
    if verdict.n_alike < 1:
        return None
    others = "other complete trial is" if verdict.n_alike == 1 else "other complete trials are"
    return (
        f"{verdict.n_alike} {others} as good as the best one within the noise of the folds: "
        "do not read much into the differences between them."
    )


def cut_short(study: Any) -> str | None:
    """A warning if the limit of rounds, and not early stopping, ended most fits of the chosen trial."""
    rounds, most = outcome(judge(study).chosen)[ROUNDS], _max_rounds(study)
    n_cut = sum(number >= _NEARLY * most for number in rounds)
    if 2 * n_cut <= len(rounds):
        return None
    fits = f"{n_cut} of {len(rounds)} fits of the chosen trial"
    return f"{fits} ran (nearly) to max_rounds ({most}): more rounds may be better."


def rare_classes(study: Any) -> str | None:
    """A warning if classes are missing from the training rows of a fold."""
    missing = study.user_attrs.get(MISSING_CLASSES)  # studies of 0.1.0 do not tell
    if not missing:
        return None
    names = ", ".join(missing[:_NAMED_CLASSES]) + (", ..." if len(missing) > _NAMED_CLASSES else "")
    return (
        f"the training rows of some folds lack {names}: rows of such a class cannot be predicted there, and worsen the "
        "score of every trial alike."
    )


def summary_text(study: Any) -> str:
    """What was found, with the spread over the folds."""
    attributes = study.user_attrs
    records = trial_records(study)
    states = ", ".join(
        f"{sum(record['state'] == state for record in records)} {state}"
        for state in ("complete", "pruned", "fail", "running")
        if any(record["state"] == state for record in records)
    )
    verdict = judge(study)
    chosen, is_default = verdict.chosen, verdict.keeps_defaults
    metric, scores = attributes[PREFIX + "metric"], outcome(chosen)[FOLD_SCORES]
    parameters = ", ".join(f"{name}={shown(value)}" for name, value in fit_parameters(study, chosen).items())
    which = f"trial {chosen.number}{' (the defaults)' if is_default else ''}"
    lines = [
        f"study            {study.study_name}: {attributes[PREFIX + 'engine']} engine, {states}",
        f"found            {finding(study)}",
        f"chosen           {which}, {metric} {statistics.fmean(scores):.5g} +- {spread(scores):.2g} over "
        f"{len(scores)} folds, {outcome(chosen)[COST]:,} trees grown for them",
        f"parameters       {parameters}{'; all others as they come' if is_default else ''}",
    ]
    for label, warning in (("noise", noise(study)), ("rounds", cut_short(study)), ("classes", rare_classes(study))):
        lines += [f"{label:17}{warning}"] if warning else []
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A value as it is printed."""
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def spread(values: Sequence[float]) -> float:
    """Standard deviation over the folds."""
    return statistics.stdev(values) if len(values) > 1 else 0.0
