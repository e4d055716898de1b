"""Tools for LightGBM models, on models from here: explanations, ONNX, treelite, plots."""

import lightgbm as lgb
import matplotlib
import numpy as np
import onnxmltools
import onnxruntime
import pytest
import shap
import treelite
from onnxmltools.convert.common.data_types import FloatTensorType

import abc_plugins.lgbm as abc_lgbm
from abc_plugins import ABCBoostClassifier

from .conftest import N_CLASSES, make_data


@pytest.fixture(params=["trained", "native"])
def model(request, params):
    """A stock Booster from training and one from a native model, with data as float32."""
    X, y = make_data()
    X = X.astype(np.float32).astype(np.float64)
    if request.param == "trained":
        return abc_lgbm.train(params, lgb.Dataset(X, y), 12, method="abcrobustlogit", gap=1, warmup=3), X
    native = ABCBoostClassifier(n_estimators=12, num_leaves=6, gap=1, warmup=3, n_jobs=1).fit(X, y)
    return abc_lgbm.export(native), X


def test_pred_contrib_adds_up(model):
    booster, X = model
    contributions = booster.predict(X, pred_contrib=True).reshape(len(X), N_CLASSES, X.shape[1] + 1)
    np.testing.assert_allclose(contributions.sum(axis=2), booster.predict(X, raw_score=True), atol=1e-9)


def test_shap_tree_explainer(model):
    booster, X = model
    explainer = shap.TreeExplainer(booster)
    values = np.asarray(explainer.shap_values(X[:50]))
    values = values if values.shape[0] == 50 else np.moveaxis(values, 0, 2)
    assert values.shape == (50, X.shape[1], N_CLASSES)
    total = values.sum(axis=1) + np.asarray(explainer.expected_value)
    np.testing.assert_allclose(total, booster.predict(X[:50], raw_score=True), atol=1e-6)


def test_shap_interactions(model):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    booster, X = model
    explainer = shap.TreeExplainer(booster)
    values = np.asarray(explainer.shap_interaction_values(X[:10]))
    assert np.isfinite(values).all()
    total = values.sum(axis=(1, 2)) + np.asarray(explainer.expected_value)
    expected = booster.predict(X[:10], raw_score=True)
    expected = expected.sum(axis=1) if total.ndim == 1 else expected  # shap 0.51 adds up the classes of LightGBM
    np.testing.assert_allclose(total, expected, atol=1e-5)


def test_onnx_of_the_classifier_after_early_stopping():
    onnxmltools = pytest.importorskip("onnxmltools", reason="onnxmltools is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from onnxmltools.convert.common.data_types import FloatTensorType

    (X, y), (X_valid, y_valid) = make_data(), make_data(200, seed=1)
    X, labels = X.astype(np.float32), np.array(["a", "b", "c", "d", "e"])
    model = abc_lgbm.ABCLGBMClassifier(
        n_estimators=60, num_leaves=6, learning_rate=0.4, n_jobs=1, verbosity=-1, warmup=2
    )
    model.fit(X, labels[y], eval_set=[(X_valid, labels[y_valid])], callbacks=[lgb.early_stopping(3, verbose=False)])
    assert 0 < model.best_iteration_ < len(model.evals_result_["valid_0"]["multi_logloss"])
    converted = onnxmltools.convert_lightgbm(
        model, initial_types=[("X", FloatTensorType([None, X.shape[1]]))], zipmap=False
    )
    session = runtime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    predicted, probabilities = session.run(None, {"X": X})
    close = np.isclose(probabilities, model.predict_proba(X), atol=1e-5).all(axis=1)
    assert close.mean() > 0.98
    assert (predicted[close] == model.predict(X)[close]).all()


def test_onnx(model):
    booster, X = model
    converted = onnxmltools.convert_lightgbm(
        booster, initial_types=[("X", FloatTensorType([None, X.shape[1]]))], zipmap=False
    )
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    labels, probabilities = session.run(None, {"X": X.astype(np.float32)})
    expected = booster.predict(X)
    # ONNX holds thresholds and leaves as float32: a value on a threshold may fall on the other side
    close = np.isclose(probabilities, expected, atol=1e-5).all(axis=1)
    assert close.mean() > 0.98
    assert (labels[close] == expected.argmax(axis=1)[close]).all()


def test_treelite(model):
    booster, X = model
    converted = treelite.frontend.from_lightgbm(booster)
    predicted = np.squeeze(treelite.gtil.predict(converted, X))
    np.testing.assert_allclose(predicted, booster.predict(X), atol=1e-6)


def test_plots(params):
    matplotlib.use("Agg")
    X, y = make_data()
    evals, train_set = {}, lgb.Dataset(X, y)
    booster = abc_lgbm.train(
        params,
        train_set,
        5,
        valid_sets=[train_set],
        callbacks=[lgb.record_evaluation(evals)],
        method="abcrobustlogit",
        warmup=2,
    )
    axes = lgb.plot_metric(evals)
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), evals["training"]["multi_logloss"])
    assert len(lgb.plot_importance(booster).patches) == np.count_nonzero(booster.feature_importance())


def test_tables_of_trees(model):
    booster, _ = model
    frame = booster.trees_to_dataframe()
    assert frame["tree_index"].nunique() == booster.num_trees()
