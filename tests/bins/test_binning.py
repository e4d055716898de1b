"""Binning: bins, edges and codes against what NumPy says of the raw values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abc_plugins.core.bins.binning import bin_features, find_bins
from abc_plugins.core.runtime.parallel import Workers


def codes_of(column, feature):
    """A plain twin of the binning kernel."""
    return np.where(np.isnan(column), feature.n_bins, np.searchsorted(feature.edges, column))


def bin_columns(X, weights=None, max_bins=255, n_threads=1):
    with Workers(n_threads) as workers:
        return bin_features(X, weights, max_bins, workers)


any_float = st.floats(allow_nan=True, allow_infinity=False, width=64)


@given(st.lists(any_float, min_size=1, max_size=60), st.integers(2, 255))
def test_codes_keep_the_order_and_edges_part_the_values(values, max_bins):
    column = np.array(values)
    (feature,), codes = bin_columns(column[:, None], max_bins=max_bins)
    present = column[~np.isnan(column)]
    distinct = np.unique(present)
    assert feature.has_missing == (present.size < column.size)
    assert np.isfinite(feature.edges).all()
    assert np.all(np.diff(feature.edges) > 0)
    np.testing.assert_array_equal(codes[0], codes_of(column, feature))
    # Every bin of present values is used, from the first to the last.
    assert set(codes[0][~np.isnan(column)]) == (set(range(feature.n_bins)) if present.size else set())
    if distinct.size <= max_bins:
        assert feature.n_bins == max(1, distinct.size)
    else:
        assert 2 <= feature.n_bins <= max_bins


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1.0, 1e300])
def test_neighbouring_numbers_stay_apart(scale):
    """Also where the middle of two numbers rounds to one of them."""
    column = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) * scale
    column = np.unique([*column, *np.nextafter(column, np.inf)])
    (feature,), codes = bin_columns(column[:, None])
    np.testing.assert_array_equal(codes[0], np.arange(column.size))
    assert feature.threshold(0) == feature.edges[0]
    assert feature.threshold(feature.n_bins - 1) == np.inf


def test_the_largest_numbers_have_a_middle():
    largest = np.finfo(np.float64).max
    assert find_bins(np.array([-largest, largest]), None, 255).edges.tolist() == [0.0]
    assert find_bins(np.array([largest / 2, largest]), None, 255).edges.tolist() == [0.75 * largest]


def test_zeros_of_both_signs_are_one_value():
    assert find_bins(np.array([0.0, -0.0, 1.0]), None, 255).edges.tolist() == [0.5]


@pytest.mark.parametrize(("column", "has_missing"), [([3.0, 3.0], False), ([np.nan, 3.0], True), ([np.nan] * 2, True)])
def test_a_column_without_two_values_has_one_bin(column, has_missing):
    feature = find_bins(np.array(column), None, 255)
    assert (feature.n_bins, feature.has_missing) == (1, has_missing)


@pytest.mark.parametrize("max_bins", [2, 7, 64, 255])
def test_bins_hold_about_equal_shares(max_bins):
    column = np.random.default_rng(0).normal(size=5000)
    (feature,), codes = bin_columns(column[:, None], max_bins=max_bins)
    counts = np.bincount(codes[0])
    assert feature.n_bins == max_bins
    assert counts.max() - counts.min() <= 2


def test_a_frequent_value_does_not_use_up_the_bins_of_others():
    column = np.concatenate([np.zeros(9000), np.arange(1.0, 1001.0)])
    (feature,), codes = bin_columns(column[:, None], max_bins=11)
    counts = np.bincount(codes[0])
    assert feature.n_bins == 11
    assert counts[0] == 9000
    assert counts[1:].max() <= 110


@pytest.mark.parametrize("max_bins", [5, 255])
def test_a_weight_is_a_number_of_rows(max_bins):
    rng = np.random.default_rng(1)
    column = rng.normal(size=400)
    column[rng.random(400) < 0.1] = np.nan
    weights = rng.integers(1, 5, 400)
    one = find_bins(column, weights.astype(float), max_bins)
    other = find_bins(column.repeat(weights), None, max_bins)
    np.testing.assert_array_equal(one.edges, other.edges)


def test_heavy_samples_get_bins_of_their_own():
    column = np.arange(100.0)
    weights = np.where(column < 90, 1.0, 1000.0)
    edges = find_bins(column, weights, 12).edges
    assert set(np.arange(90.5, 99)) <= set(edges)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint64, np.bool_])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_layout_and_number_of_threads(dtype, order):
    X = (10 * np.random.default_rng(0).random((50, 6))).astype(dtype)
    expected, expected_codes = bin_columns(X.astype(np.float64))
    X = np.asarray(X, order=order)
    X.setflags(write=False)
    features, codes = bin_columns(X, n_threads=3)
    np.testing.assert_array_equal(codes, expected_codes)
    for one, other in zip(features, expected, strict=True):
        np.testing.assert_array_equal(one.edges, other.edges)


def test_255_bins_and_missing_values_fit_into_a_byte():
    column = np.append(np.arange(255.0), np.nan)
    (feature,), codes = bin_columns(column[:, None])
    assert feature.n_bins == 255
    np.testing.assert_array_equal(codes[0], np.arange(256))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "f4", "f8"])
@pytest.mark.parametrize("max_bins", [7, 255])
def test_integers_are_binned_like_any_number(dtype, max_bins):
    limits = np.iinfo(dtype if dtype[0] in "iu" and dtype != "i4" else "i2")
    rng = np.random.default_rng(0)
    few = rng.integers(-3 if limits.min < 0 else 0, 4, 5000)
    many = rng.integers(limits.min, limits.max, 5000, endpoint=True)
    many[:2] = limits.min, limits.max
    X = np.column_stack([few, many, np.full(5000, 5), many // 2]).astype(dtype)
    features, codes = bin_columns(X, max_bins=max_bins)
    for f, feature in enumerate(features):
        column = X[:, f].astype(float)
        np.testing.assert_array_equal(feature.edges, find_bins(column, None, max_bins).edges)
        assert not feature.has_missing
        np.testing.assert_array_equal(codes[f], codes_of(column, feature))


@pytest.mark.parametrize("odd", [0.5, np.nan, 32768.0, -32769.0, 1e300])
def test_a_single_value_that_is_no_small_integer(odd):
    column = np.random.default_rng(0).integers(-5, 5, 1000).astype(float)
    column[-1] = odd
    (feature,), codes = bin_columns(column[:, None])
    np.testing.assert_array_equal(codes[0], codes_of(column, feature))
    assert feature.has_missing == np.isnan(odd)
    assert feature.n_bins == 10 + (not np.isnan(odd))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_every_column_is_its_own(order, n_threads):
    """With more rows and columns than are copied at a time."""
    X = np.random.default_rng(0).normal(size=(9000, 37))
    X[:, ::3] = np.round(X[:, ::3] * 5)
    features, codes = bin_columns(np.asarray(X, order=order), n_threads=n_threads)
    for f, feature in enumerate(features):
        np.testing.assert_array_equal(feature.edges, find_bins(X[:, f].copy(), None, 255).edges)
        np.testing.assert_array_equal(codes[f], codes_of(X[:, f], feature))


def test_rare_values_beside_a_dominant_one_share_bins():
    rare = np.arange(1.0, 201.0)
    column = np.concatenate([np.zeros(9800), rare])
    (feature,), codes = bin_columns(column[:, None])
    assert feature.n_bins == 201 // 4
    assert np.unique(codes[0][column == 0.0]).size == 1
    assert np.bincount(codes[0][column > 0.0])[1:].max() <= 6
    assert find_bins(np.concatenate([np.zeros(980), rare[:15]]), None, 255).n_bins == 16
    assert find_bins(np.concatenate([np.zeros(900), rare]), None, 255).n_bins == 201  # not that rare
