"""Checks of the columns of table files: that they are there, have names, and that cells stay what they are."""

from __future__ import annotations

import difflib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.data.csvfiles import BLANKS, CsvFormat, has_leading_zero, is_number, read_rows
from abc_plugins.data.tables import Features

EXACT_INTEGERS = 2**53
"""Larger whole numbers are not all doubles."""

_MOSTLY = 0.9
"""A column of text in which this share of the cells are numbers was meant to be numbers."""

_MANY_NUMBERS = 32
"""A column with this many different numbers is hardly one of categories."""

_DAY = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_TIME = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?"
_DATE = re.compile(rf"{_DAY}|{_TIME}|{_DAY}[ T](\d\d|{_TIME})(Z|[+-]\d\d(:?\d\d)?)?", re.ASCII)
"""A date, a time, or both."""


def check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse names that occur more than once."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{path} must have unique column names; {repeated[0]!r} occurs more than once.")


def check_column(path: Path, names: Sequence[str], name: str | None, role: str) -> None:
    """Refuse a column that the file does not have; names that look like it are suggested."""
    if name is not None and name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        shown = ", ".join(name or "''" for name in names[:10]) + (", ..." if len(names) > 10 else "")
        raise ValueError(f"{role} {name!r} is not a column of {path}; its columns are {shown}.{hint}")


def check_roles(path: Path, drop: Sequence[str], **roles: Sequence[str]) -> None:
    """Refuse a column that is to be left out and has a role all the same, or has two roles."""
    seen: dict[str, str] = {}
    for role, names in {**roles, "drop": drop}.items():
        for name in dict.fromkeys(names):
            if name in seen:
                raise ValueError(f"{seen[name]} and {role} must name different columns of {path}; both name {name!r}.")
            seen[name] = role


def check_features(path: Path, names: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a file without features, or without some of those that are wanted."""
    lacking = [name for name in columns if name not in names]
    if lacking:
        shown = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
        close = difflib.get_close_matches(lacking[0], [name for name in names if name not in columns], n=1)
        hint = f" Is {lacking[0]!r} what the file calls {close[0]!r}?" if close else ""
        what = "a column that the model needs" if len(lacking) == 1 else f"{len(lacking)} columns that the model needs"
        raise ValueError(f"{path} lacks {what}: {shown}.{hint}")
    if not columns:
        raise ValueError(f"{path} has no columns left for features.")


def check_integers(name: str, path: Path, values: Sequence[Any], first_row: int) -> None:
    """Warn of whole numbers that become others when they are features."""
    for row, value in enumerate(values, start=first_row):
        if value is not None and abs(value) > EXACT_INTEGERS:
            warnings.warn(
                f"Column {name!r} of {path} has whole numbers beyond 2**53, such as {value} in row {row}: as a feature "
                "they are rounded, so that close neighbours become equal. Leave the column out if it is an identifier.",
                stacklevel=4,
            )
            return


def check_cells(
    cells: Sequence[str | None],
    name: str,
    path: Path,
    form: CsvFormat,
    first_row: int = 1,
    known: bool = False,
    takes_dates: bool = False,
) -> None:
    """Refuse a column of dates, or of text whose cells are nearly all numbers, with the row of the first that is not.

    `first_row` is the number of the first cell's row in the file. A column that is `known` to hold numbers may have no
    other cell at all. With `takes_dates`, dates are text.
    """
    counts = Counter(cell for cell in cells if cell is not None and cell not in form.all_missing)
    bad = {cell for cell in counts if not is_number(cell, form)}
    total, n_bad = sum(counts.values()), sum(counts[cell] for cell in bad)
    if bad and not known and not takes_dates and all(map(_DATE.fullmatch, counts)):
        raise ValueError(
            f"Column {name!r} of {path} has dates or times, such as {next(iter(counts))!r}, but features must be "
            "numbers or booleans. Encode it as numbers, leave it out (--drop), or make the column categorical "
            "(--categorical-features)."
        )
    if not bad or (n_bad > (1 - _MOSTLY) * total and not known):
        _warn_of_marker(bad, counts, name, path)
        return
    index = next(index for index, cell in enumerate(cells) if cell in bad)
    what = f"{cells[index]!r} in row {first_row + index}"
    if known:
        raise ValueError(
            f"Column {name!r} of {path} must have numbers, as in training; got {what}. Mend the file, or name "
            "the cell as missing (--missing)."
        )
    raise ValueError(
        f"Column {name!r} of {path} has numbers in {total - n_bad} rows, but {what}"
        f"{f' and others in {n_bad - 1} more' if n_bad > 1 else ''}. Mend the file, name the cell as missing "
        "(--missing), or make the column categorical (--categorical-features)."
    )


def _warn_of_marker(bad: set[str], counts: Counter[str], name: str, path: Path) -> None:
    """Warn of a column of categories that are all numbers but one, and rarely the same: that one may mean missing."""
    marker = next(iter(bad), "")
    n_numbers = sum(counts.values()) - counts[marker]
    if len(bad) == 1 and len(counts) > _MANY_NUMBERS and n_numbers > counts[marker]:
        warnings.warn(
            f"Column {name!r} of {path} has {len(counts) - 1} different numbers in {n_numbers} rows, and {marker!r} in "
            f"{counts[marker]}: it is taken for categories. If that cell stands for a missing value, say so with "
            f"--missing {marker!r}.",
            stacklevel=2,
        )


def warn_of_zeros(path: Path, form: CsvFormat, names: Sequence[str], features: Features) -> None:
    """Warn of columns of numbers of which every cell begins with a needless zero: they are identifiers or codes.

    Reads the cells themselves, as long as there is such a column.
    """
    levels = features.levels or [None] * len(features.names or ())
    columns = zip(features.names or (), levels, features.array.T, strict=True)
    numeric = {name for name, known, values in columns if known is None and not np.isnan(values).all()}
    found = {index: "" for index, name in enumerate(names) if name in numeric}
    rows = read_rows(path, form)
    next(rows)
    for row in rows:
        for index in list(found):
            cell = row[index].strip(BLANKS)
            if has_leading_zero(cell):
                found[index] = found[index] or cell
            elif cell not in form.all_missing:
                del found[index]
        if not found:
            return
    for index, cell in found.items():
        if cell:
            warnings.warn(
                f"Column {names[index]!r} of {path} has zeros in front of all its numbers, such as {cell!r}, which are "
                "lost: it is taken for numbers. Make it categorical (--categorical-features) if these are codes, or "
                "leave it out (--drop) if it is an identifier.",
                stacklevel=3,
            )


def check_known_categories(cells: Iterable[str], name: str, path: Path) -> None:
    """Warn of zeros that are lost since the model knows the categories as numbers."""
    cell = next((cell for cell in cells if has_leading_zero(cell)), None)
    if cell is not None:
        warnings.warn(
            f"Column {name!r} of {path} has the category {cell!r}, but the model knows numbers, and takes it for the "
            "number without the zeros in front.",
            stacklevel=4,
        )


def empty_labels(target: str, path: Path, rows: AnyArray) -> ValueError:
    """Make the error for labels that are missing, in rows that count from 0."""
    more = f" and {rows.size - 1} more" if rows.size > 1 else ""
    return ValueError(f"target {target!r} of {path} is empty in row {rows[0] + 1}{more}.")
