"""The way of rows down a tree, one by one or through the table of a symmetric tree, and what its leaves add."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.runtime.vectors import add_row

FEWEST_ROWS = 64
"""Fewer rows than that are walked down one by one."""

Nodes = namedtuple(
    "Nodes",
    "node_start class_start value_start set_start classes values sets "
    "feature threshold missing_left left_set left right",
)
"""The arrays of `FlatTrees` that a prediction needs."""


@part_of_kernel
def is_in_set(sets, first_word, x, missing_left):
    """Whether a category goes left; values that are no number of a category count as missing."""
    if not 0.0 <= x < 256.0:
        return missing_left
    category = np.int64(x)
    return (sets[first_word + (category >> 6)] >> np.uint64(category & 63)) & np.uint64(1) != 0


@part_of_kernel
def leaf_of(nodes, t, X, i):
    """Number, within its tree, of the leaf that sample `i` reaches."""
    node_start, _, _, set_start, _, _, sets, feature, threshold, missing_left, left_set, left, right = nodes
    root = node_start[t]
    node = root
    while feature[node] >= 0:
        x = X[i, feature[node]]
        if left_set[node] >= 0:
            goes_left = is_in_set(sets, set_start[t] + 4 * left_set[node], x, missing_left[node])
        else:
            goes_left = x <= threshold[node] or (x != x and missing_left[node])
        node = root + (left[node] if goes_left else right[node])
    return node - root


@part_of_kernel
def walk_down(nodes, t, X, i):
    """Row of the values of the leaf that sample `i` reaches."""
    return nodes.left[nodes.node_start[t] + leaf_of(nodes, t, X, i)]


@part_of_kernel
def symmetric_depth(nodes, root, n_nodes):
    """Depth of a tree whose nodes are numbered level by level and split alike on every level; -1 for another one."""
    depth = 0
    while 2 ** (depth + 1) - 1 < n_nodes:
        depth += 1
    if 2 ** (depth + 1) - 1 != n_nodes:
        return -1
    for level in range(depth):
        first = root + 2**level - 1
        for node in range(first, first + 2**level):
            alike = (
                nodes.feature[node] == nodes.feature[first]
                and nodes.feature[node] >= 0
                and nodes.threshold[node] == nodes.threshold[first]
                and nodes.missing_left[node] == nodes.missing_left[first]
                and nodes.left_set[node] == nodes.left_set[first]
                and nodes.left[node] == 2 * (node - root) + 1
                and nodes.right[node] == 2 * (node - root) + 2
            )
            if not alike:
                return -1
    return depth


@part_of_kernel
def look_up_rows(nodes, t, depth, X, leaves):
    """Rows of the values of the leaves that rows reach in a symmetric tree."""
    for i in range(X.shape[0]):
        leaves[i] = 0
    for level in range(depth):
        node = nodes.node_start[t] + 2**level - 1
        feature, threshold, missing_left = nodes.feature[node], nodes.threshold[node], nodes.missing_left[node]
        if nodes.left_set[node] >= 0:
            first_word = nodes.set_start[t] + 4 * nodes.left_set[node]
            for i in range(X.shape[0]):
                is_left = is_in_set(nodes.sets, first_word, X[i, feature], missing_left)
                leaves[i] = 2 * leaves[i] + 1 - is_left
        elif missing_left:  # a comparison with NaN is false
            for i in range(X.shape[0]):
                leaves[i] = 2 * leaves[i] + (X[i, feature] > threshold)
        else:
            for i in range(X.shape[0]):
                leaves[i] = 2 * leaves[i] + 1 - (X[i, feature] <= threshold)


@kernel
def go_down(nodes, t, X, start, n, leaves):
    """Rows of the values of the leaves that the rows start..start + n - 1 reach in one tree."""
    root = nodes.node_start[t]
    # To find out whether a tree is symmetric takes as long as some rows take to walk down.
    depth = symmetric_depth(nodes, root, nodes.node_start[t + 1] - root) if n >= FEWEST_ROWS else -1
    if depth >= 0:
        look_up_rows(nodes, t, depth, X[start : start + n], leaves)
    else:
        for i in range(n):
            leaves[i] = walk_down(nodes, t, X, start + i)


@part_of_kernel
def add_values(nodes, t, row, scores, i):
    """Add a row of leaf values to the scores of sample `i`."""
    first = nodes.class_start[t]
    width = nodes.class_start[t + 1] - first
    value = nodes.value_start[t] + row * width
    for j in range(width):
        scores[i, nodes.classes[first + j]] += nodes.values[value + j]


@part_of_kernel
def add_leaves(nodes, t, leaves, n, start, scores):
    """Add the values of each row's leaf."""
    first, value_start = nodes.class_start[t], nodes.value_start[t]
    width = nodes.class_start[t + 1] - first
    classes, values = nodes.classes, nodes.values
    if width == 2:
        k, b = classes[first], classes[first + 1]
        for i in range(n):
            value = value_start + 2 * leaves[i]
            scores[start + i, k] += values[value]
            scores[start + i, b] += values[value + 1]
    elif width == scores.shape[1]:  # all classes, in their order, see `check_trees`
        flat = scores.reshape(-1)
        for i in range(n):
            add_row(flat, (start + i) * width, values, value_start + leaves[i] * width, width)
    else:
        for i in range(n):
            add_values(nodes, t, leaves[i], scores, start + i)
