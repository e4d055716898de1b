"""Argument checks: what passes, what does not, and the wording."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from abc_plugins.core.runtime.checks import check_choice, check_flag, check_integer, check_path, check_real, fail


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.int64(3)])
def test_integers_become_plain_ones(value):
    checked = check_integer("n", value)
    assert checked == 3
    assert type(checked) is int


@pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float64(3), "3", None, [3], Fraction(3, 2), math.nan])
def test_what_is_no_integer(value):
    with pytest.raises(TypeError, match=re.escape(f"n must be a whole number; got {value!r}.")):
        check_integer("n", value)


@pytest.mark.parametrize(
    ("value", "bounds", "text"),
    [
        (0, {"minimum": 1}, "a whole number of at least 1"),
        (9, {"maximum": 8}, "a whole number of at most 8"),
        (0, {"minimum": 1, "maximum": 8}, "a whole number from 1 to 8"),
        (9, {"minimum": 1, "maximum": 8}, "a whole number from 1 to 8"),
        (-1, {"minimum": 0, "allowed": "even"}, "even"),
    ],
)
def test_integers_out_of_range(value, bounds, text):
    with pytest.raises(ValueError, match=re.escape(f"n must be {text}; got {value}.")):
        check_integer("n", value, **bounds)


@pytest.mark.parametrize("value", [1, 8])
def test_bounds_of_integers_are_allowed(value):
    assert check_integer("n", value, minimum=1, maximum=8) == value


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_numbers_become_plain_floats(value):
    checked = check_real("x", value)
    assert checked == 0.5
    assert type(checked) is float


def test_whole_numbers_are_numbers():
    assert check_real("x", 2) == check_real("x", np.int32(2)) == 2.0


@pytest.mark.parametrize("value", [True, np.False_, "0.5", None, [0.5], 1j, Decimal("0.5")])
def test_what_is_no_number(value):
    with pytest.raises(TypeError, match=re.escape(f"x must be a number; got {value!r}.")):
        check_real("x", value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_numbers_must_be_finite(value):
    with pytest.raises(ValueError, match=re.escape(f"x must be a number; got {value!r}.")):
        check_real("x", value)


@pytest.mark.parametrize(
    ("value", "bounds", "text"),
    [
        (-0.1, {"minimum": 0.0}, "a number at least 0"),
        (1.1, {"maximum": 1.0}, "a number at most 1"),
        (0.0, {"above": 0.0}, "a number larger than 0"),
        (1.5, {"above": 0.0, "maximum": 1.0}, "a number larger than 0 and at most 1"),
        (1.5, {"minimum": 0.5, "maximum": 1.0}, "a number at least 0.5 and at most 1"),
        (-1.0, {"minimum": 0.0, "allowed": "a number, or None"}, "a number, or None"),
    ],
)
def test_numbers_out_of_range(value, bounds, text):
    with pytest.raises(ValueError, match=re.escape(f"x must be {text}; got {value}.")):
        check_real("x", value, **bounds)


def test_bounds_of_numbers_are_allowed():
    assert check_real("x", 0.0, minimum=0.0) == 0.0
    assert check_real("x", 1.0, above=0.0, maximum=1.0) == 1.0
    assert check_real("x", 5e-324, above=0.0) == 5e-324


def test_choices():
    assert check_choice("method", "mart", ("mart", "abcmart")) == "mart"
    with pytest.raises(ValueError, match=re.escape("method must be one of 'mart', 'abcmart'; got 'MART'.")):
        check_choice("method", "MART", ("mart", "abcmart"))
    with pytest.raises(TypeError, match=re.escape("method must be one of 'mart', 'abcmart'; got None.")):
        check_choice("method", None, ("mart", "abcmart"))


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_flags_become_plain_ones(value):
    assert check_flag("refit", value) is bool(value)


@pytest.mark.parametrize("value", [0, 1, None, "yes", np.int64(1)])
def test_what_is_no_flag(value):
    with pytest.raises(TypeError, match=re.escape(f"refit must be True or False; got {value!r}.")):
        check_flag("refit", value)


def test_paths_become_text():
    assert check_path("out", None) is None
    assert check_path("out", "a/b.abc") == "a/b.abc"
    assert check_path("out", Path("a") / "b.abc") == str(Path("a") / "b.abc")


@pytest.mark.parametrize(
    ("value", "kind"), [(3, TypeError), (b"a", TypeError), (["a"], TypeError), ("", ValueError), ("a\0b", ValueError)]
)
def test_what_is_no_path(value, kind):
    with pytest.raises(kind, match=re.escape(f"out must be a path; got {value!r}.")):
        check_path("out", value)


def test_paths_of_bytes_are_refused():
    class BytesPath:
        def __fspath__(self):
            return b"a"

    with pytest.raises(ValueError, match="out must be a path; got <"):
        check_path("out", BytesPath())


def test_descriptions_are_shown_as_they_are_and_values_quoted():
    with pytest.raises(ValueError, match=re.escape("X must be wide; got 3 columns.")):
        fail("X", "3 columns", "wide")
    with pytest.raises(KeyError, match="k must be known; got 'x'"):
        fail("k", "x", "known", KeyError)
