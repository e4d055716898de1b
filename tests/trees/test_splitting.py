"""Histograms and splits against plain NumPy twins that know nothing of cells, groups or default bins."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abc_plugins.core.bins import columns as columns_module
from abc_plugins.core.bins.columns import FeatureCells, feature_cells
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.trees.categories import make_category_order
from abc_plugins.core.trees.fixedpoint import WeightUnits
from abc_plugins.core.trees.histogram import build_histogram, subtract_histogram
from abc_plugins.core.trees.splitting import Thresholds, find_best_split, make_thresholds

from .problems import N, cells_of, make_problem, make_rules, plain_splits


def plain_histogram(columns, rows, cells):
    """Sums of every cell, from the codes."""
    hist = np.zeros((columns.group_cell[-1], 2), dtype=np.int64)
    for f in range(columns.feature.size):
        stored = [b for b in range(columns.n_bins[f] + columns.has_missing[f]) if b != columns.default_bin[f]]
        for cell, b in enumerate(stored, start=columns.first_cell[f]):
            hist[cell] = cells[rows[columns.codes[f, rows] == b]].sum(axis=0)
    return hist


@pytest.mark.usefixtures("group_size")
@pytest.mark.parametrize("dense", [False, True])
def test_histograms(dense):
    problem = make_problem(dense=dense)
    assert np.all(problem.columns.default_bin == columns_module.STORED) == dense
    cells = cells_of(problem)[0]
    rng = np.random.default_rng(0)
    for n_rows in (0, 1, 5, 60, N):
        rows = np.sort(rng.choice(N, n_rows, replace=False)).astype(np.uint32)
        hist = np.full((problem.columns.group_cell[-1], 2), 77, dtype=np.int64)
        joint_sums = np.full((problem.columns.joint.start[-1], 2), 77, dtype=np.int64)
        build_histogram(problem.columns, rows, cells, joint_sums, hist)
        np.testing.assert_array_equal(hist, plain_histogram(problem.columns, rows, cells))


def test_subtraction_gives_the_other_child_of_the_usable_features():
    problem = make_problem()
    columns, cells = problem.columns, cells_of(problem)[0]
    rows = np.arange(N, dtype=np.uint32)
    parent, child = plain_histogram(columns, rows, cells), plain_histogram(columns, rows[::3], cells)
    before = parent.copy()
    usable = np.arange(columns.feature.size) % 2 == 0
    subtract_histogram(parent, child, columns.first_cell, columns.n_cells, usable)
    expected = plain_histogram(columns, np.setdiff1d(rows, rows[::3]), cells)
    for f in range(columns.feature.size):
        mine = slice(columns.first_cell[f], columns.first_cell[f] + columns.n_cells[f])
        np.testing.assert_array_equal(parent[mine], (expected if usable[f] else before)[mine])


def no_order(features):
    """No feature is categorical."""
    return make_category_order(features.n_bins, np.zeros(len(features.n_bins), dtype=bool))


RULES = [
    {},
    {"second_order": False},
    {"reg_lambda": 2.5},
    {"second_order": False, "reg_lambda": 2.5},
    {"min_weight": 40.0},
    {"min_hessian": 3.0},
    {"second_order": False, "min_hessian": 3.0, "min_weight": 25.0},
    {"min_weight": 500.0},
]


@pytest.mark.parametrize("pair", [(1, CLASSIC), (0, 2)])
@pytest.mark.parametrize("whole_weights", [True, False])
@pytest.mark.parametrize("options", RULES, ids=str)
def test_best_split_of_every_feature(options, whole_weights, pair):
    problem = make_problem(whole_weights=whole_weights, pair=pair)
    columns, (cells, z_unit, h_unit, units) = problem.columns, cells_of(problem, pair)
    rules = make_rules(units, **options)
    rng = np.random.default_rng(1)
    for n_rows in (2, 30, N):
        rows = np.sort(rng.choice(N, n_rows, replace=False)).astype(np.uint32)
        hist = plain_histogram(columns, rows, cells)
        for f in range(columns.feature.size):
            usable = np.arange(columns.feature.size) == f
            node_z, node_wh = cells[rows].sum(axis=0)
            found = find_best_split(
                feature_cells(columns),
                hist,
                node_z,
                node_wh,
                usable,
                rules,
                z_unit,
                h_unit,
                make_thresholds(40),
                no_order(columns),
            )
            splits = list(plain_splits(problem, rows, rules, f))
            assert usable[f] == bool(splits)  # a feature that allows no split is switched off
            best = max((gain for gain, *_ in splits), default=0.0)
            assert found.gain == pytest.approx(max(best, 0.0), rel=1e-5, abs=1e-6)
            if found.gain > 0:
                same = [s for s in splits if s[1] == found.bin and s[2] in (None, found.missing_left)]
                assert len(same) == 1
                assert same[0][0] == pytest.approx(best, rel=1e-5, abs=1e-6)
                np.testing.assert_array_equal([found.left_z, found.left_wh], cells[same[0][3]].sum(axis=0))


def one_feature(codes, n_bins, default_bin, cells, copies=1):
    """Features with these codes, bin `n_bins` being the missing values, and their histogram."""
    stored = [b for b in range(n_bins + 1) if b != default_bin]
    hist = np.array([cells[codes == b].sum(axis=0) for b in stored], dtype=np.int64).reshape(-1, 2)
    fill = partial(np.full, copies)
    features = FeatureCells(
        np.arange(copies) * len(stored),
        fill(len(stored), dtype=np.int32),
        fill(n_bins, dtype=np.int32),
        fill(True, dtype=np.bool_),
        fill(default_bin, dtype=np.int32),
    )
    return features, np.tile(hist, (copies, 1))


@given(st.data())
def test_the_split_does_not_depend_on_the_default_bin(data):
    n_bins = data.draw(st.integers(2, 5))
    present = data.draw(st.sets(st.integers(0, n_bins), min_size=1))  # some bins have no samples in this node
    codes = np.array(data.draw(st.lists(st.sampled_from(sorted(present)), min_size=2, max_size=12)))
    z = data.draw(st.lists(st.integers(-100, 100), min_size=codes.size, max_size=codes.size))
    cells = np.column_stack([z, np.full(codes.size, (1 << 40) + 5)])
    rules = make_rules(WeightUnits(np.ones(codes.size, dtype=np.int64), 1.0, 40))
    found = set()
    for default_bin in (columns_module.STORED, *range(n_bins + 1)):
        features, hist = one_feature(codes, n_bins, default_bin, cells)
        usable = np.ones(1, dtype=bool)
        split = find_best_split(
            features, hist, *cells.sum(axis=0), usable, rules, 1.0, 1.0, make_thresholds(n_bins), no_order(features)
        )
        found.add((split, bool(usable[0])))
    assert len(found) == 1


@pytest.mark.parametrize("default_bin", [columns_module.STORED, 0, 2])
def test_features_without_a_value_in_a_node_take_no_work_space(default_bin):
    cells = np.array([[5, (1 << 40) + 5]] * 6)
    features, hist = one_feature(np.full(6, 2), 2, default_bin, cells, copies=3000)
    guarded = [np.full(2 * array.size, 77).astype(array.dtype) for array in make_thresholds(2)]
    thresholds = Thresholds(*(array[: array.size // 2] for array in guarded))
    usable = np.ones(3000, dtype=bool)
    rules = make_rules(WeightUnits(np.ones(6, dtype=np.int64), 1.0, 40))
    assert (
        find_best_split(
            features, hist, *cells.sum(axis=0), usable, rules, 1.0, 1.0, thresholds, no_order(features)
        ).feature
        == -1
    )
    assert not usable.any()
    for array in guarded:
        assert np.all(array[array.size // 2 :] == np.array(77).astype(array.dtype))


def test_all_features_together_and_only_usable_ones():
    problem = make_problem()
    columns, (cells, z_unit, h_unit, units) = problem.columns, cells_of(problem)
    rows = np.arange(N, dtype=np.uint32)
    hist, rules = plain_histogram(columns, rows, cells), make_rules(units)
    best = [max(gain for gain, *_ in plain_splits(problem, rows, rules, f)) for f in range(columns.feature.size)]
    usable = np.ones(columns.feature.size, dtype=bool)

    def search():
        return find_best_split(
            feature_cells(columns),
            hist,
            *cells.sum(axis=0),
            usable,
            rules,
            z_unit,
            h_unit,
            make_thresholds(40),
            no_order(columns),
        )

    for _ in range(columns.feature.size):
        found = search()
        assert found.feature == np.argmax(np.where(usable, best, -1.0))
        usable[found.feature] = False
    found = search()
    assert (found.gain, found.feature) == (0.0, -1)
