"""Prediction: sum the leaf values that each row reaches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from abc_plugins.core.arrays import AnyArray, Floats
from abc_plugins.core.jit import kernel
from abc_plugins.core.parallel import ROWS_PER_BLOCK, Workers

if TYPE_CHECKING:
    from abc_plugins.core.model import FlatTrees

_ROWS_PER_COPY = 64 * ROWS_PER_BLOCK
"""Rows that are brought into the kernels' layout at a time, where they are not in it already."""


@kernel
def _add_blocks(
    X,
    node_start,
    plus,
    minus,
    feature,
    threshold,
    missing_left,
    left,
    right,
    value,
    first_tree,
    last_tree,
    scores,
    first_block,
    last_block,
):
    """Add trees first_tree..last_tree to the scores of some blocks of rows, tree by tree within a block."""
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, X.shape[0])
        for t in range(first_tree, last_tree):
            root = node_start[t]
            k = plus[t]
            b = minus[t]
            for i in range(start, stop):
                node = root
                while feature[node] >= 0:
                    x = X[i, feature[node]]
                    goes_left = x <= threshold[node] or (x != x and missing_left[node])
                    node = root + (left[node] if goes_left else right[node])
                scores[i, k] += value[node]
                if b >= 0:
                    scores[i, b] -= value[node]


def add_tree_scores(
    X: AnyArray, trees: FlatTrees, first_round: int, last_round: int, scores: Floats, workers: Workers
) -> None:
    """Add the trees of rounds first_round..last_round - 1 to `scores`.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Any real dtype and order; NaN is missing.
    trees : FlatTrees
    first_round, last_round : int
    scores : array of shape (n_samples, n_classes)
    workers : Workers
    """
    first_tree, last_tree = trees.round_start[first_round], trees.round_start[last_round]
    for start in range(0, X.shape[0], _ROWS_PER_COPY):
        rows = slice(start, start + _ROWS_PER_COPY)
        part = np.ascontiguousarray(X[rows], dtype=np.float64)
        add_blocks = partial(
            _add_blocks,
            part,
            trees.node_start,
            trees.plus,
            trees.minus,
            trees.feature,
            trees.threshold,
            trees.missing_left,
            trees.left,
            trees.right,
            trees.value,
            first_tree,
            last_tree,
            scores[rows],
        )
        workers.over_rows(part.shape[0], add_blocks)
