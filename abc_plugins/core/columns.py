"""The binned training data as the tree kernels read it.

A *column* is an array of one byte a sample, its *codes*; a histogram has one cell for every code of every column.
Features that never vary are left out: they can never be split on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abc_plugins.core.arrays import AnyArray, Bins, Booleans, Integers
from abc_plugins.core.binning import FeatureBins

N_CODES = 256
"""Number of values that a code of one byte can take."""


class Columns(NamedTuple):
    """Codes of all samples and what they mean.

    Attributes
    ----------
    codes : array of uint8, shape (n_columns, n_samples)
    column_start : array of int64, shape (n_columns + 1,)
        Histogram cell of each column's code 0.
    feature : array of int32, shape (n_split_features,)
        Features that can be split on, as numbered in the user's data; the arrays below go with it.
    feature_column : array of int32
        The column that holds the feature.
    n_bins : array of int32
        Number of bins of present values; bin number n_bins is the one of missing values.
    has_missing : array of bool
    """

    codes: Bins
    column_start: AnyArray
    feature: Integers
    feature_column: Integers
    n_bins: Integers
    has_missing: Booleans


def make_columns(features: Sequence[FeatureBins], bins: Bins) -> Columns:
    """Lay out binned features, shape (n_features, n_samples), as columns."""
    n_codes = np.array([feature.n_bins + feature.has_missing for feature in features], dtype=np.int64)
    kept = np.flatnonzero(n_codes > 1).astype(np.int32)
    column_start = np.zeros(kept.size + 1, dtype=np.int64)
    np.cumsum(n_codes[kept], out=column_start[1:])
    return Columns(
        codes=bins if kept.size == len(features) else np.ascontiguousarray(bins[kept]),
        column_start=column_start,
        feature=kept,
        feature_column=np.arange(kept.size, dtype=np.int32),
        n_bins=np.array([features[f].n_bins for f in kept], dtype=np.int32),
        has_missing=np.array([features[f].has_missing for f in kept], dtype=np.bool_),
    )
