"""abc_plugins.lgbm.train: right scores, right leaf values, the guard, and what is refused."""

import subprocess
import sys

import lightgbm as lgb
import numpy as np
import pytest

import abc_plugins.lgbm as abc_lgbm
from abc_plugins.core.schedule import RoundPlan
from abc_plugins.lgbm import model_info
from abc_plugins.lgbm.params import ABCOptions, TrainingParams
from abc_plugins.lgbm.trainer import Trainer
from abc_plugins.lgbm.training import make_booster

from .conftest import N_CLASSES, log_loss, make_data

SCHEDULES = [
    {"method": "abcrobustlogit", "search": 1, "gap": 0, "warmup": 0},
    {"method": "abcrobustlogit", "search": 2, "gap": 2, "warmup": 3},
    {"method": "abcrobustlogit", "search": "all", "gap": 0, "warmup": 1},
]


def softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def make_trainer(X, y, params, valid=None, weight=None, **options):
    checked = TrainingParams.check(params, ABCOptions(**{"method": "abcrobustlogit", **options}), N_CLASSES)
    train_set = lgb.Dataset(X, y, weight=weight, free_raw_data=False)
    valid_sets = [] if valid is None else [lgb.Dataset(*valid, reference=train_set)]
    booster, _ = make_booster(checked, train_set, valid_sets, None, None)
    return Trainer(checked, booster)


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_exported_model_predicts_the_training_time_probabilities(data, params, schedule, leaf_values):
    X, y = data
    X_valid, y_valid = make_data(seed=1)
    trainer = make_trainer(X, y, params, valid=(X_valid, y_valid), leaf_values=leaf_values, **schedule)
    losses = [trainer.state.scores.loss]
    for _ in range(15):
        trainer.boost_round()
        losses.append(trainer.state.scores.loss)
    booster = abc_lgbm.exporting.finish(trainer.model(), best_round=0, layout="compact")
    assert isinstance(booster, lgb.Booster)
    assert booster.dump_model()["objective"] == f"multiclass num_class:{N_CLASSES}"
    np.testing.assert_allclose(booster.predict(X), trainer.state.scores.probabilities.T, atol=1e-10)
    np.testing.assert_allclose(booster.predict(X_valid), softmax(trainer.valid[0].scores.T), atol=1e-10)
    assert np.abs(trainer.state.scores.scores.sum(axis=0)).max() < 1e-9
    assert np.abs(trainer.valid[0].scores.sum(axis=0)).max() < 1e-9
    if schedule["warmup"] == 0:
        assert np.abs(booster.predict(X, raw_score=True).sum(axis=1)).max() < 1e-9
    assert np.all(np.diff(losses) <= 1e-9)
    assert losses[-1] == pytest.approx(600 * log_loss(booster.predict(X), y), rel=1e-9)


def test_a_separate_process_without_abc_plugins_predicts_the_same(data, params, tmp_path):
    X, y = data
    booster = abc_lgbm.train(params, lgb.Dataset(X, y), 12, method="abcrobustlogit", gap=1, warmup=2)
    booster.save_model(tmp_path / "model.txt")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, numpy as np, lightgbm as lgb\n"
        "np.save('P.npy', lgb.Booster(model_file='model.txt').predict(np.load('X.npy')))\n"
        "assert 'abc_plugins' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "P.npy"), booster.predict(X), rtol=0, atol=1e-10)


def test_classic_rounds_are_stock_lightgbm(data, params):
    """Without a base class the run is robust LogitBoost, which is LightGBM's own multiclass objective."""
    X, y = data
    ours = abc_lgbm.train(params, lgb.Dataset(X, y), 10, method="abcrobustlogit", warmup=10, leaf_clip=None)
    stock = lgb.train({**params, "objective": "multiclass", "boost_from_average": False}, lgb.Dataset(X, y), 10)
    np.testing.assert_allclose(ours.predict(X), stock.predict(X), atol=1e-5)  # LightGBM computes gradients in float32


def naive_round(X_leaves, scores, y, base, learning_rate):
    """One ABC round on given leaves, from the formulas."""
    p = softmax(scores)
    new = scores.copy()
    for k, leaves in X_leaves.items():
        z = ((y == k) - p[:, k]) - ((y == base) - p[:, base])
        h = p[:, base] * (1 - p[:, base]) + p[:, k] * (1 - p[:, k]) + 2 * p[:, base] * p[:, k]
        for leaf in np.unique(leaves):
            inside = leaves == leaf
            beta = learning_rate * z[inside].sum() / h[inside].sum()
            new[inside, k] += beta
            new[inside, base] -= beta
    return new


def test_leaf_values_follow_the_paper(data, params):
    """Leaf ids of the stock model, leaf values from the formulas."""
    X, y = data
    booster = abc_lgbm.train(
        params,
        lgb.Dataset(X, y),
        6,
        method="abcrobustlogit",
        search=1,
        gap=0,
        warmup=0,
        leaf_clip=None,
        layout="rounds",
        guard=False,
    )
    info = model_info(booster)
    scores, begin = np.zeros((y.size, N_CLASSES)), 0
    for m, base in enumerate(info["base_classes"]):
        end = info["round_iterations"][m + 1]
        leaves = booster.predict(X, pred_leaf=True, start_iteration=begin, num_iteration=1)
        own = {k: leaves[:, k] for k in range(N_CLASSES) if k != base}
        scores = naive_round(own, scores, y, base, 0.1)
        begin = end
        np.testing.assert_allclose(booster.predict(X, raw_score=True, num_iteration=end), scores, atol=1e-4)


def test_the_first_base_is_the_largest_class_and_each_search_takes_the_lower_loss(data, params):
    X, y = data
    counts = np.bincount(y)
    booster = abc_lgbm.train(params, lgb.Dataset(X, y), 1, method="abcrobustlogit", search=1, warmup=0)
    assert model_info(booster)["base_classes"] == [int(counts.argmax())]
    losses = []
    for base in np.argsort(-counts)[:3]:
        one = make_trainer(X, y, params, method="abcrobustlogit", search=1, warmup=0)
        one.state.propose(RoundPlan((int(base),), centre=False))
        scores = np.zeros((N_CLASSES, y.size))
        for t, (plus, minus) in enumerate(one.grower.pairs):
            scores[plus] += one.grower.additions(t)
            scores[minus] -= one.grower.additions(t)
        losses.append(log_loss(softmax(scores.T), y))
    chosen = abc_lgbm.train(params, lgb.Dataset(X, y), 1, method="abcrobustlogit", search=3, warmup=0)
    assert model_info(chosen)["base_classes"] == [int(np.argsort(-counts)[int(np.argmin(losses))])]


def test_a_search_grows_each_pair_once_and_no_more(data, params):
    X, y = data
    K = N_CLASSES
    for search, distinct in ((1, K - 1), (2, 2 * (K - 1) - 1), ("all", K * (K - 1) // 2)):
        trainer = make_trainer(X, y, params, method="abcrobustlogit", search=search, gap=0, warmup=0)
        trainer.boost_round()
        text = lgb.Booster.model_to_string(trainer.booster)
        trees = abc_lgbm.text.read_model(text)[1]
        assert sum(not abc_lgbm.text.is_stump(tree) for tree in trees) == distinct
        assert len(trees) == K * -(-distinct // K)


def test_pairs_grown_once_give_the_model_of_pairs_grown_twice(data, params):
    X, y = data
    shared = make_trainer(X, y, params, method="abcrobustlogit", search=3, gap=1, warmup=0)
    apart = make_trainer(X, y, params, method="abcrobustlogit", search=3, gap=1, warmup=0)
    apart.grower.negates = lambda _state: False
    for _ in range(6):
        shared.boost_round()
        apart.boost_round()
    assert shared.state.schedule.bases == apart.state.schedule.bases
    np.testing.assert_allclose(shared.state.scores.scores, apart.state.scores.scores, atol=1e-9)


def test_the_bases_own_tree_is_zero_in_its_round(data, params):
    X, y = data
    trainer = make_trainer(X, y, params, method="abcrobustlogit", search=1, gap=0, warmup=0)
    for m in range(5):
        trainer.boost_round()
        base = trainer.state.schedule.bases[-1]
        trees = abc_lgbm.text.read_model(
            lgb.Booster.model_to_string(trainer.booster, start_iteration=m, num_iteration=1)
        )[1]
        assert abc_lgbm.text.is_stump(trees[base])
        assert abc_lgbm.text.leaf_values(trees[base]).tolist() == [0.0]
        assert {(tree.plus, tree.minus) for tree in trainer.rounds[-1]} == {
            (k, base) for k in range(N_CLASSES) if k != base
        }


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_weight_two_equals_a_row_given_twice(data, params, leaf_values):
    X, y = np.round(data[0], 1), data[1]  # few values, so that both data sets have the same bins
    weight = np.where(np.arange(y.size) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(y.size), weight.astype(int))
    quiet = {**params, "min_data_in_leaf": 1, "min_data_in_bin": 1, "min_sum_hessian_in_leaf": 1.0}
    options = {"method": "abcrobustlogit", "search": 2, "gap": 1, "warmup": 2, "leaf_values": leaf_values}
    weighted = abc_lgbm.train(quiet, lgb.Dataset(X, y, weight=weight), 8, **options)
    repeated = abc_lgbm.train(quiet, lgb.Dataset(X[twice], y[twice]), 8, **options)
    assert model_info(weighted)["base_classes"] == model_info(repeated)["base_classes"]
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-4)


def test_history_has_one_entry_a_round_even_when_rounds_stall(data, params):
    X, y = data
    impossible = {**params, "min_data_in_leaf": 400}
    evals = {}
    booster = abc_lgbm.train(
        impossible,
        lgb.Dataset(X, y),
        7,
        valid_sets=[lgb.Dataset(X, y)],
        callbacks=[lgb.record_evaluation(evals)],
        method="abcrobustlogit",
        gap=1,
        warmup=2,
    )
    assert len(model_info(booster)["base_classes"]) == 7
    assert evals["valid_0"]["multi_logloss"] == pytest.approx([np.log(N_CLASSES)] * 7)
    np.testing.assert_allclose(booster.predict(X), 1 / N_CLASSES)


def test_a_run_that_stalls_for_some_rounds_goes_on(params):
    """min_gain_to_split is lowered by a callback: rounds stall first and then grow."""
    X, y = make_data()
    evals = {}
    booster = abc_lgbm.train(
        params,
        lgb.Dataset(X, y),
        9,
        valid_sets=[lgb.Dataset(X, y)],
        callbacks=[
            lgb.record_evaluation(evals),
            lgb.reset_parameter(min_gain_to_split=lambda m: 1e9 if m in (0, 1, 4) else 0.0),
        ],
        method="abcrobustlogit",
        search=2,
        gap=1,
        warmup=1,
    )
    losses = evals["valid_0"]["multi_logloss"]
    assert len(model_info(booster)["base_classes"]) == 9
    assert losses[0] == losses[1] == pytest.approx(np.log(N_CLASSES))
    assert losses[4] == losses[3]
    assert all(losses[m] < losses[m - 1] for m in (2, 3, 5, 6, 7, 8))
    assert losses[-1] == pytest.approx(log_loss(booster.predict(X), y))


def test_same_model_whatever_the_thread_count(data, params):
    X, y = data
    models = []
    for threads in (1, 2):
        fixed = {**params, "num_threads": threads, "deterministic": True, "force_row_wise": True, "seed": 3}
        booster = abc_lgbm.train(
            fixed, lgb.Dataset(X, y), 10, method="abcrobustlogit", gap=1, warmup=2, leaf_values="sequential"
        )
        models.append(booster.predict(X, raw_score=True))
    assert np.array_equal(models[0], models[1])


def test_guard_shortens_a_step_that_raises_the_loss(params, caplog):
    """A learning rate of 3 overshoots; with the guard the training loss never rises."""
    X, y = make_data(300)
    wild = {**params, "learning_rate": 3.0}
    options = {"method": "abcrobustlogit", "search": 1, "gap": 0, "warmup": 0, "leaf_clip": None}

    def run(**more):
        evals, train_set = {}, lgb.Dataset(X, y)
        booster = abc_lgbm.train(
            wild, train_set, 12, valid_sets=[train_set], callbacks=[lgb.record_evaluation(evals)], **options, **more
        )
        return booster, np.array(evals["training"]["multi_logloss"])

    with caplog.at_level("INFO", logger="abc_plugins"):
        booster, losses = run()
    assert [record.message.split(";")[0] for record in caplog.records][1:] == []  # logged once
    assert "would have raised the training loss" in caplog.text
    assert np.all(np.diff(losses) <= 1e-12)
    assert model_info(booster)["guarded_rounds"] > 0
    assert log_loss(booster.predict(X), y) == pytest.approx(losses[-1], rel=1e-9)
    _, unguarded = run(guard=False)
    assert np.any(np.diff(unguarded) > 0)
    assert np.all(np.isfinite(unguarded))


def test_leaf_clip_is_max_delta_step(data, params):
    X, y = data
    clipped = abc_lgbm.train(params, lgb.Dataset(X, y), 5, leaf_clip=0.5, method="abcrobustlogit", warmup=0)
    named = abc_lgbm.train(
        {**params, "max_delta_step": 0.5}, lgb.Dataset(X, y), 5, leaf_clip=7.0, method="abcrobustlogit", warmup=0
    )
    assert np.array_equal(clipped.predict(X), named.predict(X))
    for leaf_values in ("paper", "sequential"):
        model = abc_lgbm.train(
            params, lgb.Dataset(X, y), 5, leaf_clip=0.5, method="abcrobustlogit", warmup=0, leaf_values=leaf_values
        )
        trees = abc_lgbm.text.read_model(model.model_to_string())[1]
        assert max(np.abs(abc_lgbm.text.leaf_values(tree)).max() for tree in trees) <= 0.05 + 1e-12


def test_two_classes_use_lightgbms_own_objective(params):
    X, y = make_data(n_classes=2)
    named = {name: value for name, value in params.items() if name != "num_class"}
    binary = abc_lgbm.train({**named, "objective": "binary"}, lgb.Dataset(X, y), 5)
    stock = lgb.train({**named, "objective": "binary"}, lgb.Dataset(X, y), 5)
    assert np.array_equal(binary.predict(X), stock.predict(X))
    two = abc_lgbm.train({**named, "num_class": 2}, lgb.Dataset(X, y), 5)
    assert two.predict(X).shape == (600, 2)
    assert abc_lgbm.train(named, lgb.Dataset(X, y), 5).predict(X).shape == (600, 2)


def test_number_of_classes_comes_from_the_labels_if_it_is_not_given(data, params):
    X, y = data
    # Only what must be given: LightGBM's own smallest leaf would be settled by binning the data for their labels.
    named = {"num_threads": 1, "verbose": -1}
    given = abc_lgbm.train({**named, "num_class": params["num_class"]}, lgb.Dataset(X, y), 3)
    for labels in (y, y.tolist(), y.astype(np.float32)):
        inferred = abc_lgbm.train(named, lgb.Dataset(X, labels), 3)
        assert np.array_equal(inferred.predict(X), given.predict(X))


def test_a_class_without_samples(data, params):
    X, y = data
    booster = abc_lgbm.train(
        {**params, "num_class": 7}, lgb.Dataset(X, y), 12, method="abcrobustlogit", search="all", gap=0, warmup=2
    )
    probabilities = booster.predict(X)
    assert probabilities.shape == (600, 7)
    assert np.isfinite(probabilities).all()
    assert probabilities[:, 5:].max() < 0.2


def test_keep_training_booster(data, params):
    X, y = data
    train_set, valid_set = lgb.Dataset(X, y), lgb.Dataset(X[:100], y[:100])
    evals = {}
    booster = abc_lgbm.train(
        params,
        train_set,
        5,
        valid_sets=[valid_set],
        keep_training_booster=True,
        callbacks=[lgb.record_evaluation(evals)],
        method="abcrobustlogit",
        warmup=1,
    )
    (result,) = booster.eval_valid()
    assert tuple(result)[1:3] == ("multi_logloss", pytest.approx(evals["valid_0"]["multi_logloss"][-1], rel=1e-9))
    before = booster.predict(X)
    assert log_loss(before, y) == pytest.approx(tuple(booster.eval_train()[0])[2], rel=1e-9)
    booster.update()
    assert log_loss(booster.predict(X), y) < log_loss(before, y)
    assert model_info(booster)["base_classes"][0] == -1


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"boosting": "dart"}, {}, "boosting must be 'gbdt' or 'goss'.*got 'dart'"),
        ({"boosting_type": "rf"}, {}, "boosting must be .*rescale the trees.*got 'rf'"),
        ({"num_machines": 2}, {}, "num_machines must be 1"),
        ({"machines": "127.0.0.1:1,127.0.0.1:2"}, {}, "num_machines must be 1"),
        ({"objective": "multiclassova"}, {}, "objective must be 'multiclass'"),
        ({"objective": "regression"}, {}, "objective must be 'multiclass'"),
        ({"monotone_constraints": [1, 0, 0, 0, 0, 0]}, {}, "monotone_constraints must be unset"),
        ({"metric": "rmse"}, {}, "metric must be one of .*got 'rmse'"),
        ({"num_class": 4}, {}, "label must be whole numbers from 0 to num_class - 1 = 3; got 4.0"),
        ({}, {"method": "abcrobustlogit", "search": 6}, r"search must be .* up to the number of classes \(5\).*got 6"),
        ({}, {"method": "abcrobustlogit", "search": "some"}, "search must be"),
        ({}, {"gap": -1}, "gap must be a whole number of at least 0"),
        ({}, {"warmup": 1.5}, "warmup must be a whole number"),
        ({}, {"leaf_clip": 0.0}, "leaf_clip must be a number larger than 0, or None"),
        ({}, {"leaf_values": "best"}, "leaf_values must be one of 'paper', 'sequential'"),
        ({}, {"layout": "wide"}, "layout must be one of 'compact', 'rounds'"),
        (
            {"linear_tree": True},
            {"method": "abcrobustlogit", "leaf_values": "sequential"},
            "leaf_values must be 'paper' with linear_tree=True",
        ),
        ({"num_iterations": 0}, {}, "num_boost_round must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(data, params, change, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        abc_lgbm.train({**params, **change}, lgb.Dataset(*data), 3, **options)


def test_wrong_data_is_refused(data, params):
    X, y = data
    with pytest.raises(TypeError, match=r"train_set must be a lightgbm\.Dataset"):
        abc_lgbm.train(params, X)
    with pytest.raises(TypeError, match=r"valid_sets must be lightgbm\.Dataset"):
        abc_lgbm.train(params, lgb.Dataset(X, y), valid_sets=[(X, y)])
    with pytest.raises(ValueError, match="label must be whole numbers"):
        abc_lgbm.train(params, lgb.Dataset(X, y + 0.5))
    with pytest.raises(TypeError, match="init_model must be a path"):
        abc_lgbm.train(params, lgb.Dataset(X, y), init_model=3)
    with pytest.raises(TypeError, match="booster must be a Booster that"):
        model_info(lgb.train({**params, "objective": "multiclass"}, lgb.Dataset(X, y), 1))
