"""ABC-Boost on Dask with 1, 2 and 3 workers on this machine: base classes, errors, time and traffic.

    python benchmarks/cluster.py --data FOLDER

Half of letter is trained on, its rows sorted by class, so that no class is on more than two workers; the other half
is tested on. Every worker has one thread. Traffic is what the loopback device carried during training, best of the
repeats: other processes that use it add to it. Prints a table and writes JSON with versions (--json FILE).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pandas as pd
import xgboost
from common import print_records
from dask import delayed
from distributed import Client, LocalCluster

import abc_plugins.xgb as abc_xgb
import abc_plugins.xgb.dask as abc_dask

PARAMS = {
    "objective": "multi:softprob",
    "num_class": 26,
    "grow_policy": "lossguide",
    "max_leaves": 20,
    "max_depth": 0,
    "learning_rate": 0.1,
    "reg_lambda": 0.0,
    "min_child_weight": 1e-3,
    "max_delta_step": 4.0,
    "nthread": 1,
}
SETTINGS: dict[str, dict[str, Any] | None] = {
    "stock": None,
    "s=1 g=0 w=0": {"method": "abcrobustlogit", "search": 1, "gap": 0, "warmup": 0},
    "s=2 g=10 w=10": {"method": "abcrobustlogit", "search": 2, "gap": 10, "warmup": 10},
    "s=2 g=0 w=0": {"method": "abcrobustlogit", "search": 2, "gap": 0, "warmup": 0},
    "s=4 g=0 w=0": {"method": "abcrobustlogit", "search": 4, "gap": 0, "warmup": 0},
}


@contextmanager
def cluster(n_workers: int) -> Iterator[Client]:
    """Start worker processes with one thread each."""
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as local,
        Client(local) as client,
    ):
        yield client


def spread(client: Client, values: np.ndarray) -> Any:
    """Put equal, contiguous shares of the rows on the workers."""
    workers = sorted(client.nthreads())
    blocks = []
    for worker, part in zip(workers, np.array_split(values, len(workers)), strict=True):
        future = client.scatter(part, workers=[worker], hash=False)
        blocks.append(dask.array.from_delayed(delayed(future), part.shape, part.dtype))
    return dask.array.concatenate(blocks)


def loopback_bytes() -> int:
    """Count the bytes that the loopback device has carried."""
    for line in Path("/proc/net/dev").read_text(encoding="ascii").splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == "lo":
            return int(counters.split()[0])
    raise RuntimeError("no loopback device in /proc/net/dev")


def train(client: Client | None, data: Any, rounds: int, schedule: dict[str, Any] | None) -> xgboost.Booster:
    """Train in this process or on the cluster, stock or ABC."""
    options = {"verbose_eval": False} | (schedule or {})
    if client is None:
        return (xgboost if schedule is None else abc_xgb).train(PARAMS, data, rounds, **options)
    return (xgboost.dask if schedule is None else abc_dask).train(client, PARAMS, data, rounds, **options)["booster"]


def measure(client: Client | None, data: Any, rounds: int, schedule: Any, repeats: int) -> dict[str, Any]:
    """Train `repeats` times; time and traffic are those of the best."""
    seconds, traffic = [], []
    train(client, data, 2, schedule)  # compile and warm up
    for _ in range(repeats):
        before, begin = loopback_bytes(), time.perf_counter()
        booster = train(client, data, rounds, schedule)
        seconds.append(time.perf_counter() - begin)
        traffic.append(loopback_bytes() - before)
    return {"booster": booster, "ms a round": 1e3 * min(seconds) / rounds, "kB a round": min(traffic) / rounds / 1e3}


def compare(
    folder: Path, rounds: int, repeats: int, worker_counts: Sequence[int], settings: Sequence[str]
) -> list[dict[str, Any]]:
    """Run the settings in one process, then on clusters of these sizes."""
    table = pd.read_parquet(folder / "letter.parquet")
    y = table.pop("target").astype("category").cat.codes.to_numpy()
    X = table.to_numpy(np.float32)
    order = np.argsort(y[:10000], kind="stable")
    X_train, y_train, test, y_test = X[:10000][order], y[:10000][order], xgboost.DMatrix(X[10000:]), y[10000:]
    rows, alone = [], {}
    for workers in (0, *worker_counts):
        with cluster(workers) if workers else _nothing() as client:
            if client is None:
                data = xgboost.DMatrix(X_train, y_train, nthread=1)
            else:
                data = abc_dask.DaskDMatrix(client, spread(client, X_train), spread(client, y_train))
            for name in settings:
                result = measure(client, data, rounds, SETTINGS[name], repeats)
                booster = result.pop("booster")
                alone.setdefault(name, booster)
                probabilities = booster.predict(test)
                rows.append(
                    {
                        "workers": workers or "none",
                        "setting": name,
                        "errors": int((probabilities.argmax(axis=1) != y_test).sum()),
                        "same bases": abc_xgb.base_classes(booster) == abc_xgb.base_classes(alone[name]),
                        "largest difference": float(np.abs(probabilities - alone[name].predict(test)).max()),
                        **result,
                    }
                )
                print(rows[-1], flush=True)
    return rows


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("ABC_PLUGINS_DATA"), help="folder of the data sets")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 3], help="sizes of the clusters")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("--data or ABC_PLUGINS_DATA must name the folder of the data sets")
    rows = compare(Path(arguments.data), arguments.rounds, arguments.repeats, arguments.workers, arguments.settings)
    print_records(rows)
    if arguments.json:
        packages = ("xgboost", "dask", "distributed", "numpy", "numba")
        record = {
            "rounds": arguments.rounds,
            "rows": rows,
            "versions": {package: version(package) for package in packages},
            "python": platform.python_version(),
            "machine": platform.processor() or platform.machine(),
        }
        arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
