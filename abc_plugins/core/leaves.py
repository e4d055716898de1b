"""Leaf values: the Newton step of every leaf, and what it does to the scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abc_plugins.core.losses import derivatives, softmax_block
from abc_plugins.core.pairs import Pair
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers, count_blocks
from abc_plugins.core.schedule import CLASSIC


class LeafRules(NamedTuple):
    """How a leaf value, or each of a leaf vector, is made from the sums of its leaf.

    Attributes
    ----------
    factor : float
        1 for a tree with a base class, (K - 1) / K for a classic or a directional one.
    reg_lambda : float
        Added to the sum of hessians.
    clip : float
        Largest absolute value before shrinkage.
    learning_rate : float
        Shrinkage, nu.
    reg_alpha : float
        Taken from the absolute sum of z.
    """

    factor: float
    reg_lambda: float
    clip: float
    learning_rate: float
    reg_alpha: float = 0.0


UNLIMITED = 1e12
"""Stands for no clip: large enough for any purpose, and sums of it over all rounds stay finite."""


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

    def times(self, factor: float) -> Update:
        """The same trees with leaf values times `factor`; 0 makes all of them 0, whatever they are."""
        if factor == 1.0:
            return self
        return self._replace(values=factor * self.values if factor > 0.0 else np.zeros_like(self.values))


def make_update(wanted: Sequence[Pair], grown: Sequence[Pair], values: Floats) -> Update:
    """Find the wanted trees among those grown, negating the values of those grown only the other way round."""
    where = {(minus, plus): (t, -1.0) for t, (plus, minus) in enumerate(grown)}
    where |= {pair: (t, 1.0) for t, pair in enumerate(grown)}
    tree, sign = zip(*(where[pair] for pair in wanted), strict=True)
    return Update(
        tree=np.array(tree, dtype=np.int32),
        plus=np.array([plus for plus, _ in wanted], dtype=np.int32),
        minus=np.array([minus for _, minus in wanted], dtype=np.int32),
        values=values[list(tree)] * np.array(sign)[:, None],
    )


@kernel
def sum_leaves(probabilities, labels, weights, plus, minus, leaf_ids, sums):
    """Sum z and h of every leaf of one tree.

    Parameters
    ----------
    probabilities : array of shape (n_classes, n_samples)
    labels, weights : arrays of shape (n_samples,)
    plus, minus : int
    leaf_ids : array of uint16, shape (n_samples,)
    sums : array of float64, shape (n_nodes, 2)
        Filled in.
    """
    n_samples = labels.size
    z = np.empty(ROWS_PER_BLOCK)
    h = np.empty(ROWS_PER_BLOCK)
    # Two sets of sums: neighbours in the same leaf would wait for each other.
    halves = np.zeros((2, sums.shape[0], 2))
    for start in range(0, n_samples, ROWS_PER_BLOCK):
        stop = min(start + ROWS_PER_BLOCK, n_samples)
        derivatives(probabilities, labels, weights, plus, minus, start, stop, z, h)
        leaves = leaf_ids[start:stop]
        for i in range(leaves.size):
            half = halves[i & 1]
            half[leaves[i], 0] += z[i]
            half[leaves[i], 1] += h[i]
    for node in range(sums.shape[0]):
        sums[node, 0] = halves[0, node, 0] + halves[1, node, 0]
        sums[node, 1] = halves[0, node, 1] + halves[1, node, 1]


@kernel
def newton_steps(sums, rules, values):
    """Clipped and shrunken leaf values; 0 where the curvature vanishes.

    They are finite unless the learning rate is absurdly large; the booster never takes over a value that is not.

    Parameters
    ----------
    sums : array of shape (n_leaves, 2)
        Sums of z and h.
    rules : LeafRules
    values : array of shape (n_leaves,)
        Filled in.
    """
    for leaf in range(values.size):
        z = max(abs(sums[leaf, 0]) - rules.reg_alpha, 0.0)
        below = sums[leaf, 1] + rules.reg_lambda
        step = min(rules.factor * z / below, rules.clip) if below > 0.0 else 0.0
        values[leaf] = np.copysign(rules.learning_rate * step, sums[leaf, 0])


@part_of_kernel
def _add_update(scores, leaf_ids, update, start, stop, new_scores):
    """Write the scores of samples start..stop after the update."""
    n = stop - start
    for k in range(scores.shape[0]):
        row = scores[k, start:stop]
        new_row = new_scores[k, start:stop]
        for i in range(n):
            new_row[i] = row[i]
    for t in range(update.tree.size):
        leaves = leaf_ids[update.tree[t], start:stop]
        values = update.values[t]
        raised = new_scores[update.plus[t], start:stop]
        if update.minus[t] == CLASSIC:
            for i in range(n):
                raised[i] += values[leaves[i]]
        else:
            lowered = new_scores[update.minus[t], start:stop]
            for i in range(n):
                value = values[leaves[i]]
                raised[i] += value
                lowered[i] -= value


@kernel
def _apply_blocks(
    scores, labels, weights, leaf_ids, update, new_scores, probabilities, block_losses, first_block, last_block
):
    """New scores, their softmax and the class losses of some blocks of samples."""
    n_samples = scores.shape[1]
    log_normaliser = np.empty(ROWS_PER_BLOCK)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, n_samples)
        _add_update(scores, leaf_ids, update, start, stop, new_scores)
        softmax_block(new_scores, probabilities, log_normaliser, start, stop)
        block_losses[block] = 0.0
        for i in range(start, stop):
            k = labels[i]
            block_losses[block, k] += weights[i] * (log_normaliser[i - start] - new_scores[k, i])


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
