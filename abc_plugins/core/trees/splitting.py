"""Split search: the best threshold of a node by the first-order or the second-order gain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats
from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.trees.categories import put_in_order
from abc_plugins.core.trees.fixedpoint import to_float

SMALLEST_RELATIVE_GAIN = 1e-9
"""A gain below this share of the node's own score is rounding noise."""

TIE = 1e-11
"""Scores that differ by less than this share are equal but for rounding: the first one wins."""

_NOT_ALLOWED = -1.0
"""Score of a threshold that leaves a child too small."""

MOST_LAMBDA = 1e150
"""The largest L2 term, in units of the sums: with it gains are zero already, and the square of more would overflow."""

UNLIMITED_DEPTH = 2**31

_BATCH = 1024
"""Thresholds to score in one loop: many small features together, and few enough to stay in the cache."""


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
    min_gain : float
        Smallest gain of a split; of a symmetric tree, of all nodes of a level together.
    max_depth : int
        Most splits from the root to a leaf of a tree that is grown best-first.
    """

    second_order: bool
    reg_lambda: float
    min_wh: int
    min_hessian: float
    hessian_bits: int
    hessian_mask: int
    weight_per_unit: float
    min_gain: float = 0.0
    max_depth: int = UNLIMITED_DEPTH


class Thresholds(NamedTuple):
    """Work space: the thresholds of some features, one stretch after the other.

    Only bins with samples have a threshold: an empty one splits as the one before. A feature has one stretch; if there
    are missing values, one with them on the left and one with them on the right.

    Attributes
    ----------
    left_z, left_wh : arrays of int64
        Cell sums of the left child.
    score : array of float64
    stretch_feature, stretch_stop : arrays of int64
        A stretch begins where the one before stops.
    stretch_missing_left : array of bool
    """

    left_z: AnyArray
    left_wh: AnyArray
    score: Floats
    stretch_feature: AnyArray
    stretch_stop: AnyArray
    stretch_missing_left: Booleans


def make_thresholds(n_bins: int) -> Thresholds:
    """Allocate the work space for features of up to `n_bins` bins."""
    size = _BATCH + 2 * (n_bins + 1)  # a stretch has at least one threshold
    return Thresholds(
        left_z=np.empty(size, dtype=np.int64),
        left_wh=np.empty(size, dtype=np.int64),
        score=np.empty(size),
        stretch_feature=np.empty(size, dtype=np.int64),
        stretch_stop=np.empty(size, dtype=np.int64),
        stretch_missing_left=np.empty(size, dtype=np.bool_),
    )


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


@part_of_kernel
def _denominator(wh, rules):
    """Hessians or weight of a node in units: what the gain divides by, but for `reg_lambda`."""
    return to_float(wh & rules.hessian_mask) if rules.second_order else to_float(wh >> rules.hessian_bits)


@part_of_kernel
def _score(z_sum, denominator):
    """z**2 / denominator of a node."""
    return z_sum * z_sum / denominator if denominator > 0.0 else 0.0


@kernel
def _sum_cells(hist, first, stop):
    """Sums of some cells."""
    z = np.int64(0)
    wh = np.int64(0)
    for cell in range(np.uint64(first), np.uint64(stop)):
        z += hist[cell, 0]
        wh += hist[cell, 1]
    return z, wh


@kernel
def _sum_up(hist, first, stop, left_z, left_wh, end):
    """Append the sums of the cells up to each one that has samples; return the last ones and where they end.

    Written without a branch: a cell without samples is overwritten by the next one.
    """
    z = np.int64(0)
    wh = np.int64(0)
    position = np.uint64(end)  # a signed index may be negative: looking after that takes more time than all the rest
    for cell in range(np.uint64(first), np.uint64(stop)):
        cell_wh = hist[cell, 1]
        z += hist[cell, 0]
        wh += cell_wh
        left_z[position] = z
        left_wh[position] = wh
        position += np.uint64(cell_wh != 0)
    return z, wh, np.int64(position)


@part_of_kernel
def _sum_from_left(hist, first_cell, n_bins, default_bin, present_z, present_wh, left_z, left_wh, start):
    """Append the left sums of every bin with samples, missing values apart; return where they end."""
    if not 0 <= default_bin < n_bins:
        return _sum_up(hist, first_cell, first_cell + n_bins, left_z, left_wh, start)[2]
    # The default bin has no cell: what is left of its threshold is what the cells behind it leave.
    behind = first_cell + default_bin
    _, wh, default = _sum_up(hist, first_cell, behind, left_z, left_wh, start)
    above_z, above_wh, end = _sum_up(hist, behind, first_cell + n_bins - 1, left_z, left_wh, default + 1)
    default_z = present_z - above_z
    default_wh = present_wh - above_wh
    if default_wh == wh:  # it has no samples, either: those behind it move up
        for t in range(default + 1, end):
            left_z[t - 1] = left_z[t] + default_z
            left_wh[t - 1] = left_wh[t] + default_wh
        return end - 1
    left_z[default] = left_wh[default] = 0
    for t in range(np.uint64(default), np.uint64(end)):
        left_z[t] += default_z
        left_wh[t] += default_wh
    return end


@part_of_kernel
def _missing_sums(hist, first_cell, n_cells, n_bins, default_bin, node_z, node_wh):
    """Sums of a feature's missing values: the last cell, or what all cells leave of the node."""
    behind = first_cell + n_cells
    if default_bin != n_bins:
        return hist[behind - 1, 0], hist[behind - 1, 1]
    z, wh = _sum_cells(hist, first_cell, behind)
    return node_z - z, node_wh - wh


@part_of_kernel
def _add_missing(left_z, left_wh, start, stop, missing_z, missing_wh):
    """Repeat the thresholds start..stop behind themselves, and put missing values on the left in the first copy."""
    for t in range(start, stop):
        behind = t + stop - start
        left_z[behind] = left_z[t]
        left_wh[behind] = left_wh[t]
        left_z[t] += missing_z
        left_wh[t] += missing_wh


@part_of_kernel
def _lay_out(features, f, hist, node_z, node_wh, usable, thresholds, order):
    """Fill in the thresholds of features from `f` on, as many as fit.

    Returns
    -------
    f, n_stretches : int
        The first feature that is not among them.
    """
    # Arrays are taken out of their tuples, and handed on whole with an offset: taking one out or a slice of it
    # counts references, which costs more than all the rest for a feature of few bins.
    left_z, left_wh, _, stretch_feature, stretch_stop, stretch_missing_left = thresholds
    n_bins, default_bin, has_missing = features.n_bins, features.default_bin, features.has_missing
    first_cell, n_cells = features.first_cell, features.n_cells
    stop = np.int64(0)
    n_stretches = 0
    while f < usable.size and stop < _BATCH:
        if usable[f]:
            missing_z = np.int64(0)
            missing_wh = np.int64(0)
            if has_missing[f]:
                missing_z, missing_wh = _missing_sums(
                    hist, first_cell[f], n_cells[f], n_bins[f], default_bin[f], node_z, node_wh
                )
            present_z, present_wh = node_z - missing_z, node_wh - missing_wh
            start = stop
            if order.is_sorted[f]:
                put_in_order(order, f, hist, first_cell[f], n_bins[f])
                stop = _sum_up(order.cells, np.int64(0), np.int64(n_bins[f]), left_z, left_wh, start)[2]
            else:
                stop = _sum_from_left(
                    hist, first_cell[f], n_bins[f], default_bin[f], present_z, present_wh, left_z, left_wh, start
                )
            if stop == start:  # all are missing here
                usable[f] = False
                f += 1
                continue
            if missing_wh != 0:
                _add_missing(left_z, left_wh, start, stop, missing_z, missing_wh)
                stretch_feature[n_stretches] = f
                stretch_stop[n_stretches] = stop
                stretch_missing_left[n_stretches] = True
                n_stretches += 1
                stop += stop - start
            stretch_feature[n_stretches] = f
            stretch_stop[n_stretches] = stop
            stretch_missing_left[n_stretches] = False
            n_stretches += 1
        f += 1
    return f, n_stretches


@part_of_kernel
def _score_thresholds(left_z, left_wh, scores, node_z, node_wh, rules, reg_lambda, min_hessian):
    """Sum of both children's scores for every threshold, or _NOT_ALLOWED; LLVM vectorises this loop."""
    z_sum = to_float(node_z)
    below = _denominator(node_wh, rules)
    for t in range(scores.size):
        wh = left_wh[t]
        right_wh = node_wh - wh
        left_sum = to_float(left_z[t])
        right_sum = z_sum - left_sum
        left_below = _denominator(wh, rules)
        right_below = below - left_below + reg_lambda
        left_below += reg_lambda
        # a / c + b / d with one division; a child without a denominator counts nothing.
        left_square = left_sum * left_sum if left_below > 0.0 else 0.0
        right_square = right_sum * right_sum if right_below > 0.0 else 0.0
        left_below = left_below if left_below > 0.0 else 1.0
        right_below = right_below if right_below > 0.0 else 1.0
        score = (left_square * right_below + right_square * left_below) / (left_below * right_below)
        allowed = (
            (wh >= rules.min_wh)
            & (right_wh >= rules.min_wh)
            & ((wh & rules.hessian_mask) >= min_hessian)
            & ((right_wh & rules.hessian_mask) >= min_hessian)
        )
        scores[t] = score if allowed else _NOT_ALLOWED


@part_of_kernel
def _largest(score_bits, start, stop):
    """The largest score. As integers: numbers that are not negative have the same order, and LLVM vectorises it."""
    largest = np.float64(_NOT_ALLOWED).view(np.int64)
    for t in range(np.uint64(start), np.uint64(stop)):
        largest = max(largest, score_bits[t])
    return np.int64(largest).view(np.float64)


@part_of_kernel
def _last_record(scores, start, stop, floor):
    """The best threshold, the first one of those equal but for rounding."""
    best = -1
    for t in range(start, stop):
        if scores[t] > floor:
            floor = scores[t] * (1.0 + TIE)
            best = t
    return best


@part_of_kernel
def _bin_of(hist, first_cell, n_bins, default_bin, present_left_wh, present_wh):
    """The first bin up to which the sums are those of the left child."""
    wh = np.int64(0)
    cell = first_cell
    for b in range(n_bins - 1):
        if b == default_bin:
            wh = present_wh - _sum_cells(hist, cell, first_cell + n_bins - 1)[1]
        else:
            wh += hist[cell, 1]
            cell += 1
        if wh == present_left_wh:
            return b
    return n_bins - 1


@kernel
def find_best_split(features, hist, node_z, node_wh, usable, rules, z_unit, h_unit, thresholds, order):
    """Search all features for the best split of a node.

    Parameters
    ----------
    features : FeatureCells
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
    order : CategoryOrder
        Of the features that it sorts, `bin` of the split is a place in their order.

    Returns
    -------
    Split
    """
    # Scores are computed in units of the sums; a tree without hessians has no unit of them.
    h_unit = h_unit if h_unit > 0.0 else 1.0
    below_unit = h_unit if rules.second_order else rules.weight_per_unit
    reg_lambda = min(rules.reg_lambda / below_unit, MOST_LAMBDA)
    min_hessian = (
        np.int64(min(np.ceil(rules.min_hessian / h_unit), rules.hessian_mask)) if rules.min_hessian > 0.0 else 0
    )
    node_score = _score(to_float(node_z), _denominator(node_wh, rules) + reg_lambda)
    floor = node_score * (1.0 + SMALLEST_RELATIVE_GAIN)
    left_z, left_wh, scores, stretch_feature, stretch_stop, stretch_missing_left = thresholds
    score_bits = scores.view(np.int64)
    best_score, best_feature, best_z, best_wh = node_score, -1, 0, 0
    with_missing = no_missing = False
    next_feature = np.int64(0)
    while next_feature < usable.size:
        next_feature, n_stretches = _lay_out(features, next_feature, hist, node_z, node_wh, usable, thresholds, order)
        stop = stretch_stop[n_stretches - 1] if n_stretches > 0 else 0
        _score_thresholds(left_z[:stop], left_wh[:stop], scores[:stop], node_z, node_wh, rules, reg_lambda, min_hessian)
        start = np.int64(0)
        allowed = False
        for s in range(n_stretches):
            f = stretch_feature[s]
            stop = stretch_stop[s]
            largest = _largest(score_bits, start, stop)
            allowed = allowed or largest >= 0.0
            if largest > floor:
                t = _last_record(scores, start, stop, floor)
                floor = scores[t] * (1.0 + TIE)
                best_score, best_feature, best_z, best_wh = scores[t], f, left_z[t], left_wh[t]
                with_missing = stretch_missing_left[s]
                no_missing = not with_missing and (s == 0 or stretch_feature[s - 1] != f)
            if not stretch_missing_left[s]:  # the last stretch of the feature
                usable[f] = allowed
                allowed = False
            start = stop
    gain = (best_score - node_score) * (z_unit * z_unit / below_unit)
    if best_feature < 0 or gain < rules.min_gain:
        return Split(0.0, -1, -1, False, 0, 0)
    f = best_feature
    missing_wh = np.int64(0)
    if not no_missing:
        missing_wh = _missing_sums(
            hist,
            features.first_cell[f],
            features.n_cells[f],
            features.n_bins[f],
            features.default_bin[f],
            node_z,
            node_wh,
        )[1]
    present_left_wh = best_wh - missing_wh if with_missing else best_wh
    first_cell, n_bins, default_bin = features.first_cell[f], features.n_bins[f], features.default_bin[f]
    if order.is_sorted[f]:
        put_in_order(order, f, hist, first_cell, n_bins)
        best_bin = _bin_of(order.cells, np.int64(0), n_bins, default_bin, present_left_wh, node_wh - missing_wh)
    else:
        best_bin = _bin_of(hist, first_cell, n_bins, default_bin, present_left_wh, node_wh - missing_wh)
    if no_missing:  # a missing value that turns up later goes with the heavier child
        with_missing = best_wh >> rules.hessian_bits >= (node_wh - best_wh) >> rules.hessian_bits
    return Split(gain, best_feature, best_bin, with_missing, best_z, best_wh)
