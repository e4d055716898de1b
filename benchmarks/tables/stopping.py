"""How long to wait for an improvement, and how many rows to hold out for it: fits of `early_stopping="auto"`.

    python benchmarks/tables/stopping.py --seeds 100,101 --out results/stopping.jsonl    # goes on where it stopped

The splits of `benchmarks/defaults.py`. For every share held out one training waits longest; where a shorter patience
would have ended it follows from its losses. A model of all training rows has the rounds of all of them, so one fit
gives the test loss of every choice. `longer` is what the number of rounds is multiplied by for it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import Cell, print_table, read_results, run_cells
from defaults import SETS, load, split

from abc_plugins import ABCBoostClassifier

SHARES = (0.1, 0.2)
PATIENCES = (50, 75, 100, 150)
LONGER = (1.0, 1.1)
MOST_ROUNDS, RATE = 4000, 0.05
_KEY = ("data", "seed")


def stops_at(losses: Any, patience: int) -> tuple[int, int]:
    """The best round of a training that waits so long, and the rounds that it takes."""
    best = 0
    for number, loss in enumerate(losses):
        if loss < losses[best]:
            best = number
        elif number - best >= patience:
            return best + 1, number + 1
    return best + 1, len(losses)


def run_cell(cell: Cell) -> Cell:
    """Fit once for every share, and once on all rows; test losses of all choices."""
    warnings.simplefilter("ignore")
    X, y = load(cell["data"])
    train, test = split(y, cell["seed"])
    found: dict[str, dict[str, float]] = {}
    settings = {"n_jobs": 1, "random_state": cell["seed"]}
    for share in SHARES:
        model = ABCBoostClassifier(
            early_stopping_rounds=max(PATIENCES), validation_fraction=share, refit=False, **settings
        ).fit(X.iloc[train], y[train])
        for patience, longer in itertools.product(PATIENCES, LONGER):
            best, done = stops_at(model.evals_result_["validation"]["logloss"], patience)
            rounds = min(MOST_ROUNDS, round(best * longer))
            found[f"{share:g} {patience} {longer:g}"] = {"rounds": rounds, "trained": done + rounds}
    most = max(int(one["rounds"]) for one in found.values())
    whole = ABCBoostClassifier(n_estimators=most, learning_rate=RATE, early_stopping=False, **settings)
    whole.fit(X.iloc[train], y[train])
    losses: dict[int, float] = {}
    for one in found.values():
        rounds = int(one["rounds"])
        if rounds not in losses:
            proba = whole.predict_proba(X.iloc[test], n_rounds=rounds)
            losses[rounds] = float(log_loss(y[test], proba, labels=np.arange(proba.shape[1])))
        one["log_loss"] = losses[rounds]
    return {**cell, "found": found, "summary": f"{most} rounds"}


def report(results: list[Cell]) -> None:
    """Print, for every choice, geometric means over fits as ratios to the first one, and the losses of every set."""
    names = list(results[0]["found"])
    ratios = {
        key: np.array([[one["found"][name][key] / one["found"][names[0]][key] for name in names] for one in results])
        for key in ("log_loss", "trained")
    }
    means = {key: np.exp(np.log(values).mean(axis=0)) for key, values in ratios.items()}
    lines = [[n, f"{means['log_loss'][i]:.4f}", f"{means['trained'][i]:.2f}"] for i, n in enumerate(names)]
    print(f"{len(results)} fits")
    print_table(["share, patience, longer", "log loss", "rounds of both trainings"], lines)
    lines = []
    for data in dict.fromkeys(one["data"] for one in results):
        mean = ratios["log_loss"][[one["data"] == data for one in results]].mean(axis=0)
        lines.append([data, *(f"{value:.3f}" for value in mean)])
    print_table(["log loss", *names], lines)


def main() -> None:
    """Run the cells that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(SETS))
    parser.add_argument("--seeds", default="100,101")
    parser.add_argument("--out", type=Path, default=Path("results/stopping.jsonl"))
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    cells = [{"data": d, "seed": int(s)} for s in options.seeds.split(",") for d in options.data.split(",")]
    run_cells(cells, run_cell, options.out, _KEY, options.jobs)
    report(read_results(options.out))


if __name__ == "__main__":
    main()
