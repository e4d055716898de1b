"""Scores of the training samples: derivatives of pairs of classes, the loss after a step, and steps taken.

The loss after a step is computed without taking it. Let p be the probabilities before the step, and d_k what it adds to
the score of class k. The loss of a sample of class y then rises by log(sum over k of p_k exp(d_k)) - d_y. With exp(d_k)
computed once per leaf, that takes one exponential, for the base class, and one logarithm per sample, however many
classes there are. In the code, p_k exp(d_k) is a mass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abc_plugins.core.leaves import Update, apply_update
from abc_plugins.core.losses import (
    centre,
    derivatives,
    exp_clamped,
    starting_class_losses,
    update_probabilities,
)
from abc_plugins.core.pairs import Pair
from abc_plugins.core.rounds import MAX_HALVINGS
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.jit import kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers, count_blocks
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan

_LARGEST_RISE = 690.0
"""Larger steps are cut to this when losses are compared, so that masses stay finite."""

_STEPS_PER_UNIT = 2.0**20
"""Rounded scores are multiples of one over this."""

_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class PairScores:
    """Scores of the training samples, their softmax and the class losses.

    Parameters
    ----------
    labels : array of int, shape (n_samples,)
        Class indices 0 .. K - 1.
    weights : array of float64, shape (n_samples,), or None
        One weight per sample; None is 1 for all.
    start : array of float64, shape (n_classes,) or (n_classes, n_samples)
        Scores to start from, the same for all samples or of each; copied.
    workers : Workers
    reduce : callable, optional
        Adds arrays of sums over the processes that share the samples; all of them must get the same result.

    Attributes
    ----------
    scores, probabilities : array of shape (n_classes, n_samples)
    class_losses : array of shape (n_classes,)
        Weighted log loss of every class's own samples.
    class_weights : array of shape (n_classes,)
        Sum of the weights of every class's own samples.
    """

    def __init__(
        self,
        labels: AnyArray,
        weights: AnyArray | None,
        start: Floats,
        workers: Workers,
        reduce: Callable[[Floats], Floats] | None = None,
    ) -> None:
        self.labels: Integers = np.ascontiguousarray(labels, dtype=np.int32)
        self.weights: Floats = np.ones(self.labels.size) if weights is None else np.asarray(weights, dtype=np.float64)
        self.workers, self.process_sum = workers, reduce
        self._starts_differ = start.ndim == 2
        self.scores: Floats = np.empty((len(start), self.labels.size))
        self._new_scores = np.empty_like(self.scores)
        self.probabilities = np.empty_like(self.scores)
        # By all threads, as the first touch of memory takes time.
        workers.over_rows(self.labels.size, lambda first, last: self._start(start, first, last))
        class_weights = np.bincount(self.labels, weights=self.weights, minlength=self.n_classes)
        self.class_weights: Floats = self.reduce(class_weights.astype(np.float64))
        self.class_losses = self._starting_losses(start)

    def _start(self, start: Floats, first_block: int, last_block: int) -> None:
        """Set scores and probabilities of some blocks of samples."""
        rows = slice(first_block * ROWS_PER_BLOCK, last_block * ROWS_PER_BLOCK)
        if self._starts_differ:
            self.scores[:, rows] = start[:, rows]
            self._new_scores[:, rows] = self.probabilities[:, rows] = 0.0
            return
        exponentials = np.exp(start - start.max())
        self.scores[:, rows] = start[:, None]
        self.probabilities[:, rows] = (exponentials / exponentials.sum())[:, None]

    def _starting_losses(self, start: Floats) -> Floats:
        """Class losses before the first round. At equal scores, classes of equal weight have exactly the same loss."""
        if not self._starts_differ:
            return self.reduce(starting_class_losses(self.labels, self.weights, start))
        losses = self._update_probabilities()
        is_anywhere = self.reduce(np.array([float(start.any())])).any()
        return losses if is_anywhere else self.class_weights * np.log(self.n_classes)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.scores)

    @property
    def loss(self) -> float:
        """Total training loss."""
        return float(self.class_losses.sum())

    def reduce(self, sums: Floats) -> Floats:
        """Add sums over the processes that share the samples."""
        return sums if self.process_sum is None else self.process_sum(sums)

    def plan(self, schedule: BaseClassSchedule) -> RoundPlan:
        """Plan the next round; centre the scores if the plan asks for it."""
        plan = schedule.plan(self.class_losses.tolist())
        if plan.centre and (self._starts_differ or schedule.bases):  # else they are centred already
            centre(self.scores)
        return plan

    def parts(self, n_parts: int) -> AnyArray:
        """Deal the samples out to `n_parts` parts, by a hash of their scores: samples of equal scores are in one part.

        Scores are rounded first: their last digits may depend on how many processes share the samples, and the parts
        must not.

        Returns
        -------
        array of uint8, shape (n_samples,)
        """
        hashes = np.zeros(self.labels.size, dtype=np.uint64)
        for of_class in self.scores:
            hashes ^= np.rint(of_class * _STEPS_PER_UNIT).astype(np.int64).view(np.uint64)
            hashes *= _HASH_FACTOR
            hashes ^= hashes >> np.uint64(32)
        return (hashes % np.uint64(n_parts)).astype(np.uint8)

    def weights_of(self, sample: AnyArray) -> Floats:
        """All weights, with 0 for the samples outside `sample`."""
        if sample.size == self.labels.size:
            return self.weights
        weights = np.zeros_like(self.weights)
        weights[sample] = self.weights[sample]
        return weights

    def gradients(self, pairs: Sequence[Pair | None], seen: AnyArray, gradients: AnyArray, hessians: AnyArray) -> None:
        """Write the gradient -z and the hessian h of one tree per row.

        Rows of None, rows behind the last pair and samples that are not seen become 0: no split gains anything there.
        The hessian of a classic tree is multiplied by K / (K - 1), so that a Newton leaf comes out with the paper's
        (K - 1) / K.

        Parameters
        ----------
        pairs : sequence of (plus, minus) or None
        seen : array of int
            The samples to grow from.
        gradients, hessians : float arrays of shape (at least len(pairs), n_samples)
            Filled in.
        """
        weights = self.weights_of(seen)

        def write(row: int, _thread: int) -> None:
            pair = pairs[row] if row < len(pairs) else None
            if pair is None:
                gradients[row] = 0.0
                hessians[row] = 0.0
                return
            scale = self.n_classes / (self.n_classes - 1.0) if pair[1] == CLASSIC else 1.0
            _gradient_row(self.probabilities, self.labels, weights, *pair, scale, gradients[row], hessians[row])

        self.workers.over_items(range(len(gradients)), write)

    def rises(self, update: Update, leaf_ids: AnyArray, *weights: Floats) -> list[float]:
        """Rise of the training loss if an update were applied, one for each array of weights."""
        stacked = np.stack(weights)
        rises = loss_rises(self.probabilities, self.labels, stacked, leaf_ids, update, self.workers)
        return self.reduce(np.array(rises)).tolist()

    def take(self, update: Update, leaf_ids: AnyArray, *, guard: bool) -> float:
        """Add an update to the scores. With the guard, halve it until the training loss does not rise.

        Returns
        -------
        factor : float
            What was added is the update times this; 0 if the loss rises after the last halving, too. Without the
            guard, 1 unless the loss would not be finite.
        """
        limit = self.loss if guard else math.inf
        for halvings in range(MAX_HALVINGS + 1):
            factor = 0.5**halvings
            losses = apply_update(
                self.scores,
                self.labels,
                self.weights,
                leaf_ids,
                update.times(factor),
                self._new_scores,
                self.probabilities,
                self.workers,
            )
            losses = self.reduce(losses)
            loss = losses.sum()
            if math.isfinite(loss) and loss <= limit:
                self.class_losses = losses
                self.scores, self._new_scores = self._new_scores, self.scores
                return factor
        self._update_probabilities()
        return 0.0

    def set_scores(self, scores: Floats, class_losses: Floats | None = None) -> None:
        """Go on from other scores, shape (n_classes, n_samples); `class_losses` are computed if not given."""
        self.scores[:] = scores
        losses = self._update_probabilities()
        self.class_losses = losses if class_losses is None else class_losses

    def _update_probabilities(self) -> Floats:
        """Compute the probabilities from the scores; the class losses."""
        return self.reduce(
            update_probabilities(self.scores, self.labels, self.weights, self.probabilities, self.workers)
        )


@kernel
def _gradient_row(probabilities, labels, weights, plus, minus, scale, gradient, hessian):
    derivatives(probabilities, labels, weights, plus, minus, 0, labels.size, gradient, hessian)
    for i in range(gradient.size):
        gradient[i] = -gradient[i]
        hessian[i] *= scale


class _Step(NamedTuple):
    """What a round would add.

    Attributes
    ----------
    base : int
    tree : array of int32
        Rows of the leaf numbers, one for each class but the base.
    rises, growth : arrays of shape (n_trees, n_nodes)
        Leaf values, and their exponentials.
    """

    base: int
    tree: Integers
    rises: Floats
    growth: Floats


def loss_rises(
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
