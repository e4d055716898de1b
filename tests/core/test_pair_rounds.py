"""The round of pairs as a protocol: an engine of scikit-learn's trees, and rounds shared between processes."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from abc_plugins.core.leaves import LeafRules
from abc_plugins.core.pair_rounds import PairRounds
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule
from abc_plugins.core.scores import PairScores

K = 4
RULES = LeafRules(factor=1.0, reg_lambda=0.1, clip=4.0, learning_rate=0.3)


class SklearnEngine:
    """Grows each tree by a regression of z / h with weights h, whose gain is that of the Newton step."""

    hands_over_trees = False
    can_probe = True
    value_type = np.float64
    n_leaves = 8

    def __init__(self, X):
        self.X = X
        self.pairs = []
        self.seen = []
        self.n_grown = 0

    def negates(self, _scores):
        return True

    def parts(self, scores, n_parts):
        return scores.parts(n_parts)

    def grow(self, scores, pairs, seen, _round_index, after_each=None, in_order=None):
        gradients, hessians = np.empty((2, len(pairs), scores.labels.size))
        scores.gradients(pairs, seen, gradients, hessians)
        self.pairs, self.n_grown = list(pairs), self.n_grown + len(pairs)
        self.seen.append(seen)
        nodes = []
        for z, h in zip(-gradients, hessians, strict=True):
            tree = DecisionTreeRegressor(max_leaf_nodes=self.n_leaves, random_state=0)
            tree.fit(self.X, z / np.maximum(h, 1e-12), sample_weight=np.maximum(h, 1e-12))
            nodes.append(np.unique(tree.apply(self.X), return_inverse=True)[1])
        self.leaves = np.array(nodes, dtype=np.uint16)
        for tell in (after_each, in_order):
            if tell is not None:
                tell(0, len(pairs))

    def leaf_ids(self, _trees):
        return self.leaves

    def own_values(self):
        return None


def make_data(n_samples=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    y = ((X[:, 0] > 0) + 2 * (X[:, 1] + 0.2 * rng.normal(size=n_samples) > 0)).astype(np.int32)
    return X, y, rng.uniform(0.5, 2.0, n_samples)


def make_rounds(X, y, weights, *, leaf_values="paper", guard=True, rules=RULES, reduce=None, engine=None, **schedule):
    engine = SklearnEngine(X) if engine is None else engine
    scores = PairScores(y, weights, np.zeros((K, y.size)), Workers(1), reduce)
    schedule = BaseClassSchedule(K, **{"search": 2, "gap": 2, "warmup": 2, **schedule})
    return PairRounds(scores, schedule, rules, engine, leaf_values=leaf_values, guard=guard), engine


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=0))
    return powers / powers.sum(axis=0)


def naive_loss(scores, y, weights):
    return -(weights * np.log(softmax(scores)[y, np.arange(y.size)])).sum()


def naive_values(scores, y, weights, k, base, leaves):
    """Newton steps of the leaves of one tree."""
    p = softmax(scores)
    if base == CLASSIC:
        z, h, factor = (y == k) - p[k], p[k] * (1 - p[k]), (K - 1) / K
    else:
        z = ((y == k) - p[k]) - ((y == base) - p[base])
        h, factor = p[base] * (1 - p[base]) + p[k] * (1 - p[k]) + 2 * p[base] * p[k], 1.0
    z_sums, h_sums = (np.bincount(leaves, weights * one, SklearnEngine.n_leaves) for one in (z, h))
    return RULES.learning_rate * np.clip(factor * z_sums / (h_sums + RULES.reg_lambda), -RULES.clip, RULES.clip)


def naive_step(scores, y, weights, base, leaves_of, leaf_values):
    """The scores after a round, and its leaf values."""
    moved, values = scores.copy(), []
    for k in range(K):
        if k == base:
            continue
        before = moved if leaf_values == "sequential" else scores
        values.append(naive_values(before, y, weights, k, base, leaves_of(k)))
        moved[k] = moved[k] + values[-1][leaves_of(k)]
        if base != CLASSIC:
            moved[base] = moved[base] - values[-1][leaves_of(k)]
    return moved, np.array(values)


def leaves_by_class(engine, base):
    def leaves_of(k):
        (t,) = [t for t, pair in enumerate(engine.pairs) if set(pair) == {k, base}]
        return engine.leaves[t].astype(int)

    return leaves_of


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_any_engine_can_be_driven_and_all_is_as_in_the_paper(leaf_values):
    """Bases by the lowest training loss among the worst classes, Newton steps, scores and losses."""
    X, y, weights = make_data()
    rounds, engine = make_rounds(X, y, weights, leaf_values=leaf_values)
    scores = np.zeros((K, y.size))
    losses = [rounds.scores.loss]
    for m in range(12):
        candidates = rounds.schedule.plan(rounds.scores.class_losses.tolist()).candidates or (CLASSIC,)
        made = rounds.run()
        assert made.is_centred == (m == 2)
        if made.is_centred:
            scores -= scores.mean(axis=0)
        steps = {
            base: naive_step(scores, y, weights, base, leaves_by_class(engine, base), leaf_values)
            for base in candidates
        }
        best = min(steps, key=lambda base: naive_loss(steps[base][0], y, weights))
        assert made.base == best
        assert (best == CLASSIC) == (m < 2)
        assert made.factor == 1.0
        scores, values = steps[best]
        np.testing.assert_allclose(made.update.values, values, atol=1e-9)
        assert made.pairs == [(k, best) for k in range(K) if k != best]
        np.testing.assert_allclose(rounds.scores.scores, scores, atol=1e-9)
        losses.append(rounds.scores.loss)
        assert losses[-1] == pytest.approx(naive_loss(scores, y, weights))
    assert all(after < before for before, after in pairwise(losses))
    assert losses[-1] < 0.3 * losses[0]
    assert rounds.trees_grown == engine.n_grown == 2 * K + 4 * (2 * (K - 1) - 1) + 6 * (K - 1)


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_leaf_values_of_the_engine_are_taken_as_they_are(leaf_values):
    X, y, weights = make_data()
    engine = SklearnEngine(X)
    engine.own_values = lambda: np.full((len(engine.pairs), engine.n_leaves), 1e-3)
    rounds, _ = make_rounds(X, y, weights, leaf_values=leaf_values, engine=engine, guard=False)
    made = rounds.run()
    assert made.has_own_values
    assert (made.update.values == 1e-3).all()


def test_leaf_values_are_rounded_to_what_the_engine_keeps():
    X, y, weights = make_data()
    for leaf_values in ("paper", "sequential"):
        engine = SklearnEngine(X)
        engine.value_type = np.float32
        rounds, _ = make_rounds(X, y, weights, leaf_values=leaf_values, engine=engine)
        for _ in range(4):
            values = rounds.run().update.values
            assert np.array_equal(values, values.astype(np.float32))


def test_probes_hold_out_a_part_and_report_what_it_gains():
    X, y, weights = make_data()
    rounds, engine = make_rounds(X, y, weights, base_choice="drawn", search=1, gap=0, warmup=0)
    for _ in range(9):
        rounds.run()
    scores, parts = rounds.scores.scores.copy(), rounds.scores.parts(5)
    made = rounds.run()
    assert [seen.size for seen in engine.seen[:9]] == [y.size] * 9
    is_seen = parts != 0
    assert np.array_equal(engine.seen[9], np.flatnonzero(is_seen))
    leaves_of = leaves_by_class(engine, made.base)
    # The trees' leaf values come from all samples, those that are reported from the samples seen.
    after, values = naive_step(scores, y, weights, made.base, leaves_of, "paper")
    np.testing.assert_allclose(made.update.values, values, atol=1e-9)
    np.testing.assert_allclose(rounds.scores.scores, after, atol=1e-9)
    after, _ = naive_step(scores, y, np.where(is_seen, weights, 0.0), made.base, leaves_of, "paper")
    gains = []
    for part in (is_seen, ~is_seen):
        w = np.where(part, weights, 0.0)
        gains.append((naive_loss(scores, y, w) - naive_loss(after, y, w)) / w.sum())
    assert rounds.schedule.probes == (pytest.approx(tuple(gains)),)
    deaf, engine = make_rounds(X, y, weights, base_choice="drawn", search=1, gap=0, warmup=0)
    engine.can_probe = False
    for _ in range(10):
        deaf.run()
    assert deaf.schedule.probes == ()
    assert {seen.size for seen in engine.seen} == {y.size}


def test_the_guard_shortens_and_replaces_and_counts_each_round_once(caplog):
    X, y, weights = make_data()
    wild = RULES._replace(learning_rate=20.0, clip=1e12)
    for leaf_values in ("paper", "sequential"):
        rounds, _ = make_rounds(X, y, weights, rules=wild, leaf_values=leaf_values, warmup=0)
        losses, expected = [rounds.scores.loss], 0
        with caplog.at_level("INFO", "abc_plugins"):
            for _ in range(12):
                is_classic = rounds.schedule.plan(rounds.scores.class_losses.tolist()).is_classic
                made = rounds.run()
                expected += made.factor < 1.0 or (made.base == CLASSIC and not is_classic)
                losses.append(rounds.scores.loss)
        assert all(after <= before for before, after in pairwise(losses))
        assert rounds.guarded_rounds == expected > 0
        free, _ = make_rounds(X, y, weights, rules=wild, leaf_values=leaf_values, warmup=0, guard=False)
        for _ in range(5):
            free.run()
        assert free.guarded_rounds == 0
    assert caplog.text.count("would have raised the training loss") == 2


def test_rounds_after_the_loss_is_gone_grow_nothing():
    X, y, weights = make_data()
    rounds, engine = make_rounds(X, y, weights, rules=RULES._replace(reg_lambda=0.0, clip=50.0, learning_rate=1.0))
    for _ in range(200):
        made = rounds.run()
        if made.update is None:
            break
    grown = engine.n_grown
    made = rounds.run()
    assert engine.n_grown == grown
    assert made.update is None
    assert made.pairs == [(k, made.base) for k in range(K) if k != made.base]
    assert len(rounds.schedule.bases) > 3


class _Processes:
    """Threads that stand for processes: `reduce` adds up what each of them has."""

    def __init__(self, n):
        self.barrier = threading.Barrier(n)
        self.parts = [None] * n

    def reduce_of(self, rank):
        def reduce(sums):
            self.parts[rank] = np.array(sums)
            self.barrier.wait()
            total = sum(self.parts[1:], self.parts[0])
            self.barrier.wait()
            return total

        return reduce


class _SharedTrees(SklearnEngine):
    """Grows from the derivatives of all processes, and keeps the leaves of its own samples."""

    def __init__(self, X, own, shared):
        super().__init__(X[own])
        self.all_X, self.own, self.shared = X, own, shared

    def grow(self, scores, pairs, seen, *_rest):
        gradients, hessians = np.empty((2, len(pairs), self.own.size))
        scores.gradients(pairs, seen, gradients, hessians)
        whole = np.zeros((2, len(pairs), len(self.all_X)))
        whole[:, :, self.own] = gradients, hessians
        whole = self.shared(whole)
        self.pairs = list(pairs)
        nodes = []
        for z, h in zip(-whole[0], whole[1], strict=True):
            tree = DecisionTreeRegressor(max_leaf_nodes=self.n_leaves, random_state=0)
            tree.fit(self.all_X, z / np.maximum(h, 1e-12), sample_weight=np.maximum(h, 1e-12))
            nodes.append(np.unique(tree.apply(self.all_X), return_inverse=True)[1][self.own])
        self.leaves = np.array(nodes, dtype=np.uint16)


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_processes_that_share_the_samples_make_the_same_rounds(leaf_values):
    X, y, weights = make_data()
    options = {"leaf_values": leaf_values, "base_choice": "drawn", "warmup": 1, "gap": 1, "search": 2}
    alone, _ = make_rounds(X, y, weights, **options)
    expected = [alone.run() for _ in range(13)]
    processes = _Processes(3)
    shares = [np.arange(0, y.size, 3), np.flatnonzero(np.arange(y.size) % 3), np.arange(0)]  # the last one has none
    made = {}

    def work(rank):
        own = shares[rank]
        reduce = processes.reduce_of(rank)
        engine = _SharedTrees(X, own, reduce)
        rounds, _ = make_rounds(X[own], y[own], weights[own], reduce=reduce, engine=engine, **options)
        made[rank] = [rounds.run() for _ in range(13)]
        made[rank, "probes"] = rounds.schedule.probes

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(alone.schedule.probes) == 1
    for rank in range(3):
        assert [one.base for one in made[rank]] == [one.base for one in expected]
        np.testing.assert_allclose(made[rank, "probes"], alone.schedule.probes, rtol=1e-6)
        for one, other in zip(made[rank], expected, strict=True):
            # equal gains may be split in another order, which numbers leaves otherwise
            np.testing.assert_allclose(np.sort(one.update.values), np.sort(other.update.values), atol=1e-9)
