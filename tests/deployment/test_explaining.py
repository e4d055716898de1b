"""SHAP values of native models, by shap.TreeExplainer."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import shap
from scipy.sparse import csr_array, csr_matrix
from sklearn.exceptions import NotFittedError

import abc_plugins
from abc_plugins import ABCBoostClassifier
from abc_plugins.core.model.ensemble import LEAF, SET_WORDS
from abc_plugins.core.runtime.parallel import Workers

from .conftest import fitted, with_labels


def raw_scores(model, X):
    with Workers(1) as workers:
        return model.model_.raw_scores(X, workers, model.best_iteration_)


def test_contributions_add_up_to_the_scores(case):
    explainer = abc_plugins.explain(case.model)
    rows = slice(0, 40)
    values = explainer.shap_values(case.table[rows], check_additivity=False)
    assert values.shape == (40, 5, case.model.n_classes_)
    total = values.sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, raw_scores(case.model, case.X[rows]), rtol=0, atol=1e-6)


def test_what_cannot_be_explained_is_named():
    with pytest.raises(NotFittedError, match="not fitted"):
        abc_plugins.explain(ABCBoostClassifier())
    with pytest.raises(TypeError, match=r"models of the adapters .*shap.TreeExplainer"):
        abc_plugins.explain("a file")


def goes_left(tree, node, x):
    if tree.left_set[node] < 0:
        return tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
    if not 0 <= x < 64 * SET_WORDS:
        return tree.missing_left[node]
    return bool(int(tree.sets[tree.left_set[node]][int(x) // 64]) >> (int(x) % 64) & 1)


def expectation(tree, node, x, known, n_classes):
    """Mean value of the leaves of a node, given some features of a sample; by recursion, from the definition."""
    if tree.feature[node] == LEAF:
        vector = np.zeros(n_classes)
        vector[tree.classes] = tree.values[tree.left[node]]
        return vector
    left, right = tree.left[node], tree.right[node]
    if tree.feature[node] in known:
        child = left if goes_left(tree, node, x[tree.feature[node]]) else right
        return expectation(tree, child, x, known, n_classes)
    share = tree.weight[left] / tree.weight[node]
    return share * expectation(tree, left, x, known, n_classes) + (1 - share) * expectation(
        tree, right, x, known, n_classes
    )


@pytest.mark.parametrize(("n_classes", "kind"), [(3, "best-first"), (3, "pairs"), (2, "classic")])
def test_values_are_those_of_the_definition(n_classes, kind):
    """Shapley values summed over all subsets of features, tree by tree."""
    case = fitted(n_classes, kind)
    explainer = abc_plugins.explain(case.model)
    trees = list(case.model.model_.trees(case.model.best_iteration_))
    assert any(tree.sets.size for tree in trees)
    subsets = [frozenset(s) for size in range(6) for s in itertools.combinations(range(5), size)]
    for row in (0, 3, 5):
        x, expected = case.X[row], np.zeros((5, n_classes))
        worth = {known: sum(expectation(tree, 0, x, known, n_classes) for tree in trees) for known in subsets}
        for known in subsets:
            weight = math.factorial(len(known)) * math.factorial(4 - len(known)) / 120 if len(known) < 5 else 0.0
            for f in set(range(5)) - known:
                expected[f] += weight * (worth[known | {f}] - worth[known])
        np.testing.assert_allclose(explainer.shap_values(case.table[[row]])[0], expected, rtol=0, atol=1e-9)


def test_an_explanation_has_names_for_the_plots_of_shap():
    model, X = with_labels(["a", "b", "c"])
    table = pd.DataFrame(X, columns=["height", "width", "depth"])
    model.fit(table, model.predict(X))
    explanation = abc_plugins.explain(model)(table)
    assert isinstance(explanation, shap.Explanation)
    assert explanation.shape == (120, 3, 3)
    assert explanation.feature_names == ["height", "width", "depth"]
    assert explanation.output_names == ["a", "b", "c"]
    assert explanation[:, :, 1].shape == (120, 3)
    sums = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(sums, raw_scores(model, X), rtol=0, atol=1e-6)


def test_interactions_add_up_to_contributions(small):
    explainer = abc_plugins.explain(small.model)
    interactions = explainer.shap_interaction_values(small.table[:6])
    np.testing.assert_allclose(interactions.sum(axis=2), explainer.shap_values(small.table[:6]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
def test_background_rows(method):
    model, X = with_labels(["a", "b", "c"])
    model = ABCBoostClassifier(method=method, n_estimators=4, min_samples_leaf=3, n_jobs=1).fit(X, model.predict(X))
    before = model.predict_proba(X)
    explainer = abc_plugins.explain(model, data=X[:30])
    np.testing.assert_allclose(explainer.expected_value, raw_scores(model, X[:30]).mean(axis=0), rtol=0, atol=1e-9)
    total = explainer.shap_values(X[30:50]).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, raw_scores(model, X[30:50]), rtol=0, atol=1e-6)
    assert np.array_equal(model.predict_proba(X), before)  # shap wrote to nothing of the model


def test_wrong_sums_are_noticed(small):
    explainer = abc_plugins.explain(small.model)
    explainer.expected_value = explainer.expected_value + 1e-3
    with pytest.raises(ValueError, match="contributions do not sum up to the scores of the model"):
        explainer.shap_values(small.table[:3])


@pytest.mark.parametrize("model", [None, "model.abc"])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(TypeError, match="model must be a fitted ABCBoostClassifier or a TreeEnsemble"):
        abc_plugins.explain(model)


def test_wrong_arguments_are_refused(small):
    with pytest.raises(ValueError, match="data must be None for a model that splits on categories"):
        abc_plugins.explain(small.model, data=small.table)
    with pytest.raises(ValueError, match="n_rounds must be a whole number from 1 to"):
        abc_plugins.explain(small.model, n_rounds=-1)
    with pytest.raises(ValueError, match="X has 2 features"):
        abc_plugins.explain(small.model).shap_values(small.table[:, :2])
    with pytest.raises(TypeError, match="check_additivity must be True or False"):
        abc_plugins.explain(small.model).shap_values(small.table, check_additivity="no")


def test_sparse_rows_are_made_dense():
    X = np.random.default_rng(0).normal(size=(200, 12)) * (np.random.default_rng(1).random((200, 12)) < 0.1)
    model = ABCBoostClassifier(n_estimators=4, n_jobs=1, random_state=0).fit(X, np.arange(200) % 3)
    for of in (model, model.model_):
        explainer = abc_plugins.explain(of)
        expected = explainer.shap_values(X[:20])
        for rows in (csr_array(X[:20]), csr_matrix(X[:20]).tocsc()):
            np.testing.assert_array_equal(explainer.shap_values(rows), expected)
    np.testing.assert_array_equal(explainer(csr_array(X[:20])).data, X[:20])
