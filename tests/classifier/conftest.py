"""Quick classifiers of both kinds of trees, tables to fit, and how two models are compared."""

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from abc_plugins import ABCBoostClassifier

QUICK = {"n_estimators": 6, "num_leaves": 4, "max_depth": 2, "min_samples_leaf": 3, "warmup": 1, "gap": 1, "n_jobs": 1,
         "random_state": 0}  # fmt: skip


def quick(**settings):
    return ABCBoostClassifier(**{**QUICK, **settings})


@pytest.fixture(params=["directional", "abcrobustlogit"], autouse=True)
def default_method(request, monkeypatch):
    """Every test is of both kinds of trees."""
    monkeypatch.setitem(QUICK, "method", request.param)
    return request.param


@pytest.fixture
def data(make_data):
    return make_data(4, 80, missing=0.05)


def assert_same_models(one, other, X):
    np.testing.assert_array_equal(one.train_loss_, other.train_loss_)
    np.testing.assert_array_equal(one.base_classes_, other.base_classes_)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def assert_equivalent_models(one, other, X):
    """The same splits, and numbers that differ in rounding only.

    Missing values where training had none go with more rows, which are not those of more weight.
    """
    X = X[~np.isnan(X).any(axis=1)]
    np.testing.assert_array_equal(one.model_.flat().threshold, other.model_.flat().threshold)
    np.testing.assert_allclose(one.train_loss_, other.train_loss_, rtol=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-8)


NAMES = ["width", "height", "depth", "mass"]
TABLES = {
    "pandas": lambda X: pandas.DataFrame(X, columns=NAMES),
    "polars": lambda X: polars.DataFrame(X, schema=NAMES),
    "arrow": lambda X: pyarrow.table(dict(zip(NAMES, X.T, strict=True))),
}


def accuracy(y_true, y_proba, *, tolerance=0.0):
    return "accuracy", np.mean(y_proba.argmax(axis=1) == y_true) + tolerance, True
