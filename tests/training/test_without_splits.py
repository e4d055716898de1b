"""A fit without a single split warns, and says why."""

import warnings
from typing import Any

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier

N = 60
METHODS = [
    {"method": "directional", "tree_shape": "symmetric"},
    {"method": "directional"},
    {"method": "abcrobustlogit"},
]
X = np.random.default_rng(0).normal(size=(N, 3))
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)


def fit(*data: Any, **options: Any) -> ABCBoostClassifier:
    return ABCBoostClassifier(**{"n_estimators": 3, "n_jobs": 1, "min_samples_leaf": 5, **options}).fit(*data)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize(
    ("X", "y", "weights", "options", "why"),
    [
        (X[:9], Y[:9], None, {}, "there are 9 samples, but two leaves need 10: set a smaller min_samples_leaf than 5"),
        (
            X,
            Y,
            None,
            {"subsample": 0.1},
            r"60 samples, of which a share of 0\.1 is drawn, but two leaves need 10",
        ),
        (np.ones_like(X), Y, None, {}, "all features are constant or missing"),
        (np.full_like(X, np.nan), Y, None, {}, "all features are constant or missing"),
        (X, Y, Y == 1, {}, "all samples that have weight are of one class"),
        (np.eye(N), Y, None, {}, "no split of a feature improves the loss by enough and leaves enough samples"),
    ],
    ids=["few rows", "few rows drawn", "constant", "missing", "one class", "rare values"],
)
def test_the_warning_says_why(X: Any, y: Any, weights: Any, options: Any, why: str, method: Any) -> None:
    with pytest.warns(UserWarning, match=f"The model has no splits.*{why}") as caught:
        model = fit(X, y, weights, **options, **method)
    assert caught[0].filename == __file__  # that of the caller of fit
    probabilities = model.predict_proba(X)
    np.testing.assert_array_equal(probabilities, np.tile(probabilities[0], (len(X), 1)))


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_other_fits_do_not_warn(method: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(X, Y, **method)
        fit(X[:10], np.arange(10) > 4, **{**method, "min_samples_leaf": 1})
