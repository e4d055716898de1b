"""The model file: one file without pickle, written whole or not at all, checked from end to end when read.

Layout, all numbers little-endian:

    8 bytes   magic
    4 + 4     format version, size of the header in bytes
    6 x 8     number of rounds, trees, nodes, classes of all trees, leaf values, words of sets
    header    JSON, padded with spaces to a multiple of 8 bytes
    arrays    those of `FlatTrees`, widest items first
    4 bytes   CRC-32 of everything before

Version 1 knew only trees of one class, or of two with opposite values, and no sets: `plus`, `minus` and one value per
node, and the first three numbers.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any, BinaryIO, TypeVar

import numpy as np

from abc_plugins.core.model.ensemble import FlatTrees
from abc_plugins.core.model.header import MAX_HEADER_BYTES, check_header, decode_header, encode_header
from abc_plugins.core.model.validation import ModelFormatError, check_trees, from_version_1
from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.runtime.atomic import replace_file

__all__ = ["FORMAT_VERSION", "ModelFormatError", "check_header", "from_bytes", "load", "save", "to_bytes"]

FORMAT_VERSION = 2
MAGIC = b"\x89ABC\r\n\x1a\n"
"""Not text, and damaged by every conversion of line ends, so that such damage is noticed at once."""

_PREAMBLE = struct.Struct("<8sII")
_COUNTS = {1: struct.Struct("<3Q"), 2: struct.Struct("<6Q")}
_CHECKSUM = struct.Struct("<I")
CHECKSUM_SIZE = _CHECKSUM.size


@dataclass(frozen=True)
class _Sizes:
    """How many entries the arrays have."""

    n_rounds: int
    n_trees: int
    n_nodes: int
    n_classes: int = 0
    n_values: int = 0
    n_words: int = 0

    def layout(self, version: int) -> Iterator[tuple[str, np.dtype[Any], int]]:
        """Name, dtype in the file and length of every array, in the order of the file."""
        of_version: dict[int, tuple[tuple[str, str, int], ...]] = {
            1: (
                ("round_start", "<i8", self.n_rounds + 1),
                ("node_start", "<i8", self.n_trees + 1),
                ("threshold", "<f8", self.n_nodes),
                ("value", "<f8", self.n_nodes),
                ("gain", "<f8", self.n_nodes),
                ("weight", "<f8", self.n_nodes),
                ("plus", "<i4", self.n_trees),
                ("minus", "<i4", self.n_trees),
            ),
            2: (
                ("round_start", "<i8", self.n_rounds + 1),
                ("node_start", "<i8", self.n_trees + 1),
                ("class_start", "<i8", self.n_trees + 1),
                ("value_start", "<i8", self.n_trees + 1),
                ("set_start", "<i8", self.n_trees + 1),
                ("values", "<f8", self.n_values),
                ("sets", "<u8", self.n_words),
                ("threshold", "<f8", self.n_nodes),
                ("gain", "<f8", self.n_nodes),
                ("weight", "<f8", self.n_nodes),
                ("classes", "<i4", self.n_classes),
                ("left_set", "<i4", self.n_nodes),
            ),
        }
        of_all = (
            ("feature", "<i4", self.n_nodes),
            ("left", "<i4", self.n_nodes),
            ("right", "<i4", self.n_nodes),
            ("missing_left", "|u1", self.n_nodes),
        )
        for name, code, length in of_version[version] + of_all:
            yield name, np.dtype(code), length

    def n_bytes(self, version: int) -> int:
        return sum(dtype.itemsize * length for _, dtype, length in self.layout(version))


def save(path: str | os.PathLike[str], header: Mapping[str, Any], trees: FlatTrees) -> None:
    """Write a model file.

    Parameters
    ----------
    path : path
        An existing file is replaced.
    header : mapping
        See `abc_plugins.core.model.header.encode_header`.
    trees : FlatTrees

    Raises
    ------
    TypeError, ValueError
        If the header has something that cannot be stored.
    ModelFormatError
        If the model is not valid: it could not be read again.
    """
    chunks = list(_chunks(header, trees))  # everything is checked before the file is touched
    with replace_file(path) as file:
        for chunk in chunks:
            file.write(chunk)


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Any], FlatTrees]:
    """Read and check a model file.

    Returns
    -------
    header : dict
        As it was saved, with plain lists and numbers; `classes` is an array.
    trees : FlatTrees

    Raises
    ------
    ModelFormatError
        If the file is not a valid model.
    OSError
        If it cannot be read.
    """
    return read_file(path, "model file", _read)


def to_bytes(header: Mapping[str, Any], trees: FlatTrees) -> bytes:
    """Return what `save` would write."""
    return b"".join(_chunks(header, trees))


def from_bytes(data: bytes) -> tuple[dict[str, Any], FlatTrees]:
    """Read and check what `to_bytes` returned, as `load` does."""
    return _read(io.BytesIO(data), len(data))


# ------------------------------------------------------------------------------------------------ writing


def _chunks(header: Mapping[str, Any], trees: FlatTrees) -> Iterator[bytes | memoryview]:
    n_items = (array.size for array in (trees.feature, trees.classes, trees.values, trees.sets))
    sizes = _Sizes(trees.n_rounds, trees.n_trees, *n_items)
    check_header(header, sizes.n_rounds)
    check_trees(trees, len(header["classes"]), int(header["n_features"]))
    text = encode_header(header)
    text += b" " * (-len(text) % 8)
    counts = _COUNTS[FORMAT_VERSION].pack(*astuple(sizes))
    parts: list[bytes | memoryview] = [_PREAMBLE.pack(MAGIC, FORMAT_VERSION, len(text)), counts, text]
    for name, dtype, _ in sizes.layout(FORMAT_VERSION):
        array = np.ascontiguousarray(getattr(trees, name).astype(dtype, casting="safe", copy=False))
        parts.append(array.data.cast("B") if array.size else b"")
    yield from with_checksum(parts)


def with_checksum(parts: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Yield the parts of a file, and their checksum as the last."""
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
        yield part
    yield _CHECKSUM.pack(checksum)


# ------------------------------------------------------------------------------------------------ reading

Content = TypeVar("Content")


def read_file(path: str | os.PathLike[str], what: str, read: Callable[[BinaryIO, int], Content]) -> Content:
    """Return `read(file, size of the file)` of a regular file; a ModelFormatError of it gets to name the file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
            raise ModelFormatError("it is not a regular file.")
        with open(path, "rb") as file:
            return read(file, os.fstat(file.fileno()).st_size)
    except ModelFormatError as error:
        raise not_valid(path, error, what) from error


def not_valid(path: str | os.PathLike[str], why: object, what: str = "model file") -> ModelFormatError:
    """Make the error for a file that holds something else."""
    return ModelFormatError(f"{os.fspath(path)} is not a valid {what}: {why}")


class Reader:
    """Read exact numbers of bytes and keep their checksum."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.checksum = 0

    def read(self, n_bytes: int) -> bytes:
        data = self.file.read(n_bytes)
        if len(data) != n_bytes:
            raise ModelFormatError("it ends too early.")
        self.checksum = zlib.crc32(data, self.checksum)
        return data

    def read_array(self, dtype: np.dtype[Any], length: int) -> AnyArray:
        """Read straight into a new array, which is writable and has the machine's byte order."""
        array = np.empty(length, dtype=dtype)
        if length:
            buffer = array.data.cast("B")
            if self.file.readinto(buffer) != len(buffer):  # type: ignore[attr-defined]
                raise ModelFormatError("it ends too early.")
            self.checksum = zlib.crc32(buffer, self.checksum)
        return array.astype(dtype.newbyteorder("="), copy=False)

    def check_checksum(self) -> None:
        """Read the checksum at the end of the file and compare it."""
        checksum = self.checksum
        if _CHECKSUM.unpack(self.read(CHECKSUM_SIZE)) != (checksum,):
            raise ModelFormatError("it is damaged (the checksum does not match).")


def _read(file: BinaryIO, file_size: int) -> tuple[dict[str, Any], FlatTrees]:
    reader = Reader(file)
    version, sizes, header_size = _read_preamble(reader, file_size)
    text = reader.read(header_size)
    arrays = {name: reader.read_array(dtype, length) for name, dtype, length in sizes.layout(version)}
    reader.check_checksum()
    header = decode_header(text)
    check_header(header, sizes.n_rounds)
    if (arrays["missing_left"] > 1).any():
        raise ModelFormatError("missing_left must be 0 or 1.")
    arrays["missing_left"] = arrays["missing_left"].view(np.bool_)
    trees = FlatTrees(**(arrays if version > 1 else from_version_1(arrays)))
    check_trees(trees, header["classes"].size, header["n_features"])
    return header, trees


def _read_preamble(reader: Reader, file_size: int) -> tuple[int, _Sizes, int]:
    """Read version and sizes; they are trusted only after they have added up to the size of the file."""
    if file_size < _PREAMBLE.size:
        raise ModelFormatError("it is too short." if file_size else "it is empty.")
    magic, version, header_size = _PREAMBLE.unpack(reader.read(_PREAMBLE.size))
    if magic != MAGIC:
        raise ModelFormatError("it is another kind of file, or was converted as if it were text.")
    check_version(version, FORMAT_VERSION)
    check_header_size(header_size)
    counts = _COUNTS[version]
    sizes = _Sizes(*counts.unpack(reader.read(counts.size)))
    expected = _PREAMBLE.size + counts.size + header_size + sizes.n_bytes(version) + CHECKSUM_SIZE
    if expected != file_size:
        raise ModelFormatError(f"it has {file_size} bytes instead of {expected}: cut off, or damaged.")
    return version, sizes, header_size


def check_version(version: int, newest: int) -> None:
    """Refuse a file of a newer format version than `newest`, or of none."""
    if version > newest:
        raise ModelFormatError(
            f"it has format version {version}, but this version of abc-plugins reads up to {newest}; "
            "upgrade abc-plugins."
        )
    if version < 1:
        raise ModelFormatError(f"it has the unknown format version {version}.")


def check_header_size(n_bytes: int) -> None:
    """Refuse a header that would take too much memory."""
    if n_bytes > MAX_HEADER_BYTES + 8:
        raise ModelFormatError(f"its header has {n_bytes} bytes, more than {MAX_HEADER_BYTES} are allowed.")
