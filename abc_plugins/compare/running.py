"""Fit every contender on every split, interleaved; what is kept is not fitted again."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from abc_plugins.compare.entrants import AnyEntrant
from abc_plugins.compare.store import RunStore
from abc_plugins.core.runtime.fingerprint import digest_arrays
from abc_plugins.data.datasets import Dataset
from abc_plugins.machine import describe_machine

Progress = Callable[[int, int, str, float], None]
"""progress(fits done, fits in all, what is fitted now, seconds left or NaN)."""


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
        store.add(plan.fit(contender, split))
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
