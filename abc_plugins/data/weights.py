"""Sample weights and class weights as one weight per sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import check_real, fail
from abc_plugins.data.tables import read_weights

SMALLEST_TOTAL, LARGEST_TOTAL = 1e-100, 1e100
"""Gains have squares of sums of weights in them, which must neither overflow nor vanish."""

_ALLOWED = 'a dict of labels and weights, "balanced" or None'


def combine_weights(sample_weight: Any, class_weight: Any, classes: AnyArray, codes: Integers) -> Floats:
    """Weight of every sample: its own times that of its class.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,) or None
    class_weight : dict, "balanced" or None
        Classes that are not in the dict have the weight 1; "balanced" gives all classes the same total weight.
    classes : array of shape (n_classes,)
    codes : array of int32, shape (n_samples,)

    Returns
    -------
    weights : array of shape (n_samples,)
        A new array; finite, not negative, not all 0.
    """
    weights = read_weights(sample_weight, codes.size)
    weights = np.ones(codes.size) if weights is None else weights.copy()
    if class_weight is not None:
        with np.errstate(over="ignore"):  # too large a total is an error below
            weights *= _class_factors(class_weight, classes, codes, weights)[codes]
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if not SMALLEST_TOTAL <= total <= LARGEST_TOTAL:
        names = "The weights of all samples" if class_weight is None else "Sample weights times class weights"
        raise ValueError(
            f"{names} must add up to a number from {SMALLEST_TOTAL:g} to {LARGEST_TOTAL:g}; got {total:g}."
        )
    return weights


def _class_factors(class_weight: Any, classes: AnyArray, codes: Integers, weights: Floats) -> Floats:
    """Weight of every class."""
    labels = classes.tolist()
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            fail("class_weight", class_weight, _ALLOWED)
        totals = np.bincount(codes, weights=weights, minlength=len(labels))
        there = totals > 0
        return np.divide(weights.sum() / there.sum(), totals, out=np.zeros(len(labels)), where=there)
    if not isinstance(class_weight, Mapping):
        fail("class_weight", class_weight, _ALLOWED, TypeError)
    unknown = [label for label in class_weight if label not in dict.fromkeys(labels)]
    if unknown:
        fail("class_weight", unknown[0], f"a dict whose keys are among the labels in y, {labels}")
    return np.array(
        [check_real(f"class_weight[{label!r}]", class_weight.get(label, 1.0), minimum=0.0) for label in labels]
    )
