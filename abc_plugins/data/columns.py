"""One column of any table library: its numbers, or its levels and the number of each value's level."""

from __future__ import annotations

import datetime
import decimal
import inspect
import math
import warnings
from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from typing import Any, NoReturn, TypeAlias

import narwhals
import narwhals.stable.v2 as nw
import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.values import is_missing, is_missing_type

Column: TypeAlias = "narwhals.Series[Any]"

ENCODE_FIRST = (
    "it is not among the categorical features. Encode strings, categories and dates as numbers, or make it one "
    "(see categorical_features)."
)
_AS_TEXT = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)
_NUMBERS = (int, float, np.number, np.bool_, decimal.Decimal)


class Role(Enum):
    """How to read a column: as numbers, as categories, or as what its dtype says."""

    NUMBER = 0
    CATEGORY = 1
    BY_DTYPE = 2


def read_column(column: Column, role: Role, input_name: str) -> tuple[AnyArray, AnyArray | None]:
    """Read one column.

    Returns
    -------
    values : array of shape (n_samples,)
        The numbers of the column, or of a categorical one the index of each value's level; NaN is missing.
    levels : array or None
        The distinct values of a categorical column, in the order of ordered categories, else sorted.
    """
    if role is Role.NUMBER or (role is Role.BY_DTYPE and not _holds_text(column)):
        return _numbers(column, input_name), None
    where = f"column {column.name!r} of {input_name}"
    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return _numeric_levels(column, where)
    native = column.to_native()
    if column.implementation.is_pandas_like() and hasattr(native, "cat"):
        return _renumber(native.cat.codes.to_numpy(), native.cat.categories.tolist(), native.cat.ordered, where)
    if column.implementation.is_pyarrow() and dtype == nw.Categorical:
        coded = native.unify_dictionaries().combine_chunks()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return _renumber(codes, coded.dictionary.to_pylist(), coded.type.ordered, where)
    codes, levels = levels_of_values(column.to_list(), where)
    if dtype == nw.Enum:
        return _renumber(np.nan_to_num(codes, nan=-1).astype(np.int64), levels, False, where, _enumeration(column))
    return codes, levels


def levels_of_values(values: Sequence[Any], where: str) -> tuple[Floats, AnyArray]:
    """Index of each value's level, and the levels; as `read_column`, for Python values."""
    try:
        distinct: list[Hashable] = list(dict.fromkeys(values))
    except TypeError as error:
        raise TypeError(f"{where}: categories must be strings, numbers or booleans ({error}).") from error
    numbers, levels = _renumber(np.arange(len(distinct)), distinct, False, where)
    index = dict(zip(distinct, numbers.tolist(), strict=True))
    return np.fromiter(map(index.__getitem__, values), dtype=np.float64, count=len(values)), levels


def levels_of_numbers(values: AnyArray, where: str) -> tuple[Floats, AnyArray]:
    """Index of each number among the distinct ones, and these; NaN is missing."""
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.size, dtype=bool)
    levels, codes = np.unique(values[~missing], return_inverse=True)
    if levels.dtype.kind == "f" and np.isinf(levels).any():
        _refuse_infinity(where)
    numbers = np.full(values.size, np.nan)
    numbers[~missing] = codes.reshape(-1)
    return numbers, levels


def is_text(values: Iterable[Any]) -> bool:
    """Whether all values that are not missing are strings, and there is one."""
    kinds = set(map(type, values))
    others = [kind for kind in kinds if not issubclass(kind, str)]
    return len(others) < len(kinds) and all(kind is float or is_missing_type(kind) for kind in others)


def refuse_column(name: str, dtype: str, input_name: str) -> NoReturn:
    """Raise the error for a column that does not hold numbers."""
    raise ValueError(
        f"Column {name!r} of {input_name} has the dtype {dtype}, but features must be numbers or booleans, and "
        f"{ENCODE_FIRST}"
    )


def warn_caller(message: str) -> None:
    """Warn with the line outside of this package that led to the call."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__.partition(".")[0]:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


# ------------------------------------------------------------------------------------------------ numbers


def _numbers(column: Column, input_name: str) -> AnyArray:
    """One column as numbers; nulls become NaN."""
    dtype = column.dtype
    if dtype.is_float():
        return column.to_numpy()
    if dtype.is_integer() and column.implementation.is_pyarrow():
        # Arrow's cast refuses integers that have to be rounded.
        return np.asarray(column.to_native().cast("double", safe=False).to_numpy())
    if dtype.is_numeric() or dtype == nw.Boolean:
        return column.cast(nw.Float64).to_numpy()
    if dtype not in (nw.Unknown, nw.Object) and not _is_object(column):
        refuse_column(column.name, str(dtype), input_name)
    return _unknown_numbers(column, input_name)


def _unknown_numbers(column: Column, input_name: str) -> AnyArray:
    """Read a column whose dtype narwhals does not know: objects, no value at all, sparse, long double, complex, ..."""
    if column.null_count() == len(column):
        return np.full(len(column), np.nan)
    values = column.to_numpy()
    if values.dtype.kind == "O":
        return _object_numbers(values.tolist(), column, input_name)
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: column {column.name!r} of {input_name} is {values.dtype}.")
    if values.dtype.kind not in "biuf":
        refuse_column(column.name, str(values.dtype), input_name)
    return values


def _object_numbers(values: list[Any], column: Column, input_name: str) -> Floats:
    """Numbers, booleans and missing values among Python objects."""
    if is_text(values):
        refuse_column(column.name, str(column.dtype), input_name)
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        if not isinstance(value, _NUMBERS) and not is_missing(value):
            raise ValueError(
                f"Column {column.name!r} of {input_name} has Python objects that are neither all numbers nor all "
                f"strings: row {row} has {value!r}, of type {type(value).__name__}. Make all of them numbers (dates as "
                "days, say), or all of them strings, which are categories, or name the column in categorical_features."
            )
        numbers[row] = math.nan if is_missing(value) else float(value)
    return numbers


# ------------------------------------------------------------------------------------------------ levels


def _holds_text(column: Column) -> bool:
    """Whether a column is categorical by its dtype, or by its values if those are Python objects."""
    dtype = column.dtype
    if dtype in (nw.Object, nw.Unknown) or _is_object(column):
        values = column.to_numpy()
        return bool(values.dtype.kind == "O") and is_text(values.tolist())
    return dtype in (nw.String, nw.Categorical, nw.Enum)


def _is_object(column: Column) -> bool:
    """Whether a column is one of Python objects, which narwhals takes for text if it looks like that."""
    return column.implementation.is_pandas_like() and column.to_native().dtype == object


def _enumeration(column: Column) -> list[Any]:
    return column.cat.get_categories().to_list()


def _numeric_levels(column: Column, where: str) -> tuple[Floats, AnyArray]:
    """Levels of a column of numbers; integers beside nulls stay integers."""
    present = ~column.is_null().to_numpy()
    codes, levels = levels_of_numbers(column.drop_nulls().to_numpy(), where)
    numbers = np.full(present.size, np.nan)
    numbers[present] = codes
    return numbers, levels


def _renumber(
    codes: AnyArray, raw: Iterable[Any], ordered: bool, where: str, order: list[Any] | None = None
) -> tuple[Floats, AnyArray]:
    """Put levels into their order, and let codes follow; -1 and the codes of missing levels become NaN."""
    plain = [_plain(level, where) for level in raw]
    distinct = list(dict.fromkeys(level for level in plain if level is not None))
    if order is not None:
        distinct = [level for level in order if level in set(distinct)]
    elif not ordered:
        distinct.sort(key=lambda level: (isinstance(level, str), level))
    place = {level: float(k) for k, level in enumerate(distinct)}
    numbers = np.array([*(math.nan if level is None else place[level] for level in plain), math.nan])
    return numbers[codes], _level_array(distinct)


def _plain(level: Any, where: str) -> Any:
    """A level as a string, a number or a boolean; None if it is missing."""
    level = level.item() if isinstance(level, np.generic) else level
    if is_missing(level):
        return None
    if isinstance(level, float) and math.isinf(level):
        _refuse_infinity(where)
    if isinstance(level, bool | int | float | str):
        return str(level) if isinstance(level, str) else level
    if isinstance(level, _AS_TEXT) or type(level).__module__.split(".")[0] == "pandas":  # intervals, periods
        return str(level)
    raise TypeError(
        f"{where}: categories must be strings, numbers or booleans; got {level!r} of type {type(level).__name__}."
    )


def _refuse_infinity(where: str) -> NoReturn:
    raise ValueError(f"{where} contains infinity, which is no category. Use NaN for a missing value.")


def _level_array(levels: list[Any]) -> AnyArray:
    """Levels of one numeric kind as an array of numbers, others as objects."""
    kinds = {type(level) for level in levels}
    for kind, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
        if kinds == {kind} and (kind is not int or all(-(2**63) <= level < 2**63 for level in levels)):
            return np.array(levels, dtype=dtype)
    array = np.empty(len(levels), dtype=object)
    array[:] = levels
    return array
