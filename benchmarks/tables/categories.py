"""Categorical features: ours as categories, ours as codes, and LightGBM with its own categories.

    python benchmarks/tables/categories.py --out results/categories.jsonl
    python benchmarks/tables/categories.py --data splice,krkopt --seeds 100,101 --params '{"max_depth": 5}'

Half of the rows (at most 8,000) to train on, a fifth of them to stop early by log loss; the other half (at most 20,000)
to test on. Classes of fewer than ten rows are left out. One thread; LightGBM has leaf values clipped at 4, without
which it diverges on some sets. Needs the data folder named by ABC_PLUGINS_DATA. Fits that the file has are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import Cell, describe_machine, print_table, read_results, run_cells

from abc_plugins import ABCBoostClassifier

SETS = ("splice", "nursery", "krkopt", "soybean", "diabetes130")
NOT_FEATURES = ("encounter_id", "patient_nbr")
ENGINES = ("categories", "codes", "lightgbm")
_KEY = ("data", "seed", "engine", "params")


def load(name: str) -> tuple[pd.DataFrame, Any]:
    """Features with categories as such, and class indices."""
    frame = pd.read_parquet(Path(os.environ["ABC_PLUGINS_DATA"]) / f"{name}.parquet")
    y = frame.pop("target").astype(str)
    kept = y.map(y.value_counts()) >= 10
    frame = frame[kept].drop(columns=[c for c in NOT_FEATURES if c in frame]).reset_index(drop=True)
    for c in frame:
        if not pd.api.types.is_numeric_dtype(frame[c]) or isinstance(frame[c].dtype, pd.CategoricalDtype):
            frame[c] = frame[c].astype("category")
    return frame, np.unique(y[kept], return_inverse=True)[1]


def as_codes(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers in place of categories, in their order."""
    codes = {c: frame[c].cat.codes.replace(-1, np.nan) for c in frame.select_dtypes("category")}
    return frame.assign(**codes).astype(float)


def split(y: Any, seed: int) -> tuple[Any, Any, Any]:
    """Rows to train on, to stop by, and to test on."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=seed)
    if len(train) > 8000:
        train = train_test_split(train, train_size=8000, stratify=y[train], random_state=seed)[0]
    fit, valid = train_test_split(train, test_size=0.2, stratify=y[train], random_state=seed)
    return fit, valid, test[:20000]


def run_cell(cell: Cell) -> Cell:
    """Fit once; log loss and error on the rows to test on."""
    X, y = load(cell["data"])
    fit, valid, test = split(y, cell["seed"])
    X = as_codes(X) if cell["engine"] == "codes" else X
    eval_set = [(X.iloc[valid], y[valid])]
    started = time.perf_counter()
    if cell["engine"] == "lightgbm":
        import lightgbm as lgb

        model = lgb.LGBMClassifier(n_estimators=1000, n_jobs=1, verbose=-1, max_delta_step=4)
        model.fit(X.iloc[fit], y[fit], eval_set=eval_set, callbacks=[lgb.early_stopping(50, verbose=False)])
    else:
        settings = {"n_estimators": 4000, "early_stopping_rounds": 100, "n_jobs": 1, "random_state": cell["seed"]}
        model = ABCBoostClassifier(**settings | cell["params"])
        model.fit(X.iloc[fit], y[fit], eval_set=eval_set)
    p = np.clip(model.predict_proba(X.iloc[test]), 1e-15, 1.0)
    p /= p.sum(axis=1, keepdims=True)
    loss, error = float(log_loss(y[test], p)), float(np.mean(p.argmax(axis=1) != y[test]))
    result = {"log_loss": loss, "error": error, "rounds": int(model.best_iteration_)}
    seconds = time.perf_counter() - started
    return {**cell, **result, "seconds": seconds, "summary": f"log loss {loss:.4f}, error {error:.4f}, {seconds:.0f} s"}


def tabulate(results: list[Cell]) -> None:
    """Print means over the seeds that all engines have."""
    rows = []
    for name in dict.fromkeys(one["data"] for one in results):
        of_set = [one for one in results if one["data"] == name]
        seeds = set.intersection(*({one["seed"] for one in of_set if one["engine"] == engine} for engine in ENGINES))
        if not seeds:
            continue
        losses, errors = (
            [np.mean([r[key] for r in of_set if r["engine"] == engine and r["seed"] in seeds]) for engine in ENGINES]
            for key in ("log_loss", "error")
        )
        cells = [f"{100 * e:.2f} / {loss:.4f}" for e, loss in zip(errors, losses, strict=True)]
        rows.append([name, *cells, f"{losses[0] / losses[1]:.3f}", f"{losses[0] / losses[2]:.3f}"])
    print("Test error in % / log loss, and ratios of log losses")
    print_table(["data", *ENGINES, "/ codes", "/ lightgbm"], rows)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = partial(str.split, sep=",")
    parser.add_argument("--data", type=numbers, default=list(SETS), metavar="SET,...")
    parser.add_argument("--seeds", type=numbers, default=["0", "1", "2"], metavar="SEED,...")
    parser.add_argument("--engines", type=numbers, default=list(ENGINES), metavar="ENGINE,...")
    parser.add_argument("--params", type=json.loads, default={}, metavar="JSON", help="of ours")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/categories.jsonl"))
    arguments = parser.parse_args()
    cells = [
        {"data": name, "seed": int(seed), "engine": engine, "params": {} if engine == "lightgbm" else arguments.params}
        for name in arguments.data
        for seed in arguments.seeds
        for engine in arguments.engines
    ]
    run_cells(cells, run_cell, arguments.out, _KEY, arguments.jobs)
    wanted = [(cell["data"], cell["seed"], cell["engine"], cell["params"]) for cell in cells]
    tabulate([r for r in read_results(arguments.out) if tuple(r[name] for name in _KEY) in wanted])
    print(json.dumps(describe_machine()))


if __name__ == "__main__":
    main()
