"""What a round with a candidate base would do to the training loss, without doing it.

A step multiplies the mass exp(score) of a class by the exponential of a leaf value. In units of their sum before the
step masses are probabilities, and the loss of a sample rises by log(sum of the masses after the step) minus the rise
of the score of its own class: one exponential per leaf, one and a logarithm per sample, whatever the number of classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.leaves import Update
from abc_plugins.core.losses import exp_clamped
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.jit import kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers, count_blocks

_LARGEST_RISE = 690.0
"""A step beyond this counts as this, so that masses stay finite: it is out of all proportion either way."""


class _Step(NamedTuple):
    """What a round would add.

    Attributes
    ----------
    base : int
    tree : array of int32
        Rows of the leaf numbers, one for every class but the base.
    rises, growth : arrays of shape (n_trees, n_nodes)
        Leaf values, and their exponentials.
    """

    base: int
    tree: Integers
    rises: Floats
    growth: Floats


def trial_rises(
    probabilities: Floats, labels: Integers, weights: Floats, leaf_ids: AnyArray, update: Update, workers: Workers
) -> list[float]:
    """Rises of the total training loss, one for each set of weights, if an update with a base class were applied.

    Parameters
    ----------
    probabilities : array of shape (n_classes, n_samples)
        Softmax of the scores before the round.
    labels : array of shape (n_samples,)
    weights : array of shape (n_sets, n_samples)
    leaf_ids : array of uint16, shape (n_grown, n_samples)
    update : Update
        A tree for every class but the base, in the order of the classes.
    workers : Workers
    """
    n_samples = labels.size
    rises = np.clip(update.values, -_LARGEST_RISE, _LARGEST_RISE)
    step = _Step(int(update.minus[0]), update.tree, rises, np.exp(rises))
    block_rises = np.empty((len(weights), count_blocks(n_samples)))
    workers.over_rows(
        n_samples,
        lambda first, last: _try_blocks(probabilities, labels, weights, leaf_ids, step, block_rises, first, last),
    )
    return [float(of_set.sum()) for of_set in block_rises]


@kernel
def _try_blocks(probabilities, labels, weights, leaf_ids, step, block_rises, first_block, last_block):
    """Rise of the loss of some blocks of samples."""
    base, tree, rises, growth = step
    mass = np.empty(ROWS_PER_BLOCK)
    base_rise = np.empty(ROWS_PER_BLOCK)
    own_rise = np.empty(ROWS_PER_BLOCK)
    loss_rise = np.empty(ROWS_PER_BLOCK)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, labels.size)
        n = stop - start
        label = labels[start:stop]
        mass[:] = 0.0
        base_rise[:] = 0.0
        for t in range(tree.size):
            p = probabilities[t + (t >= base), start:stop]
            leaves = leaf_ids[tree[t], start:stop]
            for i in range(n):
                leaf = leaves[i]
                mass[i] += p[i] * growth[t, leaf]
                base_rise[i] -= rises[t, leaf]
        p = probabilities[base, start:stop]
        for i in range(n):
            base_rise[i] = min(max(base_rise[i], -_LARGEST_RISE), _LARGEST_RISE)
            mass[i] += p[i] * exp_clamped(base_rise[i])
        for i in range(n):
            t = label[i] - (label[i] > base)
            own_rise[i] = base_rise[i] if label[i] == base else rises[t, leaf_ids[tree[t], start + i]]
        for i in range(n):
            loss_rise[i] = np.log(mass[i]) - own_rise[i]
        for j in range(weights.shape[0]):
            total = 0.0
            for i in range(n):
                total += weights[j, start + i] * loss_rise[i]
            block_rises[j, block] = total
