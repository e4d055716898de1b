"""What the rounds of all methods have in common."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray

MAX_HALVINGS = 8
"""How often the guard halves a step before it gives it up: 1/256 of the step is next to nothing."""

GUARD_MESSAGE = (
    "Round %d would have raised the training loss: the guard shortened its step. Further rounds are only counted."
)
CONVERGED_MESSAGE = "The training loss is gone after %d rounds: further ones add nothing."


class Rounds(Protocol):
    """What rounds of all methods count."""

    trees_grown: int
    guarded_rounds: int


class CountsRounds:
    """A booster that shows what its rounds count, `_rounds`; both counts can be set, as from a checkpoint."""

    _rounds: Rounds

    @property
    def trees_grown(self) -> int:
        """Distinct trees grown so far, with those of bases not chosen; candidates of a single split are not counted."""
        return self._rounds.trees_grown

    @trees_grown.setter
    def trees_grown(self, trees_grown: int) -> None:
        self._rounds.trees_grown = trees_grown

    @property
    def guarded_rounds(self) -> int:
        """Rounds whose step the guard has shortened, replaced or given up."""
        return self._rounds.guarded_rounds

    @guarded_rounds.setter
    def guarded_rounds(self, guarded_rounds: int) -> None:
        self._rounds.guarded_rounds = guarded_rounds


def draw_sample(n_samples: int, share: float, seed: int, round_index: int) -> AnyArray:
    """Samples to grow the trees of a round from, array of uint32 in increasing order."""
    n_drawn = min(n_samples, max(1, round(share * n_samples)))  # a process of several may have no samples
    if n_drawn == n_samples:
        return np.arange(n_samples, dtype=np.uint32)
    random = np.random.default_rng([seed, round_index])
    return np.sort(random.choice(n_samples, n_drawn, replace=False)).astype(np.uint32)
