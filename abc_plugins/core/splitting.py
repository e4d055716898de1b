"""Split search: the best threshold of a node by the first-order or the second-order gain."""

from __future__ import annotations

from typing import NamedTuple

from abc_plugins.core.columns import STORED
from abc_plugins.core.jit import kernel

NONE_ALLOWED = -1
"""In place of a bin: the node is too small for any split on this feature."""

NONE_BETTER = -2
"""In place of a bin: no split on this feature beats the best one so far."""

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
def _default_sums(hist, first, n_cells, node_z, node_wh):  # type: ignore[no-untyped-def]
    """Sums of a feature's default bin: those of the node minus those of all its cells."""
    z = node_z
    wh = node_wh
    for cell in range(first, first + n_cells):
        z -= hist[cell, 0]
        wh -= hist[cell, 1]
    return z, wh


@kernel
def _best_of_feature(columns, f, hist, node_z, node_wh, rules, z_unit, h_unit, floor):  # type: ignore[no-untyped-def]
    """Best threshold of one feature whose score exceeds `floor`: (score, bin, missing_left, left_z, left_wh).

    The bin is NONE_ALLOWED if no threshold is, NONE_BETTER if some are but none exceeds the floor.
    """
    best_score = floor
    best_bin = NONE_ALLOWED
    best_missing_left = False
    best_z = 0
    best_wh = 0
    cell = columns.first_cell[f]
    n_bins = columns.n_bins[f]
    default_bin = columns.default_bin[f]
    default_z = 0
    default_wh = 0
    if default_bin != STORED:
        default_z, default_wh = _default_sums(hist, cell, columns.n_cells[f], node_z, node_wh)
        if not _is_allowed(node_wh - default_wh, rules, h_unit):
            # One side of every split lies within the other bins, and even all of them are too little.
            return best_score, best_bin, best_missing_left, best_z, best_wh
    missing_z = 0
    missing_wh = 0
    if columns.has_missing[f]:
        if default_bin == n_bins:
            missing_z = default_z
            missing_wh = default_wh
        else:
            last_cell = cell + columns.n_cells[f] - 1
            missing_z = hist[last_cell, 0]
            missing_wh = hist[last_cell, 1]
    any_missing = missing_wh != 0
    bits = rules.hessian_bits
    z = 0
    wh = 0
    # With missing values, "all present values left, missing right" is a split as well.
    for b in range(n_bins if any_missing else n_bins - 1):
        if b == default_bin:
            bin_z = default_z
            bin_wh = default_wh
        else:
            bin_z = hist[cell, 0]
            bin_wh = hist[cell, 1]
            cell += 1
        if bin_wh == 0:
            continue  # no sample here: the same split as at the bin before
        z += bin_z
        wh += bin_wh
        if not _is_allowed(node_wh - wh, rules, h_unit):
            break  # nor will it be further right, where even less is left
        for missing_left in (True, False):
            if missing_left and not any_missing:
                continue
            left_z = z + missing_z if missing_left else z
            left_wh = wh + missing_wh if missing_left else wh
            if not _is_allowed(left_wh, rules, h_unit) or not _is_allowed(node_wh - left_wh, rules, h_unit):
                continue
            if best_bin == NONE_ALLOWED:
                best_bin = NONE_BETTER
            score = _score(left_z, left_wh, rules, z_unit, h_unit) + _score(
                node_z - left_z, node_wh - left_wh, rules, z_unit, h_unit
            )
            if score > best_score:
                best_score = score
                best_bin = b
                # A missing value that turns up later goes with the heavier child.
                best_missing_left = missing_left if any_missing else left_wh >> bits >= (node_wh - left_wh) >> bits
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
        score, b, missing_left, left_z, left_wh = _best_of_feature(
            columns, f, hist, node_z, node_wh, rules, z_unit, h_unit, best_score
        )
        if b == NONE_ALLOWED:
            usable[f] = False
        if b >= 0:
            best_score = score
            best_feature = f
            best_bin = b
            best_missing_left = missing_left
            best_z = left_z
            best_wh = left_wh
    gain = best_score - node_score if best_feature >= 0 else 0.0
    return Split(gain, best_feature, best_bin, best_missing_left, best_z, best_wh)
