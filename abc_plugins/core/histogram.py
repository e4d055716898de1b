"""Histograms: the fixed-point sums of every bin of every feature over the samples of a node."""

from __future__ import annotations

from abc_plugins.core.intrinsics import add_to_cell, prefetch
from abc_plugins.core.jit import kernel

_AHEAD = 12
"""Samples of a node lie apart in memory: fetch this many of them ahead."""


@kernel
def build_histogram(columns, rows, cells, hist):
    """Fill `hist` with the sums over the samples `rows`.

    Parameters
    ----------
    columns : Columns
    rows : array of uint32, increasing
    cells : array of int64, shape (n_samples, 2)
        What each sample adds, see `fixedpoint`.
    hist : array of int64, shape (n_cells, 2)
    """
    hist[:] = 0
    for g in range(columns.row_width.size):
        group_entries = columns.entries[columns.group_entry[g] : columns.group_entry[g + 1]]
        group_hist = hist[columns.group_cell[g] : columns.group_cell[g + 1]]
        width = columns.row_width[g]
        if width >= 0:
            _add_even_rows(group_entries, width, rows, cells, group_hist)
        else:
            _add_uneven_rows(group_entries, columns.row_start[g], rows, cells, group_hist)


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
        first = row * width
        for e in range(first, first + width):
            add_to_cell(hist, entries[e], z, wh)


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
        for e in range(row_start[row], row_start[row + 1]):
            add_to_cell(hist, entries[e], z, wh)


@kernel
def subtract_histogram(parent, child, first_cell, n_cells, usable):
    """Turn the parent's histogram into that of the other child, for the usable features."""
    for f in range(usable.size):
        if usable[f]:
            for cell in range(first_cell[f], first_cell[f] + n_cells[f]):
                parent[cell, 0] -= child[cell, 0]
                parent[cell, 1] -= child[cell, 1]
