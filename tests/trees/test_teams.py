"""Several threads that grow one tree, and the trees of a round among teams."""

import threading

import numpy as np
import pytest
from conftest import paper_settings

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.trees import round_grower, teamwork
from abc_plugins.core.trees.round_grower import RoundGrower

from .problems import PAPER

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
