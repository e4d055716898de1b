"""The directional method against the oracle, and what its schedule, threads and labels promise."""

import naive
import numpy as np
import pytest
from conftest import make_data
from naive import directional as naive_directional

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.boosters import make_booster
from abc_plugins.core.directional.leaf_vectors import ProbabilityRows
from abc_plugins.core.directional.schedule import DirectionSchedule, default_trees_per_round
from abc_plugins.core.runtime.arrays import DERIVATIVE
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import check_settings

RTOL = 1e-8
PROBLEMS = [(3, None, 0.0, 1), (2, None, 0.1, 1), (5, "integer", 0.0, 2), (4, "real", 0.2, 3), (7, None, 0.15, 4)]
CASES = [
    (n_classes, shape, weights, missing, n_trees)
    for n_classes, weights, missing, n_trees in PROBLEMS
    for shape in ("symmetric", "best-first")
]
RULES = {"max_depth": 3, "num_leaves": 6, "learning_rate": 0.2}


def settings_with(**changes):
    return check_settings(**{**ABCBoostClassifier().get_params(), **RULES, **changes}, seed=3)


def make(data, n_classes, settings, n_threads=1):
    weights = np.ones(data.y.size) if data.weights is None else data.weights
    workers = Workers(n_threads)
    binned = make_training_data(data.X, data.y.astype(np.int32), weights, n_classes, 255, workers)
    return make_booster(binned, settings, workers), weights


def run(booster, n_rounds):
    """Run rounds; the directions of each."""
    directions = []
    record = booster.schedule.record
    booster.schedule.record = lambda chosen: (directions.append(chosen), record(chosen))
    for _ in range(n_rounds):
        booster.run_round()
    return directions


@pytest.mark.parametrize(("n_classes", "shape", "weights", "missing", "n_trees"), CASES)
@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"min_samples_leaf": 5, "min_child_weight": 0.4},
        {"warmup": 1, "search": 2},
        {"min_split_gain": 3.0, "reg_alpha": 0.4, "max_depth": 2},
    ],
)
def test_equals_the_oracle(n_classes, shape, weights, missing, n_trees, rules):
    data = make_data(n_classes, 80, weights=weights, missing=missing, seed=5)
    settings = settings_with(tree_shape=shape, trees_per_round=n_trees, **rules)
    booster, sample_weights = make(data, n_classes, settings)
    directions = run(booster, 4)
    names = set(naive_directional.Settings.__dataclass_fields__) - {"directions", "second_order"}
    oracle = naive_directional.fit(
        data.X, data.y, sample_weights, n_classes, naive.candidate_thresholds(data.X),
        naive_directional.Settings(directions, **{name: getattr(settings, name) for name in names}),
    )  # fmt: skip
    with Workers(1) as workers:
        for X in (data.X, data.X_test):
            np.testing.assert_allclose(booster.model.raw_scores(X, workers), oracle.scores(X), rtol=RTOL, atol=RTOL)
    np.testing.assert_allclose(booster.train_loss, oracle.train_loss, rtol=RTOL)


def test_derivatives_are_those_of_the_loss_along_the_direction():
    rng = np.random.default_rng(0)
    K, n, step = 5, 40, 1e-5
    p, y, v = rng.dirichlet(np.ones(K), n), rng.integers(0, K, n).astype(np.int32), rng.normal(size=K)
    with Workers(1) as workers:
        rows = ProbabilityRows(y, np.ones(n), np.full(K, 1 / K), 2, workers)
        rows.set_probabilities(p)
        z, h = np.empty((2, 5, n), dtype=DERIVATIVE)  # a group of four, and one that is left
        rows.derive(np.array([v, -v, 2 * v, 0 * v, v]), z, h)
    up, at, down = (naive.sample_losses(np.log(p) + s * v, y) for s in (step, 0.0, -step))
    slope, curvature = (down - up) / (2 * step), (up - 2 * at + down) / step**2
    for t, factor in enumerate([1, -1, 2, 0, 1]):
        np.testing.assert_allclose(z[t], factor * slope, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(h[t], factor**2 * curvature, rtol=1e-3, atol=4e-4)


@pytest.mark.parametrize("shape", ["symmetric", "best-first"])
def test_threads_make_no_difference(shape):
    data = make_data(6, 3000, 5, seed=1, missing=0.05)
    settings = settings_with(tree_shape=shape, trees_per_round=3, subsample=0.7, colsample=0.8)
    models = []
    for n_threads in (1, 2, 3):
        booster, _ = make(data, 6, settings, n_threads)
        run(booster, 5)
        models.append(booster.model.flat())
        assert booster.train_loss == pytest.approx(booster.train_loss)
    for model in models[1:]:
        for name in ("feature", "threshold", "values", "gain", "weight"):
            np.testing.assert_array_equal(getattr(model, name), getattr(models[0], name))


def test_chunks_of_rows_make_no_difference_to_threads(monkeypatch):
    """More samples than a chunk holds: sums are made chunk by chunk, by however many threads."""
    from abc_plugins.core.directional import leaf_vectors

    monkeypatch.setattr(leaf_vectors, "_ROWS_PER_CHUNK", 256)
    monkeypatch.setattr(leaf_vectors, "_ROWS_FOR_ONE_THREAD", 1000)
    data = make_data(4, 1500, 5, seed=2)
    values = []
    for n_threads in (1, 3):
        booster, _ = make(data, 4, settings_with(trees_per_round=2), n_threads)
        assert not booster._rounds.rows.is_for_one_thread
        run(booster, 4)
        values.append(booster.model.flat().values)
    np.testing.assert_array_equal(*values)


class PermutedSchedule(DirectionSchedule):
    """Draws for classes in another order."""

    def __init__(self, schedule, order):
        self.__dict__.update(schedule.__dict__)
        self._order, self._drawn_block = order, -1

    def draw_evenly(self, block):
        return super().draw_evenly(block)[..., self._order]


def test_relabelling_permutes_the_model():
    K, order = 5, np.array([3, 0, 4, 1, 2])  # class c becomes class order[c]
    data = make_data(K, 200, seed=4)
    settings = settings_with(trees_per_round=2)
    booster, _ = make(data, K, settings)
    relabelled, _ = make(type(data)(data.X, order[data.y], None, data.X_test), K, settings)
    relabelled.schedule = relabelled._rounds.schedule = PermutedSchedule(relabelled.schedule, np.argsort(order))
    relabelled._rounds.prepare()
    for either in (booster, relabelled):
        for _ in range(6):
            either.run_round()
    with Workers(1) as workers:
        scores = [either.model.raw_scores(data.X_test, workers) for either in (booster, relabelled)]
    np.testing.assert_allclose(scores[1][:, order], scores[0], rtol=1e-9, atol=1e-9)


def test_directions_follow_the_seed():
    schedules = [DirectionSchedule(4, trees_per_round=2, seed=seed) for seed in (1, 1, 2)]
    draws = [schedule.plan().candidates for schedule in schedules]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.allclose(draws[0], draws[2])
    np.testing.assert_allclose(draws[0].mean(axis=-1), 0.0, atol=1e-12)
    np.testing.assert_allclose((draws[0] ** 2).mean(axis=-1), 1.0)


def test_gap_keeps_directions_and_warmup_comes_first():
    schedule = DirectionSchedule(3, trees_per_round=2, gap=2, warmup=2)
    kept = []
    for _ in range(9):
        plan = schedule.plan()
        kept.append(plan)
        schedule.record(plan.candidates[0])
    assert [plan.is_classic for plan in kept] == [True] * 2 + [False] * 7
    np.testing.assert_array_equal(kept[0].candidates, np.eye(3)[None])
    for first in (2, 5):
        for later in (first + 1, first + 2):
            np.testing.assert_array_equal(kept[later].candidates[0], kept[first].candidates[0])
    assert not np.allclose(kept[2].candidates, kept[5].candidates)


def test_search_takes_the_candidate_with_the_best_root():
    data = make_data(4, 300, seed=6)
    booster, _ = make(data, 4, settings_with(trees_per_round=2, search=5))
    plan, z, h = booster._rounds._plan, booster._rounds._z.copy(), booster._rounds._h.copy()
    gains = np.empty((5, 2))
    for candidate in range(5):
        for tree in range(2):
            row = candidate * 2 + tree
            booster._grower.grow_along(z[row : row + 1], h[row : row + 1], np.arange(300, dtype=np.uint32), 0)
            gains[candidate, tree] = booster._grower.root_gains(1)[0]
    (directions,) = run(booster, 1)
    for tree in range(2):
        np.testing.assert_array_equal(directions[tree], plan.candidates[gains[:, tree].argmax(), tree])


def test_trees_per_round_depend_on_the_data_alone():
    assert [default_trees_per_round(5000, 26), default_trees_per_round(10000, 3)] == [1, 2]
    assert [default_trees_per_round(10000, 26), default_trees_per_round(10000, 500)] == [6, 8]
    assert [default_trees_per_round(40000, 7), default_trees_per_round(40000, 26)] == [4, 6]


def test_the_guard_keeps_the_loss_from_rising():
    data = make_data(3, 60, seed=7)
    booster, _ = make(data, 3, settings_with(learning_rate=40.0, leaf_reg_lambda=0.0, leaf_clip=None))
    run(booster, 6)
    losses = np.array(booster.train_loss)
    assert booster.guarded_rounds > 0
    assert (np.diff(losses) <= 1e-9 * losses[0]).all()
    with Workers(1) as workers:
        F = booster.model.raw_scores(data.X, workers)
    assert naive.total_loss(F, data.y, np.ones(60)) == pytest.approx(losses[-1], rel=1e-6, abs=1e-6)


def test_rounds_after_convergence_add_nothing():
    X = np.repeat(np.arange(3.0), 20)[:, None]
    model = ABCBoostClassifier(n_estimators=400, learning_rate=1.0, leaf_reg_lambda=0.0, reg_lambda=0.0, random_state=0)
    model.fit(X, np.repeat(np.arange(3), 20))
    assert model.train_loss_[-1] < 1e-9
    assert np.abs(model.model_.raw_scores(X, Workers(1))).max() < 1e3
    last = list(model.model_.rounds())[-1]
    assert all(tree.feature.size == 1 and not tree.values.any() for tree in last)


def test_state_goes_on_as_if_nothing_had_happened():
    data = make_data(4, 200, seed=8)
    settings = settings_with(gap=2, trees_per_round=2)
    whole, _ = make(data, 4, settings)
    run(whole, 7)
    first, _ = make(data, 4, settings)
    run(first, 4)
    second, _ = make(data, 4, settings)
    second.model = first.model
    second.set_state([-1] * 4, {name: array.copy() for name, array in first.get_state().items()})
    run(second, 3)
    for name in ("feature", "threshold", "values"):
        np.testing.assert_array_equal(getattr(second.model.flat(), name), getattr(whole.model.flat(), name))


def test_the_shape_is_chosen_from_the_data():
    rng = np.random.default_rng(0)
    shapes = []
    for X in (rng.normal(size=(300, 5)), rng.integers(0, 3, (300, 5)).astype(float)):
        model = ABCBoostClassifier(n_estimators=1, num_leaves=12, random_state=0).fit(X, np.arange(300) % 3)
        (tree,) = next(model.model_.rounds())
        inner = tree.feature[tree.feature >= 0]
        shapes.append(inner.size == 63)
    assert shapes == [True, False]
