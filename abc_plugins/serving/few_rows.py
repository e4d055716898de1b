"""Prediction of few rows with NumPy alone: importing Numba would take longer than predicting them.

A row goes through all trees at once. A symmetric tree has one comparison for each level, other trees have one for each
node: whether x <= threshold, which is false if x is missing. Where missing values go left, x is taken from a copy of
the row in which they are minus infinity. Leaf values are added tree by tree, as the kernels do it, so that sums are the
same to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abc_plugins.core.model.ensemble import LEAF, SET_WORDS, THRESHOLD, FlatTrees
from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats

_VALUES_AT_ONCE = 2**16
"""Leaf values that are added at a time: few enough to stay in the cache."""


class FewRows:
    """Trees, laid out for few rows.

    Parameters
    ----------
    trees : FlatTrees
        Checked by `validation`.
    n_features : int
    start_scores : array of shape (n_classes,)
        Scores before the first tree.
    """

    def __init__(self, trees: FlatTrees, n_features: int, start_scores: Floats) -> None:
        depth = symmetric_depths(trees)
        self._n_trees = trees.n_trees
        self._symmetric, self._others = np.flatnonzero(depth >= 0), np.flatnonzero(depth < 0)
        self._depth = int(depth.max(initial=0))
        self._levels = _lay_out_levels(trees, self._symmetric, depth[self._symmetric], n_features)
        self._walk = _Walk.of(trees, self._others, n_features) if self._others.size else None
        self._values = _Values.of(trees, start_scores)

    def raw_scores(self, X: AnyArray) -> Floats:
        """Sum the trees.

        Parameters
        ----------
        X : array of float32 or float64, shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples, n_classes)
        """
        rows = np.concatenate([X, np.where(np.isnan(X), -np.inf, X)], axis=1, dtype=np.float64)
        return np.array([self._values.add(self._find_leaves(row)) for row in rows])

    def _find_leaves(self, row: Floats) -> AnyArray:
        """For every tree the number of the leaf that a row reaches."""
        leaves = np.empty(self._n_trees, dtype=np.int64)
        leaves[self._symmetric] = self._look_up(row)
        if self._walk is not None:
            leaves[self._others] = self._walk.go_down(row)
        return leaves

    def _look_up(self, row: Floats) -> AnyArray:
        """Leaves of symmetric trees: each level is a bit of the leaf's number, 1 where the row goes right."""
        goes_right = ~self._levels.goes_left(row).reshape(self._depth, self._symmetric.size)
        leaves = np.zeros(self._symmetric.size, dtype=np.int64)
        for level in goes_right:
            leaves *= 2
            leaves += level
        return leaves


def symmetric_depths(trees: FlatTrees) -> AnyArray:
    """Depth of trees that have one split per level and are numbered level by level; -1 for others."""
    sizes = np.diff(trees.node_start)
    depth = np.frexp(sizes.astype(np.float64))[1].astype(np.int64) - 1
    depth[2 ** (depth + 1) - 1 != sizes] = -1
    for d in np.unique(depth[depth > 0]):
        tree = np.flatnonzero(depth == d)
        number = np.arange(2**d - 1)  # of an inner node
        first = 2 ** (np.frexp(number + 1.0)[1] - 1) - 1  # of the first one on its level
        node, like = (trees.node_start[tree][:, None] + numbers for numbers in (number, first))
        alike = trees.feature[node] != LEAF
        for array in (trees.feature, trees.threshold, trees.missing_left, trees.left_set):
            alike &= array[node] == array[like]
        alike &= (trees.left[node] == 2 * number + 1) & (trees.right[node] == 2 * number + 2)
        depth[tree[~alike.all(axis=1)]] = -1
    return depth


def _lay_out_levels(trees: FlatTrees, symmetric: AnyArray, depth: AnyArray, n_features: int) -> _Comparisons:
    """Comparisons of all trees on the first level, then on the next.

    Trees with fewer levels have theirs last. On the levels before, a comparison with infinity gives the bit 0.
    """
    level = np.arange(depth.max(initial=0))[:, None] - (depth.max(initial=0) - depth)
    node = np.where(level >= 0, trees.node_start[symmetric] + 2 ** np.maximum(level, 0) - 1, -1)
    tree = np.broadcast_to(symmetric, node.shape)
    return _Comparisons.of(trees, tree.reshape(-1), node.reshape(-1), n_features)


@dataclass(frozen=True)
class _Comparisons:
    """Comparisons of a value with a threshold or set; arrays have one entry for each.

    Attributes
    ----------
    column : array of int64
        Of the value in a row that is followed by its copy.
    threshold : array of float64
    first_word : array of int64
        Index into `sets` of the first word of the set; THRESHOLD for a comparison with a threshold.
    missing_left : array of bool
    sets : array of uint64
    """

    column: AnyArray
    threshold: Floats
    first_word: AnyArray
    missing_left: Booleans
    sets: AnyArray

    @classmethod
    def of(cls, trees: FlatTrees, tree: AnyArray, node: AnyArray, n_features: int) -> _Comparisons:
        """Take these nodes of these trees; at a leaf, and where there is no node (-1), everything goes left."""
        splits = (node >= 0) & (trees.feature[node] != LEAF)
        has_set = splits & (trees.left_set[node] != THRESHOLD)
        of_copy = ~splits | (trees.missing_left[node] & ~has_set)
        return cls(
            column=np.where(splits, trees.feature[node], 0) + np.where(of_copy, np.int64(n_features), np.int64(0)),
            threshold=np.where(splits, trees.threshold[node], np.inf),
            first_word=np.where(has_set, trees.set_start[tree] + SET_WORDS * trees.left_set[node], THRESHOLD),
            missing_left=trees.missing_left[node],
            sets=trees.sets,
        )

    def goes_left(self, row: Floats, which: AnyArray | None = None) -> Booleans:
        """Compare the values of a row that is followed by its copy; all comparisons, or those of some indices."""
        values = row.take(self.column if which is None else self.column.take(which))
        left = values <= (self.threshold if which is None else self.threshold.take(which))
        if self.sets.size:
            first_word = self.first_word if which is None else self.first_word.take(which)
            of_set = np.flatnonzero(first_word != THRESHOLD)
            missing_left = self.missing_left[of_set if which is None else which[of_set]]
            left[of_set] = self._is_in_set(values[of_set], first_word[of_set], missing_left)
        return left

    def _is_in_set(self, values: Floats, first_word: AnyArray, missing_left: Booleans) -> Booleans:
        """Whether categories go left; values that are no number of a category count as missing."""
        known = (values >= 0) & (values < 64 * SET_WORDS)
        category = np.where(known, values, 0.0).astype(np.int64)
        bits = self.sets[first_word + (category >> 6)] >> (category & 63).astype(np.uint64)
        return np.where(known, bits & np.uint64(1) != 0, missing_left)


@dataclass(frozen=True)
class _Walk:
    """Trees that are not symmetric.

    Attributes
    ----------
    comparisons : _Comparisons
        Of the nodes of all trees.
    children : array of int64, shape (2 * n_nodes,)
        The right and the left child of every node; both children of a leaf are the leaf itself.
    value_row : array of int32, shape (n_nodes,)
        Number of a leaf, which is the row of its values.
    roots : array of int64, shape (n_trees,)
    depth : int
        Of the deepest tree.
    """

    comparisons: _Comparisons
    children: AnyArray
    value_row: AnyArray
    roots: AnyArray
    depth: int

    @classmethod
    def of(cls, trees: FlatTrees, others: AnyArray, n_features: int) -> _Walk:
        """Take these of the trees."""
        sizes = np.diff(trees.node_start)
        tree, node = np.repeat(np.arange(trees.n_trees), sizes), np.arange(trees.feature.size)
        is_leaf = trees.feature == LEAF
        children = np.stack([trees.right, trees.left], axis=1) + trees.node_start[tree][:, None]
        children[is_leaf] = node[is_leaf, None]
        roots = trees.node_start[others]
        depth, inner = 0, roots[~is_leaf[roots]]
        while inner.size:
            below = children[inner].reshape(-1)
            depth, inner = depth + 1, below[~is_leaf[below]]
        comparisons = _Comparisons.of(trees, tree, node, n_features)
        return cls(comparisons, children.reshape(-1), trees.left, roots, depth)

    def go_down(self, row: Floats) -> AnyArray:
        """For every tree the number of the leaf that a row reaches."""
        node = self.roots
        for _ in range(self.depth):
            node = self.children.take(2 * node + self.comparisons.goes_left(row, node))
        return self.value_row[node]


@dataclass(frozen=True)
class _Values:
    """Leaf values, laid out to be summed over trees.

    Attributes
    ----------
    start_scores : array of shape (n_classes,)
    values : array of float64
    value_start, width : arrays of int64, shape (n_trees,)
        Where the values of a tree begin, and how many a leaf has.
    classes : array of int64
        The classes that a tree has values for, tree by tree.
    place : array of int64
        Of each of these, its index among the values of a leaf.
    moves_all : bool
        Whether each tree moves all classes, in their order.
    """

    start_scores: Floats
    values: Floats
    value_start: AnyArray
    width: AnyArray
    classes: AnyArray
    place: AnyArray
    moves_all: bool

    @classmethod
    def of(cls, trees: FlatTrees, start_scores: Floats) -> _Values:
        """Take the values of all trees."""
        width = np.diff(trees.class_start)
        classes = trees.classes.astype(np.int64)
        in_order = classes.size == width.size * start_scores.size and np.array_equal(
            classes, np.tile(np.arange(start_scores.size), width.size)
        )
        place = np.arange(classes.size) - np.repeat(trees.class_start[:-1], width)
        moves_all = bool(in_order and (width == start_scores.size).all())
        return cls(start_scores, trees.values, trees.value_start[:-1], width, classes, place, moves_all)

    def add(self, leaves: AnyArray) -> Floats:
        """Sum the values of one leaf of each tree, one tree after the other."""
        n_classes = self.start_scores.size
        if not self.moves_all:
            first = np.repeat(self.value_start + leaves * self.width, self.width)
            classes = np.concatenate([np.arange(n_classes), self.classes])
            values = np.concatenate([self.start_scores, self.values[first + self.place]])
            return np.bincount(classes, weights=values).astype(np.float64, copy=False)
        rows = self.values.reshape(-1, n_classes)
        row = self.value_start // n_classes + leaves
        scores = self.start_scores
        at_once = max(1, _VALUES_AT_ONCE // n_classes)
        for first_tree in range(0, row.size, at_once):
            scores = np.concatenate([scores[None], rows.take(row[first_tree : first_tree + at_once], axis=0)]).sum(
                axis=0
            )
        return scores
