"""Rounds of pairs on XGBoost: what the native booster has."""

from __future__ import annotations

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

from abc_plugins.core.options import BoostOptions  # noqa: E402
from abc_plugins.xgb import base_classes  # noqa: E402
from abc_plugins.xgb.live import LiveBooster  # noqa: E402

from .conftest import PARAMS, K, Recorder, make_data, quiet, softmax  # noqa: E402

DRAWN = {"method": "abcrobustlogit", "base_choice": "drawn", "search": 1, "gap": 0, "warmup": 1}


def live(params, matrix, n_rounds, **options):
    booster = LiveBooster(
        xgboost.Booster({"objective": "multi:softprob", "num_class": K, **params}, [matrix]), BoostOptions(**options)
    )
    for m in range(n_rounds):
        booster.update(matrix, m)
    return booster


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_probes_are_made_and_what_is_exported_is_what_was_trained(data, leaf_values):
    matrix, other = data
    booster = live(PARAMS, matrix, 23, leaf_values=leaf_values, **DRAWN)
    rounds = booster._training._rounds
    assert len(rounds.schedule.probes) == 2
    assert all(seen > 0.0 for seen, _ in rounds.schedule.probes)
    assert len(set(rounds.schedule.bases)) > 2
    stock = booster.to_stock()
    assert np.abs(stock.predict(matrix) - softmax(rounds.scores.scores.T)).max() < 1e-5
    assert base_classes(stock) == list(rounds.schedule.bases)
    recorder = Recorder()
    trained = quiet(PARAMS, matrix, 23, evals=[(other, "t")], custom_metric=recorder, leaf_values=leaf_values, **DRAWN)
    assert np.abs(trained.predict(other) - recorder.seen[-1]).max() < 1e-5


def test_samples_that_a_probe_holds_out_do_not_shape_its_trees(data):
    matrix, _ = data
    trees = []
    for changes in (False, True):
        rounds = live(PARAMS, matrix, 10, **DRAWN)._training._rounds
        plan = rounds.schedule.plan(rounds.scores.class_losses.tolist())
        held_out = rounds.scores.parts(5) == plan.probe
        assert 0.05 < held_out.mean() < 0.4
        if changes:
            rounds.scores.labels[held_out] = (rounds.scores.labels[held_out] + 1) % K
        rounds.propose(plan)
        engine = rounds._engine
        trees.append([engine.grown.trees[t][0].raw for t in range(K - 1)])
    assert trees[0] == trees[1]


def test_trees_side_by_side_are_not_probed(data):
    booster = live({**PARAMS, "num_parallel_tree": 2, "subsample": 0.7}, data[0], 12, **DRAWN)
    rounds = booster._training._rounds
    assert rounds.schedule.probes == ()
    assert np.abs(booster.to_stock().predict(data[0]) - softmax(rounds.scores.scores.T)).max() < 1e-5


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_trees_of_two_small_classes_have_fewer_leaves(leaf_values):
    X, y = make_data()
    y = np.where(y < 2, y, 1)
    y[:30], y[30:45] = 2, 3  # 45 samples: 11 leaves at 4 samples each
    matrix = xgboost.DMatrix(X, y)
    params = {**PARAMS, "max_depth": 6, "min_child_weight": 0.0}
    sizes = {}
    for per_leaf in (0.0, 4.0):
        options = {"search": "all", "gap": 0, "warmup": 0, "pair_samples_per_leaf": per_leaf}
        booster = live(params, matrix, 2, method="abcrobustlogit", leaf_values=leaf_values, **options)
        grown = booster._last.grown
        (t,) = [t for t, pair in enumerate(grown.pairs) if set(pair) == {2, 3}]
        sizes[per_leaf] = int(grown.trees[t][0].is_leaf().sum())
        largest = max(int(grown.trees[t][0].is_leaf().sum()) for t in range(len(grown.pairs)))
        assert largest > 11
        rounds = booster._training._rounds
        assert np.abs(booster.to_stock().predict(matrix) - softmax(rounds.scores.scores.T)).max() < 1e-5
    assert sizes[4.0] <= 11 < sizes[0.0]


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_rounds_after_the_loss_is_gone_add_nothing(leaf_values):
    """XGBoost makes no split that gains less than 1e-6, so that it takes margins of a user to get there."""
    X, y = make_data(80)
    matrix = xgboost.DMatrix(X, y, base_margin=200.0 * np.eye(K)[y])
    booster = live(PARAMS, matrix, 6, method="abcrobustlogit", warmup=2, leaf_values=leaf_values)
    rounds = booster._training._rounds
    assert booster._last.made.update is None
    assert rounds.trees_grown == 0
    stock = booster.to_stock()
    assert stock.num_boosted_rounds() == 6
    assert base_classes(stock) == list(rounds.schedule.bases)
    assert [base == -1 for base in base_classes(stock)] == [True] * 2 + [False] * 4
    assert np.array_equal(stock.predict(matrix, output_margin=True), 200.0 * np.eye(K)[y])
