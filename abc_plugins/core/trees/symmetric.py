"""Level-wise growth of one symmetric tree: all leaves of a level are split by the same feature and threshold.

The tree of depth d is a table of 2**d leaves. Its nodes are numbered level by level: node i has the children 2 i + 1
and 2 i + 2. A leaf without samples, or one that a split would leave with too small a child, adds nothing to the gain
of that split, but is split with all others.

`z` of a node is its packed cell, see `fixedpoint`, and `wh` its weight in units, if weights matter for the splits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.bins.columns import Columns, row_entries
from abc_plugins.core.bins.lists import SpareCodes, codes_of, make_spare_codes
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.trees.best_first import partition
from abc_plugins.core.trees.categories import CategoryOrder, make_category_order, places_of, sort_packed_categories
from abc_plugins.core.trees.feature_choice import FeatureChoice, close_groups, draw_features, start_choice
from abc_plugins.core.trees.fixedpoint import pack_derivatives
from abc_plugins.core.trees.histogram import sum_histogram
from abc_plugins.core.trees.level_search import (
    NO_HISTOGRAM,
    LevelThresholds,
    find_level_split,
    lay_out_thresholds,
    level_rules,
    level_split,
    make_level_thresholds,
    score,
    sum_left,
)


class SymmetricSpace(NamedTuple):
    """What growing one symmetric tree at a time needs; allocated once per fit.

    Attributes
    ----------
    cells : array of int64, shape (n_samples,)
        Packed cells.
    cell_units : array of float64, shape (2,)
        What one unit of the sums of z and of h is worth.
    rows, rows_aside : arrays of uint32, shape (n_samples,)
        Samples, those of a node next to each other; and the right child's while a node is being split.
    histograms : array of int64, shape (n_histograms, n_cells)
        One for each node of the last level that is split.
    unit_histograms : array of int64
        Likewise of weights; no histograms if weights do not matter.
    thresholds : LevelThresholds
    order : CategoryOrder
    choice : FeatureChoice
    spare : SpareCodes
    """

    cells: AnyArray
    cell_units: Floats
    rows: AnyArray
    rows_aside: AnyArray
    histograms: AnyArray
    unit_histograms: AnyArray
    thresholds: LevelThresholds
    order: CategoryOrder
    choice: FeatureChoice
    spare: SpareCodes


def make_symmetric_space(columns: Columns, depth: int, min_units: int, choice: FeatureChoice) -> SymmetricSpace:
    """Allocate work space for trees of this depth; children need a weight of `min_units`, 0 if it does not matter."""
    n_samples, n_cells, n_histograms = columns.codes.shape[1], columns.total_cells, 2 ** (depth - 1)
    return SymmetricSpace(
        cells=np.empty(n_samples, dtype=np.int64),
        cell_units=np.zeros(2),
        rows=np.empty(n_samples, dtype=np.uint32),
        rows_aside=np.empty(n_samples, dtype=np.uint32),
        histograms=np.empty((n_histograms, n_cells), dtype=np.int64),
        unit_histograms=np.empty((n_histograms if min_units > 0 else 0, n_cells), dtype=np.int64),
        thresholds=make_level_thresholds(columns),
        order=make_category_order(columns.n_bins, columns.is_categorical),
        choice=choice,
        spare=make_spare_codes(columns),
    )


@kernel
def grow_symmetric_trees(columns, units, n_rows, rules, min_units, work, trees, depth, first, last):
    """Grow some trees along directions from the first `n_rows` samples of `work.rows`.

    Parameters
    ----------
    columns : Columns
    units : array of int64, shape (n_samples,)
        Weights.
    n_rows : int
        If it is the number of all samples, `work.rows` is filled in.
    rules : SplitRules
    min_units : int
        Smallest weight of a child, 0 if it does not matter.
    work : SymmetricSpace
    trees : RoundTrees
        Those from `first` to `last` - 1 are filled in.
    depth : int
        Most levels of splits, at least 1.
    first, last : int
    """
    for t in range(first, last):
        pack_derivatives(trees.z[t], trees.h[t], work.cell_units, work.cells)
        if n_rows == units.size:
            for j in range(n_rows):
                work.rows[j] = j
        start_choice(work.choice, trees.seeds[t])
        nodes, leaf_ids = trees.nodes[t], trees.leaf_ids[t]
        in_units = level_rules(rules, min_units, work.cell_units)
        _make_root(columns, units, n_rows, trees.sorts[t], min_units, work, nodes)
        n_levels = _split_levels(columns, units, trees.usable[t], depth, in_units, work, nodes)
        n_nodes = 2 ** (n_levels + 1) - 1
        _look_up_leaves(columns, nodes, n_levels, work.order, work.spare, leaf_ids)
        _weigh_nodes(nodes, n_nodes, units, leaf_ids, rules)
        trees.n_nodes[t] = n_nodes
        for place in range(trees.places.shape[1]):
            trees.places[t, place] = work.order.place_of[place]


@part_of_kernel
def _make_root(columns, units, n_rows, sorts, min_units, work, nodes):
    """Make the root with its histogram, and put the categories in the order of the tree."""
    rows = work.rows[:n_rows]
    total = np.int64(0)
    total_units = np.int64(0)
    for j in range(n_rows):
        total += work.cells[rows[j]]
        total_units += units[rows[j]]
    _set_node(nodes, np.int64(0), np.int64(0), n_rows, total, total_units)
    nodes[0].histogram = 0
    hist = work.histograms[0]
    entries = row_entries(columns)
    sum_histogram(entries, rows, work.cells, hist)
    if min_units > 0:
        sum_histogram(entries, rows, units, work.unit_histograms[0])
    sort_packed_categories(work.order, sorts, columns.first_cell, columns.n_bins, hist, work.cell_units[1])


@part_of_kernel
def _split_levels(columns, units, usable, depth, rules, work, nodes):
    """Split level by level; the number of levels."""
    n_histograms = 1
    n_levels = 0
    n_usable = lay_out_thresholds(columns, usable, work.thresholds)
    choice = work.choice
    for level in range(depth):
        first = 2**level - 1
        if choice.share < 1.0:
            draw_features(choice, usable)
            n_usable = lay_out_thresholds(columns, choice.drawn, work.thresholds)
        feature, bin_, missing_left = find_level_split(columns, nodes, first, 2 * first + 1, n_usable, rules, work)
        if feature < 0:
            break
        n_levels += 1
        _split_nodes(columns, nodes, first, feature, bin_, missing_left, rules, work)
        if n_levels < depth:  # the leaves of the last level need no samples
            n_histograms = _part_nodes(
                columns, units, nodes, first, feature, bin_, missing_left, n_histograms, rules, work
            )
        if choice.groups.shape[1] > 0:
            close_groups(choice, np.int64(0), np.int64(0), feature, usable, usable)
            n_usable = lay_out_thresholds(columns, usable, work.thresholds)
    return n_levels


@part_of_kernel
def _set_node(nodes, i, start, stop, total, total_units):
    """Make node `i` a leaf without a histogram."""
    node = nodes[i]
    node.feature = -1
    node.bin = 0
    node.left = 0
    node.right = 0
    node.missing_left = False
    node.gain = 0.0
    node.start = start
    node.stop = stop
    node.z = total
    node.wh = total_units
    node.histogram = NO_HISTOGRAM


@part_of_kernel
def _split_nodes(columns, nodes, first, f, bin_, missing_left, rules, work):
    """Make the children of all nodes of a level, with the sums that histograms tell."""
    histograms, unit_histograms = work.histograms, work.unit_histograms
    split = level_split(columns, work.order, f, bin_, missing_left)
    h_unit = work.cell_units[1] if work.cell_units[1] > 0.0 else 1.0
    gain_unit = work.cell_units[0] * work.cell_units[0] / h_unit
    for i in range(first, 2 * first + 1):
        node = nodes[i]
        total = np.int64(0)
        total_units = np.int64(0)
        if node.histogram != NO_HISTOGRAM:
            total = sum_left(split, histograms[node.histogram], node.z)
            if rules.min_units > 0:
                total_units = sum_left(split, unit_histograms[node.histogram], node.wh)
        left = 2 * i + 1
        _set_node(nodes, left, node.start, node.start, total, total_units)
        _set_node(nodes, left + 1, node.stop, node.stop, node.z - total, node.wh - total_units)
        gain = score(total, rules) + score(node.z - total, rules) - score(node.z, rules)
        node.gain = max(gain, 0.0) * gain_unit
        node.feature = f
        node.bin = bin_
        node.missing_left = missing_left
        node.left = left
        node.right = left + 1


@part_of_kernel
def _part_nodes(columns, units, nodes, first, f, bin_, missing_left, n_histograms, rules, work):
    """Give the samples of all nodes of a level to their children, with histograms; the number of these in use.

    The smaller child is summed, the larger one takes the place of its parent.
    """
    rows, rows_aside, cells = work.rows, work.rows_aside, work.cells
    histograms, unit_histograms = work.histograms, work.unit_histograms
    entries = row_entries(columns)
    codes = codes_of(columns, np.int64(f), work.spare)
    missing_code = columns.n_bins[f]
    places = places_of(work.order, f, missing_code)
    missing_goes_left = columns.has_missing[f] and missing_left
    for i in range(first, 2 * first + 1):
        node, left, right = nodes[i], nodes[2 * i + 1], nodes[2 * i + 2]
        start, stop = node.start, node.stop
        if stop == start:
            continue
        middle = start + partition(
            codes, np.int64(bin_), missing_goes_left, missing_code, places, rows[start:stop], rows_aside
        )
        left.stop = middle
        right.start = middle
        is_left_smaller = 2 * (middle - start) <= stop - start
        smaller = left if is_left_smaller else right
        larger = right if is_left_smaller else left
        larger.histogram = node.histogram
        if smaller.stop > smaller.start:
            smaller.histogram = n_histograms
            of_smaller = rows[smaller.start : smaller.stop]
            _part_histogram(entries, of_smaller, cells, histograms, node.histogram, n_histograms)
            if rules.min_units > 0:
                _part_histogram(entries, of_smaller, units, unit_histograms, node.histogram, n_histograms)
            n_histograms += 1
    return n_histograms


@kernel
def _part_histogram(entries, rows, amounts, histograms, parent, child):
    """Fill the histogram of a child with the sums over `rows`, and take it away from its parent's."""
    hist, rest = histograms[child], histograms[parent]
    sum_histogram(entries, rows, amounts, hist)
    for cell in range(hist.size):
        rest[cell] -= hist[cell]


@part_of_kernel
def _look_up_leaves(columns, nodes, n_levels, order, spare, leaf_ids):
    """Leaf of every sample, whether the tree was grown from it or not; LLVM vectorises the loops."""
    for i in range(leaf_ids.size):
        leaf_ids[i] = 0
    for level in range(n_levels):
        node = nodes[2**level - 1]
        f, last_left = node.feature, node.bin
        codes = codes_of(columns, np.int64(f), spare)
        missing_code = columns.n_bins[f]
        if order.is_sorted[f]:
            places = places_of(order, f, missing_code)
            for i in range(leaf_ids.size):
                is_left = node.missing_left if codes[i] == missing_code else places[codes[i]] <= last_left
                leaf_ids[i] = 2 * leaf_ids[i] + 2 - is_left
        else:
            also_left = missing_code if columns.has_missing[f] and node.missing_left else last_left
            for i in range(leaf_ids.size):
                is_left = (codes[i] <= last_left) | (codes[i] == also_left)
                leaf_ids[i] = 2 * leaf_ids[i] + 2 - is_left


@part_of_kernel
def _weigh_nodes(nodes, n_nodes, units, leaf_ids, rules):
    """Weight of all samples in every node, whether the tree was grown from them or not."""
    totals = np.zeros(n_nodes, dtype=np.int64)
    for i in range(leaf_ids.size):
        totals[leaf_ids[i]] += units[i]
    for node in range(n_nodes - 1, 0, -1):
        totals[(node - 1) // 2] += totals[node]
    for node in range(n_nodes):
        nodes[node].weight = totals[node] * rules.weight_per_unit
