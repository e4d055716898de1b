"""Leaves of samples, found from what trees add to their scores, for libraries that do not tell the leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from abc_plugins.core.pair_rounds import PairRound
from abc_plugins.core.pairs import Pair
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.jit import kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.scores import PairScores

_SAME_VALUE = 1e-10  # leaf values closer than this cannot be told apart in differences of scores
_BOUNDS_IN_TURN = 256  # bisection is faster for more


class LeafFinder:
    """Tell the leaf of every sample from what a tree added to its score.

    Leaves with (almost) the same value count as one leaf, and are given the same new value.

    Parameters
    ----------
    leaf_values : array
        What every leaf adds, shrinkage included. If leaves do not add the same to all of their samples: what the tree
        adds to each sample, as if each were a leaf.

    Attributes
    ----------
    group : array of int, the shape of `leaf_values`
        Leaf number as `find` returns it.
    values : array of shape (n_leaves,)
        What the leaves add, by these numbers.
    """

    def __init__(self, leaf_values: Floats) -> None:
        order = np.argsort(leaf_values, kind="stable")
        ordered = leaf_values[order].astype(np.float64)
        new_group = np.diff(ordered) > _SAME_VALUE
        self.group = np.empty(leaf_values.size, dtype=np.int64)
        self.group[order] = np.concatenate(([0], np.cumsum(new_group)))
        self.values = ordered[np.concatenate(([True], new_group))]
        self._bounds = 0.5 * (ordered[:-1] + ordered[1:])[new_group]

    def find(self, additions: AnyArray, leaf_ids: AnyArray) -> None:
        """Write the leaf of every sample; both arrays have shape (n_samples,)."""
        if self._bounds.size > _BOUNDS_IN_TURN:
            leaf_ids[:] = np.searchsorted(self._bounds, additions)
        elif additions.dtype == np.float32:
            _find_leaves(additions, self._narrow_bounds, np.empty(ROWS_PER_BLOCK, dtype=np.int32), leaf_ids)
        else:
            _find_leaves(additions, self._bounds, np.empty(ROWS_PER_BLOCK, dtype=np.int64), leaf_ids)

    @cached_property
    def _narrow_bounds(self) -> AnyArray:
        """Bounds in float32, for vectorised comparisons; each is rounded to below the value above it."""
        narrow = self._bounds.astype(np.float32)
        return np.where(narrow < self.values[1:], narrow, self.values[:-1].astype(np.float32))


@kernel
def _find_leaves(additions, bounds, below, leaf_ids):
    """Count the bounds below each value, bound by bound: vectorised, that is faster than bisection.

    The counts are made in `below`, integers as wide as the values.
    """
    for start in range(0, additions.size, ROWS_PER_BLOCK):
        block = additions[start : start + ROWS_PER_BLOCK]
        below[:] = 0
        for bound in bounds:
            for i in range(block.size):
                below[i] += bound < block[i]
        for i in range(block.size):
            leaf_ids[start + i] = below[i]


class FoundLeaves:
    """Leaves of the trees of a round, told from what the trees add to the training samples.

    Parameters
    ----------
    finders : sequence of LeafFinder
        One for each tree.
    additions : sequence of arrays of shape (n_samples,)
    spare : FoundLeaves, optional
        Those of the round before, whose memory is used again.

    Attributes
    ----------
    n_leaves : int
        The most leaves of any tree.
    """

    def __init__(
        self, finders: Sequence[LeafFinder], additions: Sequence[AnyArray], spare: FoundLeaves | None = None
    ) -> None:
        self.finders, self._additions = finders, additions
        self.n_leaves = max(finder.values.size for finder in finders)
        kind = np.uint16 if self.n_leaves <= np.iinfo(np.uint16).max else np.uint32  # few kinds of kernels
        shape = len(additions), additions[0].size
        usable = spare is not None and spare._ids.dtype == kind and spare._ids.shape[0] >= shape[0]
        self._ids: AnyArray = spare._ids if spare is not None and usable else np.empty(shape, dtype=kind)
        self._found: set[int] = set()

    def ids(self, trees: Iterable[int]) -> AnyArray:
        """The leaf of every sample in these trees, shape (n_trees, n_samples); rows of others may hold anything."""
        for t in set(trees) - self._found:
            self.finders[t].find(self._additions[t], self._ids[t])
            self._found.add(t)
        return self._ids

    def values(self) -> Floats:
        """What the leaves add, shape (n_trees, n_leaves)."""
        values = np.zeros((len(self.finders), self.n_leaves))
        for of_tree, finder in zip(values, self.finders, strict=True):
            of_tree[: finder.values.size] = finder.values
        return values


class LibraryEngine:
    """What `PairEngine`s have in common that know leaves only by what trees add.

    Attributes
    ----------
    pairs : list of (plus, minus)
        The trees grown last, those of candidates that were not chosen included.
    """

    hands_over_trees = False

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self._leaves: FoundLeaves | None = None
        self._has_values = False

    def _note(
        self, pairs: Sequence[Pair], finders: Sequence[LeafFinder], additions: Sequence[AnyArray], *, has_values: bool
    ) -> None:
        """Note the trees just grown, and whether the library's leaf values are to stay."""
        self.pairs = list(pairs)
        self._leaves = FoundLeaves(finders, additions, self._leaves)
        self._has_values = has_values

    @property
    def finders(self) -> Sequence[LeafFinder]:
        """Tell the leaves of the trees grown last, one for each tree."""
        return self._found.finders

    @property
    def _found(self) -> FoundLeaves:
        assert self._leaves is not None
        return self._leaves

    @property
    def n_leaves(self) -> int:
        """The most leaves of any tree grown last."""
        return self._found.n_leaves

    def parts(self, scores: PairScores, n_parts: int) -> AnyArray:
        """Parts by a hash of scores, as the bins of a library are not known."""
        return scores.parts(n_parts)

    def leaf_ids(self, trees: Iterable[int]) -> AnyArray:
        """The leaf of every training sample."""
        return self._found.ids(trees)

    def own_values(self) -> Floats | None:
        """The library's leaf values, if they come from all samples and are to stay."""
        return self._found.values() if self._has_values else None

    def additions_of(self, made: PairRound, additions: Callable[[int], AnyArray]) -> Iterator[tuple[Pair, Floats]]:
        """What the trees of a round add to other samples.

        Parameters
        ----------
        made : PairRound
        additions : callable
            What a tree adds to these samples with the leaf values that the library gave it.

        Yields
        ------
        pair : (plus, minus)
        added : array of shape (n_samples,)
            To the scores of `plus`; taken from those of `minus`.
        """
        if made.update is None or made.factor == 0.0:
            return
        for t, pair, values in zip(made.update.tree.tolist(), made.pairs, made.update.values, strict=True):
            added = additions(t)
            if made.has_own_values:
                factor = made.factor if self.pairs[t] == pair else -made.factor
                yield pair, factor * added.astype(np.float64)
            else:
                leaves = np.empty(added.size, dtype=np.int64)
                self.finders[t].find(added, leaves)
                yield pair, values[leaves]


def add_trees(scores: Floats, trees: Iterable[tuple[Pair, Floats]]) -> None:
    """Add what trees add to scores of shape (n_classes, n_samples), in place."""
    for (plus, minus), added in trees:
        scores[plus] += added
        if minus != CLASSIC:
            scores[minus] -= added


def take_difference(now: Floats, before: Floats, difference: Floats, workers: Workers) -> None:
    """Write now - before, and make `before` what is now, in one pass; all of shape (n_trees, n_samples)."""
    workers.over_items(range(len(now)), lambda t, _thread: _take_difference(now[t], before[t], difference[t]))


@kernel
def _take_difference(now, before, difference):
    for i in range(now.size):
        difference[i] = now[i] - before[i]
        before[i] = now[i]
