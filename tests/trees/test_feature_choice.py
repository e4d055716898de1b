"""Features drawn for each node, and interaction constraints."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.model.ensemble import LEAF
from abc_plugins.core.settings import interaction_groups
from abc_plugins.core.trees.feature_choice import close_groups, draw_features, make_feature_choice, start_choice

KINDS = {
    "symmetric": {"tree_shape": "symmetric", "max_depth": 4},
    "best-first": {"tree_shape": "best-first", "num_leaves": 12},
    "pairs": {"method": "abcrobustlogit", "num_leaves": 12, "min_samples_leaf": 2},
}


def fit(data, kind, **options):
    options = {"n_estimators": 8, "n_jobs": 1, "random_state": 0, "learning_rate": 0.3} | KINDS[kind] | options
    return ABCBoostClassifier(**options).fit(data.X, data.y)


def branches(model):
    """The features of every branch of all trees."""
    for tree in model.model_.trees():
        above = {0: frozenset()}
        for node in range(tree.feature.size):
            if tree.feature[node] == LEAF:
                yield above[node]
            else:
                for child in (tree.left[node], tree.right[node]):
                    above[child] = above[node] | {int(tree.feature[node])}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("constraints", "groups"),
    [
        ([[0, 1], [1, 2, 3]], [{0, 1}, {1, 2, 3}, {4, 5}]),
        ("no_interactions", [{f} for f in range(6)]),
        ("pairwise", [set(pair) for pair in combinations(range(6), 2)]),
    ],
    ids=str,
)
def test_branches_use_features_of_one_group(make_data, kind, constraints, groups):
    data = make_data(3, 200, 6, missing=0.05)
    free = {branch for branch in branches(fit(data, kind)) if not any(branch <= group for group in groups)}
    assert free  # so that there is something to forbid
    found = set(branches(fit(data, kind, interaction_constraints=constraints)))
    assert all(any(branch <= group for group in groups) for branch in found)
    assert len({f for branch in found for f in branch}) > 2


def test_more_groups_than_bits_of_a_word(make_data):
    data = make_data(3, 150, 14)
    found = set(branches(fit(data, "best-first", interaction_constraints="pairwise", n_estimators=20)))
    assert max(map(len, found)) == 2
    assert len({branch for branch in found if len(branch) == 2}) > 20


def test_a_model_with_constraints_is_saved(make_data, tmp_path):
    data = make_data(3, 60, 4)
    fit(data, "best-first", interaction_constraints=[{0, np.int64(2)}]).save_model(tmp_path / "model")
    assert ABCBoostClassifier.load_model(tmp_path / "model").interaction_constraints == [[0, 2]]


def test_constraints_by_name(make_data):
    data = make_data(3, 120, 4)
    table = pandas.DataFrame(data.X, columns=list("abcd"))
    options = {"n_estimators": 4, "n_jobs": 1, "random_state": 0}
    named = ABCBoostClassifier(interaction_constraints=[{"a", "c"}], **options).fit(table, data.y)
    numbered = ABCBoostClassifier(interaction_constraints=[(0, np.int64(2))], **options).fit(table, data.y)
    np.testing.assert_array_equal(named.predict_proba(table), numbered.predict_proba(table))
    for wrong, message in (
        ([["a", "x"]], "lists of names of columns of X; got 'x'"),
        ([[0, 4]], "lists of column indices from 0 to 3; got 4"),
        ([[-1]], "lists of column indices from 0 to 3; got -1"),
    ):
        with pytest.raises(ValueError, match=f"interaction_constraints must be {message}"):
            ABCBoostClassifier(interaction_constraints=wrong, **options).fit(table, data.y)
    with pytest.raises(ValueError, match="interaction_constraints must be lists of column indices; got 'a'"):
        ABCBoostClassifier(interaction_constraints=[["a"]], **options).fit(data.X, data.y)


def test_columns_in_no_group_are_one_more():
    assert interaction_groups([[3, 1]], None, 5) == [[3, 1], [0, 2, 4]]
    assert interaction_groups([[0, 1], [1]], None, 2) == [[0, 1], [1]]
    assert interaction_groups("pairwise", None, 1) == [[0]]
    assert interaction_groups(None, None, 5) is None


def test_groups_are_closed_by_splits():
    choice = make_feature_choice(1.0, [[0, 1], [1, 2], [3]], np.array([0, 1, 2, 3]), 2)
    start_choice(choice, np.uint64(0))
    usable, other = np.ones(4, dtype=bool), np.ones(4, dtype=bool)
    close_groups(choice, 0, 1, 1, usable, other)
    assert usable.tolist() == other.tolist() == [True, True, True, False]
    close_groups(choice, 1, 1, 2, other, other)
    assert (usable.tolist(), other.tolist()) == ([True, True, True, False], [False, True, True, False])


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 1.0])
def test_as_many_features_are_drawn_as_the_share_says(share):
    usable = np.arange(20) % 4 != 0  # 15 of them
    choice = make_feature_choice(share, None, np.arange(20), 1)
    start_choice(choice, np.uint64(5))
    times = np.zeros(20)
    for _ in range(2000):
        draw_features(choice, usable)
        assert choice.drawn.sum() == max(1, round(share * 15))
        times += choice.drawn
    assert not times[~usable].any()
    expected = 2000 * max(1, round(share * 15)) / 15
    assert np.abs(times[usable] - expected).max() < 5 * np.sqrt(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_of_a_tree_draw_different_features(make_data, kind):
    """Without a draw the one strong feature is split on everywhere; with it there is none in most nodes."""
    data = make_data(3, 300, 6)
    data.X[:, 0] = data.y + 0.6 * np.random.default_rng(0).normal(size=300)
    options = {"max_features": 0.34, "n_estimators": 12, "learning_rate": 0.05}
    one, other = (fit(data, kind, n_jobs=n_jobs, **options) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one.predict_proba(data.X), other.predict_proba(data.X))
    with_all = fit(data, kind, **options | {"max_features": 1.0})
    roots, roots_with_all = ([tree.feature[0] for tree in model.model_.trees()] for model in (one, with_all))
    assert np.mean(np.array(roots) == 0) < 0.7 * np.mean(np.array(roots_with_all) == 0)
    assert max(len(branch) for branch in branches(one)) > 2  # two features were drawn for each node, not for each tree
    assert not np.array_equal(
        one.predict_proba(data.X), fit(data, kind, **options, random_state=1).predict_proba(data.X)
    )
