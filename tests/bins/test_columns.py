"""The two layouts of the binned data, read back."""

import numpy as np
import pytest

from abc_plugins.core.bins import columns as columns_module
from abc_plugins.core.bins.binning import bin_features
from abc_plugins.core.bins.columns import STORED, make_columns
from abc_plugins.core.runtime.parallel import Workers


def lay_out(X):
    with Workers(1) as workers:
        return make_columns(*bin_features(np.asarray(X, dtype=float), None, 255, workers))


def entries_of(columns, group, row):
    """Cells that a sample adds to within a group, as numbers over all groups."""
    entries = columns.entries[columns.group_entry[group] : columns.group_entry[group + 1]]
    width = columns.row_width[group]
    if width >= 0:
        mine = entries[row * width : (row + 1) * width]
    else:
        mine = entries[columns.row_start[group, row] : columns.row_start[group, row + 1]]
    return columns.group_cell[group] + mine.astype(np.int64)


def cell_of(columns, f, code):
    """The cell of a bin, None for the default bin: bins in order, without the default one."""
    default = columns.default_bin[f]
    if code == default:
        return None
    return columns.first_cell[f] + code - (default != STORED and code > default)


def check_entries(columns):
    n_features, n_samples = columns.codes.shape
    for row in range(n_samples):
        found = [cell for g in range(columns.row_width.size) for cell in entries_of(columns, g, row)]
        expected = [cell_of(columns, f, int(columns.codes[f, row])) for f in range(n_features)]
        assert found == [cell for cell in expected if cell is not None]


def dense(n_samples=40, n_features=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n_samples, n_features))


def sparse(n_samples=40, seed=0):
    """Defaults at the bottom, at the top, in between, missing; and one feature without a default."""
    rng = np.random.default_rng(seed)
    X = np.round(2 * rng.normal(size=(n_samples, 5)))
    rare = rng.random((n_samples, 4)) < 0.3
    X[:, 0] = np.where(rare[:, 0], np.abs(X[:, 0]) + 1, 0)
    X[:, 1] = np.where(rare[:, 1], -np.abs(X[:, 1]) - 1, 0)
    X[:, 2] = np.where(rare[:, 2], X[:, 2], 0)
    X[:, 3] = np.where(rare[:, 3], X[:, 3], np.nan)
    X[::7, 2] = np.nan
    return X


def test_dense_data_have_rows_of_equal_length():
    columns = lay_out(dense())
    assert columns.default_bin.tolist() == [STORED] * 5
    assert columns.row_width.tolist() == [5]
    assert columns.row_start.size == 0
    assert columns.n_cells.tolist() == [40] * 5
    check_entries(columns)


def test_default_bins_have_neither_entries_nor_cells():
    columns = lay_out(sparse())
    assert columns.default_bin[0] == 0
    assert columns.default_bin[1] == columns.n_bins[1] - 1
    assert 0 < columns.default_bin[2] < columns.n_bins[2]
    assert columns.default_bin[3] == columns.n_bins[3]
    assert columns.default_bin[4] == STORED
    assert columns.row_width.tolist() == [-1]
    np.testing.assert_array_equal(columns.n_cells, columns.n_bins + columns.has_missing - (columns.default_bin >= 0))
    check_entries(columns)


def test_default_bins_are_not_worth_it_where_they_save_little():
    X = np.column_stack([dense(), sparse()[:, 0]])
    assert lay_out(X).default_bin.tolist() == [STORED] * 6


def test_one_hot_rows_of_equal_length_need_no_starts():
    columns = lay_out(np.eye(4)[np.arange(40) % 4])
    assert columns.row_width.tolist() == [1]
    assert columns.n_cells.tolist() == [1] * 4
    check_entries(columns)


@pytest.mark.parametrize(
    ("make", "limit"), [(dense, 1), (dense, 45), (dense, 90), (sparse, 1), (sparse, 9), (sparse, 17)]
)
def test_groups_of_cells(monkeypatch, make, limit):
    """As many as are needed; a feature is never cut."""
    monkeypatch.setattr(columns_module, "_CELLS_PER_GROUP", limit)
    columns = lay_out(make())
    sizes = np.diff(columns.group_cell)
    assert sizes.sum() == columns.n_cells.sum()
    assert sizes.size > 1
    assert np.all((sizes <= limit) | np.isin(sizes, columns.n_cells))
    check_entries(columns)


def test_features_that_never_vary_are_left_out():
    X = dense()
    X[:, 1] = 3.0
    X[:, 3] = [1.0, *[np.nan] * 39]
    columns = lay_out(X)
    assert columns.feature.tolist() == [0, 2, 3, 4]
    assert columns.n_bins.tolist() == [40, 40, 1, 40]
    assert columns.has_missing.tolist() == [False, False, True, False]
    check_entries(columns)


def test_nothing_to_split_on():
    columns = lay_out(np.ones((5, 3)))
    assert columns.feature.size == columns.entries.size == columns.group_cell[-1] == 0


def test_the_groups_that_are_used_fit_into_an_entry():
    assert np.iinfo(np.uint16).max >= columns_module._CELLS_PER_GROUP + 256
