"""The binned training data as the tree kernels read it.

Copies in two layouts, one byte and about two bytes per value (and another byte where features are joined, see `joint`):

* *codes*, feature by feature, for sending the samples of a node left or right (see `lists` for those of two bins);
* *entries*, sample by sample, for histograms. An entry is the number of the histogram cell that the sample adds to.

Where most samples share one bin of a feature (zeros, one-hot columns), that *default* bin has neither entries nor a
cell: its sum is the node's total minus the rest. So a row of 44 one-hot columns costs as much as one or two features.
Features that never vary are left out altogether: they can never be split on.

Of sparse tables, features with few samples outside of their default bin are kept as lists instead, see `lists`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abc_plugins.core.bins.binning import FeatureBins
from abc_plugins.core.bins.joint import JointColumns, make_joint, no_joint
from abc_plugins.core.bins.lists import LISTED, CodeLists, no_lists, pack_bits, with_entries
from abc_plugins.core.runtime.arrays import AnyArray, Bins, Booleans, Integers
from abc_plugins.core.runtime.jit import kernel, part_of_kernel

STORED = -1
"""In place of a default bin: all bins have entries and cells."""

_DOMINANT_SHARE = 0.5
"""A bin with at least this share of the samples may become the feature's default bin."""

_GLANCE = 1024
"""Samples that are looked at to find the bin that may be the default."""

_WORTHWHILE_SAVING = 0.25
"""Default bins are used if they save this share of all entries: rows of unequal length cost a little, too."""

_CELLS_PER_GROUP = 32768
"""Features are put into groups of at most this many cells, so that a group's histogram stays in the cache."""


class Columns(NamedTuple):
    """Codes and entries of all samples, and what they mean.

    Attributes
    ----------
    codes : array of uint8, shape (n_split_features, n_samples)
        Bin of every value; bin number n_bins is the one of missing values. Without the features that are in `lists`.
    entries : array of uint16
        Cell numbers within their group: group after group, within a group sample after sample.
    row_start : array of int64, shape (n_groups, n_samples + 1) or (n_groups, 0)
        Where a sample's entries begin; not needed if all samples have equally many.
    row_width : array of int64, shape (n_groups,)
        Entries of every sample if all have equally many, else -1.
    group_entry, group_cell : arrays of int64, shape (n_groups + 1,)
        First entry and first cell of each group.
    feature : array of int32, shape (n_split_features,)
        Features that can be split on, as numbered in the user's data; the arrays below go with it.
    first_cell, n_cells : arrays of int64 and int32
        Histogram cells of the feature, in the order of its bins.
    n_bins : array of int32
        Number of bins of present values.
    has_missing : array of bool
    default_bin : array of int32
        The bin without a cell, or STORED.
    is_categorical : array of bool
        Bins are categories.
    joint : JointColumns
    lists : CodeLists
    """

    codes: Bins
    entries: AnyArray
    row_start: AnyArray
    row_width: AnyArray
    group_entry: AnyArray
    group_cell: AnyArray
    feature: Integers
    first_cell: AnyArray
    n_cells: Integers
    n_bins: Integers
    has_missing: Booleans
    default_bin: Integers
    is_categorical: Booleans
    joint: JointColumns
    lists: CodeLists

    @property
    def total_cells(self) -> int:
        """Number of histogram cells of all features."""
        return int(self.n_cells.sum())

    @property
    def n_splits(self) -> int:
        """Number of possible splits of all features, which does not depend on the layout."""
        return int((self.n_bins + self.has_missing - 1).sum())


class FeatureCells(NamedTuple):
    """What the search for splits needs of `Columns`, see there: a kernel with fewer arguments compiles faster."""

    first_cell: AnyArray
    n_cells: Integers
    n_bins: Integers
    has_missing: Booleans
    default_bin: Integers


@part_of_kernel
def feature_cells(columns):
    """Pick the cells of the features."""
    return FeatureCells(columns.first_cell, columns.n_cells, columns.n_bins, columns.has_missing, columns.default_bin)


class RowEntries(NamedTuple):
    """What the histogram of a node needs of `Columns`, see there: each argument of a call takes time."""

    entries: AnyArray
    row_start: AnyArray
    row_width: AnyArray
    group_entry: AnyArray
    group_cell: AnyArray
    listed: AnyArray
    listed_start: AnyArray


@part_of_kernel
def row_entries(columns):
    """Pick the entries of the samples; `listed` are those of features that are lists."""
    return RowEntries(
        columns.entries,
        columns.row_start,
        columns.row_width,
        columns.group_entry,
        columns.group_cell,
        columns.lists.entries,
        columns.lists.entry_start,
    )


def make_columns(features: Sequence[FeatureBins], bins: Bins, is_categorical: Booleans | None = None) -> Columns:
    """Lay out binned features, shape (n_features, n_samples); by default none is categorical."""
    kept = varying(features)
    codes = bins if kept.size == len(features) else np.ascontiguousarray(bins[kept])
    columns = lay_out(features, kept, codes, no_lists(), [], is_categorical)
    codes, bits = pack_bits(codes, columns.n_bins + columns.has_missing)
    return columns._replace(codes=codes, lists=bits)


def varying(features: Sequence[FeatureBins]) -> Integers:
    """The features that can be split on."""
    return np.array([f for f, feature in enumerate(features) if feature.n_bins + feature.has_missing > 1], np.int32)


def lay_out(
    features: Sequence[FeatureBins],
    kept: Integers,
    codes: Bins,
    lists: CodeLists,
    listed_default: Sequence[int],
    is_categorical: Booleans | None,
) -> Columns:
    """Lay out the features `kept`, with their bins as rows of `codes` or in lists.

    Parameters
    ----------
    features : sequence of FeatureBins
        Of all features.
    kept : array of int32, shape (n_split_features,)
    codes : array of uint8, shape (n_rows, n_samples)
    lists : CodeLists
        Without entries.
    listed_default : sequence of int, one per feature of `kept`
        Default bins of those that are listed; empty if none is.
    is_categorical : array of bool, shape (n_features,), or None
    """
    n_bins = np.array([features[f].n_bins for f in kept], dtype=np.int32)
    has_missing = np.array([features[f].has_missing for f in kept], dtype=np.bool_)
    is_categorical = np.zeros(kept.size, dtype=np.bool_) if is_categorical is None else is_categorical[kept]
    is_listed = lists.row_of == LISTED if lists.row_of.size else np.zeros(kept.size, dtype=np.bool_)
    in_rows = np.flatnonzero(~is_listed)
    default_bin = np.full(kept.size, STORED, dtype=np.int32)
    default_bin[in_rows] = _default_bins(codes)
    default_bin[is_categorical] = STORED  # every category has a place in the order of a tree
    if is_listed.any():
        default_bin[is_listed] = np.array(listed_default)[is_listed]
    n_cells = n_bins + has_missing - (default_bin != STORED)
    first_cell = np.zeros(kept.size, dtype=np.int64)
    order = np.argsort(is_listed, kind="stable")  # the cells of listed features come behind all others
    first_cell[order[1:]] = np.cumsum(n_cells[order])[:-1]
    group_feature = _group_features(n_cells[in_rows])
    group_cell = np.append(first_cell[in_rows], n_cells[in_rows].sum())[group_feature]
    entries, row_start, row_width, group_entry = _make_entries(
        codes, first_cell[in_rows], default_bin[in_rows], group_feature, group_cell
    )
    return Columns(
        codes=codes,
        entries=entries,
        row_start=row_start,
        row_width=row_width,
        group_entry=group_entry,
        group_cell=group_cell,
        feature=kept,
        first_cell=first_cell,
        n_cells=n_cells.astype(np.int32),
        n_bins=n_bins,
        has_missing=has_missing,
        default_bin=default_bin,
        is_categorical=is_categorical,
        joint=make_joint(codes, n_cells) if np.all(default_bin == STORED) else no_joint(),
        lists=with_entries(lists, codes.shape[1], first_cell, default_bin) if is_listed.any() else lists,
    )


def _default_bins(codes: Bins) -> Integers:
    """Most frequent bin of the features that it dominates, if leaving those out is worth it."""
    n_features, n_samples = codes.shape
    default_bin = np.full(n_features, STORED, dtype=np.int32)
    saved = 0
    for f in range(n_features):
        # A bin of half of the samples is the most frequent one of some, too, or so close that it does not matter.
        likely = np.bincount(codes[f, :: 1 + n_samples // _GLANCE]).argmax()
        count = np.count_nonzero(codes[f] == likely)
        if count >= _DOMINANT_SHARE * n_samples:
            default_bin[f] = likely
            saved += int(count)
    if saved < _WORTHWHILE_SAVING * n_features * n_samples:
        default_bin[:] = STORED
    return default_bin


def _group_features(n_cells: AnyArray) -> AnyArray:
    """First feature of every group, and the number of features behind the last."""
    starts, cells = [0] if n_cells.size else [], 0
    for f, size in enumerate(n_cells):
        if cells + size > _CELLS_PER_GROUP:
            starts.append(f)
            cells = 0
        cells += int(size)
    return np.array([*starts, n_cells.size], dtype=np.int64)


def _make_entries(
    codes: Bins, first_cell: AnyArray, default_bin: Integers, group_feature: AnyArray, group_cell: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    n_groups, n_samples = group_feature.size - 1, codes.shape[1]
    row_start = np.zeros((n_groups, n_samples + 1), dtype=np.int64)
    for g in range(n_groups):
        _count_entries(codes, default_bin, group_feature[g], group_feature[g + 1], row_start[g, 1:])
    widths = row_start[:, 1:]
    equal = (widths == widths[:, :1]).all(axis=1)
    row_width = np.where(equal, widths[:, 0], -1)
    np.cumsum(row_start, axis=1, out=row_start)
    group_entry = np.concatenate(([0], np.cumsum(row_start[:, -1])))
    entries = np.empty(group_entry[-1], dtype=np.uint16)
    for g in range(n_groups):
        _fill_entries(
            codes,
            first_cell - group_cell[g],
            default_bin,
            group_feature[g],
            group_feature[g + 1],
            row_start[g, :-1].copy(),
            entries[group_entry[g] : group_entry[g + 1]],
        )
    return entries, row_start[:, :0].copy() if equal.all() else row_start, row_width, group_entry


@kernel
def _count_entries(codes, default_bin, first_feature, last_feature, counts):
    """Add the number of entries of every sample to `counts`."""
    for f in range(first_feature, last_feature):
        for i in range(counts.size):
            counts[i] += codes[f, i] != default_bin[f]


@kernel
def _fill_entries(codes, first_cell, default_bin, first_feature, last_feature, position, entries):
    """Write the entries of one group; `position` holds where the next entry of every sample goes."""
    for f in range(first_feature, last_feature):
        default = default_bin[f]
        for i in range(position.size):
            code = codes[f, i]
            if code != default:
                entries[position[i]] = first_cell[f] + code - (default != STORED and code > default)
                position[i] += 1
