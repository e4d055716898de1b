"""Checks of a whole model before any kernel sees it: kernels check no bounds and would follow any index."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from abc_plugins.core.model.ensemble import LEAF, SET_WORDS, THRESHOLD, FlatTrees
from abc_plugins.core.runtime.arrays import AnyArray, Booleans
from abc_plugins.core.schedule import CLASSIC

_MAX_SCORE = 1e300
"""Sums and differences of the scores of all classes are finite, too."""


class ModelFormatError(ValueError):
    """The file is not a valid model: another kind of file, damaged, or made by a newer version."""


def check_trees(trees: FlatTrees, n_classes: int, n_features: int) -> None:
    """Check that every index of the trees is in range, that they are trees, and that their numbers are finite.

    A node's children come after it and every node but the root has one parent, so that each walk from the root
    ends in a leaf.

    Raises
    ------
    ModelFormatError
    """
    _check_starts("round_start", trees.round_start, trees.n_trees, smallest=0)
    _check_starts("node_start", trees.node_start, trees.feature.size, smallest=1)
    _check_starts("class_start", trees.class_start, trees.classes.size, smallest=1)
    _check_starts("value_start", trees.value_start, trees.values.size, smallest=1)
    _check_starts("set_start", trees.set_start, trees.sets.size, smallest=0)
    _check_classes(trees, n_classes)
    _check_sets(trees)
    _refuse("feature", "a feature index or -1", (trees.feature < LEAF) | (trees.feature >= n_features))
    _check_children(trees)
    _check_numbers(trees)


def from_version_1(arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Turn the arrays of a file of version 1, trees of one or two classes, into those of `FlatTrees`.

    Raises
    ------
    ModelFormatError
        If that is not possible; what comes out is still to be checked.
    """
    v1 = dict(arrays)
    plus, minus, value, node_start = v1.pop("plus"), v1.pop("minus"), v1.pop("value"), v1["node_start"]
    _check_starts("node_start", node_start, value.size, smallest=1)
    leaf = v1["feature"] == LEAF
    _refuse("left", "0 for a leaf", leaf & (v1["left"] != 0))
    _refuse("value", "0 for an inner node", ~leaf & (value != 0.0))
    n_leaves = np.add.reduceat(leaf, node_start[:-1]) if plus.size else np.empty(0, np.int64)
    before = np.concatenate(([0], np.cumsum(n_leaves)))
    row = np.cumsum(leaf) - 1 - np.repeat(before[:-1], np.diff(node_start))
    has_base = minus != CLASSIC
    signs = np.repeat(np.where(has_base, 2, 1), n_leaves)  # values of each leaf: v, or v and -v
    values = np.repeat(value[leaf], signs)
    values[np.cumsum(signs)[signs == 2] - 1] *= -1.0
    return v1 | {
        "left": np.where(leaf, row, v1["left"]).astype(np.int32),
        "class_start": np.concatenate(([0], np.cumsum(1 + has_base))),
        "value_start": np.concatenate(([0], np.cumsum(n_leaves * (1 + has_base)))),
        "classes": np.stack([plus, minus], axis=1).reshape(-1)[np.stack([plus == plus, has_base], axis=1).reshape(-1)],
        "values": values,
        "left_set": np.full(leaf.size, THRESHOLD, dtype=np.int32),
        "set_start": np.zeros(plus.size + 1, dtype=np.int64),
        "sets": np.empty(0, dtype=np.uint64),
    }


def _check_classes(trees: FlatTrees, n_classes: int) -> None:
    """Check that the classes of a tree are distinct, and that it has one value for each class and leaf."""
    _refuse("classes", "class indices", (trees.classes < 0) | (trees.classes >= n_classes))
    sizes = np.diff(trees.class_start)
    tree = np.repeat(np.arange(trees.n_trees), sizes)
    keys = np.sort(tree * np.int64(n_classes) + trees.classes)
    _refuse("classes", "distinct within a tree", keys[1:] == keys[:-1])
    in_order = trees.classes == np.arange(trees.classes.size) - np.repeat(trees.class_start[:-1], sizes)
    is_full = np.repeat((sizes == n_classes) & (sizes > 2), sizes)
    _refuse("classes", "in ascending order in a tree of all classes", is_full & ~in_order)
    leaf = trees.feature == LEAF
    n_leaves = np.add.reduceat(leaf, trees.node_start[:-1], dtype=np.int64) if trees.n_trees else sizes
    _refuse("value_start", "one value for every leaf and class", np.diff(trees.value_start) != n_leaves * sizes)


def _check_sets(trees: FlatTrees) -> None:
    """Check that every set that a node names is there."""
    n_words = np.diff(trees.set_start)
    _refuse("set_start", f"in steps of {SET_WORDS} words", n_words % SET_WORDS != 0)
    n_sets = np.repeat(n_words // SET_WORDS, np.diff(trees.node_start))
    _refuse(
        "left_set", "a row of the sets of the tree or -1", (trees.left_set < THRESHOLD) | (trees.left_set >= n_sets)
    )
    _refuse("left_set", "-1 for a leaf", (trees.feature == LEAF) & (trees.left_set != THRESHOLD))


def _check_starts(name: str, starts: AnyArray, end: int, smallest: int) -> None:
    """Check where groups start: from 0 to `end` in steps of at least `smallest`."""
    if starts.size < 1 or starts[0] != 0 or starts[-1] != end:
        raise ModelFormatError(f"{name} must go from 0 to {end}.")
    # Compared, not subtracted: a difference could overflow.
    too_close = starts[1:] <= starts[:-1] if smallest else starts[1:] < starts[:-1]
    _refuse(name, "in ascending order", too_close)


def _check_children(trees: FlatTrees) -> None:
    sizes = np.diff(trees.node_start)
    roots = trees.node_start[:-1]
    first_node = np.repeat(roots, sizes)
    number = np.arange(trees.feature.size) - first_node  # within the tree
    inner = trees.feature != LEAF
    tree_size = np.repeat(sizes, sizes)
    leaves_before = np.cumsum(~inner) - ~inner
    leaf_row = leaves_before - np.repeat(leaves_before[roots], sizes)
    _refuse("left", "the row of a leaf's values", ~inner & (trees.left != leaf_row))
    _refuse("right", "0 for a leaf", ~inner & (trees.right != 0))
    for name, child in (("left", trees.left), ("right", trees.right)):
        _refuse(name, "the number of a later node of the tree", inner & ((child <= number) | (child >= tree_size)))
    children = np.concatenate([(first_node + child)[inner] for child in (trees.left, trees.right)])
    parents = np.bincount(children, minlength=trees.feature.size)
    expected = np.ones(trees.feature.size, dtype=np.int64)
    expected[roots] = 0
    _refuse("left and right", "such that every node but the root has one parent", parents != expected)


def _check_numbers(trees: FlatTrees) -> None:
    _refuse("threshold", "a number", np.isnan(trees.threshold))
    for name in ("values", "gain", "weight"):
        _refuse(name, "a finite number", ~np.isfinite(getattr(trees, name)))
    _refuse("weight", "not negative", trees.weight < 0)
    if trees.n_trees:
        with np.errstate(over="ignore"):
            largest_score = np.maximum.reduceat(np.abs(trees.values), trees.value_start[:-1]).sum()
        if not largest_score <= _MAX_SCORE:
            raise ModelFormatError(f"values must be small enough for their sum over trees to be below {_MAX_SCORE:g}.")


def _refuse(name: str, allowed: str, wrong: Booleans) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        raise ModelFormatError(f"{name} must be {allowed}; entry {index} is not.")
