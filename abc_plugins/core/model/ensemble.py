"""The model: a list of trees tagged (plus class, minus class), in flat arrays.

A leaf value v of a tree adds v to the score of its `plus` class and subtracts it from that of its `minus` class
(`CLASSIC`, -1, if there is none). Trees are grouped by boosting round. Values include the shrinkage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import numpy as np

from abc_plugins.core.model.predicting import add_tree_scores
from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats, Integers
from abc_plugins.core.runtime.parallel import Workers

LEAF = -1
"""In place of a feature: the node is a leaf."""


@dataclass(frozen=True)
class Tree:
    """One tree; all arrays have one entry a node, and node 0 is the root.

    A sample goes left if its value is <= threshold, or if it is missing and `missing_left` is set.

    Attributes
    ----------
    plus, minus : int
        The class whose score a leaf value is added to, and the one it is subtracted from (CLASSIC: none).
    feature : array of int32
        Column of the split, LEAF for a leaf.
    threshold : array of float64
    missing_left : array of bool
    left, right : array of int32
        Children, 0 for a leaf. A child's number is larger than its parent's.
    value : array of float64
        What a leaf adds, shrinkage included; 0 for an inner node.
    gain : array of float64
        Gain of the split, 0 for a leaf.
    weight : array of float64
        Total weight of the training samples in the node (their number if there are no weights).
    """

    plus: int
    minus: int
    feature: Integers
    threshold: Floats
    missing_left: Booleans
    left: Integers
    right: Integers
    value: Floats
    gain: Floats
    weight: Floats


def single_leaf(plus: int, minus: int, weight: float) -> Tree:
    """Make a tree that adds nothing."""
    zero = {name: np.zeros(1, dtype) for name, dtype in TREE_DTYPES.items() if name in NODE_FIELDS}
    return Tree(plus, minus, **{**zero, "feature": np.array([LEAF], np.int32), "weight": np.array([weight])})


NODE_FIELDS = tuple(field.name for field in fields(Tree) if field.name not in ("plus", "minus"))


class TreeEnsemble:
    """Trees of all rounds.

    Parameters
    ----------
    n_classes, n_features : int

    Attributes
    ----------
    n_rounds : int
        Number of boosting rounds.
    """

    def __init__(self, n_classes: int, n_features: int) -> None:
        self.n_classes = n_classes
        self.n_features = n_features
        self.n_rounds = 0
        self._parts: list[FlatTrees] = []

    @classmethod
    def from_flat(cls, n_classes: int, n_features: int, trees: FlatTrees) -> TreeEnsemble:
        """Rebuild an ensemble from flat arrays."""
        ensemble = cls(n_classes, n_features)
        ensemble._parts = [trees]
        ensemble.n_rounds = trees.n_rounds
        return ensemble

    @property
    def n_trees(self) -> int:
        """Number of trees in all rounds."""
        return sum(part.plus.size for part in self._parts)

    def append_round(self, trees: Sequence[Tree] | FlatTrees) -> None:
        """Add the trees of one round."""
        part = trees if isinstance(trees, FlatTrees) else FlatTrees.from_rounds([trees])
        self._parts.append(part)
        self.n_rounds += part.n_rounds

    def truncate(self, n_rounds: int) -> None:
        """Keep only the first `n_rounds` rounds."""
        self._parts = [FlatTrees.from_rounds(list(self.rounds())[:n_rounds])]
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

    def raw_scores(self, X: AnyArray, workers: Workers, n_rounds: int | None = None) -> Floats:
        """Sum the trees of the first `n_rounds` rounds.

        Returns
        -------
        scores : array of shape (n_samples, n_classes)
        """
        scores = np.zeros((X.shape[0], self.n_classes))
        stop = self.n_rounds if n_rounds is None else n_rounds
        add_tree_scores(X, self.flat(), 0, stop, scores, workers)
        return scores

    def staged_raw_scores(self, X: AnyArray, workers: Workers) -> Iterator[Floats]:
        """Yield the summed scores after each round; the array is the same one every time."""
        scores = np.zeros((X.shape[0], self.n_classes))
        for m in range(self.n_rounds):
            add_tree_scores(X, self.flat(), m, m + 1, scores, workers)
            yield scores

    def feature_importance(self, kind: str, n_rounds: int | None = None) -> Floats:
        """Total gain ("gain") or number ("count") of the splits on every feature."""
        totals = np.zeros(self.n_features)
        for tree in self.trees(n_rounds):
            inner = tree.feature != LEAF
            amounts = tree.gain[inner] if kind == "gain" else None
            totals += np.bincount(tree.feature[inner], weights=amounts, minlength=self.n_features)
        return totals


@dataclass(frozen=True)
class FlatTrees:
    """Trees as flat arrays: node arrays one behind the other, children numbered within their tree.

    Attributes
    ----------
    round_start : array of int64, shape (n_rounds + 1,)
        Round m has the trees round_start[m] .. round_start[m + 1] - 1.
    node_start : array of int64, shape (n_trees + 1,)
        Tree t has the nodes node_start[t] .. node_start[t + 1] - 1.
    plus, minus : array of int32, shape (n_trees,)
    feature, threshold, missing_left, left, right, value, gain, weight : arrays of shape (n_nodes,)
        As in `Tree`.
    """

    round_start: AnyArray
    node_start: AnyArray
    plus: Integers
    minus: Integers
    feature: Integers
    threshold: Floats
    missing_left: Booleans
    left: Integers
    right: Integers
    value: Floats
    gain: Floats
    weight: Floats

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return self.round_start.size - 1

    @classmethod
    def from_rounds(cls, rounds: Sequence[Sequence[Tree]]) -> FlatTrees:
        """Lay the trees of all rounds behind one another."""
        trees = [tree for round_trees in rounds for tree in round_trees]
        return cls(
            round_start=_starts([len(round_trees) for round_trees in rounds]),
            node_start=_starts([tree.feature.size for tree in trees]),
            plus=np.array([tree.plus for tree in trees], dtype=np.int32),
            minus=np.array([tree.minus for tree in trees], dtype=np.int32),
            **{name: _concatenate([getattr(tree, name) for tree in trees], name) for name in NODE_FIELDS},
        )

    @classmethod
    def join(cls, parts: Sequence[FlatTrees]) -> FlatTrees:
        """Put several sets of rounds behind one another."""
        return cls(
            round_start=_starts([size for part in parts for size in np.diff(part.round_start)]),
            node_start=_starts([size for part in parts for size in np.diff(part.node_start)]),
            **{name: _concatenate([getattr(part, name) for part in parts], name) for name in TREE_DTYPES},
        )

    def to_rounds(self) -> list[tuple[Tree, ...]]:
        """Split into trees again; node arrays are views."""
        trees = [
            Tree(
                int(self.plus[t]),
                int(self.minus[t]),
                **{name: getattr(self, name)[self.node_start[t] : self.node_start[t + 1]] for name in NODE_FIELDS},
            )
            for t in range(self.plus.size)
        ]
        starts = self.round_start
        return [tuple(trees[starts[m] : starts[m + 1]]) for m in range(starts.size - 1)]


TREE_DTYPES: dict[str, np.dtype[Any]] = {
    "plus": np.dtype(np.int32),
    "minus": np.dtype(np.int32),
    "feature": np.dtype(np.int32),
    "threshold": np.dtype(np.float64),
    "missing_left": np.dtype(np.bool_),
    "left": np.dtype(np.int32),
    "right": np.dtype(np.int32),
    "value": np.dtype(np.float64),
    "gain": np.dtype(np.float64),
    "weight": np.dtype(np.float64),
}


def _concatenate(parts: Sequence[AnyArray], name: str) -> AnyArray:
    return np.concatenate(parts) if parts else np.empty(0, TREE_DTYPES[name])


def _starts(sizes: Sequence[int]) -> AnyArray:
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts
