"""The parts of a round around an engine's trees, against plain NumPy."""

import numpy as np
import pytest

from abc_plugins.core.additions import LeafFinder, add_trees
from abc_plugins.core.driver import ABCScores
from abc_plugins.core.leaves import LeafRules
from abc_plugins.core.pairs import base_pairs, classic_pairs, distinct_pairs, pairs_of_base
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan


def softmax(scores):
    e = np.exp(scores - scores.max(axis=0))
    return e / e.sum(axis=0)


def naive_loss(scores, labels, weights):
    return -(weights * np.log(softmax(scores)[labels, np.arange(labels.size)])).sum()


def make_scores(n_classes=4, n_samples=3000, seed=0, threads=1, **schedule):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_samples)
    weights = rng.uniform(0.5, 2.0, n_samples)
    scores = rng.normal(size=(n_classes, n_samples))
    return ABCScores(labels, weights, scores, BaseClassSchedule(n_classes, **schedule), Workers(threads)), rng


@pytest.mark.parametrize(("candidates", "n_classes"), [((2,), 4), ((0, 3), 5), ((3, 1, 0, 2), 4)])
def test_a_search_grows_every_pair_once(candidates, n_classes):
    pairs = distinct_pairs(RoundPlan(candidates, centre=False), n_classes)
    s = len(candidates)
    assert len(pairs) == s * (n_classes - 1) - s * (s - 1) // 2
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    for base in candidates:
        others = [set(pairs[row]) - {base} for row in pairs_of_base(pairs, base)]
        assert others == [{k} for k in range(n_classes) if k != base]


def test_without_sharing_every_candidate_has_trees_of_its_own():
    pairs = distinct_pairs(RoundPlan((1, 2), centre=False), 4, shared=False)
    assert pairs == base_pairs(1, 4) + base_pairs(2, 4)
    assert pairs_of_base(pairs, 1) == [0, 1, 2]
    assert pairs_of_base(pairs, 2) == [3, 4, 5]


def test_gradients_are_those_of_the_loss():
    """Finite differences of the total loss along e_plus - e_minus, and e_k for a classic tree."""
    state, _ = make_scores(n_samples=40)
    pairs = [(0, 2), None, (3, 1), (1, CLASSIC)]
    gradients, hessians = np.full((5, 40), np.nan), np.full((5, 40), np.nan)
    state.gradients(pairs, gradients, hessians)
    for row in (1, 4):
        assert not gradients[row].any()
        assert not hessians[row].any()
    step = 1e-4
    for row, scale in ((0, 1.0), (2, 1.0), (3, 4 / 3)):
        plus, minus = pairs[row]
        for i in range(40):
            losses = []
            for size in (-step, 0.0, step):
                moved = state.scores.copy()
                moved[plus, i] += size
                if minus != CLASSIC:
                    moved[minus, i] -= size
                losses.append(naive_loss(moved, state.labels, state.weights))
            assert gradients[row, i] == pytest.approx((losses[2] - losses[0]) / (2 * step), abs=1e-6)
            second = (losses[2] - 2 * losses[1] + losses[0]) / step**2
            assert hessians[row, i] == pytest.approx(scale * second, abs=1e-4)


def test_swapping_a_pair_negates_the_gradient_bit_for_bit():
    state, _ = make_scores()
    gradients, hessians = np.empty((2, 3000), np.float32), np.empty((2, 3000), np.float32)
    state.gradients([(0, 3), (3, 0)], gradients, hessians)
    assert np.array_equal(gradients[0], -gradients[1])
    assert np.array_equal(hessians[0], hessians[1])


@pytest.mark.parametrize("threads", [1, 2])
def test_trial_and_accept(threads):
    state, rng = make_scores(threads=threads, warmup=0)
    before = state.scores.copy()
    pairs = distinct_pairs(RoundPlan((1, 2), centre=False), 4)
    additions = 0.1 * rng.normal(size=(len(pairs), 3000))
    for base in (1, 2):
        rows = pairs_of_base(pairs, base)
        expected = before.copy()
        for row in rows:
            expected[pairs[row][0]] += 0.5 * additions[row]
            expected[pairs[row][1]] -= 0.5 * additions[row]
        loss = state.trial_loss(pairs, additions, rows, 0.5)
        assert loss == pytest.approx(naive_loss(expected, state.labels, state.weights), rel=1e-12)
        assert np.array_equal(state.scores, before)
    assert state.guarded_factor(pairs, 0.5 * additions, rows, guard=False) == 1.0
    state.accept(2)
    np.testing.assert_allclose(state.scores, expected, atol=1e-14)
    np.testing.assert_allclose(state.probabilities, softmax(expected), atol=1e-14)
    assert state.loss == pytest.approx(loss)
    assert state.schedule.bases == (2,)
    outside = before.copy()
    add_trees(outside, pairs, additions, rows, 0.5)
    np.testing.assert_allclose(outside, expected, atol=1e-14)


def test_guard_halves_until_the_loss_falls():
    state, _ = make_scores(warmup=0)
    pairs = base_pairs(0, 4)
    gradients, hessians = np.empty((3, 3000)), np.empty((3, 3000))
    state.gradients(pairs, gradients, hessians)
    newton = np.empty_like(gradients)
    newton[:] = (-gradients.sum(axis=1) / hessians.sum(axis=1))[:, None]  # one leaf a tree
    good = state.guarded_factor(pairs, 0.05 * newton, range(3))
    assert good == 1.0
    factor = state.guarded_factor(pairs, 30.0 * newton, range(3))
    assert 0.0 < factor < 1.0
    assert state.trial_loss(pairs, 30.0 * newton, range(3), factor) <= state.loss
    assert state.trial_loss(pairs, 30.0 * newton, range(3), 2 * factor) > state.loss
    assert state.guarded_factor(pairs, -newton, range(3)) == 0.0
    assert state.guarded_factor(pairs, -newton, range(3), guard=False) == 1.0
    assert state.guarded_factor(pairs, np.full_like(newton, np.nan), range(3), guard=False) == 0.0


def naive_renewal(scores, labels, weights, pairs, rows, base, leaf_ids, n_leaves, step):
    scores, values, n_classes = scores.copy(), [], len(scores)
    for row in rows:
        (k,) = set(pairs[row]) - {base}
        p = softmax(scores)
        if base == CLASSIC:
            z = (n_classes - 1) / n_classes * weights * ((labels == k) - p[k])
            h = weights * p[k] * (1 - p[k])
        else:
            z = weights * (((labels == k) - p[k]) - ((labels == base) - p[base]))
            h = weights * (p[base] * (1 - p[base]) + p[k] * (1 - p[k]) + 2 * p[base] * p[k])
        value = np.zeros(n_leaves)
        for leaf in range(n_leaves):
            inside = leaf_ids[row] == leaf
            if inside.any():
                total = np.sign(z[inside].sum()) * max(abs(z[inside].sum()) - step.reg_alpha, 0)
                newton = total / (h[inside].sum() + step.reg_lambda)
                value[leaf] = step.learning_rate * np.clip(newton, -step.clip, step.clip)
        scores[k] += value[leaf_ids[row]]
        if base != CLASSIC:
            scores[base] -= value[leaf_ids[row]]
        values.append(value if pairs[row][1] == base else -value)
    return np.array(values)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "step", [LeafRules(1.0, 0.0, 4.0, 0.1), LeafRules(1.0, 0.7, np.inf, 1.0, 0.3), LeafRules(1.0, 0.0, 0.2, 0.5)]
)
def test_renewal_agrees_with_numpy(step, threads):
    state, rng = make_scores(n_classes=5, threads=threads)
    pairs = distinct_pairs(RoundPlan((3, 0), centre=False), 5)
    leaf_ids = rng.integers(0, 6, (len(pairs), 3000)).astype(np.uint16)
    leaf_ids[:, :200] = state.labels[:200]  # some leaves with a preference
    for base in (3, 0, CLASSIC):
        if base == CLASSIC:
            pairs = classic_pairs(5)
        rows = range(5) if base == CLASSIC else pairs_of_base(pairs, base)
        if base == CLASSIC and step.reg_alpha:
            continue  # the penalty is for sums without the factor
        values = state.renewed_values(pairs, rows, leaf_ids, 7, step)
        expected = naive_renewal(state.scores, state.labels, state.weights, pairs, rows, base, leaf_ids, 7, step)
        np.testing.assert_allclose(values, expected, atol=1e-10)
        assert not values[:, 6].any()


def test_leaves_are_found_from_scores():
    rng = np.random.default_rng(1)
    for n_leaves in (1, 2, 3, 8, 31):
        values = rng.normal(size=n_leaves)
        if n_leaves > 4:
            values[3] = values[1]  # clipped leaves share their value
        leaves = rng.integers(0, n_leaves, 500)
        scores = 100 * rng.normal(size=500)
        finder = LeafFinder(values)
        found = np.empty(500, np.uint16)
        finder.find((scores + values[leaves]) - scores, found)
        assert np.array_equal(found, finder.group[leaves])
        assert np.unique(finder.group).size == np.unique(values).size


def test_scores_are_centred_before_the_first_round_with_a_base():
    state, _ = make_scores(warmup=1)
    assert state.plan().is_classic
    assert np.abs(state.scores.sum(axis=0)).max() > 0.1
    pairs = classic_pairs(4)
    assert state.guarded_factor(pairs, np.zeros((4, 3000)), range(4)) == 1.0
    state.accept(CLASSIC)
    probabilities = softmax(state.scores)
    assert not state.plan().is_classic
    assert np.abs(state.scores.sum(axis=0)).max() < 1e-12
    np.testing.assert_allclose(softmax(state.scores), probabilities, atol=1e-14)
