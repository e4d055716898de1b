"""Fixed-point derivatives: close to the real ones, exact in sums, and never out of range."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abc_plugins.core.losses import derivatives
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.trees.fixedpoint import PairSamples, to_fixed_point, to_float, weigh


def real_derivatives(probabilities, labels, weights, plus, minus):
    z, h = np.empty(labels.size), np.empty(labels.size)
    derivatives(probabilities, labels, weights, plus, minus, 0, labels.size, z, h)
    return z, h


def scaled(probabilities, labels, weights, plus, minus):
    """z, weight and h of every sample as integers, and what one unit of each is worth."""
    units = weigh(weights)
    cells = np.empty((labels.size, 2), dtype=np.int64)
    cell_units = np.empty(2)
    samples = PairSamples(probabilities, labels, weights, units.units)
    to_fixed_point(samples, plus, minus, units.hessian_bits, cell_units, cells)
    z_unit, h_unit = cell_units
    mask = (1 << units.hessian_bits) - 1
    return cells[:, 0], cells[:, 1] >> units.hessian_bits, cells[:, 1] & mask, z_unit, units.per_unit, h_unit


def draw(n_samples, weight_exponents, sharpness, seed):
    rng = np.random.default_rng(seed)
    scores = sharpness * rng.normal(size=(4, n_samples))
    exponentials = np.exp(scores - scores.max(axis=0))
    low, high = weight_exponents
    weights = 10.0 ** rng.uniform(low, high, n_samples)
    return exponentials / exponentials.sum(axis=0), rng.integers(0, 4, n_samples).astype(np.int32), weights


@given(
    st.integers(1, 3000),
    st.sampled_from([(0, 0), (-1, 1), (-98, -97), (96, 97), (-30, 30)]),
    st.sampled_from([0.0, 1.0, 30.0, 1000.0]),
    st.sampled_from([(0, CLASSIC), (2, 1)]),
    st.integers(0, 100),
)
def test_every_sum_is_close_and_in_range(n_samples, weight_exponents, sharpness, pair, seed):
    probabilities, labels, weights = draw(n_samples, weight_exponents, sharpness, seed)
    z, h = real_derivatives(probabilities, labels, weights, *pair)
    z_cells, w_cells, h_cells, z_unit, w_unit, h_unit = scaled(probabilities, labels, weights, *pair)
    assert np.all(h_cells >= 0)
    assert np.all(w_cells >= 1)
    # Sums over any samples must be floats without rounding, and h must not reach into the weights.
    assert np.abs(z_cells).sum() < 2**51
    assert h_cells.sum() < min(2**51, 2 ** weigh(weights).hessian_bits)
    assert int(w_cells.sum()) << weigh(weights).hessian_bits < 2**62
    for cells, unit, real in ((z_cells, z_unit, z), (h_cells, h_unit, h)):
        if unit > 0:
            assert np.all(np.abs(cells * unit - real) <= 0.5000001 * unit)
            assert unit <= 2.0**-28 * np.abs(real).sum() or np.abs(real).sum() < 1e-290
    assert np.all(np.abs(w_cells * w_unit - weights) <= w_unit)


def test_whole_weights_are_exact():
    weights = np.array([1.0, 2.0, 2.0**30, 3.0])
    units = weigh(weights)
    assert units.per_unit == 1.0
    np.testing.assert_array_equal(units.units, weights)


@pytest.mark.parametrize("total", [1e-100, 1e-3, 2.0**31, 1e100])
def test_other_weights_have_28_bits(total):
    weights = np.random.default_rng(0).random(1000)
    weights *= total / weights.sum()
    units = weigh(weights)
    assert 2**27 <= units.units.sum() <= 2**28 + 1000
    np.testing.assert_allclose(units.units * units.per_unit, weights, atol=total * 2.0**-27)


def test_a_vanishing_weight_still_counts():
    assert weigh(np.array([1e-30, 1.0, 0.5])).units.min() == 1


@pytest.mark.parametrize("pair", [(0, 1), (3, 2)])
def test_swapped_pairs_are_negated_bit_for_bit(pair):
    probabilities, labels, weights = draw(2500, (-1, 1), 3.0, 5)
    plus, minus = pair
    one, other = (
        scaled(probabilities, labels, weights, plus, minus),
        scaled(probabilities, labels, weights, minus, plus),
    )
    np.testing.assert_array_equal(one[0], -other[0])
    for mine, theirs in zip(one[1:], other[1:], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_nothing_left_to_learn():
    """All derivatives 0: no scale, and no division by it."""
    probabilities = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    z, _, h, z_unit, _, h_unit = scaled(probabilities, np.array([0, 1], dtype=np.int32), np.ones(2), 0, CLASSIC)
    assert (z_unit, h_unit) == (0.0, 0.0)
    assert not z.any()
    assert not h.any()


@given(st.integers(-(2**51) + 1, 2**51 - 1))
def test_sums_become_floats_without_rounding(number):
    assert to_float(np.int64(number)) == float(number)
