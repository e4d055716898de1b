"""Softmax, log loss per class, and the derivatives of classic and ABC rounds.

Scores and probabilities are arrays of shape (n_classes, n_samples): the derivatives of a tree read one or two
rows of them from end to end. `labels` holds class indices, `weights` one weight per sample.
"""

from __future__ import annotations

import numpy as np

from abc_plugins.core.runtime.arrays import Floats, Integers
from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers, count_blocks
from abc_plugins.core.schedule import CLASSIC

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # trailing zero bits: a small integer times it is exact
_LN2_LOW = 1.90821492927058770002e-10
_ROUNDER = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to the nearest integer, kept in the low bits
_SMALLEST_EXPONENT = -708.0  # exp of anything smaller would not be a normal number
_LARGEST_EXPONENT = 709.0  # exp of anything larger might be infinite
LEAST_DERIVATIVE = 1e-14
"""Less is rounding, in a derivative as in the loss of a sample: the last place of a score of 50 is 7e-15."""


@part_of_kernel
def exp_nonpositive(x):
    """exp(x) for x <= 0 to about one unit in the last place, without a branch: LLVM vectorises loops over it."""
    return _exp(max(x, _SMALLEST_EXPONENT))


@part_of_kernel
def exp_clamped(x):
    """exp(x) likewise for any x, within the range of a float64."""
    return _exp(min(max(x, _SMALLEST_EXPONENT), _LARGEST_EXPONENT))


@part_of_kernel
def _exp(x):
    rounded = x * _LOG2_E + _ROUNDER
    n = rounded - _ROUNDER
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    # exp(r) for |r| <= ln(2)/2 by its Taylor polynomial of degree 13 (remainder below 1e-17), in pairs of terms
    # that do not wait for each other
    r2 = r * r
    r4 = r2 * r2
    low = ((r + 1.0) + r2 * (r * (1.0 / 6.0) + 0.5)) + r4 * (
        (r * (1.0 / 120.0) + 1.0 / 24.0) + r2 * (r * (1.0 / 5040.0) + 1.0 / 720.0)
    )
    high = ((r * (1.0 / 362880.0) + 1.0 / 40320.0) + r2 * (r * (1.0 / 39916800.0) + 1.0 / 3628800.0)) + r4 * (
        r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
    )
    s = low + (r4 * r4) * high
    # times 2**n: add n to the exponent bits
    bits = np.float64(s).view(np.int64) + (np.float64(rounded).view(np.int64) << 52)
    return np.int64(bits).view(np.float64)


@part_of_kernel
def weight_unless_converged(weight, residual, curvature):
    """The weight of a sample, or 0 if it has converged: both its derivatives are next to nothing.

    They are what rounding left of a probability of 1: their ratio is a step of any size, and the sample has nothing to
    gain. One that is wrong with certainty has no curvature, but a residual.
    """
    return weight if max(curvature, abs(residual)) > LEAST_DERIVATIVE else 0.0


@part_of_kernel
def softmax_block(scores, probabilities, log_normaliser, start, stop):
    """Write the softmax of samples start..stop, and log(sum(exp(scores))) to the front of `log_normaliser`."""
    n = stop - start
    n_classes = scores.shape[0]
    largest = np.empty(n)
    total = np.empty(n)
    for i in range(n):
        largest[i] = -np.inf
        total[i] = 0.0
    for k in range(n_classes):
        row = scores[k, start:stop]
        for i in range(n):
            largest[i] = row[i] if row[i] > largest[i] else largest[i]
    for k in range(n_classes):
        row = scores[k, start:stop]
        out = probabilities[k, start:stop]
        for i in range(n):
            e = exp_nonpositive(row[i] - largest[i])
            out[i] = e
            total[i] += e
    for i in range(n):
        log_normaliser[i] = np.log(total[i]) + largest[i]
        total[i] = 1.0 / total[i]
    for k in range(n_classes):
        out = probabilities[k, start:stop]
        for i in range(n):
            out[i] *= total[i]


@kernel
def softmax_blocks(scores, labels, weights, probabilities, block_losses, first_block, last_block):
    """Softmax and per-class log loss of some blocks of samples; `block_losses` has shape (n_blocks, K)."""
    n_samples = scores.shape[1]
    log_normaliser = np.empty(ROWS_PER_BLOCK)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, n_samples)
        softmax_block(scores, probabilities, log_normaliser, start, stop)
        block_losses[block] = 0.0
        for i in range(start, stop):
            k = labels[i]
            block_losses[block, k] += weights[i] * (log_normaliser[i - start] - scores[k, i])


@kernel
def mean_loss(scores, labels, weights):
    """Weighted mean of the log loss, for scores of shape (n_samples, n_classes)."""
    n_samples, n_classes = scores.shape
    exponentials = np.empty(n_classes)
    loss_sum = 0.0
    weight_sum = 0.0
    for i in range(n_samples):
        row = scores[i]
        largest = -np.inf
        for k in range(n_classes):
            largest = row[k] if row[k] > largest else largest
        for k in range(n_classes):
            exponentials[k] = exp_nonpositive(row[k] - largest)
        total = 0.0
        for k in range(n_classes):
            total += exponentials[k]
        loss_sum += weights[i] * (np.log(total) + largest - row[labels[i]])
        weight_sum += weights[i]
    return loss_sum / weight_sum


@kernel
def derivatives(probabilities, labels, weights, plus, minus, start, stop, z, h):
    """Residual z and weight h of samples start..stop for the tree of class `plus` with base class `minus`.

    With `minus` = CLASSIC these are the classic r - p and p (1 - p). Swapping `plus` and `minus` negates z and
    keeps h, bit for bit.
    """
    n = stop - start
    p_plus = probabilities[plus, start:stop]
    label = labels[start:stop]
    weight = weights[start:stop]
    if minus == CLASSIC:
        for i in range(n):
            residual = (label[i] == plus) - p_plus[i]
            curvature = p_plus[i] * (1.0 - p_plus[i])
            w = weight_unless_converged(weight[i], residual, curvature)
            z[i] = w * residual
            h[i] = w * curvature
        return
    p_minus = probabilities[minus, start:stop]
    for i in range(n):
        a = p_plus[i]
        b = p_minus[i]
        residual = ((label[i] == plus) - a) - ((label[i] == minus) - b)
        curvature = (a + b) - (a - b) * (a - b)  # p_b (1 - p_b) + p_k (1 - p_k) + 2 p_b p_k
        w = weight_unless_converged(weight[i], residual, curvature)
        z[i] = w * residual
        h[i] = w * curvature


def update_probabilities(
    scores: Floats, labels: Integers, weights: Floats, probabilities: Floats, workers: Workers
) -> Floats:
    """Fill `probabilities` with the softmax of `scores`.

    Returns
    -------
    class_losses : array of shape (n_classes,)
        For every class the weighted log loss of its own samples.
    """
    n_classes, n_samples = scores.shape
    block_losses = np.empty((count_blocks(n_samples), n_classes))
    workers.over_rows(
        n_samples,
        lambda first, last: softmax_blocks(scores, labels, weights, probabilities, block_losses, first, last),
    )
    return block_losses.sum(axis=0)


def starting_scores(labels: Integers, weights: Floats, n_classes: int, start: str, smallest_leaf: float) -> Floats:
    """Scores before the first round: "priors", the logarithms of the class frequencies, or "zero".

    A class without samples, which a validation part may have taken, is as rare as one with half of the weight that a
    leaf must have, and rarer than all others.
    """
    if start == "zero":
        return np.zeros(n_classes)
    masses = np.bincount(labels, weights=weights, minlength=n_classes).astype(np.float64)
    return scores_of_masses(masses, smallest_leaf)


def scores_of_masses(masses: Floats, smallest_leaf: float) -> Floats:
    """Scores whose softmax are the shares of the classes in the total weight, given the weight of each class."""
    rarest = masses[masses > 0.0].min()
    scores = np.log(np.where(masses > 0.0, masses, 0.5 * min(smallest_leaf, rarest)))
    return scores - scores.mean()


def starting_class_losses(labels: Integers, weights: Floats, scores: Floats) -> Floats:
    """Class losses at these scores, the same for all samples; at equal ones equal classes tie exactly."""
    largest = scores.max()
    losses = np.log(np.exp(scores - largest).sum()) + largest - scores
    return np.bincount(labels, weights=weights, minlength=scores.size) * losses


def centre(scores: Floats) -> None:
    """Subtract each sample's mean score; probabilities stay as they are."""
    scores -= scores.mean(axis=0)
