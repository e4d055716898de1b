"""Callbacks, early stopping, metrics and layouts as a LightGBM user relies on them."""

import lightgbm as lgb
import numpy as np
import pytest

import abc_plugins.lgbm as abc_lgbm
from abc_plugins.lgbm import model_info

from .conftest import N_CLASSES, log_loss, make_data


def test_early_stopping_and_the_metric_at_the_best_round(data, params):
    X, y = data
    X_valid, y_valid = make_data(300, seed=1)
    train_set = lgb.Dataset(X, y)
    evals = {}
    booster = abc_lgbm.train(
        {**params, "metric": ["multi_error", "multi_logloss"], "learning_rate": 0.3},
        train_set,
        200,
        valid_sets=[train_set, lgb.Dataset(X_valid, y_valid)],
        valid_names=["fit", "held out"],
        callbacks=[lgb.early_stopping(5, first_metric_only=False, verbose=False), lgb.record_evaluation(evals)],
        method="abcrobustlogit",
        gap=1,
        warmup=2,
    )
    info = model_info(booster)
    best = info["best_round"]
    assert len(info["base_classes"]) == best
    assert list(evals) == ["fit", "held out"]
    assert 0 < best < len(evals["fit"]["multi_error"]) < 200
    for name, X_set, y_set in (("fit", X, y), ("held out", X_valid, y_valid)):
        probabilities = booster.predict(X_set)  # predicts with the best round
        assert evals[name]["multi_logloss"][best - 1] == pytest.approx(log_loss(probabilities, y_set), rel=1e-10)
        assert evals[name]["multi_error"][best - 1] == pytest.approx((probabilities.argmax(1) != y_set).mean())
        assert booster.best_score[name]["multi_logloss"] == evals[name]["multi_logloss"][best - 1]
    assert info["round_iterations"][best] == booster.best_iteration == booster.current_iteration()
    reloaded = lgb.Booster(model_str=booster.model_to_string())
    np.testing.assert_allclose(reloaded.predict(X_valid), booster.predict(X_valid), atol=1e-12)


def test_early_stopping_by_parameter_and_without_improvement(data, params):
    X, y = data
    shuffled = np.random.default_rng(0).permutation(y)
    evals = {}
    booster = abc_lgbm.train(
        {**params, "early_stopping_round": "3"},
        lgb.Dataset(X, y),
        50,
        valid_sets=lgb.Dataset(X, shuffled),
        valid_names="noise",
        callbacks=[lgb.record_evaluation(evals)],
        method="abcrobustlogit",
        warmup=0,
    )
    assert model_info(booster)["best_round"] + 3 == len(evals["noise"]["multi_logloss"])
    assert list(booster.best_score) == ["noise"]


@pytest.mark.parametrize("layout", ["compact", "rounds"])
def test_layouts(data, params, layout):
    X, y = data
    snapshots = []

    def watch(env):
        snapshots.append(env.model.predict(X, raw_score=True))

    booster = abc_lgbm.train(
        params, lgb.Dataset(X, y), 8, callbacks=[watch], method="abcrobustlogit", gap=2, warmup=2, layout=layout
    )
    info = model_info(booster)
    K, bases = N_CLASSES, info["base_classes"]
    if layout == "compact":
        copies = [bases.count(b) * (K - 2) for b in range(K)]
        assert booster.current_iteration() == 8 + max(copies)
        np.testing.assert_allclose(booster.predict(X, raw_score=True), snapshots[-1], atol=1e-12)
        return
    assert list(info["round_iterations"]) == list(range(1, 9))
    assert booster.current_iteration() == 2 + 6 * (K - 1)
    for m, end in info["round_iterations"].items():
        scores = booster.predict(X, raw_score=True, num_iteration=end)
        np.testing.assert_allclose(scores, snapshots[m - 1], atol=1e-12)


def test_callbacks_see_the_model_so_far(data, params, tmp_path):
    X, y = data
    seen = []

    def checkpoint(env):
        env.model.save_model(tmp_path / f"{env.iteration}.txt")
        seen.append((env.iteration, env.begin_iteration, env.end_iteration, env.model.current_iteration()))

    booster = abc_lgbm.train(
        params, lgb.Dataset(X, y), 4, callbacks=[checkpoint], method="abcrobustlogit", gap=1, warmup=1
    )
    assert seen == [(m, 0, 4, m + 1) for m in range(4)]
    last = lgb.Booster(model_file=tmp_path / "3.txt")
    np.testing.assert_allclose(last.predict(X), booster.predict(X), atol=1e-12)


def test_reset_parameter_changes_the_learning_rate(data, params):
    X, y = data
    for leaf_values in ("paper", "sequential"):
        options = {"method": "abcrobustlogit", "search": 1, "gap": 0, "warmup": 0, "leaf_values": leaf_values}
        decayed = abc_lgbm.train(
            params,
            lgb.Dataset(X, y),
            2,
            callbacks=[lgb.reset_parameter(learning_rate=[0.2, 0.05])],
            layout="rounds",
            **options,
        )
        start = abc_lgbm.train({**params, "learning_rate": 0.2}, lgb.Dataset(X, y), 1, **options)
        full = abc_lgbm.train(
            {**params, "learning_rate": 0.05}, lgb.Dataset(X, y, free_raw_data=False), 1, init_model=start, **options
        )
        np.testing.assert_allclose(decayed.predict(X), full.predict(X), atol=1e-5)


def test_feval_receives_probabilities(data, params):
    X, y = data
    shapes = []

    def half(probabilities, dataset):
        shapes.append(probabilities.shape)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        return "half", log_loss(probabilities, dataset.get_label().astype(int)) / 2, False

    def two(_probabilities, _dataset):
        return [("a", 1.0, True), ("b", 2.0, False)]

    evals = {}
    abc_lgbm.train(
        {**params, "metric": "multi_logloss"},
        lgb.Dataset(X, y),
        3,
        valid_sets=[lgb.Dataset(X, y)],
        feval=[half, two],
        callbacks=[lgb.record_evaluation(evals)],
    )
    assert shapes == [(600, N_CLASSES)] * 3
    assert evals["valid_0"]["half"] == pytest.approx([v / 2 for v in evals["valid_0"]["multi_logloss"]])
    assert evals["valid_0"]["a"] == [1.0] * 3


def test_log_evaluation_and_metric_none(data, params, capsys):
    X, y = data
    logging = {**params, "verbosity": 1}
    abc_lgbm.train(
        logging,
        lgb.Dataset(X, y),
        2,
        valid_sets=[lgb.Dataset(X, y)],
        callbacks=[lgb.log_evaluation(1)],
        method="abcrobustlogit",
        warmup=0,
    )
    assert "valid_0's multi_logloss" in capsys.readouterr().out
    evals = {}
    abc_lgbm.train(
        {**params, "metric": "None"},
        lgb.Dataset(X, y),
        2,
        valid_sets=[lgb.Dataset(X, y)],
        callbacks=[lgb.record_evaluation(evals)],
    )
    assert not any(evals.values())


@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
def test_callbacks_read_the_model_and_cannot_change_its_trees(data, params, method):
    X, y = data
    seen = []

    def look(env):
        stock = lgb.Booster(model_str=env.model.model_to_string())
        model = env.model
        assert (model.lower_bound(), model.upper_bound()) == (stock.lower_bound(), stock.upper_bound())
        assert model.lower_bound() < model.upper_bound()
        assert model.get_leaf_output(0, 1) == stock.get_leaf_output(0, 1)
        assert len(model.trees_to_dataframe()) == len(stock.trees_to_dataframe())
        np.testing.assert_array_equal(model.get_split_value_histogram(0)[0], stock.get_split_value_histogram(0)[0])
        for change in (
            model.rollback_one_iter,
            lambda: model.refit(X, y),
            lambda: model.set_leaf_output(0, 0, 1.0),
            model.shuffle_models,
            lambda: model.model_from_string(""),
        ):
            with pytest.raises(NotImplementedError, match="cannot change a model in training"):
                change()
        seen.append(env.iteration)

    abc_lgbm.train(params, lgb.Dataset(X, y), 2, callbacks=[look], method=method)
    assert seen == [0, 1]
