"""Native models as stock XGBoost models."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.model.ensemble import LEAF, Tree, TreeEnsemble
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC

xgboost = pytest.importorskip("xgboost")

from abc_plugins.xgb import base_classes, export  # noqa: E402


def stump(plus, minus, threshold, left, right, *, feature=0, missing_left=False):
    return Tree(
        plus,
        minus,
        np.array([feature, LEAF, LEAF], dtype=np.int32),
        np.array([threshold, 0.0, 0.0]),
        np.array([missing_left, False, False]),
        np.array([1, 0, 0], dtype=np.int32),
        np.array([2, 0, 0], dtype=np.int32),
        np.array([0.0, left, right]),
        np.array([1.0, 0.0, 0.0]),
        np.array([10.0, 4.0, 6.0]),
    )


def margins(booster, X, **options):
    return booster.predict(xgboost.DMatrix(X), output_margin=True, **options)


@pytest.fixture(scope="module")
def native():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.array(["a", "b", "c", "d"])[np.nan_to_num(X[:, :2] > 0).astype(int) @ [1, 2]]
    model = ABCBoostClassifier(n_estimators=12, warmup=3, gap=1, num_leaves=6, n_jobs=1).fit(X, y)
    return model, X


@pytest.mark.parametrize("vector_leaves", [False, True])
def test_probabilities_are_those_of_the_native_model(native, vector_leaves):
    model, X = native
    booster = export(model, vector_leaves=vector_leaves)
    assert np.abs(booster.predict(xgboost.DMatrix(X)) - model.predict_proba(X)).max() < 1e-5


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
    booster = export(model)
    assert booster.num_boosted_rounds() == model.model_.n_rounds
    assert base_classes(booster) == model.base_classes_.tolist()
    with Workers(1) as workers:
        expected = model.model_.raw_scores(X.astype(float), workers, 5)
    assert np.abs(margins(booster, X, iteration_range=(0, 5)) - expected).max() < 1e-5
    assert np.array_equal(margins(booster[:5], X), margins(booster, X, iteration_range=(0, 5)))
    assert export(model, n_rounds=5).num_boosted_rounds() == 5


def test_contributions_add_up_to_the_margins(native):
    model, X = native
    booster = export(model)
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
    data = xgboost.DMatrix(X, np.searchsorted(model.classes_, model.predict(X)))
    params = {"objective": "multi:softprob", "num_class": 4, "nthread": 1}
    longer = xgboost.train(params, data, 2, xgb_model=export(model))
    assert longer.num_boosted_rounds() == model.model_.n_rounds + 2
    assert np.array_equal(longer.predict(data, iteration_range=(0, model.model_.n_rounds)), export(model).predict(data))


def test_feature_names_are_kept():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.random.default_rng(2).normal(size=(90, 2)), columns=["height", "width"])
    model = ABCBoostClassifier(n_estimators=2, warmup=0, n_jobs=1).fit(frame, np.arange(90) % 3)
    assert export(model).feature_names == ["height", "width"]


def test_what_is_no_model_is_refused(native):
    with pytest.raises(TypeError, match="model must be a fitted ABCBoostClassifier or a TreeEnsemble"):
        export(ABCBoostClassifier())
    with pytest.raises(ValueError, match="n_rounds must be a whole number from 1 to 12; got 13"):
        export(native[0], n_rounds=13)
