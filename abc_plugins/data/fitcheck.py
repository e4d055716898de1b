"""What the estimators on LightGBM and XGBoost check of their data before those do, where their errors name nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from abc_plugins.data.tables import read_weights

_MATRIX = 2


def check_fit_arguments(X: Any, y: Any, sample_weight: Any) -> None:
    """Refuse data without rows or columns, ragged rows, missing labels, and weights that cannot be right.

    Everything else is left to the engine, which knows more kinds of data: categories, sparse matrices, GPU arrays.
    """
    shape = _shape_of_table(X)
    if len(shape) != _MATRIX:
        raise ValueError(
            f"Expected 2D array for X, got {len(shape)}D array instead. Reshape your data: one row per sample."
        )
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError(f"Complex data not supported: X has the dtype {X.dtype}.")
    for count, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise ValueError(f"Found array X with 0 {what} (shape={shape}) while a minimum of 1 is required.")
    if y is None:
        raise ValueError("A classifier requires y to be passed, but the target y is None.")
    if hasattr(y, "__cuda_array_interface__"):
        return
    labels = np.asarray(y)
    missing = labels == None if labels.dtype == object else np.zeros(1, bool)  # noqa: E711  (element by element)
    if np.any(missing) or (labels.dtype.kind in "fO" and bool((labels != labels).any())):
        raise ValueError("Input y contains NaN or None, which are no classes.")
    if labels.shape[:1] != shape[:1]:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {shape[0]} rows and y has shape "
            f"{labels.shape}."
        )
    if not hasattr(sample_weight, "__cuda_array_interface__"):
        read_weights(sample_weight, shape[0])


def _shape_of_table(X: Any) -> tuple[int, ...]:
    if hasattr(X, "shape"):
        return tuple(int(size) for size in X.shape)
    try:
        return np.asarray(X).shape
    except ValueError as error:
        raise ValueError(f"X must be a table whose rows all have the same length. {error}") from error
