"""What influence trimming costs in accuracy and saves in time.

    python benchmarks/trimming.py --jobs 2

Test errors and CPU seconds of the native booster with s=1 g=0 and sequential leaf values, on halves of several data
sets, three splits each, at several values of `trim`. Prints two tables; results are kept in results/trimming.jsonl, and
what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from common import describe_machine, print_table
from robustness import read, run, split_data

SETS = ("letter", "pendigits", "optdigits", "satimage", "texture", "wine_quality", "krkopt", "nursery", "shuttle",
        "covtype")  # fmt: skip
TRIMS = (0.0, 0.01, 0.05, 0.1)
SPLITS = 3
ROUNDS = 100
RESULTS = Path("results") / "trimming.jsonl"


def cells() -> Iterable[dict[str, Any]]:
    """Every data set, split and value of trim; Covertype has one split, its published one."""
    for name in SETS:
        for split in range(1 if name == "covtype" else SPLITS):
            for trim in TRIMS:
                yield {"data": name, "split": split, "rounds": ROUNDS, "params": {"trim": trim}}


def fit_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Fit one cell, count its test errors, and take the time."""
    from abc_plugins import ABCBoostClassifier

    X, y, X_test, y_test = split_data(cell["data"], cell["split"])
    settings = {"search": 1, "gap": 0, "warmup": 0, "base_choice": "worst", "leaf_values": "sequential", "n_jobs": 1}
    ABCBoostClassifier(n_estimators=1, **settings, **cell["params"]).fit(X, y)  # compiles or loads the kernels
    started = time.process_time()
    model = ABCBoostClassifier(n_estimators=cell["rounds"], **settings, **cell["params"]).fit(X, y)
    seconds = time.process_time() - started
    return {**cell, "errors": int(np.sum(model.predict(X_test) != y_test)), "n_test": len(y_test), "seconds": seconds}


def report(results: list[dict[str, Any]]) -> None:
    """Mean errors with the paired difference to no trimming, and the ratio of times."""
    found = {(one["data"], one["params"]["trim"], one["split"]): one for one in results}
    rows = []
    for name in SETS:
        splits = [split for split in range(SPLITS) if all((name, trim, split) in found for trim in TRIMS)]
        if not splits:
            continue
        base = [found[name, 0.0, split] for split in splits]
        row = [name, str(base[0]["n_test"]), f"{np.mean([one['errors'] for one in base]):.1f}"]
        for trim in TRIMS[1:]:
            trimmed = [found[name, trim, split] for split in splits]
            pairs = [one["errors"] - other["errors"] for one, other in zip(trimmed, base, strict=True)]
            spread = f" ({np.std(pairs, ddof=1) / np.sqrt(len(pairs)):.1f})" if len(pairs) > 1 else ""
            ratio = sum(one["seconds"] for one in trimmed) / sum(one["seconds"] for one in base)
            row.append(f"{np.mean(pairs):+.1f}{spread}, {ratio:.2f}")
        rows.append(row)
    print("Difference of errors (standard error over splits), ratio of CPU time:\n")
    print_table(["data", "test rows", "errors, trim 0", *(f"trim {trim}" for trim in TRIMS[1:])], rows)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    run(cells(), RESULTS, arguments.jobs, fit_cell)
    print(json.dumps(describe_machine()), "\n")
    report(read(RESULTS))


if __name__ == "__main__":
    main()
