"""Level-wise growth of one symmetric tree: all leaves of a level are split by the same feature and threshold.

The tree of depth d is a table of 2**d leaves. Its nodes are numbered level by level: node i has the children 2 i + 1 and
2 i + 2. A leaf without samples, or one that a split would leave with too small a child, adds nothing to the gain of that
split, but is split with all others.
"""

from __future__ import annotations

import numpy as np

from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.trees.best_first import partition, set_leaf, sum_cells, write_leaf_ids
from abc_plugins.core.trees.categories import places_of, put_in_order, sort_categories
from abc_plugins.core.trees.columns import STORED
from abc_plugins.core.trees.fixedpoint import scale_derivatives, to_float
from abc_plugins.core.trees.histogram import build_histogram, subtract_histogram
from abc_plugins.core.trees.splitting import MOST_LAMBDA, SMALLEST_RELATIVE_GAIN, TIE

_NONE = -1
"""In place of a histogram: the node has no samples."""


@kernel
def grow_symmetric_trees(columns, units, n_rows, rules, work, trees, depth, first, last):
    """Grow some trees along directions from the first `n_rows` samples of `work.rows`.

    Parameters
    ----------
    columns : Columns
    units : array of int64, shape (n_samples,)
    n_rows : int
        If it is the number of all samples, `work.rows` is filled in.
    rules : SplitRules
    work : WorkSpace
        With 2**(depth - 1) histograms.
    trees : RoundTrees
        Those from `first` to `last` - 1 are filled in.
    depth : int
        Most levels of splits.
    first, last : int
    """
    for t in range(first, last):
        scale_derivatives(trees.z[t], trees.h[t], units, rules.hessian_bits, work.cell_units, work.cells)
        if n_rows == units.size:
            for j in range(n_rows):
                work.rows[j] = j
        trees.n_nodes[t] = _grow_tree(
            columns, n_rows, trees.usable[t], trees.sorts[t], depth, rules, work, trees.nodes[t], trees.leaf_ids[t]
        )
        for place in range(trees.places.shape[1]):
            trees.places[t, place] = work.order.place_of[place]


@part_of_kernel
def _grow_tree(columns, n_rows, usable, sorts, depth, rules, work, nodes, leaf_ids):
    z, wh = sum_cells(work.cells, work.rows[:n_rows])
    set_leaf(nodes, np.int64(0), np.int64(0), n_rows, z, wh, rules)
    nodes[0].histogram = 0
    if depth > 0:
        hist = work.histograms[0]
        build_histogram(columns, work.rows[:n_rows], work.cells, work.joint_sums, hist)
        sort_categories(work.order, sorts, columns.first_cell, columns.n_bins, hist, rules, work.cell_units[1])
    n_histograms = 1
    first = 0
    for level in range(depth):
        stop = 2 * first + 1
        feature, bin_, missing_left = _find_level_split(columns, nodes, first, stop, usable, rules, work)
        if feature < 0:
            break
        for i in range(first, stop):
            _split_node(columns, nodes, i, feature, bin_, missing_left, rules, work)
            if level + 1 < depth:
                n_histograms = _make_histograms(columns, nodes, i, n_histograms, usable, work)
        first = stop
    n_nodes = 2 * first + 1
    write_leaf_ids(nodes, n_nodes, work.rows, np.int64(0), n_rows, leaf_ids)
    return n_nodes


@kernel
def _find_level_split(columns, nodes, first, stop, usable, rules, work):
    """Find the split with the largest gain over all nodes first..stop - 1 together; feature -1 if there is none."""
    first_cell, n_cells, n_bins = columns.first_cell, columns.n_cells, columns.n_bins
    has_missing, default_bin = columns.has_missing, columns.default_bin
    left_z, left_wh = work.thresholds.left_z, work.thresholds.left_wh
    gains = work.level_gains
    h_unit = work.cell_units[1] if work.cell_units[1] > 0.0 else 1.0
    reg_lambda = min(rules.reg_lambda / h_unit, MOST_LAMBDA)
    min_hessian = np.int64(min(np.ceil(rules.min_hessian / h_unit), rules.hessian_mask))
    # A child without samples gains nothing, so that it needs no rule.
    is_unrestricted = reg_lambda > 0.0 and min_hessian <= 0 and rules.min_wh <= 1 << rules.hessian_bits
    floor = 0.0
    for i in range(first, stop):
        floor += _score(nodes[i].z, nodes[i].wh, rules, reg_lambda)
    floor *= SMALLEST_RELATIVE_GAIN
    best_feature, best_bin, best_missing_left = -1, np.int64(0), False
    for f in range(usable.size):
        if not usable[f]:
            continue
        # Thresholds with missing values on the right, and behind them those with missing values on the left.
        n = np.int64(n_bins[f])
        n_gains = 2 * n if has_missing[f] else n - 1
        for b in range(n_gains):
            gains[b] = 0.0
        for i in range(first, stop):
            node_z, node_wh, histogram = nodes[i].z, nodes[i].wh, nodes[i].histogram
            if histogram == _NONE or node_wh - rules.min_wh < rules.min_wh:
                continue
            hist = work.histograms[histogram]
            cell = np.int64(first_cell[f])
            if work.order.is_sorted[f]:
                put_in_order(work.order, f, hist, cell, n)
                hist = work.order.cells
                cell = np.int64(0)
            missing_z, missing_wh = _sum_from_left(
                hist, cell, n_cells[f], n, default_bin[f], node_z, node_wh, left_z, left_wh
            )
            if has_missing[f]:
                for b in range(n):
                    left_z[n + b] = left_z[b] + missing_z
                    left_wh[n + b] = left_wh[b] + missing_wh
            if is_unrestricted:
                _add_free_gains(left_z[:n_gains], left_wh[:n_gains], node_z, node_wh, rules, reg_lambda, gains[:n_gains])
            else:
                _add_gains(
                    left_z[:n_gains], left_wh[:n_gains], node_z, node_wh, rules, reg_lambda, min_hessian,
                    gains[:n_gains],
                )  # fmt: skip
        for b in range(n_gains):
            if gains[b] > floor:
                floor = gains[b] * (1.0 + TIE)
                best_feature, best_bin, best_missing_left = f, b, False
                if b >= n:
                    best_bin, best_missing_left = b - n, True
    return best_feature, best_bin, best_missing_left


@part_of_kernel
def _score(z, wh, rules, reg_lambda):
    """z**2 / (h + lambda) of a node, in units of the sums."""
    below = to_float(wh & rules.hessian_mask) + reg_lambda
    return to_float(z) * to_float(z) / below if below > 0.0 else 0.0


@part_of_kernel
def _sum_from_left(hist, first_cell, n_cells, n_bins, default_bin, node_z, node_wh, left_z, left_wh):
    """Write the sums up to every bin of present values; return those of missing values."""
    z = np.int64(0)
    wh = np.int64(0)
    if default_bin == STORED:
        for b in range(n_bins):
            z += hist[first_cell + b, 0]
            wh += hist[first_cell + b, 1]
            left_z[b] = z
            left_wh[b] = wh
        return node_z - z, node_wh - wh
    # The default bin has no cell: it has what the cells leave of the node.
    default_z = node_z
    default_wh = node_wh
    for cell in range(first_cell, first_cell + n_cells):
        default_z -= hist[cell, 0]
        default_wh -= hist[cell, 1]
    cell = np.int64(first_cell)
    for b in range(n_bins):
        if b == default_bin:
            z += default_z
            wh += default_wh
        else:
            z += hist[cell, 0]
            wh += hist[cell, 1]
            cell += 1
        left_z[b] = z
        left_wh[b] = wh
    return node_z - z, node_wh - wh


@part_of_kernel
def _add_gains(left_z, left_wh, node_z, node_wh, rules, reg_lambda, min_hessian, gains):
    """Add what every threshold gains in one node; LLVM vectorises this loop."""
    z_sum = to_float(node_z)
    below = to_float(node_wh & rules.hessian_mask)
    node_score = _score(node_z, node_wh, rules, reg_lambda)
    for b in range(gains.size):
        wh = left_wh[b]
        right_wh = node_wh - wh
        left_sum = to_float(left_z[b])
        right_sum = z_sum - left_sum
        left_below = to_float(wh & rules.hessian_mask)
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
        gains[b] += score - node_score if allowed else 0.0


@part_of_kernel
def _add_free_gains(left_z, left_wh, node_z, node_wh, rules, reg_lambda, gains):
    """Add what every threshold gains in one node, where every split is allowed and no denominator can vanish."""
    z_sum = to_float(node_z)
    below = to_float(node_wh & rules.hessian_mask) + 2.0 * reg_lambda
    node_score = _score(node_z, node_wh, rules, reg_lambda)
    for b in range(gains.size):
        left_sum = to_float(left_z[b])
        right_sum = z_sum - left_sum
        left_below = to_float(left_wh[b] & rules.hessian_mask) + reg_lambda
        right_below = below - left_below
        score = (left_sum * left_sum * right_below + right_sum * right_sum * left_below) / (left_below * right_below)
        gains[b] += score - node_score


@part_of_kernel
def _split_node(columns, nodes, i, feature, bin_, missing_left, rules, work):
    """Split node `i` into its two children."""
    node = nodes[i]
    start, stop = node.start, node.stop
    n_left = np.int64(0)
    if stop > start:
        n_left = partition(
            columns.codes[feature],
            bin_,
            columns.has_missing[feature] and missing_left,
            columns.n_bins[feature],
            places_of(work.order, feature, columns.n_bins[feature]),
            work.rows[start:stop],
            work.rows_aside,
        )
    middle = start + n_left
    z, wh = sum_cells(work.cells, work.rows[start:middle])
    left = 2 * i + 1
    set_leaf(nodes, left, start, middle, z, wh, rules)
    set_leaf(nodes, left + 1, middle, stop, node.z - z, node.wh - wh, rules)
    h_unit = work.cell_units[1] if work.cell_units[1] > 0.0 else 1.0
    reg_lambda = min(rules.reg_lambda / h_unit, MOST_LAMBDA)
    gain = (
        _score(z, wh, rules, reg_lambda)
        + _score(node.z - z, node.wh - wh, rules, reg_lambda)
        - _score(node.z, node.wh, rules, reg_lambda)
    )
    node.gain = max(gain, 0.0) * (work.cell_units[0] * work.cell_units[0] / h_unit)
    node.feature = feature
    node.bin = bin_
    node.missing_left = missing_left
    node.left = left
    node.right = left + 1


@part_of_kernel
def _make_histograms(columns, nodes, i, n_histograms, usable, work):
    """Histograms of the children of node `i`; the number of histograms in use.

    The smaller child is summed, the larger one takes the place of its parent.
    """
    node = nodes[i]
    left = nodes[2 * i + 1]
    right = nodes[2 * i + 2]
    left.histogram = _NONE
    right.histogram = _NONE
    if node.stop > node.start:
        is_left_smaller = 2 * (left.stop - left.start) <= node.stop - node.start
        smaller = left if is_left_smaller else right
        larger = right if is_left_smaller else left
        larger.histogram = node.histogram
        if smaller.stop > smaller.start:
            smaller.histogram = n_histograms
            n_histograms += 1
            hist = work.histograms[smaller.histogram]
            build_histogram(columns, work.rows[smaller.start : smaller.stop], work.cells, work.joint_sums, hist)
            larger_hist = work.histograms[larger.histogram]
            subtract_histogram(larger_hist, hist, columns.first_cell, columns.n_cells, usable)
    return n_histograms
