"""A table as each contender likes it best: categories as codes, as text, or as columns of zeros and ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from abc_plugins.compare.practice.table import Sample
from abc_plugins.core.runtime.arrays import AnyArray, Floats

View = Callable[[Floats], Any]
MAX_ONE_HOT = 32
"""Levels of a category that get a column each; those of a longer one stay codes."""


def as_codes(_: Sample) -> View:
    """Leave numbers and codes as they are."""
    return lambda X: X


def as_text(sample: Sample) -> View:
    """A pandas table whose categories are text, also those that are missing; numbers as they are."""
    if not sample.categorical:
        return lambda X: X

    def view(X: Floats) -> Any:
        import pandas as pd

        frame = pd.DataFrame(X)
        for column in sample.categorical:
            codes = X[:, column]
            frame[column] = np.where(np.isnan(codes), "missing", codes.astype(str))
        return frame

    return view


def as_one_hot(sample: Sample) -> View:
    """A column of zeros and ones for every level of a short category; a missing one is zero in all of them."""
    if not sample.categorical:
        return lambda X: X
    short = [pair for pair in zip(sample.categorical, sample.n_levels, strict=True) if pair[1] <= MAX_ONE_HOT]
    others = [column for column in range(sample.X.shape[1]) if column not in {column for column, _ in short}]

    def view(X: Floats) -> Any:
        blocks = [(X[:, [column]] == np.arange(n_levels)).astype(np.float64) for column, n_levels in short]
        return np.hstack([X[:, others], *blocks])

    return view


def as_few_codes(sample: Sample, limit: int) -> View:
    """Codes below a limit: of a category with more levels, those that are frequent in training keep their own.

    Columns that are empty in training are 0: scikit-learn finds no bins for them.
    """
    maps = {
        column: _frequent_first(sample.X[:, column], n_levels, limit)
        for column, n_levels in zip(sample.categorical, sample.n_levels, strict=True)
        if n_levels > limit
    }
    empty = np.isnan(sample.X).all(axis=0)

    def view(X: Floats) -> Any:
        if not maps and not empty.any():
            return X
        X = np.where(empty, 0.0, X)
        for column, codes in maps.items():
            known = ~np.isnan(X[:, column])
            X[known, column] = codes[X[known, column].astype(np.int64)]
        return X

    return view


def _frequent_first(values: Floats, n_levels: int, limit: int) -> AnyArray:
    """New code of every old one; the rarest share the last."""
    counts = np.bincount(values[~np.isnan(values)].astype(np.int64), minlength=n_levels)
    codes = np.empty(n_levels)
    codes[np.argsort(-counts, kind="stable")] = np.arange(n_levels)
    return np.minimum(codes, limit - 1)


def feature_types(sample: Sample) -> Sequence[str]:
    """XGBoost's kinds of columns."""
    return ["c" if column in sample.categorical else "q" for column in range(sample.X.shape[1])]
