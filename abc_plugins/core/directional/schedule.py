"""The schedule of directions: along which directions of class space the trees of the next round are grown.

A direction is one number per class; adding a constant to it changes nothing. Class k against the rest is the
direction e_k, class k against the base class b is e_k - e_b, and a random direction sets random groups of classes
against each other.

Directions are drawn such that the loss has the same expected curvature along all of them: from a normal distribution
whose covariance is the inverse of the mean Hessian. Drawn evenly over the classes instead, they would nearly all be
about the classes with the most loss, and what is learnt of the others would be by accident.

The options of the base-class schedule keep their meaning: `search` candidates are tried for each tree, `gap` rounds
keep the directions of a search, and `warmup` classic rounds come first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from abc_plugins.core.model.validation import ModelFormatError
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.blas import one_blas_thread
from abc_plugins.core.runtime.checks import check_integer
from abc_plugins.core.schedule import CLASSIC, check_search

_CLASSES_PER_TREE = 4
_FEWEST_TREES, _MOST_TREES = 2, 8
_FEWEST_OF_MANY_ROWS = 4
_MANY_ROWS = 2**15
"""With more samples a pass over all probabilities takes a third of the time of a tree: more trees share it."""

_ROWS_WORTH_SEVERAL_TREES = 8192
"""With fewer samples a tree is grown before another thread has woken up, and trees grown one at a time learn a little
more."""

ROUNDS_PER_BLOCK = 16
"""Rounds whose directions are drawn together, for the Hessian at the first of them."""

_FLATTEST = 0.1
"""Smallest curvature, as a share of the largest, that draws make up for."""

_NARROWEST, _WIDEST = 0.9, 3.2
"""Bounds of the eigenvalues of a spread, which are from 1 / sqrt(1 + _FLATTEST) to 1 / sqrt(_FLATTEST)."""


def default_trees_per_round(n_samples: int, n_classes: int) -> int:
    """Trees of a round: one for few samples, else enough for several threads, and the more the more classes."""
    if n_samples < _ROWS_WORTH_SEVERAL_TREES:
        return 1
    fewest = _FEWEST_TREES if n_samples < _MANY_ROWS else _FEWEST_OF_MANY_ROWS
    return max(fewest, min(round(n_classes / _CLASSES_PER_TREE), _MOST_TREES))


def check_spread(spread: Floats | None, n_classes: int) -> Floats:
    """Check what `DirectionSchedule.get_state` called the spread: with any other matrix draws may not be finite."""
    shape = (n_classes, n_classes)
    if spread is None or spread.shape != shape or not (np.abs(spread) <= _WIDEST).all():
        raise ModelFormatError(f"spread must be numbers of shape {shape}, of at most {_WIDEST:g}.")
    with one_blas_thread():
        is_wide = np.allclose(spread, spread.T) and float(np.linalg.eigvalsh(spread)[0]) >= _NARROWEST
    if not is_wide:
        raise ModelFormatError(f"spread must be a symmetric matrix with eigenvalues of at least {_NARROWEST:g}.")
    return spread


def check_directions(directions: Floats | None, shape: tuple[int, int]) -> Floats:
    """Check the directions that a schedule has kept for the next round, shape (n_trees, n_classes)."""
    most = math.sqrt(shape[1]) + 1e-6  # their mean square is 1
    if directions is None or directions.shape != shape or not (np.abs(directions) <= most).all():
        raise ModelFormatError(f"kept_directions must be numbers of shape {shape}, of at most {most:g}.")
    return directions


@dataclass(frozen=True)
class DirectionPlan:
    """What the next round grows.

    Attributes
    ----------
    candidates : array of shape (n_candidates, n_trees, n_classes)
        For each tree some directions to choose from, see `DirectionSchedule.choose`; for a classic round one each.
    is_classic : bool
        Tree k is of class k alone.
    """

    candidates: Floats
    is_classic: bool


class DirectionSchedule:
    """Decide the directions of every round.

    Parameters
    ----------
    n_classes : int
        K, at least 2.
    trees_per_round : int
        Trees grown side by side from the same probabilities.
    search : int or "all", default=1
        s: directions to try for each tree; "all" tries K.
    gap : int, default=0
        g: after a search, keep its directions for this many rounds.
    warmup : int, default=0
        w: classic rounds before the first search.
    seed : int, default=0
        Draws depend on nothing but this and the number of the round.

    Examples
    --------
    >>> schedule = DirectionSchedule(3, trees_per_round=2, search=4)
    >>> plan = schedule.plan()
    >>> plan.candidates.shape
    (4, 2, 3)
    >>> schedule.record(plan.candidates[0])
    >>> schedule.n_rounds
    1
    """

    def __init__(
        self,
        n_classes: int,
        *,
        trees_per_round: int,
        search: int | str = 1,
        gap: int = 0,
        warmup: int = 0,
        seed: int = 0,
    ) -> None:
        self.n_classes = check_integer("n_classes", n_classes, minimum=2)
        self.trees_per_round = check_integer("trees_per_round", trees_per_round, minimum=1)
        self.search = check_search(search, None)
        self.gap = check_integer("gap", gap, minimum=0)
        self.warmup = check_integer("warmup", warmup, minimum=0)
        self._seed = check_integer("seed", seed, minimum=0)
        self.n_rounds = 0
        self._kept: Floats | None = None
        self._drawn_block, self._drawn = -1, np.empty(0)
        self._spread = np.eye(self.n_classes)

    @property
    def bases(self) -> tuple[int, ...]:
        """The base class of every round so far: there is none."""
        return (CLASSIC,) * self.n_rounds

    @property
    def n_candidates(self) -> int:
        """How many directions a search tries for each tree."""
        return self.n_classes if self.search == "all" else int(self.search)

    @property
    def wants_hessian(self) -> bool:
        """Whether `set_hessian` is to be called before the next `plan`: every few rounds, it changes slowly."""
        return self.n_rounds % ROUNDS_PER_BLOCK == 0

    def set_hessian(self, hessian: Floats) -> None:
        """Draw from now on such that this mean Hessian, shape (n_classes, n_classes), has the same size everywhere."""
        with one_blas_thread():
            values, vectors = np.linalg.eigh(hessian)
            largest = max(float(values[-1]), np.finfo(float).tiny)
            self._spread = (vectors / np.sqrt(np.maximum(values, 0.0) / largest + _FLATTEST)) @ vectors.T
        self._drawn_block = -1

    def plan(self) -> DirectionPlan:
        """Say what the next round grows; asking changes nothing."""
        if self.n_rounds < self.warmup:
            return DirectionPlan(np.eye(self.n_classes)[None], is_classic=True)
        since_search = (self.n_rounds - self.warmup) % (self.gap + 1)
        if since_search > 0 and self._kept is not None:
            return DirectionPlan(self._kept[None], is_classic=False)
        return DirectionPlan(self.draw(self.n_rounds), is_classic=False)

    def draw(self, round_index: int) -> Floats:
        """Candidates of a search, with a mean of 0 and a mean square of 1 over the classes."""
        block, place = divmod(round_index, ROUNDS_PER_BLOCK)
        if block != self._drawn_block:  # those of some rounds together, as each draw takes time in Python
            with one_blas_thread():
                directions = self.draw_evenly(block) @ self._spread
            directions -= directions.mean(axis=-1, keepdims=True)
            directions /= np.sqrt((directions**2).mean(axis=-1, keepdims=True))
            self._drawn_block, self._drawn = block, directions
        return self._drawn[place]

    def draw_evenly(self, block: int) -> Floats:
        """Normal numbers of the rounds of a block, shape (n_rounds, n_candidates, n_trees, n_classes)."""
        random = np.random.default_rng([self._seed, block])
        shape = (ROUNDS_PER_BLOCK, self.n_candidates, self.trees_per_round, self.n_classes)
        return random.standard_normal(shape)

    @staticmethod
    def choose(root_gains: Floats) -> AnyArray:
        """For each tree the candidate whose root gains most, the earlier one in a tie.

        Parameters
        ----------
        root_gains : array of shape (n_candidates, n_trees)

        Returns
        -------
        best : array of int, shape (n_trees,)
        """
        return np.argmax(root_gains, axis=0)

    def record(self, directions: Floats) -> None:
        """Note that a round was added to the model with these directions, shape (n_trees, n_classes)."""
        if self.n_rounds >= self.warmup:
            self._kept = directions if self.gap > 0 else None
        self.n_rounds += 1

    def skip(self, n_rounds: int) -> None:
        """Go on as after `n_rounds` rounds, with new directions."""
        self.n_rounds, self._kept, self._drawn_block = n_rounds, None, -1

    def go_on(self, n_rounds: int, state: Mapping[str, Any], mean_hessian: Callable[[], Floats]) -> None:
        """Go on after `n_rounds` rounds from what `get_state` returned then, as arrays or as lists.

        Without a state, or with one of other options, directions are drawn anew, for the mean Hessian there is now.
        """
        try:
            self.set_state(n_rounds, {name: np.asarray(values, dtype=np.float64) for name, values in state.items()})
        except ValueError:
            self.skip(n_rounds)
            self.set_hessian(mean_hessian())

    def get_state(self) -> dict[str, Floats]:
        """What a schedule needs besides its parameters and the number of rounds to go on."""
        kept = {} if self._kept is None else {"kept_directions": self._kept}
        return {"spread": self._spread, **kept}

    def set_state(self, n_rounds: int, state: Mapping[str, Floats]) -> None:
        """Go on after `n_rounds` rounds, from what `get_state` returned then.

        Raises
        ------
        ModelFormatError
            If the state does not fit the schedule.
        """
        self._spread, self._drawn_block = check_spread(state.get("spread"), self.n_classes), -1
        self.n_rounds = n_rounds
        self._kept = None
        if self.gap > 0 and n_rounds > self.warmup:
            self._kept = check_directions(state.get("kept_directions"), (self.trees_per_round, self.n_classes))
