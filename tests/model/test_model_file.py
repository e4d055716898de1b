"""The model file: what is saved comes back, and nothing but a valid model is ever loaded."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import stat
import struct
import zlib
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from abc_plugins.core.model import file as model_file
from abc_plugins.core.model.ensemble import LEAF, SET_WORDS, THRESHOLD, FlatTrees, Tree
from abc_plugins.core.model.file import ModelFormatError, from_bytes, load, save, to_bytes
from abc_plugins.core.model.header import MAX_HEADER_BYTES, check_header
from abc_plugins.core.runtime.atomic import replace_file

PREAMBLE = struct.Struct("<8sII6Q")
VERSION_1 = (Path(__file__).parents[1] / "fixtures" / "0.1.0_three_classes.abc").read_bytes()
N_FEATURES, N_CLASSES = 3, 4


def random_tree(rng: np.random.Generator, n_leaves: int, classes: Sequence[int] | None = None) -> Tree:
    """A tree grown by splitting leaves at random, by thresholds and sets; of one class, some or all of them."""
    feature, left, right = [LEAF], [0], [0]
    for _ in range(n_leaves - 1):
        node = int(rng.choice([index for index, column in enumerate(feature) if column == LEAF]))
        feature[node], left[node], right[node] = int(rng.integers(N_FEATURES)), len(feature), len(feature) + 1
        feature += [LEAF, LEAF]
        left += [0, 0]
        right += [0, 0]
    inner = np.array(feature) != LEAF
    if classes is None:
        n_entries = int(rng.integers(1, N_CLASSES + 1))
        drawn = rng.choice(N_CLASSES, n_entries, replace=False)
        classes = np.sort(drawn) if n_entries == N_CLASSES else drawn
    n_sets = int(rng.integers(0, 3))
    return Tree(
        classes=np.array(classes, dtype=np.int32),
        feature=np.array(feature, dtype=np.int32),
        threshold=np.where(inner, rng.normal(size=inner.size), 0.0),
        missing_left=rng.random(inner.size) < 0.5,
        left_set=np.where(inner, rng.integers(-1, n_sets, inner.size), THRESHOLD).astype(np.int32),
        left=np.where(inner, left, np.cumsum(~inner) - 1).astype(np.int32),
        right=np.array(right, dtype=np.int32),
        gain=np.where(inner, rng.random(inner.size), 0.0),
        weight=rng.integers(1, 99, inner.size).astype(float),
        values=rng.normal(size=(n_leaves, len(classes))),
        sets=rng.integers(0, 2**64, (n_sets, SET_WORDS), dtype=np.uint64),
    )


def random_model(seed: int, n_rounds: int = 4) -> tuple[dict[str, Any], FlatTrees]:
    rng = np.random.default_rng(seed)
    rounds = [[random_tree(rng, int(rng.integers(1, 6))) for _ in range(rng.integers(1, 4))] for _ in range(n_rounds)]
    header = {
        "classes": np.array(["a", "b", "c", "d"]),
        "n_features": N_FEATURES,
        "base_classes": rng.integers(-1, N_CLASSES, n_rounds),
        "feature_names": ["x", "y", "größe"],
        "train_loss": rng.random(n_rounds),
        "start_scores": rng.normal(size=N_CLASSES),
        "params": {"class_weight": {0: 1.5, 1: 2.0}, "leaf_clip": math.inf, "search": "all", "random_state": None},
    }
    return header, FlatTrees.from_rounds(rounds)


def same(one: FlatTrees, other: FlatTrees) -> bool:
    return all(
        getattr(one, field.name).dtype == getattr(other, field.name).dtype
        and getattr(one, field.name).tobytes() == getattr(other, field.name).tobytes()
        for field in fields(FlatTrees)
    )


def walk(header: dict[str, Any], trees: FlatTrees) -> None:
    """Predict one row in plain Python, where a wrong index is an error and an endless walk is noticed."""
    n_classes = len(header["classes"])
    assert trees.round_start.size == len(header["base_classes"]) + 1
    for row in ([value] * header["n_features"] for value in (math.nan, 0.0, 255.0)):
        scores = [0.0] * n_classes
        for tree in (tree for trees_of_round in trees.to_rounds() for tree in trees_of_round):
            node, steps = 0, 0
            while tree.feature[node] != LEAF:
                value = row[tree.feature[node]]
                if math.isnan(value):
                    left = tree.missing_left[node]
                elif tree.left_set[node] != THRESHOLD:
                    left = int(tree.sets[tree.left_set[node], int(value) // 64]) >> int(value) % 64 & 1
                else:
                    left = value <= tree.threshold[node]
                node = int(tree.left[node] if left else tree.right[node])
                steps += 1
                assert 0 < node < tree.feature.size
                assert steps <= tree.feature.size
            assert 0 <= tree.left[node] < len(tree.values)
            for k, added in zip(tree.classes, tree.values[tree.left[node]], strict=True):
                assert 0 <= k < n_classes
                scores[k] += float(added)
        assert all(math.isfinite(n_classes * score) for score in scores)


def with_checksum(data: bytes) -> bytes:
    """Replace the last four bytes by the right checksum, so that only the other checks stand in the way."""
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def with_header(text: bytes, data: bytes) -> bytes:
    """Replace the JSON header of a model file."""
    magic, version, size, *counts = PREAMBLE.unpack_from(data)
    preamble = PREAMBLE.pack(magic, version, len(text), *counts)
    return with_checksum(preamble + text + data[PREAMBLE.size + size :])


def header_of(data: bytes) -> dict[str, Any]:
    size = PREAMBLE.unpack_from(data)[2]
    return json.loads(data[PREAMBLE.size : PREAMBLE.size + size])


def loads_or_refuses(data: bytes) -> bool:
    """Whether the data are a valid model; anything but ModelFormatError is a failure."""
    try:
        header, trees = from_bytes(data)
    except ModelFormatError:
        return False
    walk(header, trees)
    return True


# --------------------------------------------------------------------------------------------- round trip


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


# ------------------------------------------------------------------------------------------ damaged files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: b"", "it is empty"),
        (lambda data: data[:12], "it is too short"),
        (lambda data: data[:20], "it ends too early"),
        (lambda data: b"\x80\x04" + data[2:], "it is another kind of file"),
        (lambda data: data.replace(b"\r\n", b"\n"), "it is another kind of file"),
        (lambda data: data[:-1], r"it has \d+ bytes instead of \d+: cut off"),
        (lambda data: data + b"\0", r"it has \d+ bytes instead of \d+"),
        (lambda data: data[:8] + b"\3" + data[9:], "it has format version 3, .* reads up to 2; upgrade abc-plugins"),
        (lambda data: data[:8] + b"\1" + data[9:], r"it has \d+ bytes instead of \d+"),
        (lambda data: data[:8] + b"\0" + data[9:], "it has the unknown format version 0"),
        (lambda data: data[:12] + b"\xff" * 4 + data[16:], "its header has 4294967295 bytes, more than"),
        (lambda data: data[:16] + b"\xff" * 48 + data[64:], r"it has \d+ bytes instead of \d+"),
        (lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:], r"it is damaged \(the checksum does not match\)"),
    ],
)
def test_damaged_files(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.abc"
    path.write_bytes(change(to_bytes(*random_model(1))))
    with pytest.raises(ModelFormatError, match=f"model.abc is not a valid model file: {message}"):
        load(path)


@pytest.mark.parametrize("n_lost", [1, 4, 5, 60, 10**6])
def test_a_file_that_shrinks_while_it_is_read(n_lost: int) -> None:
    data = to_bytes(*random_model(1))
    with pytest.raises(ModelFormatError, match="it ends too early"):
        model_file._read(io.BytesIO(data[:-n_lost]), len(data))


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.abc"):
        load(tmp_path / "nothing.abc")
    with pytest.raises(IsADirectoryError, match=r"Is a directory"):
        load(tmp_path)
    with pytest.raises(ModelFormatError, match="it is not a regular file"):
        load("/dev/zero")


def changed(trees: FlatTrees, name: str, index: int, value: Any) -> FlatTrees:
    array = getattr(trees, name).copy()
    array[index] = value
    return replace(trees, **{name: array})


def fixed_model() -> tuple[dict[str, Any], FlatTrees]:
    """Two rounds; the first tree has the nodes 0 (inner), 1 (inner, with a set), 2, 3, 4."""
    rng = np.random.default_rng(0)
    tree = replace(
        random_tree(rng, 3, [2, 0]),
        feature=np.array([0, 1, -1, -1, -1], dtype=np.int32),
        left_set=np.array([-1, 0, -1, -1, -1], dtype=np.int32),
        left=np.array([1, 3, 0, 1, 2], dtype=np.int32),
        right=np.array([2, 4, 0, 0, 0], dtype=np.int32),
        sets=np.array([[5, 0, 0, 2**63]], dtype=np.uint64),
    )
    header, _ = random_model(0, n_rounds=2)
    leaf = replace(random_tree(rng, 1, range(4)), sets=np.empty((0, SET_WORDS), dtype=np.uint64))
    return header, FlatTrees.from_rounds([[tree, leaf], [tree]])


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("round_start", 0, 1, "round_start must go from 0 to 3"),
        ("round_start", 2, 2, "round_start must go from 0 to 3"),
        ("round_start", 1, -5, "round_start must be in ascending order; entry 0"),
        ("round_start", 1, 4, "round_start must be in ascending order; entry 1"),
        ("node_start", 0, 1, "node_start must go from 0 to 11"),
        ("node_start", 1, -(2**63), "node_start must be in ascending order"),
        ("node_start", 1, 6, "node_start must be in ascending order; entry 1"),
        ("node_start", 1, 4, "value_start must be one value for every leaf and class; entry 0"),
        ("class_start", 0, 1, "class_start must go from 0 to 8"),
        ("class_start", 1, 0, "class_start must be in ascending order; entry 0"),
        ("class_start", 1, 7, "class_start must be in ascending order; entry 1"),
        ("class_start", 1, 3, "classes must be distinct within a tree"),
        ("value_start", 3, 17, "value_start must go from 0 to 16"),
        ("value_start", 1, 10, "value_start must be in ascending order; entry 1"),
        ("value_start", 1, 5, "value_start must be one value for every leaf and class; entry 0"),
        ("set_start", 3, 4, "set_start must go from 0 to 8"),
        ("set_start", 1, 5, "set_start must be in ascending order; entry 1"),
        ("set_start", 1, 3, "set_start must be in steps of 4 words; entry 0"),
        ("set_start", slice(1, 3), 0, "left_set must be a row of the sets of the tree or -1; entry 1"),
        ("classes", 0, -1, "classes must be class indices; entry 0"),
        ("classes", 7, 4, "classes must be class indices; entry 7"),
        ("classes", 1, 2, "classes must be distinct within a tree"),
        ("classes", slice(2, 4), [1, 0], "classes must be in ascending order in a tree of all classes; entry 2"),
        ("left_set", 1, 1, "left_set must be a row of the sets of the tree or -1; entry 1"),
        ("left_set", 1, -2, "left_set must be a row of the sets of the tree or -1; entry 1"),
        ("left_set", 2, 0, "left_set must be -1 for a leaf; entry 2"),
        ("feature", 0, 3, "feature must be a feature index or -1; entry 0"),
        ("feature", 0, -2, "feature must be a feature index or -1; entry 0"),
        ("feature", 1, -1, "value_start must be one value for every leaf and class; entry 0"),
        ("feature", 2, 0, "value_start must be one value for every leaf and class; entry 0"),
        ("left", 2, 1, "left must be the row of a leaf's values; entry 2"),
        ("left", 4, -1, "left must be the row of a leaf's values; entry 4"),
        ("right", 3, 1, "right must be 0 for a leaf; entry 3"),
        ("left", 0, 0, "left must be the number of a later node of the tree; entry 0"),
        ("left", 1, 0, "left must be the number of a later node of the tree; entry 1"),
        ("left", 1, 1, "left must be the number of a later node of the tree; entry 1"),
        ("right", 0, 5, "right must be the number of a later node of the tree; entry 0"),
        ("right", 0, -3, "right must be the number of a later node of the tree; entry 0"),
        ("right", 0, 1, "left and right must be such that every node but the root has one parent; entry 1"),
        ("left", 1, 4, "left and right must be such that every node but the root has one parent; entry 3"),
        ("left", 1, 2, "left and right must be such that every node but the root has one parent; entry 2"),
        ("threshold", 0, math.nan, "threshold must be a number; entry 0"),
        ("values", 2, math.nan, "values must be a finite number; entry 2"),
        ("values", 2, math.inf, "values must be a finite number; entry 2"),
        ("gain", 0, -math.inf, "gain must be a finite number; entry 0"),
        ("weight", 4, math.nan, "weight must be a finite number; entry 4"),
        ("weight", 4, -1.0, "weight must be not negative; entry 4"),
        ("values", slice(None), 1.7e308, "values must be small enough for their sum over trees to be below 1e\\+300"),
    ],
)
def test_every_wrong_entry_is_found(
    name: str, index: Any, value: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, trees = fixed_model()
    assert loads_or_refuses(to_bytes(header, trees))
    broken = changed(trees, name, index, value)
    with pytest.raises(ModelFormatError, match=message):  # such a model is not written ...
        to_bytes(header, broken)
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "check_trees", lambda *_: None)
        data = to_bytes(header, broken)
    with pytest.raises(ModelFormatError, match=message):  # ... and not read
        from_bytes(data)


def version_1(**changes: Any) -> bytes:
    """A file of version 1 with one tree of three nodes, and some of its arrays changed."""
    arrays = {
        "round_start": np.array([0, 1], dtype="<i8"),
        "node_start": np.array([0, 3], dtype="<i8"),
        "threshold": np.array([0.5, 0.0, 0.0], dtype="<f8"),
        "value": np.array([0.0, 1.0, -2.0], dtype="<f8"),
        "gain": np.array([3.0, 0.0, 0.0], dtype="<f8"),
        "weight": np.array([4.0, 3.0, 1.0], dtype="<f8"),
        "plus": np.array([1], dtype="<i4"),
        "minus": np.array([0], dtype="<i4"),
        "feature": np.array([2, -1, -1], dtype="<i4"),
        "left": np.array([1, 0, 0], dtype="<i4"),
        "right": np.array([2, 0, 0], dtype="<i4"),
        "missing_left": np.array([1, 0, 0], dtype="u1"),
    }
    arrays |= {name: np.array(value, dtype=arrays[name].dtype) for name, value in changes.items()}
    text = b'{"classes":{"dtype":"bool","labels":[false,true]},"n_features":3,"base_classes":[0]}    '
    start = struct.pack("<8sII3Q", model_file.MAGIC, 1, len(text), 1, 1, 3) + text
    return with_checksum(start + b"".join(array.tobytes() for array in arrays.values()) + b"    ")


def test_version_1() -> None:
    (tree,) = from_bytes(version_1())[1].to_rounds()[0]
    assert (tree.plus, tree.minus, tree.is_pair) == (1, 0, True)
    assert tree.values.tolist() == [[1.0, -1.0], [-2.0, 2.0]]
    assert tree.value.tolist() == [0.0, 1.0, -2.0]
    (tree,) = from_bytes(version_1(minus=[-1]))[1].to_rounds()[0]
    assert (tree.classes.tolist(), tree.values.tolist()) == ([1], [[1.0], [-2.0]])
    assert loads_or_refuses(VERSION_1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minus": [1]}, "classes must be distinct within a tree"),
        ({"minus": [-2]}, "classes must be class indices; entry 1"),
        ({"minus": [2]}, "classes must be class indices; entry 1"),
        ({"plus": [-1]}, "classes must be class indices; entry 0"),
        ({"left": [1, 1, 0]}, "left must be 0 for a leaf; entry 1"),
        ({"value": [0.1, 1.0, -2.0]}, "value must be 0 for an inner node; entry 0"),
        ({"node_start": [0, 2]}, "node_start must go from 0 to 3"),
        ({"node_start": [-1, 3]}, "node_start must go from 0 to 3"),
        ({"value": [0.0, math.nan, -2.0]}, "values must be a finite number; entry 0"),
        ({"missing_left": [2, 0, 0]}, "missing_left must be 0 or 1"),
        ({"right": [3, 0, 0]}, "right must be the number of a later node"),
    ],
)
def test_wrong_entries_of_version_1(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        from_bytes(version_1(**changes))


def test_infinite_thresholds_are_fine() -> None:
    header, trees = fixed_model()
    assert loads_or_refuses(to_bytes(header, changed(trees, "threshold", 0, math.inf)))


def test_truth_values_other_than_0_and_1() -> None:
    header, trees = fixed_model()
    data = to_bytes(header, trees)
    with pytest.raises(ModelFormatError, match="missing_left must be 0 or 1"):
        from_bytes(with_checksum(data[:-5] + b"\2" + data[-4:]))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("classes", {"dtype": "<U1", "labels": ["a", "b", "c", "c"]}, "classes must be distinct"),
        ("classes", {"dtype": "<U1", "labels": ["a"]}, "classes must have at least two labels"),
        ("classes", {"dtype": "object", "labels": [1, True, "a", "b"]}, "classes must be distinct"),
        ("classes", {"dtype": "<U1", "labels": ["a", "b", "c", "dd"]}, "classes must have labels of dtype <U1"),
        ("classes", {"dtype": "<U1", "labels": ["a", "b", "c", 1]}, "classes must have labels of dtype <U1"),
        ("classes", {"dtype": "uint8", "labels": [1, 2, 3, 256]}, "classes must have labels of dtype uint8"),
        ("classes", {"dtype": "int64", "labels": [1, 2, 3, True]}, "classes must have labels of dtype int64"),
        ("classes", {"dtype": "bool", "labels": [False, 1, 2, 3]}, "classes must have labels of dtype bool"),
        ("classes", {"dtype": "float32", "labels": [1, 2, 3, 1e300]}, "classes must have labels of dtype float32"),
        ("classes", {"dtype": "object", "labels": [[], 2, 3, 4]}, "classes must have labels of dtype object"),
        ("classes", {"dtype": "<U99999999", "labels": ["a", "b"]}, "classes take too much memory"),
        ("classes", {"dtype": "i4,O", "labels": ["a", "b"]}, "classes have a wrong dtype 'i4,O'"),
        ("classes", {"dtype": ["object"], "labels": ["a", "b"]}, "classes have a wrong dtype"),
        ("classes", {"dtype": "object", "labels": "ab"}, "classes have a wrong dtype .* or no labels"),
        ("classes", ["a", "b"], "classes must have a dtype and labels"),
        ("n_features", 0, "n_features must be from 1 to"),
        ("n_features", 2**31, "n_features must be from 1 to"),
        ("n_features", True, "n_features must be from 1 to"),
        ("n_features", 3.0, "n_features must be from 1 to"),
        ("n_features", 2, "feature_names must be 2 distinct strings"),
        ("feature_names", ["x", "y", "y"], "feature_names must be 3 distinct strings"),
        ("feature_names", ["x", "y", 1], "feature_names must be 3 distinct strings"),
        ("feature_names", 3, "feature_names must be 3 distinct strings"),
        ("base_classes", [0, 4], "base_classes must be a class index or -1 for each of 2 rounds"),
        ("base_classes", [0, -2], "base_classes must be a class index"),
        ("base_classes", [0, 1, 2], "base_classes must be a class index"),
        ("base_classes", {"0": 1}, "base_classes must be a class index"),
        ("base_classes", [0, None], "base_classes must be a class index"),
        ("start_scores", [0.0, 1.0], "start_scores must be a number up to 1000000.0 for each of 4 classes"),
        ("start_scores", [0.0, 1.0, 2.0, "3"], "start_scores must be a number up to 1000000.0 for each of 4 classes"),
        ("start_scores", [0.0, 1.0, 2.0, 2e6], "start_scores must be a number up to 1000000.0 for each of 4 classes"),
        ("start_scores", [0.0, 1.0, 2.0, {"$float": "nan"}], "start_scores must be a number up to 1000000.0"),
        ("start_scores", None, "start_scores must be a number up to 1000000.0 for each of 4 classes"),
        ("train_loss", [1.0], "train_loss must be a number for each of 2 rounds"),
        ("train_loss", ["1", "2"], "train_loss must be a number for each of 2 rounds"),
        ("extra", {"$float": "x"}, "the header has a wrong special value"),
        ("extra", {"$float": []}, "the header has a wrong special value"),
        ("extra", {"$items": 1}, "the header has a wrong dict"),
        ("extra", {"$items": [[[], 1]]}, "the header has a wrong dict"),
        ("extra", {"$items": [[1, 1], [1, 2]]}, "the header has a dict with a key twice"),
    ],
)
def test_wrong_headers(name: str, value: Any, message: str) -> None:
    data = to_bytes(*fixed_model())
    text = json.dumps(header_of(data) | {name: value}).encode()
    with pytest.raises(ModelFormatError, match=message):
        from_bytes(with_header(text, data))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the header is not valid JSON"),
        (b"{", "the header is not valid JSON"),
        (b"\xff\xfe", "the header is not valid JSON"),
        (b"[1]", "the header must be an object"),
        (b"{}", "the header must be an object with classes"),
        (b'{"classes":{"dtype":"bool","labels":[false,true]}}', "the header lacks base_classes, n_features"),
        (b'{"a":1,"a":2}', "the header has a key twice"),
        (b'{"a":NaN}', "the header has NaN, which is not JSON"),
        (b'{"a":-Infinity}', "the header has -Infinity, which is not JSON"),
        (b'{"a":1e999}', "the header has the number 1e999, which is too large"),
        (b'{"a":123456789012345678901234567890}', "which has more than 64 bits"),
        (b"[" * 10**6, "the header is not valid JSON"),
        (b'{"a":[' + b"[]," * 2**20 + b"0]}", "the header has more than 1048576 lists and dicts"),
        (b'{"classes":' + b"[" * 900 + b"]" * 900 + b"}", "the header is not valid JSON|classes must have a dtype"),
    ],
    ids=range(14),
)
def test_headers_that_are_no_headers(text: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        from_bytes(with_header(text, to_bytes(*fixed_model())))


@pytest.mark.parametrize("label", [{"$float": "nan"}, {"$float": "inf"}, -(2**63) - 1, None, [], {"$items": []}])
def test_labels_that_cannot_be_stored_cannot_be_loaded(label: Any) -> None:
    data = to_bytes(*fixed_model())
    header = header_of(data) | {"classes": {"dtype": "object", "labels": [label, 1, 2, 3]}}
    with pytest.raises(ModelFormatError, match="classes must have labels of dtype object"):
        from_bytes(with_header(json.dumps(header).encode(), data))


def test_check_header_takes_what_a_classifier_has() -> None:
    header, _ = fixed_model()
    check_header(header, 2)
    with pytest.raises(ModelFormatError, match="the header lacks classes"):
        check_header({"n_features": 2, "base_classes": []}, 0)


# ----------------------------------------------------------------------------------------------- mutations

MODEL = to_bytes(*random_model(3, n_rounds=3))
BYTES_CHANGED = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4)
NUMBERS = st.sampled_from([0, 1, 2, 3, -1, 5, 2**31 - 1, -(2**31), 255]) | st.integers(-(2**31), 2**31 - 1)
of_both_versions = pytest.mark.parametrize("model", [MODEL, VERSION_1], ids=["version 2", "version 1"])


def with_bytes(model: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Change some bytes before the checksum."""
    data = bytearray(model)
    for position, value in changes:
        data[position % (len(model) - 4)] = value
    return bytes(data)


@of_both_versions
@settings(max_examples=1000, deadline=None)
@given(changes=BYTES_CHANGED)
def test_changed_bytes_are_refused_by_the_checksum(model: bytes, changes: list[tuple[int, int]]) -> None:
    data = with_bytes(model, changes)
    assert loads_or_refuses(data) == (data == model)


@of_both_versions
@settings(max_examples=1500, deadline=None)
@given(changes=BYTES_CHANGED)
def test_changed_bytes_with_a_right_checksum_load_or_are_refused(model: bytes, changes: list[tuple[int, int]]) -> None:
    loads_or_refuses(with_checksum(with_bytes(model, changes)))


@of_both_versions
@settings(max_examples=300, deadline=None)
@given(start=st.integers(0, 2**20), length=st.integers(0, 40), filling=st.binary(max_size=40))
def test_cut_and_filled_files_load_or_are_refused(model: bytes, start: int, length: int, filling: bytes) -> None:
    start %= len(model) + 1
    loads_or_refuses(with_checksum(model[:start] + filling + model[start + length :]))


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_changed_fields_load_or_are_refused(data: st.DataObject) -> None:
    header, trees = from_bytes(MODEL)
    name = data.draw(st.sampled_from([field.name for field in fields(FlatTrees)]))
    array = getattr(trees, name)
    values = {"f": st.floats(), "u": st.integers(0, 2**64 - 1)}.get(array.dtype.kind, NUMBERS)
    for _ in range(data.draw(st.integers(1, 3))):
        value = data.draw(values)
        array[data.draw(st.integers(0, array.size - 1))] = bool(value) if array.dtype.kind == "b" else value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_file, "check_trees", lambda *_: None)
        changed_file = to_bytes(header, trees)
    loads_or_refuses(changed_file)


# -------------------------------------------------------------------------------------------------- files


def test_saving_replaces_in_one_step_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "model.abc"
    header, trees = random_model(0)
    path.write_bytes(b"old")
    with pytest.raises(TypeError, match="params cannot be stored"):
        save(path, header | {"params": object()}, trees)
    assert path.read_bytes() == b"old"
    save(path, header, trees)
    assert path.read_bytes() == to_bytes(header, trees)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.abc"]


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_old_file(failure: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write() -> None:
        with replace_file(path) as file:
            file.write(b"new")
            raise failure

    with pytest.raises(type(failure), match=r"No space left|^$"):
        write()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_permissions_are_those_of_open(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with replace_file(tmp_path / "new"):
            pass
        (tmp_path / "plain").touch()
    finally:
        os.umask(before)
    mode = stat.S_IMODE((tmp_path / "new").stat().st_mode)
    assert mode == stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o640
    (tmp_path / "plain").chmod(0o604)
    with replace_file(tmp_path / "plain"):
        pass
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o604


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    with replace_file(tmp_path / "link", "w", encoding="utf-8") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    header, trees = random_model(0)
    with pytest.raises(FileNotFoundError, match=r"The folder does not exist: .*missing"):
        save(tmp_path / "missing" / "model.abc", header, trees)
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        save(tmp_path, header, trees)
    with pytest.raises(OSError, match="Not a regular file"):
        save("/dev/null", header, trees)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match=r"model\.abc'$"):
            save(tmp_path / "model.abc", *random_model(0))
    finally:
        tmp_path.chmod(0o700)
