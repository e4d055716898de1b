"""Odd data that must work."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from estimators import ESTIMATORS, RNG, N, X, Y, native, on_lightgbm


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


WORKS: dict[str, tuple[Any, Any]] = {
    "strided": (np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2], Y),
    "reversed": (X[::-1, ::-1], Y),
    "Fortran order": (np.asfortranarray(X), Y),
    "read-only": (read_only(X), read_only(Y)),
    "column without values": (np.where(np.arange(3) == 1, np.nan, X), Y),
    "constant column": (np.where(np.arange(3) == 1, 7.0, X), Y),
    "nothing but constants": (np.zeros((N, 2)), Y),
    "subnormal": (X * 1e-310, Y),
    "integers beyond 2**53": ((2**60 + (X * 1e6)).astype(np.int64), Y),
    "one feature": (X[:, :1], Y),
    "a single row a class": (X[:3], Y[:3]),
    "a class with one row": (X, np.where(np.arange(N) == 5, 3, Y)),
    "lists": (X.tolist(), Y.tolist()),
}


@pytest.mark.parametrize("engine", ESTIMATORS)
@pytest.mark.parametrize("kind", WORKS)
def test_what_must_work(engine: str, kind: str) -> None:
    features, labels = WORKS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        probabilities = ESTIMATORS[engine]().fit(features, labels).predict_proba(features)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-5)


def test_bytes_the_other_way_round() -> None:
    for engine in (native, on_lightgbm):
        straight = engine().fit(X.astype(np.float32), Y).predict_proba(X)
        np.testing.assert_array_equal(engine().fit(X.astype(">f4"), Y.astype(">i4")).predict_proba(X), straight)


def test_huge_values() -> None:
    """XGBoost refuses what a float32 cannot hold; the others take it."""
    for engine in (native, on_lightgbm):
        assert np.isfinite(engine().fit(X * 1e300, Y).predict_proba(X * 1e300)).all()
    np.testing.assert_array_equal(native().fit(X * 2.0**1000, Y).predict(X * 2.0**1000), native().fit(X, Y).predict(X))


@pytest.mark.parametrize("engine", ESTIMATORS)
def test_no_weight_for_one_class(engine: str) -> None:
    """The class keeps its place and is hardly ever predicted."""
    model = ESTIMATORS[engine]().fit(X, Y, sample_weight=(Y != 1).astype(float))
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (N, 3)
    assert np.isfinite(probabilities).all()
    assert probabilities[:, 1].sum() < probabilities[:, [0, 2]].sum(axis=0).min()


def test_a_thousand_classes() -> None:
    labels = np.arange(2000) % 1000
    features = np.c_[labels, RNG.normal(size=2000)]
    model = native(n_estimators=2, warmup=0, search=1, min_samples_leaf=1).fit(features, labels)
    probabilities = model.predict_proba(features[:50])
    assert probabilities.shape == (50, 1000)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
