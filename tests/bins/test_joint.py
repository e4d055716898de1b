"""Joint cells give the histograms that single features give."""

import numpy as np
import pytest

from abc_plugins.core.bins import joint as joint_module
from abc_plugins.core.bins.binning import bin_features
from abc_plugins.core.bins.columns import make_columns
from abc_plugins.core.bins.joint import ALONE, make_joint
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.trees.histogram import build_histogram

N = 3000


def lay_out(X):
    with Workers(1) as workers:
        return make_columns(*bin_features(np.asarray(X, dtype=float), None, 255, workers))


def few_bins(sizes, missing=()):
    rng = np.random.default_rng(len(sizes))
    X = np.column_stack([rng.integers(0, size, N) for size in sizes]).astype(float)
    for f in missing:
        X[rng.random(N) < 0.2, f] = np.nan
    return X


def plain_histogram(columns, rows, cells):
    hist = np.zeros((columns.group_cell[-1], 2), dtype=np.int64)
    for f, codes in enumerate(columns.codes):
        np.add.at(hist, columns.first_cell[f] + codes[rows], cells[rows])
    return hist


@pytest.mark.parametrize(
    ("sizes", "missing", "pairs"),
    [
        ([5, 7], (), [(0, 1)]),
        ([16, 4, 9, 16], (), [(1, 2), (0, 3)]),
        ([3, 5, 7], (), [(0, 1), (2, ALONE)]),
        ([3, 200, 5, 6, 4], (), [(0, 4), (2, 3), (1, ALONE)]),
        ([6, 3, 8, 8], (0, 3), [(1, 0), (2, 3)]),
    ],
)
def test_margins_are_the_histogram(sizes, missing, pairs):
    columns = lay_out(few_bins(sizes, missing))
    joint = columns.joint
    assert list(zip(joint.first.tolist(), joint.second.tolist(), strict=True)) == pairs
    rng = np.random.default_rng(1)
    cells = rng.integers(-(2**40), 2**40, (N, 2))
    for n_rows in (N, N // 2, 10, 0):  # the last ones are too few to be worth it
        rows = np.sort(rng.choice(N, n_rows, replace=False)).astype(np.uint32)
        hist = np.full((columns.group_cell[-1], 2), 77, dtype=np.int64)
        joint_sums = np.full((joint.start[-1], 2), 77, dtype=np.int64)
        build_histogram(columns, rows, cells, joint_sums, hist)
        np.testing.assert_array_equal(hist, plain_histogram(columns, rows, cells))
        assert bool(np.all(joint_sums == 77)) == (n_rows < N // 2)


def test_every_sample_has_the_joint_cells_of_its_codes():
    columns = lay_out(few_bins([16, 4, 9, 16], missing=(2,)))
    joint = columns.joint
    entries = joint.entries.reshape(N, -1)
    for p, (first, second) in enumerate(zip(joint.first, joint.second, strict=True)):
        expected = joint.start[p] + columns.codes[first].astype(int) * columns.n_cells[second] + columns.codes[second]
        np.testing.assert_array_equal(entries[:, p], expected)


@pytest.mark.parametrize("sizes", [[200, 200, 200], [16], [200, 2, 200, 200, 2]])
def test_not_joined_where_it_saves_little(sizes):
    assert lay_out(few_bins(sizes)).joint.entries.size == 0


def test_not_joined_beyond_the_cache(monkeypatch):
    codes, n_cells = np.zeros((4, 10), dtype=np.uint8), np.full(4, 16, dtype=np.int32)
    assert make_joint(codes, n_cells).first.size == 2
    monkeypatch.setattr(joint_module, "_MOST_CELLS", 511)
    assert make_joint(codes, n_cells).first.size == 0


def test_the_cells_fit_into_an_entry():
    assert np.iinfo(np.uint16).max >= joint_module._MOST_CELLS
