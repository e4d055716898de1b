"""Universal Binary JSON, the format XGBoost models are kept in: the part of it that XGBoost reads and writes.

Numeric arrays travel as raw big-endian bytes, so that a model of a million nodes is read or written in a
fraction of the time that JSON text takes. Decoded arrays are read-only NumPy views of the bytes; NumPy arrays of
either byte order are encoded as such.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_ARRAY_TYPES: dict[int, np.dtype[Any]] = {
    ord("U"): np.dtype(np.uint8),
    ord("i"): np.dtype(np.int8),
    ord("I"): np.dtype(">i2"),
    ord("l"): np.dtype(">i4"),
    ord("L"): np.dtype(">i8"),
    ord("d"): np.dtype(">f4"),
    ord("D"): np.dtype(">f8"),
}
_ARRAY_HEADS = {
    order: (dtype, b"[$%c#L" % code)
    for code, dtype in _ARRAY_TYPES.items()
    for order in (dtype, dtype.newbyteorder("="))
}
_SCALARS = {code: struct.Struct(f">{dtype.char}") for code, dtype in _ARRAY_TYPES.items() if dtype.char not in "lL"}
_SCALARS[ord("L")] = _LONG = struct.Struct(">q")
_CONSTANTS = {ord("Z"): None, ord("T"): True, ord("F"): False}
_NO_READERS: Mapping[str, Any] = {}
_DOUBLE = struct.Struct(">d")
_OPEN_ARRAY, _OPEN_OBJECT, _CLOSE_ARRAY, _CLOSE_OBJECT, _TEXT, _TYPED, _COUNTED = b"[{]}S$#"


Reader = Callable[[bytes, int], tuple[Any, int]]
"""Reads the value that starts at a byte of a document; returns it and the byte behind it."""


@dataclass(frozen=True)
class Encoded:
    """A value that is encoded already and is written as it stands."""

    raw: bytes


def decode(raw: bytes | bytearray, readers: Mapping[str, Reader] | None = None) -> Any:
    """Return the document as dicts, lists, strings, numbers and NumPy arrays.

    `readers` names members that a function of the caller reads.
    """
    return _value(bytes(raw), 0, readers or _NO_READERS)[0]


def encode(document: Any) -> bytearray:
    """Return `document` as bytes that XGBoost loads."""
    pieces: list[bytes] = []
    _write(document, pieces)
    return bytearray(b"".join(pieces))


def _value(raw: bytes, at: int, readers: Mapping[str, Reader] = _NO_READERS) -> tuple[Any, int]:
    """Read the value that starts at byte `at`; return it and the byte behind it."""
    code = raw[at]
    at += 1
    if code == _OPEN_OBJECT:
        return _object(raw, at, readers)
    if code == _OPEN_ARRAY:
        return _array(raw, at, readers)
    if code == _TEXT:
        return _text(raw, at)
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    if code not in _SCALARS:
        raise ValueError(f"not a model in UBJSON: unknown type {chr(code)!r} at byte {at - 1}")
    layout = _SCALARS[code]
    return layout.unpack_from(raw, at)[0], at + layout.size


def _text(raw: bytes, at: int) -> tuple[str, int]:
    length, at = _value(raw, at)
    return raw[at : at + length].decode(), at + length


def _object(raw: bytes, at: int, readers: Mapping[str, Reader]) -> tuple[dict[str, Any], int]:
    members = {}
    while raw[at] != _CLOSE_OBJECT:
        key, at = _text(raw, at)
        members[key], at = readers[key](raw, at) if key in readers else _value(raw, at, readers)
    return members, at + 1


def _array(raw: bytes, at: int, readers: Mapping[str, Reader]) -> tuple[Any, int]:
    if raw[at] == _TYPED:  # [$ type # count: raw numbers follow
        dtype = _ARRAY_TYPES[raw[at + 1]]
        length, at = _value(raw, at + 3)
        return np.frombuffer(raw, dtype, length, at), at + length * dtype.itemsize
    items: list[Any] = []
    if raw[at] == _COUNTED:
        length, at = _value(raw, at + 1)
        for _ in range(length):
            item, at = _value(raw, at, readers)
            items.append(item)
        return items, at
    while raw[at] != _CLOSE_ARRAY:
        item, at = _value(raw, at, readers)
        items.append(item)
    return items, at + 1


def _write(value: Any, pieces: list[bytes]) -> None:
    if isinstance(value, np.ndarray):
        dtype, head = _ARRAY_HEADS[value.dtype]
        pieces += (head, _LONG.pack(value.size), value.astype(dtype, copy=False).tobytes())
    elif isinstance(value, dict):
        pieces.append(b"{")
        for key, member in value.items():
            pieces.append(_packed_text(key))
            _write(member, pieces)
        pieces.append(b"}")
    elif isinstance(value, Encoded):
        pieces.append(value.raw)
    elif isinstance(value, str):
        pieces += (b"S", _packed_text(value))
    elif isinstance(value, list | tuple):
        pieces += (b"[#L", _LONG.pack(len(value)))
        for item in value:
            _write(item, pieces)
    else:
        pieces.append(_packed_scalar(value))


def _packed_text(text: str) -> bytes:
    encoded = text.encode()
    return b"L" + _LONG.pack(len(encoded)) + encoded


def _packed_scalar(value: Any) -> bytes:
    if value is None:
        return b"Z"
    if isinstance(value, bool | np.bool_):
        return b"T" if value else b"F"
    if isinstance(value, int | np.integer):
        return b"L" + _LONG.pack(int(value))
    if isinstance(value, float | np.floating):
        return b"D" + _DOUBLE.pack(float(value))
    raise TypeError(f"a model holds no {type(value).__name__}: {value!r}")
