"""Trees against plain NumPy twins: best first, of the leaves that they may have, with memory for few histograms."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import paper_settings

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.trees import round_grower, teamwork, workspace
from abc_plugins.core.trees.fixedpoint import count_rows, weigh
from abc_plugins.core.trees.round_grower import RoundGrower

from .problems import PAPER, K, N, cells_of, make_problem, make_rules, plain_splits


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
