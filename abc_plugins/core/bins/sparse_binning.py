"""Bins of sparse tables, from what is stored: the same as those of the table made dense, to the last bit."""

from __future__ import annotations

import numpy as np

from abc_plugins.core.bins.binning import ALL_VALUES, ALWAYS_APART, FeatureBins, bins_between, distinct_values, to_bins
from abc_plugins.core.bins.lists import LISTED, CodeLists, no_lists
from abc_plugins.core.runtime.arrays import AnyArray, Bins, Booleans, Floats
from abc_plugins.core.runtime.sparse_table import SparseTable

_WORTHWHILE_SHARE = 0.125
"""A feature is listed if no more than this share of the samples is outside of its default bin."""


class _Lists:
    """Codes of features one after the other: as lists, or as rows."""

    def __init__(self, n_samples: int, n_stored: int) -> None:
        self.n_samples = n_samples
        self.rows = np.empty(n_stored, dtype=np.uint32)
        self.codes = np.empty(n_stored, dtype=np.uint8)
        self.start = [0]
        self.row_of: list[int] = []
        self.default_bin: list[int] = []
        self.dense: list[Bins] = []

    def append(self, rows: AnyArray, codes: Bins, default: int, listed_at_all: bool) -> None:
        """Add a feature: the bins of some samples, and that of all others."""
        others = codes != default
        n_others = int(np.count_nonzero(others))
        end = self.start[-1]
        self.default_bin.append(default)
        if listed_at_all and n_others <= _WORTHWHILE_SHARE * self.n_samples:
            self.rows[end : end + n_others], self.codes[end : end + n_others] = rows[others], codes[others]
            self.start.append(end + n_others)
            self.row_of.append(LISTED)
            return
        spread = np.full(self.n_samples, default, dtype=np.uint8)
        spread[rows] = codes
        self.row_of.append(len(self.dense))
        self.dense.append(spread)
        self.start.append(end)

    def finish(self) -> tuple[Bins, CodeLists]:
        """Codes of the features that are not listed, and the lists."""
        codes = np.stack(self.dense) if self.dense else np.empty((0, self.n_samples), dtype=np.uint8)
        if LISTED not in self.row_of:
            return codes, no_lists()
        self.rows.resize(self.start[-1], refcheck=False)
        self.codes.resize(self.start[-1], refcheck=False)
        return codes, no_lists()._replace(
            row_of=np.array(self.row_of, dtype=np.int32), start=np.array(self.start), rows=self.rows, codes=self.codes
        )


def bin_sparse_features(
    X: SparseTable, weights: Floats | None, max_bins: int, is_categorical: Booleans | None = None
) -> tuple[list[FeatureBins], Bins, CodeLists, list[int]]:
    """Find the bins of every feature and apply them; those that never vary have no codes.

    Parameters
    ----------
    X : SparseTable
    weights : array of shape (n_samples,) or None
        None stands for equal weights.
    max_bins : int
    is_categorical : array of bool, shape (n_features,), optional

    Returns
    -------
    features : list of FeatureBins
        Of all features; what follows is of those that vary.
    codes : array of uint8, shape (n_rows, n_samples)
    lists : CodeLists
        Without entries.
    default_bin : list of int
        The bin of the values that are not stored.
    """
    n_samples, n_features = X.shape
    features = []
    lists = _Lists(n_samples, X.matrix.nnz)
    for f in range(n_features):
        is_category = is_categorical is not None and bool(is_categorical[f])
        rows, stored = X.stored(f)
        values, fill = stored.astype(np.float64), float(X.fill[f])
        feature = _find_bins(rows, values, fill, n_samples, weights, ALL_VALUES if is_category else max_bins)
        features.append(feature)
        if feature.n_bins + feature.has_missing > 1:
            codes = np.empty(values.size, dtype=np.uint8)
            to_bins(values, feature.edges, feature.n_bins, codes)
            default = feature.n_bins if np.isnan(fill) else int(np.searchsorted(feature.edges, fill))
            lists.append(rows, codes, default, listed_at_all=not is_category)
    return features, *lists.finish(), lists.default_bin


def _find_bins(
    rows: AnyArray, values: Floats, fill: float, n_samples: int, weights: Floats | None, max_bins: int
) -> FeatureBins:
    """Choose the bins of one feature."""
    n_others = n_samples - values.size
    has_missing = bool(np.isnan(values).any()) or (np.isnan(fill) and n_others > 0)
    distinct, masses = distinct_values(values, None if weights is None else weights[rows])
    if n_others > 0 and not np.isnan(fill):
        place = int(np.searchsorted(distinct, fill))
        is_stored = place < distinct.size and distinct[place] == fill
        if not is_stored:
            distinct, masses = np.insert(distinct, place, fill), np.insert(masses, place, 0.0)
        if weights is None:
            masses[place] += n_others
        elif distinct.size > min(max_bins, ALWAYS_APART):  # else every value has a bin, whatever its mass
            masses[place] = _mass_of_others(rows[values != fill], weights)
    return bins_between(distinct, masses, has_missing, max_bins)


def _mass_of_others(rows: AnyArray, weights: Floats) -> float:
    """Weight of all samples but these, summed in the order in which a dense column is."""
    others = np.ones(weights.size, dtype=np.bool_)
    others[rows] = False
    return float(np.add.reduceat(weights[others], [0])[0])
