"""Directional trees on LightGBM: a stock model that predicts what was trained, and what LightGBM users rely on."""

import copy
import inspect
import pickle
import subprocess
import sys
import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import abc_plugins.lgbm as abc_lgbm
from abc_plugins.lgbm import ABCLGBMClassifier, model_info

from .conftest import N_CLASSES, make_data

TREES = 2  # of a round with five classes


def log_loss(probabilities, y, weights=None):
    return np.average(-np.log(probabilities[np.arange(y.size), y]), weights=weights)


def recorded(params, X, y, rounds, valid=None, weight=None, **options):
    """A model, and its recorded evaluations."""
    history = {}
    train_set = lgb.Dataset(X, y, weight=weight, free_raw_data=False)
    sets = [train_set] if valid is None else [train_set, lgb.Dataset(*valid, reference=train_set)]
    callbacks = [lgb.record_evaluation(history), *options.pop("callbacks", [])]
    booster = abc_lgbm.train(
        params, train_set, rounds, valid_sets=sets, valid_names=["t", "v"][: len(sets)], callbacks=callbacks, **options
    )
    return booster, {name: of_set["multi_logloss"] for name, of_set in history.items()}


@pytest.mark.parametrize("trees_per_round", [None, 1, 3])
def test_exported_model_predicts_what_was_trained(data, params, trees_per_round):
    X, y = data
    other = make_data(seed=1)
    booster, history = recorded(params, X, y, 15, valid=other, trees_per_round=trees_per_round)
    n_trees = trees_per_round or TREES
    assert isinstance(booster, lgb.Booster)
    assert booster.current_iteration() == 15 * n_trees
    assert booster.num_trees() == 15 * n_trees * N_CLASSES
    assert model_info(booster)["round_iterations"] == {m: m * n_trees for m in range(1, 16)}
    assert log_loss(booster.predict(X), y) == pytest.approx(history["t"][-1], rel=1e-10)
    assert log_loss(booster.predict(other[0]), other[1]) == pytest.approx(history["v"][-1], rel=1e-10)
    for m in (1, 7):
        cut = booster.predict(other[0], num_iteration=m * n_trees)
        assert log_loss(cut, other[1]) == pytest.approx(history["v"][m - 1], rel=1e-10)
    assert history["t"] == sorted(history["t"], reverse=True)


def test_it_beats_stock_after_as_many_rounds(params):
    X, y = make_data(n_samples=1500)
    X_test, y_test = make_data(n_samples=1500, seed=1)
    ours = abc_lgbm.train(params, lgb.Dataset(X, y), 30)
    stock = lgb.train({**params, "objective": "multiclass"}, lgb.Dataset(X, y), 30)
    assert log_loss(ours.predict(X_test), y_test) < log_loss(stock.predict(X_test), y_test)


def test_trees_of_one_direction_share_their_structure(data, params):
    booster = abc_lgbm.train(params, lgb.Dataset(*data), 3)
    trees = [info["tree_structure"] for info in booster.dump_model()["tree_info"]]

    def shape(node):
        if "leaf_index" in node:
            return node["leaf_count"]
        return node["split_feature"], node["threshold"], shape(node["left_child"]), shape(node["right_child"])

    shapes = [shape(tree) for tree in trees]
    for first in range(0, len(shapes), N_CLASSES):
        assert len(set(shapes[first : first + N_CLASSES])) == 1
    assert len(set(shapes)) > 1


def test_scores_start_at_the_class_frequencies():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), np.minimum(rng.integers(0, 60, 500), 3) % 4
    params = {"num_class": 5, "verbosity": -1, "num_threads": 1, "learning_rate": 1e-9}
    shares = np.bincount(y, minlength=5) / 500
    first = abc_lgbm.train(params, lgb.Dataset(X, y), 1).predict(X[:1])[0]
    np.testing.assert_allclose(first[:4], shares[:4], atol=1e-3)
    assert 0.0 < first[4] < shares[:4].min()  # a class that the training data does not have
    even = abc_lgbm.train({**params, "boost_from_average": False}, lgb.Dataset(X, y), 1).predict(X[:1])[0]
    np.testing.assert_allclose(even, 0.2, atol=1e-3)


def test_weights_count_like_repeated_rows(data, params):
    X, y = data
    weight = np.random.default_rng(0).integers(1, 4, y.size)
    fixed = {**params, "min_data_in_leaf": 1, "min_data_in_bin": 1, "max_bin": 1000}
    weighted, history = recorded(fixed, X, y, 8, weight=weight)
    repeated, expected = recorded(fixed, X.repeat(weight, axis=0), y.repeat(weight), 8)
    assert history["t"][0] == pytest.approx(expected["t"][0], rel=0.05)
    assert log_loss(weighted.predict(X), y, weight) == pytest.approx(history["t"][-1], rel=1e-9)
    assert log_loss(repeated.predict(X), y, weight) == pytest.approx(history["t"][-1], rel=0.3)


def test_missing_values_and_categories(params):
    X, y = make_data()
    X[::7, 0] = np.nan
    X[:, 3] = np.random.default_rng(0).integers(0, 8, y.size)
    history = {}
    train_set = lgb.Dataset(X, y, categorical_feature=[3], free_raw_data=False)
    booster = abc_lgbm.train(
        {**params, "min_data_per_group": 5},
        train_set,
        12,
        valid_sets=[train_set],
        callbacks=[lgb.record_evaluation(history)],
    )
    assert log_loss(booster.predict(X), y) == pytest.approx(history["training"]["multi_logloss"][-1], rel=1e-10)
    assert any(info["num_cat"] for info in booster.dump_model()["tree_info"])


def test_init_score_and_init_model(data, params):
    X, y = data
    first = abc_lgbm.train(params, lgb.Dataset(X, y), 6)
    train_set = lgb.Dataset(X, y, free_raw_data=False)
    history = {}
    continued = abc_lgbm.train(
        params, train_set, 6, init_model=first, valid_sets=[train_set], callbacks=[lgb.record_evaluation(history)]
    )
    assert continued.current_iteration() == 12 * TREES
    assert len(model_info(continued)["base_classes"]) == 12
    assert log_loss(continued.predict(X), y) == pytest.approx(history["training"]["multi_logloss"][-1], rel=1e-10)
    assert log_loss(continued.predict(X), y) < log_loss(first.predict(X), y)
    np.testing.assert_allclose(
        continued.predict(X, num_iteration=6 * TREES, raw_score=True), first.predict(X, raw_score=True), atol=1e-12
    )
    scores = first.predict(X, raw_score=True)
    with_scores = lgb.Dataset(X, y, init_score=scores, free_raw_data=False)
    rest = abc_lgbm.train(params, with_scores, 3)
    total = scores + rest.predict(X, raw_score=True)
    powers = np.exp(total - total.max(axis=1, keepdims=True))
    assert log_loss(powers / powers.sum(axis=1, keepdims=True), y) < log_loss(first.predict(X), y)
    np.testing.assert_array_equal(with_scores.get_init_score().reshape(scores.shape, order="F"), scores)


def test_early_stopping_and_estimator():
    X, y = make_data(n_samples=400)
    other = make_data(n_samples=400, seed=1)
    model = ABCLGBMClassifier(n_estimators=300, num_leaves=6, n_jobs=1, verbosity=-1, random_state=0)
    model.fit(X, y, eval_set=[other], callbacks=[lgb.early_stopping(5, verbose=False)])
    losses = model.evals_result_["valid_0"]["multi_logloss"]
    assert model.best_iteration_ == 1 + int(np.argmin(losses)) < 300
    assert model.booster_.best_iteration == TREES * model.best_iteration_
    assert log_loss(model.predict_proba(other[0]), other[1]) == pytest.approx(min(losses), rel=1e-10)
    cut = model.predict_proba(other[0], num_iteration=3)
    assert log_loss(cut, other[1]) == pytest.approx(losses[2], rel=1e-10)
    assert model.feature_importances_.sum() == TREES * model.best_iteration_ * 5  # splits of trees of six leaves
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-12)


def test_cv_and_callbacks_that_change_parameters(data, params):
    X, y = data
    results = abc_lgbm.cv(params, lgb.Dataset(X, y), 8, nfold=3, return_cvbooster=True)
    assert len(results["valid multi_logloss-mean"]) == 8
    assert results["cvbooster"].boosters[0].current_iteration() == 8 * TREES
    slow, slow_history = recorded(
        params, X, y, 6, callbacks=[lgb.reset_parameter(learning_rate=lambda m: 0.1 / (1 + m))]
    )
    _, history = recorded(params, X, y, 6)
    assert slow_history["t"][0] == history["t"][0]
    assert slow_history["t"][-1] > history["t"][-1]
    assert log_loss(slow.predict(X), y) == pytest.approx(slow_history["t"][-1], rel=1e-10)


def test_search_gap_and_warmup(data, params):
    X, y = data
    booster, history = recorded(params, X, y, 6, search=2, gap=1, warmup=2)
    assert booster.current_iteration() == 2 + 4 * TREES
    assert log_loss(booster.predict(X), y) == pytest.approx(history["t"][-1], rel=1e-10)


def test_data_that_was_binned_before(data, params):
    X, y = data
    given = {name: value for name, value in params.items() if name != "min_data_in_leaf"}
    binned = lgb.Dataset(X, y).construct()  # its raw data is gone
    booster = abc_lgbm.train(given, binned, 3)
    assert booster.current_iteration() == 3 * TREES


def test_the_same_seed_gives_the_same_model_and_threads_do_not_matter(data, params):
    X, y = data
    texts = {abc_lgbm.train({**params, "num_threads": n}, lgb.Dataset(X, y), 5).predict(X).tobytes() for n in (1, 2, 1)}
    assert len(texts) == 1
    other = abc_lgbm.train({**params, "seed": 3}, lgb.Dataset(X, y), 5)
    assert other.predict(X).tobytes() not in texts


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ({"linear_tree": True}, {}, "linear_tree"),
        ({"boosting": "dart"}, {}, "boosting"),
        ({}, {"method": "pairs"}, "method"),
        ({}, {"trees_per_round": 0}, "trees_per_round"),
        ({}, {"leaf_reg_lambda": -1.0}, "leaf_reg_lambda"),
    ],
)
def test_what_cannot_be_right_is_refused(data, params, given, options, message):
    with pytest.raises(ValueError, match=message):
        abc_lgbm.train({**params, **given}, lgb.Dataset(*data), 2, **options)


def test_unknown_options_are_refused(data, params):
    with pytest.raises(TypeError, match="trees_a_round"):
        abc_lgbm.train(params, lgb.Dataset(*data), 2, trees_a_round=2)


def check_against_stock(booster, X, **arguments):
    stock = lgb.Booster(model_str=booster.model_to_string(num_iteration=-1))
    for raw_score in (False, True):
        ours, expected = (one.predict(X, raw_score=raw_score, **arguments) for one in (booster, stock))
        np.testing.assert_allclose(ours, expected, rtol=1e-12)


def shares_trees(booster):
    """Whether the last prediction looked leaf vectors up."""
    return booster._shared[0] is not None


def test_predictions_by_leaf_vectors_are_those_of_stock(data, params):
    X, y = data
    frame = pd.DataFrame(X).add_prefix("f")
    frame.iloc[::7, 0] = np.nan
    frame["f3"] = pd.Categorical(np.random.default_rng(0).choice(list("abcdefgh"), y.size))
    booster = abc_lgbm.train({**params, "min_data_per_group": 5}, lgb.Dataset(frame, y), 12)
    for rows in (frame, frame[:1], frame[:0:-3]):
        check_against_stock(booster, rows)
        check_against_stock(booster, rows, num_iteration=3 * TREES, start_iteration=TREES)
    assert shares_trees(booster)
    np.testing.assert_array_equal(booster.predict(frame, pred_leaf=True).shape, (y.size, 12 * TREES * N_CLASSES))
    sparse = abc_lgbm.train(params, lgb.Dataset(csr_matrix(np.maximum(X, 0.0)), y), 3)
    check_against_stock(sparse, csr_matrix(X))
    assert shares_trees(sparse)


def test_models_whose_classes_split_differently_predict_as_stock(data, params):
    X, y = data
    with_classic_rounds = abc_lgbm.train(params, lgb.Dataset(X, y), 4, warmup=2)
    first = lgb.train({**params, "objective": "multiclass"}, lgb.Dataset(X, y, free_raw_data=False), 3)
    continued = abc_lgbm.train(params, lgb.Dataset(X, y, free_raw_data=False), 3, init_model=first)
    for booster in (with_classic_rounds, continued):
        check_against_stock(booster, X)
        assert not shares_trees(booster)


def test_predictions_follow_changes_of_the_trees(data, params):
    X, y = data
    booster = abc_lgbm.train(params, lgb.Dataset(X, y), 4)
    before = booster.predict(X)
    assert shares_trees(booster)
    booster.set_leaf_output(0, 0, 5.0)
    assert np.abs(booster.predict(X) - before).max() > 0.1
    check_against_stock(booster, X)
    kept = abc_lgbm.train(params, lgb.Dataset(X, y, free_raw_data=False), 4, keep_training_booster=True)
    before = kept.predict(X)
    kept.update()
    assert np.abs(kept.predict(X, num_iteration=-1) - before).max() > 0.0
    check_against_stock(kept, X, num_iteration=-1)


def test_data_that_was_binned_before_prints_no_error(data, params, capfd):
    X, y = data
    given = {name: value for name, value in params.items() if name != "min_data_in_leaf"}
    binned = lgb.Dataset(X, y, params={"verbosity": -1}).construct()
    nodes = abc_lgbm.train(given, binned, 3).trees_to_dataframe()
    assert nodes[nodes["left_child"].isna()]["count"].min() >= 15  # LightGBM's 20, which it estimates from hessians
    assert "Fatal" not in "".join(capfd.readouterr())
    fresh = lgb.Dataset(X, y, params={"verbosity": -1})
    first, second = (abc_lgbm.train(given, fresh, 3).predict(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_process_without_the_package_predicts_the_same(data, params, tmp_path):
    X, y = data
    booster = abc_lgbm.train(params, lgb.Dataset(X, y), 5)
    booster.save_model(tmp_path / "model.txt")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, numpy as np, lightgbm as lgb\n"
        "p = lgb.Booster(model_file='model.txt').predict(np.load('X.npy'))\n"
        "assert not any(name.startswith('abc_plugins') for name in sys.modules)\n"
        "np.save('p.npy', p)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), booster.predict(X), atol=1e-10)
    contributions = booster.predict(X[:20], pred_contrib=True).reshape(20, N_CLASSES, -1).sum(axis=2)
    np.testing.assert_allclose(contributions, booster.predict(X[:20], raw_score=True), atol=1e-9)


@pytest.mark.parametrize("given", [0, -1, 0.0, "0", "-1"])
def test_no_limit_of_leaf_values(data, params, given):
    X, y = data
    unlimited = abc_lgbm.train(params, lgb.Dataset(X, y), 4, leaf_clip=None).predict(X)
    booster = abc_lgbm.train({**params, "max_delta_step": given}, lgb.Dataset(X, y), 4)
    np.testing.assert_array_equal(booster.predict(X), unlimited)
    assert np.ptp(unlimited[:, 0]) > 0.1


def test_parameters_of_all_classes_are_no_ones_of_the_trees(data, params):
    X, y = data
    weights = (1.0 - np.eye(N_CLASSES)).ravel()
    weights[1] = 3.0
    evaluated = []
    for given in (weights, weights.tolist(), ",".join(map(str, weights))):
        history = {}
        abc_lgbm.train(
            {**params, "metric": "auc_mu", "auc_mu_weights": given},
            train_set := lgb.Dataset(X, y),
            3,
            valid_sets=[train_set],
            callbacks=[lgb.record_evaluation(history)],
        )
        evaluated.append(history["training"]["auc_mu"])
    assert evaluated[0] == evaluated[1] == evaluated[2]


@pytest.mark.parametrize("goss", [{"boosting": "goss"}, {"data_sample_strategy": "goss"}])
def test_sampling_by_gradients_starts_as_late_as_in_lightgbm(data, params, goss):
    X, y = data
    plain, sampled = (
        abc_lgbm.train({**params, "learning_rate": 0.2, **given}, lgb.Dataset(X, y), 8).predict(
            X, num_iteration=5 * TREES, raw_score=True
        )
        for given in ({}, goss)
    )
    np.testing.assert_allclose(sampled, plain, rtol=1e-6)
    late = abc_lgbm.train({**params, "learning_rate": 0.2, **goss}, lgb.Dataset(X, y), 8)
    assert (
        np.abs(
            late.predict(X) - abc_lgbm.train({**params, "learning_rate": 0.2}, lgb.Dataset(X, y), 8).predict(X)
        ).max()
        > 1e-3
    )


@pytest.mark.parametrize("options", [{}, {"search": 2, "gap": 4, "warmup": 3}])
@pytest.mark.parametrize("n_first", [5, 16, 18])
def test_some_rounds_and_then_others_are_all_at_once(data, params, options, n_first):
    X, y = data
    params = {**params, "learning_rate": 0.5}

    def run(rounds, init_model=None):
        return abc_lgbm.train(params, lgb.Dataset(X, y), rounds, init_model=init_model, **options)

    continued, whole = run(20 - n_first, run(n_first)), run(20)
    np.testing.assert_allclose(continued.predict(X), whole.predict(X), rtol=1e-8)
    info, expected = model_info(continued), model_info(whole)
    assert info["split_importance"] == expected["split_importance"]
    np.testing.assert_allclose(info["gain_importance"], expected["gain_importance"], rtol=1e-8)
    assert info["guarded_rounds"] == expected["guarded_rounds"]
    assert "directions" not in info


def test_other_options_draw_directions_anew(data, params):
    X, y = data
    first = abc_lgbm.train(params, lgb.Dataset(X, y), 5)
    for options in ({"gap": 3}, {"trees_per_round": 3}):
        booster = abc_lgbm.train(params, lgb.Dataset(X, y), 3, init_model=first, **options)
        assert log_loss(booster.predict(X), y) < log_loss(first.predict(X), y)


def test_importances_of_a_continued_model_count_every_tree_once(data, params, tmp_path):
    X, y = data
    first = abc_lgbm.train(params, lgb.Dataset(X, y), 3)
    first.save_model(tmp_path / "model.txt")
    n_splits = sum(tree["num_leaves"] - 1 for tree in first.dump_model()["tree_info"]) / N_CLASSES
    assert sum(model_info(first)["split_importance"]) == n_splits
    kept = abc_lgbm.train(params, lgb.Dataset(X, y, free_raw_data=False), 3, keep_training_booster=True)
    for init_model in (first, tmp_path / "model.txt", kept):
        booster = abc_lgbm.train(params, lgb.Dataset(X, y), 2, init_model=init_model)
        all_splits = sum(tree["num_leaves"] - 1 for tree in booster.dump_model()["tree_info"]) / N_CLASSES
        assert sum(model_info(booster)["split_importance"]) == all_splits > n_splits
    estimator = ABCLGBMClassifier(n_estimators=2, n_jobs=1, verbosity=-1).fit(X, y, init_model=first)
    assert estimator.feature_importances_.sum() == sum(estimator.booster_.feature_importance()) / N_CLASSES


def test_guarded_rounds_of_a_continued_model_are_all(data, params):
    X, y = data
    params = {**params, "learning_rate": 5.0}
    first = abc_lgbm.train(params, lgb.Dataset(X, y), 4)
    booster = abc_lgbm.train(params, lgb.Dataset(X, y), 4, init_model=first)
    whole = model_info(abc_lgbm.train(params, lgb.Dataset(X, y), 8))["guarded_rounds"]
    assert model_info(booster)["guarded_rounds"] == whole > model_info(first)["guarded_rounds"] > 0


def test_predict_has_the_arguments_of_lightgbm(data, params):
    X, y = data
    booster = abc_lgbm.train(params, lgb.Dataset(X, y), 3)
    stock = lgb.Booster(model_str=booster.model_to_string())
    assert inspect.signature(booster.predict).parameters.keys() == inspect.signature(stock.predict).parameters.keys()
    for flags in ((True,), (False, True), (False, False, True), (False, False, False, False, True)):
        np.testing.assert_allclose(booster.predict(X, 0, None, *flags), stock.predict(X, 0, None, *flags), rtol=1e-9)
    for empty in (X[:0], csr_matrix(X[:0])):
        for raw_score in (False, True):
            ours, expected = booster.predict(empty, raw_score=raw_score), stock.predict(empty, raw_score=raw_score)
            assert ours.shape == expected.shape


def test_another_model_read_in_has_no_rounds_that_are_known(data, params):
    X, y = data
    booster = abc_lgbm.train(params, lgb.Dataset(X, y), 3)
    other = lgb.train({**params, "objective": "multiclass"}, lgb.Dataset(X, y), 5)
    booster.model_from_string(other.model_to_string())
    with pytest.raises(TypeError, match="booster must be a Booster that"):
        model_info(booster)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(booster.predict(X, num_iteration=3), other.predict(X, num_iteration=3))
    np.testing.assert_array_equal(copy.deepcopy(booster).predict(X), other.predict(X))
    continued = abc_lgbm.train(params, lgb.Dataset(X, y), 2, init_model=booster)
    assert len(model_info(continued)["base_classes"]) == 7
