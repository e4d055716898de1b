"""Level-wise growth of one symmetric tree: all leaves of a level are split by the same feature and threshold.

The tree of depth d is a table of 2**d leaves. Its nodes are numbered level by level: node i has the children 2 i + 1
and 2 i + 2. A leaf without samples, or one that a split would leave with too small a child, adds nothing to the gain
of that split, but is split with all others.
"""

from __future__ import annotations

import numpy as np

from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.trees.best_first import partition, set_leaf, sum_cells
from abc_plugins.core.trees.categories import places_of, sort_categories
from abc_plugins.core.trees.columns import STORED
from abc_plugins.core.trees.fixedpoint import scale_derivatives, to_float
from abc_plugins.core.trees.histogram import build_histogram, subtract_histogram
from abc_plugins.core.trees.sparse.lists import codes_of
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
        Most levels of splits, at least 1.
    first, last : int
    """
    for t in range(first, last):
        scale_derivatives(trees.z[t], trees.h[t], units, rules.hessian_bits, work.cell_units, work.cells)
        if n_rows == units.size:
            for j in range(n_rows):
                work.rows[j] = j
        trees.n_nodes[t] = _grow_tree(
            columns,
            units,
            n_rows,
            trees.usable[t],
            trees.sorts[t],
            depth,
            rules,
            work,
            trees.nodes[t],
            trees.leaf_ids[t],
        )
        for place in range(trees.places.shape[1]):
            trees.places[t, place] = work.order.place_of[place]


@part_of_kernel
def _grow_tree(columns, units, n_rows, usable, sorts, depth, rules, work, nodes, leaf_ids):
    z, wh = sum_cells(work.cells, work.rows[:n_rows])
    set_leaf(nodes, np.int64(0), np.int64(0), n_rows, z, wh, rules)
    nodes[0].histogram = 0
    hist = work.histograms[0]
    build_histogram(columns, work.rows[:n_rows], work.cells, work.joint_sums, hist)
    sort_categories(work.order, sorts, columns.first_cell, columns.n_bins, hist, rules, work.cell_units[1])
    n_histograms = 1
    n_levels = 0
    for level in range(depth):
        first = 2**level - 1
        feature, bin_, missing_left = _find_level_split(columns, nodes, first, 2 * first + 1, usable, rules, work)
        if feature < 0:
            break
        n_levels += 1
        for i in range(first, 2 * first + 1):
            _split_node(columns, nodes, i, feature, bin_, missing_left, rules, work)
            if n_levels < depth:  # the leaves of the last level need no samples
                _part_samples(columns, nodes, i, work)
                n_histograms = _make_histograms(columns, nodes, i, n_histograms, usable, work)
    _look_up_leaves(columns, nodes, n_levels, work.order, work.spare, leaf_ids)
    n_nodes = 2 ** (n_levels + 1) - 1
    if n_rows < units.size:
        _weigh_nodes(nodes, n_nodes, units, leaf_ids, rules)
    return n_nodes


@kernel
def _find_level_split(columns, nodes, first, stop, usable, rules, work):
    """Find the split with the largest gain over all nodes first..stop - 1 together; feature -1 if there is none."""
    # Arrays are taken out of their tuples before the loops: inside, that counts references each time.
    first_cell, n_cells, n_bins = columns.first_cell, columns.n_cells, columns.n_bins
    has_missing, default_bin = columns.has_missing, columns.default_bin
    left_z, left_wh = work.thresholds.left_z, work.thresholds.left_wh
    gains, histograms, order, is_sorted = work.level_gains, work.histograms, work.order, work.order.is_sorted
    h_unit = work.cell_units[1] if work.cell_units[1] > 0.0 else 1.0
    reg_lambda = min(rules.reg_lambda / h_unit, MOST_LAMBDA)
    min_hessian = np.int64(min(np.ceil(rules.min_hessian / h_unit), rules.hessian_mask))
    # A child without samples gains nothing, so that it needs no rule.
    is_unrestricted = reg_lambda > 0.0 and min_hessian <= 0 and rules.min_wh <= 1 << rules.hessian_bits
    floor = 0.0
    for i in range(first, stop):
        floor += _score(nodes[i].z, nodes[i].wh, rules, reg_lambda)
    floor *= SMALLEST_RELATIVE_GAIN
    best_feature, best_bin = -1, np.int64(0)
    best_missing_left = False
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
            missing_z, missing_wh = _sum_from_left(
                histograms[histogram], first_cell[f], n_cells[f], n, default_bin[f], is_sorted[f], order, f,
                node_z, node_wh, left_z, left_wh,
            )  # fmt: skip
            if has_missing[f]:
                for b in range(n):
                    left_z[n + b] = left_z[b] + missing_z
                    left_wh[n + b] = left_wh[b] + missing_wh
            if is_unrestricted:
                _add_free_gains(left_z, left_wh, n_gains, node_z, node_wh, rules, reg_lambda, gains)
            else:
                _add_gains(left_z, left_wh, n_gains, node_z, node_wh, rules, reg_lambda, min_hessian, gains)
        for b in range(n_gains):
            if gains[b] > floor:
                floor = gains[b] * (1.0 + TIE)
                best_feature, best_bin, best_missing_left = f, np.int64(b), False
                if b >= n:
                    best_bin, best_missing_left = np.int64(b - n), True
    return best_feature, best_bin, best_missing_left


@part_of_kernel
def _score(z, wh, rules, reg_lambda):
    """z**2 / (h + lambda) of a node, in units of the sums."""
    below = to_float(wh & rules.hessian_mask) + reg_lambda
    return to_float(z) * to_float(z) / below if below > 0.0 else 0.0


@kernel
def _sum_from_left(
    hist, first_cell, n_cells, n_bins, default_bin, is_sorted, order, f, node_z, node_wh, left_z, left_wh
):
    """Write the sums up to every bin of present values, in the order of the tree; return those of missing values."""
    z = np.int64(0)
    wh = np.int64(0)
    if is_sorted:
        start, bin_at = order.start[f], order.bin_at
        for place in range(n_bins):
            cell = first_cell + bin_at[start + place]
            z += hist[cell, 0]
            wh += hist[cell, 1]
            left_z[place] = z
            left_wh[place] = wh
        return node_z - z, node_wh - wh
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
def _add_gains(left_z, left_wh, n_gains, node_z, node_wh, rules, reg_lambda, min_hessian, gains):
    """Add what every threshold gains in one node; LLVM vectorises this loop."""
    z_sum = to_float(node_z)
    below = to_float(node_wh & rules.hessian_mask)
    node_score = _score(node_z, node_wh, rules, reg_lambda)
    for b in range(n_gains):
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
def _add_free_gains(left_z, left_wh, n_gains, node_z, node_wh, rules, reg_lambda, gains):
    """Add what every threshold gains in one node, where every split is allowed and no denominator can vanish."""
    z_sum = to_float(node_z)
    below = to_float(node_wh & rules.hessian_mask) + 2.0 * reg_lambda
    node_score = _score(node_z, node_wh, rules, reg_lambda)
    for b in range(n_gains):
        left_sum = to_float(left_z[b])
        right_sum = z_sum - left_sum
        left_below = to_float(left_wh[b] & rules.hessian_mask) + reg_lambda
        right_below = below - left_below
        score = (left_sum * left_sum * right_below + right_sum * right_sum * left_below) / (left_below * right_below)
        gains[b] += score - node_score


@part_of_kernel
def _split_node(columns, nodes, i, f, bin_, missing_left, rules, work):
    """Make the children of node `i`, with the sums that its histogram tells."""
    node = nodes[i]
    z = np.int64(0)
    wh = np.int64(0)
    if node.histogram != _NONE:
        left_z, left_wh = work.thresholds.left_z, work.thresholds.left_wh
        missing_z, missing_wh = _sum_from_left(
            work.histograms[node.histogram], columns.first_cell[f], columns.n_cells[f], np.int64(columns.n_bins[f]),
            columns.default_bin[f], work.order.is_sorted[f], work.order, f, node.z, node.wh, left_z, left_wh,
        )  # fmt: skip
        z = left_z[bin_] + (missing_z if missing_left else np.int64(0))
        wh = left_wh[bin_] + (missing_wh if missing_left else np.int64(0))
    left = 2 * i + 1
    set_leaf(nodes, left, node.start, node.start, z, wh, rules)
    set_leaf(nodes, left + 1, node.stop, node.stop, node.z - z, node.wh - wh, rules)
    nodes[left].histogram = _NONE
    nodes[left + 1].histogram = _NONE
    h_unit = work.cell_units[1] if work.cell_units[1] > 0.0 else 1.0
    reg_lambda = min(rules.reg_lambda / h_unit, MOST_LAMBDA)
    gain = (
        _score(z, wh, rules, reg_lambda)
        + _score(node.z - z, node.wh - wh, rules, reg_lambda)
        - _score(node.z, node.wh, rules, reg_lambda)
    )
    node.gain = max(gain, 0.0) * (work.cell_units[0] * work.cell_units[0] / h_unit)
    node.feature = f
    node.bin = bin_
    node.missing_left = missing_left
    node.left = left
    node.right = left + 1


@part_of_kernel
def _part_samples(columns, nodes, i, work):
    """Give the samples of node `i` to its children."""
    node = nodes[i]
    start, stop, f = node.start, node.stop, node.feature
    if stop > start:
        nodes[node.left].stop = nodes[node.right].start = start + partition(
            codes_of(columns, np.int64(f), work.spare),
            np.int64(node.bin),
            columns.has_missing[f] and node.missing_left,
            columns.n_bins[f],
            places_of(work.order, f, columns.n_bins[f]),
            work.rows[start:stop],
            work.rows_aside,
        )


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
    """Weight of all samples in every node, not only of those that the tree was grown from."""
    totals = np.zeros(n_nodes, dtype=np.int64)
    for i in range(leaf_ids.size):
        totals[leaf_ids[i]] += units[i]
    for node in range(n_nodes - 1, 0, -1):
        totals[(node - 1) // 2] += totals[node]
    for node in range(n_nodes):
        nodes[node].weight = totals[node] * rules.weight_per_unit


@part_of_kernel
def _make_histograms(columns, nodes, i, n_histograms, usable, work):
    """Histograms of the children of node `i`; the number of histograms in use.

    The smaller child is summed, the larger one takes the place of its parent.
    """
    node = nodes[i]
    left = nodes[2 * i + 1]
    right = nodes[2 * i + 2]
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
