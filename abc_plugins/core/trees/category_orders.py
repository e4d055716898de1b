"""Which trees sort the categories of which features (see `categories`), and when none does.

Sorting pays where the order of the category numbers means nothing. Where it means something, as with the files of a
chess board, the order that is right at the root is wrong further down, and the natural one is right everywhere: then
the splits of trees that sort gain hardly more than those of trees that do not, which the first rounds show. Small data
gain from two kinds of splits in any case. And where categories have few samples their order is noise, which sorting
would fit.
"""

from __future__ import annotations

import numpy as np

from abc_plugins.core.bins.columns import Columns
from abc_plugins.core.model.ensemble import LEAF, THRESHOLD, FlatTrees, TreeEnsemble
from abc_plugins.core.runtime.arrays import Booleans, Floats

_SORTED_SHARE = 0.5
"""Of the trees, while categories are sorted."""

_SAMPLES_PER_CATEGORY = 32
"""A feature with fewer samples for each category, in the mean, is never sorted."""

_FIRST_ROUNDS = 50
_LEAST_GAIN_SHARE = 0.58
"""After `_FIRST_ROUNDS` rounds sorting goes on if trees that sort have at least this share of the gain of categorical
splits. That is more than half: sorted categories have more splits to choose from, and gain more on noise as well."""

_MANY_SAMPLES = 2048
"""With fewer samples sorting goes on in any case."""

_OF_CATEGORIES = 2**32 - 1
"""In place of a tree, for the draw of the features that are sorted."""


class CategoryOrders:
    """Draws the features that trees sort, and decides whether sorting goes on.

    Parameters
    ----------
    columns : Columns
    n_samples, seed : int
    """

    def __init__(self, columns: Columns, n_samples: int, seed: int) -> None:
        self._may_sort = columns.is_categorical & (columns.n_bins * _SAMPLES_PER_CATEGORY <= n_samples)
        self._sorts_any = bool(self._may_sort.any())
        self._features, self._seed = columns.feature, seed
        self._in_trial = self._sorts_any and n_samples >= _MANY_SAMPLES

    def draw(self, round_index: int, n_trees: int) -> Booleans:
        """The features whose categories each tree of a round sorts, shape (n_trees, n_split_features)."""
        if not self._sorts_any:
            return np.zeros((n_trees, self._may_sort.size), dtype=np.bool_)
        random = np.random.default_rng([self._seed, round_index, _OF_CATEGORIES])
        return (random.random((n_trees, self._may_sort.size)) < _SORTED_SHARE) & self._may_sort

    def settle(self, model: TreeEnsemble) -> None:
        """Decide, once the model has the trees of enough rounds."""
        if not self._in_trial or model.n_rounds < _FIRST_ROUNDS:
            return
        self._in_trial = False
        natural, by_sums = self._mean_gains(model.flat().first_rounds(_FIRST_ROUNDS))
        if by_sums < _LEAST_GAIN_SHARE * (natural + by_sums):
            self._may_sort, self._sorts_any = np.zeros_like(self._may_sort), False

    def _mean_gains(self, trees: FlatTrees) -> Floats:
        """Gain of a tree from splits of the features that may be sorted: in natural order, and sorted."""
        n_features = self._may_sort.size
        drawn = [self.draw(m, int(n)) for m, n in enumerate(np.diff(trees.round_start))]
        n_sorted = np.concatenate(drawn).sum(axis=0)
        counts = np.maximum([trees.n_trees - n_sorted, n_sorted], 1)
        inner = np.flatnonzero(trees.feature != LEAF)
        place = np.searchsorted(self._features, trees.feature[inner])
        is_sorted = trees.left_set[inner] != THRESHOLD
        gains = np.bincount(
            place + n_features * is_sorted, weights=trees.gain[inner], minlength=2 * n_features
        ).reshape(2, n_features)
        return np.asarray((gains / counts)[:, self._may_sort].sum(axis=1))
