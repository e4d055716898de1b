"""What trees grown by another engine add to the scores, and the leaves that tell it.

`additions` of shape (n_trees, n_samples) hold what each tree adds to the score of its `plus` class, shrinkage included.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abc_plugins.core.pairs import Pair, select_pairs
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.jit import kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers
from abc_plugins.core.schedule import CLASSIC

_SAME_VALUE = 1e-10  # leaf values closer than this cannot be told apart in differences of scores


def add_trees(
    scores: Floats, pairs: Sequence[Pair | None], additions: AnyArray, rows: Sequence[int], factor: float
) -> None:
    """Add trees to scores of shape (n_classes, n_samples) in place, as for a validation set."""
    for row, (plus, minus) in zip(rows, select_pairs(pairs, rows), strict=True):
        scores[plus] += factor * additions[row]
        if minus != CLASSIC:
            scores[minus] -= factor * additions[row]


class LeafFinder:
    """Tell the leaf of every sample from what a tree added to its score.

    Leaves with (almost) the same value are one leaf to it, which is harmless where leaf values are renewed: they are
    given the same new value.

    Parameters
    ----------
    leaf_values : array of shape (n_leaves,)
        What every leaf adds, shrinkage included.

    Attributes
    ----------
    group : array of int, shape (n_leaves,)
        Leaf number as `find` returns it, for every leaf of the tree.
    """

    def __init__(self, leaf_values: Floats) -> None:
        order = np.argsort(leaf_values, kind="stable")
        ordered = leaf_values[order]
        new_group = np.diff(ordered) > _SAME_VALUE
        self.group = np.empty(leaf_values.size, dtype=np.int64)
        self.group[order] = np.concatenate(([0], np.cumsum(new_group)))
        self._bounds = 0.5 * (ordered[:-1] + ordered[1:])[new_group]

    def find(self, additions: Floats, leaf_ids: AnyArray) -> None:
        """Write the leaf of every sample; both arrays have shape (n_samples,)."""
        _find_leaves(additions, self._bounds, leaf_ids)


@kernel
def _find_leaves(additions, bounds, leaf_ids):
    """Count the bounds below each value, bound by bound: a vectorised pass each beats bisection up to many leaves."""
    below = np.empty(ROWS_PER_BLOCK, dtype=np.int64)
    for start in range(0, additions.size, ROWS_PER_BLOCK):
        block = additions[start : start + ROWS_PER_BLOCK]
        below[:] = 0
        for bound in bounds:
            for i in range(block.size):
                below[i] += bound < block[i]
        for i in range(block.size):
            leaf_ids[start + i] = below[i]


@kernel
def _gather(values, leaves, additions):
    for i in range(leaves.size):
        additions[i] = values[leaves[i]]


def gather_additions(values: Floats, leaf_ids: AnyArray, workers: Workers) -> Floats:
    """Return what trees with these leaf values add, shape (n_trees, n_samples)."""
    additions = np.empty(leaf_ids.shape)
    workers.over_items(range(len(values)), lambda t, _thread: _gather(values[t], leaf_ids[t], additions[t]))
    return additions


def take_difference(now: Floats, before: Floats, difference: Floats, workers: Workers) -> None:
    """Write now - before, and make `before` what is now, in one pass; all of shape (n_trees, n_samples)."""
    workers.over_items(range(len(now)), lambda t, _thread: _take_difference(now[t], before[t], difference[t]))


@kernel
def _take_difference(now, before, difference):
    for i in range(now.size):
        difference[i] = now[i] - before[i]
        before[i] = now[i]
