"""Checks of single arguments, with one wording for all errors: the argument, its value, what is allowed."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np


def fail(name: str, value: Any, allowed: str, kind: type[Exception] = ValueError) -> NoReturn:
    """Raise an error that names the argument, the value and what is allowed."""
    shown = value if isinstance(value, str) and " " in value else repr(value)
    raise kind(f"{name} must be {allowed}; got {shown}.")


def check_integer(
    name: str, value: Any, *, minimum: int | None = None, maximum: int | None = None, allowed: str | None = None
) -> int:
    """Return `value` as an int; booleans and numbers with a fraction are refused."""
    allowed = allowed or f"a whole number{_range_text(minimum, maximum)}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        fail(name, value, allowed, TypeError)
    number = int(value)
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        fail(name, value, allowed)
    return number


def check_real(
    name: str,
    value: Any,
    *,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    above: float | None = None,
    allowed: str | None = None,
) -> float:
    """Return `value` as a finite float within [minimum, maximum], or larger than `above`."""
    if allowed is None:
        bounds = [f"larger than {above:g}"] if above is not None else []
        bounds += [f"at least {minimum:g}"] if minimum > -math.inf else []
        bounds += [f"at most {maximum:g}"] if maximum < math.inf else []
        allowed = "a number" + (" " + " and ".join(bounds) if bounds else "")
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        fail(name, value, allowed, TypeError)
    number = float(value)
    if not math.isfinite(number) or number < minimum or number > maximum or (above is not None and number <= above):
        fail(name, value, allowed)
    return number


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`."""
    allowed = "one of " + ", ".join(repr(choice) for choice in choices)
    if not isinstance(value, str):
        fail(name, value, allowed, TypeError)
    if value not in choices:
        fail(name, value, allowed)
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        fail(name, value, "True or False", TypeError)
    return bool(value)


_LIBRARIES = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "catboost": "CatBoost"}


def library_of(value: Any) -> str | None:
    """Name of the other boosting library that a function, a class or an object of its class comes from, if one does."""
    owners = value.__mro__ if isinstance(value, type) else (value, *type(value).__mro__)
    modules = (str(getattr(owner, "__module__", "")).partition(".")[0] for owner in owners)
    return next((_LIBRARIES[module] for module in modules if module in _LIBRARIES), None)


def check_path(name: str, value: Any) -> str | None:
    """Return a path as a string, or None if there is none."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike):
        fail(name, value, "a path", TypeError)
    path = os.fspath(value)
    if not isinstance(path, str) or not path or "\0" in path:
        fail(name, value, "a path")
    return path


def check_supported(
    library: str,
    version: str,
    supported: str,
    names: Mapping[Any, tuple[str, ...]],
    first: tuple[int, int],
    end: tuple[int, int],
    also_missing: Iterable[str] = (),
) -> None:
    """Fail if the version of a library is not supported, or something that is needed is not there.

    Parameters
    ----------
    library, version, supported : str
        As the error names them.
    names : dict
        For each owner the names that it has to have.
    first, end : tuple of int
        First two parts of the first version that is supported, and of the first one after it that is not.
    also_missing : iterable of str
        What else was looked for and not found.

    Raises
    ------
    ImportError
    """
    parts = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2])
    missing = [
        f"{owner.__name__}.{name}" for owner, wanted in names.items() for name in wanted if not hasattr(owner, name)
    ]
    missing += also_missing
    if not first <= parts < end or missing:
        reason = f" (without {', '.join(missing)})" if missing else ""
        raise ImportError(f"abc_plugins supports {library} {supported}; installed is {version}{reason}.")


def _range_text(minimum: int | None, maximum: int | None) -> str:
    if minimum is not None and maximum is not None:
        return f" from {minimum} to {maximum}"
    if minimum is not None:
        return f" of at least {minimum}"
    if maximum is not None:
        return f" of at most {maximum}"
    return ""
