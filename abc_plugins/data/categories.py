"""Categorical features: which they are, their levels, and the numbers that trees know the levels by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from abc_plugins.core.model.header import MAX_CATEGORIES
from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats
from abc_plugins.core.runtime.checks import fail

if TYPE_CHECKING:
    from abc_plugins.core.runtime.sparse_table import Table

FROM_DTYPE = "from_dtype"
MAX_LEVELS = MAX_CATEGORIES
"""Levels of a feature that have a number of their own; if there are more, the last number is that of all others."""

_ALLOWED = f'"{FROM_DTYPE}", None, or a list of column names, of column indices or of a boolean for every column'


@dataclass(frozen=True)
class Categories:
    """The levels of the categorical features of a model.

    Attributes
    ----------
    levels : tuple of array or None, one per feature
        Levels in the order of their numbers 0, 1, ...; None for a feature that is not categorical.
    has_other : array of bool, shape (n_features,)
        Whether there were too many levels, so that the number behind those in `levels` is that of all others.
    """

    levels: tuple[AnyArray | None, ...]
    has_other: Booleans

    @property
    def is_categorical(self) -> Booleans:
        """Which features are categorical."""
        return np.array([levels is not None for levels in self.levels], dtype=np.bool_)

    @property
    def any(self) -> bool:
        """Whether there is a categorical feature."""
        return any(levels is not None for levels in self.levels)

    def encode(
        self,
        values: Table,
        found: Sequence[AnyArray | None] | None,
        names: Sequence[str] | None,
        input_name: str,
        *,
        check_kinds: bool = True,
    ) -> None:
        """Replace the indices of levels of a table by the numbers that the model knows them by, in place.

        Levels that the model does not know become the number of all others if there is one, else NaN (missing).

        Parameters
        ----------
        values : array of float64 or SparseTable, shape (n_samples, n_features)
        found : sequence of array or None, one per feature
            The levels of the table, see `abc_plugins.data.tables.Features`; None if there are none at all.
        names : sequence of str or None
        input_name : str
        check_kinds : bool
            Whether to refuse strings where the model knows only numbers, and the other way round.

        Raises
        ------
        ValueError
            If a column has strings where the model knows only numbers, or the other way round.
        """
        for f, levels in enumerate(found or ()):
            if levels is None:
                continue
            column = f if names is None else repr(names[f])
            numbers = _all_values(values, f)
            places = np.where(np.isnan(numbers), levels.size, numbers).astype(np.intp)
            if check_kinds:
                self._check_kinds(f, levels, places, f"Column {column} of {input_name}")
            numbers[:] = self._numbers(f, levels)[places]

    def _numbers(self, f: int, levels: AnyArray) -> Floats:
        """The number of every level of a table, and behind those of a missing value."""
        known = self._index[f]
        other = float(len(known)) if self.has_other[f] else np.nan
        return np.array([*(known.get(level, other) for level in levels.tolist()), np.nan])

    def _check_kinds(self, f: int, levels: AnyArray, places: AnyArray, where: str) -> None:
        """Refuse values of a kind that no level of the model has: they were mistaken."""
        if len(self._kinds[f]) != 1:
            return
        (is_text,) = self._kinds[f]
        others = np.array([*(isinstance(level, str) != is_text for level in levels.tolist()), False])
        if not others.any():
            return
        # Those that occur: a table of categories may have more. Rare ones, which have no number, may be of any kind.
        there = np.bincount(places, minlength=levels.size + 1) > 0
        if self.has_other[f] and (there[:-1] & ~others[:-1]).any():
            return
        mistaken = levels[np.flatnonzero(others & there)].tolist()
        if mistaken:
            raise ValueError(
                f"{where} has {_kind(not is_text)} ({_listed(mistaken)}), but the categories that the model knows are "
                f"{_kind(is_text)} ({_listed(list(self._index[f]))}): none of these values is one of them."
            )

    @cached_property
    def _kinds(self) -> list[set[bool]]:
        """Whether levels are strings, for every feature; both if some are."""
        return [{isinstance(level, str) for level in index} for index in self._index]

    @cached_property
    def _index(self) -> list[dict[Any, float]]:
        """Number of every level, for every feature."""
        return [
            {} if levels is None else {level: float(k) for k, level in enumerate(levels.tolist())}
            for levels in self.levels
        ]


def listed_columns(categorical: Any) -> list[str]:
    """Names of columns in a list of categorical features."""
    return [one for one in categorical if isinstance(one, str)] if isinstance(categorical, list) else []


def chosen_columns(categorical: Any, names: Sequence[str]) -> set[str]:
    """Names of the columns that a list makes categorical."""
    if not isinstance(categorical, list):
        return set()
    if categorical and isinstance(categorical[0], bool):
        return {name for name, chosen in zip(names, categorical, strict=False) if chosen}
    return {names[one] if isinstance(one, int) and one < len(names) else str(one) for one in categorical}


def no_categories(n_features: int) -> Categories:
    """Make the categories of a model that has none."""
    return Categories((None,) * n_features, np.zeros(n_features, dtype=np.bool_))


def learn_categories(values: Table, found: Sequence[AnyArray | None] | None, weights: Floats) -> Categories:
    """Choose the levels that have a number of their own: those that occur, up to MAX_LEVELS.

    If there are more, the most frequent (by total weight, then in their order) up to one fewer.

    Parameters
    ----------
    values : array or SparseTable, shape (n_samples, n_features)
        In categorical columns indices into `found`, NaN for missing.
    found : sequence of array or None, one per feature
        The levels of the table; None if there are none at all.
    weights : array of shape (n_samples,)
        All positive.
    """
    if found is None:
        return no_categories(values.shape[1])
    kept = [
        None if levels is None else _frequent(_all_values(values, f), levels, weights) for f, levels in enumerate(found)
    ]
    return Categories(
        tuple(None if one is None else one[0] for one in kept),
        np.array([one is not None and one[1] for one in kept], dtype=np.bool_),
    )


def warn_of_amounts(found: Sequence[AnyArray | None] | None, names: Sequence[str] | None) -> None:
    """Warn of columns of strings that are numbers with a fraction, and thus amounts rather than names."""
    from abc_plugins.data.columns import warn_caller  # with a library for tables, which the predictor does without

    for f, levels in enumerate(found or ()):
        if levels is None or levels.dtype.kind != "O":
            continue
        numbers = [number for number in map(_as_number, levels) if number is not None]
        if len(numbers) == levels.size and any(not number.is_integer() for number in numbers):
            warn_caller(
                f"Column {names[f] if names else f} of X has strings that are all numbers, such as {levels[0]!r}, and "
                "is taken for categories. Convert it to numbers if they are amounts; if not, name it in "
                "categorical_features."
            )


def _as_number(level: Any) -> float | None:
    try:
        number = float(level) if isinstance(level, str) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _all_values(values: Table, f: int) -> AnyArray:
    """A view of the values of a categorical column; a sparse table has all of them stored."""
    return values[:, f] if isinstance(values, np.ndarray) else values.stored(f)[1]


def _frequent(column: Floats, levels: AnyArray, weights: Floats) -> tuple[AnyArray, bool]:
    """Levels that get a number of their own, and whether there are others."""
    there = ~np.isnan(column)
    masses = np.bincount(column[there].astype(np.intp), weights=weights[there], minlength=levels.size)
    present = np.flatnonzero(masses > 0)
    if present.size <= MAX_LEVELS:
        return levels[present], False
    by_mass = present[np.argsort(-masses[present], kind="stable")]
    return levels[np.sort(by_mass[: MAX_LEVELS - 1])], True


# ------------------------------------------------------------------------------------------------ the parameter


def check_categorical_features(value: Any) -> str | list[Any] | None:
    """Check the parameter `categorical_features` as far as that is possible without data; sequences become lists."""
    if value is None or (isinstance(value, str) and value == FROM_DTYPE):
        return value
    if isinstance(value, str | bytes | dict | set):
        fail("categorical_features", value, _ALLOWED, ValueError if isinstance(value, str) else TypeError)
    try:
        items = np.asarray(value, dtype=object)
    except ValueError:
        fail("categorical_features", value, _ALLOWED)
    if items.ndim != 1:
        fail("categorical_features", value, _ALLOWED, TypeError if items.ndim == 0 else ValueError)
    plain = [item.item() if isinstance(item, np.generic) else item for item in items.tolist()]
    if not any(all(type(item) is kind for item in plain) for kind in (bool, int, str)):
        fail("categorical_features", value, _ALLOWED, TypeError)
    return plain


def categorical_mask(chosen: Sequence[Any], names: Sequence[str] | None, n_features: int) -> Booleans:
    """Which columns a list of names, indices or booleans stands for."""
    name = "categorical_features"
    items = list(chosen)
    if items and all(isinstance(item, bool | np.bool_) for item in items):
        if len(items) != n_features:
            fail(name, f"a list of {len(items)}", f"a boolean for each of the {n_features} columns, if they are such")
        return np.array(items, dtype=np.bool_)
    mask = np.zeros(n_features, dtype=np.bool_)
    for item in items:
        if isinstance(item, str):
            if names is None:
                fail(name, item, "a list of column indices or booleans if X has no column names")
            if item not in names:
                fail(name, item, f"a list of names of columns of X ({_listed(names)})")
            mask[list(names).index(item)] = True
        elif not 0 <= item < n_features:
            fail(name, item, f"a list of column indices from 0 to {n_features - 1}")
        else:
            mask[item] = True
    return mask


def _kind(is_text: bool) -> str:
    return "strings" if is_text else "numbers"


def _listed(levels: Any) -> str:
    shown = list(levels)[:5]
    return ", ".join(map(repr, shown)) + (", ..." if len(levels) > len(shown) else "")
