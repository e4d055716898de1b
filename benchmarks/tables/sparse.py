"""Peak memory and time of a fit on a large sparse matrix: ours and LightGBM's, each in a process of its own.

    python benchmarks/tables/sparse.py                       # 200,000 x 50,000 with 0.1% entries
    python benchmarks/tables/sparse.py --values counts --rounds 5 --engines native

The matrix is made up: ten classes, each of which has features that are more frequent in it, as words are in a topic.
Values are drawn from a normal distribution, so that nearly all of them differ, or are small counts. Peaks include the
interpreter, the libraries and the matrix itself.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import describe_machine, peak_megabytes, print_table

N_CLASSES = 10
_TOPIC_SHARE = 0.2
"""Share of the entries that come from the features of the sample's class."""


def make_up(n_rows: int, n_columns: int, density: float, values: str) -> tuple[Any, Any]:
    """Draw a CSR matrix and labels."""
    random = np.random.default_rng(0)
    y = random.integers(N_CLASSES, size=n_rows)
    n_entries = round(density * n_rows * n_columns)
    rows = np.sort(random.integers(n_rows, size=n_entries))
    columns = random.integers(n_columns, size=n_entries, dtype=np.int64)
    of_topic = random.random(n_entries) < _TOPIC_SHARE
    columns[of_topic] -= columns[of_topic] % N_CLASSES - y[rows[of_topic]]
    data = np.abs(random.normal(size=n_entries)) if values == "normal" else 1.0 + random.poisson(1.0, n_entries)
    matrix = sparse.csr_matrix((data, (rows, columns)), shape=(n_rows, n_columns))
    matrix.sum_duplicates()
    return matrix, y


def size_megabytes(matrix: Any) -> float:
    """Memory of the three arrays of a matrix."""
    return sum(array.nbytes for array in (matrix.data, matrix.indices, matrix.indptr)) / 2**20


def work(engine: str, folder: str, rounds: int, threads: int) -> dict[str, Any]:
    """Fit and predict in this process; peak memory in MB, and seconds."""
    from abc_plugins import ABCBoostClassifier

    X, y = sparse.load_npz(Path(folder) / "X.npz"), np.load(Path(folder) / "y.npy")
    small, labels = make_up(40000, 50, 0.02, "normal")  # loads the kernels of best-first trees
    if engine == "lightgbm":
        import lightgbm as lgb

        model = lgb.LGBMClassifier(n_estimators=rounds, num_leaves=40, n_jobs=threads, verbose=-1)
    else:
        model = ABCBoostClassifier(n_estimators=rounds, early_stopping=False, n_jobs=threads, random_state=0)
        ABCBoostClassifier(n_estimators=1, early_stopping=False, n_jobs=threads).fit(small, labels).predict(small)
    before = peak_megabytes()
    started = time.perf_counter()
    model.fit(X, y)
    seconds, peak = time.perf_counter() - started, peak_megabytes()
    started = time.perf_counter()
    error = float(np.mean(model.predict(X) != y))
    return {"engine": engine, "matrix": size_megabytes(X), "before": before, "peak": peak, "seconds": seconds,
            "predict_seconds": time.perf_counter() - started, "predict_peak": peak_megabytes(),
            "training_error": error}  # fmt: skip


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=50_000)
    parser.add_argument("--density", type=float, default=0.001)
    parser.add_argument("--values", choices=["normal", "counts"], default="normal")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--engines", default="native,lightgbm", metavar="ENGINE,...")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(**json.loads(arguments.worker))))
        return
    results = measure(arguments)
    rows = [
        [one["engine"], *(f"{one[key]:.0f}" for key in ("matrix", "before", "peak")),
         f"{(one['peak'] - one['before']) / one['matrix']:.1f}", f"{one['seconds']:.0f}",
         f"{one['predict_seconds']:.0f}", f"{one['predict_peak']:.0f}", f"{one['training_error']:.3f}"]
        for one in results
    ]  # fmt: skip
    header = [
        "engine",
        "matrix, MB",
        "before, MB",
        "peak, MB",
        "added / matrix",
        "fit, s",
        "predict, s",
        "its peak, MB",
    ]
    print_table([*header, "training error"], rows)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"machine": describe_machine(), "results": results}, indent=1))


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Fit with every engine."""
    with tempfile.TemporaryDirectory() as folder:
        X, y = make_up(arguments.rows, arguments.columns, arguments.density, arguments.values)
        sparse.save_npz(Path(folder) / "X.npz", X, compressed=False)
        np.save(Path(folder) / "y.npy", y)
        del X
        results = []
        for engine in arguments.engines.split(","):
            task = {"engine": engine, "folder": folder, "rounds": arguments.rounds, "threads": arguments.threads}
            command = [sys.executable, __file__, "--worker", json.dumps(task)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            results.append(json.loads(done.stdout.splitlines()[-1]))
    return results


if __name__ == "__main__":
    main()
