"""Sequential leaf renewal: the leaf values of a round's trees, one tree after the other.

The paper computes the leaf values of all trees of a round from the scores before it. For a sample of the base class
all K - 1 trees then push the same score, and together they overshoot. Here each tree's values are computed from the
scores that the trees before it left; the trees themselves are grown as always.

Masses exp(score) are kept in units of their sum before the round. Only the base class is moved by more than one tree,
so that three numbers per sample are enough: the mass of all classes but the base, the mass of the base, and the
probability before the round of the class whose turn it is. A tree multiplies masses by exp(leaf value), one
exponential per leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abc_plugins.core.leaves import LeafRules, newton_steps
from abc_plugins.core.losses import weight_unless_converged
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.jit import kernel, kernel_of, part_of_kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers, count_blocks
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.trees.histogram import clear

_LEAST_MASS = 1e-300
_MOST_MASS = 1e300
_LARGEST_EXPONENT = 690.0
ROWS_WORTH_THREADS = 32 * ROWS_PER_BLOCK
"""With fewer samples, starting the threads for each tree takes longer than they save."""


class _State(NamedTuple):
    """What the trees of a round are renewed from, and what they leave to the next one.

    Attributes
    ----------
    labels, weights : arrays of shape (n_samples,)
    probabilities : array of shape (n_classes, n_samples)
        Softmax of the scores before the round.
    base : int
    other_mass, base_mass : arrays of shape (n_samples,)
        Mass of all classes but the base, and of the base.
    block_sums : array of shape (n_blocks, n_nodes, 2)
        Sums of z and h by block and leaf.
    growth : array of shape (2, n_nodes)
        What the leaves of the tree before multiply the masses of its class and of the base by.
    """

    labels: Integers
    weights: Floats
    probabilities: Floats
    base: int
    other_mass: Floats
    base_mass: Floats
    block_sums: Floats
    growth: Floats


class LeafRenewal:
    """Leaf values of the trees of one round, tree by tree.

    Parameters
    ----------
    probabilities : array of shape (n_classes, n_samples)
        Softmax of the scores before the round.
    labels, weights : arrays of shape (n_samples,)
        Samples of weight 0 do not count.
    base : int
        The base class, or CLASSIC.
    n_nodes : int
        More than the largest leaf number.
    rules : LeafRules
    workers : Workers
    reduce : callable
        Adds the sums of z and h of the leaves, shape (n_nodes, 2), to those that other processes have; None if there
        are none.
    """

    def __init__(
        self,
        probabilities: Floats,
        labels: Integers,
        weights: Floats,
        base: int,
        n_nodes: int,
        rules: LeafRules,
        workers: Workers,
        reduce: Callable[[Floats], Floats] | None = None,
    ) -> None:
        n_samples = labels.size
        self._rules, self._workers, self._reduce = rules, workers, reduce
        base_mass = np.zeros(n_samples) if base == CLASSIC else probabilities[base].copy()
        block_sums = np.empty((count_blocks(n_samples), n_nodes, 2))
        growth = np.ones((2, n_nodes))
        self._state = _State(labels, weights, probabilities, base, 1.0 - base_mass, base_mass, block_sums, growth)
        self._before: tuple[int, AnyArray] | None = None
        """Class and leaves of the tree before."""

    def renew_trees(self, classes: Sequence[int], trees: Sequence[int], leaf_ids: AnyArray) -> Floats:
        """Set the leaf values of the next trees, one after the other; no class comes twice.

        Parameters
        ----------
        classes : sequence of int
        trees : sequence of int
            Rows of `leaf_ids`, one for each class.
        leaf_ids : array of uint16, shape (n_grown, n_samples)
            The leaf of every sample in every tree.

        Returns
        -------
        values : array of shape (n_trees, n_nodes)
        """
        threaded = self._workers.n_threads > 1 and self._state.labels.size >= ROWS_WORTH_THREADS
        if threaded or self._reduce is not None:
            return np.array([self.renew(k, leaf_ids[tree]) for k, tree in zip(classes, trees, strict=True)])
        class_before, leaves_before = self._before or (classes[0], leaf_ids[trees[0]])
        values = np.empty((len(classes), self._state.block_sums.shape[1]))
        _renew_trees(
            self._state,
            class_before,
            leaves_before,
            np.array(classes, dtype=np.int64),
            np.array(trees, dtype=np.int64),
            leaf_ids,
            self._rules,
            values,
        )
        self._before = (classes[-1], leaf_ids[trees[-1]])
        return values

    def renew(self, k: int, leaf_ids: AnyArray) -> Floats:
        """Set the leaf values of the next tree, which is of class `k`; no class comes twice.

        Parameters
        ----------
        k : int
        leaf_ids : integer array of shape (n_samples,)
            The leaf of every sample.

        Returns
        -------
        values : array of shape (n_nodes,)
        """
        n_samples = self._state.labels.size
        class_before, leaves_before = self._before or (k, leaf_ids)

        def add_up(first: int, last: int) -> None:
            _renew_blocks(self._state, class_before, leaves_before, k, leaf_ids, first, last)

        if n_samples < ROWS_WORTH_THREADS:
            add_up(0, count_blocks(n_samples))
        else:
            self._workers.over_rows(n_samples, add_up)
        sums = self._state.block_sums.sum(axis=0)
        if self._reduce is not None:
            sums = self._reduce(sums)
        values = np.empty(len(sums))
        _set_values(sums, self._rules, values, self._state.growth)
        self._before = (k, leaf_ids)
        return values


@kernel
def _renew_trees(state, class_before, leaves_before, classes, trees, leaf_ids, rules, values):
    """Set the leaf values of some trees in one thread."""
    block_sums = state.block_sums
    n_blocks = block_sums.shape[0]
    sums = np.empty(block_sums.shape[1:])
    for t in range(classes.size):
        k = classes[t]
        leaves = leaf_ids[trees[t]]
        _sum_leaves(state, class_before, leaves_before, k, leaves, 0, n_blocks)
        clear(sums)
        for block in range(n_blocks):
            for leaf in range(sums.shape[0]):
                sums[leaf, 0] += block_sums[block, leaf, 0]
                sums[leaf, 1] += block_sums[block, leaf, 1]
        _find_values(sums, rules, values[t], state.growth)
        class_before, leaves_before = k, leaves


@part_of_kernel
def _find_values(sums, rules, values, growth):
    """Leaf values of a tree, and what they multiply masses by."""
    newton_steps(sums, rules, values)
    for leaf in range(values.size):
        exponent = min(max(values[leaf], -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
        growth[0, leaf] = np.exp(exponent)
        growth[1, leaf] = np.exp(-exponent)


@part_of_kernel
def _sum_leaves(state, class_before, leaves_before, k, leaves, first_block, last_block):
    """Let the tree before act on the masses, then sum z and h of every leaf of this tree, in some blocks."""
    labels, weights, probabilities, base, other_mass, base_mass, block_sums, growth = state
    p_before, p_class = probabilities[class_before], probabilities[k]
    n_samples = labels.size
    z = np.empty(ROWS_PER_BLOCK)
    h = np.empty(ROWS_PER_BLOCK)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, n_samples)
        _move_masses(
            growth, leaves_before[start:stop], p_before[start:stop], other_mass[start:stop], base_mass[start:stop]
        )
        _derivatives(
            labels[start:stop],
            weights[start:stop],
            p_class[start:stop],
            other_mass[start:stop],
            base_mass[start:stop],
            k,
            base,
            z,
            h,
        )
        sums = block_sums[block]
        clear(sums)
        for i in range(stop - start):
            leaf = leaves[start + i]
            sums[leaf, 0] += z[i]
            sums[leaf, 1] += h[i]


@part_of_kernel
def _move_masses(growth, leaves, p_class, other_mass, base_mass):
    """Multiply the masses of a tree's class and of the base."""
    for i in range(leaves.size):
        leaf = leaves[i]
        grown = p_class[i] * growth[0, leaf]
        # The class's own part is a floor: the difference may lose it to rounding.
        other_mass[i] = max(other_mass[i] + (grown - p_class[i]), grown)
        base_mass[i] = min(base_mass[i] * growth[1, leaf], _MOST_MASS)


@part_of_kernel
def _derivatives(labels, weights, p_class, other_mass, base_mass, k, base, z, h):
    """Write z and h of class k at the scores that the masses stand for; without a base its mass is 0."""
    for i in range(labels.size):
        # The class is among the others, but rounding may have lost its part.
        scale = 1.0 / max(max(other_mass[i], p_class[i]) + base_mass[i], _LEAST_MASS)
        a = p_class[i] * scale
        b = base_mass[i] * scale
        residual = ((labels[i] == k) - a) - ((labels[i] == base) - b)
        curvature = (a + b) - (a - b) * (a - b)
        w = weight_unless_converged(weights[i], residual, curvature)
        z[i] = w * residual
        h[i] = w * curvature


# By themselves, where several threads or processes share the samples of a tree.
_renew_blocks = kernel_of(_sum_leaves)
_set_values = kernel_of(_find_values)
