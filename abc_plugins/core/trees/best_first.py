"""Best-first growth of one tree to J leaves.

`grow_trees` grows a tree from end to end, unless it has so many samples that several threads should share them: then it
comes back for every histogram of a large node (see `teamwork`).
"""

from __future__ import annotations

import numpy as np

from abc_plugins.core.bins.columns import feature_cells
from abc_plugins.core.bins.lists import codes_of
from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.trees.categories import places_of, sort_categories
from abc_plugins.core.trees.feature_choice import close_groups, draw_features, start_choice
from abc_plugins.core.trees.fixedpoint import scale_derivatives, to_fixed_point
from abc_plugins.core.trees.histogram import build_histogram, subtract_histogram
from abc_plugins.core.trees.splitting import SMALLEST_RELATIVE_GAIN, find_best_split
from abc_plugins.core.trees.workspace import DONE, SPLIT, SUM, SUMMED


@kernel
def sum_cells(cells, rows):
    """Sums of what samples add to a histogram."""
    z = np.int64(0)
    wh = np.int64(0)
    for j in range(rows.size):
        z += cells[rows[j], 0]
        wh += cells[rows[j], 1]
    return z, wh


@kernel
def start_tree(n_rows, z, wh, usable, seed, rules, work, nodes):
    """Make the root, of the first `n_rows` samples of `work.rows` with the cell sums `z` and `wh`."""
    set_leaf(nodes, np.int64(0), np.int64(0), n_rows, z, wh, rules)
    nodes[0].slot = 0
    nodes[0].depth = 0
    nodes[0].histogram = 0
    start_choice(work.choice, seed)
    root_usable = work.usable[0]
    for f in range(usable.size):
        root_usable[f] = usable[f]
    work.progress[0] = 1
    work.progress[1] = SUM
    work.progress[2] = 0


@kernel
def grow_trees(columns, samples, n_rows, rules, rows_alone, work, trees, first, last):
    """Grow some trees from the first `n_rows` samples of `work.rows`, if these are not more than `rows_alone`.

    Otherwise there is one, and the caller makes its cells and its root, and the leaf ids in the end. In between, this
    grows on until it is done or the histogram of more than `rows_alone` samples is to be summed, which is left to the
    caller, too: `work.progress` says which node, and is to say SUMMED before the next call.

    Parameters
    ----------
    columns : Columns
    samples : PairSamples
    n_rows : int
        If it is the number of all samples, `work.rows` is filled in.
    rules : SplitRules
    rows_alone : int
    work : WorkSpace
    trees : RoundTrees
        Those from `first` to `last` - 1 are filled in.
    first, last : int
    """
    for t in range(first, last):
        trees.n_nodes[t] = _grow_tree(columns, samples, n_rows, rules, rows_alone, work, trees, t)


@part_of_kernel
def _grow_tree(columns, samples, n_rows, rules, rows_alone, work, trees, t):
    """Grow tree `t`, or grow on; the number of its nodes so far."""
    nodes, sorts, places, max_leaves = trees.nodes[t], trees.sorts[t], trees.places[t], trees.max_leaves[t]
    alone = n_rows <= rows_alone
    if alone:
        if trees.z.shape[0] > 0:
            scale_derivatives(trees.z[t], trees.h[t], samples.units, rules.hessian_bits, work.cell_units, work.cells)
        else:
            to_fixed_point(samples, trees.plus[t], trees.minus[t], rules.hessian_bits, work.cell_units, work.cells)
        if n_rows == samples.labels.size:
            for j in range(n_rows):
                work.rows[j] = j
        z, wh = sum_cells(work.cells, work.rows[:n_rows])
        start_tree(n_rows, z, wh, trees.usable[t], trees.seeds[t], rules, work, nodes)
    progress = work.progress
    n_nodes = progress[0]
    step = progress[1]
    i = progress[2]
    while step != DONE:
        if step == SPLIT:
            i = np.int64(_best_leaf(nodes, n_nodes) if n_nodes < 2 * max_leaves - 1 else -1)
            if i < 0:
                step = DONE
                continue
            _split_leaf(columns, nodes, i, n_nodes, rules, work)
            n_nodes += 2
            i = np.int64(_smaller_child(nodes, i, n_nodes, max_leaves, rules, work))
            if i >= 0:
                step = SUM
        elif step == SUM:
            node = nodes[i]
            if node.stop - node.start > rows_alone:
                break
            hist = work.histograms[node.histogram]
            build_histogram(columns, work.rows[node.start : node.stop], work.cells, work.joint_sums, hist)
            step = SUMMED
        else:
            if i > 0:
                _derive_sibling(columns, nodes, i, work)
            elif sorts.size > 0:
                h_unit = work.cell_units[1]
                sort_categories(
                    work.order, sorts, columns.first_cell, columns.n_bins, work.histograms[0], rules, h_unit
                )
                for place in range(places.size):
                    places[place] = work.order.place_of[place]
            _search(columns, nodes, n_nodes - 2 if i > 0 else 0, n_nodes, rules, work)
            step = SPLIT
    progress[0] = n_nodes
    progress[1] = step
    progress[2] = i
    if alone:
        write_leaf_ids(nodes, n_nodes, work.rows, np.int64(0), n_rows, trees.leaf_ids[t])
    return n_nodes


@part_of_kernel
def set_leaf(nodes, i, start, stop, z, wh, rules):
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
def _search(columns, nodes, first, last, rules, work):
    """Find the best splits of leaves first..last whose histograms are ready."""
    for i in range(first, last):
        node = nodes[i]
        if node.wh - rules.min_wh < rules.min_wh or node.depth >= rules.max_depth:
            continue
        usable = work.usable[node.slot]
        if work.choice.share < 1.0:
            draw_features(work.choice, usable)
            usable = work.choice.drawn
        split = find_best_split(
            feature_cells(columns),
            work.histograms[node.histogram],
            node.z,
            node.wh,
            usable,
            rules,
            work.cell_units[0],
            work.cell_units[1],
            work.thresholds,
            work.order,
        )
        node.split_gain = split.gain
        node.split_feature = split.feature
        node.split_bin = split.bin
        node.split_missing_left = split.missing_left
        node.split_z = split.left_z
        node.split_wh = split.left_wh


@kernel
def partition(codes, last_left, missing_left, missing_code, places, rows, rows_aside):
    """Move the samples that go left to the front of `rows`, keeping the order on both sides; return their number.

    With `places` the bins are in the order of these, see `categories`.
    """
    if places.size > 0:
        return _partition_by_place(codes, last_left, missing_left, missing_code, places, rows, rows_aside)
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
def _partition_by_place(codes, last_left, missing_left, missing_code, places, rows, rows_aside):
    n_left = np.int64(0)
    n_right = np.int64(0)
    for j in range(rows.size):
        row = rows[j]
        code = codes[row]
        if missing_left if code == missing_code else places[code] <= last_left:
            rows[n_left] = row
            n_left += 1
        else:
            rows_aside[n_right] = row
            n_right += 1
    for j in range(n_right):
        rows[n_left + j] = rows_aside[j]
    return n_left


@part_of_kernel
def _split_leaf(columns, nodes, parent, left, rules, work):
    """Split a leaf into the nodes `left` and `left` + 1."""
    node = nodes[parent]
    f = node.split_feature
    n_left = partition(
        codes_of(columns, f, work.spare),
        node.split_bin,
        columns.has_missing[f] and node.split_missing_left,
        columns.n_bins[f],
        places_of(work.order, f, columns.n_bins[f]),
        work.rows[node.start : node.stop],
        work.rows_aside,
    )
    middle = node.start + n_left
    set_leaf(nodes, left, node.start, middle, node.split_z, node.split_wh, rules)
    set_leaf(nodes, left + 1, middle, node.stop, node.z - node.split_z, node.wh - node.split_wh, rules)
    nodes[left].depth = nodes[left + 1].depth = node.depth + 1
    node.feature = f
    node.bin = node.split_bin
    node.missing_left = node.split_missing_left
    node.gain = node.split_gain
    node.left = left
    node.right = left + 1
    node.split_gain = 0.0


@part_of_kernel
def _kept_histograms(work):
    """How many leaves, in the order of their slots, keep their histograms."""
    n_histograms = work.histograms.shape[0]
    return n_histograms if work.usable.shape[0] <= n_histograms else n_histograms - 2


@part_of_kernel
def _smaller_child(nodes, parent, n_nodes, max_leaves, rules, work):
    """Give two new leaves their slots; the one to sum the histogram of, or -1 if neither can be split."""
    node = nodes[parent]
    is_left_smaller = 2 * (nodes[node.left].stop - node.start) <= node.stop - node.start
    smaller = nodes[node.left] if is_left_smaller else nodes[node.right]
    larger = nodes[node.right] if is_left_smaller else nodes[node.left]
    is_largest = n_nodes == 2 * max_leaves - 1 or smaller.depth >= rules.max_depth
    if is_largest or max(smaller.wh, larger.wh) - rules.min_wh < rules.min_wh:
        return -1
    larger.slot = node.slot
    smaller.slot = n_nodes // 2  # one for every leaf
    usable = work.usable[node.slot]
    free_usable = work.usable[smaller.slot]
    for f in range(usable.size):
        free_usable[f] = usable[f]
    close_groups(work.choice, larger.slot, smaller.slot, node.feature, usable, free_usable)
    n_kept = _kept_histograms(work)
    smaller.histogram = smaller.slot if smaller.slot < n_kept else n_kept
    larger.histogram = larger.slot if larger.slot < n_kept else n_kept + 1
    return node.left if is_left_smaller else node.right


@part_of_kernel
def _derive_sibling(columns, nodes, i, work):
    """Histogram of the larger one of two new leaves, from those of their parent and of the smaller one, `i`.

    If the parent's was forgotten it is summed, too, by this thread alone: sums of integers, the same either way.
    """
    larger = nodes[i + 1] if i % 2 == 1 else nodes[i - 1]
    hist = work.histograms[larger.histogram]
    if larger.slot < _kept_histograms(work):
        smaller_hist = work.histograms[nodes[i].histogram]
        subtract_histogram(hist, smaller_hist, columns.first_cell, columns.n_cells, work.usable[larger.slot])
    else:
        build_histogram(columns, work.rows[larger.start : larger.stop], work.cells, work.joint_sums, hist)


@kernel
def write_leaf_ids(nodes, n_nodes, rows, first, last, leaf_ids):
    """Leaf of every sample that the tree was grown from, for rows[first:last]."""
    for i in range(n_nodes):
        if nodes[i].feature < 0:
            for j in range(max(nodes[i].start, first), min(nodes[i].stop, last)):
                leaf_ids[rows[j]] = i


@kernel
def number_leaf_nodes(nodes, n_nodes):
    """Number the leaves in the order of their nodes: `left` of a leaf is its number."""
    n_leaves = 0
    for i in range(n_nodes):
        if nodes[i].feature < 0:
            nodes[i].left = n_leaves
            n_leaves += 1


@kernel
def number_leaves(nodes, n_nodes, leaf_ids):
    """Number the leaves likewise, and turn the node numbers of the samples' leaves into these."""
    number_leaf_nodes(nodes, n_nodes)
    number = np.empty(n_nodes, dtype=np.uint16)
    for i in range(n_nodes):
        number[i] = nodes[i].left
    for i in range(leaf_ids.size):
        leaf_ids[i] = number[leaf_ids[i]]


@kernel
def send_down(columns, nodes, n_nodes, rows, rows_aside, units, rules, order, spare, leaf_ids):
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
    order : CategoryOrder
        That of the tree.
    spare : SpareCodes
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
            places = places_of(order, f, columns.n_bins[f])
            codes = codes_of(columns, f, spare)
            n_left = partition(codes, node.bin, missing_left, columns.n_bins[f], places, rows[start:stop], rows_aside)
            starts[node.left] = start
            stops[node.left] = starts[node.right] = start + n_left
            stops[node.right] = stop
    for i in range(n_nodes - 1, -1, -1):
        if nodes[i].feature >= 0:
            nodes[i].weight = nodes[nodes[i].left].weight + nodes[nodes[i].right].weight
