"""Native models as stock XGBoost models."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.model.ensemble import LEAF, TreeEnsemble, pair_tree
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC

xgboost = pytest.importorskip("xgboost")

from abc_plugins.xgb import base_classes, export  # noqa: E402


def stump(plus, minus, threshold, left, right, *, feature=0, missing_left=False):
    return pair_tree(
        plus,
        minus,
        value=np.array([0.0, left, right]),
        feature=np.array([feature, LEAF, LEAF], dtype=np.int32),
        threshold=np.array([threshold, 0.0, 0.0]),
        missing_left=np.array([missing_left, False, False]),
        left=np.array([1, 0, 0], dtype=np.int32),
        right=np.array([2, 0, 0], dtype=np.int32),
        gain=np.array([1.0, 0.0, 0.0]),
        weight=np.array([10.0, 4.0, 6.0]),
    )


def margins(booster, X, **options):
    return booster.predict(xgboost.DMatrix(X), output_margin=True, **options)


@pytest.fixture(scope="module", params=["directional", "abcrobustlogit"])
def native(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.array(["a", "b", "c", "d"])[np.nan_to_num(X[:, :2] > 0).astype(int) @ [1, 2]]
    options = {"method": request.param, "warmup": 3, "gap": 1, "num_leaves": 6, "max_depth": 4}
    model = ABCBoostClassifier(n_estimators=12, n_jobs=1, **options).fit(X, y)
    return model, X


def is_same(booster, X, probabilities, **options):
    return np.abs(booster.predict(xgboost.DMatrix(X), **options) - probabilities).max() < 1e-5


@pytest.mark.parametrize("vector_leaves", [False, True])
def test_probabilities_are_those_of_the_native_model(native, vector_leaves):
    model, X = native
    assert is_same(export(model, vector_leaves=vector_leaves), X, model.predict_proba(X))


@pytest.mark.parametrize("vector_leaves", [False, True])
@pytest.mark.parametrize("tree_shape", ["symmetric", "best-first"])
@pytest.mark.parametrize("warmup", [0, 2])
@pytest.mark.parametrize("n_classes", [2, 3, 26])
def test_trees_along_directions(make_data, n_classes, warmup, tree_shape, vector_leaves):
    data = make_data(n_classes, 500, missing=0.1)
    X, X_new = data.X.astype(np.float32), data.X_test.astype(np.float32)
    trees_per_round = {2: None, 3: 2, 26: 6}[n_classes]
    options = {"tree_shape": tree_shape, "warmup": warmup, "num_leaves": 9, "max_depth": 4}
    options |= {"trees_per_round": trees_per_round}
    model = ABCBoostClassifier(n_estimators=5, n_jobs=1, **options).fit(X, data.y)
    booster = export(model, vector_leaves=vector_leaves)
    assert booster.num_boosted_rounds() == 5
    assert json.loads(booster.attr("base_classes")) == [-1] * 5
    assert vector_leaves or base_classes(booster) == [-1] * 5
    copies = (trees_per_round or 1) * (1 if vector_leaves else n_classes)
    sizes = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["gbtree_model_param"]
    assert int(sizes["num_trees"]) == (5 - warmup) * copies + warmup * n_classes
    for m, probabilities in enumerate(model.staged_predict_proba(X_new), start=1):
        assert is_same(booster, X_new, probabilities, iteration_range=(0, m))


@pytest.mark.parametrize("vector_leaves", [False, True])
def test_after_early_stopping(make_data, vector_leaves):
    data = make_data(4, 600)
    model = ABCBoostClassifier(n_estimators=200, learning_rate=0.4, early_stopping_rounds=4, n_jobs=1)
    model.fit(data.X[:400], data.y[:400], eval_set=[(data.X[400:], data.y[400:])])
    assert model.best_iteration_ < model.model_.n_rounds
    X = data.X.astype(np.float32)
    booster = export(model, vector_leaves=vector_leaves)
    assert booster.num_boosted_rounds() == model.best_iteration_
    assert is_same(booster, X, model.predict_proba(X))


@pytest.mark.parametrize("tree_shape", ["symmetric", "best-first"])
@pytest.mark.parametrize("n_classes", [2, 3, 26])
def test_categories(n_classes, tree_shape, grow_model, make_categories):
    X, y, is_categorical = make_categories(n_classes)
    options = {"tree_shape": tree_shape, "n_estimators": 8, "max_depth": 4, "warmup": 1, "learning_rate": 0.3}
    ensemble = grow_model(X, y, is_categorical, **options)
    flat = ensemble.flat()
    assert {True, False} == set(flat.missing_left[flat.left_set >= 0])  # both ways are tested
    X[:10, 0] = [12, 13, 31, 32, 63, 64, 200, 255, 256, 1000]  # categories that were not there
    with Workers(1) as workers:
        scores = ensemble.raw_scores(X, workers)
    booster = export(ensemble)
    assert is_same(booster, X, scores, output_margin=True)
    contributions = booster.predict(xgboost.DMatrix(X), pred_contribs=True)
    assert np.abs(contributions.sum(axis=-1).reshape(scores.shape) - scores).max() < 1e-4


def test_categories_of_a_table(fitted_on_categories):
    """Levels become numbers, their places in `categories_`; what the classifier does not know is missing."""
    model, new, numbers = fitted_on_categories
    predicted = export(model).predict(xgboost.DMatrix(numbers, feature_names=["level", "size"]))
    assert np.abs(predicted - model.predict_proba(new)).max() < 1e-5


@pytest.mark.parametrize("vector_leaves", [False, True])
@pytest.mark.parametrize("method", ["abcrobustlogit", "robustlogit"])
def test_start_scores_of_the_other_methods(make_data, method, vector_leaves):
    data = make_data(5)
    X = data.X.astype(np.float32)
    options = {"method": method, "start_scores": "priors", "min_samples_leaf": 5}
    model = ABCBoostClassifier(n_estimators=4, n_jobs=1, **options).fit(X, data.y)
    booster = export(model, vector_leaves=vector_leaves)
    assert is_same(booster, X, model.predict_proba(X))
    if not vector_leaves:
        assert base_classes(booster) == model.base_classes_.tolist()


def test_start_scores_of_classes_without_a_tree():
    ensemble = TreeEnsemble(3, 1, start_scores=np.array([0.5, 0.0, -2.0]))
    ensemble.append_round([stump(0, CLASSIC, 0.0, 1.0, 2.0)])
    ensemble.append_round([stump(2, CLASSIC, 0.0, 1.0, 2.0)])
    for vector_leaves in (False, True):
        booster = export(ensemble, vector_leaves=vector_leaves)
        assert np.array_equal(margins(booster, np.array([[-1.0]]), iteration_range=(0, 1)), [[1.5, 0.0, -2.0]])
        assert np.array_equal(margins(booster, np.array([[-1.0]])), [[1.5, 0.0, -1.0]])


def test_siblings_that_are_apart():
    """XGBoost takes the right child to be the one behind the left one."""
    tree = pair_tree(
        1,
        0,
        value=np.array([0.0, 0.0, 0.1, 0.2, 0.3]),
        feature=np.array([0, 0, LEAF, LEAF, LEAF], dtype=np.int32),
        threshold=np.array([0.0, -1.0, 0.0, 0.0, 0.0]),
        missing_left=np.zeros(5, dtype=bool),
        left=np.array([1, 2, 0, 0, 0], dtype=np.int32),
        right=np.array([4, 3, 0, 0, 0], dtype=np.int32),
        gain=np.zeros(5),
        weight=np.ones(5),
    )
    ensemble = TreeEnsemble(2, 1)
    ensemble.append_round([tree])
    X = np.array([[-2.0], [-0.5], [3.0]])
    for vector_leaves in (False, True):
        predicted = margins(export(ensemble, vector_leaves=vector_leaves), X)
        np.testing.assert_allclose(predicted[:, 1], [0.1, 0.2, 0.3], rtol=1e-6)


def test_every_float32_goes_the_way_it_goes_natively():
    rng = np.random.default_rng(1)
    wide = rng.normal(size=40) * 10.0 ** rng.integers(-30, 30, 40)
    thresholds = np.concatenate([wide, wide.astype(np.float32).astype(float), [0.0, -0.0, 1e300, -1e300]])
    near = thresholds[np.abs(thresholds) < 3e38].astype(np.float32)
    values = np.unique(
        np.concatenate([near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf)), [0, 1]])
    ).astype(np.float32)
    X = values[:, None]
    ensemble = TreeEnsemble(3, 1)
    for threshold in thresholds:
        ensemble.append_round([stump(1, 0, threshold, -1.0, 1.0), stump(2, 0, threshold, -1.0, 1.0)])
    booster = export(ensemble)
    for m in range(thresholds.size):
        went = margins(booster, X, iteration_range=(m, m + 1))[:, 1]
        assert np.array_equal(went, np.where(values.astype(float) <= thresholds[m], -1.0, 1.0)), thresholds[m]


def test_missing_values_go_where_they_go_natively():
    ensemble = TreeEnsemble(3, 2)
    ensemble.append_round([stump(k, 0, 0.5, -1.0, 2.0, missing_left=k == 1, feature=1) for k in (1, 2)])
    X = np.array([[0.0, np.nan]])
    with Workers(1) as workers:
        assert np.array_equal(margins(export(ensemble), X), ensemble.raw_scores(X, workers))


def test_rounds_stay_rounds(native):
    model, X = native
    booster = export(model, vector_leaves=False)
    assert booster.num_boosted_rounds() == model.model_.n_rounds
    assert base_classes(booster) == model.base_classes_.tolist()
    with Workers(1) as workers:
        expected = model.model_.raw_scores(X.astype(float), workers, 5)
    assert np.abs(margins(booster, X, iteration_range=(0, 5)) - expected).max() < 1e-5
    assert np.array_equal(margins(booster[:5], X), margins(booster, X, iteration_range=(0, 5)))
    assert export(model, n_rounds=5).num_boosted_rounds() == 5


def test_contributions_add_up_to_the_margins(native):
    model, X = native
    booster = export(model, vector_leaves=False)
    data = xgboost.DMatrix(X)
    for approximate in (False, True):
        contributions = booster.predict(data, pred_contribs=True, approx_contribs=approximate)
        assert np.abs(contributions.sum(axis=2) - margins(booster, X)).max() < 1e-4


def test_a_round_without_trees_is_kept():
    ensemble = TreeEnsemble(3, 1)
    ensemble.append_round([stump(0, CLASSIC, 0.0, 1.0, 2.0)])
    ensemble.append_round([])
    ensemble.append_round([stump(1, 2, 0.0, 3.0, 4.0), stump(0, 2, 0.0, 3.0, 4.0)])
    for vector_leaves in (False, True):
        booster = export(ensemble, vector_leaves=vector_leaves)
        assert booster.num_boosted_rounds() == 3
        assert np.array_equal(margins(booster, np.array([[-1.0]])), [[4.0, 3.0, -6.0]])
        assert np.array_equal(margins(booster, np.array([[-1.0]]), iteration_range=(0, 2)), [[1.0, 0.0, 0.0]])


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_the_saved_file_predicts_without_abc_plugins(native, tmp_path, suffix):
    model, X = native
    path = tmp_path / f"model.{suffix}"
    export(model, path)
    np.save(tmp_path / "X.npy", X)
    script = (
        "import sys, numpy, xgboost; sys.modules['abc_plugins'] = None;"
        f"booster = xgboost.Booster(model_file={str(path)!r});"
        f"X = numpy.load({str(tmp_path / 'X.npy')!r});"
        f"numpy.save({str(tmp_path / 'p.npy')!r}, booster.predict(xgboost.DMatrix(X)));"
        "print(booster.attr('classes'))"
    )
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert json.loads(printed) == ["a", "b", "c", "d"]
    assert np.abs(np.load(tmp_path / "p.npy") - model.predict_proba(X)).max() < 1e-5
    classifier = xgboost.XGBClassifier()
    classifier.load_model(path)
    assert np.array_equal(model.classes_[classifier.predict(X)], model.predict(X))


def test_stock_training_continues_an_export(native):
    model, X = native
    booster = export(model, vector_leaves=False)
    data = xgboost.DMatrix(X, np.searchsorted(model.classes_, model.predict(X)))
    params = {"objective": "multi:softprob", "num_class": 4, "nthread": 1}
    longer = xgboost.train(params, data, 2, xgb_model=booster)
    assert longer.num_boosted_rounds() == model.model_.n_rounds + 2
    assert np.array_equal(
        longer.predict(data, iteration_range=(0, model.model_.n_rounds)),
        booster.predict(data),
    )


@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
def test_feature_names_are_kept(method):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.random.default_rng(2).normal(size=(90, 2)), columns=["height", "width"])
    model = ABCBoostClassifier(method=method, n_estimators=2, n_jobs=1).fit(frame, np.arange(90) % 3)
    assert export(model).feature_names == ["height", "width"]


def test_directional_trees_are_written_once_by_default(native):
    model, X = native
    booster = export(model)
    sizes = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["gbtree_model_param"]
    copies = 1 if model.method == "directional" else 2
    n_classic = 3 * 4  # the rounds of the warmup
    assert int(sizes["num_trees"]) == n_classic + copies * (model.model_.n_trees - n_classic)
    assert is_same(booster, X, model.predict_proba(X))


def test_what_is_no_model_is_refused(native):
    with pytest.raises(NotFittedError, match="not fitted"):
        export(ABCBoostClassifier())
    with pytest.raises(ValueError, match="n_rounds must be a whole number from 1 to 12; got 13"):
        export(native[0], n_rounds=13)
    with pytest.raises(TypeError, match="vector_leaves must be True or False; got 'yes'"):
        export(native[0], vector_leaves="yes")
    with pytest.raises(TypeError, match="path must be a path; got 3"):
        export(native[0], 3)


@pytest.mark.parametrize("vector_leaves", [False, None])
def test_names_that_xgboost_refuses(vector_leaves):
    X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    frame = pd.DataFrame(X, columns=["a[1]", "a_1_", "a<1>", "b c"])
    model = ABCBoostClassifier(n_estimators=3, n_jobs=1, random_state=0).fit(frame, np.arange(60) % 3)
    booster = export(model, vector_leaves=vector_leaves)
    assert booster.feature_names == ["a_1__2", "a_1_", "a_1>", "b c"]
    matrix = xgboost.DMatrix(X, feature_names=booster.feature_names)
    np.testing.assert_allclose(booster.predict(matrix), model.predict_proba(frame), rtol=0, atol=1e-6)
