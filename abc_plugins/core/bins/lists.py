"""Bins of mostly equal features as lists: only the samples that are not in the feature's default bin.

A feature takes five bytes for every such sample, and four for its histogram entry, instead of one or more for every
sample there is. While samples are sent left or right by a listed feature, its bins are spread out in a spare array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Bins, Integers
from abc_plugins.core.runtime.jit import kernel, part_of_kernel

LISTED = -1
"""In place of a row of `Columns.codes`: the bins of the feature are in lists."""


class CodeLists(NamedTuple):
    """The listed features; all arrays are empty if there are none.

    Attributes
    ----------
    row_of : array of int32, shape (n_split_features,)
        Row of `Columns.codes` of every feature, or LISTED.
    start : array of int64, shape (n_split_features + 1,)
        Where the samples of a feature begin in the two arrays below.
    rows, codes : arrays of uint32 and uint8
        The samples that are not in the default bin, increasing within a feature, and their bins.
    entry_start : array of int64, shape (n_samples + 1,)
        Where the entries of a sample begin.
    entries : array of uint32
        The histogram cells of the listed features that a sample adds to, sample after sample.
    """

    row_of: Integers
    start: AnyArray
    rows: AnyArray
    codes: Bins
    entry_start: AnyArray
    entries: AnyArray

    @property
    def n_bytes(self) -> int:
        """Memory of the lists."""
        return sum(array.nbytes for array in self)


class SpareCodes(NamedTuple):
    """The bins of one listed feature for all samples.

    Attributes
    ----------
    codes : array of uint8, shape (n_samples,) or (0,) if no feature is listed
    feature : array of int64, shape (1,)
        The feature that is there, or -1.
    """

    codes: Bins
    feature: AnyArray


def no_lists() -> CodeLists:
    """All features have rows of `Columns.codes`."""
    return CodeLists(
        row_of=np.empty(0, dtype=np.int32),
        start=np.zeros(1, dtype=np.int64),
        rows=np.empty(0, dtype=np.uint32),
        codes=np.empty(0, dtype=np.uint8),
        entry_start=np.zeros(1, dtype=np.int64),
        entries=np.empty(0, dtype=np.uint32),
    )


def make_spare_codes(columns: Any) -> SpareCodes:
    """Make the spare array for the listed features of `Columns`."""
    n_samples = columns.codes.shape[1] if columns.lists.row_of.size else 0
    return SpareCodes(np.empty(n_samples, dtype=np.uint8), np.full(1, -1, dtype=np.int64))


def with_entries(lists: CodeLists, n_samples: int, first_cell: AnyArray, default_bin: Integers) -> CodeLists:
    """Add the histogram entries of the listed features, whose cells begin at `first_cell`."""
    entry_start = np.zeros(n_samples + 1, dtype=np.int64)
    np.cumsum(np.bincount(lists.rows, minlength=n_samples), out=entry_start[1:])
    entries = np.empty(lists.rows.size, dtype=np.uint32)
    _fill_entries(lists.start, lists.rows, lists.codes, first_cell, default_bin, entry_start[:-1].copy(), entries)
    return lists._replace(entry_start=entry_start, entries=entries)


@kernel
def _fill_entries(start, rows, codes, first_cell, default_bin, position, entries):
    """Write the entries; `position` holds where the next one of every sample goes."""
    for f in range(start.size - 1):
        for j in range(start[f], start[f + 1]):
            row = rows[j]
            entries[position[row]] = first_cell[f] + codes[j] - (codes[j] > default_bin[f])
            position[row] += 1


@part_of_kernel
def codes_of(columns, f, spare):
    """The bins of feature `f` for all samples."""
    lists = columns.lists
    if lists.row_of.size == 0:
        return columns.codes[f]
    if lists.row_of[f] != LISTED:
        return columns.codes[lists.row_of[f]]
    _spread_out(lists.start, lists.rows, lists.codes, columns.default_bin, f, spare)
    return spare.codes


@kernel
def _spread_out(start, rows, codes, default_bin, f, spare):
    """Write the bins of a listed feature to the spare array, unless they are there."""
    if spare.feature[0] == f:
        return
    spread = spare.codes
    for i in range(spread.size):
        spread[i] = default_bin[f]
    for j in range(start[f], start[f + 1]):
        spread[rows[j]] = codes[j]
    spare.feature[0] = f


@kernel
def spread_codes(columns, f, spare):
    """The bins of feature `f` for all samples, for callers that are no kernels."""
    return codes_of(columns, f, spare)
