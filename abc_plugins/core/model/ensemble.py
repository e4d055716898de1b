"""The model: trees with a matrix of leaf values, in flat arrays.

A tree names the classes that it moves, and each leaf has one value for each of them: all K classes for a tree grown
along a direction of class space, (plus, minus) with the values v and -v for a tree of a class and its base class, one
class for a classic tree. Trees are grouped by boosting round. Values include the shrinkage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats, Integers
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC

if TYPE_CHECKING:
    from abc_plugins.core.runtime.sparse_table import Table

LEAF = -1
"""In place of a feature: the node is a leaf."""

THRESHOLD = -1
"""In place of a set: the node has a threshold, or is a leaf."""

SET_WORDS = 4
"""Words of 64 bits of a set: categories are numbered from 0 to 255."""

NO_SETS = np.empty((0, SET_WORDS), dtype=np.uint64)


@dataclass(frozen=True)
class Tree:
    """One tree; arrays have one entry per node unless said otherwise, and node 0 is the root.

    A sample goes left if its value is <= threshold, or if it is missing and `missing_left` is set. Where a node has a
    set of categories instead, a sample goes left if its category is one of them.

    Attributes
    ----------
    classes : array of int32, shape (n_entries,)
        The classes whose scores the tree changes.
    feature : array of int32
        Column of the split, LEAF for a leaf.
    threshold : array of float64
    missing_left : array of bool
    left_set : array of int32
        Row of `sets`, THRESHOLD for a node without a set.
    left, right : array of int32
        Children; a child's number is larger than its parent's. For a leaf, `left` is its row of `values`: leaves are
        counted in the order of their nodes. `right` is 0 there.
    gain : array of float64
        Gain of the split, 0 for a leaf.
    weight : array of float64
        Total weight of the training samples in the node (their number if there are no weights).
    values : array of float64, shape (n_leaves, n_entries)
        What a leaf adds to the scores of `classes`, shrinkage included.
    sets : array of uint64, shape (n_sets, SET_WORDS)
        Bit c of a set says whether category c goes left.
    """

    classes: Integers
    feature: Integers
    threshold: Floats
    missing_left: Booleans
    left_set: Integers
    left: Integers
    right: Integers
    gain: Floats
    weight: Floats
    values: Floats
    sets: AnyArray

    @property
    def is_pair(self) -> bool:
        """Whether the tree is of one class, or of two with opposite values."""
        return self.classes.size <= 2

    @property
    def plus(self) -> int:
        """The first class of the tree."""
        return int(self.classes[0])

    @property
    def minus(self) -> int:
        """The class that loses what the first one gains, CLASSIC if there is none; only for a pair."""
        return int(self.classes[1]) if self.classes.size == 2 else CLASSIC

    @property
    def value(self) -> Floats:
        """What each node adds to the score of the first class; 0 for an inner node."""
        return self.node_values(0)

    def node_values(self, entry: int) -> Floats:
        """What each node adds to the score of classes[entry]; 0 for an inner node."""
        return np.where(self.feature == LEAF, self.values[:, entry][self.left * (self.feature == LEAF)], 0.0)


def pair_tree(plus: int, minus: int, value: Floats, **nodes: AnyArray) -> Tree:
    """Make a tree of a class and its base class (CLASSIC: none) from one value per node; there are no sets."""
    leaf = nodes["feature"] == LEAF
    classes = [plus] if minus == CLASSIC else [plus, minus]
    left = np.where(leaf, np.cumsum(leaf) - 1, nodes["left"]).astype(np.int32)
    values = np.outer(value[leaf], [1.0, -1.0][: len(classes)])
    nodes = {**nodes, "left": left, "left_set": np.full(leaf.size, THRESHOLD, dtype=np.int32)}
    return Tree(classes=np.array(classes, dtype=np.int32), values=values, sets=NO_SETS, **nodes)


def single_leaf(classes: Sequence[int], weight: float) -> Tree:
    """Make a tree that adds nothing."""
    zero = {name: np.zeros(1, dtype) for name, dtype in NODE_DTYPES.items()}
    nodes = {**zero, "feature": zero["feature"] + LEAF, "left_set": zero["left_set"] + THRESHOLD}
    nodes["weight"] = np.array([weight])
    return Tree(classes=np.array(classes, dtype=np.int32), values=np.zeros((1, len(classes))), sets=NO_SETS, **nodes)


NODE_DTYPES: dict[str, np.dtype[Any]] = {
    "feature": np.dtype(np.int32),
    "threshold": np.dtype(np.float64),
    "missing_left": np.dtype(np.bool_),
    "left_set": np.dtype(np.int32),
    "left": np.dtype(np.int32),
    "right": np.dtype(np.int32),
    "gain": np.dtype(np.float64),
    "weight": np.dtype(np.float64),
}
"""Arrays of `Tree` and `FlatTrees` that have one entry per node."""


class TreeEnsemble:
    """Trees of all rounds.

    Parameters
    ----------
    n_classes, n_features : int
    start_scores : array of shape (n_classes,), optional
        Scores before the first round; zeros by default.

    Attributes
    ----------
    n_rounds : int
        Number of boosting rounds.
    """

    def __init__(self, n_classes: int, n_features: int, start_scores: Floats | None = None) -> None:
        self.n_classes = n_classes
        self.n_features = n_features
        self.start_scores = np.zeros(n_classes) if start_scores is None else start_scores
        self.n_rounds = 0
        self._parts: list[FlatTrees] = []

    @classmethod
    def from_flat(
        cls, n_classes: int, n_features: int, trees: FlatTrees, start_scores: Floats | None = None
    ) -> TreeEnsemble:
        """Rebuild an ensemble from flat arrays."""
        ensemble = cls(n_classes, n_features, start_scores)
        ensemble._parts = [trees]
        ensemble.n_rounds = trees.n_rounds
        return ensemble

    @property
    def n_trees(self) -> int:
        """Number of trees in all rounds."""
        return sum(part.n_trees for part in self._parts)

    def append_round(self, trees: Sequence[Tree] | FlatTrees) -> None:
        """Add the trees of one round."""
        part = trees if isinstance(trees, FlatTrees) else FlatTrees.from_rounds([trees])
        self._parts.append(part)
        self.n_rounds += part.n_rounds

    def truncate(self, n_rounds: int) -> None:
        """Keep only the first `n_rounds` rounds."""
        self._parts = [self.flat().first_rounds(n_rounds)]
        self.n_rounds = self._parts[0].n_rounds

    def rounds(self) -> Iterator[tuple[Tree, ...]]:
        """Iterate over the rounds; each is a tuple of trees."""
        for part in self._parts:
            yield from part.to_rounds()

    def trees(self, n_rounds: int | None = None) -> Iterator[Tree]:
        """Iterate over the trees of the first `n_rounds` rounds (all by default)."""
        for trees in islice(self.rounds(), n_rounds):
            yield from trees

    def flat(self) -> FlatTrees:
        """All trees in one set of arrays, as the prediction kernels and the model file take them."""
        if len(self._parts) != 1:
            self._parts = [FlatTrees.join(self._parts)]
        return self._parts[0]

    def raw_scores(self, X: Table, workers: Workers, n_rounds: int | None = None) -> Floats:
        """Sum the trees of the first `n_rounds` rounds.

        Returns
        -------
        scores : array of shape (n_samples, n_classes)
        """
        from abc_plugins.core.model.predicting import add_tree_scores  # with Numba, which few rows do without

        scores = np.tile(self.start_scores, (X.shape[0], 1))
        stop = self.n_rounds if n_rounds is None else n_rounds
        add_tree_scores(X, self.flat(), 0, stop, scores, workers)
        return scores

    def staged_raw_scores(self, X: Table, workers: Workers) -> Iterator[Floats]:
        """Yield the summed scores after each round; the array is the same one every time."""
        from abc_plugins.core.model.predicting import add_tree_scores

        scores = np.tile(self.start_scores, (X.shape[0], 1))
        for m in range(self.n_rounds):
            add_tree_scores(X, self.flat(), m, m + 1, scores, workers)
            yield scores

    def feature_importance(self, kind: str, n_rounds: int | None = None) -> Floats:
        """Total gain ("gain") or number ("count") of the splits on every feature."""
        trees = self.flat()
        stop = trees.node_start[trees.round_start[self.n_rounds if n_rounds is None else n_rounds]]
        inner = np.flatnonzero(trees.feature[:stop] != LEAF)
        amounts = trees.gain[inner] if kind == "gain" else None
        return np.bincount(trees.feature[inner], weights=amounts, minlength=self.n_features).astype(np.float64)


@dataclass(frozen=True)
class FlatTrees:
    """Trees as flat arrays: those of one tree behind those of the other, children numbered within their tree.

    Attributes
    ----------
    round_start : array of int64, shape (n_rounds + 1,)
        Round m has the trees round_start[m] .. round_start[m + 1] - 1.
    node_start : array of int64, shape (n_trees + 1,)
        Tree t has the nodes node_start[t] .. node_start[t + 1] - 1.
    class_start : array of int64, shape (n_trees + 1,)
        Tree t moves classes[class_start[t]] .. classes[class_start[t + 1] - 1].
    value_start : array of int64, shape (n_trees + 1,)
        Where the values of tree t begin, leaf by leaf.
    set_start : array of int64, shape (n_trees + 1,)
        Where the words of the sets of tree t begin.
    classes : array of int32
    values : array of float64
    sets : array of uint64
    feature, threshold, missing_left, left_set, left, right, gain, weight : arrays of shape (n_nodes,)
        As in `Tree`.
    """

    round_start: AnyArray
    node_start: AnyArray
    class_start: AnyArray
    value_start: AnyArray
    set_start: AnyArray
    classes: Integers
    values: Floats
    sets: AnyArray
    feature: Integers
    threshold: Floats
    missing_left: Booleans
    left_set: Integers
    left: Integers
    right: Integers
    gain: Floats
    weight: Floats

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return self.round_start.size - 1

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.node_start.size - 1

    @classmethod
    def from_rounds(cls, rounds: Sequence[Sequence[Tree]]) -> FlatTrees:
        """Lay the trees of all rounds behind one another."""
        trees = [tree for round_trees in rounds for tree in round_trees]
        return cls(
            round_start=_starts([len(round_trees) for round_trees in rounds]),
            node_start=_starts([tree.feature.size for tree in trees]),
            class_start=_starts([tree.classes.size for tree in trees]),
            value_start=_starts([tree.values.size for tree in trees]),
            set_start=_starts([tree.sets.size for tree in trees]),
            **{
                name: _concatenate([getattr(tree, name).reshape(-1) for tree in trees], dtype)
                for name, dtype in FLAT_DTYPES.items()
            },
        )

    @classmethod
    def join(cls, parts: Sequence[FlatTrees]) -> FlatTrees:
        """Put several sets of rounds behind one another."""
        starts = {name: _join_starts([getattr(part, name) for part in parts]) for name in START_FIELDS}
        arrays = {
            name: _concatenate([getattr(part, name) for part in parts], dtype) for name, dtype in FLAT_DTYPES.items()
        }
        return cls(**starts, **arrays)

    def first_rounds(self, n_rounds: int) -> FlatTrees:
        """The first `n_rounds` rounds; arrays are views."""
        n_trees = self.round_start[n_rounds]
        starts = {name: getattr(self, name)[: n_trees + 1] for name in START_FIELDS[1:]}
        stops = {
            "node_start": list(NODE_DTYPES),
            "class_start": ["classes"],
            "value_start": ["values"],
            "set_start": ["sets"],
        }
        arrays = {name: getattr(self, name)[: starts[by][-1]] for by, names in stops.items() for name in names}
        return FlatTrees(round_start=self.round_start[: n_rounds + 1], **starts, **arrays)

    def to_rounds(self) -> list[tuple[Tree, ...]]:
        """Split into trees again; arrays are views."""
        trees = [self._tree(t) for t in range(self.n_trees)]
        starts = self.round_start
        return [tuple(trees[starts[m] : starts[m + 1]]) for m in range(starts.size - 1)]

    def _tree(self, t: int) -> Tree:
        nodes = slice(self.node_start[t], self.node_start[t + 1])
        classes = self.classes[self.class_start[t] : self.class_start[t + 1]]
        values = self.values[self.value_start[t] : self.value_start[t + 1]].reshape(-1, classes.size)
        sets = self.sets[self.set_start[t] : self.set_start[t + 1]].reshape(-1, SET_WORDS)
        return Tree(
            classes=classes, values=values, sets=sets, **{name: getattr(self, name)[nodes] for name in NODE_DTYPES}
        )


START_FIELDS = ("round_start", "node_start", "class_start", "value_start", "set_start")
FLAT_DTYPES: dict[str, np.dtype[Any]] = {
    "classes": np.dtype(np.int32),
    "values": np.dtype(np.float64),
    "sets": np.dtype(np.uint64),
    **NODE_DTYPES,
}
"""Arrays of `FlatTrees` other than those that say where trees start."""


def _join_starts(parts: Sequence[AnyArray]) -> AnyArray:
    """Where things start once several sets of them lie behind one another."""
    sizes = np.diff(_concatenate(parts, np.dtype(np.int64)))
    ends = np.cumsum([part.size for part in parts[:-1]], dtype=np.int64) - 1  # from the end of a part to the next one
    return _starts(np.delete(sizes, ends))


def _concatenate(parts: Sequence[AnyArray], dtype: np.dtype[Any]) -> AnyArray:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _starts(sizes: Sequence[int] | AnyArray) -> AnyArray:
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts
