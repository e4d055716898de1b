"""Influence trimming: grow a tree without the samples that hardly matter to it.

For the tree of class k with base class b only samples with a sizeable p_k or p_b say where to split. Those of the
smallest hessians are left out of the growth, not of the leaf values (Friedman, Hastie and Tibshirani 2000).

The label must not decide who stays: of many samples with p_k = 0.001 about one in a thousand is of class k. Kept for
its large residual while the others go, it looks like a certain gain; on Covertype that did three times the harm.
"""

from __future__ import annotations

import numpy as np

from abc_plugins.core.losses import derivatives
from abc_plugins.core.runtime.jit import kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK

_BITS = 3  # of the mantissa: eight buckets an octave
_SHIFT = 52 - _BITS
_LOWEST = (1023 - 48) << _BITS  # hessians below 2**-48 share a bucket
_N_BUCKETS = 50 << _BITS  # none is above 1


@kernel
def choose_rows(probabilities, labels, weights, plus, minus, sample, trim, rows, spare):
    """Put the samples to grow a tree from to the front of `rows`, increasing, and all others behind them.

    Parameters
    ----------
    probabilities : array of shape (n_classes, n_samples)
    labels, weights : arrays of shape (n_samples,)
    plus, minus : int
    sample : array of uint32
        The samples drawn for this round, increasing.
    trim : float
        Those of the smallest hessians that hold together at most this share of the sample's are left out.
    rows, spare : arrays of uint32, shape (n_samples,)
        Filled in; work space.

    Returns
    -------
    n_kept : int
    """
    least = _mark_buckets(probabilities, labels, weights, plus, minus, sample, trim, spare)
    n_kept = 0
    next_rest = rows.size - 1
    for i in range(rows.size):
        # Written to both ends without a branch: which one counts is decided by which index moves on.
        rows[n_kept] = i
        rows[next_rest] = i
        kept = spare[i] >= least
        n_kept += kept
        next_rest -= 1 - kept
    return n_kept


@kernel
def _mark_buckets(probabilities, labels, weights, plus, minus, sample, trim, marks):
    """Write the bucket of each sample's hessian to `marks`, 0 for those not drawn; return the lowest to keep."""
    z = np.empty(ROWS_PER_BLOCK)
    h = np.empty(ROWS_PER_BLOCK)
    hessians = np.zeros((_N_BUCKETS, 2))  # two sets of sums: neighbours in the same bucket would wait for each other
    next_drawn = np.int64(0)
    for start in range(0, labels.size, ROWS_PER_BLOCK):
        stop = min(start + ROWS_PER_BLOCK, labels.size)
        derivatives(probabilities, labels, weights, plus, minus, start, stop, z, h)
        block_marks = marks[start:stop]
        _find_buckets(h, weights[start:stop], block_marks)
        if sample.size < labels.size:
            next_drawn = _erase_others(sample, next_drawn, start, block_marks)
        for i in range(block_marks.size):
            hessians[block_marks[i], i & 1] += h[i]
    return _lowest_kept(hessians, trim)


@kernel
def _find_buckets(h, weights, buckets):
    """The buckets of the samples of a block, counted from 1."""
    for i in range(buckets.size):
        hessian = h[i] / weights[i]  # of one of the samples that the weight stands for
        bucket = np.int64(np.float64(hessian).view(np.int64) >> _SHIFT) - _LOWEST
        buckets[i] = bucket + 1 if bucket > 0 else 1


@kernel
def _erase_others(sample, next_drawn, start, buckets):
    """Set the buckets of samples that were not drawn to 0; return the index of the next drawn one."""
    for i in range(buckets.size):
        drawn = next_drawn < sample.size and sample[next_drawn] == start + i
        buckets[i] *= drawn
        next_drawn += drawn
    return next_drawn


@kernel
def _lowest_kept(hessians, trim):
    """The lowest bucket to keep, such that those below it hold at most a share `trim`; bucket 0 does not count."""
    total = 0.0
    for bucket in range(1, hessians.shape[0]):
        total += hessians[bucket, 0] + hessians[bucket, 1]
    dropped = 0.0
    for bucket in range(1, hessians.shape[0]):
        dropped += hessians[bucket, 0] + hessians[bucket, 1]
        if dropped > trim * total:
            return bucket
    return 1
