"""Split search: the best threshold of a node by the first-order or the second-order gain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.arrays import AnyArray, Floats
from abc_plugins.core.fixedpoint import to_float
from abc_plugins.core.jit import kernel

NONE_ALLOWED = -2
"""In place of a bin: the node is too small for any split on this feature."""

NONE_BETTER = -1
"""In place of a bin: no split on this feature beats the best one so far."""

SMALLEST_RELATIVE_GAIN = 1e-9
"""A gain below this share of the node's own score is rounding noise."""

_TIE = 1e-11
"""Scores that differ by less than this share are equal but for rounding: the first one wins."""


class SplitRules(NamedTuple):
    """What a split must satisfy and how it is valued.

    Attributes
    ----------
    second_order : bool
        Divide by the hessians (robust LogitBoost); otherwise by the weights (MART).
    reg_lambda : float
        Added to every denominator.
    min_wh : int
        Smallest weight of a child, as the packed sums of a cell without hessians.
    min_hessian : float
        Smallest sum of hessians of a child.
    hessian_bits, hessian_mask : int
        Layout of a cell, see `fixedpoint`.
    weight_per_unit : float
    """

    second_order: bool
    reg_lambda: float
    min_wh: int
    min_hessian: float
    hessian_bits: int
    hessian_mask: int
    weight_per_unit: float


class Thresholds(NamedTuple):
    """Work space for the thresholds of one feature; all arrays have one entry a bin.

    Attributes
    ----------
    left_z, left_wh : arrays of int64
        Cell sums of all present values up to this bin.
    score : array of float64
    """

    left_z: AnyArray
    left_wh: AnyArray
    score: Floats


def make_thresholds(n_bins: int) -> Thresholds:
    """Allocate the work space for features of up to `n_bins` bins."""
    return Thresholds(np.empty(n_bins, dtype=np.int64), np.empty(n_bins, dtype=np.int64), np.empty(n_bins))


class Split(NamedTuple):
    """A split of a node; `gain` is 0 if there is none.

    `feature` is an index into the features of `Columns`. Samples whose bin is at most `bin` go left, and missing
    ones if `missing_left` is set. `left_z` and `left_wh` are the left child's cell sums.
    """

    gain: float
    feature: int
    bin: int
    missing_left: bool
    left_z: int
    left_wh: int


@kernel
def _denominator(wh, rules, h_unit):
    """Sum of hessians or weight of a node: what the gain divides by, but for `reg_lambda`."""
    if rules.second_order:
        return to_float(wh & rules.hessian_mask) * h_unit
    return to_float(wh >> rules.hessian_bits) * rules.weight_per_unit


@kernel
def _score(z_sum, denominator):
    """z**2 / denominator of a node."""
    return z_sum * z_sum / denominator if denominator > 0.0 else 0.0


@kernel
def _is_allowed(wh, rules, h_unit):
    """Whether a child with these packed sums is large enough."""
    return wh >= rules.min_wh and (rules.min_hessian == 0.0 or (wh & rules.hessian_mask) * h_unit >= rules.min_hessian)


@kernel
def _missing_sums(columns, f, hist, node_z, node_wh):
    """Sums of a feature's missing values: the last cell, or what all cells leave of the node."""
    if not columns.has_missing[f]:
        return 0, 0
    first = columns.first_cell[f]
    behind = first + columns.n_cells[f]
    if columns.default_bin[f] != columns.n_bins[f]:
        return hist[behind - 1, 0], hist[behind - 1, 1]
    z = node_z
    wh = node_wh
    for cell in range(first, behind):
        z -= hist[cell, 0]
        wh -= hist[cell, 1]
    return z, wh


@kernel
def _sum_from_left(columns, f, hist, present_z, present_wh, out):
    """Fill in what lies left of every threshold, missing values apart.

    Sums run from the left up to the default bin and from the right down to it, so that its own sum is never needed.
    """
    # Arrays are taken out of their tuples first: inside a loop that would count references each time.
    left_z, left_wh, _ = out
    n_bins = columns.n_bins[f]
    default_bin = columns.default_bin[f]
    has_default = 0 <= default_bin < n_bins
    cells = hist[columns.first_cell[f] : columns.first_cell[f] + columns.n_cells[f]]
    z = 0
    wh = 0
    for b in range(default_bin if has_default else n_bins):
        z += cells[b, 0]
        wh += cells[b, 1]
        left_z[b] = z
        left_wh[b] = wh
    if has_default:
        z = present_z
        wh = present_wh
        for b in range(n_bins - 1, default_bin, -1):
            left_z[b] = z
            left_wh[b] = wh
            # The default bin has no cell: those above it have moved down by one.
            z -= cells[b - 1, 0]
            wh -= cells[b - 1, 1]
        left_z[default_bin] = z
        left_wh[default_bin] = wh


@kernel
def _best_threshold(thresholds, n_bins, node_z, node_wh, missing_z, missing_wh, rules, z_unit, h_unit, floor):
    """Best threshold with these missing values on the left: (score, bin).

    A bin without samples has the score of the one before, which wins the tie. The bin is NONE_ALLOWED if no threshold
    is, NONE_BETTER if none exceeds the floor.
    """
    left_z, left_wh, scores = thresholds
    # Children grow and shrink with the threshold: those allowed lie next to each other.
    start = 0
    stop = n_bins
    while start < stop and (left_wh[start] == 0 or not _is_allowed(left_wh[start] + missing_wh, rules, h_unit)):
        start += 1
    while start < stop and not _is_allowed(node_wh - left_wh[stop - 1] - missing_wh, rules, h_unit):
        stop -= 1
    if start == stop:
        return floor, NONE_ALLOWED
    node_z_sum = to_float(node_z) * z_unit
    node_below = _denominator(node_wh, rules, h_unit)
    for b in range(start, stop):
        z_sum = to_float(left_z[b] + missing_z) * z_unit
        below = _denominator(left_wh[b] + missing_wh, rules, h_unit)
        scores[b] = _score(z_sum, below + rules.reg_lambda) + _score(
            node_z_sum - z_sum, node_below - below + rules.reg_lambda
        )
    best_score = floor
    best = NONE_BETTER
    for b in range(start, stop):
        if scores[b] > floor:
            best_score = scores[b]
            floor = best_score * (1.0 + _TIE)
            best = b
    return best_score, best


@kernel
def _best_of_feature(columns, f, hist, node_z, node_wh, rules, z_unit, h_unit, floor, thresholds):
    """Best split on one feature whose score exceeds `floor`: (score, bin, missing_left, left_z, left_wh).

    The bin is NONE_ALLOWED if no threshold is, NONE_BETTER if some are but none exceeds the floor.
    """
    missing_z, missing_wh = _missing_sums(columns, f, hist, node_z, node_wh)
    _sum_from_left(columns, f, hist, node_z - missing_z, node_wh - missing_wh, thresholds)
    best_score = floor
    best_bin = NONE_ALLOWED
    best_missing_left = False
    best_z = 0
    best_wh = 0
    any_missing = missing_wh != 0
    for side in range(2 if any_missing else 1):
        # First with the missing values on the left, then on the right.
        if side == 1:
            missing_z = 0
            missing_wh = 0
        score, b = _best_threshold(
            thresholds, columns.n_bins[f], node_z, node_wh, missing_z, missing_wh, rules, z_unit, h_unit, floor
        )
        if b >= 0:
            best_score = score
            floor = score * (1.0 + _TIE)
            best_z = thresholds.left_z[b] + missing_z
            best_wh = thresholds.left_wh[b] + missing_wh
            best_missing_left = missing_wh != 0
        best_bin = max(best_bin, b) if b < 0 else b
    if not any_missing:
        # A missing value that turns up later goes with the heavier child.
        best_missing_left = best_wh >> rules.hessian_bits >= (node_wh - best_wh) >> rules.hessian_bits
    return best_score, best_bin, best_missing_left, best_z, best_wh


@kernel
def find_best_split(columns, hist, node_z, node_wh, usable, rules, z_unit, h_unit, thresholds):
    """Search all features for the best split of a node.

    Parameters
    ----------
    columns : Columns
    hist : array of int64, shape (n_cells, 2)
    node_z, node_wh : int
        Cell sums of the node.
    usable : array of bool, shape (n_split_features,)
        Features to look at. One without any allowed threshold is switched off: no part of this node will have
        one either.
    rules : SplitRules
    z_unit, h_unit : float
    thresholds : Thresholds
        Work space.

    Returns
    -------
    Split
    """
    node_score = _score(to_float(node_z) * z_unit, _denominator(node_wh, rules, h_unit) + rules.reg_lambda)
    floor = node_score * (1.0 + SMALLEST_RELATIVE_GAIN)
    best = Split(0.0, -1, NONE_ALLOWED, False, 0, 0)
    for f in range(columns.feature.size):
        if not usable[f]:
            continue
        score, b, missing_left, left_z, left_wh = _best_of_feature(
            columns, f, hist, node_z, node_wh, rules, z_unit, h_unit, floor, thresholds
        )
        if b == NONE_ALLOWED:
            usable[f] = False
        if b >= 0:
            floor = score * (1.0 + _TIE)
            best = Split(score - node_score, f, b, missing_left, left_z, left_wh)
    return best
