"""Sparse matrices and tables with sparse columns, read without making them dense.

Columns of categories are stored in full: the number of a category that was zero may be another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.sparse_table import SparseTable, Table, make_sparse_table
from abc_plugins.data.columns import ENCODE_FIRST, Role, levels_of_numbers, read_column

_INDEX_BYTES = 4


def is_worthwhile(n_stored: int, shape: Sequence[int], itemsize: int) -> bool:
    """Whether the stored values with their rows take less memory than all values."""
    return n_stored * (itemsize + _INDEX_BYTES) < shape[0] * shape[1] * itemsize


def read_matrix(X: Any, input_name: str) -> Table:
    """Read a SciPy matrix or array of any format; one that is smaller made dense is."""
    if X.dtype.kind not in "biuf":
        if X.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: {input_name} is a sparse matrix of {X.dtype}.")
        raise ValueError(
            f"{input_name} has the dtype {X.dtype}, but features must be numbers or booleans, and {ENCODE_FIRST}"
        )
    if len(X.shape) != 2:
        raise ValueError(
            f"Expected a 2-dimensional matrix for {input_name}, got {len(X.shape)} dimension(s) instead. Reshape your "
            "data: one row per sample."
        )
    itemsize = 4 if X.dtype == np.float32 else 8
    if 0 in X.shape or not is_worthwhile(X.nnz, X.shape, itemsize):
        return np.asarray(X.toarray())
    return make_sparse_table(X.tocsc())


def read_categories(
    table: SparseTable, roles: Sequence[Role], names: Sequence[str] | None, input_name: str
) -> tuple[SparseTable, list[AnyArray | None] | None]:
    """Find the levels of the categorical columns of a matrix, and put their indices in place of the values."""
    chosen = [f for f, role in enumerate(roles) if role is Role.CATEGORY]
    if not chosen:
        return table, None
    levels: list[AnyArray | None] = [None] * len(roles)
    rows, values, start = [], [], 0
    sizes = np.diff(table.matrix.indptr)
    data, indices, indptr = table.matrix.data, table.matrix.indices, table.matrix.indptr
    for f in chosen:
        name = f if names is None else repr(names[f])
        numbers, levels[f] = levels_of_numbers(table.column(f), f"column {name} of {input_name}")
        rows += [indices[indptr[start] : indptr[f]], np.arange(numbers.size, dtype=np.int32)]
        values += [data[indptr[start] : indptr[f]], numbers]
        sizes[f], start = numbers.size, f + 1
    rows.append(indices[indptr[start] :])
    values.append(data[indptr[start] :])
    return _assemble(table.shape, sizes, rows, values, np.float64, table.fill), levels


def read_sparse_frame(
    frame: Any, roles: Sequence[Role], input_name: str
) -> tuple[SparseTable, list[AnyArray | None]] | None:
    """Read a pandas table that has sparse columns, if it is worthwhile; else None.

    Parameters
    ----------
    frame : narwhals.DataFrame
    roles : sequence of Role
    input_name : str
    """
    if not frame.implementation.is_pandas() or not any(map(_is_sparse, frame.to_native().dtypes)):
        return None
    n_samples, n_features = frame.shape
    levels: list[AnyArray | None] = [None] * n_features
    fill = np.zeros(n_features)
    rows: list[AnyArray] = []
    values: list[AnyArray] = []
    narrow = True
    for f, column in enumerate(frame.iter_columns()):
        array = column.to_native().array
        if _is_sparse(array.dtype) and roles[f] is not Role.CATEGORY:
            stored, fill[f] = array.sp_values, float(array.fill_value)
            at = array.sp_index.to_int_index().indices
        else:
            stored, levels[f] = read_column(column, roles[f], input_name)
            at = np.arange(n_samples) if levels[f] is not None else np.flatnonzero(stored)
            stored = stored[at]
        narrow = narrow and stored.dtype == np.float32
        rows.append(at.astype(np.int32))
        values.append(stored)
    dtype = np.float32 if narrow else np.float64
    sizes = np.array([len(at) for at in rows])
    if not is_worthwhile(int(sizes.sum()), frame.shape, np.dtype(dtype).itemsize):
        return None
    return _assemble(frame.shape, sizes, rows, values, dtype, fill), levels


def infinite_column(table: SparseTable) -> int | None:
    """The first column with an infinite value, None if there is none."""
    infinite = np.flatnonzero(np.isinf(table.matrix.data))
    columns = [int(np.searchsorted(table.matrix.indptr, infinite[0], side="right")) - 1] if infinite.size else []
    columns += np.flatnonzero(np.isinf(table.fill)).tolist()
    return min(columns) if columns else None


def _is_sparse(dtype: Any) -> bool:
    """Whether a dtype of pandas is one of sparse numbers or booleans."""
    return type(dtype).__name__ == "SparseDtype" and dtype.subtype.kind in "biuf"


def _assemble(
    shape: Sequence[int], sizes: AnyArray, rows: list[AnyArray], values: list[AnyArray], dtype: Any, fill: Floats
) -> SparseTable:
    """Make a table of rows and values, one column after the other."""
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    data = np.concatenate([part.astype(dtype, copy=False) for part in values])
    return make_sparse_table(csc_array((data, np.concatenate(rows), indptr), shape=tuple(shape)), fill)
