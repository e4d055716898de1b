"""Damaged model files: every wrong entry is found and named."""

from __future__ import annotations

import io
import json
import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_files import VERSION_1, header_of, loads_or_refuses, random_model, random_tree, with_checksum, with_header

from abc_plugins.core.model import file as model_file
from abc_plugins.core.model.ensemble import SET_WORDS, FlatTrees
from abc_plugins.core.model.file import ModelFormatError, from_bytes, load, to_bytes
from abc_plugins.core.model.header import check_header


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
