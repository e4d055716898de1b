"""Leaf values: Newton steps, sequential renewal against plain NumPy, and the guard."""

import logging

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.leaves import (
    UNLIMITED,
    LeafRules,
    apply_update,
    make_update,
    newton_steps,
    sum_leaves,
)
from abc_plugins.core.renewal import LeafRenewal
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.scores import loss_rises

RULES = LeafRules(factor=1.0, reg_lambda=0.0, clip=50.0, learning_rate=0.1)


def softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=0))
    return exponentials / exponentials.sum(axis=0)


def class_losses(scores, labels, weights):
    losses = -weights * np.log(softmax(scores)[labels, np.arange(labels.size)])
    return np.bincount(labels, weights=losses, minlength=len(scores))


@pytest.fixture(params=[50, 3 * ROWS_PER_BLOCK + 17])
def problem(request):
    """Scores (K, N), labels, weights (some 0) and the leaves of K trees."""
    K, N = 5, request.param
    rng = np.random.default_rng(N)
    weights = rng.uniform(0.1, 2.0, N) * (rng.random(N) > 0.2)
    return 2 * rng.normal(size=(K, N)), rng.integers(0, K, N).astype(np.int32), weights, rng.integers(0, 7, (K, N))


# ------------------------------------------------------------------------------------------------ Newton steps


def steps(sums, rules):
    values = np.empty(len(sums))
    newton_steps(sums, rules, values)
    return values


def test_newton_steps():
    sums = np.array([[2.0, 4.0], [-3.0, 1.5], [1.0, 0.0], [0.0, 0.0], [1.0, 1e-320], [-1e9, 1e-3]])
    np.testing.assert_allclose(steps(sums, RULES), [0.05, -0.2, 0.0, 0.0, 5.0, -5.0])
    regularised = LeafRules(factor=0.75, reg_lambda=1.0, clip=0.5, learning_rate=1.0)
    np.testing.assert_allclose(steps(sums[:4], regularised), [0.3, -0.5, 0.5, 0.0])
    assert steps(sums, RULES._replace(clip=UNLIMITED))[4] == 0.1 * UNLIMITED


@pytest.mark.parametrize(("plus", "minus"), [(1, CLASSIC), (0, 3)])
def test_sums_of_leaves(problem, plus, minus):
    scores, labels, weights, leaf_ids = problem
    p = softmax(scores)
    z = (labels == plus) - p[plus]
    h = p[plus] * (1 - p[plus])
    if minus != CLASSIC:
        z = z - ((labels == minus) - p[minus])
        h = h + p[minus] * (1 - p[minus]) + 2 * p[plus] * p[minus]
    expected = [np.bincount(leaf_ids[0], weights=weights * values, minlength=9) for values in (z, h)]
    sums = np.full((9, 2), 77.0)
    sum_leaves(p, labels, weights, plus, minus, leaf_ids[0].astype(np.uint16), sums)
    np.testing.assert_allclose(sums.T, expected, rtol=1e-12, atol=1e-12)
    swapped = np.empty((9, 2))
    if minus != CLASSIC:
        sum_leaves(p, labels, weights, minus, plus, leaf_ids[0].astype(np.uint16), swapped)
        np.testing.assert_array_equal(swapped, sums * [-1, 1])


def test_pairs_grown_the_other_way_round_are_negated():
    values = np.arange(6.0).reshape(2, 3) + 1
    update = make_update([(2, 1), (0, 1)], [(1, 2), (0, 1)], values)
    assert update.tree.tolist() == [0, 1]
    np.testing.assert_array_equal(update.values, [-values[0], values[1]])


@pytest.mark.parametrize("pairs", [[(0, 3), (4, 3)], [(1, CLASSIC), (2, CLASSIC)]])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_updates_of_scores_and_losses(problem, pairs, n_threads):
    scores, labels, weights, leaf_ids = problem
    values = np.random.default_rng(1).normal(size=(5, 7))
    grown = [(k, 3) for k in range(5)] if pairs[0][1] != CLASSIC else [(k, CLASSIC) for k in range(5)]
    update = make_update(pairs, grown, values)
    expected = scores.copy()
    for plus, minus in pairs:
        expected[plus] += values[plus][leaf_ids[plus]]
        if minus != CLASSIC:
            expected[minus] -= values[plus][leaf_ids[plus]]
    new_scores, probabilities = np.empty_like(scores), np.empty_like(scores)
    ids = leaf_ids.astype(np.uint16)
    with Workers(n_threads) as workers:
        losses = apply_update(scores, labels, weights, ids, update, new_scores, probabilities, workers)
    np.testing.assert_allclose(new_scores, expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(probabilities, softmax(expected), rtol=1e-12)
    np.testing.assert_allclose(losses, class_losses(expected, labels, weights), rtol=1e-12)


@pytest.mark.parametrize("base", [0, 2, 4])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_rises_of_trials(problem, base, n_threads):
    scores, labels, weights, leaf_ids = problem
    values = np.random.default_rng(1).normal(size=(5, 7))
    pairs = [(k, base) for k in range(5) if k != base]
    update = make_update(pairs, [(k, base) for k in (3, 1, 4, 0, 2)], values)
    after = scores.copy()
    for (k, _), tree, leaf_values in zip(pairs, update.tree, update.values, strict=True):
        added = leaf_values[leaf_ids[tree]]
        after[k] += added
        after[base] -= added
    expected = (class_losses(after, labels, weights) - class_losses(scores, labels, weights)).sum()
    with Workers(n_threads) as workers:
        halves = np.stack([weights, 0.5 * weights])
        rise, half = loss_rises(softmax(scores), labels, halves, leaf_ids.astype(np.uint16), update, workers)
    assert rise == pytest.approx(expected, rel=1e-12)
    assert half == pytest.approx(expected / 2, rel=1e-12)


def test_a_trial_of_wild_steps_never_looks_good():
    labels, weights, leaf_ids = np.array([0, 1, 2, 2], dtype=np.int32), np.ones(4), np.zeros((2, 4), dtype=np.uint16)
    probabilities = np.full((3, 4), 1 / 3)
    pairs = [(0, 2), (1, 2)]
    for values in ([[1e9], [1e9]], [[-1e9], [1e9]], [[-1e9], [-1e9]], [[UNLIMITED], [-5.0]]):
        update = make_update(pairs, pairs, np.array(values))
        (rise,) = loss_rises(probabilities, labels, weights[None], leaf_ids, update, Workers(1))
        assert 600 < rise < np.inf


# ------------------------------------------------------------------------------------------------ renewal


def plain_renewal(scores, labels, weights, classes, base, leaf_ids, rules):
    """One tree after the other, each from the softmax of the scores that those before it left."""
    scores = scores.copy()
    values = np.zeros((len(classes), 7))
    for t, k in enumerate(classes):
        p = softmax(scores)
        z = (labels == k) - p[k]
        h = p[k] * (1 - p[k])
        if base != CLASSIC:
            z = z - ((labels == base) - p[base])
            h = p[base] * (1 - p[base]) + p[k] * (1 - p[k]) + 2 * p[base] * p[k]
        for leaf in range(7):
            mine = leaf_ids[t] == leaf
            beta = rules.factor * (weights * z)[mine].sum() / ((weights * h)[mine].sum() + rules.reg_lambda)
            values[t, leaf] = rules.learning_rate * np.clip(beta, -rules.clip, rules.clip)
        scores[k] += values[t][leaf_ids[t]]
        if base != CLASSIC:
            scores[base] -= values[t][leaf_ids[t]]
    return values


def renew(scores, labels, weights, classes, base, leaf_ids, rules, n_threads=1):
    with Workers(n_threads) as workers:
        renewal = LeafRenewal(softmax(scores), labels, weights, base, 7, rules, workers)
        return renewal.renew_trees(classes, range(len(classes)), leaf_ids.astype(np.uint16))


@pytest.mark.parametrize(("classes", "base"), [([0, 1, 3, 4], 2), ([4, 0], 1), ([0, 1, 2, 3, 4], CLASSIC), ([3], 0)])
@pytest.mark.parametrize("learning_rate", [0.1, 1.0])
def test_renewal_against_plain_numpy(problem, classes, base, learning_rate):
    scores, labels, weights, leaf_ids = problem
    rules = LeafRules(0.8 if base == CLASSIC else 1.0, 0.3, 2.0, learning_rate)
    expected = plain_renewal(scores, labels, weights, classes, base, leaf_ids, rules)
    np.testing.assert_allclose(
        renew(scores, labels, weights, classes, base, leaf_ids, rules), expected, rtol=1e-10, atol=1e-10
    )


def test_renewal_does_not_depend_on_the_number_of_threads(problem, monkeypatch):
    monkeypatch.setattr("abc_plugins.core.renewal.ROWS_WORTH_THREADS", 0)
    scores, labels, weights, leaf_ids = problem
    one = renew(scores, labels, weights, [0, 1, 3, 4], 2, leaf_ids, RULES)
    for n_threads in (2, 3):
        np.testing.assert_array_equal(renew(scores, labels, weights, [0, 1, 3, 4], 2, leaf_ids, RULES, n_threads), one)


def test_trees_may_be_renewed_in_lots(problem):
    scores, labels, weights, leaf_ids = problem
    classes = [0, 1, 3, 4]
    together = renew(scores, labels, weights, classes, 2, leaf_ids, RULES)
    leaf_ids = leaf_ids.astype(np.uint16)
    renewal = LeafRenewal(softmax(scores), labels, weights, 2, 7, RULES, Workers(1))
    lots = [renewal.renew_trees(classes[:1], [0], leaf_ids), renewal.renew_trees(classes[1:3], [1, 2], leaf_ids)]
    last = renewal.renew(classes[3], leaf_ids[3])
    np.testing.assert_array_equal(np.vstack([*lots, last]), together)


def test_sums_of_other_processes_count_in_every_tree(problem):
    scores, labels, weights, leaf_ids = problem
    classes, leaf_ids = [0, 1, 3, 4], leaf_ids.astype(np.uint16)

    def renewal():
        arguments = softmax(scores), labels, weights, 2, 7, RULES, Workers(1)
        return LeafRenewal(*arguments, reduce=lambda sums: sums + np.array([0.0, 5.0]))

    one, other = renewal(), renewal()
    values = one.renew_trees(classes, range(4), leaf_ids)
    np.testing.assert_array_equal(values, [other.renew(k, leaf_ids[t]) for t, k in enumerate(classes)])
    assert not np.isclose(values, renew(scores, labels, weights, classes, 2, leaf_ids, RULES)).all(axis=1).any()


def test_renewal_after_enormous_steps_stays_a_number(problem):
    """Masses neither overflow nor lose the class whose turn it is."""
    scores, labels, weights, leaf_ids = problem
    rules = LeafRules(1.0, 0.0, UNLIMITED, 1e6)
    values = renew(20 * scores, labels, weights, [0, 1, 3, 4], 2, leaf_ids, rules)
    assert np.isfinite(values).all()


# ------------------------------------------------------------------------------------------------ the guard

LONG_STEPS = {"n_estimators": 12, "learning_rate": 1.0, "num_leaves": 6, "min_samples_leaf": 2, "n_jobs": 1}
LONG_STEPS |= {"method": "abcrobustlogit", "search": 1, "gap": 0, "warmup": 0}


def starting_loss(data):
    return data.y.size * np.log(len(np.unique(data.y)))


@pytest.mark.parametrize("leaf_clip", [None, 50.0])
@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
@pytest.mark.parametrize("method", ["mart", "robustlogit", "abcmart", "abcrobustlogit"])
def test_training_loss_never_rises(make_data, method, leaf_values, leaf_clip):
    data = make_data(6, 80)
    options = {**LONG_STEPS, "method": method, "learning_rate": 3.0, "subsample": 0.7, "random_state": 0}
    model = ABCBoostClassifier(leaf_values=leaf_values, leaf_clip=leaf_clip, **options)
    model.fit(data.X, data.y)
    assert np.all(np.diff([starting_loss(data), *model.train_loss_]) <= 0)
    assert np.isfinite(model.model_.flat().values).all()


def test_guarded_rounds_are_counted_and_logged_once(make_data, caplog):
    data = make_data(6, 80)
    with caplog.at_level(logging.INFO, logger="abc_plugins"):
        options = {**LONG_STEPS, "leaf_values": "paper", "leaf_clip": 5.0, "base_choice": "worst"}
        model = ABCBoostClassifier(**options).fit(data.X, data.y)
    assert 2 <= model.guarded_rounds_ <= 12
    assert [record.message for record in caplog.records if "would have raised the training loss" in record.message] == [
        record.message for record in caplog.records
    ]
    assert len(caplog.records) == 1


def test_without_the_guard_the_loss_may_rise(make_data, caplog):
    data = make_data(6, 80)
    options = {**LONG_STEPS, "leaf_values": "paper", "leaf_clip": 5.0}
    with caplog.at_level(logging.INFO, logger="abc_plugins"):
        model = ABCBoostClassifier(guard=False, **options).fit(data.X, data.y)
    assert np.diff([starting_loss(data), *model.train_loss_]).max() > 0
    assert (model.guarded_rounds_, caplog.records) == (0, [])


def test_nothing_to_guard(make_data):
    """Short steps: the guard changes nothing."""
    data = make_data(4, 80)
    options = {"method": "abcrobustlogit", "n_estimators": 8, "leaf_values": "sequential", "warmup": 2, "n_jobs": 1}
    guarded = ABCBoostClassifier(**options).fit(data.X, data.y)
    free = ABCBoostClassifier(guard=False, **options).fit(data.X, data.y)
    assert guarded.guarded_rounds_ == 0
    np.testing.assert_array_equal(guarded.model_.flat().values, free.model_.flat().values)


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
@pytest.mark.parametrize("learning_rate", [100.0, 1e300])
@pytest.mark.filterwarnings("error")
def test_without_a_clip_everything_stays_finite(make_data, guard, leaf_values, learning_rate):
    data = make_data(4, 60)
    options = {**LONG_STEPS, "learning_rate": learning_rate, "n_estimators": 20}
    model = ABCBoostClassifier(leaf_clip=None, leaf_values=leaf_values, guard=guard, **options).fit(data.X, data.y)
    assert np.isfinite(model.train_loss_).all()
    assert np.isfinite(model.model_.flat().values).all()
    assert np.isfinite(model.predict_proba(data.X_test)).all()
    if guard:
        assert np.all(np.diff(model.train_loss_) <= 0)
