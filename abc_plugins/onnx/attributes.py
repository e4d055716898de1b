"""Trees as the attributes of ONNX's TreeEnsembleClassifier.

The operator has neither sets of categories nor numbers for what is no category. A node with a set becomes a chain of
comparisons x == category whose true branches all lead to the same child; onnxruntime makes one comparison with a bit
set of such a chain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import AttributeProto, numpy_helper

from abc_plugins.core.model.ensemble import LEAF, THRESHOLD, Tree
from abc_plugins.core.model.export_terms import categories_of
from abc_plugins.core.runtime.arrays import AnyArray, Floats

N_CATEGORIES = 256
"""Categories are numbered from 0 to 255; what is no such number goes where missing values go."""


_LISTS = {
    **dict.fromkeys(("nodes_treeids", "nodes_nodeids", "nodes_featureids"), AttributeProto.INTS),
    **dict.fromkeys(("nodes_truenodeids", "nodes_falsenodeids"), AttributeProto.INTS),
    **dict.fromkeys(("class_treeids", "class_nodeids", "class_ids"), AttributeProto.INTS),
    "nodes_missing_value_tracks_true": AttributeProto.INTS,
    "nodes_modes": AttributeProto.STRINGS,
}


@dataclass(frozen=True)
class Column:
    """Nodes of one tree, one list entry per node, in ONNX's terms.

    Attributes
    ----------
    feature, true, false, missing_true : lists of int
        `true` and `false` are the children, `missing_true` says whether NaN goes to the first.
    value : list of float
    mode : list of bytes
    """

    feature: list[int]
    value: list[float]
    mode: list[bytes]
    true: list[int]
    false: list[int]
    missing_true: list[int]

    def append(self, *fields: Any) -> int:
        """Add a node (feature, value, mode, true, false, missing_true) and return its number."""
        for items, item in zip(self._lists, fields, strict=True):
            items.append(item)
        return len(self.mode) - 1

    def put(self, node: int, *fields: Any) -> None:
        """Replace a node."""
        for items, item in zip(self._lists, fields, strict=True):
            items[node] = item

    @property
    def _lists(self) -> tuple[list[Any], ...]:
        return self.feature, self.value, self.mode, self.true, self.false, self.missing_true


class Attributes:
    """Attributes of the operator that say how samples find their leaf, and what the leaf adds.

    They are filled tree by tree: as lists of Python objects, those of a large model would take gigabytes.

    Parameters
    ----------
    dtype : dtype
        float64, or float32 for a smaller model: then a threshold becomes the largest float32 that is not above it, so
        that every value that is a float32 goes the way it goes natively.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.n_trees = 0
        self._lists = {name: AttributeProto(name=name, type=kind) for name, kind in _LISTS.items()}
        self._numbers: dict[str, list[Floats]] = {"nodes_values": [], "class_weights": []}

    def add(self, tree: Tree) -> None:
        """Add a tree."""
        column = self._column(tree)
        n_nodes, t = len(column.mode), self.n_trees
        leaves = np.flatnonzero(tree.feature == LEAF)
        values = tree.values[tree.left[leaves]]
        integers: dict[str, Iterable[int]] = {
            "nodes_treeids": [t] * n_nodes,
            "nodes_nodeids": range(n_nodes),
            "nodes_featureids": column.feature,
            "nodes_truenodeids": column.true,
            "nodes_falsenodeids": column.false,
            "nodes_missing_value_tracks_true": column.missing_true,
            "class_treeids": [t] * values.size,
            "class_nodeids": np.repeat(leaves, tree.classes.size).tolist(),
            "class_ids": np.tile(tree.classes, leaves.size).tolist(),
        }
        for name, items in integers.items():
            self._lists[name].ints.extend(items)
        self._lists["nodes_modes"].strings.extend(column.mode)
        self._numbers["nodes_values"].append(np.array(column.value))
        self._numbers["class_weights"].append(values.ravel())
        self.n_trees += 1

    def finish(self) -> list[AttributeProto]:
        """All attributes; numbers that are not float32 are tensors."""
        found = list(self._lists.values())
        for name, parts in self._numbers.items():
            numbers = np.concatenate(parts).astype(self.dtype)
            if self.dtype == np.float32:
                found.append(AttributeProto(name=name, type=AttributeProto.FLOATS, floats=numbers.tolist()))
            else:
                tensor = numpy_helper.from_array(numbers, name)
                found.append(AttributeProto(name=f"{name}_as_tensor", type=AttributeProto.TENSOR, t=tensor))
        return found

    def _column(self, tree: Tree) -> Column:
        inner = tree.feature != LEAF
        thresholds = float32_not_above(tree.threshold) if self.dtype == np.float32 else tree.threshold
        column = Column(
            feature=np.where(inner, tree.feature, 0).tolist(),
            value=np.where(inner, thresholds, 0.0).tolist(),
            mode=np.where(inner, b"BRANCH_LEQ", b"LEAF").tolist(),
            true=np.where(inner, tree.left, 0).tolist(),
            false=np.where(inner, tree.right, 0).tolist(),
            missing_true=(inner & tree.missing_left).astype(int).tolist(),
        )
        sets = categories_of(tree.sets)
        for node in np.flatnonzero(tree.left_set != THRESHOLD).tolist():
            _write_set(column, node, tree, sets[tree.left_set[node]])
        return column


def _write_set(column: Column, node: int, tree: Tree, goes_left: AnyArray) -> None:
    """Replace a node by a chain of comparisons with the categories of its set, or with all others if that is shorter.

    In a chain with categories that do not go where missing values go, these pass through; in the other kind they are
    sent off by comparisons with the smallest and the largest number.
    """
    feature, left, right = int(tree.feature[node]), int(tree.left[node]), int(tree.right[node])
    missing_left = bool(tree.missing_left[node])
    goes_right = np.setdiff1d(np.arange(N_CATEGORIES), goes_left)
    with_missing, others = (goes_left, goes_right) if missing_left else (goes_right, goes_left)
    same, opposite = (left, right) if missing_left else (right, left)
    if others.size <= with_missing.size + 2:
        tests = [(b"BRANCH_EQ", float(category), opposite, 0) for category in others]
        default = same
    else:
        tests = [(b"BRANCH_LT", 0.0, same, 1), (b"BRANCH_GTE", float(N_CATEGORIES), same, 1)]
        tests += [(b"BRANCH_EQ", float(category), same, 1) for category in with_missing]
        default = opposite
    if not tests:  # every category goes where missing values go
        tests = [(b"BRANCH_EQ", -1.0, default, 0)]
    behind = default
    for mode, value, target, missing_true in tests[:0:-1]:
        behind = column.append(feature, value, mode, target, behind, missing_true)
    mode, value, target, missing_true = tests[0]
    column.put(node, feature, value, mode, target, behind, missing_true)


def float32_not_above(numbers: Floats) -> Floats:
    """The largest float32 that is not above each number, as float64."""
    with np.errstate(over="ignore"):
        nearest = numbers.astype(np.float32)
    below = np.where(nearest > numbers, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    return below.astype(np.float64)
