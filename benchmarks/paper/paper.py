"""The studies of the paper (Li and Zhao 2022) on its data sets, resumable.

    python benchmarks/paper/paper.py methods --jobs 2             # four methods with exhaustive search
    python benchmarks/paper/paper.py search --jobs 2              # s in {1, 2, 3, 4, K} at g = 0
    python benchmarks/paper/paper.py gap --jobs 2                 # s x g in {0, 5, 10, 20, 100, 200, 500}
    python benchmarks/paper/paper.py warmup --jobs 2              # w in {0, 10, 100}
    python benchmarks/paper/paper.py leaves --jobs 2              # J in {10, 20}, nu in {0.06, 0.1}
    python benchmarks/paper/paper.py all --reduced --jobs 2       # all of them, fewer rows, rounds and cells
    python benchmarks/paper/paper.py report --reduced             # tables and verdicts in Markdown, pictures

Needs the data folder named by ABC_PLUGINS_DATA. Fits are kept in results/paper_full.jsonl or
results/paper_reduced.jsonl, one per line; what is there is not run again. They are the paper's algorithm as the paper
and its authors' package have it: leaf values all from the scores before the round and clipped at 50, at least 10
samples per leaf, no guard.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from paper_data import SETS, load_rows

sys.path.insert(0, str(Path(__file__).parents[1]))  # what all benchmarks share is a folder up
from common import run_cells

NAMES = ("data", "rows", "rounds", "params")
"""What tells a cell from the others."""

PAPER: dict[str, Any] = {
    "base_choice": "worst", "leaf_values": "paper", "leaf_clip": 50.0, "guard": False,
    "min_samples_leaf": 10, "pair_samples_per_leaf": 0.0, "max_bins": 255,
}  # fmt: skip
SEARCHES = (1, 2, 3, 4, "all")
GAPS = (0, 5, 10, 20, 100, 200, 500)
WARMUPS = (0, 10, 100)
CLASSIC, ADAPTIVE = ("mart", "robustlogit"), ("abcmart", "abcrobustlogit")
ROUNDS = {"full": dict.fromkeys(SETS, 1000), "reduced": {"covtype": 200, "letter10k": 200, "mnist10k": 100,
          "m_rand": 60, "m_noise1": 60}}  # fmt: skip
ROWS: dict[str, dict[str, tuple[int | None, int | None]]] = {
    "full": dict.fromkeys(SETS, (None, None)),
    "reduced": {
        "letter10k": (None, None), "covtype": (100000, 100000), "mnist10k": (5000, 10000), "m_rand": (2500, 10000),
        "m_noise1": (2500, None),
    },
}  # fmt: skip
SHORT = ("m_rand", "m_noise1")
"""Data sets of dense images, which are slow: reduced studies leave most cells of them out."""


def params(method: str, s: int | str = "all", g: int = 0, w: int = 0, leaves: int = 20, nu: float = 0.1) -> Any:
    """Parameters of a cell; those of the schedule only where there is a base class."""
    schedule = {} if method in CLASSIC else {"search": s, "gap": g, "warmup": w}
    return {"method": method, **schedule, "num_leaves": leaves, "learning_rate": nu}


def methods(size: str) -> Iterator[Any]:
    """Four methods with exhaustive search; the full study has every J and nu."""
    for leaves, nu in itertools.product((20, 10), (0.1, 0.06)) if size == "full" else [(20, 0.1)]:
        for method in (*CLASSIC, *ADAPTIVE):
            yield params(method, leaves=leaves, nu=nu)


def search(size: str) -> Iterator[Any]:
    """Fewer candidates, searched for in every round."""
    del size
    for method, s in itertools.product(ADAPTIVE, SEARCHES):
        yield params(method, s)


def gap(size: str) -> Iterator[Any]:
    """Searches in fewer rounds."""
    if size == "full":
        for method, s, g in itertools.product(ADAPTIVE, SEARCHES, GAPS):
            yield params(method, s, g)
    for s, g in itertools.product((1, 2, 4), (0, 5, 10, 20, 100)):
        yield params("abcrobustlogit", s, g)
    yield params("abcmart", 2, 10)


def warmup(size: str) -> Iterator[Any]:
    """Classic rounds at the start."""
    searches, gaps = (SEARCHES, GAPS) if size == "full" else ((1, 2), (0, 10))
    for method, s, g, w in itertools.product(ADAPTIVE if size == "full" else ADAPTIVE[1:], searches, gaps, WARMUPS):
        yield params(method, s, g, w)


def leaves(size: str) -> Iterator[Any]:
    """Leaves and shrinkage, with the schedule that the paper recommends."""
    chosen = (*CLASSIC, *ADAPTIVE) if size == "full" else ("robustlogit", "abcrobustlogit")
    for method, count, nu in itertools.product(chosen, (10, 20), (0.06, 0.1)):
        yield params(method, 2, 10, 10, count, nu)


STUDIES: dict[str, Callable[[str], Iterator[Any]]] = {
    "methods": methods, "search": search, "gap": gap, "warmup": warmup, "leaves": leaves,
}  # fmt: skip
_SHORT_CELLS = [*(params(method) for method in (*CLASSIC, *ADAPTIVE)), params("abcmart", 2, 0),
                *(params("abcrobustlogit", s) for s in (1, 2, 3, 4)), params("abcrobustlogit", 2, 10)]  # fmt: skip


def cells(study: str, size: str, data: list[str]) -> Iterator[dict[str, Any]]:
    """Cells of a study, cheap data sets first."""
    chosen = list(STUDIES) if study == "all" else [study]
    for name, part in itertools.product(sorted(data, key=("letter10k", *SETS).index), chosen):
        for found in STUDIES[part](size):
            if size == "full" or name not in SHORT or found in _SHORT_CELLS:
                yield {"data": name, "rows": ROWS[size][name], "rounds": ROUNDS[size][name], "params": found}


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Fit one cell and count its test errors after every round."""
    from abc_plugins import ABCBoostClassifier
    from abc_plugins.compare.budgets.fitting import pack_wrong
    from abc_plugins.machine import describe_machine

    rows = load_rows(cell["data"], *cell["rows"])
    started = time.perf_counter()
    model = ABCBoostClassifier(n_estimators=cell["rounds"], n_jobs=1, random_state=0, **PAPER, **cell["params"])
    model.fit(rows.X, rows.y)
    seconds = time.perf_counter() - started
    wrong, errors = np.zeros(len(rows.y_test), dtype=bool), []
    for labels in model.staged_predict(rows.X_test):
        wrong = labels != rows.y_test
        errors.append(int(wrong.sum()))
    return {
        **cell,
        "errors": errors,
        "wrong": pack_wrong(wrong),
        "n_train": len(rows.y),
        "n_test": len(rows.y_test),
        "n_classes": int(model.n_classes_),
        "trees": int(model.trees_grown_),
        "seconds": seconds,
        "versions": describe_machine()["versions"],
        "summary": f"{errors[-1]} errors, {model.trees_grown_} trees, {seconds:.1f} s",
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=(*STUDIES, "all", "report"))
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--reduced", action="store_true", help="fewer rows, rounds and cells: an hour on two cores")
    parser.add_argument("--rounds", type=int, help="another number of rounds")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    arguments = parser.parse_args()
    size = "reduced" if arguments.reduced else "full"
    path = arguments.results / f"paper_{size}.jsonl"
    if arguments.study == "report":
        from paper_report import report

        report(path, arguments.images)
        return
    todo = cells(arguments.study, size, arguments.data)
    if arguments.rounds is not None:
        todo = ({**cell, "rounds": arguments.rounds} for cell in todo)
    run_cells(todo, run_cell, path, NAMES, arguments.jobs)


if __name__ == "__main__":
    main()
