"""The model file: what is saved comes back, files are replaced whole, and what cannot be stored is refused."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from model_files import random_model, same

from abc_plugins.core.model.ensemble import FlatTrees
from abc_plugins.core.model.file import ModelFormatError, from_bytes, load, save, to_bytes
from abc_plugins.core.model.header import MAX_HEADER_BYTES


@pytest.mark.parametrize("seed", range(5))
def test_what_is_saved_comes_back(seed: int, tmp_path: Path) -> None:
    header, trees = random_model(seed)
    save(tmp_path / "model.abc", header, trees)
    loaded, loaded_trees = load(tmp_path / "model.abc")
    assert same(trees, loaded_trees)
    assert all(getattr(loaded_trees, field.name).flags.writeable for field in fields(FlatTrees))
    assert loaded["base_classes"] == header["base_classes"].tolist()
    assert loaded["train_loss"] == header["train_loss"].tolist()
    assert loaded["start_scores"] == header["start_scores"].tolist()
    assert loaded["feature_names"] == header["feature_names"]
    assert loaded["params"] == header["params"]
    assert (tmp_path / "model.abc").read_bytes() == to_bytes(header, trees) == to_bytes(loaded, loaded_trees)


def test_a_model_without_rounds() -> None:
    header, trees = random_model(0, n_rounds=0)
    loaded, loaded_trees = from_bytes(to_bytes(header, trees))
    assert loaded["base_classes"] == []
    assert same(trees, loaded_trees)


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["a", "bb", "ü"], dtype="U7"),
        np.array(["a", "\ud800", 'quote"\n'], dtype=object),
        np.array([0, 1, 255], dtype=np.uint8),
        np.array([-(2**63), 0, 2**63 - 1]),
        np.array([0, 2**64 - 1], dtype=np.uint64),
        np.array([False, True]),
        np.array([-1.0, 0.0, 1e300]),
        np.array([0.0, 16777216.0], dtype=np.float32),
        np.array([1, 2, 3], dtype=object),
        np.array([np.int64(1), np.float64(2), np.str_("x"), True][:2], dtype=object),
        np.array([1, 2], dtype=">i4"),
        np.array(["a", "b"], dtype=">U1"),
    ],
    ids=str,
)
def test_classes_keep_values_and_dtype(classes: Any) -> None:
    header, empty = random_model(0, n_rounds=0)
    start_scores = np.zeros(len(classes))
    loaded, _ = from_bytes(to_bytes(header | {"classes": classes, "start_scores": start_scores}, empty))
    assert loaded["classes"].dtype == classes.dtype.newbyteorder("=")
    assert loaded["classes"].tolist() == classes.tolist()


TUPLES = np.empty(2, dtype=object)
TUPLES[:] = [(1, 2), (3, 4)]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (TUPLES, r"cannot hold the label \(1, 2\) of type tuple: labels must be strings, .* or use pickle"),
        (np.array([1, 2**64], dtype=object), "cannot hold the label 18446744073709551616, which has more than 64 bits"),
        (np.array([b"a", b"b"]), r"cannot hold labels of dtype \|S1"),
        (np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"), r"cannot hold labels of dtype datetime64\[D\]"),
        (np.array([1, 2], dtype=np.longdouble), "cannot hold labels of dtype float128"),
        (np.array([1.0, math.inf]), "cannot hold the label inf"),
    ],
    ids=str,
)
def test_classes_that_cannot_be_stored(classes: Any, message: str, tmp_path: Path) -> None:
    header, empty = random_model(0, n_rounds=0)
    with pytest.raises(TypeError, match=message):
        save(tmp_path / "model.abc", header | {"classes": classes, "start_scores": np.zeros(len(classes))}, empty)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (
            {"a": [1, print]},
            TypeError,
            r"extra.a\[1\] cannot be stored in a model file: builtin_function_or_method is not",
        ),
        ({(1, 2): 3}, TypeError, r"the key \(1, 2\) of extra cannot be stored"),
        (2**70, ValueError, "extra cannot be stored in a model file: .* has more than 64 bits"),
        ("x" * MAX_HEADER_BYTES, ValueError, "use shorter feature names"),
        (["["] * (2**20 + 1), ValueError, "more than 1048576 lists, dicts and brackets in names"),
    ],
)
def test_headers_that_cannot_be_stored(value: Any, kind: type[Exception], message: str) -> None:
    header, trees = random_model(0)
    with pytest.raises(kind, match=message):
        to_bytes(header | {"extra": value}, trees)


def test_classes_that_take_too_much_memory() -> None:
    header, trees = random_model(0)
    with pytest.raises(ValueError, match="the classes take more than 67108864 bytes; use shorter labels"):
        to_bytes(header | {"classes": np.array(["a", "b", "c", "d"], dtype="U9999999")}, trees)


def test_a_header_that_does_not_fit_the_trees_is_not_written() -> None:
    header, trees = random_model(0)
    with pytest.raises(ModelFormatError, match="base_classes must be a class index or -1 for each of 4 rounds"):
        to_bytes(header | {"base_classes": [0, 1]}, trees)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(-(2**63), 2**63), inner),
        max_leaves=10,
    )
)
def test_header_values_come_back(value: Any) -> None:
    header, trees = random_model(0)
    assert from_bytes(to_bytes(header | {"extra": value}, trees))[0]["extra"] == value


def test_special_values_in_the_header() -> None:
    header, trees = random_model(0)
    extra = {
        "nan": [math.nan],
        "array": np.arange(2),
        "scalar": np.float32(0.5),
        "$float": "nan",
        "tuple": (1, -math.inf),
    }
    loaded = from_bytes(to_bytes(header | {"extra": extra}, trees))[0]["extra"]
    assert math.isnan(loaded["nan"][0])
    assert loaded["array"] == [0, 1]
    assert loaded["scalar"] == 0.5
    assert loaded["$float"] == "nan"
    assert loaded["tuple"] == [1, -math.inf]
