"""Histograms, splits and trees against plain NumPy twins that know nothing of cells, groups or default bins."""

import threading
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from conftest import paper_settings
from hypothesis import given
from hypothesis import strategies as st

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.bins import columns as columns_module
from abc_plugins.core.bins.columns import FeatureCells, feature_cells
from abc_plugins.core.bins.training_data import TrainingData, make_training_data
from abc_plugins.core.losses import derivatives
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.trees import round_grower, teamwork, workspace
from abc_plugins.core.trees.categories import make_category_order
from abc_plugins.core.trees.fixedpoint import WeightUnits, count_rows, to_fixed_point, weigh
from abc_plugins.core.trees.histogram import build_histogram, subtract_histogram
from abc_plugins.core.trees.round_grower import RoundGrower
from abc_plugins.core.trees.splitting import SplitRules, Thresholds, find_best_split, make_thresholds

N, K = 120, 3
PAPER = {"method": "abcrobustlogit"}


@dataclass
class Problem:
    """Samples with features of all kinds and the derivatives of one tree."""

    data: TrainingData
    probabilities: np.ndarray
    z: np.ndarray
    h: np.ndarray

    @property
    def columns(self):
        return self.data.columns


def features_of_all_kinds(y, rng):
    signal = y + rng.normal(size=N)
    rare = rng.random((N, 4)) < 0.3
    return np.column_stack(
        [
            signal,  # no default bin
            np.where(rare[:, 0], np.abs(signal) + 1.0, 0.0),  # default at the bottom
            np.where(rare[:, 1], -np.abs(signal) - 1.0, 0.0),  # at the top
            np.where(rare[:, 2], signal, 0.3),  # in between
            np.where(rare[:, 3], signal, np.nan),  # missing
            np.where(rng.random(N) < 0.15, np.nan, np.where(rare[:, 2], signal, 0.3)),
            np.round(rng.normal(size=N)),
        ]
    )


def make_problem(*, whole_weights=True, pair=(1, CLASSIC), seed=0, dense=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, N).astype(np.int32)
    weights = rng.integers(1, 4, N).astype(float) if whole_weights else rng.uniform(0.2, 3.0, N)
    X = features_of_all_kinds(y, rng)
    X = X[:, [0, 6]] if dense else X
    with Workers(1) as workers:
        data = make_training_data(X, y, weights, K, 40, workers)
    probabilities = rng.dirichlet(np.ones(K), N).T.copy()
    z, h = np.empty(N), np.empty(N)
    derivatives(probabilities, y, weights, *pair, 0, N, z, h)
    return Problem(data, probabilities, z, h)


# ------------------------------------------------------------------------------------------------ histograms


@pytest.fixture(params=["one group", "several groups", "a group a feature"])
def group_size(request, monkeypatch):
    sizes = {"one group": 32768, "several groups": 60, "a group a feature": 1}
    monkeypatch.setattr(columns_module, "_CELLS_PER_GROUP", sizes[request.param])


def cells_of(problem, pair=(1, CLASSIC), units=None):
    data, units = problem.data, weigh(problem.data.weights) if units is None else units
    cells = np.empty((N, 2), dtype=np.int64)
    cell_units = np.empty(2)
    to_fixed_point(
        problem.probabilities, data.labels, data.weights, units.units, *pair, units.hessian_bits, cell_units, cells
    )
    return cells, *cell_units, units


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


# ------------------------------------------------------------------------------------------------ splits


def make_rules(units, *, second_order=True, reg_lambda=0.0, min_weight=1.0, min_hessian=0.0):
    bits = units.hessian_bits
    min_units = max(1, int(np.ceil(min_weight / units.per_unit)))
    return SplitRules(second_order, reg_lambda, min_units << bits, min_hessian, bits, (1 << bits) - 1, units.per_unit)


def no_order(features):
    """No feature is categorical."""
    return make_category_order(features.n_bins, np.zeros(len(features.n_bins), dtype=bool))


def plain_splits(problem, rows, rules, f, amounts=None):
    """All allowed splits on a feature: (gain, bin, missing_left, rows that go left), from the raw codes.

    A child must have so much of `amounts`, the weights by default.
    """
    columns, weights = problem.columns, problem.data.weights if amounts is None else amounts
    codes = columns.codes[f, rows]
    missing = columns.has_missing[f] & (codes == columns.n_bins[f])
    min_weight = (rules.min_wh >> rules.hessian_bits) * rules.weight_per_unit

    def term(mask):
        below = problem.h[rows][mask].sum() if rules.second_order else weights[rows][mask].sum()
        return problem.z[rows][mask].sum() ** 2 / (below + rules.reg_lambda)

    def is_allowed(mask):
        heavy = weights[rows][mask].sum() >= min_weight - 1e-5
        return mask.any() and heavy and problem.h[rows][mask].sum() >= rules.min_hessian

    for b in range(columns.n_bins[f]):
        for missing_left in (True, False) if missing.any() else (None,):
            left = (codes <= b) & ~missing | (missing & bool(missing_left))
            if (left & ~missing).any() and is_allowed(left) and is_allowed(~left):
                yield term(left) + term(~left) - term(np.ones(rows.size, dtype=bool)), b, missing_left, rows[left]


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
    for _ in range(columns.feature.size):
        found = find_best_split(
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
        assert found.feature == np.argmax(np.where(usable, best, -1.0))
        usable[found.feature] = False
    found = find_best_split(
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
    assert (found.gain, found.feature) == (0.0, -1)


# ------------------------------------------------------------------------------------------------ trees


def grow(problem, pair=(1, CLASSIC), sample=None, n_threads=1, **settings):
    sample = np.arange(N, dtype=np.uint32) if sample is None else sample
    with Workers(n_threads) as workers:
        grower = RoundGrower(problem.data, paper_settings(**settings), workers)
        grower.grow(problem.probabilities, [pair], sample, 0)
    return grower._nodes[0, : grower._n_nodes[0]], grower.leaf_ids[0]


def plain_leaves(problem, nodes):
    """Leaf of every sample by walking down the codes."""
    columns, leaves = problem.columns, np.zeros(N, dtype=int)
    for i in range(N):
        node = 0
        while nodes[node]["feature"] >= 0:
            f = nodes[node]["feature"]
            code = columns.codes[f, i]
            missing = columns.has_missing[f] and code == columns.n_bins[f]
            goes_left = nodes[node]["missing_left"] if missing else code <= nodes[node]["bin"]
            node = nodes[node]["left" if goes_left else "right"]
        leaves[i] = node
    return leaves


@pytest.mark.usefixtures("group_size")
@pytest.mark.parametrize("method", ["mart", "robustlogit"])
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_a_tree_is_grown_best_first(method, share):
    """Every split is the best of all leaves at its time, found anew from the rows; sums and leaves are right."""
    problem = make_problem(seed=2)
    sample = np.sort(np.random.default_rng(0).choice(N, int(share * N), replace=False)).astype(np.uint32)
    options = {"num_leaves": 9, "min_samples_leaf": 6, "reg_lambda": 0.5, "min_child_weight": 1.0}
    nodes, leaf_ids = grow(problem, sample=sample, method=method, **options)
    np.testing.assert_array_equal(leaf_ids, plain_leaves(problem, nodes))
    counts = method == "robustlogit"  # leaves are counted in rows, not in weights
    units = count_rows(N) if counts else weigh(problem.data.weights)
    rules = make_rules(units, second_order=counts, reg_lambda=0.5, min_weight=6, min_hessian=1.0)
    amounts = np.ones(N) if counts else problem.data.weights
    rows_of = {0: sample}
    for t in range(len(nodes) // 2):
        parent = int(np.flatnonzero(nodes["left"] == 2 * t + 1)[0])
        splits = {
            leaf: [
                s for f in range(problem.columns.feature.size) for s in plain_splits(problem, rows, rules, f, amounts)
            ]
            for leaf, rows in rows_of.items()
        }
        best = {leaf: max((s[0] for s in found), default=0.0) for leaf, found in splits.items()}
        assert best[parent] == pytest.approx(max(best.values()), rel=1e-6)
        assert nodes[parent]["gain"] == pytest.approx(best[parent], rel=1e-6)
        rows = rows_of.pop(parent)
        f = nodes[parent]["feature"]
        left = next(
            s[3]
            for s in plain_splits(problem, rows, rules, f, amounts)
            if s[1] == nodes[parent]["bin"] and s[2] in (None, nodes[parent]["missing_left"])
        )
        rows_of[2 * t + 1], rows_of[2 * t + 2] = left, np.setdiff1d(rows, left)
    assert len(rows_of) == 9
    cells = cells_of(problem, units=units)[0]
    for leaf, rows in rows_of.items():
        np.testing.assert_array_equal([nodes[leaf]["z"], nodes[leaf]["wh"]], cells[rows].sum(axis=0))
        assert nodes[leaf]["weight"] == problem.data.weights[leaf_ids == leaf].sum()


def test_no_more_leaves_than_can_be():
    """A tree ends when nothing can be split, and so does its work space."""
    problem = make_problem()
    nodes, leaf_ids = grow(problem, num_leaves=32767, min_samples_leaf=1)
    assert np.unique(leaf_ids).size == (len(nodes) + 1) // 2 <= N
    for least in (10**9, N // 2 + 1):
        assert len(grow(problem, num_leaves=8, min_samples_leaf=least)[0]) == 1
    assert len(grow(problem, num_leaves=2, min_samples_leaf=1)[0]) == 3


def test_the_tree_of_a_swapped_pair_is_the_same_tree():
    nodes, leaf_ids = grow(make_problem(pair=(0, 2)), (0, 2), num_leaves=7)
    swapped_nodes, swapped_ids = grow(make_problem(pair=(0, 2)), (2, 0), num_leaves=7)
    for name in ("feature", "bin", "missing_left", "left", "right", "gain", "weight"):
        np.testing.assert_array_equal(nodes[name], swapped_nodes[name])
    np.testing.assert_array_equal(leaf_ids, swapped_ids)
    np.testing.assert_array_equal(nodes["z"], -swapped_nodes["z"])


def test_histograms_of_many_cells_are_not_kept_for_every_thread(monkeypatch):
    problem = make_problem()
    pairs = [(0, CLASSIC), (1, CLASSIC), (2, CLASSIC)]

    def grown(budget):
        monkeypatch.setattr("abc_plugins.core.trees.round_grower._HISTOGRAM_BYTES", budget)
        with Workers(3) as workers:
            grower = RoundGrower(problem.data, paper_settings(), workers)
            grower.grow(problem.probabilities, pairs, np.arange(N, dtype=np.uint32), 0)
            return len(grower._teams), grower.leaf_ids.copy()

    many, expected = grown(2**30)
    one, found = grown(1)
    assert (many, one) == (3, 1)
    np.testing.assert_array_equal(found, expected)


def test_nothing_to_split_on():
    problem = make_problem()
    with Workers(1) as workers:
        data = make_training_data(np.ones((N, 2)), problem.data.labels, problem.data.weights, K, 255, workers)
    nodes, leaf_ids = grow(replace(problem, data=data), num_leaves=5)
    assert len(nodes) == 1
    assert not leaf_ids.any()
    assert nodes[0]["weight"] == problem.data.weights.sum()


@pytest.mark.parametrize("n_histograms", [0, 3, 4, 7, 11])
@pytest.mark.parametrize("options", [{}, {"subsample": 0.7, "colsample": 0.6}, {"method": "abcmart"}], ids=str)
def test_memory_for_few_histograms_grows_the_same_trees(make_data, monkeypatch, n_histograms, options):
    """Those that were forgotten are summed again."""
    data = make_data(n_classes=3, n_samples=400, n_features=5, missing=0.1)
    options = {
        "n_estimators": 3,
        "num_leaves": 24,
        "min_samples_leaf": 2,
        "search": 2,
        "gap": 0,
        "warmup": 1,
        **options,
    }
    expected = ABCBoostClassifier(**PAPER | options, random_state=0, n_jobs=1).fit(data.X, data.y).model_.flat()
    made = []

    def make_few(columns, num_leaves, _, choice):
        made.append(max(n_histograms, 3))
        return workspace.make_workspace(columns, num_leaves, made[-1], choice)

    monkeypatch.setattr(teamwork, "make_workspace", make_few)
    monkeypatch.setattr(round_grower, "_HISTOGRAM_BYTES", 0)
    found = ABCBoostClassifier(**PAPER | options, random_state=0, n_jobs=2).fit(data.X, data.y).model_.flat()
    assert len(made) == 1  # memory for one thread
    for name in expected.__dataclass_fields__:
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name


TEAM_OPTIONS = {
    "plain": {},
    "sampling": {"subsample": 0.7, "colsample": 0.6},
    "search": {"search": 2, "gap": 1, "warmup": 1, "leaf_values": "paper"},  # rounds of 4, 5 and 3 trees
}


def fit_in_teams(monkeypatch, data, n_jobs, **options):
    """Fit with teams for nodes of more than 7 samples; the sizes of the teams, and the most histograms they had."""
    sizes, held = set(), []

    class Spy(teamwork.Team):
        def grow(self, *arguments):
            sizes.add(self._workers.n_threads)
            return super().grow(*arguments)

    class SpyGrower(RoundGrower):
        def grow(self, *arguments, **steps):
            super().grow(*arguments, **steps)
            held.append(sum(len(team.work.histograms) + len(team._parts) for team in self._teams))

    monkeypatch.setattr(round_grower, "Team", Spy)
    monkeypatch.setattr("abc_plugins.core.booster.RoundGrower", SpyGrower)
    for module in (round_grower, teamwork):
        monkeypatch.setattr(module, "ROWS_WORTH_A_TEAM", 7)
    model = ABCBoostClassifier(**PAPER | options, random_state=0, n_jobs=n_jobs).fit(data.X, data.y)
    return model.model_.flat(), sizes, max(held)


@pytest.mark.parametrize(("K", "n_jobs"), [(2, 2), (2, 5), (4, 7), (4, 13)])
@pytest.mark.parametrize("options", TEAM_OPTIONS.values(), ids=TEAM_OPTIONS)
@pytest.mark.parametrize("budget", [2**30, 1])
def test_a_team_grows_the_tree_that_one_thread_does(make_data, monkeypatch, K, n_jobs, options, budget):
    data = make_data(n_classes=K, n_samples=400, n_features=5, missing=0.1)
    data.X[:, 3] = np.round(data.X[:, 3])  # few bins, and a value that many samples have
    options = {"n_estimators": 5, "num_leaves": 24, "min_samples_leaf": 2, **options}
    if K == 2:
        options.pop("search", None)
    expected = ABCBoostClassifier(**PAPER | options, random_state=0, n_jobs=1).fit(data.X, data.y).model_.flat()
    monkeypatch.setattr(round_grower, "_HISTOGRAM_BYTES", budget)
    found, sizes, held = fit_in_teams(monkeypatch, data, n_jobs, **options)
    for name in expected.__dataclass_fields__:
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    trees = [1] if K == 2 else ([4, 5, 3] if "search" in options else [3])
    assert sizes == ({1} if budget == 1 else {n_jobs // n for n in trees})
    assert held == 3 if budget == 1 else held >= 24


def test_teams_do_not_exceed_the_memory_for_histograms(make_data, monkeypatch):
    data = make_data(n_classes=3, n_samples=400, n_features=5)
    options = {"n_estimators": 6, "num_leaves": 8, "search": 3, "gap": 2, "warmup": 2}
    with Workers(1) as workers:
        cells = make_training_data(data.X, data.y.astype(np.int32), np.ones(400), 3, 255, workers).columns.group_cell[
            -1
        ]
    for n_histograms in (8, 10, 24):
        monkeypatch.setattr(round_grower, "_HISTOGRAM_BYTES", 16 * int(cells) * n_histograms)
        _, sizes, held = fit_in_teams(monkeypatch, data, 16, **options)
        assert held <= n_histograms
        assert max(sizes) == {8: 1, 10: 3, 24: 1}[n_histograms]


def test_crews_end_with_the_workers():
    with Workers(4) as workers:
        before = threading.active_count()
        crews = [workers.make_crew(2) for _ in range(2)]
        for crew in crews:
            crew.over_items(range(2), lambda _item, _thread: None)
        assert threading.active_count() > before
    assert threading.active_count() <= before


@pytest.mark.parametrize("n_teams", [1, 2, 3, 16])
@pytest.mark.parametrize("n_trees", [1, 2, 7, 25, 999])
def test_lots_are_all_trees_in_order_large_ones_first(n_trees, n_teams):
    for n_samples in (10, 10_000, 10**7):
        lots = round_grower._lots(n_trees, n_teams, n_samples)
        assert [t for first, last in lots for t in range(first, last)] == list(range(n_trees))
        sizes = [last - first for first, last in lots]
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) <= max(1, 2**18 // n_samples)
        assert len(lots) >= min(n_trees, n_teams)


@pytest.mark.parametrize(
    ("per_leaf", "weight", "large", "small"),
    [(0.0, 1.0, 9, 9), (4.0, 1.0, 9, 3), (4.0, 0.5, 6, 2), (1e-300, 1.0, 9, 9), (1e300, 1.0, 2, 2)],
)
def test_trees_of_two_small_classes_have_fewer_leaves(per_leaf, weight, large, small):
    """52 samples of classes 0 and 1, and 13 of 0 and 2; two leaves at the least."""
    y = np.repeat([0, 1, 2], [12, 40, 1]).astype(np.int32)
    X = np.random.default_rng(0).normal(size=(y.size, 2))
    workers = Workers(1)
    data = make_training_data(X, y, np.full(y.size, weight), 3, 255, workers)
    trees = RoundGrower(data, paper_settings(num_leaves=9, min_samples_leaf=1, pair_samples_per_leaf=per_leaf), workers)
    plus, minus = np.array([0, 0]), np.array([1, 2])
    assert trees._max_leaves(plus, minus).tolist() == [large, small]
    assert trees._max_leaves(minus, plus).tolist() == [large, small]  # (k, b) and (b, k) are one tree
    assert trees._max_leaves(plus, np.full(2, CLASSIC)).tolist() == [9, 9]


@pytest.mark.parametrize("seed", range(20))
def test_weights_that_should_be_equal_allow_equally_many_leaves(seed):
    """Balanced classes all weigh 35 but for rounding, in every order of the samples."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(5), rng.integers(0, 5, 170)]).astype(np.int32)
    weights = (y.size / 5 / np.bincount(y))[y]
    for order in (np.arange(y.size), rng.permutation(y.size)):
        data = make_training_data(rng.normal(size=(y.size, 1)), y[order], weights[order], 5, 255, Workers(1))
        settings = paper_settings(num_leaves=50, min_samples_leaf=1, pair_samples_per_leaf=3.5)
        trees = RoundGrower(data, settings, Workers(1))
        plus, minus = np.array([(k, b) for k in range(5) for b in range(5) if k != b]).T
        assert set(trees._max_leaves(plus, minus)) == {20}
