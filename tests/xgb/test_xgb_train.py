"""abc_plugins.xgb.train: the algorithm as it is written, stock boosters, metrics, weights and parameters."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

from abc_plugins.core.schedule import BaseClassSchedule  # noqa: E402
from abc_plugins.xgb import ABCBoost, base_classes, cv  # noqa: E402
from abc_plugins.xgb.xgboost_grower import XGBoostGrower  # noqa: E402

from .conftest import PARAMS, SCHEDULE, K, Recorder, leaf_values_of, make_data, quiet, softmax  # noqa: E402


def naive_abc(params, matrix, n_rounds, *, search, gap, warmup):
    """The algorithm as it is written down, one single-output booster a tree; no pair is shared."""
    y = matrix.get_label().astype(int)
    r = np.eye(K)[y]
    F = np.zeros((y.size, K))
    schedule = BaseClassSchedule(K, search=search, gap=gap, warmup=warmup)

    def tree(g, h):
        booster = xgboost.Booster({**params, "objective": "reg:squarederror", "base_score": 0.0}, [matrix])
        booster.boost(matrix, iteration=0, grad=g[:, None].astype(np.float32), hess=h[:, None].astype(np.float32))
        return booster.predict(matrix, output_margin=True)

    def loss(F):
        return -np.log(softmax(F)[np.arange(y.size), y])

    for _ in range(n_rounds):
        p = softmax(F)
        candidates = schedule.plan([loss(F)[y == k].sum() for k in range(K)]).candidates
        if not candidates:
            new = F + np.stack([tree(p[:, k] - r[:, k], p[:, k] * (1 - p[:, k]) * K / (K - 1)) for k in range(K)], 1)
            schedule.record(-1)
            F = new
            continue
        trials = {}
        for b in candidates:
            trials[b] = F.copy()
            for k in set(range(K)) - {b}:
                z = (r[:, k] - p[:, k]) - (r[:, b] - p[:, b])
                h = p[:, b] * (1 - p[:, b]) + p[:, k] * (1 - p[:, k]) + 2 * p[:, b] * p[:, k]
                step = tree(-z, h)
                trials[b][:, k] += step
                trials[b][:, b] -= step
        base = min(candidates, key=lambda b: loss(trials[b]).sum())
        schedule.record(base)
        F = trials[base]
    return F, list(schedule.bases)


@pytest.mark.parametrize("search", [1, 2, "all"])
def test_against_the_algorithm_as_it_is_written(data, search):
    matrix, _ = data
    params = {key: value for key, value in PARAMS.items() if key != "num_class"} | {"max_delta_step": 4}
    F, bases = naive_abc(params, matrix, 8, search=search, gap=1, warmup=2)
    booster = quiet({**params, "num_class": K}, matrix, 8, method="abcrobustlogit", search=search, gap=1, warmup=2)
    assert base_classes(booster) == bases == json.loads(booster.attr("base_classes"))
    assert np.abs(booster.predict(matrix) - softmax(F)).max() < 1e-5


def test_the_result_is_a_stock_booster(data, tmp_path):
    matrix, other = data
    recorder = Recorder()
    booster = quiet(PARAMS, matrix, 9, evals=[(other, "test")], custom_metric=recorder, **SCHEDULE)
    assert type(booster) is xgboost.Booster
    assert json.loads(booster.save_config())["learner"]["objective"]["name"] == "multi:softprob"
    path = tmp_path / "model.ubj"
    booster.save_model(path)
    X, _ = make_data()
    np.save(tmp_path / "X.npy", X[400:])
    script = (
        "import sys, numpy, xgboost; sys.modules['abc_plugins'] = None;"
        f"booster = xgboost.Booster(model_file={str(path)!r});"
        f"data = xgboost.DMatrix(numpy.load({str(tmp_path / 'X.npy')!r}));"
        f"numpy.save({str(tmp_path / 'p.npy')!r}, booster.predict(data))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert np.abs(np.load(tmp_path / "p.npy") - recorder.seen[-1]).max() < 1e-5


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_iterations_and_slices_are_rounds(data, leaf_values):
    matrix, other = data
    recorder = Recorder()
    booster = quiet(
        PARAMS,
        matrix,
        9,
        evals=[(other, "t")],
        custom_metric=recorder,
        leaf_values=leaf_values,
        **SCHEDULE,
    )
    assert booster.num_boosted_rounds() == len(recorder.seen) == 9
    for m, training_time in enumerate(recorder.seen, start=1):
        assert np.abs(booster.predict(other, iteration_range=(0, m)) - training_time).max() < 1e-5
    assert np.array_equal(booster[:4].predict(other), booster.predict(other, iteration_range=(0, 4)))
    assert base_classes(booster[3:]) == base_classes(booster)[3:]
    contributions = booster.predict(other, pred_contribs=True)
    assert np.abs(contributions.sum(axis=2) - booster.predict(other, output_margin=True)).max() < 1e-4


def test_margins_sum_to_zero_after_abc_rounds(data):
    booster = quiet(PARAMS, data[0], 5, method="abcrobustlogit", warmup=0)
    assert np.abs(booster.predict(data[1], output_margin=True).sum(axis=1)).max() < 1e-5


def test_metrics_are_those_of_the_stock_model(data):
    matrix, other = data
    history = {}
    names = ["mlogloss", "merror", "auc", "aucpr"]
    booster = quiet(
        PARAMS | {"eval_metric": names},
        matrix,
        6,
        evals=[(matrix, "train"), (other, "test")],
        evals_result=history,
        custom_metric=Recorder(),
        **SCHEDULE,
    )
    line = booster.eval_set([(matrix, "train"), (other, "test")], 5)
    stock = dict(part.split(":") for part in line.split("\t")[1:])
    assert set(history["test"]) == {*names, "accuracy"}
    for name in names:
        assert history["train"][name][-1] == pytest.approx(float(stock[f"train-{name}"]), abs=1e-6)
        assert history["test"][name][-1] == pytest.approx(float(stock[f"test-{name}"]), abs=1e-6)
    assert history["test"]["accuracy"][-1] == pytest.approx(1.0 - history["test"]["merror"][-1], abs=1e-6)
    assert len(history["train"]["mlogloss"]) == 6


def test_weighted_metrics():
    X, y = make_data()
    weights = np.random.default_rng(1).random(y.size)
    matrix = xgboost.DMatrix(X, y, weight=weights)
    history = {}
    booster = quiet(PARAMS, matrix, 4, evals=[(matrix, "train")], evals_result=history, **SCHEDULE)
    losses = -np.log(booster.predict(matrix)[np.arange(y.size), y])
    assert history["train"]["mlogloss"][-1] == pytest.approx(np.average(losses, weights=weights), abs=1e-5)


def test_weight_two_is_a_row_twice():
    X, y = make_data(200)
    weights = np.where(np.arange(200) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(200), weights.astype(int))
    weighted = quiet(PARAMS, xgboost.DMatrix(X, y, weight=weights), 8, **SCHEDULE)
    repeated = quiet(PARAMS, xgboost.DMatrix(X[twice], y[twice]), 8, **SCHEDULE)
    new = xgboost.DMatrix(X)
    assert base_classes(weighted) == base_classes(repeated)
    assert np.abs(weighted.predict(new) - repeated.predict(new)).max() < 1e-5


def test_training_starts_from_base_margin():
    X, y = make_data()
    margin = np.random.default_rng(2).normal(size=(y.size, K))
    matrix = xgboost.DMatrix(X, y, base_margin=margin)
    recorder, history = Recorder(), {}
    booster = quiet(PARAMS, matrix, 5, evals=[(matrix, "a")], custom_metric=recorder, evals_result=history, **SCHEDULE)
    assert np.array_equal(matrix.get_base_margin().reshape(margin.shape), margin.astype(np.float32))  # flat before 3.2
    assert np.abs(booster.predict(matrix) - recorder.seen[-1]).max() < 1e-5
    plain = quiet(PARAMS, xgboost.DMatrix(X, y), 5, **SCHEDULE)
    assert np.abs(plain.predict(matrix) - booster.predict(matrix)).max() > 0.01


def test_a_base_score_of_the_user_is_kept(data):
    scores = [0.5, 0.0, -0.5, 0.25]
    booster = quiet(PARAMS | {"base_score": scores}, data[0], 2, method="abcrobustlogit", warmup=0)
    assert np.allclose(booster.predict(data[0], output_margin=True).sum(axis=1), sum(scores), atol=1e-5)


def test_pairs_of_a_search_are_grown_once_and_kept_rounds_grow_no_more(data, monkeypatch):
    grown = []
    original = XGBoostGrower.grow

    def counting(self, params, n_outputs, write, iteration):
        grown.append(n_outputs)
        return original(self, params, n_outputs, write, iteration)

    monkeypatch.setattr(XGBoostGrower, "grow", counting)
    quiet(PARAMS, data[0], 5, method="abcrobustlogit", search=3, gap=2, warmup=1)
    assert grown == [K, 3 * (K - 1) - 3, K - 1, K - 1, 3 * (K - 1) - 3]
    grown.clear()
    quiet(PARAMS, data[0], 3, method="abcrobustlogit", search=1, gap=0, warmup=0)
    assert grown == [K - 1] * 3


def test_two_classes_are_left_to_xgboost():
    X, y = make_data()
    matrix = xgboost.DMatrix(X, y % 2)
    params = {"max_depth": 3, "nthread": 1}
    for objective in ({"objective": "binary:logistic"}, {"objective": "multi:softprob", "num_class": 2}):
        stock = xgboost.train(params | objective, matrix, 4)
        assert quiet(params | objective, matrix, 4).save_raw() == stock.save_raw()
    assert (
        quiet(params, matrix, 4).save_raw()
        == xgboost.train(params | {"objective": "binary:logistic"}, matrix, 4).save_raw()
    )


def test_classes_are_counted_where_params_do_not_say(data):
    params = {key: value for key, value in PARAMS.items() if key != "num_class"}
    assert quiet(params, data[0], 3).save_raw() == quiet(PARAMS, data[0], 3).save_raw()


def test_softmax_objective_predicts_classes(data):
    matrix, other = data
    booster = quiet(PARAMS | {"objective": "multi:softmax"}, matrix, 4, **SCHEDULE)
    probabilities = quiet(PARAMS, matrix, 4, **SCHEDULE).predict(other)
    assert np.array_equal(booster.predict(other), probabilities.argmax(axis=1))


def test_stock_train_with_the_callback_is_the_same(data):
    matrix, _ = data
    params = PARAMS | {"objective": "multi:softprob"}
    direct = xgboost.train(params, matrix, 6, callbacks=[ABCBoost(**SCHEDULE)])
    assert direct.save_raw() == quiet(PARAMS, matrix, 6, **SCHEDULE).save_raw()


@pytest.mark.parametrize(
    "extra",
    [
        {"subsample": 0.6, "colsample_bynode": 0.6, "seed": 3},
        {"grow_policy": "lossguide", "max_leaves": 7, "max_depth": 0},
        {"tree_method": "approx"},
        {"tree_method": "exact"},
        {"num_parallel_tree": 2, "subsample": 0.7},
        {"reg_alpha": 0.5, "reg_lambda": 2.0, "gamma": 0.1},
        {"max_bin": 8, "interaction_constraints": [["f0", "f1"], ["f2", "f3", "f4"]]},
    ],
    ids=lambda extra: ",".join(extra),
)
def test_parameters_of_tree_growth(extra):
    X, y = make_data()
    names = [f"f{i}" for i in range(5)]
    matrix, other = (xgboost.DMatrix(X[s], y[s], feature_names=names) for s in (slice(400), slice(400, None)))
    recorder = Recorder()
    booster = quiet(PARAMS | extra, matrix, 6, evals=[(other, "t")], custom_metric=recorder, **SCHEDULE)
    assert np.abs(booster.predict(other) - recorder.seen[-1]).max() < 1e-5
    assert (booster.predict(other).argmax(axis=1) == other.get_label()).mean() > 0.5
    again = quiet(PARAMS | extra | {"nthread": 2}, matrix, 6, **SCHEDULE)
    assert again.save_raw() == booster.save_raw()


def test_rounds_draw_different_rows(data):
    booster = quiet(
        PARAMS | {"subsample": 0.3, "max_depth": 1, "learning_rate": 1e-6},
        data[0],
        4,
        method="abcrobustlogit",
        warmup=4,
    )
    covers = {json.dumps(json.loads(tree)["cover"]) for tree in booster.get_dump(with_stats=True, dump_format="json")}
    assert len(covers) > 4


def test_the_seed_matters(data):
    params = PARAMS | {"subsample": 0.5}
    one, same, two = (quiet(params | {"seed": seed}, data[0], 3).save_raw() for seed in (1, 1, 2))
    assert one == same != two


def test_the_guard_keeps_the_loss_from_rising(data):
    wild = PARAMS | {"learning_rate": 8.0}
    losses = {}
    for guard in (True, False):
        history = {}
        quiet(wild, data[0], 12, evals=[(data[0], "t")], evals_result=history, leaf_clip=None, guard=guard, **SCHEDULE)
        losses[guard] = np.array(history["t"]["mlogloss"])
    assert np.diff(losses[True]).max() <= 1e-6
    assert np.diff(losses[False]).max() > 0.01


def test_the_guard_shortens_the_model_as_well(data):
    matrix, other = data
    recorder = Recorder()
    booster = quiet(
        PARAMS | {"learning_rate": 8.0}, matrix, 8, evals=[(other, "t")], custom_metric=recorder, **SCHEDULE
    )
    for m, training_time in enumerate(recorder.seen, start=1):
        assert np.abs(booster.predict(other, iteration_range=(0, m)) - training_time).max() < 1e-5
    assert int(booster.attr("guarded_rounds")) > 0
    assert quiet(PARAMS, matrix, 3, **SCHEDULE).attr("guarded_rounds") == "0"


def test_leaf_clip_is_max_delta_step(data):
    matrix, _ = data
    clipped = quiet(PARAMS, matrix, 4, leaf_clip=0.5, **SCHEDULE)
    assert clipped.save_raw() == quiet(PARAMS | {"max_delta_step": 0.5}, matrix, 4, **SCHEDULE).save_raw()
    assert np.abs(leaf_values_of(clipped)).max() == pytest.approx(0.5 * 0.3)


def test_sequential_leaf_values_differ_and_are_clipped(data):
    matrix, _ = data
    paper = quiet(PARAMS, matrix, 6, **SCHEDULE)
    sequential = quiet(PARAMS, matrix, 6, leaf_values="sequential", leaf_clip=0.7, **SCHEDULE)
    assert paper.save_raw() != sequential.save_raw()
    assert np.abs(leaf_values_of(sequential[2:])).max() <= 0.7 * 0.3 + 1e-6


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"booster": "gblinear"}, "booster must be 'gbtree': a linear model"),
        ({"booster": "dart"}, "booster must be 'gbtree': dropout rescales"),
        ({"objective": "reg:squarederror"}, "objective must be 'multi:softprob' or 'multi:softmax'"),
        ({"multi_strategy": "multi_output_tree"}, "multi_strategy must be 'one_output_per_tree'"),
        ({"monotone_constraints": "(1,0,0,0,0)"}, "monotone_constraints must be left out"),
        ({"process_type": "update", "updater": "refresh"}, "process_type must be 'default'"),
        ({"updater": "refresh"}, "updater must be one that grows trees"),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(data, params, message):
    with pytest.raises(ValueError, match=message):
        quiet(PARAMS | params, data[0], 2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "abcrobustlogit", "search": 0}, ValueError, "search must be a whole number from 1"),
        ({"method": "abcrobustlogit", "search": 5}, ValueError, r"up to the number of classes \(4\)"),
        ({"gap": -1}, ValueError, "gap must be a whole number of at least 0; got -1"),
        ({"warmup": 1.5}, TypeError, "warmup must be a whole number"),
        ({"leaf_clip": 0.0}, ValueError, "leaf_clip must be a number larger than 0, or None"),
        ({"leaf_values": "new"}, ValueError, "leaf_values must be one of 'paper', 'sequential'"),
        ({"guard": "yes"}, TypeError, "guard must be True or False"),
    ],
)
def test_bad_arguments_are_named(data, arguments, error, message):
    with pytest.raises(error, match=message):
        quiet(PARAMS, data[0], 2, **arguments)


def test_an_objective_of_ones_own_is_for_two_classes():
    X, y = make_data(200)
    matrix = xgboost.DMatrix(X, y > 1)
    params = {"objective": "binary:logistic", "nthread": 1}

    def obj(margins, data):
        probabilities = 1 / (1 + np.exp(-margins))
        return probabilities - data.get_label(), probabilities * (1 - probabilities)

    assert quiet(params, matrix, 3, obj=obj).get_dump() == xgboost.train(params, matrix, 3, obj=obj).get_dump()
    assert quiet({"nthread": 1}, matrix, 3, obj=obj).get_dump() == xgboost.train(params, matrix, 3, obj=obj).get_dump()
    ours, stock = (run(params, matrix, 3, obj=obj, as_pandas=False) for run in (cv, xgboost.cv))
    assert ours == stock
    for run in (cv, quiet):
        with pytest.raises(ValueError, match="obj must be left out for more than two classes"):
            run(PARAMS, xgboost.DMatrix(X, y), 2, obj=obj)
    with pytest.raises(TypeError, match="obj must be a function"):
        quiet(params, matrix, 2, obj="logistic")


class Looking(xgboost.callback.TrainingCallback):
    """Calls a function with the model after every round."""

    def __init__(self, look):
        self.look = look

    def after_iteration(self, model, epoch, _evals_log):
        self.look(model, epoch)
        return False


def test_metrics_follow_labels_and_weights(data):
    matrix, _ = data
    X, y = make_data(200, seed=1)
    valid, weights = xgboost.DMatrix(X, y), np.linspace(0.1, 2.0, 200)

    def look(model, epoch):
        valid.set_label((y + epoch) % K)
        valid.set_weight(weights if epoch == 1 else np.empty(0))
        expected = model.copy().eval(valid)
        assert model.eval(valid).split(":")[1][:6] == expected.split(":")[1][:6]

    quiet(PARAMS, matrix, 3, evals=[(valid, "v")], callbacks=[Looking(look)])


def test_matrices_of_callbacks_are_freed(data):
    matrix, _ = data
    made, alive = [], []

    def look(model, epoch):
        valid = xgboost.DMatrix(*make_data(200, seed=epoch))
        model.eval(valid)
        made.append(weakref.ref(valid))
        del valid
        alive.append(sum(reference() is not None for reference in made))

    quiet(PARAMS, matrix, 3, callbacks=[Looking(look)])
    assert alive == [0, 0, 0]


def test_bad_labels_and_objectives_are_refused():
    X, y = make_data(60)
    with pytest.raises(ValueError, match=r"label must be a class index from 0 to num_class - 1 = 2 for every row; got"):
        quiet({"num_class": 3}, xgboost.DMatrix(X, y), 1)
    with pytest.raises(ValueError, match="label must be a class index"):
        quiet({"num_class": 3}, xgboost.DMatrix(X, y % 3 + 0.5), 1)
    with pytest.raises(ValueError, match=r"obj must be left out for more than two classes: .* softmax loss"):
        quiet({"num_class": 4}, xgboost.DMatrix(X, y), 1, obj=lambda predictions, _matrix: (predictions, predictions))
    with pytest.raises(TypeError, match="obj must be None: ABC-Boost is the objective"):
        xgboost.train(
            {"num_class": 4, "objective": "multi:softprob"},
            xgboost.DMatrix(X, y),
            1,
            obj=lambda predictions, _matrix: (predictions, predictions),
            callbacks=[ABCBoost()],
        )
    with pytest.raises(TypeError, match="params must be a dict; got 'list'"):
        quiet([("num_class", 3)], xgboost.DMatrix(X, y), 1)
    with pytest.raises(ValueError, match="leaf_values must be 'paper' with num_parallel_tree"):
        quiet(
            {"num_class": 4, "num_parallel_tree": 2},
            xgboost.DMatrix(X, y),
            1,
            method="abcrobustlogit",
            leaf_values="sequential",
        )
