"""Fits without arguments: the log loss of `ABCBoostClassifier()` beside that of `LGBMClassifier()`.

    python benchmarks/defaults.py --seeds 100 --out results/defaults.jsonl     # all sets; goes on where it stopped
    python benchmarks/defaults.py --data letter,satimage --jobs 2

A stratified half of the rows, at most 8,000, is trained on, all of them; of the rest at most 20,000 are tested on.
Classes of fewer than ten rows are left out. One thread; LightGBM has leaf values clipped at 4 (`max_delta_step=4`),
without which it diverges on some sets. Needs the data folder named by ABC_PLUGINS_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import print_table, read_results, run_cells
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

SETS = (
    "wine_quality", "satimage", "optdigits", "pendigits", "texture", "vowel", "splice", "soybean", "flavia_leaves",
    "gas_drift_8batches", "krkopt", "letter", "covtype", "nursery",
)  # fmt: skip
NOT_FEATURES = ("is_train_abcboost", "is_train", "speaker", "batch", "concentration_ppmv")
"""Columns that are no features; of Vowel the sex of the speaker is none, either."""

MOST_TRAINED, MOST_TESTED, FEWEST_OF_A_CLASS = 8000, 20000, 10


def load(name: str) -> tuple[Any, Any]:
    """The features of a set as a pandas table, texts as categories, and the class index of every row."""
    import pandas as pd

    frame = pd.read_parquet(Path(os.environ["ABC_PLUGINS_DATA"]) / f"{name}.parquet")
    y = frame.pop("target").astype(str)
    frame = frame.drop(columns=[*NOT_FEATURES, *(["sex"] if name == "vowel" else [])], errors="ignore")
    kept = y.map(y.value_counts()) >= FEWEST_OF_A_CLASS
    frame, y = frame[kept].reset_index(drop=True), y[kept]
    texts = [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c])]
    return frame.astype(dict.fromkeys(texts, "category")), np.unique(y, return_inverse=True)[1]


def split(y: Any, seed: int) -> tuple[Any, Any]:
    """Rows to train and to test on."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=seed)
    if len(train) > MOST_TRAINED:
        train = train_test_split(train, train_size=MOST_TRAINED, stratify=y[train], random_state=seed)[0]
    return train, test[:MOST_TESTED]


def make(which: str, seed: int) -> Any:
    """A classifier as it comes, but for the number of threads."""
    if which == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(max_delta_step=4, n_jobs=1, verbose=-1)
    from abc_plugins import ABCBoostClassifier

    return ABCBoostClassifier(n_jobs=1, random_state=seed, refit=which == "ours")


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Fit and test once."""
    warnings.simplefilter("ignore")
    X, y = load(cell["data"])
    train, test = split(y, cell["seed"])
    model = make(cell["which"], cell["seed"])
    started = time.perf_counter()
    model.fit(X.iloc[train], y[train])
    seconds = time.perf_counter() - started
    proba = np.asarray(model.predict_proba(X.iloc[test]))
    loss = float(log_loss(y[test], proba, labels=np.arange(proba.shape[1])))
    error = float((proba.argmax(axis=1) != y[test]).mean())
    rounds = int(getattr(model, "best_iteration_", None) or model.n_iter_)
    found = {"n_trained": len(train), "log_loss": loss, "error": error, "seconds": seconds, "rounds": rounds}
    return {**cell, **found, "summary": f"log loss {loss:.4f}"}


def report(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Print means over seeds, and the geometric mean of the ratios to LightGBM; the figures as plain values."""
    losses: dict[str, dict[str, list[float]]] = {}
    for result in results:
        losses.setdefault(result["data"], {}).setdefault(result["which"], []).append(result["log_loss"])
    names = [which for which in ("ours", "no refit", "lightgbm") if any(which in of_set for of_set in losses.values())]
    means = {
        data: {which: float(np.mean(of_set[which])) for which in names if which in of_set}
        for data, of_set in losses.items()
    }
    rows = [
        [data, *(f"{of_set[which]:.4f}" if which in of_set else "-" for which in names)]
        for data, of_set in means.items()
    ]
    print_table(["log loss", *names], rows)
    ratios = {
        which: [of_set["ours"] / of_set[which] for of_set in means.values() if {"ours", which} <= set(of_set)]
        for which in names[1:]
    }
    summary = {
        which: {
            "geometric_mean": float(np.exp(np.mean(np.log(of_sets)))),
            "lower": sum(ratio < 1 for ratio in of_sets),
            "sets": len(of_sets),
        }
        for which, of_sets in ratios.items()
        if of_sets
    }
    for which, figures in summary.items():
        text = "ours / {}: geometric mean {geometric_mean:.3f}, lower on {lower} of {sets} sets"
        print(text.format(which, **figures))
    return {"log_loss": means, "summary": summary}


def main() -> None:
    """Run the cells that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(SETS))
    parser.add_argument("--seeds", default="100")
    parser.add_argument("--which", default="ours,lightgbm", help='of "ours", "no refit" and "lightgbm"')
    parser.add_argument("--out", type=Path, default=Path("results/defaults.jsonl"))
    parser.add_argument("--json", type=Path, help="write the figures of the table here, too")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    cells = [
        {"data": data, "seed": int(seed), "which": which}
        for data in options.data.split(",")
        for seed in options.seeds.split(",")
        for which in options.which.split(",")
    ]
    run_cells(cells, run_cell, options.out, ("data", "seed", "which"), options.jobs)
    figures = report(read_results(options.out))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
