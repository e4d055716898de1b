"""Small data, a schedule with every kind of round, and training without output."""

from __future__ import annotations

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

from abc_plugins.xgb import train  # noqa: E402

K = 4
PARAMS = {"num_class": K, "max_depth": 3, "nthread": 1, "learning_rate": 0.3}
SCHEDULE = {"method": "abcrobustlogit", "search": 2, "gap": 1, "warmup": 2}


def make_data(n=600, seed=0, n_features=5, levels=12):
    """Few distinct values a feature, so that bins do not depend on weights or on how rows are shared."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, size=(n, n_features)).astype(np.float32)
    scores = np.stack([X[:, k] + 0.3 * X[:, (k + 1) % n_features] + rng.normal(size=n) for k in range(K)], axis=1)
    return X, scores.argmax(axis=1)


@pytest.fixture(scope="module")
def data():
    X, y = make_data()
    return xgboost.DMatrix(X[:400], y[:400]), xgboost.DMatrix(X[400:], y[400:])


class Recorder:
    """A custom metric that keeps the predictions it is given, and their accuracy as the value."""

    def __init__(self):
        self.seen = []

    def __call__(self, predictions, matrix):
        self.seen.append(predictions.copy())
        return "accuracy", float((predictions.argmax(axis=1) == matrix.get_label()).mean())


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def quiet(*args, **kwargs):
    return train(*args, verbose_eval=False, **kwargs)


def leaf_values_of(booster):
    lines = [line for tree in booster.get_dump() for line in tree.splitlines()]
    return np.array([float(line.split("leaf=")[1]) for line in lines if "leaf=" in line])
