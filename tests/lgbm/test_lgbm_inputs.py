"""Kinds of data, ways of sampling, and models to start from."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import abc_plugins.lgbm as abc_lgbm
from abc_plugins.lgbm import model_info
from abc_plugins.lgbm.params import ABCOptions, TrainingParams
from abc_plugins.lgbm.trainer import Trainer
from abc_plugins.lgbm.training import make_booster

from .conftest import N_CLASSES, make_data

OPTIONS = {"method": "abcrobustlogit", "search": 2, "gap": 1, "warmup": 2}


def log_loss(probabilities, y):
    return -np.log(probabilities[np.arange(y.size), y]).mean()


def train_and_check(params, train_set, X, y, n_rounds=8, valid=None, **options):
    """Train, and see that the last reported loss is that of the exported model on X as it was given."""
    evals = {}
    valid_set = lgb.Dataset(X, y, reference=train_set) if valid is None else valid
    booster = abc_lgbm.train(
        params,
        train_set,
        n_rounds,
        valid_sets=[valid_set],
        callbacks=[lgb.record_evaluation(evals)],
        **{**OPTIONS, **options},
    )
    assert evals["valid_0"]["multi_logloss"][-1] == pytest.approx(log_loss(booster.predict(X), y), rel=1e-9)
    return booster


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_missing_values(data, params, leaf_values):
    X, y = data
    X[::7, 0] = np.nan
    X[1::11, 2] = np.nan
    train_and_check(params, lgb.Dataset(X, y), X, y, method="abcrobustlogit", leaf_values=leaf_values)
    train_and_check(
        {**params, "zero_as_missing": True}, lgb.Dataset(X, y), X, y, method="abcrobustlogit", leaf_values=leaf_values
    )


@pytest.mark.parametrize("shape", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix])
def test_sparse(data, params, shape):
    X, y = data
    X[np.abs(X) < 0.8] = 0.0
    dense = train_and_check(params, lgb.Dataset(X, y), X, y)
    sparse = train_and_check(params, lgb.Dataset(shape(X), y), shape(X), y)
    np.testing.assert_allclose(sparse.predict(shape(X)), dense.predict(X), atol=1e-12)


def test_tables(data, params):
    X, y = data
    names = [f"feature {j}" for j in range(X.shape[1])]
    expected = train_and_check(params, lgb.Dataset(X, y), X, y).predict(X)
    for make in (
        lambda: pd.DataFrame(X, columns=names),
        lambda: pa.table({name: X[:, j] for j, name in enumerate(names)}),
        lambda: pl.DataFrame({name: X[:, j] for j, name in enumerate(names)}),
    ):
        booster = train_and_check(params, lgb.Dataset(make(), y), make(), y)
        assert booster.feature_name() == [name.replace(" ", "_") for name in names]
        np.testing.assert_allclose(booster.predict(make()), expected, atol=1e-12)


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_pandas_categories(params, leaf_values):
    X, y = make_data()
    levels = np.array([f"level {j}" for j in range(12)])
    frame = pd.DataFrame(X[:, :3], columns=list("abc"))
    frame["d"] = pd.Categorical(levels[(y * 2 + (X[:, 3] > 0)) % 12])
    small = {**params, "min_data_per_group": 5, "cat_smooth": 1.0, "max_cat_to_onehot": 2}
    booster = train_and_check(small, lgb.Dataset(frame, y), frame, y, method="abcrobustlogit", leaf_values=leaf_values)
    assert "cat_threshold" in booster.model_to_string()
    assert booster.pandas_categorical == [sorted(levels[:10].tolist())]
    reloaded = lgb.Booster(model_str=booster.model_to_string())
    np.testing.assert_allclose(reloaded.predict(frame), booster.predict(frame), atol=1e-12)


def make_trainer(params, train_set, **options):
    checked = TrainingParams.check(params, ABCOptions(**options), N_CLASSES)
    booster, _ = make_booster(checked, train_set, None, None, None)
    return Trainer(checked, booster)


@pytest.mark.parametrize("cat_smooth", [0.0, 1.0])
def test_pairs_are_shared_where_lightgbm_negates_trees(params, cat_smooth):
    """Grow (k, b) and (b, k) apart: wherever pairs are shared, the trees are each other's negatives."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    X[:, 3] = rng.integers(0, 40, 600)
    y = (X[:, 3] + rng.integers(0, 2, 600)).astype(int) % N_CLASSES
    change = {"cat_smooth": cat_smooth, "cat_l2": 0.0, "min_data_per_group": 1}
    train_set = lgb.Dataset(X, y, categorical_feature=[3])
    trainer = make_trainer({**params, **change}, train_set, method="abcrobustlogit", search=3, gap=0, warmup=1)
    assert not trainer.grower.negates(trainer.state.scores)  # categories tie as long as all scores are equal
    trainer.boost_round()
    negatives = []
    for _ in range(3):
        shared = trainer.grower.negates(trainer.state.scores)
        assert shared == (cat_smooth > 0)
        trainer.grower.grow(trainer.state.scores, [(0, 1), (1, 0)], np.arange(600), 0)
        negatives.append(np.allclose(trainer.grower.additions(0), -trainer.grower.additions(1), atol=1e-9))
        trainer.boost_round()
        assert len(trainer.grower.pairs) == (3 * 4 - 3 if shared else 3 * 4)
    assert all(negatives) == (cat_smooth > 0)
    assert np.abs(trainer.state.scores.scores.sum(axis=0)).max() < 1e-9


@pytest.mark.parametrize(
    "change",
    [
        {"bagging_fraction": 0.6, "bagging_freq": 1},
        {"feature_fraction": 0.5},
        {"feature_fraction_bynode": 0.5},
        {"extra_trees": True},
        {"data_sample_strategy": "goss"},
        {"boosting": "goss"},
        {"use_quantized_grad": True},
        {"lambda_l1": 0.5, "lambda_l2": 2.0},
        {"path_smooth": 1.0},
        {"max_depth": 2},
        {"interaction_constraints": [[0, 1], [2, 3, 4, 5]]},
        {"force_col_wise": True},
        {"max_bin": 15},
    ],
    ids=str,
)
def test_sampling_and_growth_parameters(data, params, change):
    X, y = data
    seeded = {**params, **change, "seed": 7, "deterministic": True}
    first = train_and_check(seeded, lgb.Dataset(X, y), X, y)
    again = abc_lgbm.train(seeded, lgb.Dataset(X, y), 8, **OPTIONS)
    assert np.array_equal(first.predict(X), again.predict(X))
    plain = abc_lgbm.train(params, lgb.Dataset(X, y), 8, **OPTIONS)
    if change != {"force_col_wise": True}:
        assert not np.array_equal(first.predict(X), plain.predict(X))


def test_linear_trees(data, params):
    X, y = data
    linear = {**params, "linear_tree": True, "linear_lambda": 0.1}
    booster = train_and_check(linear, lgb.Dataset(X, y, params={"linear_tree": True}), X, y)
    assert "is_linear=1" in booster.model_to_string()
    plain = abc_lgbm.train(params, lgb.Dataset(X, y), 8, **OPTIONS)
    assert np.abs(booster.predict(X) - plain.predict(X)).max() > 1e-3


def test_init_score(data, params):
    X, y = data
    start = np.random.default_rng(1).normal(size=(600, N_CLASSES))
    train_set = lgb.Dataset(X, y, init_score=start)
    evals = {}
    booster = abc_lgbm.train(
        params,
        train_set,
        6,
        valid_sets=[train_set, lgb.Dataset(X, y, init_score=start, reference=train_set)],
        callbacks=[lgb.record_evaluation(evals)],
        **OPTIONS,
    )
    scores = booster.predict(X, raw_score=True) + start  # as in LightGBM, the model does not hold its start
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    for name in ("training", "valid_1"):
        assert evals[name]["multi_logloss"][-1] == pytest.approx(log_loss(probabilities, y), rel=1e-9)


def test_continuing_our_model_is_training_on(data, params):
    X, y = data
    for leaf_values in ("paper", "sequential"):
        options = {**OPTIONS, "leaf_values": leaf_values}
        whole = abc_lgbm.train(params, lgb.Dataset(X, y), 9, **options)
        half = abc_lgbm.train(params, lgb.Dataset(X, y), 5, **options)
        rest = abc_lgbm.train(params, lgb.Dataset(X, y, free_raw_data=False), 4, init_model=half, **options)
        assert model_info(rest)["base_classes"] == model_info(whole)["base_classes"]
        np.testing.assert_allclose(rest.predict(X), whole.predict(X), atol=1e-6)


@pytest.mark.parametrize("kind", ["booster", "file"])
def test_continuing_a_stock_model(data, params, kind, tmp_path):
    X, y = data
    stock = lgb.train({**params, "objective": "multiclass"}, lgb.Dataset(X, y), 4)
    stock.save_model(tmp_path / "stock.txt")
    init_model = stock if kind == "booster" else tmp_path / "stock.txt"
    begun, evals = [], {}

    def look(env):
        begun.append((env.begin_iteration, env.iteration))

    X_valid, y_valid = make_data(200, seed=1)
    booster = abc_lgbm.train(
        params,
        lgb.Dataset(X, y),
        6,
        valid_sets=[lgb.Dataset(X_valid, y_valid)],
        init_model=init_model,
        callbacks=[look, lgb.record_evaluation(evals)],
        **OPTIONS,
    )
    assert begun[0] == (4, 4)
    bases = model_info(booster)["base_classes"]
    assert bases[:4] == [-1] * 4  # its iterations count as the warm-up
    assert -1 not in bases[4:]
    assert len(bases) == 10
    assert evals["valid_0"]["multi_logloss"][-1] == pytest.approx(log_loss(booster.predict(X_valid), y_valid), rel=1e-9)
    assert log_loss(booster.predict(X), y) < log_loss(stock.predict(X), y)


def test_lightgbm_continues_our_model(data, params):
    X, y = data
    ours = abc_lgbm.train(params, lgb.Dataset(X, y), 5, **OPTIONS)
    more = lgb.train({**params, "objective": "multiclass"}, lgb.Dataset(X, y), 5, init_model=ours)
    assert log_loss(more.predict(X), y) < log_loss(ours.predict(X), y)
    np.testing.assert_allclose(
        more.predict(X, num_iteration=ours.current_iteration()), ours.predict(X), rtol=0, atol=1e-12
    )


def test_an_initial_model_of_other_classes_is_refused(data, params):
    X, y = data
    three = lgb.train({**params, "objective": "multiclass", "num_class": 3}, lgb.Dataset(X, y % 3), 2)
    with pytest.raises(ValueError, match="init_model must be a model of 5 classes; got a model of 3 classes"):
        abc_lgbm.train(params, lgb.Dataset(X, y), init_model=three)


def test_early_stopping_of_a_continued_run(data, params):
    X, y = data
    X_valid, y_valid = make_data(200, seed=1)
    start = abc_lgbm.train(params, lgb.Dataset(X, y), 5, **OPTIONS)
    evals = {}
    booster = abc_lgbm.train(
        {**params, "learning_rate": 0.4},
        lgb.Dataset(X, y),
        60,
        valid_sets=[lgb.Dataset(X_valid, y_valid)],
        init_model=start,
        callbacks=[lgb.early_stopping(4, verbose=False), lgb.record_evaluation(evals)],
        **OPTIONS,
    )
    best = model_info(booster)["best_round"]
    assert 5 < best < 60
    reported = evals["valid_0"]["multi_logloss"][best - 5 - 1]
    assert reported == min(evals["valid_0"]["multi_logloss"])
    assert reported == pytest.approx(log_loss(booster.predict(X_valid), y_valid), rel=1e-9)
