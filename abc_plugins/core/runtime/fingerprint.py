"""Digests that tell data from other data, for checkpoints, studies and comparisons."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.runtime.sparse_table import SparseTable, Table

_PREFIX = "blake2b:"


def digest_arrays(*arrays: AnyArray) -> str:
    """Digest of arrays of any kind, Python objects included; their order and shapes count."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.kind}{array.shape}".encode())
        if array.dtype == object:
            digest.update(repr(array.tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def digest_array(array: AnyArray, *more: str | bytes) -> str:
    """Digest of an array of numbers, and of what belongs to it; `is_digest` knows it."""
    digest = hashlib.blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(array).data)
    for part in more:
        digest.update(part.encode() if isinstance(part, str) else part)
    return _PREFIX + digest.hexdigest()


def digest_table(X: Table) -> str:
    """Digest of a table that does not depend on its layout or on whether float32 was enough."""
    digest = hashlib.blake2b(repr(X.shape).encode(), digest_size=16)
    for f in range(X.shape[1]):
        if isinstance(X, SparseTable) and X.fill[f] == 0.0:
            rows, values = X.stored(f)
            rows, values = rows[values != 0.0], values[values != 0.0]
        else:
            column = X.column(f) if isinstance(X, SparseTable) else X[:, f]
            rows = np.flatnonzero(column)
            values = column[rows]
        digest.update(rows.astype(np.uint32).data)
        digest.update(values.astype(np.float64).data)
    return _PREFIX + digest.hexdigest()


def is_digest(value: Any) -> bool:
    """Whether a value is what `digest_array` or `digest_table` gave."""
    return isinstance(value, str) and value.startswith(_PREFIX)
