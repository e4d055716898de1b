"""What all contenders of a comparison share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from abc_plugins.core.runtime.checks import check_integer, check_real
from abc_plugins.core.schedule import check_search

SEED = 0
"""Seed of every contender; the seeds of the splits are others."""


@dataclass(frozen=True)
class CompareSettings:
    """Settings of all contenders; None leaves a setting to each one's own default.

    Attributes
    ----------
    rounds : int
        Boosting rounds, M.
    num_leaves : int or None
        Leaves of a tree, J.
    learning_rate : float or None
        Shrinkage, nu.
    max_bins : int or None
        Bins of a feature.
    leaf_clip : float or None
        Largest leaf value before shrinkage (LightGBM's and XGBoost's max_delta_step).
    search, gap, warmup : int (search also "all") or None
        The schedule of the base class: s, g and w.
    n_jobs : int
        Threads.
    """

    rounds: int = 100
    num_leaves: int | None = 20
    learning_rate: float | None = 0.1
    max_bins: int | None = 255
    leaf_clip: float | None = 4.0
    search: int | str | None = None
    gap: int | None = None
    warmup: int | None = None
    n_jobs: int = 1

    def __post_init__(self) -> None:
        check_integer("rounds", self.rounds, minimum=1)
        check_integer("n_jobs", self.n_jobs, minimum=1)
        if self.num_leaves is not None:
            check_integer("num_leaves", self.num_leaves, minimum=2)
        if self.learning_rate is not None:
            check_real("learning_rate", self.learning_rate, above=0.0)
        if self.max_bins is not None:
            check_integer("max_bins", self.max_bins, minimum=2, maximum=255)
        if self.leaf_clip is not None:
            check_real("leaf_clip", self.leaf_clip, above=0.0)
        if self.search is not None:
            check_search(self.search, None)
        for name in ("gap", "warmup"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), minimum=0)

    @property
    def schedule(self) -> dict[str, Any]:
        """The parts of the schedule that are given."""
        given = {name: getattr(self, name) for name in ("search", "gap", "warmup")}
        return {name: value for name, value in given.items() if value is not None}
