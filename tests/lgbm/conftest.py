"""Small data for the tests of the LightGBM adapter."""

import numpy as np
import pytest

lgb = pytest.importorskip("lightgbm")

N_CLASSES = 5


def make_data(n_samples=600, n_classes=N_CLASSES, n_features=6, seed=0):
    """Noisy classes in overlapping boxes, with classes of different size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    score = X[:, 0] + 0.7 * X[:, 1] * (X[:, 2] > 0) + 0.4 * rng.normal(size=n_samples)
    bounds = np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1] ** 1.3)
    return X, np.searchsorted(bounds, score)


def log_loss(probabilities, y):
    return -np.log(probabilities[np.arange(y.size), y]).mean()


@pytest.fixture
def data():
    return make_data()


@pytest.fixture
def params():
    return {"num_class": N_CLASSES, "num_leaves": 6, "min_data_in_leaf": 5, "num_threads": 1, "verbosity": -1}
