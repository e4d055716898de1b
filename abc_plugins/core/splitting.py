"""Split search: the best threshold of a node by the first-order or the second-order gain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.arrays import AnyArray, Booleans, Floats
from abc_plugins.core.fixedpoint import to_float
from abc_plugins.core.jit import kernel

SMALLEST_RELATIVE_GAIN = 1e-9
"""A gain below this share of the node's own score is rounding noise."""

_TIE = 1e-11
"""Scores that differ by less than this share are equal but for rounding: the first one wins."""

_NOT_ALLOWED = -1.0
"""Score of a threshold that leaves a child too small."""

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
    trim : float
        See `trimming`.
    hessian_bits, hessian_mask : int
        Layout of a cell, see `fixedpoint`.
    weight_per_unit : float
    """

    second_order: bool
    reg_lambda: float
    min_wh: int
    min_hessian: float
    trim: float
    hessian_bits: int
    hessian_mask: int
    weight_per_unit: float


class Thresholds(NamedTuple):
    """Work space: the thresholds of some features, one stretch after the other.

    A feature has one stretch; if there are missing values, one with them on the left and one with them on the right.

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
    size = _BATCH + 2 * n_bins
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
def _sum_from_left(hist, first_cell, n_bins, default_bin, present_z, present_wh, left_z, left_wh, start):
    """Fill in what lies left of every threshold of a feature, missing values apart.

    Sums run from the left up to the default bin and from the right down to it, so that its own sum is never needed.
    """
    has_default = 0 <= default_bin < n_bins
    z = 0
    wh = 0
    for b in range(default_bin if has_default else n_bins):
        z += hist[first_cell + b, 0]
        wh += hist[first_cell + b, 1]
        left_z[start + b] = z
        left_wh[start + b] = wh
    if has_default:
        z = present_z
        wh = present_wh
        for b in range(n_bins - 1, default_bin, -1):
            left_z[start + b] = z
            left_wh[start + b] = wh
            # The default bin has no cell: those above it have moved down by one.
            z -= hist[first_cell + b - 1, 0]
            wh -= hist[first_cell + b - 1, 1]
        left_z[start + default_bin] = z
        left_wh[start + default_bin] = wh


@kernel
def _missing_sums(hist, first_cell, n_cells, n_bins, default_bin, node_z, node_wh):
    """Sums of a feature's missing values: the last cell, or what all cells leave of the node."""
    behind = first_cell + n_cells
    if default_bin != n_bins:
        return hist[behind - 1, 0], hist[behind - 1, 1]
    z = node_z
    wh = node_wh
    for cell in range(first_cell, behind):
        z -= hist[cell, 0]
        wh -= hist[cell, 1]
    return z, wh


@kernel
def _add_missing(left_z, left_wh, start, stop, missing_z, missing_wh):
    """Repeat the thresholds start..stop behind themselves, and put missing values on the left in the first copy.

    Nothing is on the left where no present value is: that is no split of the present values.
    """
    for b in range(start, stop):
        behind = b + stop - start
        left_z[behind] = left_z[b]
        left_wh[behind] = left_wh[b]
        if left_wh[b] != 0:
            left_z[b] += missing_z
            left_wh[b] += missing_wh


@kernel
def _lay_out(columns, f, hist, node_z, node_wh, usable, thresholds):
    """Fill in the thresholds of features from `f` on, as many as fit.

    Returns
    -------
    f, n_stretches : int
        The first feature that is not among them.
    """
    # Arrays are taken out of their tuples, and handed on whole with an offset: taking one out or a slice of it
    # counts references, which costs more than all the rest for a feature of few bins.
    left_z, left_wh, _, stretch_feature, stretch_stop, stretch_missing_left = thresholds
    n_bins, default_bin, has_missing = columns.n_bins, columns.default_bin, columns.has_missing
    first_cell, n_cells = columns.first_cell, columns.n_cells
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
            stop += n_bins[f]
            _sum_from_left(
                hist, first_cell[f], n_bins[f], default_bin[f], present_z, present_wh, left_z, left_wh, start
            )
            if missing_wh != 0:
                _add_missing(left_z, left_wh, start, stop, missing_z, missing_wh)
                stretch_feature[n_stretches] = f
                stretch_stop[n_stretches] = stop
                stretch_missing_left[n_stretches] = True
                n_stretches += 1
                stop += n_bins[f]
            stretch_feature[n_stretches] = f
            stretch_stop[n_stretches] = stop
            stretch_missing_left[n_stretches] = False
            n_stretches += 1
        f += 1
    return f, n_stretches


@kernel
def _score_thresholds(left_z, left_wh, scores, node_z, node_wh, rules, z_unit, h_unit):
    """Sum of both children's scores for every threshold, or _NOT_ALLOWED; LLVM vectorises this loop."""
    node_z_sum = to_float(node_z) * z_unit
    node_below = _denominator(node_wh, rules, h_unit)
    # As a sum of a cell; out of reach if there are no hessians at all.
    min_hessian = (
        np.int64(min(np.ceil(rules.min_hessian / h_unit), rules.hessian_mask)) if rules.min_hessian > 0.0 else 0
    )
    for b in range(scores.size):
        wh = left_wh[b]
        right_wh = node_wh - wh
        z_sum = to_float(left_z[b]) * z_unit
        below = _denominator(wh, rules, h_unit)
        score = _score(z_sum, below + rules.reg_lambda) + _score(
            node_z_sum - z_sum, node_below - below + rules.reg_lambda
        )
        allowed = (
            (wh >= rules.min_wh)
            & (right_wh >= rules.min_wh)
            & ((wh & rules.hessian_mask) >= min_hessian)
            & ((right_wh & rules.hessian_mask) >= min_hessian)
        )
        scores[b] = score if allowed else _NOT_ALLOWED


@kernel
def _largest(score_bits, start, stop):
    """The largest score. As integers: numbers that are not negative have the same order, and LLVM vectorises it."""
    largest = score_bits[start]
    for b in range(start + 1, stop):
        largest = max(largest, score_bits[b])
    return np.int64(largest).view(np.float64)


@kernel
def _last_record(scores, start, stop, floor):
    """The best threshold, the first one of those equal but for rounding."""
    best = -1
    for b in range(start, stop):
        if scores[b] > floor:
            floor = scores[b] * (1.0 + _TIE)
            best = b
    return best


@kernel
def find_best_split(columns, hist, node_z, node_wh, usable, rules, z_unit, h_unit, thresholds):
    """Search all features for the best split of a node.

    A bin without samples has the score of the one before, which wins the tie.

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
    best = Split(0.0, -1, -1, False, 0, 0)
    left_z, left_wh, scores, stretch_feature, stretch_stop, stretch_missing_left = thresholds
    score_bits = scores.view(np.int64)
    next_feature = np.int64(0)
    while next_feature < usable.size:
        next_feature, n_stretches = _lay_out(columns, next_feature, hist, node_z, node_wh, usable, thresholds)
        stop = stretch_stop[n_stretches - 1] if n_stretches > 0 else 0
        _score_thresholds(left_z[:stop], left_wh[:stop], scores[:stop], node_z, node_wh, rules, z_unit, h_unit)
        start = np.int64(0)
        allowed = False
        for s in range(n_stretches):
            f = stretch_feature[s]
            stop = stretch_stop[s]
            largest = _largest(score_bits, start, stop)
            allowed = allowed or largest >= 0.0
            if largest > floor:
                b = _last_record(scores, start, stop, floor)
                floor = scores[b] * (1.0 + _TIE)
                missing_left = stretch_missing_left[s]
                if not missing_left and (s == 0 or stretch_feature[s - 1] != f):
                    # Nothing is missing here: a missing value that turns up later goes with the heavier child.
                    missing_left = left_wh[b] >> rules.hessian_bits >= (node_wh - left_wh[b]) >> rules.hessian_bits
                best = Split(scores[b] - node_score, f, b - start, missing_left, left_z[b], left_wh[b])
            if not stretch_missing_left[s]:  # the last stretch of the feature
                usable[f] = allowed
                allowed = False
            start = stop
    return best
