"""The search for the split of a level of a symmetric tree: the threshold that gains most over all its nodes together.

The thresholds of all features lie behind one another, so that the gains of a node are computed in one loop over all of
them. A feature with missing values has its thresholds twice: with the missing values on the right, then on the left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.bins.columns import STORED, Columns, feature_cells
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.trees.fixedpoint import packed_h, packed_z
from abc_plugins.core.trees.splitting import MOST_LAMBDA, SMALLEST_RELATIVE_GAIN, TIE

NO_HISTOGRAM = -1
"""In place of a histogram: the node has no samples."""


class LevelThresholds(NamedTuple):
    """Work space: the thresholds of the features that a tree may split on.

    Attributes
    ----------
    feature : array of int64, shape (n_split_features,)
        Those features, behind one another.
    first : array of int64, shape (n_split_features + 1,)
        Where the thresholds of each of them begin, and where those of the last one end.
    left : array of int64, shape (n_thresholds,)
        Packed cells: sums of the left child of one node.
    left_units : array of int64, shape (n_thresholds,)
        Weight of the left child; zeros if it does not matter.
    gain : array of float64, shape (n_thresholds,)
        Sum over the nodes of the level.
    """

    feature: AnyArray
    first: AnyArray
    left: AnyArray
    left_units: AnyArray
    gain: Floats


class LevelRules(NamedTuple):
    """What a split of a node must satisfy, in units of the sums of a tree.

    Attributes
    ----------
    reg_lambda : float
        Added to every denominator.
    min_hessian : float
    min_units : int
        Smallest weight of a child; 0 if it does not matter.
    min_gain : float
        Smallest gain of all nodes together.
    """

    reg_lambda: float
    min_hessian: float
    min_units: int
    min_gain: float


def make_level_thresholds(columns: Columns) -> LevelThresholds:
    """Allocate work space for all features."""
    n_features = columns.feature.size
    n_thresholds = int((columns.n_bins * (1 + columns.has_missing)).sum())
    return LevelThresholds(
        feature=np.empty(n_features, dtype=np.int64),
        first=np.zeros(n_features + 1, dtype=np.int64),
        left=np.empty(n_thresholds, dtype=np.int64),
        left_units=np.zeros(n_thresholds, dtype=np.int64),
        gain=np.empty(n_thresholds),
    )


@kernel
def lay_out_thresholds(columns, usable, thresholds):
    """Lay out the thresholds of the usable features; return the number of these."""
    feature, first = thresholds.feature, thresholds.first
    n_usable = 0
    n_thresholds = np.int64(0)
    for f in range(usable.size):
        if usable[f]:
            feature[n_usable] = f
            first[n_usable] = n_thresholds
            n_usable += 1
            n_thresholds += 2 * columns.n_bins[f] if columns.has_missing[f] else columns.n_bins[f] - 1
    first[n_usable] = n_thresholds
    return n_usable


@kernel
def level_rules(rules, min_units, cell_units):
    """Rules of splits in units of the sums of a tree."""
    unit = cell_units[1] if cell_units[1] > 0.0 else 1.0
    gain_unit = cell_units[0] * cell_units[0] / unit
    return LevelRules(
        min(rules.reg_lambda / unit, MOST_LAMBDA),
        np.ceil(rules.min_hessian / unit),
        min_units,
        rules.min_gain / gain_unit if gain_unit > 0.0 else 0.0,
    )


@kernel
def find_level_split(columns, nodes, first, stop, n_usable, rules, work):
    """Find the split with the largest gain over all nodes first..stop - 1 together; feature -1 if there is none."""
    # Arrays are taken out of their tuples before the loops: inside, that counts references each time.
    histograms, unit_histograms, order = work.histograms, work.unit_histograms, work.order
    cells, feature, first_threshold = feature_cells(columns), work.thresholds.feature, work.thresholds.first
    left, left_units, gain = work.thresholds.left, work.thresholds.left_units, work.thresholds.gain
    n_thresholds = work.thresholds.first[n_usable]
    is_free = rules.reg_lambda > 0.0 and rules.min_hessian <= 0.0 and rules.min_units == 0
    for t in range(n_thresholds):
        gain[t] = 0.0
    floor = 0.0
    for i in range(first, stop):
        total, histogram = nodes[i].z, nodes[i].histogram
        floor += score(total, rules)
        if histogram == NO_HISTOGRAM or nodes[i].wh < 2 * rules.min_units:
            continue
        hist = histograms[histogram]
        _sum_from_left(cells, feature, first_threshold, n_usable, order, hist, total, left)
        if rules.min_units > 0:
            hist = unit_histograms[histogram]
            _sum_from_left(cells, feature, first_threshold, n_usable, order, hist, nodes[i].wh, left_units)
        if is_free:
            _add_free_gains(left, n_thresholds, total, rules, gain)
        else:
            _add_gains(left, left_units, n_thresholds, total, nodes[i].wh, rules, gain)
    return _best_threshold(columns, work.thresholds, n_usable, max(floor * SMALLEST_RELATIVE_GAIN, rules.min_gain))


@part_of_kernel
def _best_threshold(columns, thresholds, n_usable, floor):
    """Feature, bin and side of missing values of the threshold that gains most, the first one in a tie."""
    feature, first, gain = thresholds.feature, thresholds.first, thresholds.gain
    best, best_place = np.int64(-1), np.int64(0)
    for j in range(n_usable):
        for t in range(first[j], first[j + 1]):
            if gain[t] > floor:
                floor = gain[t] * (1.0 + TIE)
                best, best_place = feature[j], t - first[j]
    n_bins = np.int64(columns.n_bins[best]) if best >= 0 else np.int64(0)
    missing_left = best >= 0 and best_place >= n_bins
    return best, best_place - n_bins if missing_left else best_place, missing_left


@kernel
def _sum_from_left(cells, feature, first, n_usable, order, hist, total, left):
    """Sums of the left child of a node at every threshold, from its histogram and its own sum."""
    first_cell, n_cells, n_bins, _, default_bin = cells
    is_sorted = order.is_sorted
    for j in range(n_usable):
        f = feature[j]
        n_thresholds = first[j + 1] - first[j]
        n = np.uint64(n_bins[f])
        n_left = min(np.uint64(n_thresholds), n)
        to = np.uint64(first[j])
        start = np.uint64(first_cell[f])
        present = np.int64(0)
        if is_sorted[f]:
            bin_at = order.bin_at[order.start[f] : order.start[f] + n_bins[f]]
            for place in range(n_left):
                present += hist[start + bin_at[place]]
                left[to + place] = present
        elif default_bin[f] == STORED:
            for b in range(n_left):
                present += hist[start + b]
                left[to + b] = present
        else:  # the default bin has no cell: it has what the cells leave of the node
            default = np.uint64(default_bin[f])
            rest = total
            for cell in range(start, start + np.uint64(n_cells[f])):
                rest -= hist[cell]
            here = start
            for b in range(n_left):
                if b == default:
                    present += rest
                else:
                    present += hist[here]
                    here += np.uint64(1)
                left[to + b] = present
        if n_thresholds > n:
            missing = total - present
            for b in range(n):
                left[to + n + b] = left[to + b] + missing


class LevelSplit(NamedTuple):
    """The split of a level, with what is needed to sum its left children: each argument of a call takes time.

    Attributes
    ----------
    bin_at : array of uint8
        Bins of the feature in the order of the tree; empty if they are in their own order.
    first_cell, n_cells, n_bins, default_bin : int
        Of the feature, see `Columns`.
    last_left : int
        Place of the last bin that goes left.
    missing_left : bool
    """

    bin_at: AnyArray
    first_cell: np.int64
    n_cells: np.int64
    n_bins: np.int64
    default_bin: np.int64
    last_left: np.int64
    missing_left: bool


@part_of_kernel
def level_split(columns, order, f, last_left, missing_left):
    """The split of a level by feature `f`."""
    n_sorted = columns.n_bins[f] if order.is_sorted[f] else 0
    return LevelSplit(
        order.bin_at[order.start[f] : order.start[f] + n_sorted],
        np.int64(columns.first_cell[f]),
        np.int64(columns.n_cells[f]),
        np.int64(columns.n_bins[f]),
        np.int64(columns.default_bin[f]),
        np.int64(last_left),
        missing_left,
    )


@kernel
def sum_left(split, hist, total):
    """Sum of the left child of a node, from its histogram and its own sum."""
    bin_at, first_cell, n_cells, n_bins, default_bin, last_left, missing_left = split
    cells = hist[first_cell : first_cell + n_cells]
    rest = total  # what the default bin has, which has no cell
    if default_bin != STORED:
        for cell in range(cells.size):
            rest -= cells[cell]
    left = np.int64(0)
    present = np.int64(0)
    if bin_at.size > 0:
        for place in range(n_bins):
            amount = _amount_in(cells, np.int64(bin_at[place]), default_bin, rest)
            present += amount
            left += amount if place <= last_left else 0
    else:
        for b in range(n_bins if missing_left else last_left + 1):
            amount = _amount_in(cells, b, default_bin, rest)
            present += amount
            left += amount if b <= last_left else 0
    return left + total - present if missing_left else left


@part_of_kernel
def _amount_in(cells, b, default_bin, rest):
    """Sum of one bin."""
    if default_bin == STORED:
        return cells[b]
    return rest if b == default_bin else cells[b - (b > default_bin)]


@part_of_kernel
def score(cell, rules):
    """z**2 / (h + lambda) of a node, in units of the sums."""
    below = packed_h(cell) + rules.reg_lambda
    return packed_z(cell) * packed_z(cell) / below if below > 0.0 else 0.0


@part_of_kernel
def _add_free_gains(left, n_thresholds, total, rules, gain):
    """Add what every threshold gains in one node, where every split is allowed and no denominator can vanish.

    A child without samples gains nothing, so that it needs no rule. LLVM vectorises the loop.
    """
    z_sum = packed_z(total)
    below = packed_h(total) + 2.0 * rules.reg_lambda
    node_score = score(total, rules)
    for t in range(n_thresholds):
        left_z = packed_z(left[t])
        left_below = packed_h(left[t]) + rules.reg_lambda
        right_z = z_sum - left_z
        right_below = below - left_below
        scores = (left_z * left_z * right_below + right_z * right_z * left_below) / (left_below * right_below)
        gain[t] += scores - node_score


@part_of_kernel
def _add_gains(left, left_units, n_thresholds, total, total_units, rules, gain):
    """Add what every allowed threshold gains in one node; LLVM vectorises this loop, too."""
    z_sum, h_sum = packed_z(total), packed_h(total)
    node_score = score(total, rules)
    for t in range(n_thresholds):
        left_z, left_h = packed_z(left[t]), packed_h(left[t])
        right_z, right_h = z_sum - left_z, h_sum - left_h
        left_below, right_below = left_h + rules.reg_lambda, right_h + rules.reg_lambda
        # a / c + b / d with one division; a child without a denominator counts nothing.
        left_square = left_z * left_z if left_below > 0.0 else 0.0
        right_square = right_z * right_z if right_below > 0.0 else 0.0
        left_below = left_below if left_below > 0.0 else 1.0
        right_below = right_below if right_below > 0.0 else 1.0
        scores = (left_square * right_below + right_square * left_below) / (left_below * right_below)
        allowed = (
            (left_units[t] >= rules.min_units)
            & (total_units - left_units[t] >= rules.min_units)
            & (left_h >= rules.min_hessian)
            & (right_h >= rules.min_hessian)
        )
        gain[t] += scores - node_score if allowed else 0.0
