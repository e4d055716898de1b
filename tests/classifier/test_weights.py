"""Weights of samples and of classes."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import AdaBoostClassifier

from abc_plugins import ABCBoostClassifier

from .conftest import assert_equivalent_models, assert_same_models, quick


@pytest.mark.parametrize("early_stopping_rounds", [None, 3])
def test_a_weight_of_zero_is_a_row_left_out(data, early_stopping_rounds):
    weights = (np.arange(80) % 3 > 0).astype(float)
    kept = weights > 0
    settings = {"random_state": 0, "early_stopping_rounds": early_stopping_rounds, "class_weight": "balanced"}
    one = quick(**settings).fit(data.X, data.y, sample_weight=weights)
    other = quick(**settings).fit(data.X[kept], data.y[kept])
    assert_equivalent_models(one, other, data.X_test)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 2: 0.0}])
def test_a_weight_of_two_is_a_row_given_twice(data, class_weight):
    """But for the number of rows that a leaf must have."""
    repeats = 1 + np.arange(80) % 2
    one = quick(class_weight=class_weight, min_samples_leaf=1).fit(data.X, data.y, sample_weight=repeats)
    other = quick(class_weight=class_weight, min_samples_leaf=1).fit(
        data.X.repeat(repeats, axis=0), data.y.repeat(repeats)
    )
    assert_equivalent_models(one, other, data.X_test)


def test_a_weight_of_two_is_a_row_given_twice_in_probes(data):
    """Where noise makes the base depend on them."""
    y = np.random.default_rng(0).permutation(data.y)
    repeats = 1 + np.arange(80) % 2
    settings = {"n_estimators": 30, "search": 1, "gap": 0, "warmup": 0, "num_leaves": 3, "min_samples_leaf": 1}
    one = quick(**settings).fit(data.X, y, sample_weight=repeats)
    other = quick(**settings).fit(data.X.repeat(repeats, axis=0), y.repeat(repeats))
    assert_equivalent_models(one, other, data.X_test)


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], ["0", "1", "2", "3"], [(0,), (1,), (2,), (3,)]], ids=str)
def test_class_weights_are_weights_of_samples(data, labels):
    y = [labels[k] for k in data.y]
    factors = np.array([2.0, 0.5, 1.0, 1.0])
    one = quick(class_weight=dict(zip(labels[:2], factors, strict=False))).fit(data.X, y)
    other = quick().fit(data.X, y, sample_weight=factors[data.y])
    assert_same_models(one, other, data.X_test)
    counts = np.bincount(data.y)
    balanced = quick(class_weight="balanced").fit(data.X, y)
    assert_equivalent_models(balanced, quick().fit(data.X, y, sample_weight=20.0 / counts[data.y]), data.X_test)


@pytest.mark.parametrize("exponent", [-90, -20, 20, 90])
def test_weights_of_any_size(data, exponent):
    """Only their ratios matter."""
    limits = {"min_samples_leaf": 6, "pair_samples_per_leaf": 4, "reg_lambda": 1.0, "leaf_reg_lambda": 0.1}
    for weights in (1 + np.arange(80) % 3, 1 + np.arange(80) % 3 / 7):
        one = quick(**limits).fit(data.X, data.y, sample_weight=weights)
        for scale in (2.0**exponent, 0.01 * 2.0**exponent):
            other = quick(**limits).fit(data.X, data.y, sample_weight=weights * scale)
            np.testing.assert_allclose(one.predict_proba(data.X_test), other.predict_proba(data.X_test), rtol=1e-6)


@pytest.mark.parametrize("exponent", [-20, -1, 20])
def test_class_weights_of_any_size(data, exponent):
    for factors in ([3.0, 1.0, 2.0, 1.0], [0.3, 0.7, 1.1, 0.9]):
        one = quick(class_weight=dict(enumerate(factors))).fit(data.X, data.y)
        scaled = {label: factor * 10.0**exponent for label, factor in enumerate(factors)}
        other = quick(class_weight=scaled).fit(data.X, data.y)
        np.testing.assert_allclose(one.predict_proba(data.X_test), other.predict_proba(data.X_test), rtol=1e-6)


def test_adaboost_of_models():
    """Its weights add up to 1."""
    X, y = load_digits(return_X_y=True)
    booster = AdaBoostClassifier(ABCBoostClassifier(n_estimators=5), n_estimators=3, random_state=0)
    booster.fit(X[:400], y[:400])
    assert all((model.model_.flat().feature >= 0).any() for model in booster.estimators_)
    assert booster.score(X[400:800], y[400:800]) > 0.5


@pytest.mark.parametrize(
    ("sample_weight", "class_weight", "message"),
    [
        (np.zeros(80), None, "sample_weight must have at least one weight that is not zero"),
        (np.full(80, -1.0), None, r"sample_weight\[0\] must be 0 or larger"),
        (np.full(80, np.nan), None, "sample_weight contains NaN"),
        (np.ones(79), None, "sample_weight must have one weight for each of the 80 samples"),
        (np.full(80, 1e308), None, "The weights of all samples must add up to a number from 1e-100 to 1e.100; got inf"),
        (np.full(80, 1e-200), None, "must add up to a number from 1e-100 to 1e.100; got 8e-199"),
        (None, dict.fromkeys(range(4), 0), "Sample weights times class weights must add up to .* got 0"),
        (None, {1: -2}, r"class_weight\[1\] must be a number at least 0; got -2"),
        (None, {1: np.nan}, r"class_weight\[1\] must be a number at least 0; got nan"),
        (None, {7: 1.0}, r"class_weight must be a dict whose keys are among the labels in y, \[0, 1, 2, 3\]; got 7"),
        (None, "heavy", "class_weight must be a dict of labels and weights, \"balanced\" or None; got 'heavy'"),
    ],
)
def test_impossible_weights(data, sample_weight, class_weight, message):
    with pytest.raises(ValueError, match=message):
        quick(class_weight=class_weight).fit(data.X, data.y, sample_weight=sample_weight)
