"""Prediction: sum the leaf values that each row reaches.

Rows are walked down one by one only where there are few of them. Otherwise a block of rows goes through a tree
together, without branches, and LLVM vectorises it over the rows:

* A symmetric tree is a table: the comparisons of its levels are the bits of the leaf's number.
* In any other tree of up to 64 leaves (after QuickScorer, Lucchese et al. 2015) leaves are the bits of a word,
  counted from the left; every node where a row goes right strikes out the leaves of its left branch; the lowest bit
  that remains is the row's leaf. That looks at every node of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from abc_plugins.core.model.walking import (
    FEWEST_ROWS,
    Nodes,
    add_leaves,
    go_down,
    is_in_set,
    leaf_of,
    symmetric_depth,
    walk_down,
)
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.intrinsics import lowest_bit
from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers
from abc_plugins.core.runtime.sparse_table import SparseTable, Table

if TYPE_CHECKING:
    from abc_plugins.core.model.ensemble import FlatTrees

_ROWS_PER_COPY = 64 * ROWS_PER_BLOCK
"""Rows that are brought into the kernels' layout at a time, where they are not in it already."""

_ROWS_AT_ONCE = 256
"""Rows that go through a tree together: many, so that its values are read from memory once for all of them."""

_VALUES_AT_ONCE = 2**15
"""With many features fewer rows, so that their values stay in the cache."""

_FEW_TREES = 16
"""With no more trees than this, as in one round, a plan of how rows go through them takes longer than it saves."""

_MOST_LEAVES = 64
"""Bits of a word."""

_ALL_LEAVES = np.uint64(2**64 - 1)

_BY_MASKS, _BY_WALKING = -1, -2
"""How rows find their leaf in a tree that is not symmetric; for a symmetric one its depth is kept instead."""


class BlockPlan(NamedTuple):
    """How blocks of rows go through some trees.

    Attributes
    ----------
    way : array of int64, shape (n_trees,)
        Depth of a symmetric tree, _BY_MASKS or _BY_WALKING.
    used : array of int32
        Features that the trees split on.
    column : array of int32, shape (n_nodes,)
        For inner nodes the place of their feature in `used`.
    mask : array of uint64, shape (n_nodes,)
        For inner nodes of trees that go by masks the leaves that stay if a row goes right.
    leaf_row : array of int32, shape (n_trees, 64)
        For trees that go by masks the rows of their values, leaves counted from the left.
    """

    way: AnyArray
    used: Integers
    column: Integers
    mask: AnyArray
    leaf_row: Integers


def add_tree_scores(
    X: Table,
    trees: FlatTrees,
    first_round: int,
    last_round: int,
    scores: Floats,
    workers: Workers,
    plan: BlockPlan | None = None,
) -> None:
    """Add the trees of rounds first_round..last_round - 1 to `scores`.

    Parameters
    ----------
    X : array or SparseTable, shape (n_samples, n_features)
        Any real dtype and order; NaN is missing.
    trees : FlatTrees
    first_round, last_round : int
    scores : array of shape (n_samples, n_classes)
    workers : Workers
    plan : BlockPlan, optional
        `plan_rounds` of these rounds, to make it only once; not for a SparseTable.
    """
    first_tree, last_tree = int(trees.round_start[first_round]), int(trees.round_start[last_round])
    nodes, parts = _parts(X, trees, first_tree, last_tree)
    if X.shape[0] >= FEWEST_ROWS and last_tree - first_tree > _FEW_TREES:
        plan = _make_plan(nodes, first_tree, last_tree) if plan is None else plan
        add_blocks = partial(_add_blocks, nodes, plan, first_tree, last_tree)
    else:
        add_blocks = partial(_walk_blocks, nodes, first_tree, last_tree)
    for rows, part in parts:
        workers.over_rows(part.shape[0], partial(add_blocks, part, scores[rows]))


def _parts(X: Table, trees: FlatTrees, first_tree: int, last_tree: int) -> tuple[Nodes, Iterator[tuple[slice, Floats]]]:
    """Nodes, and some rows at a time in the layout of the kernels: of a sparse table the features that trees use."""
    nodes = Nodes(*map(trees.__getattribute__, Nodes._fields))
    if isinstance(X, SparseTable):
        used, nodes = _number_used_features(nodes, first_tree, last_tree)
        return nodes, X.row_blocks(used)
    starts = range(0, X.shape[0], _ROWS_PER_COPY)
    slices = (slice(start, start + _ROWS_PER_COPY) for start in starts)
    return nodes, ((rows, np.ascontiguousarray(X[rows], dtype=np.float64)) for rows in slices)


def _number_used_features(nodes: Nodes, first_tree: int, last_tree: int) -> tuple[AnyArray, Nodes]:
    """The features that some trees split on, and nodes of these trees that know them by their place among those."""
    here = slice(nodes.node_start[first_tree], nodes.node_start[last_tree])
    of_trees = nodes.feature[here]
    inner = of_trees >= 0
    used, place = np.unique(of_trees[inner], return_inverse=True)
    feature = nodes.feature.copy()
    feature[here][inner] = place
    return used, nodes._replace(feature=feature)


def find_leaves(X: Table, trees: FlatTrees, workers: Workers) -> Integers:
    """Node number, within its tree, of the leaf that every row reaches in every tree.

    Returns
    -------
    leaves : array of int32, shape (n_samples, n_trees)
    """
    nodes, parts = _parts(X, trees, 0, trees.n_trees)
    leaves = np.empty((X.shape[0], trees.n_trees), dtype=np.int32)
    for rows, part in parts:
        workers.over_rows(part.shape[0], partial(_find_leaves, nodes, part, leaves[rows]))
    return leaves


def find_value_rows(X: Table, trees: FlatTrees, t: int, workers: Workers) -> AnyArray:
    """For tree `t` the row of its values that every row of `X` reaches, array of uint16, shape (n_samples,)."""
    nodes, parts = _parts(X, trees, t, t + 1)
    found = np.empty(X.shape[0], dtype=np.uint16)
    for rows, part in parts:
        workers.over_rows(part.shape[0], partial(_find_value_rows, nodes, t, part, found[rows]))
    return found


def plan_rounds(trees: FlatTrees, first_round: int, last_round: int) -> BlockPlan:
    """Plan how blocks of rows go through the trees of rounds first_round..last_round - 1."""
    nodes = Nodes(*map(trees.__getattribute__, Nodes._fields))
    return _make_plan(nodes, int(trees.round_start[first_round]), int(trees.round_start[last_round]))


def _make_plan(nodes: Nodes, first_tree: int, last_tree: int) -> BlockPlan:
    first_node, last_node = nodes.node_start[first_tree], nodes.node_start[last_tree]
    feature = nodes.feature[first_node:last_node]
    used = np.unique(feature[feature >= 0])
    plan = BlockPlan(
        way=np.empty(last_tree - first_tree, dtype=np.int64),
        used=used,
        column=np.searchsorted(used, feature).astype(np.int32),  # leaves point anywhere: they are not looked at
        mask=np.zeros(last_node - first_node, dtype=np.uint64),
        leaf_row=np.zeros((last_tree - first_tree, _MOST_LEAVES), dtype=np.int32),
    )
    _plan_trees(nodes, first_tree, last_tree, plan)
    return plan


@kernel
def _walk_blocks(nodes, first_tree, last_tree, X, scores, first_block, last_block):
    """Add trees first_tree..last_tree to the scores of some blocks of rows, without a plan."""
    leaves = np.empty(ROWS_PER_BLOCK, dtype=np.int64)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        n = min(ROWS_PER_BLOCK, X.shape[0] - start)
        for t in range(first_tree, last_tree):
            go_down(nodes, t, X, start, n, leaves)
            add_leaves(nodes, t, leaves, n, start, scores)


@kernel
def _find_value_rows(nodes, t, X, found, first_block, last_block):
    """Write the rows of values that some blocks of rows reach in one tree."""
    leaves = np.empty(ROWS_PER_BLOCK, dtype=np.int64)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        n = min(ROWS_PER_BLOCK, X.shape[0] - start)
        go_down(nodes, t, X, start, n, leaves)
        for i in range(n):
            found[start + i] = leaves[i]


@kernel
def _find_leaves(nodes, X, leaves, first_block, last_block):
    """Write the leaves of some blocks of rows."""
    for i in range(first_block * ROWS_PER_BLOCK, min(last_block * ROWS_PER_BLOCK, X.shape[0])):
        for t in range(leaves.shape[1]):
            leaves[i, t] = leaf_of(nodes, t, X, i)


@kernel
def _plan_trees(nodes, first_tree, last_tree, plan):
    """Say how rows go through each tree, and number the leaves of those that go by masks."""
    stack = np.empty(_MOST_LEAVES, dtype=np.int64)
    first_node = nodes.node_start[first_tree]
    for t in range(first_tree, last_tree):
        root = nodes.node_start[t]
        depth = symmetric_depth(nodes, root, nodes.node_start[t + 1] - root)
        if depth >= 0:
            plan.way[t - first_tree] = depth
        elif (nodes.node_start[t + 1] - root + 1) // 2 > _MOST_LEAVES:
            plan.way[t - first_tree] = _BY_WALKING
        else:
            plan.way[t - first_tree] = _BY_MASKS
            _number_leaves(nodes, root, plan.mask[root - first_node :], plan.leaf_row[t - first_tree], stack)


@part_of_kernel
def _number_leaves(nodes, root, masks, leaf_row, stack):
    """For inner nodes the leaves that stay if a row goes right, and the rows of the leaves from the left."""
    feature, left, right = nodes.feature, nodes.left, nodes.right
    n_leaves = 0
    stack[0] = 0
    depth = 1
    # From left to right. A node whose left branch is done is marked on the stack by its complement.
    while depth > 0:
        node = stack[depth - 1]
        if node < 0:
            node = ~node
            # `masks` holds the number of the first leaf of the left branch so far
            first = masks[node]
            masks[node] = _ALL_LEAVES ^ (((np.uint64(1) << np.uint64(n_leaves)) - np.uint64(1))
                                         ^ ((np.uint64(1) << first) - np.uint64(1)))  # fmt: skip
            stack[depth - 1] = right[root + node]
        elif feature[root + node] >= 0:
            masks[node] = n_leaves
            stack[depth - 1] = ~node
            stack[depth] = left[root + node]
            depth += 1
        else:
            leaf_row[n_leaves] = left[root + node]
            n_leaves += 1
            depth -= 1


@kernel
def _add_blocks(nodes, plan, first_tree, last_tree, X, scores, first_block, last_block):
    """Add trees first_tree..last_tree to the scores of some blocks of rows, many rows together."""
    node_start, threshold, missing_left, left_set = (
        nodes.node_start,
        nodes.threshold,
        nodes.missing_left,
        nodes.left_set,
    )
    way, column, mask, leaf_row = plan.way, plan.column, plan.mask, plan.leaf_row
    first_node = node_start[first_tree]
    n_used = plan.used.size
    at_once = max(FEWEST_ROWS, min(_ROWS_AT_ONCE, _VALUES_AT_ONCE // max(n_used, 1)))
    values = np.empty((n_used, at_once))
    words = np.empty(at_once, dtype=np.uint64)
    leaves = np.empty(at_once, dtype=np.int64)
    last_row = min(last_block * ROWS_PER_BLOCK, X.shape[0])
    for start in range(first_block * ROWS_PER_BLOCK, last_row, at_once):
        n = min(at_once, last_row - start)
        _turn(X, plan.used, start, n, values)
        for t in range(first_tree, last_tree):
            root = node_start[t]
            if way[t - first_tree] >= 0:
                leaves[:] = 0
                for level in range(way[t - first_tree]):
                    node = root + 2**level - 1
                    here = column[node - first_node]
                    if left_set[node] >= 0:
                        first_word = nodes.set_start[t] + 4 * left_set[node]
                        for i in range(n):
                            is_left = is_in_set(nodes.sets, first_word, values[here, i], missing_left[node])
                            leaves[i] = 2 * leaves[i] + 1 - is_left
                    else:
                        _look_up_level(values, here, threshold[node], missing_left[node], leaves)
            elif way[t - first_tree] == _BY_MASKS:
                words[:] = _ALL_LEAVES
                for node in range(root, node_start[t + 1]):
                    if nodes.feature[node] >= 0:
                        here = node - first_node
                        if left_set[node] >= 0:
                            first_word = nodes.set_start[t] + 4 * left_set[node]
                            for i in range(n):
                                x = values[column[here], i]
                                if not is_in_set(nodes.sets, first_word, x, missing_left[node]):
                                    words[i] &= mask[here]
                        else:
                            _strike_out(values, column[here], threshold[node], missing_left[node], mask[here], words)
                for i in range(n):
                    leaves[i] = leaf_row[t - first_tree, lowest_bit(words[i])]
            else:
                for i in range(n):
                    leaves[i] = walk_down(nodes, t, X, start + i)
            add_leaves(nodes, t, leaves, n, start, scores)


@part_of_kernel
def _turn(X, used, start, n, values):
    """Copy the used features of `n` rows, feature by feature."""
    for i in range(n):
        for j in range(used.size):
            values[j, i] = X[start + i, used[j]]
    for i in range(n, values.shape[1]):
        values[:, i] = 0.0


@part_of_kernel
def _look_up_level(values, column, threshold, missing_left, leaves):
    """Append the bit of one level to the numbers of the leaves; a comparison with NaN is false."""
    if missing_left:
        for i in range(leaves.size):
            leaves[i] = 2 * leaves[i] + (values[column, i] > threshold)
    else:
        for i in range(leaves.size):
            leaves[i] = 2 * leaves[i] + 1 - (values[column, i] <= threshold)


@part_of_kernel
def _strike_out(values, column, threshold, missing_left, mask, words):
    """Apply the mask to the rows that go right; as a comparison with NaN is false, missing values need no test."""
    if missing_left:
        for i in range(words.size):
            words[i] &= mask if values[column, i] > threshold else _ALL_LEAVES
    else:
        for i in range(words.size):
            words[i] &= _ALL_LEAVES if values[column, i] <= threshold else mask
