"""Values that share bins because one other value has 95% of the column: log loss with that rule and without.

    python benchmarks/tables/rare_values.py --data optdigits,flavia_leaves,kddcup99_10pct,mnist --seeds 100,101

The splits of `benchmarks/defaults.py`, of MNIST with 2,000 rows to train on; fits without arguments, of MNIST 200
rounds. Only columns of more than 16 distinct values are concerned; how many there are is counted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

sys.path.insert(0, str(Path(__file__).parents[1]))

import defaults
from common import Cell, print_table, read_results, run_cells

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.bins import binning
from abc_plugins.data.datasets import load

RULES = ("shared", "apart")
_KEY = ("data", "seed", "rule")
_SHARE = binning._DOMINANT_SHARE


def read(name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Features, class indices, and the rows to train and to test on."""
    if name != "mnist":
        X, y = defaults.load(name)
        return X, y, *defaults.split(y, seed)
    images = load(name)
    rows = np.random.default_rng(seed).permutation(images.X.shape[0])[:7000]
    X, y = pd.DataFrame(np.asarray(images.X)[rows]), np.unique(np.asarray(images.y)[rows], return_inverse=True)[1]
    return X, y, np.arange(2000), np.arange(2000, 7000)


def count_concerned(X: pd.DataFrame) -> int:
    """Columns that the rule is about."""
    shares = [X[c].value_counts(normalize=True) for c in X.select_dtypes("number")]
    return int(sum(one.size > binning.ALWAYS_APART and one.iloc[0] >= _SHARE for one in shares))


def run_cell(cell: Cell) -> Cell:
    """Fit and test once."""
    binning._DOMINANT_SHARE = 2.0 if cell["rule"] == "apart" else _SHARE
    X, y, train, test = read(cell["data"], cell["seed"])
    settings = {"n_estimators": 200} if cell["data"] == "mnist" else {}
    model = ABCBoostClassifier(n_jobs=1, random_state=cell["seed"], **settings).fit(X.iloc[train], y[train])
    proba = np.zeros((len(test), int(y.max()) + 1))  # a rare class may be in no training row
    proba[:, model.classes_] = model.predict_proba(X.iloc[test])
    loss = float(log_loss(y[test], proba, labels=np.arange(proba.shape[1])))
    error = float((proba.argmax(axis=1) != y[test]).mean())
    found = {"columns": count_concerned(X.iloc[train]), "log_loss": loss, "error": error}
    return {**cell, **found, "summary": f"log loss {loss:.5f}, error {error:.4f}"}


def report(results: list[Cell]) -> None:
    """Print the means of every set."""
    rows = []
    for data in dict.fromkeys(one["data"] for one in results):
        of_set = [one for one in results if one["data"] == data]
        means = [
            {key: float(np.mean([one[key] for one in of_set if one["rule"] == rule])) for key in ("log_loss", "error")}
            for rule in RULES
        ]
        columns = max(one["columns"] for one in of_set)
        cells = [f"{one['log_loss']:.5f} / {100 * one['error']:.2f}" for one in means]
        rows.append([data, str(columns), *cells, f"{means[0]['log_loss'] / means[1]['log_loss']:.3f}"])
    print_table(["log loss / error in %", "columns", *RULES, "ratio of log losses"], rows)


def main() -> None:
    """Run the cells that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="optdigits,flavia_leaves,kddcup99_10pct,mnist")
    parser.add_argument("--seeds", default="100,101")
    parser.add_argument("--out", type=Path, default=Path("results/rare_values.jsonl"))
    options = parser.parse_args()
    cells = [
        {"data": data, "seed": int(seed), "rule": rule}
        for data in options.data.split(",")
        for seed in options.seeds.split(",")
        for rule in RULES
    ]
    run_cells(cells, run_cell, options.out, _KEY, 1)
    report(read_results(options.out))


if __name__ == "__main__":
    main()
