"""Tables of which most values are the same: only the others are stored, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csc_array

from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.jit import kernel

_BLOCK_BYTES = 2**26
"""Bytes of rows that are made dense at a time."""

_FEWEST_ROWS = 64


@dataclass(frozen=True)
class SparseTable:
    """Features of some samples, as `numpy` arrays are: it has a shape and a dtype, and rows can be taken out of it.

    Attributes
    ----------
    matrix : csc_array of float32 or float64, shape (n_samples, n_features)
        The stored values, rows increasing within a column and none twice. Zeros and NaN may be stored, too.
    fill : array of float64, shape (n_features,)
        What all other values of a column are: 0, unless the table says otherwise; NaN is missing.
    """

    matrix: Any
    fill: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Kind of the stored values."""
        return np.dtype(self.matrix.dtype)

    def __getitem__(self, rows: Any) -> SparseTable:
        """Some rows: a slice, indices or a mask."""
        matrix = self.matrix[rows]
        matrix.sort_indices()
        return SparseTable(matrix, self.fill)

    def stored(self, f: int) -> tuple[AnyArray, AnyArray]:
        """Rows and values that are stored of a column; views."""
        here = slice(self.matrix.indptr[f], self.matrix.indptr[f + 1])
        return self.matrix.indices[here], self.matrix.data[here]

    def column(self, f: int) -> Floats:
        """All values of a column."""
        values = np.full(self.shape[0], self.fill[f])
        rows, stored = self.stored(f)
        values[rows] = stored
        return values

    def row_blocks(self, features: AnyArray) -> Iterator[tuple[slice, Floats]]:
        """Go over all rows with these features, some rows made dense at a time.

        Yields
        ------
        rows : slice
        values : array of float64, shape (n_rows, n_features)
        """
        n_samples, indptr = self.shape[0], self.matrix.indptr
        at_a_time = max(_FEWEST_ROWS, _BLOCK_BYTES // (8 * max(1, features.size)))
        position = indptr[features].astype(np.int64)
        stop = indptr[features + 1].astype(np.int64)
        for first in range(0, n_samples, at_a_time):
            last = min(first + at_a_time, n_samples)
            values = np.tile(self.fill[features], (last - first, 1))
            _put_rows(self.matrix.indices, self.matrix.data, position, stop, first, last, values)
            yield slice(first, last), values


Table: TypeAlias = AnyArray | SparseTable


def make_sparse_table(matrix: Any, fill: Floats | None = None) -> SparseTable:
    """Make a table of a CSC matrix, which is copied where it has to be put in order; by default all else is zero."""
    if not matrix.has_canonical_format:
        matrix = csc_array(matrix.tocsr().tocsc())  # keeps the order of values that are to be added up
        matrix.sum_duplicates()
    dtype = np.float32 if matrix.dtype == np.float32 else np.float64
    parts = (
        matrix.data.astype(dtype, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.indptr.astype(np.int64, copy=False),
    )
    table = csc_array(matrix.shape, dtype=dtype)
    table.data, table.indices, table.indptr = parts  # as they are: the constructor would give indices one type
    return SparseTable(table, np.zeros(matrix.shape[1]) if fill is None else fill)


@kernel
def _put_rows(indices, data, position, stop, first, last, values):
    """Write the values stored of rows first..last - 1; `position` moves on to what is stored of later ones."""
    for j in range(position.size):
        at = position[j]
        while at < stop[j] and indices[at] < last:
            values[indices[at] - first, j] = data[at]
            at += 1
        position[j] = at
