"""Joint cells: two features of few bins count as one while a histogram is summed.

A sample then makes one addition for both. The sums of the single features are margins of the joint ones, to the last
bit since they are integers. It pays for nodes with many more samples than there are joint cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Bins, Integers
from abc_plugins.core.runtime.intrinsics import add_cell
from abc_plugins.core.runtime.jit import part_of_kernel

ALONE = -1
"""In place of a second feature."""

_CELLS_PER_PAIR = 300
"""Features are joined up to this many cells, so that all of them stay in the fastest caches."""

_MOST_CELLS = 8192
_WORTHWHILE_SHARE = 0.75
"""Joint cells are used if a sample then makes at most this share of the additions."""


class JointColumns(NamedTuple):
    """Features in pairs.

    Attributes
    ----------
    entries : array of uint16
        The joint cells of every sample, one for each pair; empty if features are not joined.
    first, second : arrays of int32, shape (n_pairs,)
        The two features of a pair; the second may be ALONE.
    start : array of int64, shape (n_pairs + 1,)
        Joint cells of a pair: all of the second feature for the first bin of the first one, then for the next.
    """

    entries: AnyArray
    first: Integers
    second: Integers
    start: AnyArray


def make_joint(codes: Bins, n_cells: Integers) -> JointColumns:
    """Join features, smallest first; `codes` has shape (n_features, n_samples), its values are below `n_cells`."""
    first, second = _pair_up(n_cells)
    sizes = n_cells[first].astype(np.int64) * np.where(second == ALONE, 1, n_cells[second])
    start = np.concatenate(([0], np.cumsum(sizes)))
    if first.size > _WORTHWHILE_SHARE * n_cells.size or start[-1] > _MOST_CELLS:
        return no_joint()
    entries = np.empty((codes.shape[1], first.size), dtype=np.uint16)
    for p in range(first.size):
        entries[:, p] = codes[first[p]]
        if second[p] != ALONE:
            entries[:, p] *= np.uint16(n_cells[second[p]])
            entries[:, p] += codes[second[p]]
        entries[:, p] += np.uint16(start[p])
    return JointColumns(entries.reshape(-1), first, second, start)


def no_joint() -> JointColumns:
    """Features that are not joined."""
    none = np.empty(0, dtype=np.int32)
    return JointColumns(np.empty(0, dtype=np.uint16), none, none, np.zeros(1, dtype=np.int64))


def _pair_up(n_cells: Integers) -> tuple[Integers, Integers]:
    order = np.argsort(n_cells, kind="stable").tolist()
    first, second = [], []
    while order:
        first.append(order.pop(0))
        joined = bool(order) and n_cells[first[-1]] * n_cells[order[0]] <= _CELLS_PER_PAIR
        second.append(order.pop(0) if joined else ALONE)
    return np.array(first, dtype=np.int32), np.array(second, dtype=np.int32)


@part_of_kernel
def add_margins(joint, sums, first_cell, n_cells, hist):
    """Add the sums of joint cells to the cells of the features."""
    first, second, start = joint.first, joint.second, joint.start
    for p in range(first.size):
        cell = first_cell[first[p]]
        n_second = n_cells[second[p]] if second[p] != ALONE else np.int32(1)
        for row in range(start[p], start[p + 1], n_second):
            for j in range(row, row + n_second):
                add_cell(hist, cell, sums, j)
            if second[p] != ALONE:
                second_cell = first_cell[second[p]]
                for j in range(n_second):
                    add_cell(hist, second_cell + j, sums, row + j)
            cell += 1
