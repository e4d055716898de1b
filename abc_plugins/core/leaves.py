"""Leaf values: the Newton step of every leaf, and what it does to the scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.arrays import AnyArray, Floats, Integers
from abc_plugins.core.jit import kernel
from abc_plugins.core.losses import softmax_block
from abc_plugins.core.parallel import ROWS_PER_BLOCK, Workers, count_blocks
from abc_plugins.core.schedule import CLASSIC


class LeafRules(NamedTuple):
    """How a leaf value is made from the sums of its leaf.

    Attributes
    ----------
    factor : float
        1 for an ABC tree, (K - 1) / K for a classic one.
    reg_lambda : float
        Added to the sum of hessians.
    clip : float
        Largest absolute value before shrinkage; infinity for none.
    learning_rate : float
        Shrinkage, nu.
    """

    factor: float
    reg_lambda: float
    clip: float
    learning_rate: float


class Update(NamedTuple):
    """The trees that one round adds to the scores.

    Attributes
    ----------
    tree : array of int32
        Rows of `leaf_ids` that are used.
    plus, minus : arrays of int32
    values : array of float64, shape (n_trees, n_nodes)
        Leaf values by node number, oriented for (plus, minus).
    """

    tree: Integers
    plus: Integers
    minus: Integers
    values: Floats


@kernel
def newton_step(sum_z, sum_h, rules):  # type: ignore[no-untyped-def]
    """Clipped and shrunken leaf value; 0 where the curvature vanishes."""
    denominator = sum_h + rules.reg_lambda
    if not denominator > 0.0:
        return 0.0
    value = rules.factor * sum_z / denominator
    return rules.learning_rate * min(max(value, -rules.clip), rules.clip)


@kernel
def leaf_values(probabilities, labels, weights, plus, minus, leaf_ids, rules, values):  # type: ignore[no-untyped-def]
    """The paper's leaf values of one tree, from the probabilities before the round.

    Parameters
    ----------
    probabilities : array of shape (n_classes, n_samples)
    labels, weights : arrays of shape (n_samples,)
    plus, minus : int
    leaf_ids : array of uint16, shape (n_samples,)
    rules : LeafRules
    values : array of shape (n_nodes,)
        Filled in; 0 for inner nodes.
    """
    sum_z = np.zeros(values.size)
    sum_h = np.zeros(values.size)
    p_plus = probabilities[plus]
    p_minus = probabilities[max(minus, 0)]
    for i in range(leaf_ids.size):
        leaf = leaf_ids[i]
        a = p_plus[i]
        if minus == CLASSIC:
            sum_z[leaf] += weights[i] * ((labels[i] == plus) - a)
            sum_h[leaf] += weights[i] * (a * (1.0 - a))
        else:
            b = p_minus[i]
            sum_z[leaf] += weights[i] * (((labels[i] == plus) - a) - ((labels[i] == minus) - b))
            sum_h[leaf] += weights[i] * ((a + b) - (a - b) * (a - b))
    for node in range(values.size):
        values[node] = newton_step(sum_z[node], sum_h[node], rules)


@kernel
def _add_update(scores, leaf_ids, update, start, stop, out):  # type: ignore[no-untyped-def]
    """Write the scores of samples start..stop after the update to out[:, : stop - start]."""
    n = stop - start
    for k in range(scores.shape[0]):
        out[k, :n] = scores[k, start:stop]
    for t in range(update.tree.size):
        leaves = leaf_ids[update.tree[t], start:stop]
        values = update.values[t]
        gains = out[update.plus[t]]
        if update.minus[t] == CLASSIC:
            for i in range(n):
                gains[i] += values[leaves[i]]
        else:
            loses = out[update.minus[t]]
            for i in range(n):
                value = values[leaves[i]]
                gains[i] += value
                loses[i] -= value


@kernel
def _apply_blocks(  # type: ignore[no-untyped-def]
    scores, labels, weights, leaf_ids, update, new_scores, probabilities, block_losses, first_block, last_block
):
    """New scores, their softmax and the class losses of some blocks of samples.

    With empty `new_scores` and `probabilities` only the losses are computed (a trial).
    """
    n_classes, n_samples = scores.shape
    is_trial = new_scores.size == 0
    buffer = np.empty((n_classes, ROWS_PER_BLOCK))
    softmax = np.empty((n_classes, ROWS_PER_BLOCK))
    log_normaliser = np.empty(ROWS_PER_BLOCK)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, n_samples)
        n = stop - start
        _add_update(scores, leaf_ids, update, start, stop, buffer)
        softmax_block(buffer, softmax, log_normaliser, 0, n)
        block_losses[block] = 0.0
        for i in range(n):
            k = labels[start + i]
            block_losses[block, k] += weights[start + i] * (log_normaliser[i] - buffer[k, i])
        if not is_trial:
            for k in range(n_classes):
                new_scores[k, start:stop] = buffer[k, :n]
                probabilities[k, start:stop] = softmax[k, :n]


_NOTHING = np.empty((0, 0))


def trial_losses(
    scores: Floats, labels: Integers, weights: Floats, leaf_ids: AnyArray, update: Update, workers: Workers
) -> Floats:
    """Class losses that the scores would have after the update, shape (n_classes,)."""
    return apply_update(scores, labels, weights, leaf_ids, update, _NOTHING, _NOTHING, workers)


def apply_update(
    scores: Floats,
    labels: Integers,
    weights: Floats,
    leaf_ids: AnyArray,
    update: Update,
    new_scores: Floats,
    probabilities: Floats,
    workers: Workers,
) -> Floats:
    """Write the scores after the update to `new_scores` and their softmax to `probabilities`.

    Returns
    -------
    class_losses : array of shape (n_classes,)
    """
    n_classes, n_samples = scores.shape
    block_losses = np.empty((count_blocks(n_samples), n_classes))
    workers.over_rows(
        n_samples,
        lambda first, last: _apply_blocks(
            scores, labels, weights, leaf_ids, update, new_scores, probabilities, block_losses, first, last
        ),
    )
    return block_losses.sum(axis=0)
