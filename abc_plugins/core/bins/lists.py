"""Bins that take less than a byte per sample: lists of mostly equal features, and bits of those with two bins.

A list has only the samples that are not in the feature's default bin: five bytes for every such sample, and four for
its histogram entry. Of many samples, features with two bins are kept as bits. While samples are sent left or right by
such a feature, its bins are spread out in a spare array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Bins, Integers
from abc_plugins.core.runtime.jit import kernel, part_of_kernel

LISTED = -1
"""In place of a row of `Columns.codes`: the bins of the feature are in lists."""

FIRST_BITS = -2
"""In place of a row of `Columns.codes`: the bins are in the first row of bits; -3 is the second one, and so on."""

_ROWS_WORTH_BITS = 2**15
_WORTHWHILE_SHARE = 0.25
"""Bits are used for more samples than that, if they are the bins of this share of the features."""


class CodeLists(NamedTuple):
    """The features that are lists or bits; all arrays are empty if there are none.

    Attributes
    ----------
    row_of : array of int32, shape (n_split_features,)
        Row of `Columns.codes` of every feature, or LISTED, or FIRST_BITS and below.
    start : array of int64, shape (n_split_features + 1,)
        Where the samples of a feature begin in the two arrays below.
    rows, codes : arrays of uint32 and uint8
        The samples that are not in the default bin, increasing within a feature, and their bins.
    entry_start : array of int64, shape (n_samples + 1,)
        Where the entries of a sample begin.
    entries : array of uint32
        The histogram cells of the listed features that a sample adds to, sample after sample.
    bits : array of uint8, shape (n_features_of_bits, n_samples / 8, rounded up)
        The bins of eight samples in each byte, those of the first one in the lowest bit.
    """

    row_of: Integers
    start: AnyArray
    rows: AnyArray
    codes: Bins
    entry_start: AnyArray
    entries: AnyArray
    bits: Bins

    @property
    def n_bytes(self) -> int:
        """Memory of the lists."""
        return sum(array.nbytes for array in self)


class SpareCodes(NamedTuple):
    """The bins of one feature that is a list or bits, for all samples.

    Attributes
    ----------
    codes : array of uint8, shape (n_samples,) or (0,) if there is no such feature
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
        bits=np.empty((0, 0), dtype=np.uint8),
    )


def pack_bits(codes: Bins, n_codes: AnyArray) -> tuple[Bins, CodeLists]:
    """Keep the features that have two codes as bits, if it is worth it: the codes of all others, and the bits.

    Parameters
    ----------
    codes : array of uint8, shape (n_features, n_samples)
    n_codes : array of int, shape (n_features,)
    """
    has_bits = n_codes == 2
    if codes.shape[1] <= _ROWS_WORTH_BITS or has_bits.sum() < _WORTHWHILE_SHARE * has_bits.size:
        return codes, no_lists()
    row_of = np.where(has_bits, FIRST_BITS + 1 - np.cumsum(has_bits), np.cumsum(~has_bits) - 1).astype(np.int32)
    bits = np.stack([np.packbits(codes[f], bitorder="little") for f in np.flatnonzero(has_bits)])
    return codes[~has_bits], no_lists()._replace(row_of=row_of, bits=bits)


def make_spare_codes(columns: Any) -> SpareCodes:
    """Make the spare array for the features of `Columns` that are lists or bits."""
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
    row = lists.row_of[f]
    if row >= 0:
        return columns.codes[row]
    if spare.feature[0] != f:
        if row == LISTED:
            _spread_list(lists.start, lists.rows, lists.codes, columns.default_bin, f, spare.codes)
        else:
            _spread_bits(lists.bits[FIRST_BITS - row], spare.codes)
        spare.feature[0] = f
    return spare.codes


@kernel
def _spread_list(start, rows, codes, default_bin, f, spread):
    """Write the bins of a listed feature to the spare array."""
    for i in range(spread.size):
        spread[i] = default_bin[f]
    for j in range(start[f], start[f + 1]):
        spread[rows[j]] = codes[j]


@kernel
def _spread_bits(bits, spread):
    """Write the bins of a feature of bits to the spare array."""
    whole = spread.size // 8
    for byte in range(whole):
        eight = bits[byte]
        for k in range(8):
            spread[8 * byte + k] = (eight >> k) & 1
    for i in range(8 * whole, spread.size):
        spread[i] = (bits[whole] >> (i & 7)) & 1


@kernel
def spread_codes(columns, f, spare):
    """The bins of feature `f` for all samples, for callers that are no kernels."""
    return codes_of(columns, f, spare)
