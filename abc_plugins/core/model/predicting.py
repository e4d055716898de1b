"""Prediction: sum the leaf values that each row reaches.

Rows are walked down one by one only where there are few of them or trees are large. Otherwise a block of rows goes
through a tree together (after QuickScorer, Lucchese et al. 2015): its leaves are the bits of a word, counted from the
left; every node where a row goes right strikes out the leaves of its left branch; the lowest bit that remains is the
row's leaf. That looks at every node of the tree, but has no branches, and LLVM vectorises it over the rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats, Integers
from abc_plugins.core.runtime.intrinsics import lowest_bit
from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers

if TYPE_CHECKING:
    from abc_plugins.core.model.ensemble import FlatTrees

_ROWS_PER_COPY = 64 * ROWS_PER_BLOCK
"""Rows that are brought into the kernels' layout at a time, where they are not in it already."""

_ROWS_AT_ONCE = 64
"""Rows that go through a tree together; with fewer rows than that they are walked down one by one."""

_MOST_LEAVES = 64
"""Bits of a word."""

_ALL_LEAVES = np.uint64(2**64 - 1)


class Nodes(NamedTuple):
    """The arrays of `FlatTrees` that a prediction needs.

    Attributes
    ----------
    node_start, plus, minus, feature, threshold, missing_left, left, right, value : arrays
        See `FlatTrees`.
    """

    node_start: AnyArray
    plus: Integers
    minus: Integers
    feature: Integers
    threshold: Floats
    missing_left: Booleans
    left: Integers
    right: Integers
    value: Floats


def add_tree_scores(
    X: AnyArray, trees: FlatTrees, first_round: int, last_round: int, scores: Floats, workers: Workers
) -> None:
    """Add the trees of rounds first_round..last_round - 1 to `scores`.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Any real dtype and order; NaN is missing.
    trees : FlatTrees
    first_round, last_round : int
    scores : array of shape (n_samples, n_classes)
    workers : Workers
    """
    first_tree, last_tree = int(trees.round_start[first_round]), int(trees.round_start[last_round])
    nodes = Nodes(*(getattr(trees, name) for name in Nodes._fields))
    add_blocks = _add_by_masks(nodes, first_tree, last_tree) if X.shape[0] >= _ROWS_AT_ONCE else None
    if add_blocks is None:
        add_blocks = partial(_walk_blocks, nodes, first_tree, last_tree)
    for start in range(0, X.shape[0], _ROWS_PER_COPY):
        rows = slice(start, start + _ROWS_PER_COPY)
        part = np.ascontiguousarray(X[rows], dtype=np.float64)
        workers.over_rows(part.shape[0], partial(add_blocks, part, scores[rows]))


def _add_by_masks(nodes: Nodes, first_tree: int, last_tree: int) -> partial[None] | None:
    """The kernel for blocks of rows, with all that it needs; None if a tree has too many leaves."""
    sizes = np.diff(nodes.node_start[first_tree : last_tree + 1])
    if (sizes.max(initial=1) + 1) // 2 > _MOST_LEAVES:
        return None
    first_node, last_node = nodes.node_start[first_tree], nodes.node_start[last_tree]
    feature = nodes.feature[first_node:last_node]
    used = np.unique(feature[feature >= 0])
    masks = np.zeros(last_node - first_node, dtype=np.uint64)
    leaf_values = np.zeros((last_tree - first_tree, _MOST_LEAVES))
    _number_leaves(nodes, first_tree, last_tree, masks, leaf_values)
    # Leaves point anywhere: they are not looked at.
    columns = np.searchsorted(used, feature).astype(np.int32)
    return partial(_mask_blocks, nodes, first_tree, last_tree, used, columns, masks, leaf_values)


@kernel
def _walk_blocks(nodes, first_tree, last_tree, X, scores, first_block, last_block):
    """Add trees first_tree..last_tree to the scores of some blocks of rows, walking down row by row."""
    node_start, plus, minus, feature, threshold, missing_left, left, right, value = nodes
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, X.shape[0])
        for t in range(first_tree, last_tree):
            root = node_start[t]
            k = plus[t]
            b = minus[t]
            for i in range(start, stop):
                node = root
                while feature[node] >= 0:
                    x = X[i, feature[node]]
                    goes_left = x <= threshold[node] or (x != x and missing_left[node])
                    node = root + (left[node] if goes_left else right[node])
                scores[i, k] += value[node]
                if b >= 0:
                    scores[i, b] -= value[node]


@kernel
def _number_leaves(nodes, first_tree, last_tree, masks, leaf_values):
    """For inner nodes the leaves that stay if a row goes right, and for trees their leaf values from the left."""
    node_start, _, _, feature, _, _, left, right, value = nodes
    stack = np.empty(_MOST_LEAVES, dtype=np.int64)
    for t in range(first_tree, last_tree):
        root = node_start[t]
        tree_masks = masks[root - node_start[first_tree] :]
        n_leaves = 0
        stack[0] = 0
        depth = 1
        # From left to right. A node whose left branch is done is marked on the stack by its complement.
        while depth > 0:
            node = stack[depth - 1]
            if node < 0:
                node = ~node
                # `masks` holds the number of the first leaf of the left branch so far
                first = tree_masks[node]
                tree_masks[node] = _ALL_LEAVES ^ (((np.uint64(1) << np.uint64(n_leaves)) - np.uint64(1))
                                                  ^ ((np.uint64(1) << first) - np.uint64(1)))  # fmt: skip
                stack[depth - 1] = right[root + node]
            elif feature[root + node] >= 0:
                tree_masks[node] = n_leaves
                stack[depth - 1] = ~node
                stack[depth] = left[root + node]
                depth += 1
            else:
                leaf_values[t - first_tree, n_leaves] = value[root + node]
                n_leaves += 1
                depth -= 1


@kernel
def _mask_blocks(nodes, first_tree, last_tree, used, columns, masks, leaf_values, X, scores, first_block, last_block):
    """Add trees first_tree..last_tree to the scores of some blocks of rows, `_ROWS_AT_ONCE` rows together."""
    node_start, plus, minus, feature, threshold, missing_left, _, _, _ = nodes
    first_node = node_start[first_tree]
    values = np.empty((used.size, _ROWS_AT_ONCE))
    sums = np.empty((scores.shape[1], _ROWS_AT_ONCE))
    leaves = np.empty(_ROWS_AT_ONCE, dtype=np.uint64)
    last_row = min(last_block * ROWS_PER_BLOCK, X.shape[0])
    for start in range(first_block * ROWS_PER_BLOCK, last_row, _ROWS_AT_ONCE):
        n = min(_ROWS_AT_ONCE, last_row - start)
        _turn(X, used, scores, start, n, values, sums)
        for t in range(first_tree, last_tree):
            leaves[:] = _ALL_LEAVES
            for node in range(node_start[t], node_start[t + 1]):
                if feature[node] >= 0:
                    column = columns[node - first_node]
                    mask = masks[node - first_node]
                    _strike_out(values, column, threshold[node], missing_left[node], mask, leaves)
            _add_leaves(leaf_values, t - first_tree, leaves, sums, plus[t], minus[t])
        for i in range(n):
            for k in range(sums.shape[0]):
                scores[start + i, k] = sums[k, i]


@part_of_kernel
def _turn(X, used, scores, start, n, values, sums):
    """Copy the used features and the scores of `n` rows, feature by feature and class by class."""
    for i in range(n):
        for j in range(used.size):
            values[j, i] = X[start + i, used[j]]
        for k in range(sums.shape[0]):
            sums[k, i] = scores[start + i, k]
    for i in range(n, _ROWS_AT_ONCE):
        values[:, i] = 0.0
        sums[:, i] = 0.0


@part_of_kernel
def _strike_out(values, column, threshold, missing_left, mask, leaves):
    """Apply the mask to the rows that go right; as a comparison with NaN is false, missing values need no test."""
    if missing_left:
        for i in range(_ROWS_AT_ONCE):
            leaves[i] &= mask if values[column, i] > threshold else _ALL_LEAVES
    else:
        for i in range(_ROWS_AT_ONCE):
            leaves[i] &= _ALL_LEAVES if values[column, i] <= threshold else mask


@part_of_kernel
def _add_leaves(leaf_values, tree, leaves, sums, k, b):
    """Add the value of each row's leaf, the lowest bit, to class k and subtract it from class b."""
    for i in range(_ROWS_AT_ONCE):
        value = leaf_values[tree, lowest_bit(leaves[i])]
        sums[k, i] += value
        if b >= 0:
            sums[b, i] -= value
