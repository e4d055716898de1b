"""Scores of the training samples and the leaves told from them, against plain NumPy."""

import numpy as np
import pytest

from abc_plugins.core.additions import FoundLeaves, LeafFinder
from abc_plugins.core.leaves import Update, make_update
from abc_plugins.core.pairs import base_pairs, classic_pairs, distinct_pairs
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan
from abc_plugins.core.scores import PairScores

N = 3000


def softmax(scores):
    e = np.exp(scores - scores.max(axis=0))
    return e / e.sum(axis=0)


def naive_loss(scores, labels, weights):
    return -(weights * np.log(softmax(scores)[labels, np.arange(labels.size)])).sum()


def make_scores(n_classes=4, n_samples=N, seed=0, threads=1, **options):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_samples)
    weights = rng.uniform(0.5, 2.0, n_samples)
    start = rng.normal(size=(n_classes, n_samples))
    return PairScores(labels, weights, start, Workers(threads), **options), rng


def make_step(rng, pairs, grown, size=0.1):
    """Leaf values and leaves of trees with 7 leaves."""
    leaf_ids = rng.integers(0, 7, (len(grown), N)).astype(np.uint16)
    return make_update(pairs, grown, size * rng.normal(size=(len(grown), 7))), leaf_ids


def naive_scores(scores, update, leaf_ids, factor):
    moved = scores.copy()
    for tree, plus, minus, values in zip(*update, strict=True):
        moved[plus] += factor * values[leaf_ids[tree]]
        if minus != CLASSIC:
            moved[minus] -= factor * values[leaf_ids[tree]]
    return moved


@pytest.mark.parametrize(("candidates", "n_classes"), [((2,), 4), ((0, 3), 5), ((3, 1, 0, 2), 4)])
def test_a_search_grows_every_pair_once(candidates, n_classes):
    pairs = distinct_pairs(RoundPlan(candidates, centre=False), n_classes)
    s = len(candidates)
    assert len(pairs) == s * (n_classes - 1) - s * (s - 1) // 2
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    values = np.arange(1.0, len(pairs) + 1)[:, None]
    for base in candidates:
        update = make_update(base_pairs(base, n_classes), pairs, values)
        for tree, k, minus, (value,) in zip(*update, strict=True):
            assert minus == base
            assert value == (tree + 1 if pairs[tree] == (k, base) else -tree - 1)
            assert set(pairs[tree]) == {k, base}


def test_without_sharing_every_candidate_has_trees_of_its_own():
    pairs = distinct_pairs(RoundPlan((1, 2), centre=False), 4, shared=False)
    assert pairs == base_pairs(1, 4) + base_pairs(2, 4)
    values = np.ones((6, 1))
    assert make_update(base_pairs(1, 4), pairs, values).tree.tolist() == [0, 1, 2]
    assert make_update(base_pairs(2, 4), pairs, values).tree.tolist() == [3, 4, 5]
    assert (make_update(base_pairs(2, 4), pairs, values).values == 1.0).all()


def test_gradients_are_those_of_the_loss():
    """Finite differences of the total loss along e_plus - e_minus, and e_k for a classic tree."""
    state, _ = make_scores(n_samples=40)
    pairs = [(0, 2), None, (3, 1), (1, CLASSIC)]
    seen = np.arange(30)
    gradients, hessians = np.full((5, 40), np.nan), np.full((5, 40), np.nan)
    state.gradients(pairs, seen, gradients, hessians)
    for nothing in (gradients[[1, 4]], hessians[[1, 4]], gradients[:, 30:], hessians[:, 30:]):
        assert not nothing.any()
    step = 1e-4
    for row, scale in ((0, 1.0), (2, 1.0), (3, 4 / 3)):
        plus, minus = pairs[row]
        for i in seen:
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
    gradients, hessians = np.empty((2, N), np.float32), np.empty((2, N), np.float32)
    state.gradients([(0, 3), (3, 0)], np.arange(N), gradients, hessians)
    assert np.array_equal(gradients[0], -gradients[1])
    assert np.array_equal(hessians[0], hessians[1])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_is_tried_and_taken(threads):
    state, rng = make_scores(threads=threads)
    before = state.scores.copy()
    grown = distinct_pairs(RoundPlan((1, 2), centre=False), 4)
    for base in (1, 2):
        update, leaf_ids = make_step(rng, base_pairs(base, 4), grown)
        expected = naive_scores(before, update, leaf_ids, 1.0)
        loss = naive_loss(expected, state.labels, state.weights)
        half = np.where(np.arange(N) < 1000, state.weights, 0.0)
        rise, rise_of_some = state.rises(update, leaf_ids, state.weights, half)
        assert state.loss + rise == pytest.approx(loss, rel=1e-12)
        of_some = naive_loss(expected, state.labels, half) - naive_loss(before, state.labels, half)
        assert rise_of_some == pytest.approx(of_some, rel=1e-9)
        assert np.array_equal(state.scores, before)
    assert state.take(update, leaf_ids, guard=False) == 1.0
    np.testing.assert_allclose(state.scores, expected, atol=1e-14)
    np.testing.assert_allclose(state.probabilities, softmax(expected), atol=1e-14)
    assert state.loss == pytest.approx(loss)
    assert state.class_losses.sum() == pytest.approx(loss)


def test_guard_halves_until_the_loss_falls():
    pairs = base_pairs(0, 4)

    def newton(state, size):
        gradients, hessians = np.empty((3, N)), np.empty((3, N))
        state.gradients(pairs, np.arange(N), gradients, hessians)
        values = -gradients.sum(axis=1) / hessians.sum(axis=1)
        return Update(
            np.arange(3, dtype=np.int32), *np.array(pairs, dtype=np.int32).T.copy(), size * values[:, None]
        )  # one leaf a tree

    leaf_ids = np.zeros((3, N), dtype=np.uint16)
    for size, guard, allowed in (
        (0.05, True, [1.0]),
        (30.0, True, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]),
        (-1.0, True, [0.0]),
        (-1.0, False, [1.0]),
        (np.nan, False, [0.0]),
    ):
        state, _ = make_scores()
        before, loss = state.scores.copy(), state.loss
        update = newton(state, size)
        factor = state.take(update, leaf_ids, guard=guard)
        assert factor in allowed
        if factor == 0.0:
            assert np.array_equal(state.scores, before)
            np.testing.assert_allclose(state.probabilities, softmax(before), atol=1e-14)
            assert state.loss == loss
            continue
        expected = naive_scores(before, update, leaf_ids, factor)
        np.testing.assert_allclose(state.scores, expected, atol=1e-12)
        assert state.loss == pytest.approx(naive_loss(expected, state.labels, state.weights))
        if guard:
            assert state.loss <= loss
        if factor < 1.0:
            too_long = naive_scores(before, update, leaf_ids, 2 * factor)
            assert naive_loss(too_long, state.labels, state.weights) > loss


def test_sums_are_added_over_processes():
    """A process that has all samples twice: sums are doubled by what adds them up."""
    alone, rng = make_scores()
    twice, _ = make_scores(reduce=lambda sums: 2 * sums)
    assert twice.loss == pytest.approx(2 * alone.loss)
    np.testing.assert_allclose(twice.class_weights, 2 * np.bincount(alone.labels, alone.weights))
    update, leaf_ids = make_step(rng, base_pairs(1, 4), base_pairs(1, 4))
    (rise,), (double,) = (one.rises(update, leaf_ids, one.weights) for one in (alone, twice))
    assert double == pytest.approx(2 * rise)
    for one in (alone, twice):
        one.take(update, leaf_ids, guard=True)
    assert twice.loss == pytest.approx(2 * alone.loss)


def test_samples_that_are_alike_are_in_one_part():
    state, rng = make_scores()
    order = rng.permutation(N)
    parts = state.parts(5)
    again = PairScores(state.labels[order], None, state.scores[:, order], Workers(1)).parts(5)
    assert np.array_equal(again, parts[order])
    assert np.bincount(parts).size == 5
    assert np.bincount(parts).min() > 0.16 * N
    state.scores[:, :1000] = state.scores[:, :1]
    assert len(set(state.parts(5)[:1000])) == 1


def test_leaves_are_found_from_scores():
    rng = np.random.default_rng(1)
    for n_leaves in (1, 2, 3, 8, 31, 1000):
        values = rng.normal(size=n_leaves)
        if n_leaves > 4:
            values[3] = values[1]  # clipped leaves share their value
        leaves = rng.integers(0, n_leaves, 5000)
        scores = 100 * rng.normal(size=5000)
        finder = LeafFinder(values)
        found = FoundLeaves([finder], [(scores + values[leaves]) - scores])
        assert np.array_equal(found.ids([0])[0], finder.group[leaves])
        assert np.unique(finder.group).size == found.n_leaves == np.unique(values).size
        assert np.array_equal(found.values()[0][finder.group], values)


def test_leaves_are_found_from_float32_values():
    """Also of neighbours, between which there is no float32."""
    values = np.array([0.5, np.nextafter(np.float32(0.5), np.float32(1)), -1.0, 0.25], dtype=np.float32) * np.float32(
        64
    )
    leaves = np.random.default_rng(0).integers(0, 4, 3000)
    finder = LeafFinder(values)
    assert np.array_equal(FoundLeaves([finder], [values[leaves]]).ids([0])[0], finder.group[leaves])
    assert np.unique(finder.group).size == 4


def test_trees_without_leaf_constants_have_a_leaf_for_each_value():
    additions = np.random.default_rng(0).normal(size=(2, 70_000))
    found = FoundLeaves([LeafFinder(additions[0]), LeafFinder(additions[1, :10])], list(additions))
    ids = found.ids([0])
    assert ids.dtype == np.uint32
    np.testing.assert_allclose(found.values()[0][ids[0]], additions[0], atol=1e-9)
    reused = FoundLeaves([LeafFinder(np.zeros(1))], [additions[0]], found)
    assert reused.ids([0]).dtype == np.uint16


def test_scores_are_centred_before_the_first_round_with_a_base():
    state, _ = make_scores()
    schedule = BaseClassSchedule(4, warmup=1)
    assert state.plan(schedule).is_classic
    assert np.abs(state.scores.sum(axis=0)).max() > 0.1
    schedule.record(CLASSIC)
    probabilities = softmax(state.scores)
    assert not state.plan(schedule).is_classic
    assert np.abs(state.scores.sum(axis=0)).max() < 1e-12
    np.testing.assert_allclose(softmax(state.scores), probabilities, atol=1e-14)


def test_losses_of_equal_classes_tie_at_the_start():
    labels = np.repeat([0, 1, 2, 3, 4], 700)
    for start in (np.zeros(5), np.zeros((5, 3500))):
        assert len(set(PairScores(labels, None, start, Workers(1)).class_losses.tolist())) == 1
    assert len(classic_pairs(5)) == 5
