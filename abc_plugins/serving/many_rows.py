"""Prediction of many rows by the kernels, which needs Numba."""

from __future__ import annotations

import numpy as np

from abc_plugins.core.model.ensemble import FlatTrees
from abc_plugins.core.model.predicting import add_tree_scores, plan_rounds
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.parallel import Workers


class ManyRows:
    """Trees, laid out for many rows.

    Parameters
    ----------
    trees : FlatTrees
        Checked by `validation`.
    start_scores : array of shape (n_classes,)
        Scores before the first tree.
    n_threads : int
    """

    def __init__(self, trees: FlatTrees, start_scores: Floats, n_threads: int) -> None:
        self._trees, self._start_scores, self._n_threads = trees, start_scores, n_threads
        self._plan = plan_rounds(trees, 0, trees.n_rounds)

    def raw_scores(self, X: AnyArray) -> Floats:
        """Sum the trees, as `FewRows.raw_scores` does."""
        scores = np.tile(self._start_scores, (X.shape[0], 1))
        with Workers(self._n_threads) as workers:  # not kept: a forked process would wait for threads that it lacks
            add_tree_scores(X, self._trees, 0, self._trees.n_rounds, scores, workers, self._plan)
        return scores
