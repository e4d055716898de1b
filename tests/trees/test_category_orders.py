"""Which features are sorted: few samples for a category, and what the first rounds tell."""

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import checkpoint
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.trees import category_orders
from abc_plugins.core.trees.category_orders import CategoryOrders
from abc_plugins.training.resuming import draw_seed

N = 3000


@pytest.fixture
def short_trial(monkeypatch):
    monkeypatch.setattr(category_orders, "_FIRST_ROUNDS", 8)


def draw(is_natural, seed=0):
    """Two columns of 12 categories; labels depend on their order, or on groups that no order puts side by side."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 12, size=(N, 2)).astype(float)
    groups = np.digitize(X, [3, 7]) if is_natural else X % 3
    y = np.where(random.random(N) < 0.05, random.integers(0, 3, N), (groups.sum(axis=1)) % 3).astype(int)
    return X, y


def fit(X, y, **options):
    settings = {"n_estimators": 14, "early_stopping": False, "categorical_features": [0, 1], "n_jobs": 1}
    fitting = {name: options.pop(name) for name in ("callbacks", "resume_from") if name in options}
    return ABCBoostClassifier(**settings | {"random_state": 0} | options).fit(X, y, **fitting)


def has_sets(model, first, last):
    trees = model.model_.flat()
    nodes = slice(*trees.node_start[trees.round_start[[first, last]]])
    return bool((trees.left_set[nodes] >= 0).any())


@pytest.mark.usefixtures("short_trial")
@pytest.mark.parametrize("is_natural", [True, False])
def test_sorting_goes_on_where_the_natural_order_means_nothing(is_natural):
    model = fit(*draw(is_natural))
    assert has_sets(model, 0, 8)
    assert has_sets(model, 8, 14) != is_natural


@pytest.mark.usefixtures("short_trial")
def test_a_training_that_goes_on_decides_the_same(tmp_path):
    X, y = draw(is_natural=True)
    fit(X, y, n_estimators=11, callbacks=[checkpoint(tmp_path / "state", every_rounds=11)])
    resumed = fit(X, y, resume_from=tmp_path / "state").model_.flat()
    whole = fit(X, y).model_.flat()
    for name in ("feature", "left_set", "sets", "values"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))


def test_features_with_few_samples_for_a_category_are_never_sorted():
    X = np.column_stack([np.arange(640) % 20, np.arange(640) % 21]).astype(float)
    with Workers(1) as workers:
        data = make_training_data(X, np.zeros(640, np.int32), np.ones(640), 2, 255, workers, np.array([True, True]))
    drawn = np.concatenate([CategoryOrders(data.columns, 640, 0).draw(m, 2) for m in range(20)])
    assert 10 < drawn[:, 0].sum() < 30
    assert not drawn[:, 1].any()


def test_the_gains_of_both_kinds_of_trees(monkeypatch):
    """Against a plain sum over the trees."""
    X, y = draw(is_natural=False)
    model = fit(X, y, n_estimators=6, trees_per_round=2)
    with Workers(1) as workers:
        data = make_training_data(X, y.astype(np.int32), np.ones(N), 3, 64, workers, np.array([True, True]))
    orders = CategoryOrders(data.columns, N, draw_seed(0, None))
    expected = np.zeros((2, 2))
    counts = np.zeros((2, 2))
    for m, trees in enumerate(model.model_.rounds()):
        for tree, sorts in zip(trees, orders.draw(m, len(trees)), strict=True):
            for f in range(2):
                counts[int(sorts[f]), f] += 1
                expected[int(sorts[f]), f] += tree.gain[tree.feature == f].sum()
    monkeypatch.setattr(category_orders, "_FIRST_ROUNDS", 6)
    found = orders._mean_gains(model.model_.flat())
    np.testing.assert_allclose(found, (expected / counts).sum(axis=1))
