"""Split search: the best threshold of a node by the first-order or the second-order gain."""

from __future__ import annotations

from typing import NamedTuple

from abc_plugins.core.jit import kernel

_SMALLEST_RELATIVE_GAIN = 1e-9
"""A gain below this share of the node's own score is rounding noise."""


class SplitRules(NamedTuple):
    """What a split must satisfy and how it is valued.

    Attributes
    ----------
    second_order : bool
        Divide by the hessians (robust LogitBoost); otherwise by the weights (MART).
    reg_lambda : float
        Added to every denominator.
    min_units : int
        Smallest weight of a child, in weight units.
    min_hessian : float
        Smallest sum of hessians of a child.
    hessian_bits : int
        Layout of a cell, see `fixedpoint`.
    weight_per_unit : float
    """

    second_order: bool
    reg_lambda: float
    min_units: int
    min_hessian: float
    hessian_bits: int
    weight_per_unit: float


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
def _score(z, wh, rules, z_unit, h_unit):  # type: ignore[no-untyped-def]
    """z**2 / denominator of a node."""
    if rules.second_order:
        hessian_mask = (1 << rules.hessian_bits) - 1
        denominator = (wh & hessian_mask) * h_unit + rules.reg_lambda
    else:
        denominator = (wh >> rules.hessian_bits) * rules.weight_per_unit + rules.reg_lambda
    z_sum = z * z_unit
    return z_sum * z_sum / denominator if denominator > 0.0 else 0.0


@kernel
def _is_allowed(wh, rules, h_unit):  # type: ignore[no-untyped-def]
    """Whether a child with these sums is large enough."""
    hessian_mask = (1 << rules.hessian_bits) - 1
    return (wh >> rules.hessian_bits) >= rules.min_units and (wh & hessian_mask) * h_unit >= rules.min_hessian


@kernel
def _best_of_feature(  # type: ignore[no-untyped-def]
    hist, n_bins, missing_z, missing_wh, node_z, node_wh, rules, z_unit, h_unit, floor
):
    """Best threshold of one feature whose score exceeds `floor`: (score, bin, missing_left, left_z, left_wh).

    `hist` holds the feature's bins of present values. The bin is -1 if no threshold is allowed at all, -2 if some
    are but none exceeds the floor.
    """
    best_score = floor
    best_bin = -1
    best_missing_left = False
    best_z = 0
    best_wh = 0
    any_missing = missing_wh != 0
    z = 0
    wh = 0
    # With missing values, "all present values left, missing right" is a split as well.
    last = n_bins if any_missing else n_bins - 1
    for b in range(last):
        if hist[b, 1] == 0:
            continue  # no sample here: the same split as at the bin before
        z += hist[b, 0]
        wh += hist[b, 1]
        for missing_left in (True, False):
            if missing_left:
                if not any_missing:
                    continue
                left_z = z + missing_z
                left_wh = wh + missing_wh
            else:
                left_z = z
                left_wh = wh
            if not _is_allowed(left_wh, rules, h_unit) or not _is_allowed(node_wh - left_wh, rules, h_unit):
                continue
            score = _score(left_z, left_wh, rules, z_unit, h_unit) + _score(
                node_z - left_z, node_wh - left_wh, rules, z_unit, h_unit
            )
            if best_bin == -1:
                best_bin = -2
            if score > best_score:
                best_score = score
                best_bin = b
                best_missing_left = missing_left
                best_z = left_z
                best_wh = left_wh
    return best_score, best_bin, best_missing_left, best_z, best_wh


@kernel
def find_best_split(columns, hist, node_z, node_wh, usable, rules, z_unit, h_unit):  # type: ignore[no-untyped-def]
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

    Returns
    -------
    Split
    """
    node_score = _score(node_z, node_wh, rules, z_unit, h_unit)
    best_score = node_score * (1.0 + _SMALLEST_RELATIVE_GAIN)
    best_feature = -1
    best_bin = -1
    best_missing_left = False
    best_z = 0
    best_wh = 0
    for f in range(columns.feature.size):
        if not usable[f]:
            continue
        first = columns.column_start[columns.feature_column[f]]
        n_bins = columns.n_bins[f]
        missing_z = 0
        missing_wh = 0
        if columns.has_missing[f]:
            missing_z = hist[first + n_bins, 0]
            missing_wh = hist[first + n_bins, 1]
        score, b, missing_left, left_z, left_wh = _best_of_feature(
            hist[first : first + n_bins],
            n_bins,
            missing_z,
            missing_wh,
            node_z,
            node_wh,
            rules,
            z_unit,
            h_unit,
            best_score,
        )
        if b == -1:
            usable[f] = False
        if b >= 0:
            best_score = score
            best_feature = f
            best_bin = b
            best_missing_left = missing_left if missing_wh != 0 else 2 * (left_wh >> rules.hessian_bits) >= (
                node_wh >> rules.hessian_bits
            )
            best_z = left_z
            best_wh = left_wh
    gain = best_score - node_score if best_feature >= 0 else 0.0
    return Split(gain, best_feature, best_bin, best_missing_left, best_z, best_wh)
