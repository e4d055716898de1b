"""Cost and accuracy of the LightGBM and XGBoost adapters against the stock libraries.

    python benchmarks/adapters.py cost --data FOLDER       CPU time of a round, as a ratio to stock, on letter
    python benchmarks/adapters.py letter --data FOLDER     test errors over five splits of letter into halves
    python benchmarks/adapters.py covtype --data FOLDER    test errors on Covertype, one split

Every command takes --engine, prints a table and writes JSON with versions (--json FILE). Everything runs on one
thread. Costs are CPU times, stock and ABC interleaved, best of several repeats. A run of letter or covtype that was
stopped goes on where it ended if it is given the same --json file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from common import print_records

NUM_LEAVES = 20
LEARNING_RATE = 0.1


@dataclass(frozen=True)
class Schedule:
    """A setting of the adapter; None for all is the stock library."""

    name: str
    search: int | str | None = None
    gap: int | None = None
    warmup: int | None = None
    leaf_values: str = "paper"

    @property
    def is_stock(self) -> bool:
        """Whether this is the library itself."""
        return self.search is None

    def options(self) -> dict[str, Any]:
        """Arguments of the adapter's `train`."""
        return {"method": "abcrobustlogit", **{name: value for name, value in asdict(self).items() if name != "name"}}


STOCK = Schedule("stock")
S1 = Schedule("s=1 g=0 w=0", 1, 0, 0)
S2 = Schedule("s=2 g=10 w=10", 2, 10, 10)
EXHAUSTIVE = Schedule("s=all g=0 w=0", "all", 0, 0)
S1_SEQUENTIAL = Schedule("s=1 g=0 w=0 sequential", 1, 0, 0, "sequential")
S2_SEQUENTIAL = Schedule("s=2 g=10 w=10 sequential", 2, 10, 10, "sequential")
CLASSIC_ROUNDS = Schedule("classic rounds only", 1, 0, 10**6)


class Engine(Protocol):
    """One library: how its data are made, and how it trains with a schedule."""

    package: str
    extra: tuple[Schedule, ...]

    def data(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Bin the data once, outside of any timing."""

    def train(self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float | None) -> Any:
        """Train a stock model or one with an adaptive base class."""

    def test_errors(
        self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float, X: np.ndarray, y: np.ndarray
    ) -> int:
        """Train, and count wrong predictions of the test samples."""


class LightGBM:
    """lightgbm.train and abc_plugins.lgbm.train; `clip` is max_delta_step."""

    package = "lightgbm"
    extra = ()

    def data(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Construct a Dataset."""
        import lightgbm as lgb

        return lgb.Dataset(X, y, params={"verbosity": -1}).construct()

    def train(
        self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float | None, **evaluation: Any
    ) -> Any:
        """Train; `evaluation` are further arguments of both `train` functions."""
        import lightgbm as lgb

        import abc_plugins.lgbm as abc_lgbm

        params = {
            "objective": "multiclass",
            "num_class": n_classes,
            "num_leaves": NUM_LEAVES,
            "learning_rate": LEARNING_RATE,
            "max_delta_step": clip or 0.0,
            "num_threads": 1,
            "verbosity": -1,
            "metric": "multi_error",
        }
        if schedule.is_stock:
            return lgb.train(params, data, rounds, **evaluation)
        return abc_lgbm.train(params, data, rounds, **schedule.options(), **evaluation)

    def test_errors(
        self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float, X: np.ndarray, y: np.ndarray
    ) -> int:
        """Count wrong predictions, as the validation metric of the last round: binned, which is faster."""
        import lightgbm as lgb

        evals: dict[str, Any] = {}
        self.train(
            data,
            n_classes,
            rounds,
            schedule,
            clip,
            valid_sets=[lgb.Dataset(X, y, reference=data)],
            callbacks=[lgb.record_evaluation(evals)],
        )
        return round(evals["valid_0"]["multi_error"][-1] * y.size)


class XGBoost:
    """xgboost.train and abc_plugins.xgb.train; `clip` is max_delta_step.

    No L2 penalty and next to no minimum of a child's weight, as in the paper. Stock XGBoost 3.2 takes 2 p (1 - p) as
    its hessian, and so half a Newton step: classic rounds with p (1 - p) stand beside it.
    """

    package = "xgboost"
    extra = (CLASSIC_ROUNDS,)

    def data(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Construct a QuantileDMatrix."""
        import xgboost

        return xgboost.QuantileDMatrix(X, y, nthread=1)

    def train(self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float | None) -> Any:
        """Train."""
        import xgboost

        import abc_plugins.xgb as abc_xgb

        params = {
            "objective": "multi:softprob",
            "num_class": n_classes,
            "grow_policy": "lossguide",
            "max_leaves": NUM_LEAVES,
            "max_depth": 0,
            "learning_rate": LEARNING_RATE,
            "reg_lambda": 0.0,
            "min_child_weight": 1e-3,
            "max_delta_step": clip or 0.0,
            "nthread": 1,
        }
        if schedule.is_stock:
            return xgboost.train(params, data, rounds)
        return abc_xgb.train(params, data, rounds, **schedule.options())

    def test_errors(
        self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float, X: np.ndarray, y: np.ndarray
    ) -> int:
        """Train, predict and count wrong predictions."""
        model = self.train(data, n_classes, rounds, schedule, clip)
        return int((model.inplace_predict(X).argmax(axis=1) != y).sum())


ENGINES: dict[str, Callable[[], Engine]] = {"lightgbm": LightGBM, "xgboost": XGBoost}


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Read features, class indices and the whole table of a data set."""
    table = pd.read_parquet(folder / f"{name}.parquet")
    columns = table.drop(columns=[c for c in ("target", "is_train_abcboost") if c in table])
    return columns.to_numpy(np.float64), table["target"].astype("category").cat.codes.to_numpy(), table


def cost(engine: Engine, folder: Path, rounds: int, repeats: int) -> list[dict[str, Any]]:
    """CPU time of a round on letter, as a ratio to as many rounds of stock with the same leaf clip.

    An exhaustive search does a tenth of the rounds: it takes as long then as all others.
    """
    X, y, _ = load(folder, "letter")
    data = engine.data(X[:10000], y[:10000])
    few = max(rounds // 10, 10)
    runs = [(s, rounds) for s in (STOCK, S1, S2, S1_SEQUENTIAL, S2_SEQUENTIAL)] + [(STOCK, few), (EXHAUSTIVE, few)]
    for schedule, _ in runs:
        engine.train(data, 26, 2, schedule, 4.0)  # compile and warm up
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for schedule, n_rounds in runs:
            begin = time.process_time()
            engine.train(data, 26, n_rounds, schedule, 4.0)
            seconds = (time.process_time() - begin) / n_rounds
            best[schedule, n_rounds] = min(best[schedule, n_rounds], seconds)
    return [
        {
            "setting": schedule.name,
            "rounds": n_rounds,
            "ms a round": 1e3 * seconds,
            "ratio to stock": seconds / best[STOCK, n_rounds],
        }
        for (schedule, n_rounds), seconds in best.items()
    ]


class Cells:
    """Results of single runs, kept in a file as soon as they are there."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.done: dict[str, dict[str, float]] = {}
        if path is not None and path.exists():
            self.done = json.loads(path.read_text(encoding="utf-8"))["cells"]

    def run(self, name: str, work: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the result of this name, from the file or from work."""
        if name not in self.done:
            self.done[name] = work()
            print(f"{name}: {self.done[name]}", flush=True)
            if self.path is not None:
                self.path.write_text(json.dumps({"cells": self.done}), encoding="utf-8")
        return self.done[name]


def count_errors(engine: Engine, *run: Any) -> dict[str, float]:
    """Count wrong predictions, and take the CPU time of training and prediction."""
    begin = time.process_time()
    errors = engine.test_errors(*run)
    return {"errors": errors, "CPU seconds": time.process_time() - begin}


def letter(
    engine: Engine, folder: Path, rounds: int, splits: int, clips: Sequence[float], cells: Cells
) -> list[dict[str, Any]]:
    """Test errors of 10000 on random halves of letter; paired differences to stock with the same clip."""
    X, y, _ = load(folder, "letter")
    errors: dict[tuple[str, float], list[int]] = {}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(y.size)
        train, test = order[:10000], order[10000:]
        data = engine.data(X[train], y[train])
        for clip in clips:
            for schedule in (STOCK, *engine.extra, S1, S2, S1_SEQUENTIAL, S2_SEQUENTIAL):
                result = cells.run(
                    f"split {seed}, clip {clip:g}, {schedule.name}",
                    partial(count_errors, engine, data, 26, rounds, schedule, clip, X[test], y[test]),
                )
                errors.setdefault((schedule.name, clip), []).append(int(result["errors"]))
    rows = []
    for (name, clip), counts in errors.items():
        difference = np.array(counts) - np.array(errors[STOCK.name, clip])
        rows.append(
            {
                "setting": name,
                "clip": clip,
                "mean errors": float(np.mean(counts)),
                "standard error": _standard_error(counts),
                "difference to stock": float(difference.mean()),
                "its standard error": _standard_error(difference),
                "errors": counts,
            }
        )
    return rows


def covtype(engine: Engine, folder: Path, rounds: int, clips: Sequence[float], cells: Cells) -> list[dict[str, Any]]:
    """Test errors of 290506 on the split of the Fast ABC-Boost paper."""
    X, y, table = load(folder, "covtype")
    train = table["is_train_abcboost"].to_numpy(bool)
    data = engine.data(X[train], y[train])
    rows = []
    for clip in clips:
        for schedule in (STOCK, *engine.extra, S1, S2, S2_SEQUENTIAL):
            result = cells.run(
                f"clip {clip:g}, {schedule.name}",
                partial(count_errors, engine, data, 7, rounds, schedule, clip, X[~train], y[~train]),
            )
            rows.append({"setting": schedule.name, "clip": clip, **result})
    return rows


def _standard_error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["cost", "letter", "covtype"])
    parser.add_argument("--engine", choices=sorted(ENGINES), default="lightgbm")
    parser.add_argument("--data", type=Path, default=os.environ.get("ABC_PLUGINS_DATA"), help="folder of the data sets")
    parser.add_argument("--rounds", type=int, help="default: 100 for cost, else 200")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--clips", type=float, nargs="+", default=[4.0, 50.0], help="leaf clips of the error tables")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("--data or ABC_PLUGINS_DATA must name the folder of the data sets")
    engine = ENGINES[arguments.engine]()
    folder = Path(arguments.data)
    cells = Cells(None if arguments.command == "cost" else arguments.json)
    if arguments.command == "cost":
        rows = cost(engine, folder, arguments.rounds or 100, arguments.repeats)
    elif arguments.command == "letter":
        rows = letter(engine, folder, arguments.rounds or 200, arguments.splits, arguments.clips, cells)
    else:
        rows = covtype(engine, folder, arguments.rounds or 200, arguments.clips, cells)
    print_records(rows)
    if arguments.json:
        packages = (engine.package, "numpy", "numba", "scikit-learn")
        record = {
            "command": arguments.command,
            "engine": arguments.engine,
            "settings": [asdict(s) for s in (STOCK, S1, S2, S1_SEQUENTIAL, S2_SEQUENTIAL, EXHAUSTIVE)],
            "rows": rows,
            "cells": cells.done,
            "versions": {package: version(package) for package in packages},
            "python": platform.python_version(),
            "machine": platform.processor() or platform.machine(),
        }
        arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
