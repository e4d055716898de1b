"""Softmax, losses and derivatives of the native core, against NumPy and the oracle."""

import math

import naive
import numpy as np
import pytest

from abc_plugins.core.losses import (
    centre,
    derivatives,
    exp_nonpositive,
    starting_class_losses,
    starting_scores,
    update_probabilities,
)
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers
from abc_plugins.core.schedule import CLASSIC


def random_case(n_classes, n_samples, scale=3.0, seed=0):
    """Scores of shape (n_classes, n_samples), labels and weights."""
    rng = np.random.default_rng([seed, n_classes, n_samples])
    scores = rng.normal(scale=scale, size=(n_classes, n_samples))
    return scores, rng.integers(0, n_classes, n_samples).astype(np.int32), rng.uniform(0.1, 2.0, n_samples)


def softmax_and_losses(scores, labels, weights, n_threads=1):
    probabilities = np.full_like(scores, np.nan)
    with Workers(n_threads) as workers:
        losses = update_probabilities(scores, labels, weights, probabilities, workers)
    return probabilities, losses


def residuals_and_hessians(probabilities, labels, weights, plus, minus):
    z, h = np.full(labels.size, np.nan), np.full(labels.size, np.nan)
    derivatives(probabilities, labels, weights, plus, minus, 0, labels.size, z, h)
    return z, h


class TestExponential:
    def test_is_right_to_about_one_unit_in_the_last_place(self):
        x = np.concatenate(
            [-np.geomspace(1e-300, 708, 20_000), np.linspace(-708, 0, 20_001), -np.log(2) * np.arange(99)]
        )
        computed = np.array([exp_nonpositive(value) for value in x])
        exact = np.exp(x)  # itself within one unit
        assert np.max(np.abs(computed - exact) / np.spacing(exact)) <= 2.0

    def test_is_one_at_zero(self):
        assert exp_nonpositive(0.0) == exp_nonpositive(-0.0) == 1.0

    @pytest.mark.parametrize("x", [-708.5, -745.2, -1e6, -1e300, -math.inf])
    def test_is_tiny_but_not_zero_far_out(self, x):
        assert exp_nonpositive(x) == exp_nonpositive(-708.0)
        assert 0.0 < exp_nonpositive(x) < 1e-300


class TestSoftmax:
    @pytest.mark.parametrize("n_classes", [2, 3, 26])
    @pytest.mark.parametrize("n_samples", [1, 7, ROWS_PER_BLOCK, ROWS_PER_BLOCK + 1, 3 * ROWS_PER_BLOCK - 1])
    def test_equals_numpy(self, n_classes, n_samples):
        scores, labels, weights = random_case(n_classes, n_samples)
        probabilities, losses = softmax_and_losses(scores, labels, weights)
        np.testing.assert_allclose(probabilities, naive.softmax(scores.T).T, rtol=1e-14)
        np.testing.assert_allclose(losses, naive.class_losses(scores.T, labels, weights), rtol=1e-12)

    def test_extreme_scores(self):
        scores = np.array(
            [[700.0, -700, 0, 700, -700, 1e6], [-700.0, 700, 0, 700, -700, 0], [0.0, 0, 0, 700, 700, -1e6]]
        )
        labels = np.array([0, 0, 1, 2, 0, 2], dtype=np.int32)
        probabilities, losses = softmax_and_losses(scores, labels, np.ones(6))
        assert np.all((probabilities >= 0) & (probabilities <= 1))
        np.testing.assert_allclose(probabilities.sum(axis=0), 1.0, rtol=1e-15)
        np.testing.assert_allclose(probabilities, naive.softmax(scores.T).T, rtol=1e-14, atol=1e-300)
        np.testing.assert_allclose(losses, naive.class_losses(scores.T, labels, np.ones(6)), rtol=1e-14)

    def test_adding_the_same_to_all_scores_changes_nothing(self):
        scores, labels, weights = random_case(5, 300)
        shifted = scores + np.random.default_rng(1).normal(scale=100, size=300)
        probabilities, losses = softmax_and_losses(scores, labels, weights)
        other_probabilities, other_losses = softmax_and_losses(shifted, labels, weights)
        np.testing.assert_allclose(probabilities, other_probabilities, rtol=1e-12)
        np.testing.assert_allclose(losses, other_losses, rtol=1e-12)

    def test_a_class_without_samples_has_no_loss(self):
        scores, labels, weights = random_case(4, 50)
        labels[labels == 2] = 3
        assert softmax_and_losses(scores, labels, weights)[1][2] == 0.0

    @pytest.mark.parametrize("n_threads", [2, 3, 4])
    def test_does_not_depend_on_the_number_of_threads(self, n_threads):
        case = random_case(6, 5 * ROWS_PER_BLOCK + 17)
        for one, several in zip(softmax_and_losses(*case), softmax_and_losses(*case, n_threads), strict=True):
            np.testing.assert_array_equal(one, several)


class TestDerivatives:
    @pytest.mark.parametrize("n_classes", [2, 3, 7])
    def test_equal_the_oracle_for_every_class_and_base(self, n_classes):
        scores, labels, weights = random_case(n_classes, 200)
        p, _ = softmax_and_losses(scores, labels, weights)
        for plus in range(n_classes):
            z, h = naive.classic_derivatives(p.T, labels, plus)
            computed = residuals_and_hessians(p, labels, weights, plus, CLASSIC)
            np.testing.assert_allclose(computed, [weights * z, weights * h], rtol=1e-14, atol=1e-300)
            for minus in set(range(n_classes)) - {plus}:
                z, h = naive.abc_derivatives(p.T, labels, plus, minus)
                computed = residuals_and_hessians(p, labels, weights, plus, minus)
                np.testing.assert_allclose(computed, [weights * z, weights * h], rtol=1e-12, atol=1e-15)

    @pytest.mark.parametrize("minus", [CLASSIC, 2])
    def test_samples_that_are_right_but_for_rounding_have_none(self, minus):
        rest = np.array([1e-30, 1e-17, 1e-15, 1e-13, 1e-9])
        p = np.array([1.0 - 2.0 * rest, rest, rest])
        z, h = residuals_and_hessians(p, np.zeros(5, np.int32), np.ones(5), 0, minus)
        assert (h[:3] == 0.0).all()
        assert (z[:3] == 0.0).all()
        assert (h[3:] > 1e-14).all()
        assert (z[3:] > 0.0).all()

    @pytest.mark.parametrize("minus", [CLASSIC, 2])
    def test_samples_that_are_wrong_with_certainty_keep_their_residual(self, minus):
        rest = np.array([1e-30, 1e-17, 1e-15])
        p = np.array([1.0 - 2.0 * rest, rest, rest])
        z, _ = residuals_and_hessians(p, np.ones(3, np.int32), np.ones(3), 0, minus)
        np.testing.assert_allclose(z, -1.0, rtol=1e-12)
        z, _ = residuals_and_hessians(p, np.ones(3, np.int32), np.ones(3), 1, minus)
        np.testing.assert_allclose(z, 1.0, rtol=1e-12)

    @pytest.mark.parametrize("scale", [0.1, 3.0, 300.0])
    def test_swapping_class_and_base_negates_and_keeps_bit_for_bit(self, scale):
        scores, labels, weights = random_case(5, 500, scale)
        p, _ = softmax_and_losses(scores, labels, weights)
        for plus in range(5):
            for minus in range(plus):
                z, h = residuals_and_hessians(p, labels, weights, plus, minus)
                other_z, other_h = residuals_and_hessians(p, labels, weights, minus, plus)
                np.testing.assert_array_equal(z, -other_z)
                np.testing.assert_array_equal(h, other_h)

    def test_hessians_of_extreme_scores_are_finite_and_not_negative(self):
        scores, labels, weights = random_case(4, 2000, scale=300.0)
        p, _ = softmax_and_losses(scores, labels, weights)
        assert np.any(p == 1.0)
        for plus in range(4):
            for minus in {CLASSIC, 0, 1, 2, 3} - {plus}:
                z, h = residuals_and_hessians(p, labels, weights, plus, minus)
                assert np.all(np.isfinite(z))
                assert np.all(h >= 0)
                assert np.all(h <= weights)


class TestStart:
    def test_class_losses_at_equal_scores(self):
        labels, weights = random_case(4, 100)[1:]
        _, losses = softmax_and_losses(np.zeros((4, 100)), labels, weights)
        np.testing.assert_allclose(starting_class_losses(labels, weights, np.zeros(4)), losses, rtol=1e-13)

    def test_class_losses_at_any_scores(self):
        labels, weights = random_case(4, 100)[1:]
        scores = np.array([800.0, 799.0, 0.0, -800.0])
        _, losses = softmax_and_losses(np.tile(scores[:, None], 100), labels, weights)
        np.testing.assert_allclose(starting_class_losses(labels, weights, scores), losses, rtol=1e-13)

    def test_classes_of_equal_weight_tie_exactly(self):
        # 3 + 1 + 1 + 1 and 2 + 2 + 2: sums of single losses would differ in their last bits
        labels = np.array([0, 0, 0, 0, 1, 1, 1], dtype=np.int32)
        losses = starting_class_losses(labels, np.array([3.0, 1, 1, 1, 2, 2, 2]), np.zeros(3))
        assert losses[0] == losses[1] == pytest.approx(6 * math.log(3))
        assert losses[2] == 0.0

    def test_priors(self):
        labels, weights = np.array([0, 1, 1, 3], dtype=np.int32), np.array([2.0, 1.0, 5.0, 2.0])
        scores = starting_scores(labels, weights, 4, "priors", smallest_leaf=1.0)
        np.testing.assert_allclose(scores - scores[0], np.log([1.0, 3.0, 0.25, 1.0]), atol=1e-15)  # half a leaf
        np.testing.assert_allclose(scores.sum(), 0.0, atol=1e-15)
        rarer = starting_scores(labels, weights, 4, "priors", smallest_leaf=100.0)
        np.testing.assert_allclose(rarer - rarer[0], np.log([1.0, 3.0, 0.5, 1.0]), atol=1e-15)  # half of the rarest
        assert not starting_scores(labels, weights, 4, "zero", smallest_leaf=1.0).any()


def test_centring_keeps_probabilities_and_makes_the_sum_zero():
    scores = random_case(5, 100)[0]
    centred = scores.copy()
    centre(centred)
    np.testing.assert_allclose(centred.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(centred - centred[0], scores - scores[0], atol=1e-12)
