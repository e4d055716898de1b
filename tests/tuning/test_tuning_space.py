"""The search space and the splits of a study."""

from __future__ import annotations

import itertools

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from sklearn.model_selection import GroupKFold, TimeSeriesSplit

from tuning import default_space, suggest
from tuning.space import change_space, to_drawn, to_parameters
from tuning.splits import make_folds

Y = np.tile(np.arange(3), 40).astype(np.int32)


@pytest.mark.parametrize(("n_classes", "largest"), [(3, 3), (8, 8), (26, 8)])
def test_search_is_bounded_by_the_number_of_classes(n_classes, largest):
    assert default_space(n_classes)["search"] == IntDistribution(1, largest)


def test_ranges_are_those_of_the_documentation():
    space = default_space(10)
    assert space["gap_plus_1"] == IntDistribution(1, 201, log=True)
    assert space["warmup"] == IntDistribution(0, 100)
    assert space["num_leaves"] == IntDistribution(4, 64, log=True)
    assert space["learning_rate"] == FloatDistribution(0.02, 0.3, log=True)
    assert set(default_space(10, regularisation=True)) - set(space) == {
        "min_samples_leaf",
        "reg_lambda",
        "subsample",
        "colsample",
    }


def test_exhaustive_search_is_a_choice_for_many_classes():
    assert default_space(9, exhaustive=True)["search"] == CategoricalDistribution([*range(1, 9), "all"])
    assert default_space(8, exhaustive=True)["search"] == IntDistribution(1, 8)


def test_two_classes_have_no_schedule():
    assert set(default_space(2)) == {"num_leaves", "learning_rate"}


def test_gap_is_drawn_one_larger():
    space = default_space(5)
    assert to_parameters({"gap_plus_1": 1, "search": 2}) == {"gap": 0, "search": 2}
    assert to_drawn({"gap": 10, "search": 99, "unknown": 1}, space) == {"gap_plus_1": 11, "search": 5}


def test_changes_and_fixed_parameters():
    changed = change_space(default_space(5), {"gap": IntDistribution(0, 3), "warmup": None}, {"num_leaves": 7})
    assert set(changed) == {"search", "gap", "learning_rate"}
    assert changed["gap"] == IntDistribution(0, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"gap": (0, 3)}, r"space\['gap'\] must be an optuna distribution"), ([1], "space must be a dict of parameter")],
)
def test_changes_must_be_distributions(changes, message):
    with pytest.raises(TypeError, match=message):
        change_space(default_space(5), changes)


@pytest.mark.parametrize(
    ("engine", "names"),
    [
        ("native", {"search", "gap", "warmup", "num_leaves", "learning_rate"}),
        ("lgbm", {"search", "gap", "warmup", "num_leaves", "learning_rate"}),
        ("xgb", {"search", "gap", "warmup", "max_leaves", "learning_rate", "max_depth", "grow_policy", "tree_method"}),
    ],
)
def test_suggest_gives_arguments_of_the_estimator(engine, names):
    trial = optuna.create_study().ask()
    parameters = suggest(trial, 4, engine=engine)
    assert set(parameters) == names
    assert 1 <= parameters["search"] <= 4
    assert parameters["gap"] == trial.params["gap_plus_1"] - 1


def test_every_fold_keeps_its_three_parts_apart():
    folds = make_folds(4, Y, None, 0.2, 0)
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(Y.size))
    for fold in folds:
        parts = np.concatenate([fold.train, fold.valid, fold.test])
        assert np.array_equal(np.sort(parts), np.arange(Y.size))
        assert np.array_equal(np.bincount(Y[fold.valid]), [6, 6, 6])


def test_folds_depend_on_the_seed_alone():
    first, again, other = (make_folds(3, Y, None, 0.1, seed) for seed in (1, 1, 2))
    for part in ("train", "valid", "test"):
        assert all(np.array_equal(getattr(a, part), getattr(b, part)) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0].test, other[0].test)


@pytest.mark.parametrize("cv", [3, GroupKFold(3)])
def test_no_group_is_in_two_parts_of_a_fold(cv):
    groups = np.repeat(np.arange(20), 6)
    for fold in make_folds(cv, Y, groups, 0.2, 0):
        parts = [set(groups[rows]) for rows in (fold.train, fold.valid, fold.test)]
        assert all(len(one & other) == 0 for one, other in itertools.combinations(parts, 2))


@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(40), 3)])
def test_in_order_of_time_the_last_rows_stop_the_training(groups):
    for fold in make_folds(TimeSeriesSplit(4), Y, groups, 0.2, 0):
        assert fold.train.max() < fold.valid.min()
        assert fold.valid.max() < fold.test.min()
        if groups is not None:
            assert not set(groups[fold.train]) & set(groups[fold.valid])


def test_own_folds_may_be_masks():
    [fold] = make_folds([(Y > 0, Y == 0)], Y, None, 0.1, 0)
    assert np.array_equal(fold.test, np.flatnonzero(Y == 0))


@pytest.mark.parametrize(
    ("cv", "kind", "message"),
    [
        (1, ValueError, "cv must be a whole number from 2 to .*; got 1"),
        ("5", TypeError, "cv must be a whole number of at least 2, a scikit-learn splitter"),
        ([], ValueError, "cv must be a whole number"),
        ([([0, 1, 2], [2, 3])], ValueError, "must not have rows in the training and the test part"),
        ([([0, 1, 2], [500])], ValueError, "folds of row numbers from 0 to 119; got rows from 500 to 500"),
        ([([0.5], [1])], TypeError, "folds of row numbers or of truth values"),
        ([([0, 1, 2], np.empty(0, int))], ValueError, "fold 0 of cv has 2 rows to train, 1 to stop and 0 to score"),
    ],
)
def test_wrong_folds_are_refused(cv, kind, message):
    with pytest.raises(kind, match=message):
        make_folds(cv, Y, None, 0.1, 0)
