"""Checks of a whole model before any kernel sees it: kernels check no bounds and would follow any index."""

from __future__ import annotations

import numpy as np

from abc_plugins.core.model.ensemble import LEAF, FlatTrees
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
    n_trees, n_nodes = trees.plus.size, trees.feature.size
    _check_starts("round_start", trees.round_start, n_trees, smallest=0)
    _check_starts("node_start", trees.node_start, n_nodes, smallest=1)
    _refuse("plus", "a class index", (trees.plus < 0) | (trees.plus >= n_classes))
    _refuse("minus", "a class index or -1", (trees.minus < CLASSIC) | (trees.minus >= n_classes))
    _refuse("minus", "another class than plus", trees.minus == trees.plus)
    _refuse("feature", "a feature index or -1", (trees.feature < LEAF) | (trees.feature >= n_features))
    _check_children(trees)
    _check_numbers(trees)


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
    for name, child in (("left", trees.left), ("right", trees.right)):
        _refuse(name, "0 for a leaf", ~inner & (child != 0))
        _refuse(name, "the number of a later node of the tree", inner & ((child <= number) | (child >= tree_size)))
    children = np.concatenate([(first_node + child)[inner] for child in (trees.left, trees.right)])
    parents = np.bincount(children, minlength=trees.feature.size)
    expected = np.ones(trees.feature.size, dtype=np.int64)
    expected[roots] = 0
    _refuse("left and right", "such that every node but the root has one parent", parents != expected)


def _check_numbers(trees: FlatTrees) -> None:
    _refuse("threshold", "a number", np.isnan(trees.threshold))
    for name in ("value", "gain", "weight"):
        _refuse(name, "a finite number", ~np.isfinite(getattr(trees, name)))
    _refuse("weight", "not negative", trees.weight < 0)
    if trees.plus.size:
        with np.errstate(over="ignore"):
            largest_score = np.maximum.reduceat(np.abs(trees.value), trees.node_start[:-1]).sum()
        if not largest_score <= _MAX_SCORE:
            raise ModelFormatError(f"value must be small enough for the sum over all trees to be below {_MAX_SCORE:g}.")


def _refuse(name: str, allowed: str, wrong: Booleans) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        raise ModelFormatError(f"{name} must be {allowed}; entry {index} is not.")
