"""ABCObjective in a lightgbm.train call of one's own."""

import copy

import lightgbm as lgb
import numpy as np
import pytest

import abc_plugins.lgbm as abc_lgbm
from abc_plugins.lgbm import ABCObjective, model_info

from .conftest import N_CLASSES, make_data

PAIRS = "abcrobustlogit"  # the objective has no other method
SCHEDULES = [
    {"search": 1, "gap": 0, "warmup": 0},
    {"search": 2, "gap": 2, "warmup": 3},
    {"search": "all", "gap": 1, "warmup": 1},
]


@pytest.fixture
def clipped(params):
    return {**params, "max_delta_step": 4.0}


def run(objective, params, data, n_rounds=10, **kwargs):
    X, y = data
    booster = lgb.train({**params, "objective": objective}, lgb.Dataset(X, y, free_raw_data=False), n_rounds, **kwargs)
    return booster, objective.finalise(booster)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_it_gives_the_model_of_train(data, clipped, schedule):
    objective = ABCObjective(clipped, **schedule)
    _, model = run(objective, clipped, data)
    direct = abc_lgbm.train(clipped, lgb.Dataset(*data), 10, method=PAIRS, **schedule)
    assert list(objective.base_classes) == model_info(direct)["base_classes"] == model_info(model)["base_classes"]
    np.testing.assert_allclose(model.predict(data[0]), direct.predict(data[0]), atol=1e-10)


def test_no_scout_growth_with_one_candidate(data, clipped):
    objective = ABCObjective(clipped, search=1, gap=0, warmup=0)
    run(objective, clipped, data)
    assert objective.n_scout_trees == 0
    assert objective._scout is None
    searching = ABCObjective(clipped, search=2, gap=0, warmup=0)
    run(searching, clipped, data)
    assert searching.n_scout_trees == 10 * (2 * (N_CLASSES - 1) - 1)


def test_the_bases_own_tree_is_zero_in_its_round(data, clipped):
    objective = ABCObjective(clipped, search=1, gap=0, warmup=2)
    booster, _ = run(objective, clipped, data)
    trees = abc_lgbm.text.read_model(booster.model_to_string())[1]
    for m, base in enumerate(objective.base_classes):
        if base >= 0:
            own = trees[m * N_CLASSES + base]
            assert abc_lgbm.text.is_stump(own)
            assert abc_lgbm.text.leaf_values(own).tolist() == [0.0]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_used_twice_it_gives_the_same_model(data, clipped, schedule):
    objective = ABCObjective(clipped, **schedule)
    _, first = run(objective, clipped, data)
    bases = objective.base_classes
    _, second = run(objective, clipped, data)
    assert objective.base_classes == bases
    assert np.array_equal(first.predict(data[0]), second.predict(data[0]))


def test_it_survives_the_copies_that_lightgbm_makes(clipped):
    objective = ABCObjective(clipped)
    assert copy.deepcopy({"objective": objective})["objective"] is objective


def test_one_objective_for_several_boosters_at_once_is_refused(data, clipped):
    objective = ABCObjective(clipped, warmup=0)
    with pytest.raises(ValueError, match=r"objective must be one for each booster; see abc_plugins\.lgbm\.cv"):
        lgb.cv({**clipped, "objective": objective, "metric": "None"}, lgb.Dataset(*data), 3, nfold=2)


def test_stalled_rounds_are_in_the_history(data, clipped):
    def gain(m):
        return 1e9 if m in (0, 3) else 0.0

    objective = ABCObjective(clipped, search=2, gap=1, warmup=1)
    _, model = run(objective, clipped, data, 6, callbacks=[lgb.reset_parameter(min_gain_to_split=gain)])
    assert len(objective.base_classes) == len(model_info(model)["base_classes"]) == 6
    scores = model.predict(data[0], raw_score=True)
    assert np.abs(scores.sum(axis=1)).max() < 1e-9  # the classic first round stalled
    last = ABCObjective(clipped, search=1, gap=0, warmup=0)
    _, model = run(
        last, clipped, data, 3, callbacks=[lgb.reset_parameter(min_gain_to_split=lambda m: 1e9 if m == 2 else 0.0)]
    )
    assert len(model_info(model)["base_classes"]) == 3


def test_weights_and_initial_scores_and_models(data, clipped):
    X, y = data
    weight = np.linspace(0.5, 2.0, y.size)
    objective = ABCObjective(clipped, gap=1, warmup=1)
    booster = lgb.train({**clipped, "objective": objective}, lgb.Dataset(X, y, weight=weight), 6)
    direct = abc_lgbm.train(clipped, lgb.Dataset(X, y, weight=weight), 6, method=PAIRS, gap=1, warmup=1)
    np.testing.assert_allclose(objective.finalise(booster).predict(X), direct.predict(X), atol=1e-10)
    stock = lgb.train({**clipped, "objective": "multiclass"}, lgb.Dataset(X, y), 3)
    booster = lgb.train({**clipped, "objective": objective}, lgb.Dataset(X, y), 6, init_model=stock)
    direct = abc_lgbm.train(clipped, lgb.Dataset(X, y), 6, init_model=stock, method=PAIRS, gap=1, warmup=1)
    np.testing.assert_allclose(objective.finalise(booster).predict(X), direct.predict(X), atol=1e-10)


def test_the_guard_scales_what_is_finished(clipped):
    X, y = make_data(300)
    wild = {**clipped, "learning_rate": 3.0, "max_delta_step": 0.0}
    objective = ABCObjective(wild, search=1, gap=0, warmup=0)
    _, model = run(objective, wild, (X, y), 8)
    assert model_info(model)["guarded_rounds"] > 0
    assert np.isfinite(model.predict(X)).all()


def test_wrong_use_is_refused(data, clipped):
    with pytest.raises((TypeError, ValueError), match="num_class must be at least 3, in params"):
        ABCObjective({})
    with pytest.raises(ValueError, match="boosting must be"):
        ABCObjective({**clipped, "boosting": "dart"})
    objective = ABCObjective(clipped)
    stock = lgb.train({**clipped, "objective": "multiclass"}, lgb.Dataset(*data), 2)
    with pytest.raises(ValueError, match="booster must be one that was trained with this objective"):
        objective.finalise(stock)
    run(objective, clipped, data)
    with pytest.raises(ValueError, match="booster must be the one trained last"):
        objective.finalise(stock)


def test_the_number_of_classes_has_other_names(data, clipped):
    others = {name: value for name, value in clipped.items() if name != "num_class"}
    _, expected = run(ABCObjective(clipped), clipped, data, 2)
    for n_classes in (N_CLASSES, str(N_CLASSES)):
        given = {**others, "num_classes": n_classes}
        _, model = run(ABCObjective(given), given, data, 2)
        np.testing.assert_array_equal(model.predict(data[0]), expected.predict(data[0]))
