"""The search space and the splits of a study."""

from __future__ import annotations

import itertools

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, TimeSeriesSplit

from abc_plugins.tuning.ensemble import build_ensemble
from abc_plugins.tuning.metric import TunedMetric
from abc_plugins.tuning.space import applies, change_space, to_drawn, to_parameters
from abc_plugins.tuning.splits import make_folds, usual_repeats, usual_validation_fraction
from tuning import default_space, suggest, tune

Y = np.tile(np.arange(3), 40).astype(np.int32)


@pytest.mark.parametrize(("n_classes", "largest"), [(3, 3), (8, 8), (26, 8)])
def test_search_is_bounded_by_the_number_of_classes(n_classes, largest):
    assert default_space(n_classes)["search"] == IntDistribution(1, largest)


def test_ranges_are_those_of_the_documentation():
    space = default_space(10)
    assert space["method"].choices == ("directional", "abcrobustlogit", "robustlogit")
    assert space["gap_plus_1"] == IntDistribution(1, 201, log=True)
    assert space["warmup"] == IntDistribution(0, 100)
    assert space["num_leaves"] == IntDistribution(4, 128, log=True)
    assert space["max_depth"] == IntDistribution(3, 9)
    assert space["learning_rate"] == FloatDistribution(0.02, 0.2, log=True)


@pytest.mark.parametrize("engine", ["native", "lgbm", "xgb"])
def test_with_many_classes_only_directional_trees_are_drawn(engine):
    assert default_space(13, engine=engine)["method"].choices == ("directional",)


@pytest.mark.parametrize("engine", ["lgbm", "xgb"])
def test_methods_of_the_adapters(engine):
    assert default_space(12, engine=engine)["method"].choices == ("directional", "abcrobustlogit")
    assert default_space(2, engine=engine)["method"].choices == ("directional",)


def test_warm_up_is_part_of_the_rounds():
    assert default_space(5, max_rounds=30)["warmup"] == IntDistribution(0, 15)


def test_leaves_cannot_be_large_where_there_are_few_rows():
    assert default_space(3, n_samples=60)["min_samples_leaf"].high == 3
    assert default_space(3, n_samples=300)["min_samples_leaf"].high == 10
    assert default_space(3, n_samples=10_000)["min_samples_leaf"].high == 30
    assert default_space(3, engine="lgbm", n_samples=300)["min_child_samples"].high == 10


def test_smallest_leaves_have_the_meaning_of_the_engine():
    """XGBoost knows no number of samples in a leaf, only a sum of hessians."""
    assert "min_samples_leaf" in default_space(4)
    assert "min_child_samples" in default_space(4, engine="lgbm")
    xgb = default_space(4, engine="xgb")
    assert not {"min_samples_leaf", "min_child_samples"} & set(xgb)
    assert xgb["min_child_weight"] == FloatDistribution(1e-3, 10.0, log=True)


def test_two_classes_have_no_schedule():
    space = default_space(2)
    assert not {"search", "gap_plus_1", "warmup"} & set(space)
    assert space["method"].choices == ("directional", "robustlogit")


@pytest.mark.parametrize(
    ("values", "there", "not_there"),
    [
        ({"method": "directional", "tree_shape": "symmetric"}, {"max_depth", "leaf_reg_lambda"}, {"num_leaves", "gap"}),
        ({"method": "directional", "tree_shape": "best-first"}, {"num_leaves"}, {"max_depth", "search"}),
        ({"method": "directional", "tree_shape": "auto"}, {"num_leaves", "max_depth"}, {"warmup"}),
        ({"method": "abcrobustlogit", "tree_shape": "auto"}, {"num_leaves", "search", "gap_plus_1", "warmup"},
         {"max_depth", "tree_shape", "leaf_reg_lambda"}),
        ({"method": "robustlogit", "tree_shape": "auto"}, {"num_leaves", "subsample"}, {"search", "max_depth"}),
    ],
)  # fmt: skip
def test_parameters_that_do_not_matter_are_not_drawn(values, there, not_there):
    assert all(applies(name, values) for name in there)
    assert not any(applies(name, values) for name in not_there)


def test_gap_is_drawn_one_larger():
    space = default_space(5)
    assert to_parameters({"gap_plus_1": 1, "search": 2}) == {"gap": 0, "search": 2}
    assert to_drawn({"gap": 10, "search": 99, "unknown": 1}, space) == {"gap_plus_1": 11, "search": 5}


def test_ranges_of_parameters_that_are_none_by_default():
    """None is no number: the sampler draws one instead, but for the trial of the defaults."""
    assert to_drawn({"trees_per_round": None}, {"trees_per_round": IntDistribution(1, 4)}) == {}
    assert to_drawn({"max_depth": None}, {"max_depth": CategoricalDistribution((3, None))}) == {"max_depth": None}
    X = np.random.default_rng(0).normal(size=(120, 3))
    space = {"max_bins": IntDistribution(16, 255), "trees_per_round": IntDistribution(1, 4)}
    result = tune(X, Y, n_trials=2, cv=2, repeats=1, max_rounds=4, space=space, confirm=0, progress=False)
    defaults, other = (trial.user_attrs["params"] for trial in result.study.trials)
    assert set(defaults) == {"learning_rate"}
    assert set(space) <= set(other)


def test_changes_and_fixed_parameters():
    usual = default_space(5)
    changed = change_space(usual, {"gap": IntDistribution(0, 3), "warmup": None}, {"num_leaves": 7})
    assert list(changed) == [name.removesuffix("_plus_1") for name in usual if name not in ("warmup", "num_leaves")]
    assert changed["gap"] == IntDistribution(0, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"gap": (0, 3)}, r"space\['gap'\] must be an optuna distribution"), ([1], "space must be a dict of parameter")],
)
def test_changes_must_be_distributions(changes, message):
    with pytest.raises(TypeError, match=message):
        change_space(default_space(5), changes)


@pytest.mark.parametrize("engine", ["native", "lgbm", "xgb"])
def test_suggest_gives_arguments_of_the_estimator(engine):
    if engine == "native":
        from abc_plugins import ABCBoostClassifier as Estimator
    elif engine == "lgbm":
        from abc_plugins.lgbm import ABCLGBMClassifier as Estimator
    else:
        from abc_plugins.xgb import ABCXGBClassifier as Estimator
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = []
    for _ in range(12):
        trial = study.ask()
        drawn.append(suggest(trial, 4, engine=engine))
        assert set(drawn[-1]) <= set(Estimator().get_params())
        if "gap" in drawn[-1]:
            assert drawn[-1]["gap"] == trial.params["gap_plus_1"] - 1
        study.tell(trial, 0.0)
    classic = {"robustlogit"} if engine == "native" else set()
    assert {one["method"] for one in drawn} == {"directional", "abcrobustlogit", *classic}
    assert all(("search" in one) == (one["method"] == "abcrobustlogit") for one in drawn)
    assert all(("leaf_reg_lambda" in one) == (one["method"] == "directional") for one in drawn)


def test_few_rows_are_split_more_often_and_stop_with_more_of_them():
    assert [usual_repeats(5, n) for n in (100, 300, 500, 10_000)] == [3, 2, 1, 1]
    assert usual_repeats(TimeSeriesSplit(3), 100) == 1
    assert [usual_validation_fraction(n) for n in (100, 1250, 10_000)] == [0.25, 0.2, 0.1]


def test_repeated_folds_are_drawn_anew():
    folds = make_folds(3, Y, None, 0.1, 0, repeats=2)
    assert len(folds) == 6
    for first in (0, 3):
        assert sorted(np.concatenate([fold.test for fold in folds[first : first + 3]])) == list(range(Y.size))
    assert not np.array_equal(folds[0].test, folds[3].test)


def test_the_only_row_of_a_class_is_trained_on():
    codes = np.append(Y, 3).astype(np.int32)
    rows = np.arange(codes.size)
    for seed in range(5):
        [fold] = make_folds([(rows[60:], rows[:60])], codes, None, 0.5, seed)
        assert 120 in fold.train


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


def test_rare_classes_are_named_once():
    y = np.array(["ant"] * 20 + ["bee"] * 20 + ["cat"] * 2)
    X = np.random.default_rng(0).normal(size=(42, 2))
    with pytest.warns(UserWarning, match=r"fewer rows than the 5 folds .*: cat \(2\)") as caught:
        tune(X, y, n_trials=1, repeats=2, max_rounds=3, refit=False, progress=False)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_class_that_a_fold_is_not_trained_on_costs_as_in_scikit_learn():
    codes, classes = np.array([0, 1, 2, 2], dtype=np.int32), np.array(["a", "b", "c"])
    probabilities = np.array([[0.7, 0.3, 0.0], [0.2, 0.8, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    expected = log_loss(codes, probabilities, labels=[0, 1, 2])
    assert TunedMetric("logloss", classes).value(codes, probabilities, None) == pytest.approx(expected, rel=1e-12)
    report = build_ensemble({0: [probabilities]}, [codes], [None], 0)
    assert report.single_loss == pytest.approx(expected, rel=1e-12)


@pytest.mark.filterwarnings("ignore:classes with fewer rows")
def test_the_summary_names_classes_that_folds_are_not_trained_on():
    y = np.array(["ant"] * 20 + ["bee"] * 20 + ["cat"])
    X = np.random.default_rng(0).normal(size=(41, 2))
    for rows, is_named in ((41, True), (40, False)):
        result = tune(X[:rows], y[:rows], n_trials=1, repeats=1, max_rounds=3, refit=False, progress=False)
        assert ("classes          the training rows of some folds lack cat: " in result.summary()) == is_named
    assert result.best_score < 2
