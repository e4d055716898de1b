"""Prediction, by kernels and of few rows by NumPy alone, against walking down the trees in plain Python."""

import numpy as np
import pytest

from abc_plugins.core.model.ensemble import LEAF, SET_WORDS, THRESHOLD, Tree, TreeEnsemble, single_leaf
from abc_plugins.core.model.predicting import _FEW_TREES, Nodes, _make_plan
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.serving import few_rows
from abc_plugins.serving.few_rows import FewRows
from abc_plugins.serving.many_rows import ManyRows

K, F = 4, 5
N_SETS = 3


def random_classes(random, kind):
    return {
        "one": [int(random.integers(K))],
        "pair": random.choice(K, 2, replace=False),
        "some": random.choice(K, 3, replace=False),
        "all": range(K),
    }[kind]


def make_tree(random, feature, left, right, classes, *, like=None):
    """A tree of a given shape with random thresholds, sets and values; nodes split as node `like` of theirs does."""
    inner, size = feature != LEAF, feature.size
    like = np.arange(size) if like is None else like
    left_set = np.where(random.random(size) < 0.4, random.integers(0, N_SETS, size), THRESHOLD)
    n_leaves = int((~inner).sum())
    sets = random.integers(0, 2**63, (N_SETS, SET_WORDS), dtype=np.uint64)
    return Tree(
        classes=np.array(classes, dtype=np.int32),
        feature=feature,
        threshold=np.where(inner, random.integers(-2, 3, size)[like], 0.0),
        missing_left=inner & (random.random(size) < 0.5)[like],
        left_set=np.where(inner, left_set[like], THRESHOLD).astype(np.int32),
        left=np.where(inner, left, np.cumsum(~inner) - 1).astype(np.int32),
        right=right,
        gain=np.zeros(size),
        weight=np.ones(size),
        values=random.normal(size=(n_leaves, len(classes))),
        sets=sets,
    )


def random_tree(random, n_leaves, classes):
    """A tree of random shape: leaves are split one after the other."""
    size = 2 * n_leaves - 1
    feature, left, right = np.full(size, LEAF, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32)
    leaves = [0]
    for t in range(n_leaves - 1):
        node = leaves.pop(random.integers(len(leaves)))
        feature[node], left[node], right[node] = random.integers(F), 2 * t + 1, 2 * t + 2
        leaves += [2 * t + 1, 2 * t + 2]
    return make_tree(random, feature, left, right, classes)


def symmetric_tree(random, depth, classes):
    """All nodes of a level split alike."""
    size = 2 ** (depth + 1) - 1
    number = np.arange(size)
    first = 2 ** np.int64(np.log2(number + 1)) - 1  # the first node of the level
    inner = number < 2**depth - 1
    feature = np.where(inner, random.integers(F, size=size)[first], LEAF).astype(np.int32)
    right = np.where(inner, 2 * number + 2, 0).astype(np.int32)
    return make_tree(random, feature, 2 * number + 1, right, classes, like=first)


def random_ensemble(random, n_leaves, kind="pair", n_rounds=3):
    ensemble = TreeEnsemble(K, F, random.normal(size=K))
    for _ in range(n_rounds):
        ensemble.append_round([random_tree(random, n_leaves, random_classes(random, kind)) for _ in range(7)])
    return ensemble


def goes_left(tree, node, x):
    if tree.left_set[node] == THRESHOLD:
        return tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
    if not 0 <= x < 64 * SET_WORDS:
        return tree.missing_left[node]
    category = int(x)
    return int(tree.sets[tree.left_set[node], category // 64]) >> category % 64 & 1


def plain_scores(ensemble, X, n_rounds=None):
    scores = np.tile(ensemble.start_scores, (len(X), 1))
    for tree in ensemble.trees(n_rounds):
        for i, row in enumerate(X):
            node = 0
            while tree.feature[node] != LEAF:
                node = (tree.left if goes_left(tree, node, row[tree.feature[node]]) else tree.right)[node]
            scores[i, tree.classes] += tree.values[tree.left[node]]
    return scores


def random_rows(random, n_rows):
    """Many values lie on a threshold; some are missing, or categories of every word, or none."""
    X = random.integers(-3, 4, size=(n_rows, F)).astype(float)
    X[random.random(X.shape) < 0.2] = np.nan
    X[random.random(X.shape) < 0.05] = np.inf
    far = random.random(X.shape) < 0.2
    X[far] = random.integers(0, 260, far.sum())
    return X


def assert_scores(ensemble, X, some):
    assert ensemble.n_trees > _FEW_TREES
    plain = plain_scores(ensemble, X[some])
    few = FewRows(ensemble.flat(), X.shape[1], ensemble.start_scores)
    np.testing.assert_array_equal(few.raw_scores(X[some]), plain)
    with Workers(2) as workers:
        many = ManyRows(ensemble.flat(), ensemble.start_scores, 2)
        np.testing.assert_array_equal(many.raw_scores(X)[some], plain)
        np.testing.assert_array_equal(ensemble.raw_scores(X, workers)[some], plain)
        np.testing.assert_array_equal(ensemble.raw_scores(X, workers, 2)[some], plain_scores(ensemble, X[some], 2))
        for m, scores in enumerate(ensemble.staged_raw_scores(X, workers), start=1):
            np.testing.assert_array_equal(scores, ensemble.raw_scores(X, workers, m))


@pytest.mark.parametrize("kind", ["one", "pair", "some", "all"])
@pytest.mark.parametrize("n_leaves", [1, 2, 20, 64, 65, 200])
@pytest.mark.parametrize("n_rows", [1, 63, 64, 1025])
def test_scores(n_leaves, n_rows, kind):
    """Few rows, few trees, and trees of more leaves than a word has bits, are walked down; others go through masks."""
    random = np.random.default_rng(n_leaves)
    ensemble = random_ensemble(random, n_leaves, kind)
    assert_scores(ensemble, random_rows(random, n_rows), random.choice(n_rows, min(n_rows, 100), replace=False))


@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 255, 256, 257, 1025, 2100])
def test_numbers_of_rows(n_rows):
    random = np.random.default_rng(n_rows)
    assert_scores(random_ensemble(random, 7), random_rows(random, n_rows), np.arange(0, n_rows, 1 + n_rows // 150))


@pytest.mark.parametrize("kind", ["one", "pair", "some", "all"])
@pytest.mark.parametrize("depth", [0, 1, 2, 6, 8])
def test_symmetric_trees(depth, kind):
    """They are looked up, whatever their depth; trees that only look like them are not."""
    random = np.random.default_rng(depth)
    ensemble = TreeEnsemble(K, F, random.normal(size=K))
    for _ in range(3):
        trees = [symmetric_tree(random, depth, random_classes(random, kind)) for _ in range(6)]
        ensemble.append_round([*trees, random_tree(random, 5, range(K))])
    assert_scores(ensemble, random_rows(random, 300), np.arange(0, 300, 3))
    nodes = Nodes(*(getattr(ensemble.flat(), name) for name in Nodes._fields))
    way = _make_plan(nodes, 0, 21).way.reshape(3, 7)
    assert set(way[:, :6].flat) == {depth}
    assert (way[:, 6] < 0).all()


@pytest.mark.parametrize("name", ["feature", "threshold", "missing_left", "left_set"])
def test_trees_that_are_almost_symmetric(name):
    random = np.random.default_rng(0)
    tree = symmetric_tree(random, 3, range(K))
    array = getattr(tree, name)
    array[5] = {"feature": (array[5] + 1) % F, "missing_left": not array[5], "left_set": 1 - abs(array[5])}.get(
        name, 99.0
    )
    ensemble = TreeEnsemble(K, F)
    for _ in range(2):
        ensemble.append_round([tree] * 17)
    assert_scores(ensemble, random_rows(random, 200), np.arange(200))
    assert _make_plan(Nodes(*(getattr(ensemble.flat(), field) for field in Nodes._fields)), 0, 1).way[0] < 0


@pytest.mark.parametrize(("n_used", "n_leaves"), [(130, 4), (700, 4), (700, 20), (4000, 20), (4000, 100)])
def test_many_features(n_used, n_leaves):
    """Their values are brought into the cache for fewer rows at a time."""
    random = np.random.default_rng(n_used)
    ensemble = TreeEnsemble(K, n_used)
    for first in range(0, n_used, max(1, n_used // 2)):
        features = np.arange(first, first + n_used // 2)
        trees = [random_tree(random, n_leaves, range(K)) for _ in range(-(-features.size // (n_leaves - 1)))]
        for tree, of_tree in zip(trees, np.array_split(features, len(trees)), strict=True):
            tree.feature[tree.feature != LEAF] = np.resize(of_tree, n_leaves - 1)
        ensemble.append_round(trees)
    X = random.integers(-3, 4, size=(70, n_used)).astype(float)
    X[random.random(X.shape) < 0.1] = np.nan
    assert_scores(ensemble, X, np.arange(0, 70, 15))


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_])
def test_other_types_and_orders(dtype):
    random = np.random.default_rng(0)
    ensemble = random_ensemble(random, 20)
    X = np.asfortranarray(random.integers(0, 2, size=(300, F)).astype(dtype))
    with Workers(1) as workers:
        np.testing.assert_array_equal(ensemble.raw_scores(X, workers), plain_scores(ensemble, X.astype(float)))


def test_no_rounds_give_the_scores_of_the_start():
    start = np.arange(4.0)
    with Workers(1) as workers:
        np.testing.assert_array_equal(TreeEnsemble(K, F).raw_scores(np.zeros((100, F)), workers), 0.0)
        scores = TreeEnsemble(K, F, start).raw_scores(np.zeros((100, F)), workers)
    np.testing.assert_array_equal(scores, np.tile(start, (100, 1)))


def test_trees_of_a_single_leaf():
    ensemble = TreeEnsemble(K, F)
    ensemble.append_round([single_leaf([2], 5.0), single_leaf(range(K), 5.0)])
    (of_one, of_all) = ensemble.trees()
    assert (of_one.plus, of_one.minus, of_one.weight.tolist()) == (2, CLASSIC, [5.0])
    assert of_all.values.tolist() == [[0.0] * K]
    with Workers(1) as workers:
        assert not ensemble.raw_scores(np.zeros((70, F)), workers).any()


def test_rounds_come_back_and_can_be_cut():
    random = np.random.default_rng(1)
    rounds = [[random_tree(random, 4, random_classes(random, kind))] for kind in ("one", "some", "all")]
    rounds += [[symmetric_tree(random, 2, range(K)), random_tree(random, 3, [1])]]
    ensemble = TreeEnsemble(K, F)
    for trees in rounds:
        ensemble.append_round(trees)
    for again, trees in zip(ensemble.rounds(), rounds, strict=True):
        for one, other in zip(again, trees, strict=True):
            for name in Tree.__dataclass_fields__:
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    X = random_rows(random, 100)
    with Workers(1) as workers:
        expected = ensemble.raw_scores(X, workers, 2)
        ensemble.truncate(2)
        assert (ensemble.n_rounds, ensemble.n_trees) == (2, 2)
        np.testing.assert_array_equal(ensemble.raw_scores(X, workers), expected)


@pytest.mark.parametrize("kind", ["pair", "all"])
@pytest.mark.parametrize("at_once", [1, 3 * K, 1000])
def test_few_rows_of_many_leaf_values(monkeypatch, at_once, kind):
    """Some trees at a time, symmetric ones of several depths among others."""
    monkeypatch.setattr(few_rows, "_VALUES_AT_ONCE", at_once)
    random = np.random.default_rng(at_once)
    ensemble = TreeEnsemble(K, F, random.normal(size=K))
    for depth in (3, 0, 5):
        classes = [random_classes(random, kind) for _ in range(3)]
        ensemble.append_round(
            [random_tree(random, 9, classes[0]), *(symmetric_tree(random, depth, c) for c in classes)]
        )
    X = random_rows(random, 50)
    few = FewRows(ensemble.flat(), F, ensemble.start_scores)
    np.testing.assert_array_equal(few.raw_scores(X), plain_scores(ensemble, X))
    rounded = X.astype(np.float32)
    np.testing.assert_array_equal(few.raw_scores(rounded), plain_scores(ensemble, rounded.astype(float)))


def test_few_rows_and_two_classes_in_either_order():
    random = np.random.default_rng(0)
    ensemble = TreeEnsemble(2, F, random.normal(size=2))
    ensemble.append_round([random_tree(random, 6, classes) for classes in ([1, 0], [0, 1], [1])])
    X = random_rows(random, 50)
    few = FewRows(ensemble.flat(), F, ensemble.start_scores)
    np.testing.assert_array_equal(few.raw_scores(X), plain_scores(ensemble, X))


def test_few_rows_without_trees():
    start = np.array([0.5, -0.25, 0.0, 1.0])
    found = FewRows(TreeEnsemble(K, F, start).flat(), F, start).raw_scores(np.zeros((2, F)))
    np.testing.assert_array_equal(found, [start, start])
