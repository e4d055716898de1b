"""The oracle's splits and trees, against examples worked out by hand."""

import math

import naive
import numpy as np
import pytest


class TestSplitting:
    settings = naive.Settings(method="robustlogit", min_samples_leaf=1)

    def split(self, x, z, h=None, weights=None, **changes):
        X = np.asarray(x, dtype=float).reshape(len(x), -1)
        h = np.ones(len(x)) if h is None else np.asarray(h, dtype=float)
        weights = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=float)
        settings = naive.Settings(**{**vars(self.settings), **changes})
        return naive.best_split(X, np.asarray(z, dtype=float), h, weights, naive.candidate_thresholds(X), settings)

    def test_thresholds_are_midpoints_of_distinct_values(self):
        X = np.array([[1.0, np.nan], [4.0, 7.0], [1.0, 7.0], [2.0, 7.0]])
        first, second = naive.candidate_thresholds(X)
        np.testing.assert_array_equal(first, [1.5, 3.0])
        assert second.size == 0

    def test_worked_example(self):
        # z = 1, 1, -3: after two samples the sums are 2 and -3, so 2^2/2 + 3^2/1 - 1^2/3
        split = self.split([1.0, 2.0, 4.0], [1, 1, -3])
        assert (split.feature, split.threshold, split.missing_left) == (0, 3.0, True)
        assert split.gain == pytest.approx(4 / 2 + 9 / 1 - 1 / 3)

    def test_first_order_divides_by_weights_and_second_order_by_hessians(self):
        arguments = {"x": [1.0, 2.0, 3.0], "z": [3, 1, -1], "h": [2, 1, 0.1], "weights": [1, 2, 4]}
        second = self.split(**arguments)
        assert (second.threshold, second.gain) == (2.5, pytest.approx(16 / 3 + 1 / 0.1 - 9 / 3.1))
        first = self.split(**arguments, method="mart")
        assert (first.threshold, first.gain) == (1.5, pytest.approx(9 / 1 + 0 / 6 - 9 / 7))

    def test_reg_lambda_is_added_to_every_denominator(self):
        assert self.split([1.0, 2.0], [2, -1], reg_lambda=0.5).gain == pytest.approx(4 / 1.5 + 1 / 1.5 - 1 / 2.5)
        first = self.split([1.0, 2.0], [2, -1], h=[9, 9], reg_lambda=0.5, method="mart")
        assert first.gain == pytest.approx(4 / 1.5 + 1 / 1.5 - 1 / 2.5)

    def test_zero_denominators_count_as_zero(self):
        assert self.split([1.0, 2.0, 3.0], [5, 1, -1], h=[0, 1, 1]).threshold == 2.5
        assert naive.gain_term(3.0, 0.0, 0.0) == 0.0

    @pytest.mark.parametrize(
        ("changes", "threshold"),
        [({}, 1.5), ({"min_samples_leaf": 2}, 2.5), ({"min_child_weight": 2}, 2.5), ({"min_samples_leaf": 3}, None)],
    )
    def test_both_children_must_be_large_enough(self, changes, threshold):
        split = self.split([1.0, 2.0, 3.0, 4.0], [9, -1, -1, -1], **changes)
        assert (split and split.threshold) == threshold

    def test_samples_are_counted_whatever_their_weight(self):
        arguments = {"x": [1.0, 2.0, 3.0], "z": [9, -1, -1], "min_samples_leaf": 2}
        assert self.split(**arguments) is None
        assert self.split(**arguments, weights=[2, 1, 1]) is None

    def test_no_gain_no_split(self):
        assert self.split([1.0, 2.0, 3.0, 4.0], [0.1, 0.1, 0.1, 0.1]) is None

    def test_rounding_is_no_gain(self):
        x, z, h = np.arange(50.0), np.full(50, 0.1), np.full(50, 0.3)
        gains = [
            z[:n].sum() ** 2 / h[:n].sum() + z[n:].sum() ** 2 / h[n:].sum() - z.sum() ** 2 / h.sum()
            for n in range(1, 50)
        ]
        assert max(gains) > 0
        assert self.split(x, z, h) is None

    def test_ties_go_to_the_first_feature_and_the_smallest_threshold(self):
        x = np.column_stack([[1.0, 1, 2, 2], [1.0, 2, 3, 4], [1.0, 2, 3, 4]])
        assert self.split(x, [1, -1, -1, 1]).feature == 1
        assert self.split(x, [1, -1, -1, 1]).threshold == 1.5
        # Candidates that cut an empty stretch of the node are ties too
        node = np.array([[1.0], [5.0]])
        thresholds = [np.array([0.5, 2.0, 3.0, 4.5, 7.0])]
        split = naive.best_split(node, np.array([1.0, -1]), np.ones(2), np.ones(2), thresholds, self.settings)
        assert split.threshold == 2.0

    def test_missing_values_go_to_the_side_that_gains(self):
        x = [1.0, 2.0, np.nan]
        assert self.split(x, [3, -1, -1]).missing_left is False
        assert self.split(x, [3, -1, 2]).missing_left is True

    def test_missing_values_may_be_parted_from_all_others(self):
        split = self.split([1.0, 2.0, np.nan], [1, 1, -2])
        assert (split.threshold, split.missing_left) == (math.inf, False)
        np.testing.assert_array_equal(split.goes_left(np.array([[9.0], [np.nan]])), [True, False])

    def test_missing_values_are_not_parted_from_others_by_a_threshold_below_them(self):
        node, thresholds = np.array([[1.0], [2.0], [np.nan]]), [np.array([-3.0, 0.5, 1.5])]
        split = naive.best_split(node, np.array([1.0, 1, -2]), np.ones(3), np.ones(3), thresholds, self.settings)
        assert (split.threshold, split.missing_left) == (math.inf, False)

    def test_missing_left_wins_ties(self):
        # {1} | {3, missing} and {1, missing} | {3} gain the same
        split = self.split([1.0, 3.0, np.nan], [1, -1, 0], h=[1, 1, 0])
        assert (split.threshold, split.missing_left) == (2.0, True)
        # {1} | {2, 3, missing} and {1, 2, missing} | {3}
        split = self.split([1.0, 2.0, 3.0, np.nan], [1, 0, -1, 0])
        assert (split.threshold, split.missing_left) == (2.5, True)

    def test_without_missing_values_the_larger_child_takes_later_ones(self):
        assert self.split([1.0, 2.0, 3.0], [9, 0, 0]).missing_left is False
        assert self.split([1.0, 2.0, 3.0], [0, 0, 9]).missing_left is True
        assert self.split([1.0, 2.0], [9, 0]).missing_left is True
        assert self.split([1.0, 2.0, 3.0], [9, 0, 0], weights=[5, 1, 1]).missing_left is False

    def test_second_order_gain_is_twice_the_drop_of_the_quadratic_model(self):
        # The model of a leaf is min over t of -t sum z + t^2/2 (sum h + reg_lambda)
        rng = np.random.default_rng(3)
        x, z, h = rng.normal(size=20), rng.normal(size=20), rng.uniform(0.1, 1, 20)
        split = self.split(x, z, h, reg_lambda=0.3)
        left = x <= split.threshold

        def lowest(rows):
            t = np.linspace(-50, 50, 2_000_001)
            return np.min(-t * z[rows].sum() + t * t / 2 * (h[rows].sum() + 0.3))

        drop = lowest(np.ones(20, dtype=bool)) - lowest(left) - lowest(~left)
        assert split.gain == pytest.approx(2 * drop, rel=1e-6)

    def test_first_order_gain_is_the_drop_of_squared_error(self):
        rng = np.random.default_rng(4)
        x, r, weights = rng.normal(size=20), rng.normal(size=20), rng.uniform(0.1, 2, 20)

        def squared_error(rows):
            mean = np.average(r[rows], weights=weights[rows])
            return np.sum(weights[rows] * (r[rows] - mean) ** 2)

        split = self.split(x, weights * r, weights=weights, method="mart", min_samples_leaf=0)
        drops = [
            squared_error(x < np.inf) - squared_error(x <= t) - squared_error(x > t)
            for t in naive.candidate_thresholds(x[:, None])[0]
        ]
        assert split.gain == pytest.approx(max(drops))
        assert split.threshold == naive.candidate_thresholds(x[:, None])[0][np.argmax(drops)]


class TestGrowing:
    def grow(self, x, z, num_leaves):
        X = np.asarray(x, dtype=float)[:, None]
        settings = naive.Settings(method="robustlogit", min_samples_leaf=1, num_leaves=num_leaves)
        nodes = naive.grow(X, np.asarray(z, float), np.ones(len(x)), np.ones(len(x)), [np.arange(0.5, 9)], settings)
        naive.set_leaf_values(nodes, np.asarray(z, float), np.ones(len(x)), 1.0, settings)
        return naive.Tree(0, 1, nodes)

    def test_the_largest_gain_is_split_first_and_nodes_are_numbered_in_order_of_splits(self):
        # First {0,1,2,3} | {4,5,6,7}; of the halves, the right one varies more
        nodes = self.grow(range(8), [10, 10, 11, 11, -10, -10, -20, -20], 4).nodes
        assert [(node.left, node.right) for node in nodes[:3]] == [(1, 2), (5, 6), (3, 4)]
        assert [list(node.rows) for node in nodes[3:]] == [[4, 5], [6, 7], [0, 1], [2, 3]]
        assert [node.split.threshold for node in nodes[:3]] == [3.5, 1.5, 5.5]
        assert [node.value for node in nodes[3:]] == pytest.approx([-1.0, -2.0, 1.0, 1.1])
        assert [node.weight for node in nodes] == [8, 4, 4, 2, 2, 2, 2]

    def test_equal_leaves_are_split_in_the_order_they_were_made(self):
        nodes = self.grow(range(8), [10, 10, 12, 12, -10, -10, -12, -12], 3).nodes
        assert (nodes[1].left, nodes[2].left) == (3, 0)

    def test_growth_stops_when_nothing_is_gained(self):
        assert len(self.grow(range(4), [1, 1, -1, -1], 9).nodes) == 3
        assert len(self.grow(range(4), [1, 1, 1, 1], 9).nodes) == 1

    def test_prediction_follows_the_splits(self):
        z = [10, 10, 11, 11, -10, -10, -20, -20]
        tree = self.grow(range(8), z, 4)
        np.testing.assert_allclose(tree.predict(np.arange(8.0)[:, None]), 0.1 * np.array(z))
        np.testing.assert_allclose(tree.predict(np.array([[-5.0], [3.5], [3.6], [99.0]])), [1.0, 1.1, -1.0, -2.0])

    @pytest.mark.parametrize(
        ("z", "h", "changes", "value"),
        [
            ([3.0, 1.0], [1.0, 1.0], {}, 0.2),
            ([3.0, 1.0], [1.0, 1.0], {"reg_lambda": 2.0}, 0.1),
            ([3.0, 1.0], [0.0, 0.0], {}, 0.0),
            ([3.0, 1.0], [1e-3, 0.0], {}, 5.0),
            ([-3.0, -1.0], [1e-3, 0.0], {}, -5.0),
            ([3.0, 1.0], [1e-3, 0.0], {"leaf_clip": None}, 400.0),
            ([3.0, 1.0], [1.0, 1.0], {"leaf_clip": 1.5}, 0.15),
        ],
    )
    def test_leaf_values(self, z, h, changes, value):
        node = naive.Node(np.array([0, 1]), 2.0, None)
        naive.set_leaf_values([node], np.array(z), np.array(h), 1.0, naive.Settings(**changes))
        assert node.value == pytest.approx(value)
