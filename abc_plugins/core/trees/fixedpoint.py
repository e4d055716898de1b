"""Derivatives as fixed-point integers, so that histograms are exact.

Sums of integers do not depend on the order of the terms: a parent minus one child is the other child to the last
bit, and any split of the work over threads gives the same trees. A histogram cell is two int64:

* cell[0]: the sum of residuals z,
* cell[1]: the sum of weights in the high bits and of hessians h in the low `hessian_bits` bits.

Trees that need no weights have *packed* cells, one int64 each: residuals in the high half, hessians in the low half.

Scales are powers of two chosen from the totals of each tree, so that no sum can overflow and as many bits as
possible are used: with 10,000 samples a hessian is resolved to about 2**-33 of the mean one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.losses import derivatives
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK

_CELL_BITS = 62  # of an int64: one for the sign, one to spare
_FRACTION_WEIGHT_BITS = 28
_SUM_BITS = 50  # of a sum: few enough for it to be a float64 without rounding
_PACKED_BITS = 31  # of either sum of a packed cell
PACKED_SHIFT = 32
PACKED_MASK = 2**32 - 1
_ROUNDER = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to the nearest integer, kept in the low bits


class WeightUnits(NamedTuple):
    """Sample weights as whole numbers of units.

    Attributes
    ----------
    units : array of int64, shape (n_samples,)
        At least 1 for every sample.
    per_unit : float
        Weight of one unit; 1 for whole-number weights.
    hessian_bits : int
        Bits of a cell that are left for hessians.
    """

    units: AnyArray
    per_unit: float
    hessian_bits: int


def count_rows(n_samples: int) -> WeightUnits:
    """Count every sample once, whatever it weighs."""
    return WeightUnits(np.ones(n_samples, dtype=np.int64), 1.0, _CELL_BITS - n_samples.bit_length())


def weigh(weights: Floats) -> WeightUnits:
    """Express positive sample weights in units: exactly if they are whole numbers, else to 28 bits of their total."""
    total = float(weights.sum())
    exact = total < 2**31 and bool(np.all(weights == np.rint(weights)))
    per_unit = 1.0 if exact else 2.0 ** (np.ceil(np.log2(total)) - _FRACTION_WEIGHT_BITS)
    units = np.maximum(np.rint(weights / per_unit), 1.0).astype(np.int64)
    return WeightUnits(units, per_unit, _CELL_BITS - int(units.sum()).bit_length())


@part_of_kernel
def _unit_of(total, bits):
    """A power of two of which `total` is at most 2**(bits - 1); 0 if there is nothing to count."""
    if not total > 0.0:
        return 0.0
    exponent = bits - np.ceil(np.log2(total)) - 1.0
    return 2.0 ** -min(max(exponent, -1000.0), 1000.0)


@part_of_kernel
def _round(x):
    """Nearest integer of a number below 2**51, without a branch: LLVM vectorises loops over it."""
    return np.float64(x + _ROUNDER).view(np.int64) - np.float64(_ROUNDER).view(np.int64)


@part_of_kernel
def to_float(sum_):
    """The float64 of a sum of less than 2**51, without rounding; LLVM vectorises it where it cannot a conversion."""
    return np.int64(sum_ + np.float64(_ROUNDER).view(np.int64)).view(np.float64) - _ROUNDER


@part_of_kernel
def _totals(z, h):
    """Sums of abs(z) and h, in four parts that do not wait for each other."""
    z0 = z1 = z2 = z3 = 0.0
    h0 = h1 = h2 = h3 = 0.0
    even = z.size // 4 * 4
    for i in range(0, even, 4):
        z0 += abs(z[i])
        z1 += abs(z[i + 1])
        z2 += abs(z[i + 2])
        z3 += abs(z[i + 3])
        h0 += h[i]
        h1 += h[i + 1]
        h2 += h[i + 2]
        h3 += h[i + 3]
    for i in range(even, z.size):
        z0 += abs(z[i])
        h0 += h[i]
    return (z0 + z1) + (z2 + z3), (h0 + h1) + (h2 + h3)


class PairSamples(NamedTuple):
    """What trees of a class and its base class are grown from.

    Attributes
    ----------
    probabilities : array of shape (n_classes, n_samples)
    labels, weights : arrays of shape (n_samples,)
    units : array of int64, shape (n_samples,)
        Weights, see `WeightUnits`.
    """

    probabilities: Floats
    labels: Integers
    weights: Floats
    units: AnyArray


@kernel
def to_fixed_point(samples, plus, minus, hessian_bits, cell_units, cells):
    """Write what every sample adds for one tree.

    The derivatives are computed twice, a block at a time: once for the scales and once to be scaled. That is faster
    than keeping them.

    Parameters
    ----------
    samples : PairSamples
    plus, minus, hessian_bits : int
    cell_units : array of shape (2,)
        Filled in: what one unit of the sums of z and of h is worth.
    cells : array of int64, shape (n_samples, 2)
        Filled in.
    """
    n_blocks = (samples.labels.size + ROWS_PER_BLOCK - 1) // ROWS_PER_BLOCK
    totals = np.empty((n_blocks, 2))
    total_blocks(samples, plus, minus, totals, 0, n_blocks)
    set_units(totals, hessian_bits, cell_units)
    scale_blocks(samples, plus, minus, hessian_bits, cell_units, cells, 0, n_blocks)


@kernel
def total_blocks(samples, plus, minus, totals, first_block, last_block):
    """Sums of abs(z) and h of some blocks of samples."""
    probabilities, labels, weights, _ = samples
    z = np.empty(ROWS_PER_BLOCK)
    h = np.empty(ROWS_PER_BLOCK)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, labels.size)
        derivatives(probabilities, labels, weights, plus, minus, start, stop, z, h)
        totals[block, 0], totals[block, 1] = _totals(z[: stop - start], h[: stop - start])


@kernel
def set_units(totals, hessian_bits, cell_units):
    """Choose what one unit of the sums is worth, from the totals of all blocks; 0 if there is nothing to add."""
    total_z = 0.0
    total_h = 0.0
    for block in range(totals.shape[0]):
        total_z += totals[block, 0]
        total_h += totals[block, 1]
    # Half a unit of rounding a sample stays below the spare bit.
    cell_units[0] = _unit_of(total_z, np.int64(_SUM_BITS))
    cell_units[1] = _unit_of(total_h, min(hessian_bits - 1, np.int64(_SUM_BITS)))


@kernel
def scale_blocks(samples, plus, minus, hessian_bits, cell_units, cells, first_block, last_block):
    """Write the cells of some blocks of samples."""
    probabilities, labels, weights, units = samples
    z_scale = 1.0 / cell_units[0] if cell_units[0] > 0.0 else 0.0  # a power of two
    h_scale = 1.0 / cell_units[1] if cell_units[1] > 0.0 else 0.0
    z = np.empty(ROWS_PER_BLOCK)
    h = np.empty(ROWS_PER_BLOCK)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, labels.size)
        derivatives(probabilities, labels, weights, plus, minus, start, stop, z, h)
        block_units = units[start:stop]
        block_cells = cells[start:stop]
        for i in range(stop - start):
            block_cells[i, 0] = _round(z[i] * z_scale)
            block_cells[i, 1] = (block_units[i] << hessian_bits) + _round(h[i] * h_scale)


@kernel
def scale_derivatives(z, h, units, hessian_bits, cell_units, cells):
    """Write what every sample adds for one tree, from derivatives along a direction.

    Parameters
    ----------
    z, h : arrays of shape (n_samples,)
    units : array of int64, shape (n_samples,)
    hessian_bits : int
    cell_units : array of shape (2,)
        Filled in: what one unit of the sums of z and of h is worth.
    cells : array of int64, shape (n_samples, 2)
        Filled in.
    """
    totals = np.empty((1, 2))
    totals[0, 0], totals[0, 1] = _totals(z, h)
    set_units(totals, hessian_bits, cell_units)
    z_scale = 1.0 / cell_units[0] if cell_units[0] > 0.0 else 0.0  # a power of two
    h_scale = 1.0 / cell_units[1] if cell_units[1] > 0.0 else 0.0
    for i in range(z.size):
        cells[i, 0] = _round(z[i] * z_scale)
        cells[i, 1] = (units[i] << hessian_bits) + _round(h[i] * h_scale)


@kernel
def pack_derivatives(z, h, cell_units, cells):
    """Write what every sample adds for one tree as packed cells, shape (n_samples,); else like `scale_derivatives`."""
    total_z, total_h = _totals(z, h)
    cell_units[0] = _unit_of(total_z, np.int64(_PACKED_BITS))
    cell_units[1] = _unit_of(total_h, np.int64(_PACKED_BITS))
    z_scale = 1.0 / cell_units[0] if cell_units[0] > 0.0 else 0.0  # a power of two
    h_scale = 1.0 / cell_units[1] if cell_units[1] > 0.0 else 0.0
    for i in range(z.size):
        cells[i] = (_round(z[i] * z_scale) << PACKED_SHIFT) + _round(h[i] * h_scale)


@part_of_kernel
def packed_z(cell):
    """Residuals of a packed cell, as a float64."""
    return to_float(cell >> PACKED_SHIFT)


@part_of_kernel
def packed_h(cell):
    """Hessians of a packed cell, as a float64."""
    return to_float(cell & PACKED_MASK)
