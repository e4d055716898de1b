"""Peak memory of a fit on Covertype: ours and LightGBM's, each in a process of its own.

    python benchmarks/memory.py --rounds 20

The training rows are put into a file first, so that reading the data set does not count. Peaks include the
interpreter, the libraries and the samples themselves (125 MB).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import describe_machine, peak_megabytes, print_table


def work(engine: str, folder: str, rounds: int, threads: int) -> dict[str, Any]:
    """Fit in this process and return the peak memory before and after, in MB."""
    X, y = np.load(Path(folder) / "X.npy"), np.load(Path(folder) / "y.npy")
    if engine == "lightgbm":
        import lightgbm as lgb

        params = {"objective": "multiclass", "num_class": 7, "num_leaves": 20, "num_threads": threads, "verbose": -1}
        before = peak_megabytes()
        lgb.train(params, lgb.Dataset(X, y), rounds)
    else:
        from abc_plugins import ABCBoostClassifier

        small = np.random.default_rng(0).normal(size=(300, 3))
        ABCBoostClassifier(n_estimators=12, n_jobs=threads).fit(small, np.arange(300) % 3)  # loads the kernels
        before = peak_megabytes()
        ABCBoostClassifier(n_estimators=rounds, n_jobs=threads).fit(X, y)
    return {"engine": engine, "before": before, "peak": peak_megabytes()}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(**json.loads(arguments.worker))))
        return
    results = measure(arguments.rounds, arguments.threads)
    lightgbm = next(result["peak"] for result in results if result["engine"] == "lightgbm")
    rows = [
        [one["engine"], f"{one['before']:.0f}", f"{one['peak']:.0f}", f"{one['peak'] / lightgbm:.2f}"]
        for one in results
    ]
    print_table(["engine", "before the fit, MB", "peak, MB", "/ lightgbm"], rows)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"machine": describe_machine(), "results": results}, indent=1))


def measure(rounds: int, threads: int) -> list[dict[str, Any]]:
    """Fit with both engines."""
    with tempfile.TemporaryDirectory() as folder:
        _write_data(Path(folder))
        results = []
        for engine in ("native", "lightgbm"):
            task = {"engine": engine, "folder": folder, "rounds": rounds, "threads": threads}
            command = [sys.executable, __file__, "--worker", json.dumps(task)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results.append(json.loads(done.stdout.splitlines()[-1]))
    return results


def _write_data(folder: Path) -> None:
    from abc_plugins.data.datasets import load

    data = load("covtype")
    train, _ = data.split()
    np.save(folder / "X.npy", data.X[train].astype(np.float64))
    np.save(folder / "y.npy", data.y[train].astype(np.int64) - 1)


if __name__ == "__main__":
    main()
