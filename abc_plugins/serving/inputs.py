"""Rows to predict as arrays: without a table library, from what JSON, Parquet readers and NumPy give."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.values import clip_infinity, is_missing
from abc_plugins.data.categories import Categories

ALLOWED = (
    "an array of shape (n_samples, n_features), a table or dict of columns by feature name, or a list of dicts of "
    "values by name"
)


def read_rows(X: Any, names: Sequence[str] | None, categories: Categories) -> AnyArray:
    """Read rows for a model that knows these names and categories.

    Returns
    -------
    values : array of float32 or float64, shape (n_samples, n_features)
        Categories are numbers, missing values NaN, and infinite ones the largest numbers, as for the classifier.
    """
    n_features = len(categories.levels)
    columns = _columns_by_name(X, names)
    if columns is None:
        array = _as_matrix(X, n_features)
        if array.dtype.kind in "biuf" and not categories.any:
            return _checked(array if array.dtype in (np.float32, np.float64) else array.astype(np.float64))
        columns = list(array.T)
    n_samples = len(columns[0])
    values = np.empty((n_samples, n_features))
    found: list[AnyArray | None] = [None] * n_features
    for f, column in enumerate(columns):
        if len(column) != n_samples:
            fail(f"X[{_name(f, names)}]", f"{len(column)} values", f"as long as the other columns, {n_samples} values")
        if categories.levels[f] is None:
            values[:, f] = _numbers(column, _name(f, names))
        else:
            values[:, f], found[f] = _levels(column, _name(f, names))
    categories.encode(values, found, names, "X")
    return _checked(values)


def _columns_by_name(X: Any, names: Sequence[str] | None) -> list[Any] | None:
    """Columns in the order of the model; None if X does not have names, or is a table and the model has none."""
    in_table = _names_in_table(X)
    if in_table is not None:
        return None if names is None else [np.asarray(column) for column in _pick(X, names, "X", in_table)]
    if isinstance(X, Mapping):
        columns = _pick(X, names, "X", X)
        lengths = [isinstance(column, Sequence | np.ndarray) and not isinstance(column, str) for column in columns]
        if not all(lengths):
            fail(
                f"X[{_name(lengths.index(False), names)}]",
                columns[lengths.index(False)],
                "a column of values",
                TypeError,
            )
        return columns
    if not isinstance(X, list | tuple) or not any(isinstance(row, Mapping) for row in X):
        return None
    for i, row in enumerate(X):
        if not isinstance(row, Mapping):
            fail(f"X[{i}]", row, "a dict of values by feature name, as the other rows are", TypeError)
    return [
        list(column) for column in zip(*(_pick(row, names, f"X[{i}]", row) for i, row in enumerate(X)), strict=True)
    ]


def _names_in_table(X: Any) -> list[str] | None:
    """Names of the columns of a pandas, polars or Arrow table; None for what is no table, or has other names."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    found = list(names) if names is not None and hasattr(X, "__getitem__") and not isinstance(X, Mapping) else []
    return found if found and all(isinstance(name, str) for name in found) else None


def _pick(values: Any, names: Sequence[str] | None, where: str, known: Collection[str]) -> list[Any]:
    if names is None:
        fail("X", "names of features", "an array of shape (n_samples, n_features): the model has no names of features")
    missing = [name for name in names if name not in known]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ValueError(
            f"{where} must have a value for every feature of the model (None if missing); it lacks {shown}."
        )
    return [values[name] for name in names]


def _as_matrix(X: Any, n_features: int) -> AnyArray:
    if isinstance(X, np.ndarray) and hasattr(X, "mask"):  # what is masked is missing
        data = np.asarray(X)
        X = np.where(X.mask, np.nan, data if data.dtype.kind in "biuf" else data.astype(object))
    try:
        array = np.asarray(X)
        if array.dtype.kind == "U":
            array = np.asarray(X, dtype=object)  # numbers beside strings stay numbers
    except ValueError as error:
        raise ValueError(f"X must be {ALLOWED}; got rows of different lengths.") from error
    if array.ndim != 2:
        fail("X", f"{array.ndim} dimensions" if array.ndim else f"an object of the type {type(X).__name__}", ALLOWED)
    if array.shape[1] != n_features:
        fail("X", f"{array.shape[1]} columns", f"of {n_features} columns, as the model has {n_features} features")
    if array.dtype.kind not in "biufO":
        fail("X", f"the dtype {array.dtype}", "numbers, booleans, and strings in categorical columns", TypeError)
    return array


def _numbers(column: Any, name: str) -> Floats:
    """A column of numbers; None, NaN and `pd.NA` are missing."""
    array = np.asarray(column)
    if array.dtype.kind in "biuf" and array.ndim == 1:
        return array.astype(np.float64)
    numbers = [np.nan if is_missing(value) else value for value in _items(column, name)]
    for value in numbers:
        if not isinstance(value, int | float | np.number | np.bool_):
            fail(f"X[{name}]", value, "numbers and missing values (None or NaN) only", TypeError)
    return _as_floats(numbers, name)


def _as_floats(numbers: list[Any], name: str) -> Floats:
    try:
        return np.array(numbers, dtype=np.float64)
    except OverflowError:
        fail(f"X[{name}]", "a number too large for float64", "numbers of float64 only")


def _levels(column: Any, name: str) -> tuple[Floats, AnyArray]:
    """Index of each value among the distinct ones, and these; None, NaN and `pd.NA` are missing."""
    items = [item.item() if isinstance(item, np.generic) else item for item in _items(column, name)]
    places: dict[Any, float] = {}
    try:
        indices = [np.nan if is_missing(item) else places.setdefault(item, float(len(places))) for item in items]
    except TypeError:
        fail(
            f"X[{name}]", next(item for item in items if not _is_plain(item)), "strings, numbers or booleans", TypeError
        )
    odd = next((item for item in places if not _is_plain(item)), None)
    if odd is not None:
        fail(f"X[{name}]", odd, "strings, numbers or booleans", TypeError)
    if any(isinstance(item, float) and math.isinf(item) for item in places):
        fail(f"X[{name}]", "infinity", "strings, numbers or booleans; missing values are None or NaN")
    levels = np.empty(len(places), dtype=object)
    levels[:] = list(places)
    return np.array(indices, dtype=np.float64), levels


def _items(column: Any, name: str) -> list[Any]:
    array = column if isinstance(column, np.ndarray) else None
    if array is not None and array.ndim != 1:
        fail(f"X[{name}]", f"{array.ndim} dimensions", "one column of values")
    if array is not None and array.dtype.kind not in "biufOUT":
        fail(f"X[{name}]", f"the dtype {array.dtype}", "strings, numbers or booleans", TypeError)
    return list(column.tolist() if array is not None else column)


def _is_plain(item: Any) -> bool:
    return isinstance(item, str | bool | int | float | np.number | np.bool_)


def _checked(values: AnyArray) -> AnyArray:
    """Refuse no rows; the largest numbers in place of infinite ones."""
    if values.shape[0] == 0:
        fail("X", "0 rows", "at least one row")
    if np.isinf(values).any():
        return clip_infinity(values)
    return values


def _name(f: int, names: Sequence[str] | None) -> str:
    return str(f) if names is None else repr(names[f])
