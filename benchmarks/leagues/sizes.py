"""How the lead depends on the training rows and on the number of classes: cuts of sets, otherwise as people work."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from leagues.practice import ROUNDS, scored, table_of, warm_up

CONTENDERS = ("directional", "lightgbm", "xgboost", "catboost")
NAMES = ("data", "seed", "which", "rows", "classes")
ROWS = {
    "letter": (250, 500, 1000, 2000, 4000, 8000),
    "pendigits": (100, 250, 500, 1000, 2000, 4000),
    "covtype": (100, 250, 500, 1000, 2000, 4000, 8000),
    "satimage": (100, 250, 500, 1000, 2000),
}
"""Data set -> training rows, with all classes."""
CLASSES = {"letter": (3, 6, 13, 26), "isolet1560": (3, 6, 13, 26)}
"""Data set -> numbers of classes, with ROWS_PER_CLASS training rows each."""
ROWS_PER_CLASS = 30


def cells(seeds: Sequence[int], contenders: Sequence[str], largest: int | None = None) -> Iterator[dict[str, Any]]:
    """All fits of at most `largest` training rows, small ones first."""
    cuts = [(name, rows, None) for name, sizes in ROWS.items() for rows in sizes]
    cuts += [(name, ROWS_PER_CLASS * n, n) for name, numbers in CLASSES.items() for n in numbers]
    for data, rows, classes in sorted(cuts, key=lambda cut: (cut[1], cut[0])):
        for seed in seeds if largest is None or rows <= largest else ():
            for which in contenders:
                yield {"data": data, "seed": seed, "which": which, "rows": rows, "classes": classes}


@lru_cache(maxsize=1)
def _cut_classes(name: str, n_classes: int | None, seed: int) -> Any:
    """The table with some of its classes, drawn by the seed."""
    table = table_of(name)
    if n_classes is None:
        return table
    drawn = np.sort(np.random.default_rng(seed).permutation(len(table.classes))[:n_classes])
    keep = np.flatnonzero(np.isin(table.y, drawn))
    y = np.searchsorted(drawn, table.y[keep])
    return dataclasses.replace(table, y=y, rows=table.rows[keep], classes=[table.classes[k] for k in drawn])


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Fit a contender on a cut of a data set."""
    from abc_plugins.compare.practice.table import make_sample, split_rows

    table = _cut_classes(cell["data"], cell["classes"], cell["seed"])
    parts = split_rows(table, cell["seed"], max_train=cell["rows"])
    warm_up(cell["which"], table, parts)
    sample, X_test, y_test = make_sample(table, parts, seed=cell["seed"], n_jobs=1, rounds=ROUNDS)
    return {**cell, **scored(cell["which"], sample, X_test, y_test)}
