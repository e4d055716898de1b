"""Bins of sparse tables: the same as those of the table made dense, in another layout."""

import numpy as np
import pytest
from scipy import sparse

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.bins.lists import LISTED, make_spare_codes, spread_codes
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.sparse_table import SparseTable, make_sparse_table
from abc_plugins.core.trees.histogram import build_histogram

N = 400


def draw(seed=0):
    """A table with columns that are worth listing and columns that are not: NaN, negative values, a constant."""
    random = np.random.default_rng(seed)
    X = np.where(random.random((N, 9)) < 0.06, np.round(2 * random.normal(size=(N, 9)), 1), 0.0)
    X[:, 1] = random.normal(size=N)
    X[::40, 2] = np.nan
    X[:, 4] = 0.0
    X[:, 5] = np.where(random.random(N) < 0.6, X[:, 1], 0.0)
    X[:, 6] = np.where(random.random(N) < 0.05, -7.0, 0.0)
    X[:, 8] = 3.0  # constant, and nowhere zero
    return X


def bin_both(X, table, weights=None, max_bins=255, is_categorical=None):
    weights = np.ones(N) if weights is None else weights
    labels = np.zeros(N, dtype=np.int32)
    with Workers(1) as workers:
        return [make_training_data(T, labels, weights, 2, max_bins, workers, is_categorical) for T in (X, table)]


def all_codes(columns):
    spare = make_spare_codes(columns)
    return np.array([spread_codes(columns, f, spare).copy() for f in range(columns.feature.size)])


def check_same(dense, listed):
    """Bins, edges, and what a histogram tells of every bin, are the same."""
    for name in ("feature", "n_bins", "has_missing", "is_categorical"):
        np.testing.assert_array_equal(getattr(dense.columns, name), getattr(listed.columns, name))
    for mine, other in zip(dense.split_edges, listed.split_edges, strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(all_codes(dense.columns), all_codes(listed.columns))
    np.testing.assert_array_equal(dense.parts(8), listed.parts(8))


def bin_sums(columns, rows, cells):
    """Sums of every bin of every feature, the default bin included."""
    hist = np.full((columns.total_cells, 2), 77, dtype=np.int64)
    joint_sums = np.empty((int(columns.joint.start[-1]), 2), dtype=np.int64)
    build_histogram(columns, rows.astype(np.uint32), cells, joint_sums, hist)
    sums = []
    for f in range(columns.feature.size):
        own = hist[columns.first_cell[f] : columns.first_cell[f] + columns.n_cells[f]]
        if columns.default_bin[f] >= 0:
            own = np.insert(own, columns.default_bin[f], cells[rows].sum(axis=0) - own.sum(axis=0), axis=0)
        sums.append(own)
    return sums


@pytest.mark.parametrize("max_bins", [255, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_bins_as_dense(weighted, max_bins):
    X = draw()
    weights = np.random.default_rng(1).random(N) + 0.1 if weighted else None
    dense, listed = bin_both(X, make_sparse_table(sparse.csc_array(X)), weights, max_bins)
    check_same(dense, listed)
    row_of = listed.columns.lists.row_of
    assert LISTED in row_of
    assert row_of.max() >= 0
    assert dense.columns.lists.row_of.size == 0


def test_the_same_histograms_as_a_sum_over_codes():
    X = draw()
    columns = bin_both(X, make_sparse_table(sparse.csc_array(X)))[1].columns
    random = np.random.default_rng(2)
    cells = random.integers(-1000, 1000, size=(N, 2))
    rows = np.sort(random.choice(N, 150, replace=False))
    codes = all_codes(columns)
    for f, sums in enumerate(bin_sums(columns, rows, cells)):
        expected = [cells[rows][codes[f, rows] == b].sum(axis=0) for b in range(len(sums))]
        np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("fill", [np.nan, 1.5])
def test_columns_filled_with_something_else(fill):
    X = draw()
    table = make_sparse_table(sparse.csc_array(X))
    X[:, 0] = np.where(X[:, 0] == 0.0, fill, X[:, 0])
    filled = np.zeros(X.shape[1])
    filled[0] = fill
    check_same(*bin_both(X, SparseTable(table.matrix, filled)))


def test_categories_are_never_listed():
    X = draw()
    X[:, 6] = np.arange(N) % 20 == 0
    mask = np.arange(X.shape[1]) == 6
    table = make_sparse_table(sparse.csc_array(X))
    dense, listed = bin_both(X, table, is_categorical=mask)
    check_same(dense, listed)
    assert listed.columns.lists.row_of[list(listed.columns.feature).index(6)] != LISTED


def test_a_table_that_is_all_lists():
    X = draw()[:, [0, 3, 6]]
    dense, listed = bin_both(X, make_sparse_table(sparse.csc_array(X)))
    check_same(dense, listed)
    assert listed.columns.codes.shape == (0, N)
    assert np.all(listed.columns.lists.row_of == LISTED)


def test_rows_and_columns_of_a_table():
    X = draw()
    table = make_sparse_table(sparse.csc_array(X))
    shuffled = np.random.default_rng(3).permutation(N)[:100]
    for rows in (slice(10, 60), shuffled, X[:, 1] > 0):
        part = table[rows]
        assert part.shape == X[rows].shape
        for f in range(X.shape[1]):
            np.testing.assert_array_equal(part.column(f), X[rows][:, f])


def test_row_blocks(monkeypatch):
    monkeypatch.setattr("abc_plugins.core.runtime.sparse_table._BLOCK_BYTES", 8 * 3 * 70)
    X = draw()
    used = np.array([1, 5, 6])
    blocks = list(make_sparse_table(sparse.csc_array(X)).row_blocks(used))
    assert len(blocks) == 6
    np.testing.assert_array_equal(np.concatenate([values for _, values in blocks]), X[:, used])
    assert [rows.start for rows, _ in blocks] == list(range(0, N, 70))


def test_features_of_two_bins_are_bits_if_there_are_many_samples(monkeypatch):
    random = np.random.default_rng(3)
    X = (random.random((N - 3, 6)) < [0.5, 0.1, 0.9, 0.5, 0.5, 0.5]).astype(float)  # no multiple of 8
    X[:, 3] = random.normal(size=len(X))
    X[:, 4] = np.where(X[:, 4] > 0, 5.0, np.nan)  # one bin, and that of missing values
    X[:9, 5] = np.nan  # two bins, and that of missing values
    labels, weights = np.zeros(len(X), dtype=np.int32), np.ones(len(X))
    with Workers(1) as workers:
        dense = make_training_data(X, labels, weights, 2, 255, workers)
        monkeypatch.setattr("abc_plugins.core.bins.lists._ROWS_WORTH_BITS", 100)
        packed = make_training_data(X, labels, weights, 2, 255, workers)
    np.testing.assert_array_equal(packed.columns.lists.row_of, [-2, -3, -4, 0, -5, 1])
    assert packed.columns.codes.shape == (2, len(X))
    assert dense.columns.lists.row_of.size == 0
    check_same(dense, packed)


@pytest.mark.parametrize("shape", ["symmetric", "best-first"])
def test_bits_make_no_difference_to_trees(monkeypatch, shape):
    random = np.random.default_rng(4)
    X = (random.random((N, 8)) < 0.4).astype(float)
    X[:, 7] = random.normal(size=N)
    y = (X[:, 0] + 2 * X[:, 1] + (X[:, 7] > 0)).astype(int)
    models = []
    for worth_bits in (2**15, 100):
        monkeypatch.setattr("abc_plugins.core.bins.lists._ROWS_WORTH_BITS", worth_bits)
        model = ABCBoostClassifier(n_estimators=6, tree_shape=shape, subsample=0.8, random_state=0).fit(X, y)
        models.append(model.predict_proba(X))
    np.testing.assert_array_equal(*models)
