"""Histograms: the fixed-point sums of every code of every column over the samples of a node."""

from __future__ import annotations

from abc_plugins.core.jit import kernel


@kernel
def _add_column(codes, cells, hist):  # type: ignore[no-untyped-def]
    """Add the cells of consecutive samples to the histogram of one column."""
    for i in range(codes.size):
        code = codes[i]
        # Both loads before both stores: they become one load and one store of 16 bytes.
        z = hist[code, 0] + cells[i, 0]
        wh = hist[code, 1] + cells[i, 1]
        hist[code, 0] = z
        hist[code, 1] = wh


@kernel
def _add_column_rows(codes, rows, cells, hist):  # type: ignore[no-untyped-def]
    """Add the cells of the samples `rows` to the histogram of one column; `cells` is in the order of `rows`."""
    for j in range(rows.size):
        code = codes[rows[j]]
        z = hist[code, 0] + cells[j, 0]
        wh = hist[code, 1] + cells[j, 1]
        hist[code, 0] = z
        hist[code, 1] = wh


@kernel
def build_histogram(columns, rows, cells, gathered, hist):  # type: ignore[no-untyped-def]
    """Fill `hist`, shape (n_cells, 2), with the sums over the samples `rows`.

    Parameters
    ----------
    columns : Columns
    rows : array of uint32, increasing
    cells : array of int64, shape (n_samples, 2)
    gathered : array of int64, shape (>= rows.size, 2)
        Work space, unused if `rows` holds every sample.
    hist : array of int64, shape (n_cells, 2)
    """
    hist[:] = 0
    n_columns, n_samples = columns.codes.shape
    whole = rows.size == n_samples
    if not whole:
        for j in range(rows.size):
            gathered[j, 0] = cells[rows[j], 0]
            gathered[j, 1] = cells[rows[j], 1]
    for c in range(n_columns):
        column_hist = hist[columns.column_start[c] : columns.column_start[c + 1]]
        if whole:
            _add_column(columns.codes[c], cells, column_hist)
        else:
            _add_column_rows(columns.codes[c], rows, gathered, column_hist)


@kernel
def subtract_histogram(parent, child):  # type: ignore[no-untyped-def]
    """Turn the parent's histogram into that of the other child."""
    for cell in range(parent.shape[0]):
        parent[cell, 0] -= child[cell, 0]
        parent[cell, 1] -= child[cell, 1]
