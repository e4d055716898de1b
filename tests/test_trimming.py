"""Influence trimming against a plain NumPy version of it."""

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.trees.trimming import choose_rows
from tests.naive import softmax

N, K = 3000, 4
EIGHTH_OF_AN_OCTAVE = 1.25
"""No bucket spans more than this ratio."""


def make_state(weighted=True):
    """Probabilities from certain to hopeless, so that influences span many octaves."""
    random = np.random.default_rng(3)
    labels = random.integers(K, size=N).astype(np.int32)
    probabilities = np.ascontiguousarray(softmax(random.normal(scale=6.0, size=(N, K))).T)
    weights = random.integers(1, 4, size=N).astype(float) if weighted else np.ones(N)
    return probabilities, labels, weights


def plain_hessians(probabilities, plus, minus):
    """The hessian of every sample for a weight of 1."""
    p = probabilities[plus]
    if minus == CLASSIC:
        return p * (1 - p)
    q = probabilities[minus]
    return p * (1 - p) + q * (1 - q) + 2 * p * q


def choose(state, pair, sample, trim):
    rows, spare = np.empty(N, dtype=np.uint32), np.empty(N, dtype=np.uint32)
    n_kept = choose_rows(*state, *pair, sample, trim, rows, spare)
    np.testing.assert_array_equal(np.sort(rows), np.arange(N))
    assert (np.diff(rows[:n_kept].astype(int)) > 0).all()
    return rows[:n_kept]


@pytest.mark.parametrize("pair", [(1, CLASSIC), (2, 0)])
@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("trim", [0.01, 0.1, 0.5])
def test_the_least_influential_samples_are_left_out(pair, share, trim):
    state = make_state()
    sample = np.sort(np.random.default_rng(0).choice(N, int(share * N), replace=False)).astype(np.uint32)
    kept = choose(state, pair, sample, trim)
    influence = plain_hessians(state[0], *pair)
    hessian = state[2] * influence
    dropped = np.setdiff1d(sample, kept)
    assert set(kept) <= set(sample)
    assert influence[dropped].max() <= influence[kept].min()
    assert hessian[dropped].sum() <= trim * hessian[sample].sum()
    # Nothing more could have gone: the next bucket would have been too much.
    next_bucket = influence[kept] <= influence[kept].min() * EIGHTH_OF_AN_OCTAVE
    assert hessian[dropped].sum() + hessian[kept][next_bucket].sum() > trim * hessian[sample].sum()


def test_nothing_is_left_out_of_what_cannot_be_told_apart():
    """In the first round all hessians are equal."""
    labels = (np.arange(N) % K).astype(np.int32)
    state = np.full((K, N), 1 / K), labels, np.ones(N)
    assert choose(state, (0, CLASSIC), np.arange(N, dtype=np.uint32), 0.1).size == N


def test_labels_do_not_decide_who_stays():
    """A sample whose label is very unlikely goes with those of the same probabilities."""
    probabilities, labels, weights = make_state(weighted=False)
    probabilities[:, ::2] = np.array([1e-9, 0.4, 0.3, 0.3])[:, None]
    labels[::4] = 0
    assert not set(choose((probabilities, labels, weights), (0, CLASSIC), np.arange(N, dtype=np.uint32), 0.1)) & set(
        range(0, N, 2)
    )


def test_a_weight_of_two_is_a_row_given_twice():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(400, 5)), random.integers(3, size=400)
    y[X[:, 0] > 0] = 0
    weights = random.integers(1, 3, size=400)
    options = {"n_estimators": 15, "trim": 0.05}
    weighted = ABCBoostClassifier(**options).fit(X, y, sample_weight=weights)
    repeated = ABCBoostClassifier(**options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-9)


def test_leaf_values_and_node_weights_come_from_all_samples():
    random = np.random.default_rng(1)
    X, y = random.normal(size=(2000, 4)), random.integers(3, size=2000)
    y[X[:, 0] > 0.3] = 2
    model = ABCBoostClassifier(n_estimators=30, trim=0.2, num_leaves=6).fit(X, y)
    untrimmed = ABCBoostClassifier(n_estimators=30, num_leaves=6).fit(X, y)
    assert not np.array_equal(model.predict_proba(X), untrimmed.predict_proba(X))
    trees = model.model_.flat()
    np.testing.assert_array_equal(trees.weight[trees.node_start[:-1]], 2000.0)


def test_trimmed_models_do_not_depend_on_threads():
    random = np.random.default_rng(2)
    X, y = random.normal(size=(3000, 4)), random.integers(5, size=3000)
    y[X[:, 1] > 0] = 1
    one, two = (ABCBoostClassifier(n_estimators=10, trim=0.1, n_jobs=n, subsample=0.7, random_state=0).fit(X, y)
                for n in (1, 2))  # fmt: skip
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_a_bad_trim_is_refused():
    with pytest.raises(ValueError, match=r"trim.*at least 0 and at most 0\.5.*0\.6"):
        ABCBoostClassifier(trim=0.6).fit(np.zeros((4, 1)), [0, 1, 0, 1])
