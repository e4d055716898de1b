"""The directional round as a protocol: an engine of scikit-learn's trees, and rounds shared between processes."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from abc_plugins.core.directional.leaf_vectors import ProbabilityRows
from abc_plugins.core.directional.rounds import DirectionalRounds
from abc_plugins.core.directional.schedule import DirectionSchedule
from abc_plugins.core.leaves import LeafRules
from abc_plugins.core.runtime.parallel import Workers

K = 4
RATE, LEAF_LAMBDA = 0.3, 0.1


class SklearnEngine:
    """Grows each tree by a regression of z / h with weights h: the gain of that is the one along the direction."""

    def __init__(self, X):
        self.X = X
        self.trees = []
        self.n_grown = 0

    def _fit(self, z, h, max_leaf_nodes):
        return [
            DecisionTreeRegressor(max_leaf_nodes=max_leaf_nodes, random_state=0).fit(
                self.X, z_row / np.maximum(h_row, 1e-12), sample_weight=h_row
            )
            for z_row, h_row in zip(z, h, strict=True)
        ]

    def root_gains(self, z, h, _round_index):
        stumps = [stump.tree_ for stump in self._fit(z, h, 2)]
        left_over = [t.impurity * t.weighted_n_node_samples for t in stumps]
        return np.array([of_nodes[0] - of_nodes[1:].sum() for of_nodes in left_over])

    def grow(self, z, h, _round_index, in_order=None):
        self.trees = self._fit(z, h, 8)
        self.n_grown += len(z)
        if in_order is not None:
            in_order(0, len(z))

    def leaves(self, tree):
        nodes = self.trees[tree].apply(self.X)
        names, numbers = np.unique(nodes, return_inverse=True)
        return numbers.astype(np.uint16), names.size


def make_data(n_samples=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    y = ((X[:, 0] > 0) + 2 * (X[:, 1] + 0.2 * rng.normal(size=n_samples) > 0)).astype(np.int32)
    return X, y, rng.uniform(0.5, 2.0, n_samples)


def make_rounds(X, y, weights, *, guard=True, rate=RATE, reduce=np.asarray, **options):
    schedule = DirectionSchedule(K, trees_per_round=options.pop("trees_per_round", 2), **options)
    rows = ProbabilityRows(y, weights, np.full(K, 1 / K), 8, Workers(1), reduce)
    engine = SklearnEngine(X)
    rules = LeafRules((K - 1) / K, LEAF_LAMBDA, 4.0, rate)
    return DirectionalRounds(rows, weights, schedule, rules, engine, guard=guard), engine


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def naive_vectors(p, y, weights, leaves):
    values = np.zeros((leaves.max() + 1, K))
    for leaf in range(len(values)):
        inside = leaves == leaf
        w = weights[inside, None]
        step = (w * (np.eye(K)[y[inside]] - p[inside])).sum(0) / (
            LEAF_LAMBDA + (w * p[inside] * (1 - p[inside])).sum(0)
        )
        step = RATE * np.clip((K - 1) / K * step, -4, 4)
        values[leaf] = step - step.mean()
    return values


def test_any_engine_can_be_driven_and_leaf_vectors_are_newton_steps_one_tree_after_the_other():
    X, y, weights = make_data()
    rounds, engine = make_rounds(X, y, weights)
    scores = np.zeros((len(y), K))
    losses = [rounds.loss]
    for _ in range(12):
        made = rounds.run()
        assert len(made.vectors) == made.n_trees == 2
        for t, vectors in enumerate(made.vectors):
            leaves, _ = engine.leaves(t)
            np.testing.assert_allclose(vectors, naive_vectors(softmax(scores), y, weights, leaves), atol=1e-9)
            scores += vectors[leaves]
        losses.append(rounds.loss)
    np.testing.assert_allclose(rounds.rows.probabilities, softmax(scores), atol=1e-9)
    own = softmax(scores)[np.arange(len(y)), y]
    assert rounds.loss == pytest.approx(-(weights * np.log(own)).sum())
    assert all(after < before for before, after in pairwise(losses))
    assert losses[-1] < 0.3 * losses[0]
    assert rounds.trees_grown == engine.n_grown == 24


def test_search_takes_the_direction_with_the_largest_gain_of_the_root():
    X, y, weights = make_data()
    rounds, engine = make_rounds(X, y, weights, search=5, trees_per_round=1)
    seen = []
    gains_of = engine.root_gains

    def watched(z, h, round_index):
        gains = gains_of(z, h, round_index)
        seen.append((z.copy(), gains))
        return gains

    engine.root_gains = watched
    grow = engine.grow
    engine.grow = lambda z, h, *rest: (grow(z, h, *rest), seen.append(z.copy()))
    rounds.run()
    (candidates, gains), grown = seen
    assert len(gains) == 5
    np.testing.assert_array_equal(grown[0], candidates[np.argmax(gains)])


def test_warmup_rounds_are_of_one_class_per_tree():
    X, y, weights = make_data()
    rounds, _ = make_rounds(X, y, weights, warmup=1)
    made = rounds.run()
    assert made.is_classic
    assert made.n_trees == K
    assert all(np.count_nonzero(vectors.any(axis=0)) == 1 for vectors in made.vectors)
    assert not rounds.run().is_classic


def test_the_guard_shortens_a_step_that_raises_the_loss():
    X, y, weights = make_data()
    wild, _ = make_rounds(X, y, weights, guard=False, rate=8.0)
    tame, _ = make_rounds(X, y, weights, guard=True, rate=8.0)
    before = tame.loss
    for _ in range(6):
        wild.run()
        tame.run()
    assert wild.loss > before
    assert tame.loss < before
    assert tame.guarded_rounds > 0
    assert wild.guarded_rounds == 0


def test_rounds_after_the_loss_is_gone_add_nothing():
    X, y, weights = make_data()
    rounds, engine = make_rounds(X, y, weights)
    assert rounds.run().vectors
    certain = np.where(np.eye(K)[y] > 0.0, 1.0, 1e-290)
    rounds.rows.set_probabilities(certain)
    rounds.prepare()
    grown = engine.n_grown
    made = rounds.run()
    assert not made.vectors
    assert made.n_trees == 2
    assert engine.n_grown == grown


def test_processes_that_share_the_samples_make_the_same_round():
    """Two threads stand for two processes: each has half of the rows and a tree on one feature that both can grow."""
    X, y, weights = make_data()
    feature = (X[:, 0] > 0).astype(np.uint16)

    class HalfEngine:
        def __init__(self, leaves):
            self._leaves = leaves

        def grow(self, z, _h, _round_index, in_order=None):
            if in_order is not None:
                in_order(0, len(z))

        def leaves(self, _tree):
            return self._leaves, 2

    def run(rows, reduce, out):
        part = ProbabilityRows(y[rows], weights[rows], np.full(K, 1 / K), 8, Workers(1), reduce)
        rounds = DirectionalRounds(
            part,
            weights[rows],
            DirectionSchedule(K, trees_per_round=1),
            LeafRules(1.0, 0.1, 4.0, 0.3),
            HalfEngine(feature[rows]),
            guard=True,
        )
        out.append([*(rounds.run().vectors[0] for _ in range(5)), rounds.loss])

    whole: list = []
    run(np.arange(len(y)), np.asarray, whole)
    barrier, shared, lock = threading.Barrier(2), [], threading.Lock()

    def reduce(sums):
        with lock:
            shared.append(np.array(sums))
        barrier.wait()
        total = shared[-2] + shared[-1]
        barrier.wait()
        return total

    results: list = []
    halves = [np.arange(100), np.arange(100, len(y))]
    threads = [threading.Thread(target=run, args=(rows, reduce, results)) for rows in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        for mine, expected in zip(result, whole[0], strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-9)
