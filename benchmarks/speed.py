"""Training and prediction time against LightGBM, XGBoost and scikit-learn, as ratios measured in one run.

    python benchmarks/speed.py                             # letter10k, mnist10k and covtype, one thread
    python benchmarks/speed.py --threads 1 2 --repeats 5 --out results/speed.json
    python benchmarks/speed.py --scaling --draw docs/images/scaling.png   # cost against N, features, K, J, s, g, w
    python benchmarks/speed.py letter10k covtype --to-accuracy            # time until LightGBM's best test error
    python benchmarks/speed.py --exhaustive                # what growing (k, b) and (b, k) once saves a full search
    python benchmarks/speed.py --latency                   # one row at a time, 300 rounds of letter10k
    python benchmarks/speed.py --start                     # compiling, and importing and fitting the digits after that

All engines get the same leaves, shrinkage, rounds, number of bins and smallest leaf; LightGBM and XGBoost a leaf clip
(max_delta_step) of 4, without which LightGBM diverges on Covertype and then grows tiny trees. Every fit runs in a
process of its own, the engines take turns, and the best of several repeats counts. Kernels are compiled (or loaded)
before the clock starts; that time is shown apart. Training time is binning plus boosting, without loading the data.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import describe_machine, draw_panels, peak_megabytes, print_table

LEAVES, SHRINKAGE, BINS, MIN_LEAF = 20, 0.1, 255, 10
ROUNDS = {"letter10k": 100, "mnist10k": 20, "covtype": 30}
SYNTHETIC_ROUNDS = 10
PEERS = ("lightgbm", "xgboost", "sklearn")
METHOD = "abcrobustlogit"
CHEAP = {"search": 1, "gap": 0, "warmup": 0}
PAPER = {"search": 2, "gap": 10, "warmup": 10, "base_choice": "worst", "leaf_values": "paper"}
PAPER |= {"pair_samples_per_leaf": 0.0}
NATIVE: dict[str, dict[str, Any]] = {
    "native s=1 g=0 paper": {**PAPER, **CHEAP},
    "native s=1 g=0 sequential": {**CHEAP, "leaf_values": "sequential"},
    "native s=2 g=10 w=10 paper": PAPER,
}
PEER_CLIP = 4.0
CLIPS = (None, 4.0, 50.0)


def make_data(name: str) -> tuple[Any, Any, Any, Any]:
    """Training and test samples of a data set, or of "synthetic:N:F:K"."""
    if name.startswith("synthetic"):
        n, f, k = (int(part) for part in name.split(":")[1:])
        random = np.random.default_rng(0)
        X = random.normal(size=(n, f))
        y = (X[:, : min(f, 8)] @ random.normal(size=(min(f, 8), k)) + random.gumbel(size=(n, k))).argmax(axis=1)
        return X, y, X[: n // 10], y[: n // 10]
    from abc_plugins.data.datasets import load

    data = load(name)
    train, test = data.split()
    codes = np.unique(data.y, return_inverse=True)[1]
    return data.X[train].astype(np.float64), codes[train], data.X[test].astype(np.float64), codes[test]


# Each engine prepares (untimed) and returns two functions: fit() -> model, and predict(model, X).


def native(n_classes: int, rounds: int, threads: int, leaves: int, **params: Any) -> tuple[Callable, Callable]:
    """Build the native booster, of the paper's method unless another one is named."""
    from abc_plugins import ABCBoostClassifier

    params = {"method": METHOD, "num_leaves": leaves, "learning_rate": SHRINKAGE, "max_bins": BINS, **params}
    params["n_jobs"] = threads
    random = np.random.default_rng(0)  # compile or load every kernel first, on data as dense and as sparse as any
    X = random.normal(size=(3000, 6)) * (random.random((3000, 6)) < 0.3)
    for warm in (X, random.normal(size=(3000, 3))):
        ABCBoostClassifier(**{**params, "n_estimators": 12}).fit(warm, np.arange(3000) % max(3, n_classes)).predict(
            warm
        )

    def fit(X: Any, y: Any) -> Any:
        return ABCBoostClassifier(n_estimators=rounds, **params).fit(X, y)

    return fit, lambda model, X: model.predict_proba(X)


def lightgbm(n_classes: int, rounds: int, threads: int, leaves: int, **params: Any) -> tuple[Callable, Callable]:
    """Build stock LightGBM."""
    import lightgbm as lgb

    params = {
        "objective": "multiclass", "num_class": n_classes, "num_leaves": leaves, "learning_rate": SHRINKAGE,
        "max_bin": BINS, "min_data_in_leaf": MIN_LEAF, "min_sum_hessian_in_leaf": 0.0, "num_threads": threads,
        "verbose": -1, "max_delta_step": PEER_CLIP, **params,
    }  # fmt: skip

    def fit(X: Any, y: Any) -> Any:
        return lgb.train(params, lgb.Dataset(X, y), rounds)

    return fit, lambda model, X: model.predict(X, num_threads=threads)


def xgboost(n_classes: int, rounds: int, threads: int, leaves: int, **params: Any) -> tuple[Callable, Callable]:
    """Build stock XGBoost, grown leaf by leaf."""
    import xgboost as xgb

    params = {
        "objective": "multi:softprob", "num_class": n_classes, "max_leaves": leaves, "max_depth": 0, "eta": SHRINKAGE,
        "tree_method": "hist", "grow_policy": "lossguide", "max_bin": BINS, "reg_lambda": 0.0, "nthread": threads,
        "min_child_weight": 1e-3, "max_delta_step": PEER_CLIP, **params,
    }  # fmt: skip

    def fit(X: Any, y: Any) -> Any:
        return xgb.train(params, xgb.QuantileDMatrix(X, y, max_bin=BINS, nthread=threads), rounds)

    return fit, lambda model, X: model.inplace_predict(X)


def sklearn(_n_classes: int, rounds: int, _threads: int, leaves: int) -> tuple[Callable, Callable]:
    """Build scikit-learn's histogram gradient boosting; its threads are set by the environment."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    def fit(X: Any, y: Any) -> Any:
        return HistGradientBoostingClassifier(
            max_iter=rounds, max_leaf_nodes=leaves, learning_rate=SHRINKAGE, max_bins=BINS, min_samples_leaf=MIN_LEAF,
            early_stopping=False,
        ).fit(X, y)  # fmt: skip

    return fit, lambda model, X: model.predict_proba(X)


def work(
    engine: str, data: str, rounds: int, threads: int, leaves: int, predict: bool, params: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Measure one engine in this process; `params` are those of "native"."""
    X, y, X_test, y_test = make_data(data)
    builder = {"lightgbm": lightgbm, "xgboost": xgboost, "sklearn": sklearn}.get(engine, native)
    options = NATIVE.get(engine, params) if builder is native else {}
    started = time.perf_counter()
    fit, predict_proba = builder(int(y.max()) + 1, rounds, threads, leaves, **(options or {}))
    prepared = time.perf_counter()
    model = fit(X, y)
    seconds = time.perf_counter() - prepared
    result = {
        "engine": engine, "data": data, "rounds": rounds, "threads": threads, "leaves": leaves, "seconds": seconds,
        "compile_seconds": prepared - started,
        "peak_mb": peak_megabytes(),
    }  # fmt: skip
    if predict:
        times = []
        for _ in range(3):
            started = time.perf_counter()
            probabilities = predict_proba(model, X_test)
            times.append(time.perf_counter() - started)
        result["predict_seconds"] = min(times)
        result["predict_rows"] = len(X_test)
        result["errors"] = int(np.sum(np.asarray(probabilities).argmax(axis=1) != y_test))
    return result


def run_worker(**arguments: Any) -> dict[str, Any]:
    """Measure one engine in a fresh process."""
    threads = str(arguments["threads"])
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    command = [sys.executable, __file__, "--worker", json.dumps(arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{arguments['engine']} failed on {arguments['data']}:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def best_of(repeats: int, engines: list[str], **arguments: Any) -> dict[str, dict[str, Any]]:
    """The fastest of several runs of every engine, taking turns."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for engine in engines:
            result = run_worker(engine=engine, **arguments)
            previous = best.get(engine, result)
            fastest = min(previous, result, key=lambda one: one["seconds"])
            fastest["peak_mb"] = min(previous["peak_mb"], result["peak_mb"])
            if "predict_seconds" in result:
                fastest["predict_seconds"] = min(previous["predict_seconds"], result["predict_seconds"])
            best[engine] = fastest
    return best


def compare(names: list[str], threads: list[int], repeats: int) -> list[dict[str, Any]]:
    """The main table: every engine on every data set."""
    rows, results = [], []
    for name in names:
        for n_threads in threads:
            engines = [*NATIVE, *PEERS]
            best = best_of(
                repeats, engines, data=name, rounds=ROUNDS[name], threads=n_threads, leaves=LEAVES, predict=True
            )
            for engine, result in best.items():
                ratios = [f"{result['seconds'] / best[peer]['seconds']:.2f}" for peer in PEERS]
                trees = result["rounds"] * (int(make_data(name)[1].max()) + 1 - (engine in NATIVE))
                rows.append([
                    name, str(n_threads), engine, f"{result['seconds']:.2f}", *ratios,
                    f"{1000 * result['seconds'] / trees:.2f}", f"{result['peak_mb']:.0f}",
                    f"{result['predict_rows'] / result['predict_seconds'] / 1000:.0f}", str(result["errors"]),
                    f"{result['compile_seconds']:.1f}",
                ])  # fmt: skip
                results.append(result)
    header = ["data", "threads", "engine", "train s", *(f"/ {peer}" for peer in PEERS), "ms/tree", "peak MB",
              "predict krows/s", "errors", "load s"]  # fmt: skip
    print_table(header, rows)
    return results


def scaling(repeats: int, picture: Path | None) -> list[dict[str, Any]]:
    """How cost grows: one of samples, features, classes, leaves, s, g and w at a time."""
    start = {"N": 20_000, "features": 20, "K": 10, "J": LEAVES, "s": 1, "g": 0, "w": 0}
    ladder = {
        "N": (5_000, 20_000, 80_000, 320_000),
        "features": (5, 20, 80, 320),
        "K": (3, 10, 30, 100),
        "J": (5, 20, 80),
        "s": (1, 2, 4, 10),
        "g": (0, 1, 5, 20),  # with s = 4
        "w": (0, 5, 10),  # with s = 4
    }
    rows, results = [], []
    for axis, values in ladder.items():
        for value in values:
            at = {**start, **({"s": 4} if axis in "gw" else {}), axis: value}
            engines = ["native"] + (["lightgbm"] if axis not in "sgw" else [])
            best = best_of(
                repeats, engines, data=f"synthetic:{at['N']}:{at['features']}:{at['K']}", rounds=SYNTHETIC_ROUNDS,
                threads=1, leaves=at["J"], predict=False, params={"search": at["s"], "gap": at["g"], "warmup": at["w"]},
            )  # fmt: skip
            ours = best["native"]["seconds"]
            theirs = best["lightgbm"]["seconds"] if "lightgbm" in best else None
            rows.append(
                [axis, str(value), f"{ours:.2f}", *((f"{theirs:.2f}", f"{ours / theirs:.2f}") if theirs else ("", ""))]
            )
            results += [{**result, "axis": axis, "value": value} for result in best.values()]
    print_table(["varied", "value", "native s", "lightgbm s", "ratio"], rows)
    if picture is not None:
        draw_panels(results, list(ladder), picture)
    return results


def exhaustive(repeats: int) -> list[dict[str, Any]]:
    """A full search on letter10k, with every pair grown once and with both (k, b) and (b, k) grown."""
    from abc_plugins import ABCBoostClassifier
    from abc_plugins.core import pair_rounds
    from abc_plugins.core.pairs import base_pairs

    X, y, _, _ = make_data("letter10k")
    native(26, 1, 1, LEAVES)
    switches = {
        "pairs grown once": pair_rounds.distinct_pairs,
        "both (k, b) and (b, k)": lambda plan, n, **_: [
            pair for base in plan.candidates for pair in base_pairs(base, n)
        ],
    }
    cases = list(itertools.product(("paper", "sequential"), switches))
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(repeats):
        for leaf_values, label in cases:
            pair_rounds.distinct_pairs = switches[label]
            options = {"method": METHOD, "search": "all", "gap": 0, "warmup": 0, "leaf_values": leaf_values}
            model = ABCBoostClassifier(n_estimators=5, n_jobs=1, **options)
            started = time.process_time()
            model.fit(X, y)
            best[leaf_values, label] = min(best[leaf_values, label], time.process_time() - started)
    once, twice = switches
    rows = [
        [name, *(f"{best[name, label]:.2f}" for label in switches), f"{best[name, once] / best[name, twice]:.3f}"]
        for name in ("paper", "sequential")
    ]
    print_table(["leaf values", *(f"{label}, CPU s for 5 rounds" for label in switches), "ratio"], rows)
    return [{"leaf_values": name, "setting": label, "seconds": seconds} for (name, label), seconds in best.items()]


def latency() -> list[dict[str, Any]]:
    """Time to predict one row with 300 rounds of letter10k."""
    from abc_plugins import ABCBoostClassifier

    X, y, X_test, _ = make_data("letter10k")
    model = ABCBoostClassifier(n_estimators=300).fit(X, y)
    times = []
    for i in range(1000):
        row = X_test[i : i + 1]
        started = time.perf_counter()
        model.predict_proba(row)
        times.append(1e3 * (time.perf_counter() - started))
    result = {"rounds": 300, "median ms": float(np.median(times)), "99% ms": float(np.quantile(times, 0.99))}
    print_table(list(result), [[f"{value:.3g}" for value in result.values()]])
    return [result]


_START = """
import time
started = time.perf_counter()
from abc_plugins import ABCBoostClassifier
imported = time.perf_counter()
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
loaded = time.perf_counter()
ABCBoostClassifier({options}).fit(X, y)
fitted = time.perf_counter()
import json
from abc_plugins.core.runtime import jit
print(json.dumps([imported - started, fitted - loaded, len(jit.compiled_kernels)]))
"""


def start(repeats: int) -> list[dict[str, Any]]:
    """Seconds that a new process takes to import the package and fit the digits, without and with cached kernels."""
    results = []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # the usual
    with tempfile.TemporaryDirectory() as folder:
        fits = {"first of all": "", "default": "", "one thread": "n_jobs=1"}
        for label, options in fits.items():
            runs = []
            for _ in range(1 if label == "first of all" else repeats):
                began = time.perf_counter()
                answer = subprocess.run(
                    [sys.executable, "-c", _START.format(options=options)],
                    env=environment | {"NUMBA_CACHE_DIR": folder}, capture_output=True, text=True, check=True,
                )  # fmt: skip
                imported, fitted, n_compiled = json.loads(answer.stdout.splitlines()[-1])
                runs.append({
                    "fit": label, "import s": imported, "fit s": fitted, "import and fit s": imported + fitted,
                    "whole process s": time.perf_counter() - began, "compiled kernels": n_compiled,
                })  # fmt: skip
            results.append(min(runs, key=lambda run: run["import and fit s"]))
    print_table(
        list(results[0]), [[f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values()] for row in results]
    )
    return results


def to_accuracy(name: str, rounds: int) -> list[dict[str, Any]]:
    """CPU time of one thread until LightGBM's best test error, LightGBM with the leaf clip that serves it best."""
    X, y, X_test, y_test = make_data(name)
    n_classes = int(y.max()) + 1
    peers = [_lightgbm_curve(X, y, X_test, y_test, n_classes, rounds, clip) for clip in CLIPS]
    target = min(min(errors) for _, errors in peers)
    rows = [
        _reached(f"lightgbm, clip {clip}", seconds, errors, min(errors))
        for clip, (seconds, errors) in zip(CLIPS, peers, strict=True)
    ]
    directional = {"method": "directional", "num_leaves": None, "random_state": 0}
    for label, params in {**NATIVE, "directional": directional}.items():
        seconds, errors = _native_curve(X, y, X_test, y_test, rounds, **params)
        rows.append(_reached(label, seconds, errors, target))
    header = ["engine", "best error", "at round", "target", "reached at round", "after CPU s", "CPU s per round"]
    print_table(header, [[str(row[name]) for name in header] for row in rows])
    return rows


def _reached(label: str, seconds: list[float], errors: list[int], target: int) -> dict[str, Any]:
    best = int(np.argmin(errors))
    hit = next((m for m, count in enumerate(errors) if count <= target), None)
    return {
        "engine": label, "best error": errors[best], "at round": best + 1, "target": target,
        "reached at round": "never" if hit is None else hit + 1,
        "after CPU s": "never" if hit is None else round(seconds[hit], 2),
        "CPU s per round": round(seconds[-1] / len(seconds), 4),
    }  # fmt: skip


def _lightgbm_curve(
    X: Any, y: Any, X_test: Any, y_test: Any, n_classes: int, rounds: int, clip: float | None
) -> tuple[list[float], list[int]]:
    """CPU seconds of training and test errors after every round."""
    import lightgbm as lgb

    params = {
        "objective": "multiclass", "num_class": n_classes, "num_leaves": LEAVES, "learning_rate": SHRINKAGE,
        "max_bin": BINS, "min_data_in_leaf": MIN_LEAF, "min_sum_hessian_in_leaf": 0.0, "num_threads": 1, "verbose": -1,
        **({} if clip is None else {"max_delta_step": clip}),
    }  # fmt: skip
    started = time.thread_time()  # threads that predict has left behind spin, and do not count
    booster = lgb.Booster(params, lgb.Dataset(X, y).construct())
    spent, seconds, errors = time.thread_time() - started, [], []
    scores = np.zeros((len(X_test), n_classes))
    for m in range(rounds):
        started = time.thread_time()
        booster.update()
        spent += time.thread_time() - started
        seconds.append(spent)
        scores += booster.predict(X_test, start_iteration=m, num_iteration=1, raw_score=True)
        errors.append(int(np.sum(scores.argmax(axis=1) != y_test)))
    return seconds, errors


def _native_curve(
    X: Any, y: Any, X_test: Any, y_test: Any, rounds: int, **params: Any
) -> tuple[list[float], list[int]]:
    from abc_plugins import ABCBoostClassifier

    native(3, 1, 1, LEAVES, **params)
    seconds: list[float] = []
    params = {"method": METHOD, "num_leaves": LEAVES, "learning_rate": SHRINKAGE, **params}
    model = ABCBoostClassifier(n_estimators=rounds, n_jobs=1, **params)
    started = time.thread_time()
    model.fit(X, y, callbacks=[lambda _: seconds.append(time.thread_time() - started)])
    errors = [int(np.sum(labels != y_test)) for labels in model.staged_predict(X_test)]
    return seconds, errors


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", default=list(ROUNDS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--draw", type=Path, metavar="PNG", help="picture of --scaling")
    parser.add_argument("--to-accuracy", action="store_true")
    parser.add_argument("--exhaustive", action="store_true")
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--start", action="store_true")
    parser.add_argument("--rounds", type=int, default=500, help="of --to-accuracy")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(**json.loads(arguments.worker))))
        return
    if arguments.scaling:
        results = scaling(arguments.repeats, arguments.draw)
    elif arguments.exhaustive:
        results = exhaustive(arguments.repeats)
    elif arguments.latency:
        results = latency()
    elif arguments.start:
        results = start(arguments.repeats)
    elif arguments.to_accuracy:
        results = [row for name in arguments.data for row in to_accuracy(name, arguments.rounds)]
    else:
        results = compare(arguments.data, arguments.threads, arguments.repeats)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"machine": describe_machine(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
