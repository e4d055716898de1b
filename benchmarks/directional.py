"""Directional trees beside pairs and LightGBM: accuracy, time, threads, prediction, many classes.

    python benchmarks/directional.py trees letter10k covtype mnist10k     # errors, seconds and prediction, 1 thread
    python benchmarks/directional.py threads letter10k covtype            # two threads against one
    python benchmarks/directional.py fits vowel texture --peers lightgbm  # fits that stop early, interleaved with peers
    python benchmarks/directional.py classes                              # 1,000 classes, made up, against LightGBM
    python benchmarks/directional.py curves --draw docs/images/directional.png

Needs the data folder named by ABC_PLUGINS_DATA, but for `classes`. Every fit runs in a process of its own; of several
repeats the fastest counts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import describe_machine, peak_megabytes, print_table

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.directional.schedule import default_trees_per_round
from abc_plugins.data.datasets import load

TREES = {"letter10k": 5000, "covtype": 1200, "mnist10k": 1200}
"""Trees of the directional model; pairs get as many on Covertype, where neither converges, else 2.5 times as many."""

ROWS = {"letter10k": 10000, "covtype": 290506, "mnist10k": 10000}
"""Training rows of each."""

OPTIONS: dict[str, dict[str, Any]] = {
    "letter10k": {"tree_shape": "best-first", "num_leaves": 40, "learning_rate": 0.05},
    "covtype": {"num_leaves": 20, "learning_rate": 0.1},
    "mnist10k": {"num_leaves": 20, "learning_rate": 0.1},
}


def directional(name: str, n_classes: int, threads: int, share: float = 1.0) -> Callable[[], ABCBoostClassifier]:
    """Estimator of the directional method with the trees of TREES, or a share of them."""
    per_round = default_trees_per_round(ROWS[name], n_classes)
    rounds = round(share * TREES[name] / per_round)
    options = OPTIONS[name] | {"trees_per_round": per_round, "n_estimators": rounds}
    return lambda: ABCBoostClassifier(**options, random_state=0, n_jobs=threads)


def pairs(name: str, n_classes: int, threads: int, share: float = 1.0) -> Callable[[], ABCBoostClassifier]:
    """Estimator of the paper's method with sequential leaf values, the default of 0.1.0."""
    trees = TREES[name] * (1.0 if name == "covtype" else 2.5)
    rounds = round(share * trees / (n_classes - 1))
    return lambda: ABCBoostClassifier(method="abcrobustlogit", n_estimators=rounds, random_state=0, n_jobs=threads)


def lightgbm(name: str, n_classes: int, threads: int, share: float = 1.0) -> Callable[[], Any]:
    """LightGBM with the leaves and shrinkage of the others, the trees of pairs and a leaf clip."""
    from lightgbm import LGBMClassifier

    trees = TREES[name] * (1.0 if name == "covtype" else 2.5)
    options = {"num_leaves": 20, "learning_rate": 0.1, "max_delta_step": 4, "n_jobs": threads, "verbose": -1}
    return lambda: LGBMClassifier(**options, n_estimators=max(1, round(share * trees / n_classes)))


ENGINES: dict[str, Callable[..., Callable[[], Any]]] = {
    "directional": directional,
    "pairs": pairs,
    "lightgbm": lightgbm,
}


def count_trees(model: Any) -> int:
    """Trees of a fitted model."""
    return int(model.model_.n_trees if hasattr(model, "model_") else model.booster_.num_trees())


def work(name: str, engine: str, threads: int, share: float) -> dict[str, Any]:
    """Fit once, and count test errors after every round; prediction is timed apart."""
    data = load(name)
    train, test = data.split()
    X, y, X_test, y_test = data.X[train], data.y[train], data.X[test], data.y[test]
    make, n_classes = ENGINES[engine], len(np.unique(y))
    make(name, n_classes, threads, 0.02)().fit(X[:2000], y[:2000])  # compiles
    model = make(name, n_classes, threads, share)()
    started = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - started
    model.predict(X_test[:200])
    started = time.perf_counter()
    last = int(np.sum(model.predict(X_test) != y_test))
    rate = len(y_test) / (time.perf_counter() - started)
    result = {"data": name, "engine": engine, "threads": threads, "trees": count_trees(model), "seconds": seconds,
              "errors": last, "rows_per_second": rate}  # fmt: skip
    if share == 1.0 and len(y_test) <= 20000 and isinstance(model, ABCBoostClassifier):
        curve = [int(np.sum(labels != y_test)) for labels in model.staged_predict(X_test)]
        result |= {"best": min(curve), "best_round": int(np.argmin(curve)) + 1, "curve": curve}
    return result


def made_up(n_classes: int = 1000, n_rows: int = 50000, n_features: int = 20) -> tuple[Any, Any]:
    """Draw clusters, one for each class."""
    random = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    return random.normal(size=(n_classes, n_features))[y] + 0.7 * random.normal(size=(n_rows, n_features)), y


def many_classes(engine: str, rounds: int) -> dict[str, Any]:
    """Fit made-up data of 1,000 classes: seconds, reduction of the mean training loss, and peak memory."""
    X, y = made_up()
    start = float(np.log(y.max() + 1))
    if engine == "directional":
        ABCBoostClassifier(n_estimators=1, n_jobs=1).fit(X[:3000], y[:3000] % 5)
        model = ABCBoostClassifier(n_estimators=rounds, n_jobs=1, random_state=0)
        started = time.perf_counter()
        model.fit(X, y)
        seconds, loss = time.perf_counter() - started, model.train_loss_[-1] / len(y)
    else:
        import lightgbm

        params = {"objective": "multiclass", "num_class": 1000, "num_threads": 1, "verbose": -1, "max_delta_step": 4}
        started = time.perf_counter()
        booster = lightgbm.train(params, lightgbm.Dataset(X, y), rounds)
        seconds = time.perf_counter() - started
        p = booster.predict(X[:5000])
        loss = float(-np.log(np.maximum(p[np.arange(5000), y[:5000]], 1e-15)).mean())
    reduction = start - loss
    return {"engine": engine, "rounds": rounds, "seconds": seconds, "loss_reduction": reduction,
            "seconds_per_unit": seconds / reduction, "peak_megabytes": peak_megabytes()}  # fmt: skip


def in_process(*arguments: Any) -> dict[str, Any]:
    """Run this file as a worker, and read what it prints."""
    command = [sys.executable, __file__, "--worker", json.dumps(arguments)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]))


def fastest(repeats: int, *arguments: Any) -> dict[str, Any]:
    """The fastest of several runs of a worker."""
    return min((in_process(*arguments) for _ in range(repeats)), key=lambda result: result["seconds"])


def compare_trees(names: list[str], repeats: int) -> list[dict[str, Any]]:
    """Directional trees against pairs and LightGBM, one thread."""
    results = [fastest(repeats, "work", name, engine, 1, 1.0) for name in names for engine in ENGINES]
    print_table(
        ["data", "engine", "trees", "seconds", "errors", "best", "predicted rows/s"],
        [
            [r["data"], r["engine"], str(r["trees"]), f"{r['seconds']:.1f}", str(r["errors"]), str(r.get("best", "")),
             f"{r['rows_per_second']:.0f}"]
            for r in results
        ],
    )  # fmt: skip
    return results


def compare_threads(names: list[str], repeats: int) -> list[dict[str, Any]]:
    """Two threads against one, a tenth of the trees."""
    results, rows = [], []
    for name in names:
        one, two = (fastest(repeats, "work", name, "directional", threads, 0.1) for threads in (1, 2))
        results += [one, two]
        rows.append([name, f"{one['seconds']:.2f}", f"{two['seconds']:.2f}", f"{one['seconds'] / two['seconds']:.2f}"])
    print_table(["data", "1 thread, s", "2 threads, s", "ratio"], rows)
    return results


def compare_fits(names: list[str], peers: list[str], repeats: int) -> list[dict[str, Any]]:
    """Fits that stop early as people use them, interleaved with those of peers, one thread."""
    from leagues.practice import run_cell

    results, rows = [], []
    for name in names:
        best: dict[str, dict[str, Any]] = {}
        for _, which in itertools.product(range(repeats), ["directional", *peers]):
            result = run_cell({"data": name, "seed": 100, "which": which})
            best[which] = min(best.get(which, result), result, key=lambda fit: fit["s"])
        results += best.values()
        ours = best["directional"]["s"]
        rows.append(
            [name, *(f"{fit['s']:.2f}" for fit in best.values()), *(f"{ours / best[p]['s']:.2f}" for p in peers)]
        )
        print(" ".join(rows[-1]), flush=True)
    print_table(["data", "directional, s", *(f"{p}, s" for p in peers), *(f"to {p}" for p in peers)], rows)
    for peer in peers:
        mean = np.exp(np.mean(np.log([own["s"] / theirs["s"] for own, theirs in _beside(results, peer)])))
        print(f"time to {peer}'s, geometric mean of {len(rows)} data sets: {mean:.3f}")
    return results


def _beside(results: list[dict[str, Any]], peer: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Fits of ours and of a peer on the same data."""
    of = {(result["data"], result["which"]): result for result in results}
    return [(of[name, "directional"], of[name, peer]) for name in dict.fromkeys(result["data"] for result in results)]


def compare_classes(repeats: int) -> list[dict[str, Any]]:
    """1,000 classes against LightGBM."""
    results = [fastest(repeats, "many_classes", *cell) for cell in (("directional", 20), ("lightgbm", 2))]
    print_table(
        ["engine", "rounds", "seconds", "loss reduction", "seconds per unit", "peak MB"],
        [[r["engine"], str(r["rounds"]), f"{r['seconds']:.1f}", f"{r['loss_reduction']:.3f}",
          f"{r['seconds_per_unit']:.1f}", f"{r['peak_megabytes']:.0f}"] for r in results],
    )  # fmt: skip
    return results


def draw_curves(path: Path, repeats: int) -> list[dict[str, Any]]:
    """Test errors against trees on Letter."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    results = [fastest(repeats, "work", "letter10k", engine, 1, 1.0) for engine in ("directional", "pairs")]
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for result in results:
        trees = result["trees"] / len(result["curve"]) * np.arange(1, len(result["curve"]) + 1)
        axes.plot(trees, result["curve"], label=result["engine"])
    axes.set(xscale="log", xlabel="trees", ylabel="test errors of 10,000", ylim=(300, 1000), xlim=(50, None))
    axes.set_title("Letter, 26 classes, 10,000 training rows", loc="left")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    return results


def main() -> None:
    """Run one of the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["trees", "threads", "fits", "classes", "curves"])
    parser.add_argument("data", nargs="*", default=["letter10k", "covtype"])
    parser.add_argument("--peers", nargs="+", default=["lightgbm"], metavar="NAME")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--draw", type=Path, metavar="PNG", default=Path("directional.png"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        function, *arguments = options.worker
        print(json.dumps({"work": work, "many_classes": many_classes}[function](*arguments)))
        return
    if options.what == "trees":
        results = compare_trees(options.data, options.repeats)
    elif options.what == "threads":
        results = compare_threads(options.data, options.repeats)
    elif options.what == "fits":
        results = compare_fits(options.data, options.peers, options.repeats)
    elif options.what == "classes":
        results = compare_classes(options.repeats)
    else:
        results = draw_curves(options.draw, options.repeats)
    if options.out is not None:
        options.out.write_text(json.dumps({"machine": describe_machine(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
