"""Peak memory of a fit: ours and LightGBM's, each in a process of its own.

    python benchmarks/memory.py --data covtype,letter,mnist --rounds 20
    python benchmarks/memory.py --data covtype --params '{"early_stopping": true, "n_estimators": 20}'

The training rows are put into a file first, so that reading the data set does not count. Peaks include the
interpreter, the libraries and the samples themselves; before the fit, a smaller one has loaded all that is loaded once.
What the fit adds is the peak during it above what the process held when it began.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import describe_machine, peak_megabytes, print_table

ENGINES = ("native", "lightgbm")


def make(engine: str, rounds: int, threads: int, params: dict[str, Any]) -> Any:
    """A classifier of so many rounds."""
    if engine == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=rounds, n_jobs=threads, verbose=-1)
    from abc_plugins import ABCBoostClassifier

    return ABCBoostClassifier(**{"n_estimators": rounds, "n_jobs": threads, "random_state": 0} | params)


def work(engine: str, folder: str, rounds: int, threads: int, params: dict[str, Any]) -> dict[str, Any]:
    """Fit in this process and return the peak memory before and after, in MB."""
    X, y = np.load(Path(folder) / "X.npy"), np.load(Path(folder) / "y.npy")
    shape = {} if X.shape[0] <= 32768 else {"tree_shape": "best-first"}  # what "auto" chooses for all rows
    some = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:2000])
    make(engine, 2, threads, params | shape).fit(X[some], y[some])  # LightGBM takes none of them
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak_megabytes()
    make(engine, rounds, threads, params).fit(X, y)
    peak = peak_megabytes()
    return {"engine": engine, "data": X.nbytes / 2**20, "before": before, "peak": peak, "added": peak - before}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="covtype,letter,mnist", metavar="SET,...")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--params", type=json.loads, default={}, metavar="JSON", help="of ours")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(**json.loads(arguments.worker))))
        return
    results = [one for name in arguments.data.split(",") for one in measure(name, arguments)]
    rows = []
    for one in results:
        peer = next(r for r in results if r["engine"] == "lightgbm" and r["name"] == one["name"])
        numbers = [f"{one[key]:.0f}" for key in ("data", "before", "peak", "added")]
        rows.append([one["name"], one["engine"], *numbers, f"{one['added'] / peer['added']:.2f}"])
    header = ["data", "engine", "samples, MB", "before the fit, MB", "peak, MB", "added, MB", "added / lightgbm's"]
    print_table(header, rows)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"machine": describe_machine(), "results": results}, indent=1))


def measure(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Fit with both engines."""
    with tempfile.TemporaryDirectory() as folder:
        _write_data(name, Path(folder))
        results = []
        for engine in ENGINES:
            task = {"engine": engine, "folder": folder, "rounds": arguments.rounds, "threads": arguments.threads}
            task["params"] = arguments.params if engine == "native" else {}
            command = [sys.executable, __file__, "--worker", json.dumps(task)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            results.append({"name": name, **json.loads(done.stdout.splitlines()[-1])})
    return results


def _write_data(name: str, folder: Path) -> None:
    from abc_plugins.data.datasets import load

    data = load(name)
    train, _ = data.split()
    np.save(folder / "X.npy", data.X[train].astype(np.float64))
    np.save(folder / "y.npy", np.unique(data.y[train], return_inverse=True)[1])


if __name__ == "__main__":
    main()
