"""The plan of a study: engine, data, ranges, metric and folds, all checked before any trial begins."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from abc_plugins.core.runtime.checks import check_flag, check_integer, check_real, fail
from abc_plugins.data.columns import warn_caller
from abc_plugins.tuning.engines.base import PACKAGES, FoldStopping, TunedEngine, engine_class
from abc_plugins.tuning.metric import TunedMetric
from abc_plugins.tuning.result import MISSING_CLASSES, ROWS_RATIO
from abc_plugins.tuning.space import Space, change_space, default_space, plain_name
from abc_plugins.tuning.splits import Fold, make_folds, usual_repeats, usual_validation_fraction
from abc_plugins.tuning.starts import Start, first_trials
from abc_plugins.tuning.study.storage import FINGERPRINT, PREFIX, fingerprint
from abc_plugins.tuning.study_data import StudyData, read_data
from abc_plugins.tuning.verdict import TEST_SHARE

ERROR, COST = "error", "cost"
_OBJECTIVES = ((ERROR,), (ERROR, COST))
_SET_BY_STUDY = (
    *("n_estimators", "early_stopping", "early_stopping_rounds", "validation_fraction", "refit"),
    *("eval_metric", "verbose", "callbacks"),
)
_RARE_CLASS = "The least populated class in y has only"  # how scikit-learn's warning begins
_NAMED_CLASSES = 5
_FRESH = 1_000_000
"""Added to the seed for the fresh folds, which have scored no trial before."""


@dataclass(frozen=True)
class StudyRun:
    """How many trials a process runs, for how long, and what it shows; results of trials do not depend on it."""

    n_trials: int
    timeout: float | None
    n_jobs: int
    callbacks: list[Callable[[Any, Any], None]]
    shows_progress: bool


@dataclass(frozen=True)
class Splitting:
    """Arguments that decide the folds; None where the number of rows decides."""

    cv: Any
    repeats: int | None
    validation_fraction: float | None


@dataclass(frozen=True)
class StudyPlan:
    """All that the trials of a study depend on.

    Attributes
    ----------
    engine : TunedEngine
    data : StudyData
    space : dict
    metric : TunedMetric
    folds, fresh_folds : list of Fold
        Those that score all trials, and as many fresh ones that score the best trials again. There are no fresh
        folds if `cv` is a splitter or a list.
    starts : list of (name, parameters)
        The trials that the study begins with.
    settings : dict
        Arguments that are part of the fingerprint.
    with_cost : bool
    seed : int
    """

    engine: TunedEngine
    data: StudyData
    space: Space
    metric: TunedMetric
    folds: list[Fold]
    fresh_folds: list[Fold]
    starts: list[Start]
    settings: dict[str, Any]
    with_cost: bool
    seed: int

    @property
    def directions(self) -> list[str]:
        """Direction of each objective."""
        return [self.metric.direction, "minimize"] if self.with_cost else [self.metric.direction]

    def attributes(self) -> dict[str, Any]:
        """User attributes of the study: what verdict and report need, and the fingerprint."""
        shares = [fold.test.size / (fold.train.size + fold.valid.size) for fold in self.folds]
        packages = PACKAGES[self.engine.name]
        return {
            PREFIX + "engine": self.engine.name,
            PREFIX + "metric": self.metric.name,
            PREFIX + "classes": [str(label) for label in self.data.classes.tolist()],
            MISSING_CLASSES: self._missing_classes(),
            PREFIX + "n_folds": len(self.folds),
            PREFIX + "shape": list(self.data.shape),
            TEST_SHARE: float(np.mean(shares)),
            ROWS_RATIO: self._rows_ratio(),
            FINGERPRINT: fingerprint(self.data.fingerprint(), self.folds, self.space, self.settings, packages),
        }

    def _missing_classes(self) -> list[str]:
        """Labels that the training rows of some fold do not have."""
        everywhere = [np.isin(np.arange(self.data.classes.size), self.data.codes[fold.train]) for fold in self.folds]
        return [str(label) for label in self.data.classes[~np.all(everywhere, axis=0)].tolist()]

    def _rows_ratio(self) -> float:
        """Rows of all data for each row that grows the trees of a fold; those without weight do not count."""
        weights = self.data.training_weights
        counts = np.ones(self.data.codes.size, dtype=bool) if weights is None else weights > 0
        return float(counts.sum() / np.mean([counts[fold.train].sum() for fold in self.folds]))


def make_plan(
    X: Any,
    y: Any,
    *,
    engine: str,
    fixed: Mapping[str, Any] | None,
    seed: Any,
    space: Mapping[str, Any] | None,
    metric: str | Callable[..., Any],
    objectives: Sequence[str],
    stopping: FoldStopping,
    splitting: Splitting,
    sample_weight: Any,
    groups: Any,
) -> StudyPlan:
    """Read the data and check all other arguments, which are those of `tune`."""
    with_cost = _check_objectives(objectives)
    fixed = _check_fixed(fixed, stopping.max_rounds)
    seed = check_integer("seed", seed, minimum=0)
    class_weight = fixed.pop("class_weight", None)
    n_threads = fixed.pop("n_jobs", None) or 1
    used = engine_class(engine)(fixed, n_threads, seed)
    _check_names(used, fixed, space)
    data = read_data(X, y, sample_weight, groups, class_weight, used)
    used.n_classes, n_samples = int(data.classes.size), int(data.codes.size)
    usual = default_space(used.n_classes, engine=engine, max_rounds=stopping.max_rounds, n_samples=n_samples)
    ranges = change_space(usual, space, used.fixed)
    _check_space(ranges, stopping.max_rounds)
    used_metric = TunedMetric(metric, data.classes)
    folds, fresh_folds = _folds(splitting, data, seed)
    starts = first_trials(used, ranges, n_samples)
    settings = {
        "engine": engine,
        "metric": used_metric.name,
        "objectives": list(objectives),
        "fixed": {**used.fixed, "class_weight": class_weight},
        "max_rounds": stopping.max_rounds,
        "early_stopping_rounds": stopping.patience,
        "starts": [list(start) for start in starts],
    }
    return StudyPlan(used, data, ranges, used_metric, folds, fresh_folds, starts, settings, with_cost, seed)


def check_run(n_trials: Any, timeout: Any, n_jobs: Any, callbacks: Any, progress: Any) -> StudyRun:
    """Check the arguments of `tune` that say how long to run and what to show."""
    if callbacks is not None and not isinstance(callbacks, Iterable):
        fail("callbacks", callbacks, "a list of functions of (study, trial)", TypeError)
    check_flag("progress", progress)
    return StudyRun(
        n_trials=check_integer("n_trials", n_trials, minimum=1),
        timeout=None if timeout is None else check_real("timeout", timeout, above=0.0),
        n_jobs=check_integer("n_jobs", n_jobs, minimum=1),
        callbacks=list(callbacks or ()),
        shows_progress=progress,
    )


def check_stopping(max_rounds: Any, patience: Any) -> FoldStopping:
    """Check when a fit ends."""
    if patience is not None:
        patience = check_integer("early_stopping_rounds", patience, minimum=1)
    return FoldStopping(check_integer("max_rounds", max_rounds, minimum=1), patience)


def _check_objectives(objectives: Any) -> bool:
    if not isinstance(objectives, list | tuple) or tuple(objectives) not in _OBJECTIVES:
        fail("objectives", objectives, " or ".join(map(repr, _OBJECTIVES)))
    return COST in objectives


def _check_fixed(fixed: Any, max_rounds: int) -> dict[str, Any]:
    if fixed is not None and not isinstance(fixed, Mapping):
        fail("fixed", type(fixed).__name__, "a dict of parameters of the estimator, or None", TypeError)
    for name in fixed or ():
        if name in _SET_BY_STUDY:
            raise ValueError(f"fixed must not have {name!r}: the study sets it.")
    warmup = (fixed or {}).get("warmup", 0)
    if isinstance(warmup, int) and warmup > max_rounds:
        fail("fixed['warmup']", warmup, f"at most max_rounds ({max_rounds}), which warm-up rounds are part of")
    return dict(fixed or {})


def _check_names(engine: TunedEngine, fixed: Mapping[str, Any], space: Any) -> None:
    """Refuse names that the estimator does not know."""
    known = engine.known_parameters()
    for argument, given in (("fixed", fixed), ("space", space if isinstance(space, Mapping) else {})):
        for name in given:
            if known is not None and plain_name(name) not in known:
                fail(argument, name, f"given by names of parameters of the {engine.name} engine's estimator")


def _check_space(space: Space, max_rounds: int) -> None:
    if not space:
        fail("space", space, "left with at least one parameter to tune")
    for name, distribution in space.items():
        if plain_name(name) in _SET_BY_STUDY:
            raise ValueError(f"space must not have {name!r}: the study sets it.")
        if name == "warmup" and getattr(distribution, "high", 0) > max_rounds:
            fail("space['warmup']", distribution, f"a range up to max_rounds ({max_rounds}) at most")


def _folds(splitting: Splitting, data: StudyData, seed: int) -> tuple[list[Fold], list[Fold]]:
    """The folds of the trials, and fresh ones drawn in the same way with another seed."""
    n_samples, repeats, fraction = int(data.codes.size), splitting.repeats, splitting.validation_fraction
    if repeats is None:
        repeats = usual_repeats(splitting.cv, n_samples)
    else:
        check_integer("repeats", repeats, minimum=1)
    if fraction is None:
        fraction = usual_validation_fraction(n_samples)
    else:
        fraction = check_real("validation_fraction", fraction, above=0.0, maximum=0.9)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_RARE_CLASS)
        folds = make_folds(splitting.cv, data.codes, data.groups, fraction, seed, repeats)
        fresh = []
        if isinstance(splitting.cv, int | np.integer):
            fresh = make_folds(splitting.cv, data.codes, data.groups, fraction, seed + _FRESH, repeats)
    _warn_of_rare_classes(splitting.cv, data)
    return folds, fresh


def _warn_of_rare_classes(cv: Any, data: StudyData) -> None:
    """Warn once and name the classes; scikit-learn would warn for every repetition of the folds."""
    counts = np.bincount(data.codes)
    rare = np.flatnonzero(counts < (cv if isinstance(cv, int | np.integer) else 0))
    if rare.size:
        names = ", ".join(f"{data.classes[code]} ({counts[code]})" for code in rare[:_NAMED_CLASSES])
        more = f" and {len(rare) - _NAMED_CLASSES} more" if len(rare) > _NAMED_CLASSES else ""
        warn_caller(f"classes with fewer rows than the {cv} folds are missing from some of them: {names}{more}.")
