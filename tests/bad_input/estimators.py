"""Small data, and the estimators that bad input is given to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
optuna = pytest.importorskip("optuna")
pandas = pytest.importorskip("pandas")

import abc_plugins.lgbm as abc_lgbm  # noqa: E402
import abc_plugins.xgb as abc_xgb  # noqa: E402

RNG = np.random.default_rng(0)
N = 48
X = RNG.normal(size=(N, 3))
Y = np.arange(N) % 3
ONES = np.ones(N)
FRAME = pandas.DataFrame(X, columns=["a", "b", "c"])


def native(**options: Any) -> ABCBoostClassifier:
    small = {"n_estimators": 3, "num_leaves": 4, "max_depth": 2, "min_samples_leaf": 2, "search": 2, "gap": 1}
    return ABCBoostClassifier(**{**small, "warmup": 1, "n_jobs": 1, "random_state": 0, **options})


def native_with_bases(**options: Any) -> ABCBoostClassifier:
    return native(**{"method": "abcrobustlogit", **options})


def on_lightgbm(**options: Any) -> Any:
    small = {"n_estimators": 3, "num_leaves": 4, "min_child_samples": 2, "warmup": 1, "n_jobs": 1, "verbosity": -1}
    return abc_lgbm.ABCLGBMClassifier(**{**small, **options})


def on_xgboost(**options: Any) -> Any:
    return abc_xgb.ABCXGBClassifier(**{"n_estimators": 3, "max_depth": 2, "warmup": 1, "n_jobs": 1, **options})


def on_lightgbm_with_bases(**options: Any) -> Any:
    return on_lightgbm(**{"method": "abcrobustlogit", **options})


def on_xgboost_with_bases(**options: Any) -> Any:
    return on_xgboost(**{"method": "abcrobustlogit", **options})


ESTIMATORS = {
    "native": native,
    "native with bases": native_with_bases,
    "lgbm": on_lightgbm,
    "lgbm with bases": on_lightgbm_with_bases,
    "xgb": on_xgboost,
    "xgb with bases": on_xgboost_with_bases,
}
DIRECTIONAL = ("native", "lgbm", "xgb")


def replaced(array: Any, value: Any, dtype: Any = float) -> Any:
    """A copy whose first entry is another."""
    changed = np.array(array, dtype=dtype)
    changed.flat[0] = value
    return changed
