"""The four methods on the paper's data sets: test errors and training loss by round.

    python benchmarks/accuracy.py letter10k --rounds 400 --plot docs/images/letter.png
    python benchmarks/accuracy.py covtype mnist10k --rounds 200 --out results/accuracy.json

Needs the data folder named by ABC_PLUGINS_DATA. Beside our figures it prints those of the authors' own package on
Letter10k (J=20, nu=0.1, leaf values clipped at 50), measured once with pltrees/abcboost.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import describe_machine, print_table

from abc_plugins import ABCBoostClassifier
from abc_plugins.data.datasets import load

METHODS = ("mart", "robustlogit", "abcmart", "abcrobustlogit")
CHECKPOINTS = (1, 10, 50, 100, 200, 400, 1000)
AUTHORS_ERRORS: dict[str, dict[int, int]] = {
    "mart": {50: 773, 100: 644, 200: 563, 400: 527, 1000: 506},
    "robustlogit": {50: 661, 100: 535, 200: 450, 400: 420},
    "abcmart": {50: 806, 100: 626, 200: 505, 400: 453, 1000: 425},
    "abcrobustlogit": {50: 651, 100: 518, 200: 434, 400: 390, 1000: 369},
}
PAPER = {"search": 2, "gap": 10, "warmup": 10, "base_choice": "worst", "leaf_values": "paper"}
PAPER |= {"pair_samples_per_leaf": 0.0}
AUTHORS_LOSSES: dict[str, dict[int, float]] = {
    "mart": {1: 17336.0, 10: 6874.9, 50: 735.17},
    "robustlogit": {1: 17335.0, 10: 5100.9, 50: 278.37},
}


def measure(name: str, method: str, rounds: int, n_jobs: int | None, **params: Any) -> dict[str, Any]:
    """Fit one method and count test errors after the rounds of CHECKPOINTS."""
    data = load(name)
    train, test = data.split()
    X_test, y_test = data.X[test], data.y[test]
    model = ABCBoostClassifier(method=method, n_estimators=rounds, n_jobs=n_jobs, **{**PAPER, **params})
    started = time.perf_counter()
    model.fit(data.X[train], data.y[train])
    seconds = time.perf_counter() - started
    curve = {
        done: int(np.sum(labels != y_test))
        for done, labels in enumerate(model.staged_predict(X_test), start=1)
        if done in CHECKPOINTS or done % 10 == 0
    }
    errors = {done: count for done, count in curve.items() if done in CHECKPOINTS}
    losses = {done: float(model.train_loss_[done - 1]) for done in CHECKPOINTS if done <= rounds}
    return {
        "data": name,
        "method": method,
        "rounds": rounds,
        "params": params,
        "n_test": len(y_test),
        "errors": errors,
        "curve": curve,
        "train_loss": losses,
        "trees_grown": model.trees_grown_,
        "seconds": seconds,
    }


def show(result: dict[str, Any]) -> list[list[str]]:
    """Rows of the table: one a checkpoint."""
    rows = []
    authors = result["data"] == "letter10k" and result["params"] == {}
    for done, errors in result["errors"].items():
        expected = AUTHORS_ERRORS[result["method"]].get(done) if authors else None
        expected_loss = AUTHORS_LOSSES.get(result["method"], {}).get(done) if authors else None
        loss = result["train_loss"][done]
        rows.append(
            [
                result["data"],
                result["method"],
                str(done),
                f"{errors}/{result['n_test']}",
                "" if expected is None else f"{expected} ({100 * (errors / expected - 1):+.1f}%)",
                f"{loss:.6g}",
                "" if expected_loss is None else f"{expected_loss:g} ({100 * (loss / expected_loss - 1):+.2f}%)",
            ]
        )
    return rows


def plot(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw test error against rounds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    styles = {"mart": ("#999999", ":"), "robustlogit": ("#0072B2", "--"), "abcmart": ("#E69F00", "-."),
              "abcrobustlogit": ("#D55E00", "-")}  # fmt: skip
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for result in results:
        shown = {done: count for done, count in result["curve"].items() if done >= 20}
        colour, line = styles[result["method"]]
        share = [100 * count / result["n_test"] for count in shown.values()]
        label = f"{result['method']} ({share[-1]:.2f}% at the end)"
        axes.plot(list(shown), share, line, color=colour, linewidth=2, label=label)
    axes.set(xlabel="boosting rounds", ylabel="test error, %", yscale="log")
    axes.set_title(f"{results[0]['data']}: 20 leaves, learning rate 0.1")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", default=["letter10k"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--n-jobs", type=int, default=None)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--plot", type=Path, default=None, help="draw the errors of the first data set")
    arguments = parser.parse_args()
    results = []
    for name in arguments.data:
        for method in arguments.methods:
            results.append(measure(name, method, arguments.rounds, arguments.n_jobs))
            header = ["data", "method", "rounds", "test errors", "authors", "training loss", "authors"]
            print_table(header, show(results[-1]))
            print(f"{results[-1]['seconds']:.1f} s, {results[-1]['trees_grown']} trees grown\n", flush=True)
            if arguments.out:
                arguments.out.parent.mkdir(parents=True, exist_ok=True)
                arguments.out.write_text(json.dumps({"machine": describe_machine(), "results": results}, indent=1))
    if arguments.plot:
        plot([result for result in results if result["data"] == arguments.data[0]], arguments.plot)


if __name__ == "__main__":
    main()
