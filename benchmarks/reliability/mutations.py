"""Mutations of model files, for the fuzzer: bytes, sizes, array entries and header values."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from abc_plugins.core.model.checkpoint import MAGIC as CHECKPOINT_MAGIC

_MODEL, _MODEL_OF_VERSION_1 = struct.Struct("<8sII6Q"), struct.Struct("<8sII3Q")
_CHECKPOINT = struct.Struct("<8sIIQ")
_INTEGERS = (0, 1, 2, 3, 7, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e308, -1e308, 1e300, np.inf, -np.inf, np.nan)
_JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, "", "x", "x" * 300, "\ud800",
    "int64", "object", "<U3", [], [[]], {}, {"$float": "nan"}, {"$float": 1}, {"$items": [[1, 2]]}, {"$items": 3},
)  # fmt: skip
_NUMBERS = ("0", "1", "-1", "2", "99999999", "-99999999", "2147483648", "1e400", "nan", "inf", "", "x", "0.5")

Mutation = Callable[[bytes, np.random.Generator], bytes]


def mutate(data: bytes, rng: np.random.Generator, mutations: tuple[Mutation, ...]) -> bytes:
    """Apply one to three of the mutations."""
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        data = mutations[int(rng.integers(len(mutations)))](data, rng)
    return data


def change_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Give up to eight bytes other values."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        if changed:
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
    return bytes(changed)


def cut_and_fill(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace a stretch of bytes by another one, of another length perhaps, or by a copy from elsewhere."""
    start = int(rng.integers(len(data) + 1))
    stop = start + int(rng.integers(64))
    filling = rng.bytes(int(rng.integers(64)))
    if rng.random() < 0.5:
        source = int(rng.integers(len(data) + 1))
        filling = data[source : source + int(rng.integers(64))]
    return data[:start] + filling + data[stop:]


def truncate(data: bytes, rng: np.random.Generator) -> bytes:
    """Keep only the beginning."""
    return data[: int(rng.integers(len(data) + 1))]


def change_sizes(data: bytes, rng: np.random.Generator) -> bytes:
    """Change one of the sizes at the front."""
    layout = _layout(data)
    if len(data) < layout.size:
        return data
    values = list(layout.unpack_from(data))
    index = int(rng.integers(1, len(values)))
    new = int(rng.choice(np.array(_INTEGERS, dtype=np.uint64))) if rng.random() < 0.5 else values[index]
    limit = 2**32 if index < 3 else 2**64
    values[index] = (new + int(rng.integers(-2, 3))) % limit
    return layout.pack(*values) + data[layout.size :]


def change_entries(data: bytes, rng: np.random.Generator) -> bytes:
    """Change aligned numbers behind the header: what the arrays hold, with plausible and extreme values."""
    layout = _layout(data)
    if len(data) < layout.size:
        return data
    start = layout.size + int(layout.unpack_from(data)[2])
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        code, size = (("<q", 8), ("<d", 8), ("<i", 4), ("<B", 1))[int(rng.integers(4))]
        count = (len(changed) - start) // size
        if count <= 0:
            continue
        position = start + size * int(rng.integers(count))
        if code == "<d":
            value: Any = float(rng.choice(_FLOATS)) if rng.random() < 0.5 else float(rng.normal())
        else:
            bits = 8 * size
            value = int(rng.integers(-2, 12)) if rng.random() < 0.7 else int(_INTEGERS[rng.integers(len(_INTEGERS))])
            value = value % 2**bits if code == "<B" else (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
        struct.pack_into(code, changed, position, value)
    return bytes(changed)


def change_header(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a value somewhere in the JSON header, or remove it, and put the header back with its new size."""
    layout = _layout(data)
    try:
        values = list(layout.unpack_from(data))
        header = json.loads(data[layout.size : layout.size + values[2]])
    except (struct.error, ValueError):
        return data
    header = _change_json(header, rng)
    text = json.dumps(header).encode()
    rest = data[layout.size + values[2] :]
    values[2] = len(text)
    return layout.pack(*values) + text + rest


def with_checksum(data: bytes) -> bytes:
    """Make the checksums right, so that only the other checks stand in the way."""
    if data.startswith(CHECKPOINT_MAGIC) and len(data) >= _CHECKPOINT.size:
        *_, header_size, model_size = _CHECKPOINT.unpack_from(data)
        start = _CHECKPOINT.size + header_size
        model = data[start : start + model_size]
        data = data[:start] + _seal(model) + data[start + model_size :]
    return _seal(data)


def change_numbers(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a number of a text model, or a whole token."""
    tokens = data.split(b" ") if rng.random() < 0.5 else data.split(b"\n")
    index = int(rng.integers(len(tokens)))
    tokens[index] = _NUMBERS[int(rng.integers(len(_NUMBERS)))].encode()
    return (b" " if b" ".join(tokens).count(b" ") >= len(tokens) - 1 and b"\n" in data else b"\n").join(tokens)


def change_json_file(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a value somewhere in a JSON file."""
    try:
        return json.dumps(_change_json(json.loads(data), rng)).encode()
    except ValueError:
        return data


FILE_MUTATIONS = (change_bytes, cut_and_fill, truncate, change_sizes, change_entries, change_entries, change_header)
TEXT_MUTATIONS = (change_bytes, cut_and_fill, truncate, change_numbers, change_numbers)
JSON_MUTATIONS = (change_bytes, cut_and_fill, truncate, change_json_file, change_json_file)


def _layout(data: bytes) -> struct.Struct:
    if data.startswith(CHECKPOINT_MAGIC):
        return _CHECKPOINT
    return _MODEL_OF_VERSION_1 if data[8:12] == b"\1\0\0\0" else _MODEL


def _seal(data: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4])) if len(data) >= 4 else data


def _change_json(value: Any, rng: np.random.Generator) -> Any:
    """Walk to a random place and change what is there."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = list(value)[int(rng.integers(len(value)))]
        if rng.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        if rng.random() < 0.05:
            return {**value, str(_JSON_VALUES[rng.integers(len(_JSON_VALUES))]): 1}
        return {**value, key: _change_json(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        index = int(rng.integers(len(value)))
        if rng.random() < 0.1:
            return value[:index] + value[index + 1 :]
        if rng.random() < 0.1:
            return [*value, value[index]]
        return [*value[:index], _change_json(value[index], rng), *value[index + 1 :]]
    return _JSON_VALUES[int(rng.integers(len(_JSON_VALUES)))]
