"""Exports beside our own predictor: one-row latency, throughput, size and load time, and what explanations cost.

    python benchmarks/deployment.py models letter10k covtype --out deployment.json
    python benchmarks/deployment.py cold                     # until the first prediction of a new process
    python benchmarks/deployment.py explain                  # SHAP values of 26 against 99 classes
    python benchmarks/deployment.py stream                   # memory of scoring Parquet files of several sizes

One thread. Every runtime loads the file that `abc-plugins export` would write, and is timed in turn with the others,
several times; the fastest of each counts. `models` needs the data folder named by ABC_PLUGINS_DATA.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import describe_machine, print_table

import abc_plugins.lgbm
import abc_plugins.onnx
import abc_plugins.treelite
import abc_plugins.xgb
from abc_plugins import ABCBoostClassifier, explain
from abc_plugins.data.datasets import load
from abc_plugins.serving import Predictor

ROUNDS = {"letter10k": 100, "covtype": 200}
"""Rounds of six trees with 26 values a leaf, and of four trees with seven."""

FIT_ROWS = 60_000
STREAM_ROWS = (250_000, 4_000_000)
STREAM_BLOCK = 100_000
Predict = Callable[[Any], Any]


def fit(name: str) -> tuple[ABCBoostClassifier, Any]:
    """Fit with a fixed number of rounds; returns the model and rows to predict, all of them float32."""
    data = load(name)
    train, test = data.split()
    train = train[:: max(1, len(train) // FIT_ROWS)]
    model = ABCBoostClassifier(n_estimators=ROUNDS[name], early_stopping_rounds=None, random_state=0, n_jobs=1)
    X = np.ascontiguousarray(data.X[test], dtype=np.float32)
    return model.fit(data.X[train].astype(np.float32), data.y[train]), X


def own(path: Path, model: ABCBoostClassifier) -> Predict:
    """Our predictor."""
    model.save_model(path)
    return Predictor(path).predict_proba


def onnx(path: Path, model: ABCBoostClassifier, precision: str) -> Predict:
    """Run by onnxruntime."""
    import onnxruntime

    abc_plugins.onnx.export(model, path, precision=precision)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda X: session.run(["probabilities"], {"X": X})[0]


def treelite(path: Path, model: ABCBoostClassifier) -> Predict:
    """Run by GTIL, which takes rows of the type of the model."""
    from treelite import Model, gtil

    abc_plugins.treelite.export(model, path)
    loaded = Model.deserialize(path)
    return lambda X: gtil.predict(loaded, X.astype(np.float64), nthread=1)[:, 0]


def lightgbm(path: Path, model: ABCBoostClassifier) -> Predict:
    """LightGBM's own trees."""
    import lightgbm

    abc_plugins.lgbm.export(model, path)
    booster = lightgbm.Booster(model_file=path)
    return lambda X: booster.predict(X, num_threads=1)


def xgboost(path: Path, model: ABCBoostClassifier, vector_leaves: bool) -> Predict:
    """XGBoost's own trees, predicted in place."""
    import xgboost

    abc_plugins.xgb.export(model, path, vector_leaves=vector_leaves)
    booster = xgboost.Booster({"nthread": 1}, model_file=path)
    return booster.inplace_predict


RUNTIMES: dict[str, tuple[str, Callable[..., Predict], dict[str, Any]]] = {
    "abc_plugins.serving": ("model.abc", own, {}),
    "ONNX, double": ("double.onnx", onnx, {"precision": "double"}),
    "ONNX, float": ("float.onnx", onnx, {"precision": "float"}),
    "treelite (GTIL)": ("model.tl", treelite, {}),
    "LightGBM": ("model.txt", lightgbm, {}),
    "XGBoost, vector leaves": ("vectors.ubj", xgboost, {"vector_leaves": True}),
    "XGBoost, one tree per class": ("model.ubj", xgboost, {"vector_leaves": False}),
}


def seconds(work: Callable[[], Any]) -> float:
    """Processor seconds of one call: they depend less on what else the machine does."""
    started = time.process_time()
    work()
    return time.process_time() - started


def time_in_turn(predicts: dict[str, Predict], X: Any, n_rows: int, repeats: int) -> dict[str, dict[str, float]]:
    """Seconds for one row, and for a block, of every runtime; in turn, so that all meet the same conditions."""
    best = {runtime: {"latency": np.inf, "block": np.inf} for runtime in predicts}
    for _ in range(repeats):
        for runtime, predict in predicts.items():
            one = seconds(lambda predict=predict: [predict(X[i : i + 1]) for i in range(50)]) / 50  # type: ignore[misc]
            block = seconds(lambda predict=predict: predict(X[:n_rows]))  # type: ignore[misc]
            best[runtime]["latency"] = min(best[runtime]["latency"], one)
            best[runtime]["block"] = min(best[runtime]["block"], block)
    return best


def compare_models(names: list[str], repeats: int, n_rows: int) -> list[dict[str, Any]]:
    """Latency, throughput, size and error of every runtime."""
    results = []
    for name in names:
        model, X = fit(name)
        expected = model.predict_proba(X[:n_rows])
        sizes, errors, predicts = {}, {}, {}
        with tempfile.TemporaryDirectory() as folder:
            for runtime, (file, make, options) in RUNTIMES.items():
                path = Path(folder, file)
                predicts[runtime] = make(path, model, **options)
                sizes[runtime] = path.stat().st_size / 1e6
                errors[runtime] = float(np.abs(predicts[runtime](X[:n_rows]) - expected).max())
            times = time_in_turn(predicts, X, n_rows, repeats)
        results += [
            {"data": name, "runtime": runtime, "trees": model.model_.n_trees, "megabytes": sizes[runtime],
             "error": errors[runtime], "latency": times[runtime]["latency"],
             "rows_per_second": n_rows / times[runtime]["block"]}
            for runtime in predicts
        ]  # fmt: skip
    print_table(
        ["data", "runtime", "one row, ms", "rows/s", "MB", "largest error"],
        [[r["data"], r["runtime"], f"{1000 * r['latency']:.2f}", f"{r['rows_per_second']:,.0f}",
          f"{r['megabytes']:.1f}", f"{r['error']:.0e}"] for r in results],
    )  # fmt: skip
    return results


def made_up(n_classes: int, n_rows: int = 4000, n_features: int = 10) -> tuple[Any, Any]:
    """Draw clusters, one for each class."""
    random = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    return random.normal(size=(n_classes, n_features))[y] + 0.7 * random.normal(size=(n_rows, n_features)), y


def compare_explanations(repeats: int) -> list[dict[str, Any]]:
    """SHAP values of 100 rows: trees of the same shape, and as many, for 26 and for 99 classes."""
    results = []
    for n_classes in (26, 99):
        X, y = made_up(n_classes)
        shape = {"tree_shape": "symmetric", "max_depth": 6, "trees_per_round": 1}
        model = ABCBoostClassifier(n_estimators=100, early_stopping_rounds=None, random_state=0, n_jobs=1, **shape)
        explainer = explain(model.fit(X, y))
        spent = min(seconds(lambda: explainer.shap_values(X[:100])) for _ in range(repeats))  # noqa: B023
        results.append({"classes": n_classes, "trees": model.model_.n_trees, "seconds": spent})
    print_table(
        ["classes", "trees", "seconds for 100 rows", "ratio"],
        [[str(r["classes"]), str(r["trees"]), f"{r['seconds']:.2f}", f"{r['seconds'] / results[0]['seconds']:.2f}"]
         for r in results],
    )  # fmt: skip
    return results


_COLD = """
import time
from abc_plugins.serving import Predictor
predictor = Predictor({path!r})
predictor.predict_proba([[0.0] * predictor.n_features] * {n_rows})
print(time.process_time(), time.perf_counter() - {started})
"""


def compare_cold_starts(repeats: int) -> list[dict[str, Any]]:
    """From the start of the interpreter to the first prediction of a letter model, kernels compiled before."""
    model, _ = fit("letter10k")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "model.abc"))
        model.save_model(path)
        for n_rows in (1, 100):
            found = []
            for _ in range(repeats + 1):  # the first one may compile
                code = _COLD.format(path=path, n_rows=n_rows, started=time.perf_counter())
                done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
                found.append([float(number) for number in done.stdout.split()])
            processor, wall = np.array(found[1:]).T
            results.append({"rows": n_rows, "processor_seconds": processor.tolist(), "seconds": wall.tolist()})
    print_table(
        ["rows", "processor seconds, median", "seconds, median", "seconds, longest"],
        [[str(r["rows"]), f"{np.median(r['processor_seconds']):.2f}", f"{np.median(r['seconds']):.2f}",
          f"{max(r['seconds']):.2f}"] for r in results],
    )  # fmt: skip
    return results


def write_parquet(path: Path, n_rows: int, n_features: int) -> None:
    """Write random numbers, which do not compress, some rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    schema = pa.schema([(f"f{j}", pa.float64()) for j in range(n_features)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, STREAM_BLOCK):
            block = random.normal(size=(n_features, min(STREAM_BLOCK, n_rows - start)))
            writer.write_table(pa.table(list(block), schema=schema))


_PEAK = """
import runpy, sys
sys.argv = {arguments!r}
try:
    run = runpy.run_path if sys.argv[0].endswith(".py") else runpy.run_module
    run(sys.argv[0], run_name="__main__")
except SystemExit as end:
    if end.code: raise
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
"""


def peak_megabytes(arguments: list[str]) -> tuple[float, float]:
    """Largest resident memory of a program, by its own account, as what a parent is told counts the parent; seconds."""
    started = time.perf_counter()
    code = _PEAK.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stderr.split()[-1]) / 1e3, time.perf_counter() - started


def compare_streams() -> list[dict[str, Any]]:
    """Memory of `abc-plugins predict` and of the example for batches; one file is sixteen times as large."""
    X, y = made_up(3, n_features=20)
    model = ABCBoostClassifier(n_estimators=10, early_stopping_rounds=None, random_state=0, n_jobs=1).fit(X, y)
    example = Path(__file__).parents[1] / "examples" / "deployment" / "score_parquet.py"
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path, out = str(Path(folder, "model.abc")), str(Path(folder, "out.parquet"))
        model.save_model(path)
        for n_rows in STREAM_ROWS:
            data = Path(folder, f"{n_rows}.parquet")
            write_parquet(data, n_rows, 20)
            ways = {
                "abc-plugins predict": [
                    "abc_plugins",
                    "predict",
                    path,
                    str(data),
                    "--proba",
                    "--out",
                    out,
                    "--force",
                ],
                "score_parquet.py": [str(example), path, str(data), out],
            }
            for way, arguments in ways.items():
                peak, spent = peak_megabytes(arguments)
                size = data.stat().st_size / 1e6
                results.append({"way": way, "rows": n_rows, "megabytes": size, "peak": peak, "seconds": spent})
            data.unlink()
    print_table(
        ["", "rows", "file, MB", "memory, MB", "s"],
        [[r["way"], f"{r['rows']:,}", f"{r['megabytes']:,.0f}", f"{r['peak']:,.0f}", f"{r['seconds']:.0f}"]
         for r in results],
    )  # fmt: skip
    return results


def main() -> None:
    """Run one of the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["models", "cold", "explain", "stream"])
    parser.add_argument("data", nargs="*", default=["letter10k", "covtype"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.what == "models":
        results = compare_models(options.data, options.repeats, options.rows)
    elif options.what == "cold":
        results = compare_cold_starts(options.repeats)
    elif options.what == "stream":
        results = compare_streams()
    else:
        results = compare_explanations(options.repeats)
    if options.out is not None:
        options.out.write_text(json.dumps({"machine": describe_machine(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
