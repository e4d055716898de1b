"""Directional trees on XGBoost: a stock model that predicts what was trained, and what XGBoost users rely on."""

import pickle

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

import abc_plugins.xgb as abc_xgb  # noqa: E402
from abc_plugins.xgb import ABCBoost, ABCXGBClassifier  # noqa: E402

K = 5
TREES = 2
PARAMS = {"objective": "multi:softprob", "num_class": K, "nthread": 1, "max_depth": 3, "eta": 0.2}


def make_data(n_samples=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 6)).astype(np.float32)
    score = X[:, 0] + 0.7 * X[:, 1] * (X[:, 2] > 0) + 0.4 * rng.normal(size=n_samples)
    return X, np.searchsorted(np.quantile(score, np.linspace(0, 1, K + 1)[1:-1] ** 1.3), score)


def log_loss(probabilities, y, weights=None):
    return np.average(-np.log(probabilities[np.arange(y.size), y]), weights=weights)


def recorded(params, matrix, rounds, other=None, **options):
    history = {}
    evals = [(matrix, "t")] + ([] if other is None else [(other, "v")])
    booster = abc_xgb.train(params, matrix, rounds, evals=evals, evals_result=history, verbose_eval=False, **options)
    return booster, {name: of_set["mlogloss"] for name, of_set in history.items()}


@pytest.fixture
def data():
    X, y = make_data()
    return xgboost.DMatrix(X, y, nthread=1), y


@pytest.mark.parametrize("trees_per_round", [None, 1])
def test_exported_model_predicts_what_was_trained(data, trees_per_round):
    matrix, y = data
    X_other, y_other = make_data(seed=1)
    other = xgboost.DMatrix(X_other, y_other, nthread=1)
    booster, history = recorded(PARAMS, matrix, 12, other, trees_per_round=trees_per_round)
    assert type(booster) is xgboost.Booster
    assert booster.num_boosted_rounds() == 12
    assert len(booster.get_dump()) == 12 * (trees_per_round or TREES) * K
    assert abc_xgb.base_classes(booster) == [-1] * 12
    assert log_loss(booster.predict(matrix), y) == pytest.approx(history["t"][-1], abs=1e-5)
    for m in (1, 7, 12):
        cut = booster.predict(other, iteration_range=(0, m))
        assert log_loss(cut, y_other) == pytest.approx(history["v"][m - 1], abs=1e-5)
    assert history["t"] == sorted(history["t"], reverse=True)


def test_it_beats_stock_after_as_many_rounds():
    (X, y), (X_test, y_test) = make_data(1500), make_data(1500, seed=1)
    train, test = xgboost.DMatrix(X, y, nthread=1), xgboost.DMatrix(X_test, nthread=1)
    ours, stock = abc_xgb.train(PARAMS, train, 15), xgboost.train(PARAMS, train, 15)
    assert log_loss(ours.predict(test), y_test) < log_loss(stock.predict(test), y_test)


def test_scores_start_at_the_class_frequencies_unless_told_otherwise():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), np.minimum(rng.integers(0, 60, 500), 3) % 4
    matrix, params = xgboost.DMatrix(X, y, nthread=1), PARAMS | {"eta": 1e-9}
    shares = np.bincount(y, minlength=K) / 500
    first = abc_xgb.train(params, matrix, 1).predict(matrix)[0]
    np.testing.assert_allclose(first[:4], shares[:4], atol=2e-3)
    assert 0.0 < first[4] < shares[:4].min()
    even = abc_xgb.train(params | {"base_score": 0.0}, matrix, 1).predict(matrix)[0]
    np.testing.assert_allclose(even, 1 / K, atol=1e-4)


def test_margins_weights_missing_values_and_continuation(data):
    matrix, y = data
    first, _ = recorded(PARAMS, matrix, 5)
    continued, history = recorded(PARAMS, matrix, 5, xgb_model=first)
    assert continued.num_boosted_rounds() == 10
    assert log_loss(continued.predict(matrix), y) == pytest.approx(history["t"][-1], abs=1e-5)
    np.testing.assert_allclose(continued.predict(matrix, iteration_range=(0, 5)), first.predict(matrix), atol=1e-6)
    X, _ = make_data()
    X[::5, 0] = np.nan
    weights = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    margins = first.predict(matrix, output_margin=True)
    with_margins = xgboost.DMatrix(X, y, weight=weights, base_margin=margins, nthread=1)
    booster, history = recorded(PARAMS, with_margins, 6)
    assert log_loss(booster.predict(with_margins), y, weights) == pytest.approx(history["t"][-1], abs=1e-5)


def test_categories(data):
    pandas = pytest.importorskip("pandas")
    _, y = data
    X, _ = make_data()
    frame = pandas.DataFrame(X).assign(c=pandas.Categorical(np.array(list("abcdefgh"))[y + 1]))
    matrix = xgboost.DMatrix(frame, y, enable_categorical=True, nthread=1)
    booster, history = recorded(PARAMS, matrix, 6)
    assert log_loss(booster.predict(matrix), y) == pytest.approx(history["t"][-1], abs=1e-5)
    assert history["t"][-1] < 0.5


def test_early_stopping_estimator_cv_and_the_callback_alone(data):
    matrix, _ = data
    (X, y), other = make_data(400), make_data(400, seed=1)
    model = ABCXGBClassifier(n_estimators=300, max_depth=3, n_jobs=1, early_stopping_rounds=5)
    model.fit(X, y, eval_set=[other], verbose=False)
    losses = model.evals_result()["validation_0"]["mlogloss"]
    assert model.best_iteration == int(np.argmin(losses)) < 290
    assert log_loss(model.predict_proba(other[0]), other[1]) == pytest.approx(min(losses), abs=1e-5)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    history = abc_xgb.cv(PARAMS, matrix, 4, nfold=3, as_pandas=False)
    assert len(history["test-mlogloss-mean"]) == 4
    alone = xgboost.train(PARAMS, matrix, 4, callbacks=[ABCBoost()])
    np.testing.assert_array_equal(alone.predict(matrix), abc_xgb.train(PARAMS, matrix, 4).predict(matrix))


def test_learning_rates_of_a_callback_are_followed(data):
    matrix, y = data
    rates = xgboost.callback.LearningRateScheduler(lambda m: 0.2 / (1 + m))
    slow, slow_history = recorded(PARAMS, matrix, 5, callbacks=[rates])
    _, history = recorded(PARAMS, matrix, 5)
    assert slow_history["t"][0] == history["t"][0]
    assert slow_history["t"][-1] > history["t"][-1]
    assert log_loss(slow.predict(matrix), y) == pytest.approx(slow_history["t"][-1], abs=1e-5)


def test_search_gap_and_warmup(data):
    matrix, y = data
    booster, history = recorded(PARAMS, matrix, 6, search=3, gap=1, warmup=2)
    assert len(booster.get_dump()) == 2 * K + 4 * TREES * K
    assert log_loss(booster.predict(matrix), y) == pytest.approx(history["t"][-1], abs=1e-5)


def smallest_share(booster):
    """Of the curvature at a root, the smallest share that one of its leaves has."""
    nodes = booster.trees_to_dataframe()
    roots = nodes[nodes["Node"] == 0].set_index("Tree")["Cover"]
    leaves = nodes[nodes["Feature"] == "Leaf"]
    return (leaves["Cover"] / leaves["Tree"].map(roots)).min()


@pytest.mark.parametrize(("n_samples", "share"), [(60, 1 / 30), (600, 10 / 600)])
def test_the_smallest_leaf_has_the_curvature_of_ten_average_samples(n_samples, share):
    matrix = xgboost.DMatrix(*make_data(n_samples), nthread=1)
    ours = abc_xgb.train(PARAMS | {"max_depth": 8}, matrix, 3, trees_per_round=1)
    assert share * 0.999 < smallest_share(ours) < 2 * share
    assert smallest_share(abc_xgb.train(PARAMS | {"max_depth": 8, "min_child_weight": 0.0}, matrix, 3)) < share / 2


def test_min_child_weight_is_the_users_where_it_is_given():
    matrix = xgboost.DMatrix(*make_data(40), nthread=1)
    dumps = [abc_xgb.train(PARAMS | given, matrix, 3).get_dump() for given in ({}, {"min_child_weight": 0.0})]
    dumps.append(abc_xgb.train(PARAMS | {"min_child_weight": 1.0}, matrix, 3).get_dump())
    assert len(set(map(tuple, dumps))) == 3


def test_leaf_vectors_have_xgboosts_own_lambda():
    X, y = make_data(40)
    matrix = xgboost.DMatrix(X, y, nthread=1)
    ours = abc_xgb.train(PARAMS, matrix, 3).get_dump()
    assert abc_xgb.train(PARAMS, matrix, 3, leaf_reg_lambda=1.0).get_dump() == ours
    assert abc_xgb.train(PARAMS, matrix, 3, leaf_reg_lambda=0.1).get_dump() != ours


def test_classic_rounds_of_sequential_leaves_are_clipped(data):
    matrix, _ = data
    params = PARAMS | {"eta": 1.0}
    booster = abc_xgb.train(
        params, matrix, 4, method="abcrobustlogit", warmup=4, leaf_values="sequential", leaf_clip=0.3, guard=False
    )
    leaves = booster.trees_to_dataframe()
    assert leaves[leaves.Feature == "Leaf"].Gain.abs().max() <= 0.3 + 1e-6


@pytest.mark.parametrize(
    ("params", "options", "message"),
    [({"num_parallel_tree": 2}, {}, "num_parallel_tree"), ({}, {"method": "x"}, "method"), ({}, {"gap": -1}, "gap")],
)
def test_what_cannot_be_right_is_refused(data, params, options, message):
    with pytest.raises(ValueError, match=message):
        abc_xgb.train(PARAMS | params, data[0], 2, **options)


@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
def test_a_max_delta_step_of_0_is_no_limit(data, method):
    matrix, _ = data
    params, limit = PARAMS | {"reg_lambda": 0.0, "eta": 1.0}, {"method": method, "leaf_clip": 0.5}
    given = abc_xgb.train(params | {"max_delta_step": 0}, matrix, 4, **limit)
    assert given.get_dump() == abc_xgb.train(params, matrix, 4, method=method, leaf_clip=None).get_dump()
    assert given.get_dump() != abc_xgb.train(params, matrix, 4, **limit).get_dump()


@pytest.mark.parametrize("options", [{}, {"search": 2, "gap": 4, "warmup": 3}])
@pytest.mark.parametrize("n_first", [5, 16, 18])
def test_some_rounds_and_then_others_are_all_at_once(data, options, n_first):
    """Up to float32, as XGBoost keeps margins."""
    matrix, _ = data

    def run(rounds, model=None):
        return abc_xgb.train(PARAMS, matrix, rounds, xgb_model=model, **options)

    in_file = xgboost.Booster(model_file=run(n_first).save_raw("ubj"))
    continued, whole = run(20 - n_first, in_file), run(20)
    np.testing.assert_allclose(continued.predict(matrix), whole.predict(matrix), atol=2e-6)
    np.testing.assert_allclose(
        continued.predict(matrix, iteration_range=(0, 19)), whole[:19].predict(matrix), atol=2e-6
    )


def test_models_that_xgboost_has_changed_are_continued(data):
    matrix, y = data
    first = abc_xgb.train(PARAMS, matrix, 5)
    for model in (first[:4], xgboost.train(PARAMS, matrix, 2, xgb_model=first)):
        for options in ({}, {"gap": 3}, {"method": "abcrobustlogit"}):
            booster = abc_xgb.train(PARAMS, matrix, 3, xgb_model=model, **options)
            assert log_loss(booster.predict(matrix), y) < log_loss(model.predict(matrix), y)
            assert ("directions" in booster.attributes()) == ("method" not in options)


def test_guarded_rounds_of_a_continued_model_are_all(data):
    matrix, _ = data
    params = PARAMS | {"eta": 5.0}
    first = abc_xgb.train(params, matrix, 4)
    booster = abc_xgb.train(params, matrix, 4, xgb_model=first)
    whole = abc_xgb.train(params, matrix, 8)
    assert booster.attr("guarded_rounds") == whole.attr("guarded_rounds")
    assert int(booster.attr("guarded_rounds")) > int(first.attr("guarded_rounds")) > 0


def test_exact_trees_have_no_limit_of_leaves(data):
    """XGBoost grows them by depth alone."""
    matrix, _ = data
    exact = PARAMS | {"tree_method": "exact"}
    limited = abc_xgb.train(exact | {"max_leaves": 3}, matrix, 3).get_dump()
    assert limited == abc_xgb.train(exact, matrix, 3).get_dump()
    by_updater = PARAMS | {"updater": "grow_colmaker", "max_leaves": 3}
    assert abc_xgb.train(by_updater, matrix, 3).get_dump() == limited


def test_trees_that_grow_larger_than_at_the_start_are_refused(data):
    class Deepen(xgboost.callback.TrainingCallback):
        def before_iteration(self, model, epoch, _evals_log):
            model.set_param("max_depth", 3 + epoch)
            return False

    with pytest.raises(ValueError, match="max_depth or max_leaves must be such that trees have at most 8 leaves"):
        abc_xgb.train(PARAMS, data[0], 4, callbacks=[Deepen()])
