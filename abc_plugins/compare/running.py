"""Fit every contender on every split, interleaved; what is kept is not fitted again."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from abc_plugins.compare.store import RunStore
from abc_plugins.data.datasets import Dataset
from abc_plugins.machine import describe_machine

Progress = Callable[[int, int, str, float], None]
"""progress(fits done, fits in all, what is fitted now, seconds left or NaN)."""


class Named(Protocol):
    """A contender as far as the order of the fits is concerned."""

    @property
    def key(self) -> str:
        """Its name on the command line."""

    @property
    def title(self) -> str:
        """Its name in tables."""


AnyContender = TypeVar("AnyContender", bound=Named)


def describe_data(dataset: Dataset) -> dict[str, Any]:
    """What tells data from others."""
    text = "\0".join(map(str, dataset.y.tolist()))
    digest = hashlib.sha256(np.ascontiguousarray(dataset.X).tobytes() + text.encode())
    return {"name": dataset.name, "shape": list(dataset.X.shape), "sha256": digest.hexdigest()}


def describe_subject(dataset: Dataset, **more: Any) -> dict[str, Any]:
    """What the kept fits of a folder must agree on."""
    return {"data": describe_data(dataset), **more, "machine": describe_machine()}


def run_fits(
    contenders: Sequence[AnyContender],
    splits: int,
    store: RunStore,
    *,
    fit: Callable[[AnyContender, int], dict[str, Any]],
    warm_up: Callable[[Sequence[AnyContender]], None],
    seconds_of: Callable[[dict[str, Any]], float],
    progress: Progress,
) -> list[dict[str, Any]]:
    """Do all fits that the store does not have yet.

    Parameters
    ----------
    contenders : sequence
    splits : int
    store : RunStore
    fit : function
        (contender, split) -> what is kept of the fit.
    warm_up : function
        Gets the contenders that have fits to do, before the first of them.
    seconds_of : function
        What a kept fit took.
    progress : function

    Returns
    -------
    list of dict
        The fits of all splits and contenders, in this order.
    """
    order = [(contender, split) for split in range(splits) for contender in contenders]
    todo = [(contender, split) for contender, split in order if (contender.key, split) not in store.runs]
    n_kept = len(order) - len(todo)
    if todo:
        progress(n_kept, len(order), "warming up", float("nan"))
        warm_up(list({contender.key: contender for contender, _ in todo}.values()))
    for done, (contender, split) in enumerate(todo):
        left = _seconds_left(store, [contender.key for contender, _ in todo[done:]], seconds_of)
        progress(n_kept + done, len(order), f"{contender.title}, split {split + 1} of {splits}", left)
        store.add(fit(contender, split))
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
