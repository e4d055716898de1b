"""Grow the trees of one round with XGBoost.

Every round has a booster of its own with one output per tree, on the user's DMatrix, whose bins all boosters share.
Its margins start at 0, so that after the round they are what each tree adds, without the rounding that the
difference of two float32 sums would have; and a search can have as many outputs as it has pairs of classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from xgboost import Booster, DMatrix

from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.xgb.format.trees import Document, TreeBytes, read_trees
from abc_plugins.xgb.format.ubjson import decode

_ONE_OUTPUT = {"objective": "reg:squarederror"}  # XGBoost's softmax has at least two


@dataclass(frozen=True)
class GrownTrees:
    """The trees that one booster grew.

    Attributes
    ----------
    booster : Booster
    trees : list of list of TreeBytes
        The trees of every output, one unless `num_parallel_tree` says otherwise.
    categories : dict
        The categories of the features as the model keeps them.
    """

    booster: Booster
    trees: list[list[TreeBytes]]
    categories: Document

    def additions(self, matrix: DMatrix) -> AnyArray:
        """Compute what every output adds to the rows of `matrix`, shape (n_outputs, n_samples), float32."""
        with without_base_margin(matrix):
            margins = self.booster.predict(matrix, output_margin=True, strict_shape=True)
        return np.ascontiguousarray(margins.reshape(matrix.num_row(), len(self.trees)).T)


class XGBoostGrower:
    """Grows trees on one matrix.

    Parameters
    ----------
    matrix : DMatrix
    """

    def __init__(self, matrix: DMatrix) -> None:
        self._matrix = matrix
        self._derivatives: AnyArray = np.empty((2, 0, matrix.num_row()), dtype=np.float32)

    def grow(
        self, params: Mapping[str, Any], n_outputs: int, write: Callable[[AnyArray, AnyArray], None], iteration: int
    ) -> GrownTrees:
        """Grow one tree (or `num_parallel_tree`) for every output.

        `write(gradients, hessians)` is to fill in two arrays of shape (n_outputs, n_samples).
        """
        matrix = self._matrix
        if self._derivatives.shape[1] < n_outputs:
            self._derivatives = np.empty((2, n_outputs, matrix.num_row()), dtype=np.float32)
        gradients, hessians = self._derivatives[:, :n_outputs]
        write(gradients, hessians)
        outputs = {"objective": "multi:softprob", "num_class": n_outputs} if n_outputs > 1 else _ONE_OUTPUT
        with without_base_margin(matrix):
            booster = Booster({**params, **outputs, "base_score": 0.0}, [matrix])
            # Margins must exist before the round, or the updater cannot add the new leaves to them.
            booster.predict(matrix, output_margin=True, training=True)
            booster.boost(matrix, iteration=iteration, grad=gradients.T, hess=hessians.T)
        model = read_model(booster)["learner"]["gradient_booster"]["model"]
        trees: list[list[TreeBytes]] = [[] for _ in range(n_outputs)]
        for output, tree in zip(model["tree_info"], model["trees"], strict=True):
            trees[output].append(tree)
        return GrownTrees(booster, trees, model.get("cats", {}))


def read_model(booster: Booster) -> Document:
    """Decode a booster's model; `trees` holds `TreeBytes`."""
    return decode(booster.save_raw("ubj"), {"trees": read_trees})


@contextmanager
def without_base_margin(matrix: DMatrix) -> Iterator[None]:
    """Take the user's margins, which have one column per class, off `matrix` while a round's booster sees it."""
    margins = matrix.get_base_margin()
    if margins.size == 0:
        yield
        return
    matrix.set_base_margin(np.empty(0, dtype=np.float32))
    try:
        yield
    finally:
        matrix.set_base_margin(margins)
