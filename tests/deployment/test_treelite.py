"""Native models as treelite models, run by GTIL."""

import numpy as np
import pytest
import treelite
from sklearn.exceptions import NotFittedError

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.model.ensemble import TreeEnsemble, single_leaf
from abc_plugins.core.runtime.values import softmax
from abc_plugins.treelite import export

from .conftest import with_labels
from .test_onnx import scores_to_probabilities


def predict(exported, X):
    return treelite.gtil.predict(exported, X)[:, 0]


def test_probabilities(case):
    exported, expected = export(case.model), case.model.predict_proba(case.table)
    np.testing.assert_allclose(predict(exported, case.X), expected, rtol=0, atol=1e-6)  # its softmax is float32
    margins = treelite.gtil.predict(exported, case.X, pred_margin=True)[:, 0]
    np.testing.assert_allclose(softmax(margins), expected, rtol=0, atol=1e-12)


def test_directional_trees_are_written_once(case):
    n_trees = case.model.model_.flat().first_rounds(case.model.best_iteration_).n_trees
    if case.model.method == "directional" or (case.model.n_classes_ == 2 and "abc" in case.model.method):
        assert export(case.model).num_tree == n_trees
    else:
        assert export(case.model).num_tree == (2 if "abc" in case.model.method else 1) * n_trees


@pytest.mark.parametrize("n_classes", [2, 3])
def test_numbers_that_are_no_category_go_where_missing_values_go(n_classes, grow_model, make_categories):
    X, y, is_categorical = make_categories(n_classes)
    ensemble = grow_model(X, y, is_categorical, n_estimators=8, max_depth=4, learning_rate=0.3, tree_shape="symmetric")
    X[:12, 0] = [12, 13, 31, 32, 63, 64, 200, 255, 256, 1000, -1, -7]
    np.testing.assert_allclose(predict(export(ensemble), X), scores_to_probabilities(ensemble, X), rtol=0, atol=1e-6)


def test_first_rounds_and_file(small, tmp_path):
    path = tmp_path / "model.tl"
    export(small.model, path, n_rounds=2)
    loaded = treelite.Model.deserialize(path)
    expected = list(small.model.staged_predict_proba(small.table))[1]
    np.testing.assert_allclose(predict(loaded, small.X), expected, rtol=0, atol=1e-6)


def test_a_model_without_trees():
    ensemble = TreeEnsemble(3, 1, np.array([0.0, 1.0, 2.0]))
    ensemble.append_round([])
    np.testing.assert_allclose(
        predict(export(ensemble), np.zeros((1, 1))), scores_to_probabilities(ensemble, np.zeros((1, 1)))
    )
    ensemble.append_round([single_leaf([1], 3.0)])
    np.testing.assert_allclose(
        predict(export(ensemble), np.zeros((1, 1))), scores_to_probabilities(ensemble, np.zeros((1, 1)))
    )


def test_labels_of_any_kind():
    model, X = with_labels([(1, 2), (3, 4)])
    np.testing.assert_allclose(predict(export(model), X), model.predict_proba(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("model", [None, "model.abc", object()])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(TypeError, match="model must be a fitted ABCBoostClassifier or a TreeEnsemble"):
        export(model)
    with pytest.raises(NotFittedError, match="not fitted"):
        export(ABCBoostClassifier())


def test_wrong_arguments_are_refused(small):
    with pytest.raises(ValueError, match="n_rounds must be a whole number from 1 to"):
        export(small.model, n_rounds=10**6)
    with pytest.raises(TypeError, match="path must be a path; got 3"):
        export(small.model, 3)
