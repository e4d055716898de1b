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

_MOST_REPEATS = 1e6
"""Larger weights and ratios of weights are whole numbers, to the precision of floats, by accident."""

_PRECISION = 1e-9
_ALLOWED = 'a dict of labels and weights, "balanced" or None'


def combine_weights(sample_weight: Any, class_weight: Any, classes: AnyArray, codes: Integers) -> Floats:
    """Weight of every sample: its own times that of its class.

    Whole numbers stay what they are, since a weight of 2 equals a row given twice. Of others only the ratios matter:
    if they are whole multiples of the smallest one those are taken instead, else they are scaled to a mean of 1. That
    goes for the weights of samples and for those of classes alike.

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
    weights = np.ones(codes.size) if weights is None else weights
    factors = np.ones(codes.size)
    if class_weight is not None:
        factors = _class_factors(class_weight, classes, codes, weights)[codes]
    with np.errstate(over="ignore"):
        total = float((weights * factors).sum())
    if not SMALLEST_TOTAL <= total <= LARGEST_TOTAL:
        names = "The weights of all samples" if class_weight is None else "Sample weights times class weights"
        raise ValueError(
            f"{names} must add up to a number from {SMALLEST_TOTAL:g} to {LARGEST_TOTAL:g}; got {total:g}."
        )
    weights = _scale(weights, (weights > 0).astype(np.float64))
    # Balanced ones have a mean of 1 already.
    return weights * (factors if isinstance(class_weight, str) else _scale(factors, weights))


def _scale(values: Floats, counts: Floats) -> Floats:
    """Weights in units of samples, in which `min_samples_leaf` and the like are given; `counts` weigh in the mean."""
    there = values[(values > 0) & (counts > 0)]
    if there.max() <= _MOST_REPEATS and (there == np.rint(there)).all():
        return values
    with np.errstate(over="ignore"):
        ratios = there / there.min()
    if ratios.max() <= _MOST_REPEATS and (np.abs(ratios - np.rint(ratios)) <= _PRECISION * ratios).all():
        return np.rint(values / there.min())
    return values * (counts.sum() / (values * counts).sum())


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
