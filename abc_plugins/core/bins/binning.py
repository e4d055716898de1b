"""Quantile binning: every feature becomes at most `max_bins` bins, plus one for missing values.

A feature with no more distinct values than bins keeps every one of them, so that the split search sees exactly
the splits that the raw values allow. Only where nearly all samples share one value, as in sparse data, the others have
fewer bins than that: their number, and with it the size of histograms, would be that of all values stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Bins, Booleans, Floats
from abc_plugins.core.runtime.jit import kernel
from abc_plugins.core.runtime.parallel import Workers

_FEATURES_AT_A_TIME = 8
_ROWS_AT_A_TIME = 4096
_GLANCE = 256
MOST_BINS = 255

ALL_VALUES = MOST_BINS + 1
"""In place of `max_bins`: every value has a bin of its own, as categories do."""

ALWAYS_APART = 16
"""Up to this many values have a bin each."""

_DOMINANT_SHARE = 0.95
_RARE_VALUES_PER_BIN = 4
"""Where one value has the dominant share, this many other values share a bin."""

_FEWEST_BINS = 64
_ROWS_PER_BIN = 64


def default_max_bins(n_samples: int) -> int:
    """Default number of bins for `n_samples` samples: finer bins make small data slower, and no better."""
    return max(_FEWEST_BINS, min(n_samples // _ROWS_PER_BIN, MOST_BINS))


@dataclass(frozen=True)
class FeatureBins:
    """The bins of one feature.

    Attributes
    ----------
    edges : array of shape (n_bins - 1,)
        Increasing thresholds; bin b holds the values x with edges[b - 1] < x <= edges[b].
    has_missing : bool
        Whether the training data has missing values here; their bin is number n_bins.
    """

    edges: Floats
    has_missing: bool

    @property
    def n_bins(self) -> int:
        """Number of bins of values that are there."""
        return self.edges.size + 1

    def threshold(self, bin_index: int) -> float:
        """The largest raw value that falls into this bin or a lower one."""
        return float(self.edges[bin_index]) if bin_index < self.edges.size else np.inf


def find_bins(column: Floats, weights: Floats | None, max_bins: int) -> FeatureBins:
    """Choose the bins of one feature.

    Parameters
    ----------
    column : array of shape (n_samples,)
        NaN is missing.
    weights : array of shape (n_samples,) or None
        None stands for equal weights.
    max_bins : int
    """
    values, masses = distinct_values(column, weights)
    return bins_between(values, masses, bool(np.isnan(column).any()), max_bins)


def bins_between(values: Floats, masses: Floats, has_missing: bool, max_bins: int) -> FeatureBins:
    """Choose the bins of a feature with these distinct values, which have these total weights."""
    n_present = values.size
    if n_present <= 1:
        return FeatureBins(np.empty(0), has_missing)
    max_bins = _worthwhile_bins(masses, max_bins)
    last_of_bin = _spread_over_bins(masses, max_bins)[:-1] if n_present > max_bins else np.arange(n_present - 1)
    lower, upper = values[last_of_bin], values[last_of_bin + 1]
    middle = lower / 2 + upper / 2
    # Between neighbouring floats the middle may round up to the upper value, which must stay on the right.
    return FeatureBins(np.where((middle >= lower) & (middle < upper), middle, lower), has_missing)


def _worthwhile_bins(masses: Floats, max_bins: int) -> int:
    """Bins for values of such masses: fewer than `max_bins` where all but one of them are rare."""
    if masses.size <= ALWAYS_APART or max_bins == ALL_VALUES or masses.max() < _DOMINANT_SHARE * masses.sum():
        return max_bins
    return min(max_bins, max(ALWAYS_APART, masses.size // _RARE_VALUES_PER_BIN))


def distinct_values(column: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Sorted distinct values without NaN, and the total weight of each."""
    if weights is None:
        values = np.sort(column)  # NaN goes to the end
        values = values[: values.size - np.count_nonzero(np.isnan(column))]
        first = _first_of_runs(values)
        return values[first], np.diff(first, append=values.size).astype(np.float64)
    present = ~np.isnan(column)
    order = np.argsort(column[present], kind="stable")
    values = column[present][order]
    first = _first_of_runs(values)
    masses = np.add.reduceat(weights[present][order], first) if first.size else np.empty(0)
    return values[first], masses


def _first_of_runs(values: Floats) -> AnyArray:
    """Positions at which a sorted array takes a new value."""
    if values.size == 0:
        return np.empty(0, dtype=np.int64)
    return np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))


@kernel
def _spread_over_bins(masses, max_bins):
    """Group sorted distinct values into bins of about equal mass; return the last value of every bin.

    A bin is closed when it has its share of the mass that is left, so that a few very frequent values do not use
    up the bins of all others.
    """
    last = np.empty(max_bins, dtype=np.int64)
    n_bins = 0
    left = masses.sum()
    mass = 0.0
    for j in range(masses.size):
        share = left / (max_bins - n_bins)
        # Close before a value that would overshoot by more than stopping short falls behind.
        if mass > 0.0 and n_bins < max_bins - 1 and mass + masses[j] - share > share - mass:
            last[n_bins] = j - 1
            n_bins += 1
            left -= mass
            mass = 0.0
        mass += masses[j]
    last[n_bins] = masses.size - 1
    return last[: n_bins + 1]


@kernel
def to_bins(column, edges, missing_bin, out):
    """Bin of every value: the number of edges below it."""
    n_edges = edges.size
    for i in range(column.size):
        x = column[i]
        if x != x:
            out[i] = missing_bin
            continue
        low = 0
        high = n_edges
        while low < high:
            middle = (low + high) >> 1
            if edges[middle] < x:
                low = middle + 1
            else:
                high = middle
        out[i] = low


def bin_features(
    X: AnyArray, weights: Floats | None, max_bins: int, workers: Workers, is_categorical: Booleans | None = None
) -> tuple[list[FeatureBins], Bins]:
    """Find the bins of every feature and apply them.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Any real dtype; NaN is missing.
    weights : array of shape (n_samples,) or None
    max_bins : int
    workers : Workers
    is_categorical : array of bool, shape (n_features,), optional

    Returns
    -------
    features : list of FeatureBins
    bins : array of uint8, shape (n_features, n_samples)
    """
    n_samples, n_features = X.shape
    bins = np.empty((n_features, n_samples), dtype=np.uint8)
    features: list[FeatureBins] = [FeatureBins(np.empty(0), False)] * n_features
    # Features side by side share cache lines, but threads want several lots each.
    at_a_time = max(1, min(_FEATURES_AT_A_TIME, n_features // (4 * workers.n_threads)))

    def bin_some(first: int, _thread: int) -> None:
        for f, column in enumerate(_copy_columns(X[:, first : first + at_a_time]), start=first):
            of_column = ALL_VALUES if is_categorical is not None and is_categorical[f] else max_bins
            features[f] = _bin_column(column, weights, of_column, bins[f])

    workers.over_items(range(0, n_features, at_a_time), bin_some)
    return features, bins


def _copy_columns(X: AnyArray) -> AnyArray:
    """Columns of a table as contiguous rows; some samples at a time, as those stay in the cache meanwhile."""
    if X.flags.f_contiguous:
        return X.T
    columns = np.empty(X.shape[::-1], dtype=X.dtype)
    for start in range(0, len(X), _ROWS_AT_A_TIME):
        columns[:, start : start + _ROWS_AT_A_TIME] = X[start : start + _ROWS_AT_A_TIME].T
    return columns


def _bin_column(column: AnyArray, weights: Floats | None, max_bins: int, out: AnyArray) -> FeatureBins:
    """Find the bins of one feature, and write the bin of every value to `out`."""
    integers = _as_small_integers(column) if weights is None else None
    if integers is not None:
        return _bin_by_counting(integers, max_bins, out)
    column = column.astype(np.float64, copy=False)
    feature = find_bins(column, weights, max_bins)
    to_bins(column, feature.edges, feature.n_bins, out)
    return feature


def _as_small_integers(column: AnyArray) -> AnyArray | None:
    """The column as integers of one or two bytes, if all its values are such."""
    if column.dtype.kind in "iu" and column.dtype.itemsize <= 2:
        return column
    limits = np.iinfo(np.int16)
    for part in (column[:_GLANCE], column):  # most columns that are no integers show it soon
        if not (part.min() >= limits.min and part.max() <= limits.max):
            return None
        integers = part.astype(np.int16)
        if not np.array_equal(integers, part):
            return None
    return integers


def _bin_by_counting(column: AnyArray, max_bins: int, out: AnyArray) -> FeatureBins:
    """Bin integers of few bytes: there are so few values that each has a place in a table."""
    places = column.view(f"u{column.dtype.itemsize}")  # negative ones come behind the others
    n_places = 2 ** (8 * column.dtype.itemsize)
    n_negative = n_places // 2 if column.dtype.kind == "i" else 0
    counts = np.roll(np.bincount(places, minlength=n_places), n_negative)
    present = np.flatnonzero(counts)
    values = (present - n_negative).astype(np.float64)
    feature = bins_between(values, counts[present].astype(np.float64), False, max_bins)
    bin_of = np.zeros(n_places, dtype=np.uint8)
    bin_of[present] = np.searchsorted(feature.edges, values)
    np.take(np.roll(bin_of, -n_negative), places, out=out, mode="clip")
    return feature
