"""Input tables: features and weights of any table library as plain NumPy arrays.

pandas, polars, Arrow and whatever else narwhals reads go one way, everything array-like goes through
scikit-learn's validators. Errors have scikit-learn's wording where it has one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.sparse_table import SparseTable, Table
from abc_plugins.core.runtime.values import clip_infinity
from abc_plugins.data.categories import FROM_DTYPE, Categories, categorical_mask
from abc_plugins.data.columns import (
    ENCODE_FIRST,
    Role,
    is_text,
    levels_of_numbers,
    levels_of_values,
    read_column,
    refuse_column,
    warn_caller,
)
from abc_plugins.data.sparse import infinite_column, read_categories, read_matrix, read_sparse_frame

Levels: TypeAlias = "list[AnyArray | None] | None"

_MAX_LISTED = 5
"""Names listed in an error message before the rest is left out."""


@dataclass(frozen=True)
class Features:
    """The features of some samples.

    Attributes
    ----------
    values : array of float32 or float64 or SparseTable, shape (n_samples, n_features)
        NaN where a value is missing; the largest numbers in place of infinite ones; in categorical columns indices
        into their levels. C- or F-contiguous. With categorical columns a float64 array of its own; without, it may be
        the caller's array: do not write to it.
    names : list of str or None
        Column names; None if the table has none that are strings.
    levels : list of array or None, one per feature
        The levels of categorical columns; None for others, and in place of the list if there are no such columns.
    """

    values: Table
    names: list[str] | None
    levels: list[AnyArray | None] | None = None

    @property
    def array(self) -> AnyArray:
        """The values, for those who cannot use a sparse table."""
        if isinstance(self.values, SparseTable):
            raise TypeError("Sparse data is not supported here. Call X.toarray() to make it dense.")
        return self.values


def read_features(
    X: Any,
    *,
    names: Sequence[str] | None = None,
    n_features: int | None = None,
    input_name: str = "X",
    owner: str = "the model",
    keep_integers: bool = False,
    categorical: Any = None,
) -> Features:
    """Read a table of features.

    float32 and float64 arrays are taken as they are, without a copy unless they are neither C- nor F-contiguous.
    Everything else becomes float64, a table column by column into one F-ordered array (float32 if all its columns
    are). Integers beyond 2**53 are rounded to the nearest double, at fit and at predict alike: their order is kept,
    but close neighbours may become equal. Sparse matrices and tables with sparse columns stay sparse, unless they are
    smaller when made dense.

    Parameters
    ----------
    X : table, array-like of shape (n_samples, n_features), sparse matrix, or Features
    names, n_features : sequence of str and int, optional
        What the model was fitted with; given `n_features`, the columns of X are checked against both.
    input_name, owner : str
        How errors call the table and the model.
    keep_integers : bool
        Take arrays of integers of one or two bytes as they are, too, and booleans as bytes: training needs no floats.
    categorical : "from_dtype", list or None
        Columns to read as categories: those of strings and categories, or those in a list of names, indices or
        booleans; by default none.
    """
    source: Any = X.values if isinstance(X, Features) else _wrap_frame(X, input_name)
    source = read_matrix(source, input_name) if issparse(source) else source
    is_frame = isinstance(source, nw.DataFrame)
    found = X.names if isinstance(X, Features) else _column_names(source) if is_frame else None
    if n_features is not None:
        _check_names(found, names, input_name, owner)
        has_shape = is_frame or isinstance(source, SparseTable)
        shape = source.shape if has_shape else _as_array(source, input_name).shape if categorical is not None else ()
        if len(shape) == 2:
            _check_n_features(shape[1], n_features, input_name, owner)
    values: Table
    if isinstance(source, SparseTable):
        roles = _roles(categorical, found, source.shape[1])
        values, levels = read_categories(source, roles, found, input_name)
    elif is_frame:
        values, levels = _frame_values(source, found, input_name, categorical)
    elif isinstance(X, Features) and (X.levels is not None or isinstance(categorical, list)):
        values, levels = _coded_values(X, input_name, categorical)
    else:
        values, levels = _array_values(source, input_name, keep_integers, categorical)
    if n_features is not None:
        _check_n_features(values.shape[1], n_features, input_name, owner)
    values = _without_infinity(values)
    return Features(values, found, levels if any(one is not None for one in levels or ()) else None)


def read_known(X: Any, categories: Categories, names: Sequence[str] | None, input_name: str, owner: str) -> Table:
    """Read a table for a model that knows these categories and names."""
    mask = categories.is_categorical
    features = read_features(
        X,
        names=names,
        n_features=mask.size,
        input_name=input_name,
        owner=owner,
        categorical=mask.tolist() if categories.any else None,
    )
    categories.encode(features.values, features.levels, features.names, input_name)
    return features.values


def read_weights(sample_weight: Any, n_samples: int, *, input_name: str = "sample_weight") -> Floats | None:
    """Read sample weights: None if there are none, else an array of shape (n_samples,), finite and not negative."""
    if sample_weight is None:
        return None
    with _naming(input_name):
        weights = check_array(
            series_values(sample_weight, input_name),
            dtype=np.float64,
            order="C",
            ensure_2d=False,
            allow_nd=True,
            ensure_min_samples=0,
            input_name=input_name,
        )
    if weights.shape != (n_samples,):
        raise ValueError(
            f"{input_name} must have one weight for each of the {n_samples} samples, shape ({n_samples},); "
            f"got shape {weights.shape}."
        )
    if weights.min() < 0:
        row = int(np.argmin(weights))
        fail(f"{input_name}[{row}]", float(weights[row]), "0 or larger (a weight must not be negative)")
    if not weights.any():
        raise ValueError(f"{input_name} must have at least one weight that is not zero; all are.")
    return weights


# ------------------------------------------------------------------------------------------------ tables


def _wrap_frame(X: Any, input_name: str) -> Any:
    """Wrap a data frame of any library; anything else is returned as it is."""
    try:
        wrapped = nw.from_native(X, allow_series=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"{input_name} must have unique column names. {error}") from error
    if isinstance(wrapped, nw.LazyFrame):
        raise TypeError(
            f"{input_name} is a lazy table ({type(X).__name__}); compute it first, with .collect() or .compute()."
        )
    if isinstance(wrapped, nw.Series):
        raise ValueError(
            f"Expected a 2-dimensional table for {input_name}, got a {type(X).__name__} instead. Reshape your data: "
            "pass a table with a single column if it is one feature, or with a single row if it is one sample."
        )
    if isinstance(wrapped, nw.DataFrame):
        return _unique_columns(wrapped, input_name)
    if hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        return _unique_columns(nw.from_arrow(X, backend="pyarrow"), input_name)
    return X


def _unique_columns(frame: nw.DataFrame[Any], input_name: str) -> nw.DataFrame[Any]:
    try:
        frame.columns  # noqa: B018  (some libraries find duplicates only now)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"{input_name} must have unique column names. {error}") from error
    return frame


def _column_names(frame: nw.DataFrame[Any]) -> list[str] | None:
    """Names as scikit-learn sees them: all strings, or none at all."""
    columns = list(frame.columns)
    kinds = sorted({type(name).__qualname__ for name in columns})
    n_strings = sum(isinstance(name, str) for name in columns)
    if 0 < n_strings < len(columns):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{kinds} as column name types. Convert all of them to strings, or none."
        )
    return [str(name) for name in columns] if n_strings else None


def _roles(categorical: Any, names: list[str] | None, n_features: int) -> list[Role]:
    """How to read each column."""
    if categorical is None or isinstance(categorical, str):
        return [Role.BY_DTYPE if categorical == FROM_DTYPE else Role.NUMBER] * n_features
    mask = categorical_mask(categorical, names, n_features)
    return [Role.CATEGORY if chosen else Role.NUMBER for chosen in mask]


def _frame_values(
    frame: nw.DataFrame[Any], names: list[str] | None, input_name: str, categorical: Any
) -> tuple[Table, Levels]:
    dtypes = list(frame.schema.values())
    _check_not_empty(len(frame), len(dtypes), input_name)
    roles = _roles(categorical, names, len(dtypes))
    as_sparse = read_sparse_frame(frame, roles, input_name)
    if as_sparse is not None:
        return as_sparse
    narrow = all(dtype == nw.Float32 for dtype in dtypes) and Role.CATEGORY not in roles
    values = np.empty((len(frame), len(dtypes)), dtype=np.float32 if narrow else np.float64, order="F")
    levels: list[AnyArray | None] = [None] * len(dtypes)
    for index, column in enumerate(frame.iter_columns()):
        values[:, index], levels[index] = read_column(column, roles[index], input_name)
    return values, levels


def _coded_values(X: Features, input_name: str, categorical: Any) -> tuple[AnyArray, Levels]:
    """Read features, of which some may have levels already, again."""
    values, levels = np.array(X.values, dtype=np.float64, order="F"), list(X.levels or [None] * X.values.shape[1])
    for index, role in enumerate(_roles(categorical, X.names, len(levels))):
        name = str(index) if X.names is None else X.names[index]
        if role is Role.NUMBER and levels[index] is not None:
            refuse_column(name, "String", input_name)
        if role is Role.CATEGORY and levels[index] is None:
            values[:, index], levels[index] = levels_of_numbers(values[:, index], f"column {name!r} of {input_name}")
    return values, levels


# ------------------------------------------------------------------------------------------------ arrays


def _array_values(X: Any, input_name: str, keep_integers: bool, categorical: Any) -> tuple[AnyArray, Levels]:
    array = _as_array(X, input_name)
    if array.ndim == 2 and categorical is not None:
        roles = _roles(categorical, None, array.shape[1])
        if array.dtype.kind == "U":
            array = np.asarray(X if isinstance(X, list | tuple) else array, dtype=object)  # numbers beside strings
        if array.dtype.kind == "O" or Role.CATEGORY in roles:
            return _category_array(array, roles, input_name)
    return _number_array(array, input_name, keep_integers), None


def _category_array(array: AnyArray, roles: list[Role], input_name: str) -> tuple[AnyArray, Levels]:
    """Columns of an array of which some may be categories."""
    _check_not_empty(array.shape[0], array.shape[1], input_name)
    values = np.empty(array.shape, order="F")
    levels: list[AnyArray | None] = [None] * array.shape[1]
    numbers = []
    for f, role in enumerate(roles):
        where = f"column {f} of {input_name}"
        if role is Role.NUMBER or (role is Role.BY_DTYPE and not is_text(array[:, f].tolist())):
            numbers.append(f)
        elif array.dtype.kind == "O":
            values[:, f], levels[f] = levels_of_values(array[:, f].tolist(), where)
        else:
            values[:, f], levels[f] = levels_of_numbers(array[:, f], where)
    if numbers:
        values[:, numbers] = _number_array(array if len(numbers) == len(roles) else array[:, numbers], input_name)
    return values, levels


def _number_array(array: AnyArray, input_name: str, keep_integers: bool = False) -> AnyArray:
    if array.dtype.kind not in "biufcO":
        raise ValueError(
            f"{input_name} has the dtype {array.dtype}, but features must be numbers or booleans, and {ENCODE_FIRST}"
        )
    dtype: Any = np.float32 if array.dtype == np.float16 else [np.float64, np.float32]
    if keep_integers and array.dtype.kind in "biu" and array.dtype.itemsize <= 2 and array.dtype.isnative:
        array = array.astype(np.uint8) if array.dtype.kind == "b" else array
        dtype = array.dtype
    with _naming(input_name):
        values = check_array(array, dtype=dtype, ensure_all_finite=False, input_name=input_name)
    contiguous = values.flags.c_contiguous or values.flags.f_contiguous
    return values if contiguous else np.ascontiguousarray(values)


def _as_array(X: Any, input_name: str) -> AnyArray:
    if np.ma.is_masked(X):
        return np.ma.filled(X.astype(np.float64), np.nan)  # masked is missing
    try:
        return np.asarray(X)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(f"{input_name} must be a table whose rows all have the same length. {error}") from error


# ------------------------------------------------------------------------------------------------ checks


@contextmanager
def _naming(input_name: str) -> Iterator[None]:
    """Let errors of scikit-learn's validators, and of the conversions in them, name the input."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if re.search(rf"\b{re.escape(input_name)}\b", str(error)):
            raise
        raise type(error)(f"{input_name}: {error}") from error


def _check_not_empty(n_samples: int, n_features: int, input_name: str) -> None:
    shape = (n_samples, n_features)
    for count, what in ((n_samples, "sample(s)"), (n_features, "feature(s)")):
        if count == 0:
            raise ValueError(
                f"Found table {input_name} with 0 {what} (shape={shape}) while a minimum of 1 is required."
            )


def _without_infinity(values: Table) -> Table:
    """The values, without a copy if none of them is infinite."""
    if isinstance(values, SparseTable):
        if infinite_column(values) is None:
            return values
        matrix = values.matrix.astype(np.float64)
        matrix.data = clip_infinity(matrix.data)
        return SparseTable(matrix, clip_infinity(values.fill))
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind != "f" or np.isfinite(values.sum(dtype=np.float64)):
            return values  # no value that is not finite can be lost in a sum
    # Two passes without a temporary array; NaN is passed over.
    if np.isfinite(np.fmax.reduce(values, axis=None)) and np.isfinite(np.fmin.reduce(values, axis=None)):
        return values
    if not np.isinf(values).any():  # all are missing
        return values
    return clip_infinity(values)


def _check_n_features(found: int, fitted: int, input_name: str, owner: str) -> None:
    if found != fitted:
        raise ValueError(f"{input_name} has {found} features, but {owner} is expecting {fitted} features as input.")


def _check_names(found: list[str] | None, fitted: Sequence[str] | None, input_name: str, owner: str) -> None:
    """Compare column names with those of the training data, with scikit-learn's wording."""
    if found is None or fitted is None:
        if found is not None:
            warn_caller(f"{input_name} has feature names, but {owner} was fitted without feature names")
        elif fitted is not None:
            warn_caller(f"{input_name} does not have valid feature names, but {owner} was fitted with feature names")
        return
    fitted = list(fitted)
    if found == fitted:
        return
    unseen, missing = sorted(set(found) - set(fitted)), sorted(set(fitted) - set(found))
    message = "The feature names should match those that were passed during fit.\n"
    if unseen:
        message += "Feature names unseen at fit time:\n" + _bullets(unseen)
    if missing:
        message += "Feature names seen at fit time, yet now missing:\n" + _bullets(missing)
    if not unseen and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(message)


def _bullets(names: list[str]) -> str:
    lines = [f"- {name}\n" for name in names[:_MAX_LISTED]]
    return "".join(lines) + ("- ...\n" if len(names) > _MAX_LISTED else "")


def series_values(values: Any, input_name: str) -> Any:
    """Unwrap a column of a table library; anything else is returned as it is."""
    if np.ma.is_masked(values):
        raise ValueError(f"Input {input_name} contains masked values.")
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, pandas.api.extensions.ExtensionArray):
        values = pandas.Series(values)  # else NumPy would take integers for floats
    wrapped = nw.from_native(values, allow_series=True, pass_through=True)
    return wrapped.to_numpy() if isinstance(wrapped, nw.Series | nw.DataFrame) else values
