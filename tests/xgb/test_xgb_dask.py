"""ABC-Boost on a Dask cluster of worker processes on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")
pytest.importorskip("distributed")
array = pytest.importorskip("dask.array")

from dask import delayed  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402
from xgboost.callback import TrainingCallback  # noqa: E402
from xgboost.collective import Config  # noqa: E402

from abc_plugins.xgb import base_classes  # noqa: E402
from abc_plugins.xgb import dask as abc_dask  # noqa: E402
from abc_plugins.xgb import train as train_here  # noqa: E402

K = 5
N = 600
PARAMS = {"num_class": K, "max_depth": 3, "nthread": 1, "learning_rate": 0.3, "eval_metric": ["merror", "mlogloss"]}
SCHEDULE = {"method": "abcrobustlogit", "search": 2, "gap": 1, "warmup": 2}
QUICK = Config(timeout=30)  # a lost worker is noticed within this many seconds


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(3, timeout=120)
        yield client


@pytest.fixture(scope="module")
def data():
    """Rows sorted by class; few distinct values a feature, so that all workers and one process have the same bins."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 12, size=(2 * N, 6)).astype(np.float32)
    y = np.stack([X[:, k] + 0.3 * X[:, k + 1] + rng.normal(size=2 * N) for k in range(K)], axis=1).argmax(axis=1)
    order = np.argsort(y[:N], kind="stable")
    return X[:N][order], y[:N][order], X[N:], y[N:]


def spread(client, values, cuts):
    """Put the rows cuts[i] .. cuts[i + 1] on worker i."""
    workers = sorted(client.scheduler_info()["workers"])
    blocks = []
    for worker, first, last in zip(workers, cuts[:-1], cuts[1:], strict=False):
        part = values[first:last]
        future = client.scatter(part, workers=[worker], hash=False)
        blocks.append(array.from_delayed(delayed(future), part.shape, part.dtype))
    return array.concatenate(blocks)


def matrix(client, cuts, X, y, **meta):
    parts = {name: spread(client, values, cuts) for name, values in {"data": X, "label": y, **meta}.items()}
    made = abc_dask.DaskDMatrix(client, **parts)
    assert len(made.worker_map) == len(cuts) - 1
    return made


SHARDS = {
    "one worker": [0, N],
    "two workers, no class in both": [0, 250, N],
    "three workers, one with two rows": [0, 400, N - 2, N],
}


@pytest.mark.parametrize("cuts", SHARDS.values(), ids=SHARDS)
@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_any_shards_give_the_model_of_one_process(client, data, cuts, leaf_values):
    X, y, X_test, y_test = data
    here, test = xgboost.DMatrix(X, y), xgboost.DMatrix(X_test, y_test)
    history = {}
    options = SCHEDULE | {"leaf_values": leaf_values, "verbose_eval": False}
    expected = train_here(PARAMS, here, 8, evals=[(test, "test")], evals_result=history, **options)
    evals = [(matrix(client, [0, 500, N], X_test, y_test), "test")]
    results = abc_dask.train(client, PARAMS, matrix(client, cuts, X, y), 8, evals=evals, **options)
    booster = results["booster"]
    assert type(booster) is xgboost.Booster
    assert base_classes(booster) == base_classes(expected)
    assert len(set(base_classes(booster))) > 2
    assert np.abs(booster.predict(test) - expected.predict(test)).max() < 1e-4
    for name in ("merror", "mlogloss"):
        assert results["history"]["test"][name] == pytest.approx(history["test"][name], abs=1e-4)


@pytest.mark.parametrize("cuts", SHARDS.values(), ids=SHARDS)
def test_any_shards_give_the_directional_model_of_one_process(client, data, cuts):
    X, y, X_test, y_test = data
    here, test = xgboost.DMatrix(X, y), xgboost.DMatrix(X_test, y_test)
    history = {}
    options = {"method": "directional", "search": 2, "warmup": 1, "verbose_eval": False}
    expected = train_here(PARAMS, here, 6, evals=[(test, "test")], evals_result=history, **options)
    evals = [(matrix(client, [0, 500, N], X_test, y_test), "test")]
    results = abc_dask.train(client, PARAMS, matrix(client, cuts, X, y), 6, evals=evals, **options)
    assert type(results["booster"]) is xgboost.Booster
    assert np.abs(results["booster"].predict(test) - expected.predict(test)).max() < 1e-4
    for name in ("merror", "mlogloss"):
        assert results["history"]["test"][name] == pytest.approx(history["test"][name], abs=1e-4)


def test_early_stopping_rests_on_all_rows(client, data):
    X, y, X_test, y_test = data
    rng = np.random.default_rng(5)
    noisy = np.where(rng.random(N) < 0.5, rng.integers(0, K, N), y)
    here, test = xgboost.DMatrix(X, noisy), xgboost.DMatrix(X_test, y_test)
    options = SCHEDULE | {"early_stopping_rounds": 3, "verbose_eval": False}
    params = PARAMS | {"learning_rate": 1.0}
    expected = train_here(params, here, 60, evals=[(test, "test")], **options)
    evals = [(matrix(client, [0, 30, N], X_test, y_test), "test")]
    stopped = abc_dask.train(client, params, matrix(client, [0, 100, N], X, noisy), 60, evals=evals, **options)
    assert expected.num_boosted_rounds() < 60
    assert stopped["booster"].best_iteration == expected.best_iteration


def test_weights_margins_and_continuation(client, data):
    X, y, X_test, _ = data
    rng = np.random.default_rng(6)
    meta = {
        "weight": rng.integers(1, 4, N).astype(np.float32),
        "base_margin": rng.normal(size=(N, K)).astype(np.float32),
    }
    here = xgboost.DMatrix(X, y, **meta)
    options = SCHEDULE | {"verbose_eval": False}
    expected = train_here(PARAMS, here, 3, **options)
    expected = train_here(PARAMS, here, 3, xgb_model=expected, **options)
    spread_out = matrix(client, [0, 400, N], X, y, **meta)
    first = abc_dask.train(client, PARAMS, spread_out, 3, **options)["booster"]
    booster = abc_dask.train(client, PARAMS, spread_out, 3, xgb_model=first, **options)["booster"]
    test = xgboost.DMatrix(X_test)
    assert base_classes(booster) == base_classes(expected)
    assert np.abs(booster.predict(test) - expected.predict(test)).max() < 1e-4


def test_classifier(client, data):
    X, y, X_test, y_test = data
    X_parts, y_parts = spread(client, X, [0, 400, N]), spread(client, y, [0, 400, N])
    model = abc_dask.ABCDaskXGBClassifier(n_estimators=6, max_depth=3, **SCHEDULE)
    model.client = client
    model.fit(X_parts, y_parts, eval_set=[(X_parts, y_parts)], verbose=False)
    expected = train_here(PARAMS | {"learning_rate": None}, xgboost.DMatrix(X, y), 6, verbose_eval=False, **SCHEDULE)
    probabilities = model.predict_proba(spread(client, X_test, [0, 300, N])).compute()
    assert np.abs(probabilities - expected.predict(xgboost.DMatrix(X_test))).max() < 1e-4
    assert model.base_classes_.tolist() == base_classes(expected)
    assert model.callbacks is None
    assert len(model.evals_result()["validation_0"]["mlogloss"]) == 6
    predicted = model.predict(spread(client, X_test, [0, 300, N])).compute()
    assert (predicted == y_test).mean() > 0.6


def test_asynchronous_client(client, data):
    X, y, _, _ = data

    async def fit():
        async with Client(client.scheduler.address, asynchronous=True) as later:
            made = await abc_dask.DaskDMatrix(later, array.from_array(X, chunks=(N, 6)), array.from_array(y, chunks=N))
            results = await abc_dask.train(later, PARAMS, made, 2, method="abcrobustlogit", warmup=0)
            model = abc_dask.ABCDaskXGBClassifier(n_estimators=2, method="abcrobustlogit", warmup=0)
            model.client = later
            await model.fit(array.from_array(X, chunks=(N, 6)), array.from_array(y, chunks=N))
            return results["booster"], model.get_booster()

    for booster in asyncio.run(fit()):
        assert min(base_classes(booster)) >= 0


def test_a_bad_label_on_one_worker_stops_all(client, data):
    X, y, _, _ = data
    with pytest.raises(ValueError, match="label must be a class index from 0 to num_class - 1 = 3 for every row"):
        abc_dask.train(client, PARAMS | {"num_class": K - 1}, matrix(client, [0, 300, N], X, y), 2)


def test_what_is_missing_or_wrong_is_named(data):
    with pytest.raises(ValueError, match="num_class must be given in params"):
        abc_dask.train(None, {"max_depth": 3}, None)
    with pytest.raises(TypeError, match="params must be a dict"):
        abc_dask.train(None, [("num_class", 3)], None)
    with pytest.raises(ValueError, match="gap must be a whole number of at least 0; got -1"):
        abc_dask.train(None, PARAMS, None, method="abcrobustlogit", gap=-1)
    assert data[0].shape == (N, 6)


class Die(TrainingCallback):
    """Kill a worker process in the middle of training."""

    def after_iteration(self, model, epoch, evals_log):  # noqa: ARG002
        if epoch == 3 and xgboost.collective.get_rank() == xgboost.collective.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return False


@pytest.mark.parametrize("recomputable", [True, False], ids=["rows can be read again", "rows are lost"])
def test_a_killed_worker_ends_training_with_an_error(client, data, recomputable):
    """These take workers away, and are the last ones for that reason."""
    X, y, _, _ = data
    client.wait_for_workers(2, timeout=60)
    if recomputable:
        parts = array.from_array(X, chunks=(N // 2, 6)), array.from_array(y, chunks=N // 2)
        made = abc_dask.DaskDMatrix(client, *parts)
    else:
        made = matrix(client, [0, 200, N], X, y)
    started = time.monotonic()
    with pytest.raises(RuntimeError, match=r"training has lost the worker tcp://.*, and there is no model"):
        abc_dask.train(client, PARAMS, made, 500, callbacks=[Die()], coll_cfg=QUICK, verbose_eval=False)
    assert time.monotonic() - started < 100
