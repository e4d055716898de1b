"""Callbacks, early stopping, checkpoints, training in parts and cross-validation as an XGBoost user relies on them."""

from __future__ import annotations

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

from abc_plugins.xgb import base_classes, cv, train  # noqa: E402

from .conftest import PARAMS, SCHEDULE, K, make_data, quiet  # noqa: E402


def test_early_stopping_and_save_best():
    X, y = make_data(300)
    y = np.where(np.random.default_rng(3).random(300) < 0.4, np.random.default_rng(4).integers(0, K, 300), y)
    matrix, other = xgboost.DMatrix(X[:150], y[:150]), xgboost.DMatrix(X[150:], y[150:])
    history = {}
    booster = quiet(PARAMS, matrix, 60, evals=[(other, "t")], early_stopping_rounds=5, evals_result=history, **SCHEDULE)
    losses = history["t"]["mlogloss"]
    assert booster.best_iteration == int(np.argmin(losses)) < booster.num_boosted_rounds() - 1 < 59
    assert booster.best_score == pytest.approx(min(losses))
    stopper = xgboost.callback.EarlyStopping(rounds=5, save_best=True)
    best = quiet(PARAMS, matrix, 60, evals=[(other, "t")], callbacks=[stopper], **SCHEDULE)
    assert type(best) is xgboost.Booster
    assert best.num_boosted_rounds() == booster.best_iteration + 1 == best.best_iteration + 1
    value = float(best.eval_set([(other, "t")]).split(":")[1])
    assert value == pytest.approx(min(losses), abs=1e-6)
    assert base_classes(best) == base_classes(booster)[: best.best_iteration + 1]


def test_learning_rate_scheduler(data):
    rates = [0.3, 0.3, 1e-9, 1e-9, 1e-9]
    scheduler = xgboost.callback.LearningRateScheduler(lambda epoch: rates[epoch])
    booster = quiet(PARAMS, data[0], 5, callbacks=[scheduler], **SCHEDULE)
    # the callback sets a rate after round `epoch`: rounds 0 to 2 are taken with 0.3
    assert np.abs(booster[3:].predict(data[1], output_margin=True)).max() < 1e-6
    assert np.abs(booster[2:3].predict(data[1], output_margin=True)).max() > 0.01


@pytest.mark.parametrize("as_pickle", [False, True])
def test_checkpoints_are_stock_models(data, tmp_path, as_pickle):
    import pickle

    checkpoint = xgboost.callback.TrainingCheckPoint(tmp_path, interval=2, as_pickle=as_pickle)
    booster = quiet(PARAMS, data[0], 6, callbacks=[checkpoint], **SCHEDULE)
    path = tmp_path / ("model_4.pkl" if as_pickle else "model_4.ubj")
    saved = pickle.loads(path.read_bytes()) if as_pickle else xgboost.Booster(model_file=path)
    assert type(saved) is xgboost.Booster
    assert np.array_equal(saved.predict(data[1]), booster.predict(data[1], iteration_range=(0, 5)))


def test_a_callback_sees_a_whole_booster(data):
    matrix, other = data
    seen = []

    class Look(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            assert not evals_log
            assert model.num_boosted_rounds() == epoch + 1
            model.set_attr(round=str(epoch), gone=None)
            seen.append((model.predict(other), model.copy().predict(other), model.attr("round"), model.attributes()))
            assert model.num_features() == 5
            assert len(model.get_dump()) >= K * (epoch + 1)
            assert model[: epoch + 1].num_boosted_rounds() == epoch + 1
            return epoch == 3

    booster = quiet(PARAMS, matrix, 9, callbacks=[Look()], **SCHEDULE)
    assert booster.num_boosted_rounds() == 4
    assert booster.attr("round") == "3"
    for m, (predicted, copied, number, attributes) in enumerate(seen):
        assert np.array_equal(predicted, booster.predict(other, iteration_range=(0, m + 1)))
        assert np.array_equal(predicted, copied)
        assert number == attributes["round"] == str(m)


def test_evaluation_monitor_prints_each_round(data, capfd):
    train(PARAMS, data[0], 3, evals=[(data[1], "test")], **SCHEDULE)
    lines = capfd.readouterr().out.strip().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["[0]", "[1]", "[2]"]
    assert "test-mlogloss:" in lines[0]


@pytest.mark.parametrize(("search", "gap", "warmup"), [(2, 1, 2), (1, 0, 0), ("all", 3, 1)])
def test_a_run_in_two_parts_is_the_run_in_one(data, search, gap, warmup):
    matrix, other = data
    schedule = {"method": "abcrobustlogit", "search": search, "gap": gap, "warmup": warmup}
    whole = quiet(PARAMS, matrix, 10, **schedule)
    part = quiet(PARAMS, matrix, 4, **schedule)
    history = {}
    joined = quiet(PARAMS, matrix, 6, xgb_model=part, evals=[(other, "t")], evals_result=history, **schedule)
    assert base_classes(joined) == base_classes(whole)
    assert np.abs(joined.predict(other) - whole.predict(other)).max() < 1e-5
    assert history["t"]["mlogloss"][-1] == pytest.approx(float(whole.eval(other).split(":")[1]), abs=1e-5)
    assert part.num_boosted_rounds() == 4


def test_a_stock_model_is_continued(data, tmp_path):
    matrix, _ = data
    stock = xgboost.train(PARAMS | {"objective": "multi:softprob"}, matrix, 3)
    path = tmp_path / "stock.json"
    stock.save_model(path)
    longer = quiet(PARAMS, matrix, 4, xgb_model=path, **SCHEDULE)
    assert base_classes(longer)[:3] == [-1, -1, -1]
    assert min(base_classes(longer)[3:]) >= 0
    assert np.array_equal(longer.predict(matrix, iteration_range=(0, 3)), stock.predict(matrix))
    again = xgboost.train(PARAMS | {"objective": "multi:softprob"}, matrix, 2, xgb_model=longer)
    assert again.num_boosted_rounds() == 9
    assert np.array_equal(again.predict(matrix, iteration_range=(0, 7)), longer.predict(matrix))


def test_cross_validation_runs_every_fold_for_itself():
    X, y = make_data(240)
    matrix = xgboost.DMatrix(X, y)
    folds = [(np.arange(120), np.arange(120, 240)), (np.arange(120, 240), np.arange(120))]
    result = cv(PARAMS, matrix, 5, folds=folds, metrics=("merror", "mlogloss"), as_pandas=False, **SCHEDULE)
    last = []
    for inside, outside in folds:
        history = {}
        quiet(PARAMS, matrix.slice(inside), 5, evals=[(matrix.slice(outside), "t")], evals_result=history, **SCHEDULE)
        last.append(history["t"]["mlogloss"])
    assert np.allclose(result["test-mlogloss-mean"], np.mean(last, axis=0), atol=1e-6)
    assert len(result["train-merror-std"]) == 5
    stopped = cv(PARAMS, matrix, 80, nfold=3, early_stopping_rounds=3, as_pandas=False, **SCHEDULE)
    assert len(stopped["test-mlogloss-mean"]) < 80
