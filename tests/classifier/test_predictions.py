"""Predictions, importances, and models that are copied, pickled and saved."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from abc_plugins import ABCBoostClassifier, ModelFormatError

from .conftest import TABLES, accuracy, assert_same_models, quick

# ------------------------------------------------------------------------------------------------ predictions


@pytest.mark.parametrize("n_classes", [2, 4])
def test_staged_predictions_are_those_of_shorter_models(make_data, n_classes):
    data = make_data(n_classes, 80)
    model = quick().fit(data.X, data.y)
    probas, labels = list(model.staged_predict_proba(data.X_test)), list(model.staged_predict(data.X_test))
    assert len(probas) == len(labels) == 6
    for n_rounds in (1, 3, 6):
        shorter = quick(n_estimators=n_rounds).fit(data.X, data.y)
        np.testing.assert_array_equal(probas[n_rounds - 1], shorter.predict_proba(data.X_test))
        np.testing.assert_array_equal(labels[n_rounds - 1], shorter.predict(data.X_test))


def test_decision_function(data):
    model = quick().fit(data.X, data.y)
    scores = model.decision_function(data.X_test)
    assert scores.shape == (data.X_test.shape[0], 4)
    np.testing.assert_allclose(scores.sum(axis=1), 0.0, atol=1e-12)
    proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(data.X_test), proba, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(data.X_test), scores.argmax(axis=1))


def test_two_classes(make_data):
    data = make_data(2, 80)
    model = quick(search=5).fit(data.X, data.y)  # there is nothing to search
    log_odds = model.decision_function(data.X_test)
    proba = model.predict_proba(data.X_test)
    assert log_odds.shape == (data.X_test.shape[0],)
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-log_odds)), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(data.X_test), log_odds > 0)


def test_predictions_check_their_input(data):
    with pytest.raises(ValueError, match="This ABCBoostClassifier instance is not fitted yet"):
        quick().predict(data.X)
    model = quick().fit(data.X, data.y)
    with pytest.raises(ValueError, match="X has 3 features, but ABCBoostClassifier is expecting 4 features as input"):
        model.predict(data.X[:, :3])


def test_importances(data):
    X = np.column_stack([np.ones(80), data.X])
    model = quick().fit(X, data.y)
    gains, counts = np.zeros(5), np.zeros(5)
    for tree in model.model_.trees():
        inner = tree.feature >= 0
        np.add.at(gains, tree.feature[inner], tree.gain[inner])
        np.add.at(counts, tree.feature[inner], 1)
    np.testing.assert_allclose(model.feature_importance("gain"), gains)
    np.testing.assert_array_equal(model.feature_importance("count"), counts)
    np.testing.assert_array_equal(model.feature_importance("split"), counts)
    np.testing.assert_allclose(model.feature_importances_, gains / gains.sum())
    assert counts[0] == 0 < counts[1:].min()
    with pytest.raises(ValueError, match="importance_type must be one of 'gain', 'count', 'split'; got 'cover'"):
        model.feature_importance("cover")


# ------------------------------------------------------------------------------------------------ persistence


def save_and_load(model, tmp_path):
    model.save_model(tmp_path / "model.abc")
    return ABCBoostClassifier.load_model(tmp_path / "model.abc")


COPIES = {
    "file": save_and_load,
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, _: copy.deepcopy(model),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("labels", [["a", "b", "c", "d"], [1, 2, 3, 4], [1.0, 2.0, 4.0, 8.0]], ids=str)
def test_copies_are_the_same_model(data, tmp_path, way, labels):
    table = TABLES["pandas"](data.X)
    y = [labels[k] for k in data.y]
    settings = {"early_stopping_rounds": 4, "class_weight": {labels[0]: 2.0}, "eval_metric": ["logloss", "error"]}
    model = quick(**settings).fit(table, y, eval_set=[(table, y)])
    other = COPIES[way](model, tmp_path)
    assert type(other) is ABCBoostClassifier
    assert other.get_params() == model.get_params()
    for name in ("n_classes_", "n_features_in_", "trees_grown_", "guarded_rounds_", "evals_result_", "best_iteration_"):
        assert getattr(other, name) == getattr(model, name), name
    for name in ("classes_", "feature_names_in_", "feature_importances_", "base_classes_", "train_loss_"):
        np.testing.assert_array_equal(getattr(other, name), getattr(model, name), name)
    assert other.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(other.predict_proba(table), model.predict_proba(table))
    assert_same_models(clone(other).fit(table, y, eval_set=[(table, y)]), model, table)


def test_a_clone_is_not_fitted(data):
    model = quick(num_leaves=7).fit(data.X, data.y)
    other = clone(model)
    assert other.get_params() == model.get_params()
    assert not hasattr(other, "classes_")


def test_live_objects_do_not_go_into_a_file(data, tmp_path):
    model = quick(eval_metric=accuracy, random_state=np.random.RandomState(0)).fit(data.X, data.y)
    with (
        pytest.warns(UserWarning, match="eval_metric=.* cannot be stored in a model file"),
        pytest.warns(UserWarning, match="random_state=.* cannot be stored in a model file"),
    ):
        other = save_and_load(model, tmp_path)
    assert (other.eval_metric, other.random_state) == ("logloss", None)
    assert_same_models(other, model, data.X_test)


def test_only_a_fitted_model_is_saved_and_only_a_model_is_loaded(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        quick().save_model(tmp_path / "model")
    (tmp_path / "model").write_bytes(b"something else")
    with pytest.raises(ModelFormatError, match="is not"):
        ABCBoostClassifier.load_model(tmp_path / "model")
