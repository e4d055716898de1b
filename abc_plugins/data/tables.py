"""Input tables: features, labels and weights of any table library as plain NumPy arrays.

pandas, polars, Arrow and whatever else narwhals reads go one way, everything array-like goes through
scikit-learn's validators. Errors have scikit-learn's wording where it has one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import narwhals
import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, column_or_1d

from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import fail

Column: TypeAlias = "narwhals.Series[Any]"

_COUNTED_LABELS = 2**16
_MAX_LISTED = 5
"""Names or labels listed in an error message before the rest is left out."""

_ENCODE_FIRST = "categorical features are not supported yet; encode strings, categories and dates as numbers first."


@dataclass(frozen=True)
class Features:
    """The features of some samples.

    Attributes
    ----------
    values : array of float32 or float64, shape (n_samples, n_features)
        NaN where a value is missing; never infinite. C- or F-contiguous, perhaps read-only, perhaps the caller's own.
    names : list of str or None
        Column names; None if the table has none that are strings.
    """

    values: AnyArray
    names: list[str] | None


def read_features(
    X: Any,
    *,
    names: Sequence[str] | None = None,
    n_features: int | None = None,
    input_name: str = "X",
    owner: str = "the model",
    keep_integers: bool = False,
) -> Features:
    """Read a table of features.

    float32 and float64 arrays are taken as they are, without a copy unless they are neither C- nor F-contiguous.
    Everything else becomes float64, a table column by column into one F-ordered array (float32 if all its columns
    are). Integers beyond 2**53 are rounded to the nearest double, at fit and at predict alike: their order is kept,
    but close neighbours may become equal.

    Parameters
    ----------
    X : table, array-like of shape (n_samples, n_features), or Features
    names, n_features : sequence of str and int, optional
        What the model was fitted with; given `n_features`, the columns of X are checked against both.
    input_name, owner : str
        How errors call the table and the model.
    keep_integers : bool
        Take arrays of integers of one or two bytes as they are, too, and booleans as bytes: training needs no floats.
    """
    source: Any = X.values if isinstance(X, Features) else _wrap_frame(X, input_name)
    is_frame = isinstance(source, nw.DataFrame)
    found = X.names if isinstance(X, Features) else _column_names(source) if is_frame else None
    if n_features is not None:
        _check_names(found, names, input_name, owner)
    values = _frame_values(source, input_name) if is_frame else _array_values(source, input_name, keep_integers)
    if n_features is not None and values.shape[1] != n_features:
        raise ValueError(
            f"{input_name} has {values.shape[1]} features, but {owner} is expecting {n_features} features as input."
        )
    _check_no_infinity(values, found, input_name)
    return Features(values, found)


def read_labels(y: Any, *, input_name: str = "y") -> tuple[AnyArray, Integers]:
    """Read the labels of the training data.

    Labels may be of any hashable kind whose values can be sorted; a list of tuples is a list of labels.

    Returns
    -------
    classes : array of shape (n_classes,)
        The distinct labels in ascending order, with the dtype they came in.
    codes : array of int32, shape (n_samples,)
        The class index of every label.
    """
    classes, codes = _factorize(_label_array(y, input_name), input_name)
    if classes.size < 2:
        raise ValueError(f"{input_name} must have at least two classes; got one class: {classes.tolist()[0]!r}.")
    return classes, codes


def encode_labels(y: Any, classes: AnyArray, *, input_name: str = "y") -> Integers:
    """Class index of every label, for labels that the training data has, too."""
    labels, codes = _factorize(_label_array(y, input_name), input_name)
    index = {label: k for k, label in enumerate(classes.tolist())}
    unknown = [label for label in labels.tolist() if label not in index]
    if unknown:
        raise ValueError(
            f"{input_name} has labels that are not among the classes of the training data: {_listed(unknown)}. "
            f"The classes are {_listed(list(index))}."
        )
    return np.array([index[label] for label in labels.tolist()], dtype=np.int32)[codes]


def read_weights(sample_weight: Any, n_samples: int, *, input_name: str = "sample_weight") -> Floats | None:
    """Read sample weights: None if there are none, else an array of shape (n_samples,), finite and not negative."""
    if sample_weight is None:
        return None
    with _naming(input_name):
        weights = check_array(
            _series_values(sample_weight, input_name),
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


def _frame_values(frame: nw.DataFrame[Any], input_name: str) -> AnyArray:
    dtypes = list(frame.schema.values())
    _check_not_empty(len(frame), len(dtypes), input_name)
    narrow = all(dtype == nw.Float32 for dtype in dtypes)
    values = np.empty((len(frame), len(dtypes)), dtype=np.float32 if narrow else np.float64, order="F")
    for index, column in enumerate(frame.iter_columns()):
        values[:, index] = _column_values(column, input_name)
    return values


def _column_values(column: Column, input_name: str) -> AnyArray:
    """One column as numbers; nulls become NaN."""
    dtype = column.dtype
    if dtype.is_float():
        return column.to_numpy()
    if dtype.is_numeric() or dtype == nw.Boolean:
        return column.cast(nw.Float64).to_numpy()
    if dtype != nw.Unknown:
        refuse_column(column.name, str(dtype), input_name)
    return _unknown_column_values(column, input_name)


def _unknown_column_values(column: Column, input_name: str) -> AnyArray:
    """Read a column whose dtype narwhals does not know: no value at all, sparse, long double, complex, ..."""
    if column.null_count() == len(column):
        return np.full(len(column), np.nan)
    values = column.to_numpy()
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: column {column.name!r} of {input_name} is {values.dtype}.")
    if values.dtype.kind not in "biuf":
        refuse_column(column.name, str(values.dtype), input_name)
    return values


def refuse_column(name: str, dtype: str, input_name: str) -> NoReturn:
    """Raise the error for a column that does not hold numbers."""
    raise ValueError(
        f"Column {name!r} of {input_name} has the dtype {dtype}, but features must be numbers or booleans: "
        f"{_ENCODE_FIRST}"
    )


# ------------------------------------------------------------------------------------------------ arrays


def _array_values(X: Any, input_name: str, keep_integers: bool) -> AnyArray:
    if issparse(X):
        raise TypeError(
            f"Sparse data is not supported: {input_name} is a {type(X).__name__}. "
            f"Call {input_name}.toarray() to make it dense."
        )
    array = _as_array(X, input_name)
    if array.dtype.kind not in "biufcO":
        raise ValueError(
            f"{input_name} has the dtype {array.dtype}, but features must be numbers or booleans: {_ENCODE_FIRST}"
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


def _check_no_infinity(values: AnyArray, names: list[str] | None, input_name: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind != "f" or np.isfinite(values.sum(dtype=np.float64)):
            return  # no value that is not finite can be lost in a sum
    # Two passes without a temporary array; NaN is passed over.
    if np.isfinite(np.fmax.reduce(values, axis=None)) and np.isfinite(np.fmin.reduce(values, axis=None)):
        return
    infinite = np.isinf(values).any(axis=0)
    if infinite.any():
        index = int(np.argmax(infinite))
        column = index if names is None else repr(names[index])
        raise ValueError(
            f"Input {input_name} contains infinity or a value too large for {values.dtype!r} in column {column}. "
            "Use NaN for a missing value."
        )


def _check_names(found: list[str] | None, fitted: Sequence[str] | None, input_name: str, owner: str) -> None:
    """Compare column names with those of the training data, with scikit-learn's wording."""
    if found is None or fitted is None:
        if found is not None:
            warnings.warn(f"{input_name} has feature names, but {owner} was fitted without feature names", stacklevel=4)
        elif fitted is not None:
            warnings.warn(
                f"{input_name} does not have valid feature names, but {owner} was fitted with feature names",
                stacklevel=4,
            )
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


def _listed(labels: list[Any]) -> str:
    return ", ".join(repr(label) for label in labels[:_MAX_LISTED]) + (", ..." if len(labels) > _MAX_LISTED else "")


# ------------------------------------------------------------------------------------------------ labels


def _series_values(values: Any, input_name: str) -> Any:
    """Unwrap a column of a table library; anything else is returned as it is."""
    if np.ma.is_masked(values):
        raise ValueError(f"Input {input_name} contains masked values.")
    wrapped = nw.from_native(values, allow_series=True, pass_through=True)
    return wrapped.to_numpy() if isinstance(wrapped, nw.Series | nw.DataFrame) else values


def _label_array(y: Any, input_name: str) -> AnyArray:
    """Labels as a one-dimensional array without missing ones."""
    if y is None:
        raise ValueError(f"A classifier requires y to be passed, but the target {input_name} is None.")
    if isinstance(y, list | tuple) and y and all(isinstance(label, tuple) for label in y):
        labels = np.empty(len(y), dtype=object)
        labels[:] = y
    else:
        labels = column_or_1d(_series_values(y, input_name), warn=True)
    if labels.size == 0:
        raise ValueError(f"{input_name} must have at least one label; got 0 sample(s).")
    return labels


def _factorize(labels: AnyArray, input_name: str) -> tuple[AnyArray, Integers]:
    """Distinct labels in ascending order, and the index of every label among them."""
    kind = labels.dtype.kind
    if kind == "O":
        return _factorize_objects(labels, input_name)
    if kind == "f":
        _check_float_labels(labels, input_name)
    elif kind in "mM" and np.isnat(labels).any():
        raise ValueError(f"Input {input_name} contains NaT.")
    elif kind not in "biuUSmM":
        raise ValueError(f"Unknown label type: {input_name} has the dtype {labels.dtype}.")
    if kind in "iu" and labels.min() >= 0 and labels.max() < _COUNTED_LABELS:
        return _factorize_by_counting(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes.reshape(-1).astype(np.int32)


def _factorize_by_counting(labels: AnyArray) -> tuple[AnyArray, Integers]:
    """Small integers have a place in a table each, which is much faster than sorting them."""
    classes = np.flatnonzero(np.bincount(labels.astype(np.int64)))
    index = np.zeros(classes[-1] + 1, dtype=np.int32)
    index[classes] = np.arange(classes.size)
    return classes.astype(labels.dtype), index[labels]


def _check_float_labels(labels: AnyArray, input_name: str) -> None:
    if np.isnan(labels).any():
        raise ValueError(f"Input {input_name} contains NaN.")
    if np.isinf(labels).any():
        raise ValueError(f"Input {input_name} contains infinity or a value too large for {labels.dtype!r}.")
    if (labels != np.trunc(labels)).any():
        raise ValueError(
            f"Unknown label type: continuous. {input_name} has numbers with a fraction; a classifier expects discrete "
            "classes. Convert them to strings if they are labels."
        )


def _factorize_objects(labels: AnyArray, input_name: str) -> tuple[AnyArray, Integers]:
    values = labels.tolist()
    try:
        distinct: list[Hashable] = list(dict.fromkeys(values))
    except TypeError as error:
        raise ValueError(f"Unknown label type: the labels in {input_name} must be hashable ({error}).") from error
    missing = next((label for label in distinct if _is_missing(label)), distinct)
    if missing is not distinct:
        raise ValueError(f"Input {input_name} contains a missing label ({missing!r}); NaN and None are no classes.")
    try:
        ordered = sorted(distinct)  # type: ignore[type-var]
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in distinct})
        raise ValueError(
            f"Unknown label type: the labels in {input_name} cannot be sorted ({error}); found {', '.join(kinds)}. "
            "Convert them to one kind, for example to strings."
        ) from error
    if all(isinstance(label, float | np.floating) for label in ordered):
        _check_float_labels(np.array(ordered, dtype=np.float64), input_name)
    classes = np.empty(len(ordered), dtype=object)
    classes[:] = ordered
    index = {label: k for k, label in enumerate(ordered)}
    return classes, np.array([index[label] for label in values], dtype=np.int32)


def _is_missing(label: Hashable) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float | np.floating) and bool(np.isnan(label))
