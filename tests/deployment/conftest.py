"""Small models of every kind that can be deployed, made once."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier

KINDS = {
    "symmetric": {"tree_shape": "symmetric", "max_depth": 4},
    "best-first": {"tree_shape": "best-first", "num_leaves": 9, "warmup": 1, "trees_per_round": 2},
    "pairs": {"method": "abcrobustlogit", "num_leaves": 6, "pair_samples_per_leaf": 0.0, "min_samples_leaf": 2},
    "classic": {"method": "robustlogit", "num_leaves": 6, "min_samples_leaf": 2, "start_scores": "priors"},
}
CASES = [(n_classes, kind) for n_classes in (2, 3, 26, 99) for kind in KINDS]


@dataclass(frozen=True)
class Fitted:
    """A fitted classifier, with rows that it was not trained on.

    Attributes
    ----------
    model : ABCBoostClassifier
    table : array
        Rows as the classifier takes them: two columns of categories, with levels that it does not know.
    X : array of float64
        The same rows as exported models take them: categories by number. All numbers are float32.
    """

    model: ABCBoostClassifier
    table: np.ndarray
    X: np.ndarray


def draw(n_classes, n_samples, seed):
    """Two columns of categories, 10 .. 21 and 5 distinct, and three of numbers; a tenth is missing."""
    rng = np.random.default_rng([seed, n_classes])
    X = rng.normal(size=(n_samples, 5)).astype(np.float32).astype(float)
    X[:, 0], X[:, 1] = 10 + rng.integers(0, 12, n_samples), 50 * rng.integers(0, 5, n_samples)
    above = X[:, 2:] > 0
    y = (5 * X[:, 0] % 7 + 7 * (X[:, 1] // 50 % 2) + above @ [14, 28, 56]).astype(int)
    y = np.where(rng.random(n_samples) < 0.1, rng.integers(0, 112, n_samples), y) % n_classes
    y[: 2 * n_classes] = np.tile(np.arange(n_classes), 2)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


class _BestAfter:
    """A metric that is best after a given round."""

    def __init__(self, best):
        self.best, self.n_calls = best, 0

    def __call__(self, _y, _probabilities):
        self.n_calls += 1
        return "distance", abs(self.n_calls - self.best), False


@cache
def fitted(n_classes, kind):
    """Fit with categories, missing values, weights and early stopping."""
    X, y = draw(n_classes, 300 + 3 * n_classes, seed=0)
    X_valid, y_valid = draw(n_classes, 300, seed=1)
    best = 6 if n_classes < 50 else 3
    model = ABCBoostClassifier(
        **KINDS[kind],
        n_estimators=best + 10,
        learning_rate=0.3,
        leaf_clip=4.0,
        eval_metric=_BestAfter(best),
        categorical_features=[0, 1],
        early_stopping_rounds=2,
        random_state=0,
        n_jobs=1,
    )
    weights = np.random.default_rng(0).uniform(0.3, 2.0, y.size)
    model.fit(X, np.array([f"class {k:02}" for k in range(n_classes)])[y], weights, [(X_valid, _name(y_valid))])
    model.eval_metric = "logloss"  # a function cannot be saved
    assert (model.best_iteration_, model.model_.n_rounds) == (best, best + 2)
    table = draw(n_classes, 200, seed=2)[0]
    table[::11, 0], table[::13, 1] = 7, 1000
    table[3] = np.nan
    return Fitted(model, table, np.ascontiguousarray(model._read(table)))


def _name(y):
    return np.array([f"class {k:02}" for k in y])


@pytest.fixture(params=CASES, ids=[f"{n_classes}-{kind}" for n_classes, kind in CASES])
def case(request):
    return fitted(*request.param)


@pytest.fixture
def small():
    """One model of three classes."""
    return fitted(3, "symmetric")


def with_labels(labels, n_rounds=3):
    """Fit a model with other labels on numbers only."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 3)).astype(np.float32).astype(float)
    y = np.arange(120) % len(labels)
    X[:, 0] += y
    kinds = {type(label) for label in labels}
    classes = np.empty(len(labels), dtype=object)
    classes[:] = labels
    classes = classes if kinds == {tuple} else np.array(labels)
    return ABCBoostClassifier(n_estimators=n_rounds, n_jobs=1, random_state=0).fit(X, classes[y]), X
