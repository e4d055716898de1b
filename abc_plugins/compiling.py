"""Compile all kernels ahead of the first fit, as for a container image."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from abc_plugins.classifier import ABCBoostClassifier
from abc_plugins.core.runtime import jit
from abc_plugins.core.runtime.numba_internals import cache_folder
from abc_plugins.core.trees.best_first import grow_trees
from abc_plugins.core.trees.teamwork import ROWS_WORTH_A_TEAM

_KINDS: tuple[dict[str, Any], ...] = (
    {"tree_shape": "symmetric"},
    {"tree_shape": "best-first"},
    {"method": "abcrobustlogit", "leaf_values": "paper"},
    {"method": "abcrobustlogit", "leaf_values": "sequential"},
)
"""Options that make a fit take other kernels."""


@dataclass(frozen=True)
class CompileReport:
    """What `compile_kernels` has done.

    Attributes
    ----------
    n_compiled : int
        Kernels that were not in the cache.
    seconds : float
    folder : str or None
        Where the machine code is kept; None if no folder can be written to.
    """

    n_compiled: int
    seconds: float
    folder: str | None


def compile_kernels() -> CompileReport:
    """Compile every kernel that is not in the cache, by fitting small models that use them all."""
    before, started = len(jit.compiled_kernels), time.perf_counter()
    with _silenced(logging.getLogger("abc_plugins")):
        _use_all_kernels()
        _use_adapter_kernels()
    folder = cache_folder(grow_trees)
    seconds = time.perf_counter() - started
    return CompileReport(len(jit.compiled_kernels) - before, seconds, None if folder is None else str(folder))


def _use_all_kernels() -> None:
    """Fit and predict dense and sparse data with missing values, trees of all kinds, few rows and many."""
    random = np.random.default_rng(0)
    y = np.arange(300) % 3
    dense = random.normal(size=(300, 2))
    sparse = dense * (random.random((300, 2)) < 0.2)
    sparse[::50] = np.nan
    for X in (dense, sparse):
        for options in _KINDS:
            model = ABCBoostClassifier(**options, n_estimators=20, warmup=1, search=2, gap=1, subsample=0.5, n_jobs=1)
            model.fit(X, y, 1 + y, eval_set=[(X, y)])  # weights that differ
            model.predict(X)
            model.predict(X[:1])
            model.apply(X)
    for dtype in (np.float64, np.float32):
        matrix = csr_array(np.where(random.random((300, 4)) < 0.05, 1.0, 0.0).astype(dtype))
        ABCBoostClassifier(n_estimators=1, n_jobs=1).fit(matrix, y).predict(matrix)
    many = random.normal(size=(ROWS_WORTH_A_TEAM + 1, 1))
    for options in _KINDS:
        # Steps so long that the guard gives them up and goes back to the probabilities before.
        ABCBoostClassifier(
            **options, n_estimators=1, trees_per_round=2, learning_rate=1e6, leaf_clip=None, n_jobs=1
        ).fit(dense, y)
        # More threads than trees: teams grow them, and all threads set their leaf values.
        ABCBoostClassifier(**options, n_estimators=1, n_jobs=4).fit(many, np.arange(len(many)) % 3)


def _use_adapter_kernels() -> None:
    """Train with the adapters whose libraries are installed."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 2)), np.arange(300) % 3
    for leaf_values in ("paper", "sequential"):
        options: dict[str, Any] = {"search": 2, "gap": 1, "warmup": 1, "leaf_values": leaf_values}
        with contextlib.suppress(ImportError):
            import lightgbm

            from abc_plugins.lgbm import train as train_lightgbm

            params = {"objective": "multiclass", "num_class": 3, "num_threads": 1, "verbosity": -1}
            train_lightgbm(params, lightgbm.Dataset(X, y), 4, **options)
        with contextlib.suppress(ImportError):
            import xgboost

            from abc_plugins.xgb import train as train_xgboost

            train_xgboost(
                {"objective": "multi:softprob", "num_class": 3, "nthread": 1}, xgboost.DMatrix(X, y), 4, **options
            )


@contextlib.contextmanager
def _silenced(logger: logging.Logger) -> Iterator[None]:
    was_disabled = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = was_disabled
