"""Histograms: the fixed-point sums of every bin of every feature over the samples of a node."""

from __future__ import annotations

import numpy as np

from abc_plugins.core.bins.joint import add_margins
from abc_plugins.core.runtime.intrinsics import add_to_cell, prefetch
from abc_plugins.core.runtime.jit import kernel, part_of_kernel

_AHEAD = 12
"""Samples of a node lie apart in memory: fetch this many of them ahead."""

_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
"""Unsigned: an index that could be negative takes longer."""

_ROWS_PER_JOINT_CELL = 0.5
"""With fewer samples, going over the joint cells takes longer than they save."""


@kernel
def build_histogram(columns, rows, cells, joint_sums, hist):
    """Fill `hist` with the sums over the samples `rows`.

    Parameters
    ----------
    columns : Columns
    rows : array of uint32, increasing
    cells : array of int64, shape (n_samples, 2)
        What each sample adds, see `fixedpoint`.
    joint_sums : array of int64, shape (n_joint_cells, 2)
        Work space.
    hist : array of int64, shape (n_cells, 2)
    """
    clear(hist)
    joint = columns.joint
    if joint.first.size > 0 and rows.size >= _ROWS_PER_JOINT_CELL * joint_sums.shape[0]:
        clear(joint_sums)
        _add_even_rows(joint.entries, np.int64(joint.first.size), rows, cells, joint_sums)
        add_margins(joint, joint_sums, columns.first_cell, columns.n_cells, hist)
        return
    for g in range(columns.row_width.size):
        group_entries = columns.entries[columns.group_entry[g] : columns.group_entry[g + 1]]
        group_hist = hist[columns.group_cell[g] : columns.group_cell[g + 1]]
        width = columns.row_width[g]
        if width >= 0:
            _add_even_rows(group_entries, width, rows, cells, group_hist)
        else:
            _add_uneven_rows(group_entries, columns.row_start[g], rows, cells, group_hist)
    if columns.lists.entries.size > 0:
        _add_uneven_rows(columns.lists.entries, columns.lists.entry_start, rows, cells, hist)


@part_of_kernel
def clear(sums):
    """Set pairs of sums to 0; a slice assignment would take a second to compile."""
    for i in range(sums.shape[0]):
        sums[i, 0] = 0
        sums[i, 1] = 0


@kernel
def _add_even_rows(entries, width, rows, cells, hist):
    """Add samples that have `width` entries each."""
    n = rows.size
    for j in range(n):
        ahead = rows[min(j + _AHEAD, n - 1)]
        prefetch(cells, ahead)
        prefetch(entries, ahead * width)
        row = rows[j]
        z = cells[row, 0]
        wh = cells[row, 1]
        e = np.uint64(row) * np.uint64(width)
        stop = e + np.uint64(width)
        while e + _FOUR <= stop:  # four at a time: the loop itself takes time
            add_to_cell(hist, entries[e], z, wh)
            add_to_cell(hist, entries[e + _ONE], z, wh)
            add_to_cell(hist, entries[e + _TWO], z, wh)
            add_to_cell(hist, entries[e + _THREE], z, wh)
            e += _FOUR
        while e < stop:
            add_to_cell(hist, entries[e], z, wh)
            e += _ONE


@kernel
def _add_uneven_rows(entries, row_start, rows, cells, hist):
    """Add samples whose entries begin at `row_start`."""
    n = rows.size
    for j in range(n):
        ahead = rows[min(j + _AHEAD, n - 1)]
        prefetch(cells, ahead)
        prefetch(entries, row_start[ahead])
        row = rows[j]
        z = cells[row, 0]
        wh = cells[row, 1]
        for e in range(np.uint64(row_start[row]), np.uint64(row_start[row + _ONE])):
            add_to_cell(hist, entries[e], z, wh)


@kernel
def subtract_histogram(parent, child, first_cell, n_cells, usable):
    """Turn the parent's histogram into that of the other child, for the usable features."""
    for f in range(usable.size):
        if usable[f]:
            first = np.uint64(first_cell[f])
            for cell in range(first, first + np.uint64(n_cells[f])):
                parent[cell, 0] -= child[cell, 0]
                parent[cell, 1] -= child[cell, 1]


@kernel
def add_histogram(hist, part):
    """Add a histogram of other samples."""
    for cell in range(hist.shape[0]):
        hist[cell, 0] += part[cell, 0]
        hist[cell, 1] += part[cell, 1]


@kernel
def sum_histogram(entries, rows, amounts, hist):
    """Fill `hist` with the sums over the samples `rows` of one number each.

    Parameters
    ----------
    entries : RowEntries
    rows : array of uint32, increasing
    amounts : array of int64, shape (n_samples,)
        Packed cells, or weights.
    hist : array of int64, shape (n_cells,)
    """
    for cell in range(hist.size):
        hist[cell] = 0
    for g in range(entries.row_width.size):
        of_group = entries.entries[entries.group_entry[g] : entries.group_entry[g + 1]]
        group_hist = hist[entries.group_cell[g] : entries.group_cell[g + 1]]
        row_start = entries.row_start[0 if entries.row_width[g] >= 0 else g]
        _sum_rows(of_group, entries.row_width[g], row_start, rows, amounts, group_hist)
    if entries.listed.size > 0:
        _sum_rows(entries.listed, np.int64(-1), entries.listed_start, rows, amounts, hist)


@kernel
def _sum_rows(entries, row_width, row_start, rows, amounts, hist):
    """Add samples that have `row_width` entries each, or if that is -1 entries that begin at `row_start`."""
    width = np.uint64(row_width)
    is_even = row_width >= 0
    n = rows.size
    for j in range(n):
        ahead = rows[min(j + _AHEAD, n - 1)]
        prefetch(amounts, ahead)
        row = np.uint64(rows[j])
        amount = amounts[row]
        if is_even:
            prefetch(entries, np.uint64(ahead) * width)
            e = row * width
            stop = e + width
        else:
            prefetch(entries, row_start[ahead])
            e = np.uint64(row_start[row])
            stop = np.uint64(row_start[row + _ONE])
        while e + _FOUR <= stop:  # four at a time: the loop itself takes time
            hist[entries[e]] += amount
            hist[entries[e + _ONE]] += amount
            hist[entries[e + _TWO]] += amount
            hist[entries[e + _THREE]] += amount
            e += _FOUR
        while e < stop:
            hist[entries[e]] += amount
            e += _ONE
