"""Prediction kernels against walking down the trees in plain Python."""

import numpy as np
import pytest

from abc_plugins.core.model.ensemble import LEAF, TreeEnsemble, pair_tree
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC

K, F = 4, 5


def random_tree(random, n_leaves, plus, minus):
    """A tree of random shape: leaves are split one after the other."""
    size = 2 * n_leaves - 1
    feature, left, right = np.full(size, LEAF, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32)
    leaves = [0]
    for t in range(n_leaves - 1):
        node = leaves.pop(random.integers(len(leaves)))
        feature[node], left[node], right[node] = random.integers(F), 2 * t + 1, 2 * t + 2
        leaves += [2 * t + 1, 2 * t + 2]
    inner = feature != LEAF
    return pair_tree(
        plus,
        minus,
        feature=feature,
        threshold=np.where(inner, random.integers(-2, 3, size), 0.0),
        missing_left=inner & (random.random(size) < 0.5),
        left=left,
        right=right,
        value=np.where(inner, 0.0, random.normal(size=size)),
        gain=np.zeros(size),
        weight=np.ones(size),
    )


def random_ensemble(random, n_leaves, n_rounds=3):
    ensemble = TreeEnsemble(K, F)
    for m in range(n_rounds):
        minus = CLASSIC if m == 0 else m % K
        ensemble.append_round([random_tree(random, n_leaves, k, minus) for k in range(K) if k != minus])
    return ensemble


def plain_scores(ensemble, X, n_rounds=None):
    scores = np.zeros((len(X), K))
    for tree in ensemble.trees(n_rounds):
        for i, row in enumerate(X):
            node = 0
            while tree.feature[node] != LEAF:
                x = row[tree.feature[node]]
                goes_left = tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
                node = (tree.left if goes_left else tree.right)[node]
            scores[i, tree.plus] += tree.value[node]
            if tree.minus != CLASSIC:
                scores[i, tree.minus] -= tree.value[node]
    return scores


@pytest.mark.parametrize("n_leaves", [1, 2, 20, 63, 64, 65, 200])
@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 1025, 2100])
def test_scores(n_leaves, n_rows):
    """Few rows, and trees of more leaves than a word has bits, are walked down; all others go through masks."""
    random = np.random.default_rng(n_leaves)
    ensemble = random_ensemble(random, n_leaves)
    X = random.integers(-3, 4, size=(n_rows, F)).astype(float)  # many values lie on a threshold
    X[random.random(X.shape) < 0.2] = np.nan
    X[random.random(X.shape) < 0.05] = np.inf
    some = random.choice(n_rows, min(n_rows, 150), replace=False)
    with Workers(2) as workers:
        np.testing.assert_array_equal(ensemble.raw_scores(X, workers)[some], plain_scores(ensemble, X[some]))
        np.testing.assert_array_equal(ensemble.raw_scores(X, workers, 2)[some], plain_scores(ensemble, X[some], 2))
        for m, scores in enumerate(ensemble.staged_raw_scores(X, workers), start=1):
            np.testing.assert_array_equal(scores, ensemble.raw_scores(X, workers, m))


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_])
def test_other_types_and_orders(dtype):
    random = np.random.default_rng(0)
    ensemble = random_ensemble(random, 20)
    X = np.asfortranarray(random.integers(0, 2, size=(300, F)).astype(dtype))
    with Workers(1) as workers:
        np.testing.assert_array_equal(ensemble.raw_scores(X, workers), plain_scores(ensemble, X.astype(float)))


def test_no_rounds_give_no_scores():
    with Workers(1) as workers:
        np.testing.assert_array_equal(TreeEnsemble(K, F).raw_scores(np.zeros((100, F)), workers), 0.0)
