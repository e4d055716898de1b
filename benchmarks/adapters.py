"""Cost and accuracy of the LightGBM and XGBoost adapters against the stock libraries.

    python benchmarks/adapters.py cost --data FOLDER       CPU time of a round, as a ratio to stock, on letter
    python benchmarks/adapters.py letter --data FOLDER     test errors over five splits of letter into halves
    python benchmarks/adapters.py covtype --data FOLDER    test errors on Covertype, one split
    python benchmarks/adapters.py exports --data FOLDER    prediction time and file size at stock's log loss

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
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import print_records
from engines.libraries import ENGINES, Engine, log_loss
from engines.schedules import DIRECTIONAL, EXHAUSTIVE, S1, S1_SEQUENTIAL, S2, S2_SEQUENTIAL, SINGLE_TREES, STOCK
from sklearn.model_selection import train_test_split

EXPORTED = {"letter": 100, "leaf99": 40, "made-up, K=200": 30}
"""Data sets of `exports`, and the rounds of stock."""


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Read features, class indices and the whole table of a data set."""
    table = pd.read_parquet(folder / f"{name}.parquet")
    columns = table.drop(columns=[c for c in ("target", "is_train_abcboost") if c in table])
    return columns.to_numpy(np.float64), table["target"].astype("category").cat.codes.to_numpy(), table


def cost(
    engine: Engine, folder: Path, rounds: int, repeats: int, only: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """CPU time of a round on letter, as a ratio to as many rounds of stock with the same leaf clip.

    An exhaustive search does a tenth of the rounds: it takes as long then as all others.
    """
    X, y, _ = load(folder, "letter")
    data = engine.data(X[:10000], y[:10000])
    few = max(rounds // 10, 10)
    runs = [(s, rounds) for s in (STOCK, DIRECTIONAL, S1, S2, S1_SEQUENTIAL, S2_SEQUENTIAL)]
    runs = [
        (s, n) for s, n in [*runs, (STOCK, few), (EXHAUSTIVE, few)] if only is None or s.name in (STOCK.name, *only)
    ]
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
            "ms a tree": 1e3 * seconds / schedule.count_trees(26),
            "per tree": seconds / schedule.count_trees(26) / (best[STOCK, n_rounds] / 26),
        }
        for (schedule, n_rounds), seconds in best.items()
    ]


def exports(engine: Engine, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Models of the same log loss: stock's of its best round, and the first directional ones that have it.

    Times are processor times of 2,000 rows; models are read from their files by the library itself.
    """
    rows: list[dict[str, Any]] = []
    for name, rounds in EXPORTED.items():
        X, y = _made_up(200) if name.startswith("made-up") else load(folder, name)[:2]
        parts = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
        train, valid = (parts[0], parts[2]), (parts[1], parts[3])
        n_classes, target, of_stock = int(y.max()) + 1, None, {}
        many = np.resize(valid[0], (2000, X.shape[1]))
        for schedule in (STOCK, DIRECTIONAL, SINGLE_TREES):
            most = rounds * n_classes // schedule.count_trees(n_classes)
            file, losses = engine.grow(train, valid, n_classes, most, schedule, target)
            predict, n_trees = engine.load(file)
            seconds = min(_cpu_seconds(predict, many) for _ in range(repeats))
            row = {"data": name, "K": n_classes, "model": schedule.name, "rounds": int(np.argmin(losses)) + 1}
            row |= {"trees in the file": n_trees, "log loss": log_loss(predict(valid[0]), valid[1])}
            row |= {"2,000 rows, s": seconds, "MB": len(file) / 1e6}
            of_stock = of_stock or row
            row |= {"time, of stock": seconds / of_stock["2,000 rows, s"], "size, of stock": row["MB"] / of_stock["MB"]}
            rows.append(row)
            print(row, flush=True)
            target = min(losses) if target is None else target
    return rows


def _made_up(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """40 samples of every class around a centre of its own in 20 features."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 40)
    return 1.5 * rng.normal(size=(n_classes, 20))[y] + rng.normal(size=(y.size, 20)), y


def _cpu_seconds(predict: Callable[[np.ndarray], np.ndarray], X: np.ndarray) -> float:
    begin = time.process_time()
    predict(X)
    return time.process_time() - begin


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
    parser.add_argument("command", choices=["cost", "letter", "covtype", "exports"])
    parser.add_argument("--engine", choices=sorted(ENGINES), default="lightgbm")
    parser.add_argument("--data", type=Path, default=os.environ.get("ABC_PLUGINS_DATA"), help="folder of the data sets")
    parser.add_argument("--rounds", type=int, help="default: 100 for cost, else 200")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="settings of cost beside stock; default: all")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--clips", type=float, nargs="+", default=[4.0, 50.0], help="leaf clips of the error tables")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("--data or ABC_PLUGINS_DATA must name the folder of the data sets")
    engine = ENGINES[arguments.engine]()
    folder = Path(arguments.data)
    cells = Cells(arguments.json if arguments.command in ("letter", "covtype") else None)
    if arguments.command == "cost":
        rows = cost(engine, folder, arguments.rounds or 100, arguments.repeats, arguments.only)
    elif arguments.command == "exports":
        rows = exports(engine, folder, arguments.repeats)
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
