"""Best-first growth of one tree to J leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.arrays import AnyArray, Booleans, Floats, Integers
from abc_plugins.core.columns import Columns
from abc_plugins.core.fixedpoint import to_fixed_point
from abc_plugins.core.histogram import build_histogram, subtract_histogram
from abc_plugins.core.jit import kernel
from abc_plugins.core.losses import derivatives
from abc_plugins.core.splitting import Thresholds, find_best_split, make_thresholds


class TreeNodes(NamedTuple):
    """Nodes of one tree under construction, or of many with a leading axis; see `model.Tree`.

    The root is node 0, and the t-th split makes nodes 2t - 1 and 2t. `bin` is the threshold as a bin number.
    """

    feature: Integers
    bin: Integers
    missing_left: Booleans
    left: Integers
    right: Integers
    gain: Floats
    weight: Floats


class WorkSpace(NamedTuple):
    """What one thread needs to grow a tree; allocated once a fit.

    Attributes
    ----------
    z, h : arrays of float64, shape (n_samples,)
    cells : array of int64, shape (n_samples, 2)
    rows, rows_aside : arrays of uint32, shape (n_samples,)
        Samples, those of a node next to each other; and the right child's while a node is being split.
    histograms : array of int64, shape (n_leaves, n_cells, 2)
        One slot for each leaf that may still be split.
    usable : array of bool, shape (n_leaves, n_split_features)
    start, stop, slot : arrays of int64, shape (n_nodes,)
        Where a node's samples are in `rows`, and the slot of its histogram.
    sums : array of int64, shape (n_nodes, 2)
        Cell sums of a node.
    split_gain, split_feature, split_bin, split_missing_left, split_sums : arrays of shape (n_nodes, ...)
        The best split of each leaf.
    thresholds : Thresholds
    """

    z: Floats
    h: Floats
    cells: AnyArray
    rows: AnyArray
    rows_aside: AnyArray
    histograms: AnyArray
    usable: Booleans
    start: AnyArray
    stop: AnyArray
    slot: AnyArray
    sums: AnyArray
    split_gain: Floats
    split_feature: AnyArray
    split_bin: AnyArray
    split_missing_left: Booleans
    split_sums: AnyArray
    thresholds: Thresholds


def make_workspace(columns: Columns, num_leaves: int) -> WorkSpace:
    """Allocate the work space of one thread."""
    n_samples = columns.codes.shape[1]
    n_nodes = 2 * num_leaves - 1
    return WorkSpace(
        z=np.empty(n_samples),
        h=np.empty(n_samples),
        cells=np.empty((n_samples, 2), dtype=np.int64),
        rows=np.empty(n_samples, dtype=np.uint32),
        rows_aside=np.empty(n_samples, dtype=np.uint32),
        histograms=np.empty((num_leaves, int(columns.group_cell[-1]), 2), dtype=np.int64),
        usable=np.empty((num_leaves, columns.feature.size), dtype=np.bool_),
        start=np.empty(n_nodes, dtype=np.int64),
        stop=np.empty(n_nodes, dtype=np.int64),
        slot=np.empty(n_nodes, dtype=np.int64),
        sums=np.empty((n_nodes, 2), dtype=np.int64),
        split_gain=np.empty(n_nodes),
        split_feature=np.empty(n_nodes, dtype=np.int64),
        split_bin=np.empty(n_nodes, dtype=np.int64),
        split_missing_left=np.empty(n_nodes, dtype=np.bool_),
        split_sums=np.empty((n_nodes, 2), dtype=np.int64),
        thresholds=make_thresholds(int(columns.n_bins.max(initial=0))),
    )


@kernel
def grow_tree(
    columns,
    probabilities,
    labels,
    weights,
    units,
    sample,
    usable,
    plus,
    minus,
    num_leaves,
    rules,
    work,
    tree,
    leaf_ids,
    leaf_sums,
):
    """Grow the tree of class `plus` with base `minus`.

    Parameters
    ----------
    columns : Columns
    probabilities : array of shape (n_classes, n_samples)
    labels, weights, units : arrays of shape (n_samples,)
    sample : array of uint32
        The samples to grow from, increasing.
    usable : array of bool, shape (n_split_features,)
        Features to split on.
    plus, minus : int
    num_leaves : int
    rules : SplitRules
    work : WorkSpace
    tree : TreeNodes
        Filled in.
    leaf_ids : array of uint16, shape (n_samples,)
        Filled in for every sample: the node number of its leaf.
    leaf_sums : array of float64, shape (n_nodes, 2)
        Filled in for every leaf: the sums of z and h over its part of `sample`.

    Returns
    -------
    n_nodes : int
    """
    derivatives(probabilities, labels, weights, plus, minus, work.z, work.h)
    z_unit, h_unit = to_fixed_point(work.z, work.h, units, rules.hessian_bits, work.cells)
    _make_root(columns, sample, usable, rules, work, tree)
    if num_leaves > 1:
        _search(columns, 0, rules, z_unit, h_unit, work)
    n_nodes = 1
    n_leaves = 1
    while n_leaves < num_leaves:
        node = np.argmax(work.split_gain[:n_nodes])  # the earlier node wins a tie
        if not work.split_gain[node] > 0.0:
            break
        _split_node(columns, node, n_nodes, rules, work, tree)
        n_nodes += 2
        n_leaves += 1
        if n_leaves < num_leaves:
            _prepare_children(columns, node, n_nodes - 2, n_leaves - 1, rules, z_unit, h_unit, work)
    _finish_leaves(n_nodes, work, tree, leaf_ids, leaf_sums)
    if sample.size < leaf_ids.size:
        _send_down(columns, tree, leaf_ids)
    return n_nodes


@kernel
def _set_leaf(node, sums_z, sums_wh, rules, work, tree):
    """Make `node` a leaf that has not been searched."""
    tree.feature[node] = -1
    tree.bin[node] = 0
    tree.missing_left[node] = False
    tree.left[node] = 0
    tree.right[node] = 0
    tree.gain[node] = 0.0
    tree.weight[node] = (sums_wh >> rules.hessian_bits) * rules.weight_per_unit
    work.sums[node, 0] = sums_z
    work.sums[node, 1] = sums_wh
    work.split_gain[node] = 0.0


@kernel
def _make_root(columns, sample, usable, rules, work, tree):
    work.rows[: sample.size] = sample
    work.start[0] = 0
    work.stop[0] = sample.size
    work.slot[0] = 0
    work.usable[0] = usable
    cells = work.cells
    sums_z = 0
    sums_wh = 0
    for i in sample:
        sums_z += cells[i, 0]
        sums_wh += cells[i, 1]
    _set_leaf(0, sums_z, sums_wh, rules, work, tree)
    build_histogram(columns, sample, work.cells, work.histograms[0])


@kernel
def _search(columns, node, rules, z_unit, h_unit, work):
    """Find the best split of a leaf whose histogram is ready."""
    if work.sums[node, 1] - rules.min_wh < rules.min_wh:
        return
    slot = work.slot[node]
    split = find_best_split(
        columns,
        work.histograms[slot],
        work.sums[node, 0],
        work.sums[node, 1],
        work.usable[slot],
        rules,
        z_unit,
        h_unit,
        work.thresholds,
    )
    work.split_gain[node] = split.gain
    work.split_feature[node] = split.feature
    work.split_bin[node] = split.bin
    work.split_missing_left[node] = split.missing_left
    work.split_sums[node, 0] = split.left_z
    work.split_sums[node, 1] = split.left_wh


@kernel
def _partition(codes, last_left, missing_left, missing_code, rows, rows_aside):
    """Move the samples that go left to the front of `rows`, keeping the order on both sides; return their number."""
    also_left = missing_code if missing_left else last_left
    n_left = 0
    n_right = 0
    for j in range(rows.size):
        row = rows[j]
        # Written to both sides without a branch: which one counts is decided by which index moves on.
        code = codes[row]
        left = (code <= last_left) | (code == also_left)
        rows[n_left] = row
        rows_aside[n_right] = row
        n_left += left
        n_right += 1 - left
    rows[n_left:] = rows_aside[:n_right]
    return n_left


@kernel
def _split_node(columns, node, left, rules, work, tree):
    """Split a leaf into the nodes `left` and `left` + 1."""
    right = left + 1
    f = work.split_feature[node]
    start = work.start[node]
    stop = work.stop[node]
    n_left = _partition(
        columns.codes[f],
        work.split_bin[node],
        columns.has_missing[f] and work.split_missing_left[node],
        columns.n_bins[f],
        work.rows[start:stop],
        work.rows_aside,
    )
    left_z = work.split_sums[node, 0]
    left_wh = work.split_sums[node, 1]
    _set_leaf(left, left_z, left_wh, rules, work, tree)
    _set_leaf(right, work.sums[node, 0] - left_z, work.sums[node, 1] - left_wh, rules, work, tree)
    work.start[left] = start
    work.stop[left] = start + n_left
    work.start[right] = start + n_left
    work.stop[right] = stop
    tree.feature[node] = f
    tree.bin[node] = work.split_bin[node]
    tree.missing_left[node] = work.split_missing_left[node]
    tree.gain[node] = work.split_gain[node]
    tree.left[node] = left
    tree.right[node] = right
    work.split_gain[node] = 0.0


@kernel
def _prepare_children(columns, parent, left, free_slot, rules, z_unit, h_unit, work):
    """Histograms and best splits of two new leaves: sum over the smaller one, subtract for the larger one."""
    smaller = left
    larger = left + 1
    if work.stop[left] - work.start[left] > work.stop[left + 1] - work.start[left + 1]:
        smaller, larger = larger, smaller
    parent_slot = work.slot[parent]
    work.slot[larger] = parent_slot
    work.slot[smaller] = free_slot
    if max(work.sums[left, 1], work.sums[left + 1, 1]) - rules.min_wh < rules.min_wh:
        return  # neither can be split
    work.usable[free_slot] = work.usable[parent_slot]
    rows = work.rows[work.start[smaller] : work.stop[smaller]]
    build_histogram(columns, rows, work.cells, work.histograms[free_slot])
    subtract_histogram(work.histograms[parent_slot], work.histograms[free_slot], columns, work.usable[parent_slot])
    _search(columns, smaller, rules, z_unit, h_unit, work)
    _search(columns, larger, rules, z_unit, h_unit, work)


@kernel
def _finish_leaves(n_nodes, work, tree, leaf_ids, leaf_sums):
    """Leaf of every sample that the tree was grown from, and sums of z and h of every leaf."""
    z = work.z
    h = work.h
    for node in range(n_nodes):
        sum_z = 0.0
        sum_h = 0.0
        if tree.feature[node] < 0:
            for row in work.rows[work.start[node] : work.stop[node]]:
                leaf_ids[row] = node
                sum_z += z[row]
                sum_h += h[row]
        leaf_sums[node, 0] = sum_z
        leaf_sums[node, 1] = sum_h


@kernel
def _send_down(columns, tree, leaf_ids):
    """Leaf of every sample, whether the tree was grown from it or not."""
    for i in range(leaf_ids.size):
        node = 0
        while tree.feature[node] >= 0:
            f = tree.feature[node]
            code = columns.codes[f, i]
            is_missing = columns.has_missing[f] and code == columns.n_bins[f]
            goes_left = tree.missing_left[node] if is_missing else code <= tree.bin[node]
            node = tree.left[node] if goes_left else tree.right[node]
        leaf_ids[i] = node
