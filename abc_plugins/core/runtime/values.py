"""Plain values, for those who import little as well: which are missing, which too large, and what scores stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Floats

LARGEST = float(np.finfo(np.float64).max)
_MISSING_TYPES = ("NAType", "NaTType")


def is_missing_type(kind: type) -> bool:
    """Whether values of a type are all missing: None, and those of pandas."""
    return kind is type(None) or kind.__name__ in _MISSING_TYPES


def is_missing(value: Any) -> bool:
    """Whether a Python value stands for a missing one."""
    return is_missing_type(type(value)) or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def clip_infinity(values: AnyArray) -> Floats:
    """The largest numbers in place of infinite ones, which no threshold between values could be told apart from."""
    return np.clip(values.astype(np.float64), -LARGEST, LARGEST)


def softmax(scores: Floats) -> Floats:
    """Probabilities of scores of shape (n_samples, n_classes)."""
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))
