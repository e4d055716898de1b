"""Guard against slowdowns: time of the native classifier divided by LightGBM's, for several shapes of data.

    python benchmarks/guard.py --out guard.jsonl             # append a line for this commit
    python benchmarks/guard.py --out guard.jsonl --report    # ratios of the commits in the file, and how they changed

Everything is made up, so that no data set is needed. Both engines do a fixed number of rounds on one thread and take
turns; the least CPU time of several repeats counts. CPU time of one process depends less on what else the machine does
than time by the clock, and a ratio less than either. It is no test: look at it before a release, on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from common import describe_machine, print_table, read_results


class Shape(NamedTuple):
    """Size of a made-up data set, and rounds of the two engines that take about as long."""

    rows: int
    features: int
    classes: int
    native_rounds: int
    lightgbm_rounds: int
    params: Mapping[str, Any] = MappingProxyType({})


SHAPES = {
    "few rows": Shape(500, 10, 5, 300, 60),
    "many rows": Shape(60_000, 20, 5, 20, 10),
    "many features": Shape(3_000, 300, 5, 40, 10),
    "many classes": Shape(10_000, 20, 100, 30, 3),
    "best-first": Shape(10_000, 20, 10, 60, 10, {"tree_shape": "best-first"}),
    "pairs": Shape(10_000, 20, 10, 10, 10, {"method": "abcrobustlogit"}),
}
WORSE = 1.1
"""A ratio that has grown by more is marked in the report."""


def make_data(shape: Shape) -> tuple[Any, Any]:
    """Normal features, classes by a linear model of eight of them with noise."""
    random = np.random.default_rng(0)
    X = random.normal(size=(shape.rows, shape.features))
    scores = X[:, :8] @ random.normal(size=(8, shape.classes)) + random.gumbel(size=(shape.rows, shape.classes))
    return X, scores.argmax(axis=1)


def measure(shape: Shape, repeats: int) -> dict[str, float]:
    """Least CPU seconds of training and prediction of both engines."""
    import lightgbm as lgb

    from abc_plugins import ABCBoostClassifier

    X, y = make_data(shape)
    least: dict[str, float] = {}

    def timed(name: str, function: Callable[[], Any]) -> Any:
        started = time.process_time()
        result = function()
        least[name] = min(least.get(name, np.inf), time.process_time() - started)
        return result

    params = {"objective": "multiclass", "num_class": shape.classes, "num_leaves": 20, "num_threads": 1, "verbose": -1}
    native = ABCBoostClassifier(n_estimators=shape.native_rounds, n_jobs=1, random_state=0, **shape.params)
    native.fit(X[: 20 * shape.classes], y[: 20 * shape.classes]).predict_proba(X[:10])  # compiles what is not cached
    for _ in range(repeats):
        timed("native fit", lambda: native.fit(X, y))
        stock = timed("LightGBM fit", lambda: lgb.train(params, lgb.Dataset(X, y), shape.lightgbm_rounds))
        timed("native predict", lambda: native.predict_proba(X))
        timed("LightGBM predict", lambda: stock.predict(X, num_threads=1))  # noqa: B023
    return least


def commit_of(folder: Path) -> str:
    """The commit that is checked out, with "+" if files were changed."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return described.stdout.strip()


def ratios(record: dict[str, Any]) -> dict[str, float]:
    """Name of a figure -> native time divided by LightGBM's."""
    return {
        f"{name}, {what}": least[f"native {what}"] / least[f"LightGBM {what}"]
        for name, least in record["seconds"].items()
        for what in ("fit", "predict")
    }


def report(records: list[dict[str, Any]]) -> None:
    """Print the ratios of the last commits, and mark those that have become worse than in the first of them."""
    shown = records[-4:]
    names = list(dict.fromkeys(name for record in shown for name in ratios(record)))
    rows = []
    for name in names:
        values = [ratios(record).get(name) for record in shown]
        known = [value for value in values if value is not None]
        mark = "worse" if known[-1] > WORSE * known[0] else ""
        rows.append([name, *("-" if value is None else f"{value:.2f}" for value in values), mark])
    print_table(["native / LightGBM", *(record["commit"] for record in shown), ""], rows)


def main() -> None:
    """Measure and append a line, or report what the file has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of one JSON line per commit")
    parser.add_argument("--report", action="store_true", help="print what the file has and measure nothing")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    options = parser.parse_args()
    if not options.report:
        record = {
            "commit": commit_of(Path(__file__).parent),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe_machine(),
            "seconds": {name: measure(SHAPES[name], options.repeats) for name in options.shapes},
        }
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    report(read_results(options.out))


if __name__ == "__main__":
    main()
