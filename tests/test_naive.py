"""The oracle itself: against finite differences, against examples worked out by hand, against its own definitions."""

import ast
import math
import sys
from pathlib import Path

import naive
import numpy as np
import pytest

METHODS = ("mart", "robustlogit", "abcmart", "abcrobustlogit")


def random_scores(n_classes, seed=0, n=7):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=2.0, size=(n, n_classes)), rng.integers(0, n_classes, n)


def along(F, y, direction):
    """First and second derivative of every sample's loss along a direction, by central differences."""
    losses = [naive.sample_losses(F + t * direction, y) for t in (-1e-4, 0.0, 1e-4)]
    return (losses[2] - losses[0]) / 2e-4, (losses[2] - 2 * losses[1] + losses[0]) / 1e-8


def unit(n_classes, k):
    return np.eye(n_classes)[k]


def test_the_oracle_imports_nothing_of_the_package():
    for path in Path(naive.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        absolute = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0]
        imported |= {node.module for node in absolute}
        assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names | {"numpy"}, path


class TestDerivatives:
    @pytest.mark.parametrize("n_classes", [2, 3, 6])
    def test_classic_are_those_of_the_loss_along_one_score(self, n_classes):
        F, y = random_scores(n_classes)
        for k in range(n_classes):
            z, h = naive.classic_derivatives(naive.softmax(F), y, k)
            slope, curvature = along(F, y, unit(n_classes, k))
            np.testing.assert_allclose(z, -slope, atol=1e-7)
            np.testing.assert_allclose(h, curvature, atol=1e-6)

    @pytest.mark.parametrize("n_classes", [3, 6])
    def test_abc_are_those_of_the_loss_along_one_score_up_and_the_base_down(self, n_classes):
        F, y = random_scores(n_classes)
        for b in range(n_classes):
            for k in set(range(n_classes)) - {b}:
                z, h = naive.abc_derivatives(naive.softmax(F), y, k, b)
                slope, curvature = along(F, y, unit(n_classes, k) - unit(n_classes, b))
                np.testing.assert_allclose(z, -slope, atol=1e-7)
                np.testing.assert_allclose(h, curvature, atol=1e-6)

    def test_abc_hessian_is_the_shorter_expression_of_the_design(self):
        F, y = random_scores(5)
        p = naive.softmax(F)
        _, h = naive.abc_derivatives(p, y, 3, 1)
        np.testing.assert_allclose(h, (p[:, 1] + p[:, 3]) - (p[:, 1] - p[:, 3]) ** 2, rtol=1e-13)

    def test_swapping_class_and_base_negates_the_residual_and_keeps_the_hessian(self):
        F, y = random_scores(4, n=50)
        p = naive.softmax(F)
        z_kb, h_kb = naive.abc_derivatives(p, y, 0, 2)
        z_bk, h_bk = naive.abc_derivatives(p, y, 2, 0)
        np.testing.assert_array_equal(z_kb, -z_bk)
        np.testing.assert_allclose(h_kb, h_bk, rtol=1e-15)

    def test_two_classes_use_the_classic_derivatives_of_class_1(self):
        F, y = random_scores(2)
        p = naive.softmax(F)
        np.testing.assert_array_equal(naive.derivatives(p, y, 1, 0), naive.classic_derivatives(p, y, 1))

    def test_class_losses_add_up_and_equal_the_log_probabilities(self):
        F, y = random_scores(4, n=40)
        weights = np.random.default_rng(1).uniform(0, 2, 40)
        losses = naive.class_losses(F, y, weights)
        own = -weights * np.log(naive.softmax(F)[np.arange(40), y])
        np.testing.assert_allclose(losses, [own[y == k].sum() for k in range(4)])
        assert sum(losses) == pytest.approx(naive.total_loss(F, y, weights))

    def test_losses_of_far_apart_scores_do_not_overflow(self):
        F = np.array([[800.0, -800.0], [800.0, -800.0]])
        np.testing.assert_array_equal(naive.sample_losses(F, np.array([0, 1])), [0.0, 1600.0])


class TestSchedule:
    def candidates(self, m, losses, last_base=None, **changes):
        settings = naive.Settings(**{"search": 2, "gap": 1, "warmup": 2} | changes)
        return naive.round_candidates(m, losses, last_base, settings)

    def test_warm_up_then_search_then_keep(self):
        losses = [1.0, 3.0, 2.0]
        assert [self.candidates(m, losses, 9) for m in range(6)] == [[], [], [1, 2], [9], [1, 2], [9]]

    def test_every_round_searches_without_gap(self):
        assert [self.candidates(m, [1.0, 3.0, 2.0], 9, gap=0, warmup=0) for m in range(2)] == [[1, 2], [1, 2]]

    def test_all(self):
        assert self.candidates(2, [1.0, 3.0, 2.0], search="all") == [1, 2, 0]

    def test_ties_go_to_the_smaller_class(self):
        assert self.candidates(2, [1.0, 2.0, 1.0, 2.0], search=3) == [1, 3, 0]

    def test_two_classes_and_plain_methods_have_no_base(self):
        assert self.candidates(5, [1.0, 2.0]) == []
        assert self.candidates(5, [1.0, 2.0, 3.0], method="robustlogit") == []

    def test_lowest(self):
        assert naive.lowest([4, 2, 7], [3.0, 1.0, 1.0]) == 2
        assert naive.lowest([4, 2], [math.nan, 8.0]) == 2
        assert naive.lowest([4, 2], [math.nan, math.nan]) == 4


class TestBoosting:
    def fit(self, data, **changes):
        defaults = {"n_estimators": 5, "num_leaves": 4, "min_samples_leaf": 5, "search": 2, "gap": 1, "warmup": 1}
        return naive.fit(data.X, data.y, data.weights, settings=naive.Settings(**defaults | changes))

    def test_first_classic_round_by_hand(self):
        # Three classes, p = 1/3: the leaf of class 0 at x=0 has z = 3 * 2/3, h = 3 * 2/9, so beta = 2/3 * 2/(2/3) = 2
        X, y = np.repeat([0.0, 1.0, 2.0], 3)[:, None], np.repeat([0, 1, 2], 3)
        settings = naive.Settings(method="robustlogit", n_estimators=1, num_leaves=3, min_samples_leaf=1)
        model = naive.fit(X, y, settings=settings)
        np.testing.assert_allclose(model.F[0], [0.2, -0.1, -0.1], atol=1e-12)
        assert model.train_loss == pytest.approx([9 * math.log(1 + 2 * math.exp(-0.3))])
        assert (model.base_classes, model.trees_grown) == ([naive.CLASSIC], 3)

    def test_first_abc_round_by_hand(self):
        # z = 1 for class k, -1 for the base, 0 else, and h = 2/3: beta = 3/2, -3/2, 0; the base takes minus the sum
        X, y = np.repeat([0.0, 1.0, 2.0], 3)[:, None], np.repeat([0, 1, 2], 3)
        settings = naive.Settings(n_estimators=1, num_leaves=3, min_samples_leaf=1, search=1, warmup=0)
        model = naive.fit(X, y, settings=settings)
        assert (model.base_classes, model.trees_grown) == ([0], 2)
        expected = 0.15 * np.array([[2.0, -1, -1], [-1, 1, 0], [-1, 0, 1]])
        np.testing.assert_allclose(model.F[::3], expected, atol=1e-12)

    def test_two_classes_equal_two_classic_trees(self):
        X, y = np.repeat([0.0, 1.0], 3)[:, None], np.repeat([0, 1], 3)
        settings = naive.Settings(n_estimators=1, num_leaves=2, min_samples_leaf=1, warmup=0)
        model = naive.fit(X, y, settings=settings)
        # z = -1/2, h = 1/4: beta = 1/2 * -2 = -1 for class 1, and the other way round for class 0
        np.testing.assert_allclose(model.F[0], [0.1, -0.1])
        assert [(tree.plus, tree.minus) for tree in model.rounds[0]] == [(1, 0)]
        assert (model.base_classes, model.trees_grown) == ([naive.CLASSIC], 1)

    @pytest.mark.parametrize("method", METHODS)
    def test_loss_falls_and_scores_are_the_sum_of_the_trees(self, method, make_data):
        data = make_data(4, 80)
        model = self.fit(data, method=method)
        start = 80 * math.log(4)
        assert all(
            later < earlier for earlier, later in zip([start, *model.train_loss], model.train_loss, strict=False)
        )
        centred = model.F - model.F.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_scores(data.X), centred, atol=1e-12)

    def test_scores_sum_to_zero_once_a_base_was_used(self, make_data):
        model = self.fit(make_data(5, 80), warmup=2, method="abcmart")
        np.testing.assert_allclose(model.F.sum(axis=1), 0.0, atol=1e-12)

    @pytest.mark.parametrize(("n_classes", "search"), [(3, 1), (3, "all"), (5, 3), (6, "all")])
    def test_distinct_trees_of_a_search(self, n_classes, search, make_data):
        K, s = n_classes, n_classes if search == "all" else search
        model = self.fit(make_data(K, 60), n_estimators=4, search=search, gap=1, warmup=1, num_leaves=2)
        pairs = s * (K - 1) - s * (s - 1) // 2
        assert model.trees_grown == K + pairs + (K - 1) + pairs

    def test_a_tree_and_its_mirror_are_one_tree(self, make_data):
        data = make_data(4, 80, missing=0.1)
        F = np.random.default_rng(0).normal(size=(80, 4))
        thresholds = naive.candidate_thresholds(data.X)
        arguments = (data.X, data.y, np.ones(80), F)
        settings = naive.Settings(num_leaves=6, min_samples_leaf=3)
        with_base_1, _ = naive.train_round(*arguments, 1, thresholds, settings)
        with_base_3, _ = naive.train_round(*arguments, 3, thresholds, settings)
        tree = next(tree for tree in with_base_1 if tree.plus == 3)
        mirror = next(tree for tree in with_base_3 if tree.plus == 1)
        assert len(tree.nodes) == len(mirror.nodes) > 5
        for node, other in zip(tree.nodes, mirror.nodes, strict=True):
            assert list(node.rows) == list(other.rows)
            assert node.value == pytest.approx(-other.value, rel=1e-12)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("missing", [0.0, 0.15])
    def test_a_weight_is_a_number_of_rows(self, method, missing, make_data):
        data = make_data(3, 60, weights="zeros", missing=missing)
        repeats = data.weights.astype(int)
        assert set(repeats) == {0, 1, 2, 3}
        weighted = self.fit(data, method=method, min_samples_leaf=1)  # which counts rows
        settings = naive.Settings(method, 5, num_leaves=4, min_samples_leaf=1, search=2, gap=1, warmup=1)
        repeated = naive.fit(data.X.repeat(repeats, axis=0), data.y.repeat(repeats), settings=settings)
        assert weighted.base_classes == repeated.base_classes
        assert weighted.train_loss == pytest.approx(repeated.train_loss, rel=1e-12)
        scores = weighted.predict_scores(data.X_test)
        np.testing.assert_allclose(scores, repeated.predict_scores(data.X_test), atol=1e-12)

    def test_the_winner_has_the_lowest_loss_of_all_candidates(self, make_data):
        data = make_data(4, 80)
        thresholds = naive.candidate_thresholds(data.X)
        model = self.fit(data, n_estimators=2, search="all", warmup=1)
        F = np.zeros((80, 4))
        for tree in model.rounds[0]:
            tree.add_to(F, data.X)
        settings = naive.Settings(num_leaves=4, min_samples_leaf=5)
        losses = [
            naive.total_loss(
                naive.train_round(data.X, data.y, np.ones(80), F, b, thresholds, settings)[1], data.y, np.ones(80)
            )
            for b in range(4)
        ]
        assert model.base_classes[1] == np.argmin(losses)
        assert model.train_loss[1] == pytest.approx(min(losses))


class TestGuard:
    def stumps_after(self, X, y, F, b, values):
        """A round whose trees of one leaf have the given values, and what the guard makes of it."""
        pairs = naive.pairs_of_round(F.shape[1], b)
        nodes = [naive.Node(np.arange(len(y)), len(y), None, value=value) for value in values]
        trees = [naive.Tree(*pair, [node]) for pair, node in zip(pairs, nodes, strict=True)]
        F_after = F.copy()
        for tree in trees:
            tree.add_to(F_after, X)
        settings = naive.Settings(num_leaves=1)
        return naive.guarded(b, trees, F, F_after, X, y, np.ones(len(y)), [np.empty(0)], settings)

    def test_a_round_that_lowers_the_loss_is_left_alone(self):
        X, y, F = np.zeros((3, 1)), np.array([2, 2, 2]), np.zeros((3, 3))
        b, trees, F_after = self.stumps_after(X, y, F, 0, [0.0, 0.5])
        assert (b, [tree.nodes[0].value for tree in trees]) == (0, [0.0, 0.5])
        np.testing.assert_array_equal(F_after, [[-0.5, 0.0, 0.5]] * 3)

    def test_a_step_is_halved_until_the_loss_does_not_rise(self):
        # A step of t costs 3 log(2 + e^t) - 2 t, with its minimum at log 4
        X, y, F = np.zeros((3, 1)), np.array([0, 2, 2]), np.zeros((3, 3))
        b, trees, F_after = self.stumps_after(X, y, F, naive.CLASSIC, [0.0, 0.0, 8.0])
        loss = [naive.total_loss(np.array([[0, 0, t]] * 3), y, np.ones(3)) for t in (0.0, 8.0, 4.0, 2.0)]
        assert loss[1] > loss[2] > loss[0] > loss[3]
        assert (b, trees[2].nodes[0].value) == (naive.CLASSIC, 2.0)
        np.testing.assert_array_equal(F_after[:, 2], 2.0)

    def test_a_step_uphill_becomes_a_classic_round(self):
        X, y, F = np.zeros((3, 1)), np.array([0, 2, 2]), np.zeros((3, 3))
        b, trees, F_after = self.stumps_after(X, y, F, 0, [0.0, -1.0])
        assert b == naive.CLASSIC
        assert len(trees) == 3
        assert naive.total_loss(F_after, y, np.ones(3)) < 3 * math.log(3)

    def test_a_classic_step_uphill_becomes_none_at_all(self):
        X, y, F = np.zeros((3, 1)), np.array([0, 2, 2]), np.zeros((3, 3))
        b, trees, F_after = self.stumps_after(X, y, F, naive.CLASSIC, [0.0, 0.0, -1.0])
        assert (b, [tree.nodes[0].value for tree in trees]) == (naive.CLASSIC, [0.0, 0.0, 0.0])
        assert F_after is F

    def test_after_a_failed_first_base_the_next_round_searches_again(self):
        settings = naive.Settings(search=1, gap=5, warmup=1)
        assert naive.round_candidates(3, [1.0, 2.0, 3.0], None, settings) == [2]
        assert naive.round_candidates(3, [1.0, 2.0, 3.0], 0, settings) == [0]


class TestSequentialLeaves:
    def trained_round(self, data, b, leaf_values):
        F = np.random.default_rng(5).normal(size=(len(data.y), 4))
        settings = naive.Settings(num_leaves=4, min_samples_leaf=5, leaf_values=leaf_values)
        thresholds = naive.candidate_thresholds(data.X)
        return F, *naive.train_round(data.X, data.y, np.ones(len(data.y)), F, b, thresholds, settings)

    @pytest.mark.parametrize("b", [naive.CLASSIC, 2])
    def test_same_trees_other_values(self, b, make_data):
        data = make_data(4, 80)
        _, at_once, _ = self.trained_round(data, b, "paper")
        _, in_turn, _ = self.trained_round(data, b, "sequential")
        assert [[list(n.rows) for n in t.nodes] for t in at_once] == [[list(n.rows) for n in t.nodes] for t in in_turn]
        assert [n.value for n in at_once[0].nodes] == [n.value for n in in_turn[0].nodes]
        assert [n.value for n in at_once[1].nodes] != [n.value for n in in_turn[1].nodes]

    @pytest.mark.parametrize("b", [naive.CLASSIC, 2])
    def test_every_leaf_is_a_newton_step_from_the_scores_before_it(self, b, make_data):
        data = make_data(4, 80)
        F, trees, F_after = self.trained_round(data, b, "sequential")
        for tree in trees:
            direction = unit(4, tree.plus) - (0 if b == naive.CLASSIC else unit(4, b))
            slope, curvature = along(F, data.y, direction)
            for node in tree.nodes:
                if node.is_leaf:
                    newton = -slope[node.rows].sum() / curvature[node.rows].sum()
                    factor = 3 / 4 if b == naive.CLASSIC else 1.0
                    assert node.value == pytest.approx(0.1 * factor * newton, rel=1e-4)
            tree.add_to(F, data.X)
        np.testing.assert_array_equal(F, F_after)
