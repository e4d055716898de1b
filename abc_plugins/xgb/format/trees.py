"""Trees of an XGBoost model as the bytes they are kept in.

The stock model needs every tree of an ABC round twice, once for its own class and once, leaves negated, for the
base class. A tree is never taken apart for that: a copy gets a new number, and its leaf values other sign bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.jit import kernel
from abc_plugins.xgb.format.ubjson import Encoded, encode

_FIELDS = ("id", "base_weights", "left_children", "split_conditions", "loss_changes")
_KEYS = np.zeros((len(_FIELDS), 16), dtype=np.uint8)
for _row, _name in zip(_KEYS, _FIELDS, strict=True):
    _row[: len(_name)] = np.frombuffer(_name.encode(), np.uint8)
_KEY_LENGTHS = np.array([len(name) for name in _FIELDS], dtype=np.int64)
_LAST_SCALAR = ord("z")


def _scalar_sizes() -> AnyArray:
    sizes = np.full(_LAST_SCALAR + 1, -1, dtype=np.int64)
    for code, size in zip(b"ZTFUiIlLdD", (0, 0, 0, 1, 1, 2, 4, 8, 4, 8), strict=True):
        sizes[code] = size
    return sizes


_SCALAR_SIZES = _scalar_sizes()


@kernel
def _number(raw, at, size):
    """Read the big-endian whole number of `size` bytes at `at`; not negative where it is used (lengths)."""
    number = np.int64(0)
    for i in range(size):
        number = number * 256 + np.int64(raw[at + i])
    return number


@kernel
def _skip_flat(raw, at, scalar_sizes):
    """Return the byte behind a text, a number or an array of numbers that starts at `at`; -1 for anything else."""
    code = raw[at]
    if code == 83:  # S, length, text
        size = scalar_sizes[raw[at + 1]]
        return at + 2 + size + _number(raw, at + 2, size)
    if code == 91 and raw[at + 1] == 36:  # [$ type # length, numbers
        size = scalar_sizes[raw[at + 4]]
        return at + 5 + size + scalar_sizes[raw[at + 2]] * _number(raw, at + 5, size)
    if code < scalar_sizes.size and scalar_sizes[code] >= 0:
        return at + 1 + scalar_sizes[code]
    return -1


@kernel
def _scan_tree(raw, at, keys, key_lengths, scalar_sizes, found):
    """Note where the values of `keys` start in the tree at `at`; the byte behind the tree, -1 if it is no tree."""
    depth = 0
    while True:
        if raw[at] == 123:  # {
            depth += 1
            at += 1
        if raw[at] == 125:  # }
            depth -= 1
            at += 1
            if depth == 0:
                return at
            continue
        size = scalar_sizes[raw[at]]
        length = _number(raw, at + 1, size)
        at += 1 + size
        if depth == 1:
            for field in range(key_lengths.size):
                same = key_lengths[field] == length
                for i in range(length if same else 0):
                    same = same and keys[field, i] == raw[at + i]
                if same:
                    found[field] = at + length
        at += length
        if raw[at] != 123:
            at = _skip_flat(raw, at, scalar_sizes)
            if at < 0:
                return -1


@kernel
def _scan_trees(raw, at, keys, key_lengths, scalar_sizes, found):
    """Note start, end and fields of every tree, one behind the other from `at` on."""
    for tree in range(found.shape[0]):
        found[tree, 0] = at
        at = _scan_tree(raw, at, keys, key_lengths, scalar_sizes, found[tree, 2:])
        if at < 0:
            return at
        found[tree, 1] = at
    return at


@kernel
def _flip_signs(raw, n_nodes, base_weights, left_children, split_conditions):
    """Negate the weight of every node, and the leaf values: the split conditions of nodes without children."""
    for node in range(n_nodes):
        raw[base_weights + 4 * node] ^= 0x80
        if raw[left_children + 4 * node] & 0x80:
            raw[split_conditions + 4 * node] ^= 0x80


@dataclass(frozen=True)
class TreeBytes:
    """One scalar tree in UBJSON, and where its parts lie.

    Attributes
    ----------
    raw : bytes
        The whole object.
    number : tuple of int
        First byte of the tree's number, and the byte behind it.
    base_weights, left_children, split_conditions, loss_changes : int
        First byte of the array's numbers, 4 bytes per node. A leaf has no left child (-1), and its value stands
        among the split conditions; loss changes are the gains of splits.
    n_nodes : int
    """

    raw: bytes
    number: tuple[int, int]
    base_weights: int
    left_children: int
    split_conditions: int
    loss_changes: int
    n_nodes: int

    def numbered(self, number: int) -> Encoded:
        """Return the tree as number `number` of a model."""
        first, behind = self.number
        return Encoded(self.raw[:first] + bytes(encode(number)) + self.raw[behind:])

    def negated(self) -> TreeBytes:
        """Return the same tree with all values negated."""
        raw = np.frombuffer(self.raw, np.uint8).copy()
        _flip_signs(raw, self.n_nodes, self.base_weights, self.left_children, self.split_conditions)
        return self._with(raw.tobytes())

    def root_gain(self) -> float:
        """Read how much the first split gains, 0 without a split."""
        return float(np.frombuffer(self.raw, ">f4", 1, self.loss_changes)[0])

    def is_leaf(self) -> AnyArray:
        """Whether each node is a leaf, shape (n_nodes,)."""
        return np.frombuffer(self.raw, ">i4", self.n_nodes, self.left_children) == -1

    def values(self) -> AnyArray:
        """Read what each node adds if it is a leaf, shape (n_nodes,); thresholds in the other places."""
        return np.frombuffer(self.raw, ">f4", self.n_nodes, self.split_conditions).astype(np.float32)

    def with_leaf_values(self, values: Floats) -> TreeBytes:
        """Return the same tree with the leaves' entries of `values`, shape (n_nodes,), as values."""
        raw = bytearray(self.raw)
        leaf = self.is_leaf()
        for start in (self.base_weights, self.split_conditions):
            np.frombuffer(raw, ">f4", self.n_nodes, start)[leaf] = values[leaf]
        return self._with(bytes(raw))

    def _with(self, raw: bytes) -> TreeBytes:
        return replace(self, raw=raw)


def read_trees(raw: bytes, at: int) -> tuple[list[TreeBytes], int]:
    """Read the member `trees` of a model that starts at byte `at`: see `ubjson.decode`."""
    data = np.frombuffer(raw, np.uint8)
    size = int(_SCALAR_SIZES[raw[at + 2]])
    if raw[at : at + 2] != b"[#" or size < 0:
        raise ValueError(f"not an XGBoost model: trees expected at byte {at}")
    found = np.zeros((int(_number(data, at + 3, size)), 2 + len(_FIELDS)), dtype=np.int64)
    behind = int(_scan_trees(data, at + 3 + size, _KEYS, _KEY_LENGTHS, _SCALAR_SIZES, found))
    if behind < 0 or not found[:, 2:].all():
        raise ValueError("not a model of scalar trees: a tree has an unknown layout")
    return [_tree(raw, places) for places in found.tolist()], behind


def _tree(raw: bytes, places: list[int]) -> TreeBytes:
    start, end, number, *arrays = places
    head = 13  # [$d#L and the length in 8 bytes
    lengths = {int.from_bytes(raw[at + 5 : at + head], "big") for at in arrays}
    if len(lengths) != 1 or any(raw[at + 4] != ord("L") for at in arrays):
        raise ValueError("not a model of scalar trees: node arrays differ in length")
    base_weights, left_children, split_conditions, loss_changes = (at + head - start for at in arrays)
    number_size = 1 + int(_SCALAR_SIZES[raw[number]])
    return TreeBytes(
        raw[start:end],
        (number - start, number - start + number_size),
        base_weights,
        left_children,
        split_conditions,
        loss_changes,
        lengths.pop(),
    )


Document = dict[str, Any]
"""A decoded model; the member `trees` holds `TreeBytes`, see `read_trees`."""
