"""Best-first growth of one tree to J leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.arrays import AnyArray, Booleans
from abc_plugins.core.columns import Columns, feature_cells
from abc_plugins.core.fixedpoint import to_fixed_point
from abc_plugins.core.histogram import build_histogram, subtract_histogram
from abc_plugins.core.jit import kernel, part_of_kernel
from abc_plugins.core.splitting import SMALLEST_RELATIVE_GAIN, Thresholds, find_best_split, make_thresholds

NODE = np.dtype(
    [
        # the node as it will be in the tree, see `model.Tree`; `bin` is the threshold as a bin number
        ("feature", np.int32),
        ("bin", np.int32),
        ("left", np.int32),
        ("right", np.int32),
        ("missing_left", np.bool_),
        ("gain", np.float64),
        ("weight", np.float64),
        # its samples: rows[start:stop], their cell sums, its place among the leaves, and where its histogram is
        ("start", np.int64),
        ("stop", np.int64),
        ("z", np.int64),
        ("wh", np.int64),
        ("slot", np.int64),
        ("histogram", np.int64),
        # the best split of a leaf that has been searched; no gain: none
        ("split_gain", np.float64),
        ("split_feature", np.int64),
        ("split_bin", np.int64),
        ("split_missing_left", np.bool_),
        ("split_z", np.int64),
        ("split_wh", np.int64),
    ],
    align=True,
)
"""A node of a tree under construction. The root is node 0, and the t-th split makes nodes 2t - 1 and 2t."""


class WorkSpace(NamedTuple):
    """What one thread needs to grow a tree; allocated once a fit.

    Attributes
    ----------
    cells : array of int64, shape (n_samples, 2)
    rows, rows_aside : arrays of uint32, shape (n_samples,)
        Samples, those of a node next to each other; and the right child's while a node is being split.
    histograms : array of int64, shape (n_leaves, n_cells, 2)
        One for each leaf that may still be split, as far as memory allows: then there are fewer, at least three. The
        last two are of the leaves made last, and those of later leaves are forgotten once they have been searched.
    joint_sums : array of int64, shape (n_joint_cells, 2)
    usable : array of bool, shape (n_leaves, n_split_features)
    thresholds : Thresholds
    """

    cells: AnyArray
    rows: AnyArray
    rows_aside: AnyArray
    histograms: AnyArray
    joint_sums: AnyArray
    usable: Booleans
    thresholds: Thresholds


def make_workspace(columns: Columns, num_leaves: int, n_histograms: int) -> WorkSpace:
    """Allocate the work space of one thread; `n_histograms` is `num_leaves`, or fewer but at least 3."""
    n_samples = columns.codes.shape[1]
    return WorkSpace(
        cells=np.empty((n_samples, 2), dtype=np.int64),
        rows=np.empty(n_samples, dtype=np.uint32),
        rows_aside=np.empty(n_samples, dtype=np.uint32),
        histograms=np.empty((n_histograms, int(columns.group_cell[-1]), 2), dtype=np.int64),
        joint_sums=np.empty((int(columns.joint.start[-1]), 2), dtype=np.int64),
        usable=np.empty((num_leaves, columns.feature.size), dtype=np.bool_),
        thresholds=make_thresholds(int(columns.n_bins.max(initial=0))),
    )


@kernel
def grow_tree(
    columns,
    probabilities,
    labels,
    weights,
    units,
    usable,
    plus,
    minus,
    num_leaves,
    rules,
    work,
    n_rows,
    nodes,
    n_nodes,
    leaf_ids,
    t,
):
    """Grow tree `t` of a round.

    Parameters
    ----------
    columns : Columns
    probabilities : array of shape (n_classes, n_samples)
    labels, weights, units : arrays of shape (n_samples,)
    usable : array of bool, shape (n_trees, n_split_features)
        Features to split on.
    plus, minus : arrays of int64, shape (n_trees,)
        Class and base class of every tree.
    num_leaves : int
    rules : SplitRules
    work : WorkSpace
    n_rows : int
        Samples to grow from: all, or so many at the front of `work.rows`.
    nodes : array of NODE, shape (n_trees, 2 * num_leaves - 1)
        Filled in.
    n_nodes : array of int64, shape (n_trees,)
        Filled in.
    leaf_ids : array of uint16, shape (n_trees, n_samples)
        Filled in for the samples that the tree was grown from: the node number of their leaf.
    t : int
    """
    z_unit, h_unit = to_fixed_point(
        probabilities, labels, weights, units, plus[t], minus[t], rules.hessian_bits, work.cells
    )
    rows = work.rows
    if n_rows == labels.size:
        for i in range(rows.size):
            rows[i] = i
    n_nodes[t] = _grow(columns, n_rows, usable[t], num_leaves, rules, z_unit, h_unit, work, nodes[t])
    _write_leaf_ids(nodes[t], n_nodes[t], rows, leaf_ids[t])


@part_of_kernel
def _grow(columns, n_rows, usable, num_leaves, rules, z_unit, h_unit, work, nodes):
    """Grow one tree from the first `n_rows` samples of `work.rows`; return its number of nodes."""
    _make_root(work.rows[:n_rows], usable, work, nodes, rules)
    build_histogram(columns, work.rows[:n_rows], work.cells, work.joint_sums, work.histograms[0])
    # As int64 from the start: for literals Numba would compile the kernels below once more.
    n_nodes = np.int64(1)
    n_leaves = np.int64(1)
    searched = np.int64(0)
    while n_leaves < num_leaves:
        _search(columns, nodes, searched, n_nodes, rules, z_unit, h_unit, work)
        searched = n_nodes
        parent = _best_leaf(nodes, n_nodes)
        if parent < 0:
            break
        _split_node(columns.codes, columns.n_bins, columns.has_missing, nodes, parent, n_nodes, work, rules)
        n_nodes += 2
        n_leaves += 1
        if n_leaves == num_leaves or not _prepare_children(columns, nodes, parent, n_leaves - 1, rules, work):
            searched = n_nodes
    return n_nodes


@part_of_kernel
def _set_leaf(nodes, i, start, stop, z, wh, rules):
    """Make node `i` a leaf that has not been searched."""
    node = nodes[i]
    node.feature = -1
    node.bin = 0
    node.left = 0
    node.right = 0
    node.missing_left = False
    node.gain = 0.0
    node.weight = (wh >> rules.hessian_bits) * rules.weight_per_unit
    node.start = start
    node.stop = stop
    node.z = z
    node.wh = wh
    node.split_gain = 0.0


@part_of_kernel
def _make_root(rows, usable, work, nodes, rules):
    cells = work.cells
    z = np.int64(0)
    wh = np.int64(0)
    for j in range(rows.size):
        z += cells[rows[j], 0]
        wh += cells[rows[j], 1]
    _set_leaf(nodes, np.int64(0), np.int64(0), np.int64(rows.size), z, wh, rules)
    nodes[0].slot = 0
    nodes[0].histogram = 0
    slot_usable = work.usable[0]
    for f in range(usable.size):
        slot_usable[f] = usable[f]


@part_of_kernel
def _best_leaf(nodes, n_nodes):
    """The leaf whose split gains most, the earlier one of those equal but for rounding; -1 if none gains anything."""
    best = -1
    to_beat = 0.0
    for i in range(n_nodes):
        if nodes[i].split_gain > to_beat:
            best = i
            to_beat = nodes[i].split_gain * (1.0 + SMALLEST_RELATIVE_GAIN)
    return best


@part_of_kernel
def _search(columns, nodes, first, last, rules, z_unit, h_unit, work):
    """Find the best splits of leaves first..last whose histograms are ready."""
    for i in range(first, last):
        node = nodes[i]
        if node.wh - rules.min_wh < rules.min_wh:
            continue
        split = find_best_split(
            feature_cells(columns),
            work.histograms[node.histogram],
            node.z,
            node.wh,
            work.usable[node.slot],
            rules,
            z_unit,
            h_unit,
            work.thresholds,
        )
        node.split_gain = split.gain
        node.split_feature = split.feature
        node.split_bin = split.bin
        node.split_missing_left = split.missing_left
        node.split_z = split.left_z
        node.split_wh = split.left_wh


@kernel
def _partition(codes, last_left, missing_left, missing_code, rows, rows_aside):
    """Move the samples that go left to the front of `rows`, keeping the order on both sides; return their number."""
    also_left = missing_code if missing_left else last_left
    n_left = np.uint64(0)  # unsigned: indices that could be negative take longer
    n_right = np.uint64(0)
    for j in range(rows.size):
        row = rows[j]
        # Written to both sides without a branch: which one counts is decided by which index moves on.
        code = codes[row]
        left = (code <= last_left) | (code == also_left)
        rows[n_left] = row
        rows_aside[n_right] = row
        n_left += np.uint64(left)
        n_right += np.uint64(not left)
    right_rows = rows[np.int64(n_left) :]
    for j in range(right_rows.size):
        right_rows[j] = rows_aside[j]
    return np.int64(n_left)


@part_of_kernel
def _split_node(codes, n_bins, has_missing, nodes, parent, left, work, rules):
    """Split a leaf into the nodes `left` and `left` + 1."""
    node = nodes[parent]
    f = node.split_feature
    n_left = _partition(
        codes[f],
        node.split_bin,
        has_missing[f] and node.split_missing_left,
        n_bins[f],
        work.rows[node.start : node.stop],
        work.rows_aside,
    )
    middle = node.start + n_left
    _set_leaf(nodes, left, node.start, middle, node.split_z, node.split_wh, rules)
    _set_leaf(nodes, left + 1, middle, node.stop, node.z - node.split_z, node.wh - node.split_wh, rules)
    node.feature = f
    node.bin = node.split_bin
    node.missing_left = node.split_missing_left
    node.gain = node.split_gain
    node.left = left
    node.right = left + 1
    node.split_gain = 0.0


@part_of_kernel
def _prepare_children(columns, nodes, parent, free_slot, rules, work):
    """Histograms of two new leaves, summed for the smaller one and subtracted for the larger; False if not needed.

    If the parent's was forgotten, that of the larger one is summed, too: sums of integers, the same either way.
    """
    node = nodes[parent]
    smaller = nodes[node.left]
    larger = nodes[node.right]
    if smaller.stop - smaller.start > larger.stop - larger.start:
        smaller, larger = larger, smaller
    larger.slot = node.slot
    smaller.slot = free_slot
    if max(smaller.wh, larger.wh) - rules.min_wh < rules.min_wh:
        return False  # neither can be split
    usable = work.usable[node.slot]
    free_usable = work.usable[free_slot]
    for f in range(usable.size):
        free_usable[f] = usable[f]
    n_histograms = work.histograms.shape[0]
    n_kept = n_histograms if work.usable.shape[0] <= n_histograms else n_histograms - 2
    smaller.histogram = free_slot if free_slot < n_kept else n_kept
    larger.histogram = node.slot if node.slot < n_kept else n_kept + 1
    child_hist = work.histograms[smaller.histogram]
    build_histogram(columns, work.rows[smaller.start : smaller.stop], work.cells, work.joint_sums, child_hist)
    if node.slot < n_kept:
        subtract_histogram(work.histograms[larger.histogram], child_hist, columns.first_cell, columns.n_cells, usable)
    else:
        larger_hist = work.histograms[larger.histogram]
        build_histogram(columns, work.rows[larger.start : larger.stop], work.cells, work.joint_sums, larger_hist)
    return True


@part_of_kernel
def _write_leaf_ids(nodes, n_nodes, rows, leaf_ids):
    """Leaf of every sample that the tree was grown from."""
    for i in range(n_nodes):
        if nodes[i].feature < 0:
            for j in range(nodes[i].start, nodes[i].stop):
                leaf_ids[rows[j]] = i


@kernel
def send_down(columns, nodes, n_nodes, rows, rows_aside, units, rules, leaf_ids):
    """Leaf of the samples that a tree was not grown from; their weight counts in the nodes that they reach.

    Parameters
    ----------
    columns : Columns
    nodes : array of NODE
    n_nodes : int
    rows, rows_aside : arrays of uint32
        Those samples; work space.
    units : array of int64, shape (n_samples,)
    rules : SplitRules
    leaf_ids : array of uint16, shape (n_samples,)
        Filled in.
    """
    starts = np.empty(n_nodes, dtype=np.int64)
    stops = np.empty(n_nodes, dtype=np.int64)
    starts[0] = 0
    stops[0] = rows.size
    for i in range(n_nodes):
        node = nodes[i]
        start = starts[i]
        stop = stops[i]
        if node.feature < 0:
            total = 0
            for j in range(start, stop):
                leaf_ids[rows[j]] = i
                total += units[rows[j]]
            node.weight += total * rules.weight_per_unit
        else:
            f = node.feature
            missing_left = columns.has_missing[f] and node.missing_left
            n_left = _partition(
                columns.codes[f], node.bin, missing_left, columns.n_bins[f], rows[start:stop], rows_aside
            )
            starts[node.left] = start
            stops[node.left] = starts[node.right] = start + n_left
            stops[node.right] = stop
    for i in range(n_nodes - 1, -1, -1):
        if nodes[i].feature >= 0:
            nodes[i].weight = nodes[nodes[i].left].weight + nodes[nodes[i].right].weight
