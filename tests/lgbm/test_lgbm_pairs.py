"""Rounds of pairs on LightGBM: what the native booster has, and real data."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

from abc_plugins.lgbm.exporting import finish
from abc_plugins.lgbm.params import ABCOptions, TrainingParams
from abc_plugins.lgbm.text import leaf_values as leaf_values_of
from abc_plugins.lgbm.trainer import Trainer
from abc_plugins.lgbm.training import make_booster

from .conftest import N_CLASSES, make_data

DRAWN = {"method": "abcrobustlogit", "base_choice": "drawn", "search": 1, "gap": 0, "warmup": 1}


def run(X, y, params, n_rounds, valid=None, weight=None, **options):
    checked = TrainingParams.check(params, ABCOptions(**{"method": "abcrobustlogit", **options}), N_CLASSES)
    train_set = lgb.Dataset(X, y, weight=weight, free_raw_data=False)
    valid_sets = [] if valid is None else [lgb.Dataset(*valid, reference=train_set)]
    booster, _ = make_booster(checked, train_set, valid_sets, None, None)
    trainer = Trainer(checked, booster)
    for _ in range(n_rounds):
        trainer.boost_round()
    return trainer, finish(trainer.model(), best_round=0, layout="compact")


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_probes_are_made_and_what_is_exported_is_what_was_trained(data, params, leaf_values):
    X, y = data
    X_valid, y_valid = make_data(seed=1)
    trainer, booster = run(X, y, params, 23, (X_valid, y_valid), leaf_values=leaf_values, **DRAWN)
    assert len(trainer.state.schedule.probes) == 2
    assert all(seen > 0.0 for seen, _ in trainer.state.schedule.probes)
    assert len(set(trainer.state.schedule.bases)) > 3
    np.testing.assert_allclose(booster.predict(X), trainer.state.scores.probabilities.T, atol=1e-10)
    np.testing.assert_allclose(
        booster.predict(X_valid, raw_score=True) - booster.predict(X_valid, raw_score=True).mean(1, keepdims=True),
        (trainer.valid[0].scores - trainer.valid[0].scores.mean(0)).T,
        atol=1e-9,
    )


def test_samples_that_a_probe_holds_out_do_not_shape_its_trees(data, params):
    """The trees of a probe are those of a data set whose held-out samples have no weight."""
    X, y = data
    trainer, _ = run(X, y, params, 10, **DRAWN)
    parts = trainer.state.scores.parts(5)
    plan = trainer.state.schedule.plan(trainer.state.scores.class_losses.tolist())
    assert plan.probe == 0
    trainer.boost_round()
    added = [trainer.grower.additions(t).copy() for t in range(N_CLASSES - 1)]
    held_out = parts == 0
    changed, _ = run(X, y, params, 10, **DRAWN)
    changed.state.scores.labels[held_out] = (changed.state.scores.labels[held_out] + 1) % N_CLASSES
    changed.state.propose(plan)
    assert changed.grower.pairs == trainer.grower.pairs
    for t, before in enumerate(added):
        np.testing.assert_allclose(changed.grower.additions(t), before, atol=1e-12)


@pytest.mark.parametrize("change", [{"linear_tree": True}, {"path_smooth": 1.0}], ids=str)
def test_leaf_values_that_are_not_ours_to_set_are_not_probed(data, params, change):
    X, y = data
    trainer, booster = run(X, y, {**params, **change}, 12, **DRAWN)
    assert trainer.state.schedule.probes == ()
    assert ("leaf_coeff=" in booster.model_to_string()) == ("linear_tree" in change)
    # LightGBM trains linear leaves on float32 values.
    np.testing.assert_allclose(booster.predict(X), trainer.state.scores.probabilities.T, atol=1e-6)


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_trees_of_two_small_classes_have_fewer_leaves(params, leaf_values):
    X, y = make_data()
    y = np.where(y < 3, y, 2)
    y[:30], y[30:45] = 3, 4  # 45 samples: 11 leaves at 4 samples each
    params = {**params, "num_leaves": 20, "min_sum_hessian_in_leaf": 0.0}
    sizes = {}
    for per_leaf in (0.0, 4.0):
        trainer, booster = run(
            X, y, params, 2, search="all", gap=0, warmup=0, leaf_values=leaf_values, pair_samples_per_leaf=per_leaf
        )
        leaves = {
            frozenset(pair): leaf_values_of(trainer.grower.text(t)).size for t, pair in enumerate(trainer.grower.pairs)
        }
        sizes[per_leaf] = leaves[frozenset((3, 4))]
        assert leaves[frozenset((0, 1))] == 20
        assert trainer.booster.params["num_leaves"] == 20  # as the user has set it
        np.testing.assert_allclose(booster.predict(X), trainer.state.scores.probabilities.T, atol=1e-10)
    assert sizes == {0.0: 20, 4.0: 11}


def test_rounds_after_the_loss_is_gone_add_nothing(params):
    X = np.repeat(np.arange(N_CLASSES), 40).astype(float)[:, None]
    y = X[:, 0].astype(int)
    wild = {**params, "learning_rate": 1.0, "lambda_l2": 0.0, "max_delta_step": 0.0, "min_sum_hessian_in_leaf": 0.0}
    options = {"search": 1, "gap": 0, "warmup": 0, "leaf_clip": None}
    for leaf_values in ("paper", "sequential"):
        trainer, booster = run(X, y, wild, 150, leaf_values=leaf_values, **options)
        sizes = [len(trees) for trees in trainer.rounds]
        assert 0 < sizes.index(0) < 120
        assert not any(sizes[sizes.index(0) :])
        assert len(trainer.state.schedule.bases) == 150
        np.testing.assert_allclose(booster.predict(X), trainer.state.scores.probabilities.T, atol=1e-10)


@pytest.mark.data
@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_letter(data_folder, leaf_values):
    """26 classes: exported probabilities are those of training to 1e-10, and scores add up to 0 to 1e-9."""
    table = pd.read_parquet(data_folder / "letter.parquet")
    y = table.pop("target").astype("category").cat.codes.to_numpy()
    X = table.to_numpy(float)[:10000]
    params = {"num_leaves": 20, "num_threads": 1, "verbosity": -1}
    checked = TrainingParams.check(
        params, ABCOptions("abcrobustlogit", search=1, gap=0, warmup=0, leaf_values=leaf_values), 26
    )
    booster, _ = make_booster(checked, lgb.Dataset(X, y[:10000]), None, None, None)
    trainer = Trainer(checked, booster)
    losses = []
    for _ in range(40):
        trainer.boost_round()
        losses.append(trainer.state.scores.loss)
    model = finish(trainer.model(), best_round=0, layout="compact")
    scores = model.predict(X, raw_score=True)
    np.testing.assert_allclose(model.predict(X), trainer.state.scores.probabilities.T, rtol=0, atol=1e-10)
    assert np.abs(scores.sum(axis=1)).max() < 1e-9
    assert np.abs(trainer.state.scores.scores.sum(axis=0)).max() < 1e-9
    assert np.all(np.diff(losses) < 0)
    assert (model.predict(X).argmax(axis=1) != y[:10000]).mean() < 0.02
