"""Random models, and the bytes of their files taken apart."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.core.model.ensemble import LEAF, SET_WORDS, THRESHOLD, FlatTrees, Tree
from abc_plugins.core.model.file import ModelFormatError, from_bytes

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
