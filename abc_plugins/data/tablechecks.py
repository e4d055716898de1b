"""Checks of the columns of table files: that they are there, have names, and that numbers stay what they are."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EXACT_INTEGERS = 2**53
"""Larger whole numbers are not all doubles."""


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
