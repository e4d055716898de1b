"""Checkpoints: everything a training run needs to go on as if it had never stopped, in one file without pickle.

Layout, all numbers little-endian:

    8 bytes   magic
    4 + 4     format version, size of the header in bytes
    8         size of the model in bytes
    header    JSON: what the caller keeps, and the name and shape of every array
    model     a whole model file, see `file`
    arrays    float64, one behind the other
    4 bytes   CRC-32 of everything before
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from abc_plugins.core.model import file as model_file
from abc_plugins.core.model.ensemble import FlatTrees
from abc_plugins.core.model.header import decode_values, encode_values
from abc_plugins.core.model.validation import ModelFormatError
from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.core.runtime.atomic import replace_file

FORMAT_VERSION = 1
MAGIC = b"\x89ABK\r\n\x1a\n"

_PREAMBLE = struct.Struct("<8sIIQ")
_FLOAT = np.dtype("<f8")
_MAX_DIMENSIONS = 2


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint file holds.

    Attributes
    ----------
    header : dict
        Plain values.
    model_header : dict
    trees : FlatTrees
        The model, as in a model file.
    arrays : dict of float64 arrays
    """

    header: Mapping[str, Any]
    model_header: Mapping[str, Any]
    trees: FlatTrees
    arrays: Mapping[str, Floats]


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint; the file is the old one or the whole new one, whatever happens."""
    parts = _parts(checkpoint)  # everything is checked before the file is touched
    with replace_file(path) as file:
        for part in model_file.with_checksum(parts):
            file.write(part)


def check_checkpoint(checkpoint: Checkpoint) -> None:
    """Raise what `save_checkpoint` would raise for something that cannot be stored."""
    _parts(checkpoint)


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read and check a checkpoint.

    Raises
    ------
    ModelFormatError
        If the file is not a valid checkpoint.
    OSError
        If it cannot be read.
    """
    return model_file.read_file(path, "checkpoint", read_checkpoint)


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether the file says that it is a checkpoint."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _parts(checkpoint: Checkpoint) -> list[bytes | memoryview]:
    model = model_file.to_bytes(checkpoint.model_header, checkpoint.trees)
    arrays = {name: np.ascontiguousarray(array, dtype=_FLOAT) for name, array in checkpoint.arrays.items()}
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    text = encode_values({**checkpoint.header, "arrays": shapes})
    preamble = _PREAMBLE.pack(MAGIC, FORMAT_VERSION, len(text), len(model))
    return [preamble, text, model, *(array.data.cast("B") if array.size else b"" for array in arrays.values())]


def read_checkpoint(file: BinaryIO, file_size: int) -> Checkpoint:
    """Read and check an open checkpoint file of a known size."""
    reader = model_file.Reader(file)
    header_size, model_size = _read_preamble(reader, file_size)
    header = decode_values(reader.read(header_size))
    shapes = _check_shapes(header.pop("arrays", None))
    n_bytes = sum(math.prod(shape) for shape in shapes.values()) * _FLOAT.itemsize
    expected = _PREAMBLE.size + header_size + model_size + n_bytes + model_file.CHECKSUM_SIZE
    if expected != file_size:
        raise ModelFormatError(f"it has {file_size} bytes instead of {expected}: cut off, or damaged.")
    model = reader.read(model_size)
    arrays = {name: reader.read_array(_FLOAT, math.prod(shape)).reshape(shape) for name, shape in shapes.items()}
    reader.check_checksum()
    return Checkpoint(header, *model_file.from_bytes(model), arrays)


def _read_preamble(reader: model_file.Reader, file_size: int) -> tuple[int, int]:
    """Sizes of header and model, no larger than the file."""
    if file_size < _PREAMBLE.size:
        raise ModelFormatError("it is too short." if file_size else "it is empty.")
    magic, version, header_size, model_size = _PREAMBLE.unpack(reader.read(_PREAMBLE.size))
    if magic != MAGIC:
        raise ModelFormatError("it is another kind of file, or was converted as if it were text.")
    model_file.check_version(version, FORMAT_VERSION)
    model_file.check_header_size(header_size)
    if _PREAMBLE.size + header_size + model_size > file_size:
        raise ModelFormatError(f"it has {file_size} bytes, fewer than its parts: cut off, or damaged.")
    return header_size, model_size


def _check_shapes(shapes: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(shapes, dict) or not all(isinstance(name, str) for name in shapes):
        raise ModelFormatError("arrays must name the arrays of the file.")
    for shape in shapes.values():
        good = isinstance(shape, list) and len(shape) <= _MAX_DIMENSIONS
        if not good or not all(type(size) is int and size >= 0 for size in shape):
            raise ModelFormatError("arrays must have shapes of up to two sizes.")
    return {name: tuple(shape) for name, shape in shapes.items()}
