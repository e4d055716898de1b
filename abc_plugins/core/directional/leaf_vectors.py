"""Leaf vectors: every leaf of a tree along a direction gets a Newton step for every class, one tree after the other.

The state is one row of class probabilities per sample. A tree multiplies the row by exp(leaf vector) and normalises
it: one exponential per leaf and class instead of one per sample and class. A probability is never smaller than
`LEAST_PROBABILITY`, so that its logarithm stays the score of the class, up to a constant, and nothing has to be
refreshed.

A tree moves the probabilities only when the next pass over them needs it: each pass lets the tree before act on a row
and reads the row while it is in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from abc_plugins.core.leaves import LeafRules
from abc_plugins.core.runtime.arrays import DERIVATIVE, AnyArray, Derivatives, Floats, Integers
from abc_plugins.core.runtime.jit import kernel, part_of_kernel, summing_kernel
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.vectors import LANES, add_newton_terms, moments, multiply_row, scale_row, set_derivatives

LEAST_PROBABILITY = 1e-290
_UNLIKELY = 1e-100
"""The product of two numbers that are not smaller is a normal float64."""

ALL_CLASSES = -1
_LARGEST_EXPONENT = 300.0
"""A larger step, up or down, could leave the range of a float64."""

_HESSIAN_ENTRIES = 2**22
_FEWEST_HESSIANS = 256
"""Products of probabilities that make a mean Hessian, and the fewest samples that do."""

_MOST_CHUNKS = 16
_ROWS_PER_CHUNK = 2**12
"""Sums over the samples are made chunk by chunk; which chunks there are does not depend on the number of threads."""

_ROWS_FOR_ONE_THREAD = 2**15
"""With fewer samples than that, one thread sets the leaf vectors of a tree while others grow the next ones."""


_ONE_PROCESS = np.asarray
"""Sums over the samples are already complete."""


class _Samples(NamedTuple):
    """The samples in a pass over their rows.

    Attributes
    ----------
    rows : array of shape (n_samples * width,)
        Probabilities.
    labels : array of int32, shape (n_samples,)
    weights : array of float64, shape (n_samples,)
    waiting : array of uint16, shape (n_samples,) or (0,)
        The leaf of every sample in the tree that has yet to act on the rows, if there is one.
    growth : array of shape (max_leaves * width,)
        What the leaves of that tree multiply rows by.
    leaves : array of uint16, shape (n_samples,)
        The leaf of every sample in the tree whose leaf vectors are set.
    """

    rows: Floats
    labels: Integers
    weights: Floats
    waiting: AnyArray
    growth: Floats
    leaves: AnyArray


class _Along(NamedTuple):
    """Directions of class space, and where the derivatives along them go.

    Attributes
    ----------
    directions : array of shape (n_directions * width,)
    across : array of shape (n_groups * width * LANES,)
        The same in groups of `LANES` directions, whose entries of a class are side by side; those that fill no group
        are left out.
    z, h : arrays of DERIVATIVE, shape (n_directions, n_samples)
    """

    directions: Floats
    across: Floats
    z: AnyArray
    h: AnyArray


def softmax_rows(scores: Floats) -> Floats:
    """Probabilities of shape (n_samples, n_classes), none of them 0, of scores of that shape."""
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.maximum(exponentials / exponentials.sum(axis=1, keepdims=True), LEAST_PROBABILITY)


class ProbabilityRows:
    """Class probabilities of the training samples, moved by one tree after the other.

    Parameters
    ----------
    labels : array of int32, shape (n_samples,)
    weights : array of float64, shape (n_samples,)
    start : array of shape (n_classes,)
        Probabilities before the first tree, the same for all samples.
    max_leaves : int
        No tree has more leaves.
    workers : Workers
    reduce : callable, optional
        Adds arrays of sums over the processes that share the samples; all of them must get the same result.
    """

    def __init__(
        self,
        labels: Integers,
        weights: Floats,
        start: Floats,
        max_leaves: int,
        workers: Workers,
        reduce: Callable[[Floats], Floats] = _ONE_PROCESS,
    ) -> None:
        self._labels, self._weights, self._workers = labels, weights, workers
        self.reduce = reduce
        self._n_classes = start.size
        width = -(-start.size // LANES) * LANES
        self._width = width
        self._rows = np.empty((labels.size, width))
        self._flat_rows = self._rows.reshape(-1)
        self._start = np.full(width, LEAST_PROBABILITY)
        self._start[: start.size] = np.maximum(start, LEAST_PROBABILITY)
        n_chunks = max(1, min(_MOST_CHUNKS, labels.size // _ROWS_PER_CHUNK))
        bounds = [labels.size * chunk // n_chunks for chunk in range(n_chunks + 1)]
        self._chunks = [(chunk, bounds[chunk], bounds[chunk + 1]) for chunk in range(n_chunks)]
        self._chunk_bounds = np.array(bounds)
        self._sums = np.empty((n_chunks, max_leaves, 2, width))
        # The tree that has yet to act on the rows: the leaf of every sample, and what leaves multiply rows by.
        self._growth = np.ones((max_leaves, width))
        self._flat_growth = self._growth.reshape(-1)
        self._waiting: AnyArray = np.empty(0, dtype=np.uint16)
        none = np.empty((0, labels.size), dtype=DERIVATIVE)
        self._no_directions = np.empty((0, start.size)), none, none
        self._over_chunks(self._fill)

    def _fill(self, _chunk: int, first: int, last: int) -> None:
        self._rows[first:last] = self._start

    @property
    def probabilities(self) -> Floats:
        """Probabilities of shape (n_samples, n_classes), after all trees."""
        self._settle()
        return self._rows[:, : self._n_classes]

    def set_probabilities(self, probabilities: Floats) -> None:
        """Go on from these, of shape (n_samples, n_classes)."""
        self._waiting = self._waiting[:0]
        self._rows[:, : self._n_classes] = probabilities

    @property
    def is_for_one_thread(self) -> bool:
        """Whether a pass over the rows is better done by one thread, while others have something else to do."""
        return self._labels.size < _ROWS_FOR_ONE_THREAD

    def _over_chunks(self, work: Callable[[int, int, int], None], *, alone: bool = False) -> None:
        """Call `work(chunk, first, last)` for every chunk of samples, with all threads unless `alone`."""
        if alone or len(self._chunks) == 1:
            for chunk in self._chunks:
                work(*chunk)
        else:
            self._workers.over_items(self._chunks, lambda chunk, _thread: work(*chunk))

    def _settle(self) -> None:
        """Let the tree that waits act on the rows."""
        waiting = self._waiting
        if waiting.size:
            rows, growth, width = self._flat_rows, self._flat_growth, self._width
            self._over_chunks(lambda _chunk, first, last: _move(rows, growth, waiting, width, first, last))
            self._waiting = waiting[:0]

    def set_leaf_vectors(
        self,
        leaves: AnyArray,
        n_leaves: int,
        weights: Floats,
        rules: LeafRules,
        only: int = ALL_CLASSES,
        *,
        alone: bool = False,
    ) -> Floats:
        """Leaf vectors of the next tree, from the probabilities that the trees before it left.

        Parameters
        ----------
        leaves : array of uint16, shape (n_samples,)
            The leaf of every sample, from 0 to n_leaves - 1. Must not change until the next call.
        n_leaves : int
        weights : array of shape (n_samples,)
            Samples of weight 0 do not count.
        rules : LeafRules
        only : int, default=ALL_CLASSES
            The one class that a classic tree moves.
        alone : bool, default=False
            Use the calling thread alone.

        Returns
        -------
        values : array of shape (n_leaves, n_classes)
        """
        samples = _Samples(self._flat_rows, self._labels, weights, self._waiting, self._flat_growth, leaves)
        values = np.empty((n_leaves, self._n_classes))
        if alone and self.reduce is _ONE_PROCESS:
            _set_vectors(samples, self._chunk_bounds, self._sums, rules, only, values, self._growth)
        else:

            def add_up(chunk: int, first: int, last: int) -> None:
                _sum_leaves(samples, self._sums[chunk, :n_leaves].reshape(-1), self._width, first, last)

            self._over_chunks(add_up, alone=alone)
            _newton_vectors(self.reduce(self._sums[:, :n_leaves].sum(axis=0)), rules, only, values)
            _set_growth(values, self._growth)
        self._waiting = leaves
        return values

    def move_by(self, leaves: AnyArray, values: Floats) -> None:
        """Let a tree with these leaf vectors act on the rows, in the next pass over them."""
        self._settle()
        _set_growth(values, self._growth)
        self._waiting = leaves

    def mean_hessian(self) -> Floats:
        """Mean over samples of the Hessian of the loss, diag(p) - p p', shape (n_classes, n_classes).

        From some samples that lie evenly apart, if there are many: it is needed only roughly.
        """
        self._settle()
        n_samples, n_classes = self._labels.size, self._n_classes
        n_wanted = max(_FEWEST_HESSIANS, _HESSIAN_ENTRIES // n_classes**2)
        step = max(-(-n_samples // n_wanted), 1)
        sums = np.zeros((n_classes + 1, n_classes))  # the last row: the weight of the samples
        sums[-1, 0] = _add_up_hessians(self._rows, self._weights, step, sums[:-1])
        sums = self.reduce(sums)
        return sums[:-1] / sums[-1, 0]

    def loss(self) -> float:
        """Total weighted log loss."""
        return self.derive(*self._no_directions)

    def derive(self, directions: Floats, z: Derivatives, h: Derivatives) -> float:
        """Derivatives along directions of class space.

        Parameters
        ----------
        directions : array of shape (n_directions, n_classes)
        z, h : arrays of DERIVATIVE, shape (n_directions, n_samples)
            Filled in: minus the weighted gradient of the loss along each direction, and its weighted curvature.

        Returns
        -------
        loss : float
            Total weighted log loss.
        """
        padded = np.zeros((directions.shape[0], self._width))
        padded[:, : self._n_classes] = directions
        groups = padded[: directions.shape[0] // LANES * LANES].reshape(-1, LANES, self._width)
        along = _Along(padded.reshape(-1), groups.transpose(0, 2, 1).reshape(-1), z, h)
        waiting = self._waiting
        samples = _Samples(self._flat_rows, self._labels, self._weights, waiting, self._flat_growth, waiting)
        losses = np.empty(len(self._chunks))

        def derive_chunk(chunk: int, first: int, last: int) -> None:
            losses[chunk] = _derive(samples, along, self._width, first, last)

        self._over_chunks(derive_chunk)
        self._waiting = self._waiting[:0]
        return float(self.reduce(losses.sum(keepdims=True))[0])


@part_of_kernel
def _move_row(rows, at, growth, leaf, width):
    """Multiply a row of probabilities by the growth of a leaf, and normalise it."""
    total = multiply_row(rows, at, growth, width * leaf, width)
    scale_row(rows, at, 1.0 / total, LEAST_PROBABILITY, width)


@kernel
def _move(rows, growth, waiting, width, first, last):
    """Let a tree act on the samples first..last - 1."""
    for i in range(first, last):
        _move_row(rows, width * i, growth, waiting[i], width)


@kernel
def _sum_leaves(samples, sums, width, first, last):
    """Let the tree before act on the samples first..last - 1, and sum r - p and p (1 - p) in every leaf."""
    # A width that the compiler knows: the numbers of a row stay in registers.
    if width == 4:
        _sum_leaves_of(samples, sums, 4, first, last)
    elif width == 8:
        _sum_leaves_of(samples, sums, 8, first, last)
    elif width == 12:
        _sum_leaves_of(samples, sums, 12, first, last)
    else:
        _sum_leaves_of(samples, sums, width, first, last)


@part_of_kernel
def _sum_leaves_of(samples, sums, width, first, last):
    rows, labels, weights, waiting, growth, leaves = samples
    for entry in range(sums.size):
        sums[entry] = 0.0
    for i in range(first, last):
        at, of_leaf = width * i, 2 * width * leaves[i]
        scale = 1.0
        if waiting.size > 0:
            scale = 1.0 / multiply_row(rows, at, growth, width * waiting[i], width)
        add_newton_terms(rows, at, scale, LEAST_PROBABILITY, labels[i], weights[i], sums, of_leaf, width)


@summing_kernel
def _add_up_hessians(rows, weights, step, hessian):
    """Weighted sum of diag(p) - p p' over every `step`-th sample, and of their weights."""
    n_classes = hessian.shape[0]
    total = 0.0
    for i in range(0, rows.shape[0], step):
        row, weight = rows[i], weights[i]
        total += weight
        for k in range(n_classes):
            of_class = hessian[k]
            share = weight * row[k]
            for j in range(of_class.size):
                of_class[j] -= share * row[j]
            of_class[k] += share
    return total


@kernel
def _newton_vectors(sums, rules, only, values):
    """Clipped and shrunken Newton steps; 0 where the curvature vanishes.

    Those of all classes sum to zero; with `only` all classes but that one stay where they are.
    """
    n_leaves, n_classes = values.shape
    for leaf in range(n_leaves):
        total = 0.0
        for k in range(n_classes):
            below = sums[leaf, 1, k] + rules.reg_lambda
            residual = sums[leaf, 0, k]
            if rules.reg_alpha > 0.0:
                residual = np.copysign(max(abs(residual) - rules.reg_alpha, 0.0), residual)
            step = rules.factor * residual / below if below > 0.0 else 0.0
            step = rules.learning_rate * min(max(step, -rules.clip), rules.clip)
            step = min(max(step, -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
            values[leaf, k] = step if only < 0 or k == only else 0.0
            total += step
        if only >= 0:
            continue
        for k in range(n_classes):
            values[leaf, k] -= total / n_classes


@kernel
def _set_growth(values, growth):
    """What leaf vectors multiply probabilities by."""
    for leaf in range(values.shape[0]):
        for k in range(values.shape[1]):
            growth[leaf, k] = np.exp(values[leaf, k])


@kernel
def _set_vectors(samples, chunk_bounds, chunk_sums, rules, only, values, growth):
    """Sums of all chunks, leaf vectors and growth in one call: threads that meet in Python wait for each other."""
    n_chunks, _, _, width = chunk_sums.shape
    n_sums = values.shape[0] * 2 * width
    total = np.zeros(n_sums)
    for chunk in range(n_chunks):
        sums = chunk_sums[chunk].reshape(-1)[:n_sums]
        _sum_leaves(samples, sums, width, chunk_bounds[chunk], chunk_bounds[chunk + 1])
        total += sums
    _newton_vectors(total.reshape((-1, 2, width)), rules, only, values)
    _set_growth(values, growth)


@kernel
def _derive(samples, along, width, first, last):
    """Let the tree before act on the samples first..last - 1; their loss, and derivatives along the directions."""
    if width == 4:
        return _derive_rows(samples, along, 4, first, last)
    if width == 8:
        return _derive_rows(samples, along, 8, first, last)
    if width == 12:
        return _derive_rows(samples, along, 12, first, last)
    return _derive_rows(samples, along, width, first, last)


@part_of_kernel
def _derive_rows(samples, along, width, first, last):
    rows, labels, weights, waiting, growth, _ = samples
    directions, across, z, h = along
    n_across, n_samples = across.size // width, z.shape[1]
    flat_z, flat_h = z.reshape(-1), h.reshape(-1)
    loss = 0.0
    likelihood = 1.0  # of samples of weight 1, since the last logarithm: one for many of them
    for i in range(first, last):
        at, label, weight = width * i, labels[i], weights[i]
        if waiting.size > 0:
            _move_row(rows, at, growth, waiting[i], width)
        p = rows[at + label]
        if weight == 1.0 and p > _UNLIKELY:
            likelihood *= p
            if likelihood < _UNLIKELY:
                loss -= np.log(likelihood)
                likelihood = 1.0
        else:
            loss -= weight * np.log(p)
        # In units of v - v[label], which loses no digits where the label is almost certain.
        for t in range(0, n_across, LANES):
            set_derivatives(
                rows, at, across, width * t, label, weight, flat_z, flat_h, t * n_samples + i, n_samples, width
            )
        for t in range(n_across, z.shape[0]):
            mean, square = moments(rows, at, directions, width * t, directions[width * t + label], width)
            z[t, i] = -weight * mean
            h[t, i] = weight * max(square - mean * mean, 0.0)
    return loss - np.log(likelihood)
