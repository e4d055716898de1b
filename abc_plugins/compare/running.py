"""Fit every contender on every split, interleaved; what is kept is not fitted again."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from abc_plugins.compare.entrants import AnyEntrant, Entrant
from abc_plugins.compare.store import RunStore
from abc_plugins.core.runtime.checks import check_integer, check_real, fail
from abc_plugins.core.runtime.fingerprint import digest_arrays
from abc_plugins.data.datasets import Dataset
from abc_plugins.machine import describe_machine

Progress = Callable[[int, int, str, float], None]
"""progress(fits done, fits in all, what is fitted now, seconds left or NaN)."""

LARGEST_VALUE = float(np.finfo(np.float32).max)
"""XGBoost and the forest take no larger numbers."""


class ComparisonPlan(Protocol[AnyEntrant]):
    """What is compared."""

    @property
    def contenders(self) -> Sequence[AnyEntrant]:
        """Who takes part."""

    @property
    def splits(self) -> int:
        """Number of splits."""

    def subject(self) -> dict[str, Any]:
        """What the kept fits of a folder must agree on."""

    def fit(self, contender: AnyEntrant, split: int) -> dict[str, Any]:
        """Fit a contender on a split; what is kept of it has the keys contender and split."""

    def warm_up(self, contenders: Sequence[AnyEntrant]) -> None:
        """Import packages and compile kernels before the clock runs; gets the contenders that have fits to do."""

    def seconds_of(self, fit: dict[str, Any]) -> float:
        """What a kept fit took."""


class SplitPlan:
    """What the plans of all protocols have in common: a data set, and how it is split."""

    dataset: Dataset
    splits: int
    test_size: float | None
    seed: int

    def __post_init__(self) -> None:
        check_integer("splits", self.splits, minimum=1)
        check_integer("seed", self.seed, minimum=0)
        if self.test_size is not None:
            check_real("test_size", self.test_size, minimum=0.01, maximum=0.99)
        for name, column in zip(self.dataset.feature_names, self.dataset.X.T, strict=True):
            if (np.abs(column) > LARGEST_VALUE).any():
                largest = float(np.nanmax(np.abs(column)))
                fail(f"feature {name!r} of {self.dataset.name}", largest, f"within +-{LARGEST_VALUE:.2g}, or NaN")

    @property
    def own_split(self) -> bool:
        """Whether the data set's own split is used."""
        return self.splits == 1 and self.test_size is None and self.dataset.train_index is not None


@contextmanager
def naming(entrant: Entrant) -> Iterator[None]:
    """Let errors say whose fit has failed, without the stack of C++ functions that libraries append."""
    try:
        yield
    except Exception as error:
        message = str(error).partition("\nStack trace:")[0].strip() or type(error).__name__
        raise RuntimeError(f"{entrant.title} ({entrant.key}) has failed: {message}") from error


def describe_data(dataset: Dataset) -> dict[str, Any]:
    """What tells data from others."""
    return {"name": dataset.name, "shape": list(dataset.X.shape), "sha256": digest_arrays(dataset.X, dataset.y)}


def describe_subject(dataset: Dataset, **more: Any) -> dict[str, Any]:
    """What the kept fits of a folder must agree on."""
    return {"data": describe_data(dataset), **more, "machine": describe_machine()}


def run(
    plan: ComparisonPlan[AnyEntrant],
    folder: str | os.PathLike[str],
    *,
    fresh: bool = False,
    progress: Progress = lambda *_: None,
) -> list[dict[str, Any]]:
    """Do all fits of a plan that the folder does not have yet.

    Parameters
    ----------
    plan : PracticePlan, or BudgetPlan of `abc_plugins.compare.budgets`
    folder : path
        Where the fits are kept.
    fresh : bool, default=False
        Drop what is there.
    progress : function, optional

    Returns
    -------
    list of dict
        The fits of all splits and contenders, in this order.
    """
    contenders, splits = plan.contenders, plan.splits
    store = RunStore(folder, plan.subject(), fresh=fresh)
    order = [(contender, split) for split in range(splits) for contender in contenders]
    todo = [(contender, split) for contender, split in order if (contender.key, split) not in store.runs]
    n_kept = len(order) - len(todo)
    if todo:
        progress(n_kept, len(order), "warming up", float("nan"))
        plan.warm_up(list({contender.key: contender for contender, _ in todo}.values()))
    for done, (contender, split) in enumerate(todo):
        left = _seconds_left(store, [contender.key for contender, _ in todo[done:]], plan.seconds_of)
        progress(n_kept + done, len(order), f"{contender.title}, split {split + 1} of {splits}", left)
        with naming(contender):
            fit = plan.fit(contender, split)
        store.add(fit)
    progress(len(order), len(order), "done", 0.0)
    return [store.runs[contender.key, split] for contender, split in order]


def _seconds_left(store: RunStore, keys: Sequence[str], seconds_of: Callable[[dict[str, Any]], float]) -> float:
    """Estimate by what fits of the same contender took, or else by the mean of all; NaN before the first."""
    taken: dict[str, list[float]] = {}
    for (key, _), fit in store.runs.items():
        taken.setdefault(key, []).append(seconds_of(fit))
    if not taken:
        return float("nan")
    means = {key: statistics.fmean(seconds) for key, seconds in taken.items()}
    overall = statistics.fmean(means.values())
    return sum(means.get(key, overall) for key in keys)
