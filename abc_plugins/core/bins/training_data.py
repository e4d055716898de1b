"""Training data as the booster takes it: binned columns, class indices and weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abc_plugins.core.bins.binning import bin_features
from abc_plugins.core.bins.columns import Columns, lay_out, make_columns, varying
from abc_plugins.core.bins.lists import make_spare_codes, spread_codes
from abc_plugins.core.bins.sparse_binning import bin_sparse_features
from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats, Integers
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.sparse_table import SparseTable, Table

_HASH_FACTOR = np.uint32(0x01000193)
_MIX_FACTOR = np.uint32(0x85EBCA6B)


@dataclass(frozen=True)
class TrainingData:
    """Binned samples with labels and weights.

    Attributes
    ----------
    columns : Columns
    labels : array of int32, shape (n_samples,)
        Class indices.
    weights : array of float64, shape (n_samples,)
        All positive.
    n_classes, n_features : int
    """

    columns: Columns
    labels: Integers
    weights: Floats
    n_classes: int
    n_features: int
    _edges: Floats
    _first_edge: AnyArray

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.labels.size

    @property
    def split_edges(self) -> tuple[Floats, AnyArray]:
        """Raw thresholds of the bins of all features of `columns`, and where those of each feature begin."""
        return self._edges, self._first_edge

    def bins_of_categories(self, feature: int) -> AnyArray:
        """The bin of each of 256 categories, for a categorical feature given as index into those of `columns`."""
        n_edges = self.columns.n_bins[feature] - 1
        edges = self._edges[self._first_edge[feature] : self._first_edge[feature] + n_edges]
        return np.searchsorted(edges, np.arange(256.0))

    def parts(self, n_parts: int) -> AnyArray:
        """Deal the samples out to `n_parts` parts, by a hash of their bins.

        Samples that are alike are in one part, so that none has a twin elsewhere, and parts depend neither on the
        order of the samples nor on whether one of weight 2 is given once or twice. Parts have about the same size
        unless many samples are alike.

        Returns
        -------
        array of uint8, shape (n_samples,)
        """
        hashes = np.zeros(self.n_samples, dtype=np.uint32)
        spare = make_spare_codes(self.columns)
        for f in range(self.columns.feature.size):
            codes = spread_codes(self.columns, f, spare)
            hashes ^= codes
            hashes *= _HASH_FACTOR
        hashes ^= hashes >> np.uint32(16)
        hashes *= _MIX_FACTOR
        hashes ^= hashes >> np.uint32(13)
        return (hashes % np.uint32(n_parts)).astype(np.uint8)


def make_training_data(
    X: Table,
    labels: Integers,
    weights: Floats,
    n_classes: int,
    max_bins: int,
    workers: Workers,
    is_categorical: Booleans | None = None,
) -> TrainingData:
    """Bin the samples.

    Parameters
    ----------
    X : array or SparseTable, shape (n_samples, n_features)
    labels : array of int32, shape (n_samples,)
    weights : array of shape (n_samples,)
        Positive; samples without weight must have been left out.
    n_classes, max_bins : int
    workers : Workers
    is_categorical : array of bool, shape (n_features,), optional
        Columns whose values are numbers of categories, from 0 to 254.
    """
    equal = bool(np.all(weights == weights[0]))
    unequal = None if equal else weights
    if isinstance(X, SparseTable):
        features, bins, lists, default_bin = bin_sparse_features(X, unequal, max_bins, is_categorical)
        columns = lay_out(features, varying(features), bins, lists, default_bin, is_categorical)
    else:
        features, bins = bin_features(X, unequal, max_bins, workers, is_categorical)
        columns = make_columns(features, bins, is_categorical)
    # "All present values left, missing ones right" is a split at infinity.
    edges = [np.append(features[f].edges, np.inf) for f in columns.feature]
    first_edge = np.cumsum([0] + [e.size for e in edges])[:-1].astype(np.int64)
    return TrainingData(
        columns=columns,
        labels=labels,
        weights=weights,
        n_classes=n_classes,
        n_features=X.shape[1],
        _edges=np.concatenate(edges) if edges else np.empty(0),
        _first_edge=first_edge,
    )
