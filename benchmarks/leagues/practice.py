"""Everybody as people use boosting: one fit a data set, seed and contender, and figures that earlier runs left."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

SETS = (
    "wine_quality", "satimage", "optdigits", "pendigits", "texture", "vowel", "splice", "soybean", "flavia_leaves",
    "gas_drift", "krkopt", "letter", "covtype", "nursery", "shuttle", "diabetes130", "isolet1560", "leaf99",
)  # fmt: skip
SEEDS = (0, 1, 2)
PEERS = ("lightgbm", "xgboost", "catboost", "chimeraboost")
FORMER = "abc-plugins 0.1.0"
"""Fast ABC-Boost, which was the default then: its figures are taken, it is not fitted again."""
CONTENDERS = ("directional", *PEERS)
ROUNDS = 4000
NAMES = ("data", "seed", "which")
_RENAMED = {"gas_drift_8batches": "gas_drift", "ours": "directional"}
_EARLIER_LIMIT, _NEAR = 1000, 50
"""Rounds of the earlier figures, and how close to them a best round is that was not stopped by the loss."""


def cells(sets: Sequence[str], seeds: Sequence[int], contenders: Sequence[str]) -> Iterator[dict[str, Any]]:
    """All fits, a data set after the other."""
    for data, seed, which in itertools.product(sets, seeds, contenders):
        yield {"data": data, "seed": seed, "which": which}


@lru_cache(maxsize=1)
def table_of(name: str) -> Any:
    """The table of a data set."""
    from abc_plugins.compare.practice.table import make_table
    from abc_plugins.data.datasets import load

    return make_table(load(name))


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Fit a contender on a split of a data set."""
    from abc_plugins.compare.practice.table import make_sample, split_rows

    table = table_of(cell["data"])
    parts = split_rows(table, cell["seed"])
    warm_up(cell["which"], table, parts)
    sample, X_test, y_test = make_sample(table, parts, seed=cell["seed"], n_jobs=1, rounds=ROUNDS)
    return {**cell, **scored(cell["which"], sample, X_test, y_test)}


def scored(which: str, sample: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Train a contender; its figures."""
    from abc_plugins.compare.practice.contenders import select
    from abc_plugins.compare.practice.fitting import timed_training

    trained, seconds = timed_training(select([which])[0], sample, {})
    found = {"s": seconds, **figures(trained, sample, X_test, y_test)}
    return {**found, "summary": f"error {100 * found['err']:.2f}%, log loss {found['ll']:.4f}, {seconds:.1f} s"}


def figures(trained: Any, sample: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Error and log loss of a fitted contender on the test rows, its rounds, size and time of prediction."""
    from abc_plugins.compare.practice.fitting import score
    from abc_plugins.machine import describe_machine

    fit = score(trained, sample, X_test, y_test)
    return {
        "K": sample.n_classes,
        "n": int(sample.y.size),
        "err": fit["errors"] / y_test.size,
        "ll": fit["log_loss"],
        "it": fit["rounds"],
        "at_limit": fit["at_limit"],
        "predict_ms": fit["predict_ms"],
        "bytes": fit["bytes"],
        "versions": describe_machine()["versions"],
    }


_warm: set[tuple[str, str]] = set()


def warm_up(which: str, table: Any, parts: Any) -> None:
    """Import and compile what a contender needs, once a data set, before its time is taken."""
    from abc_plugins.compare.practice.contenders import select
    from abc_plugins.compare.practice.table import make_sample

    if (which, table.name) not in _warm:
        _warm.add((which, table.name))
        sample, X_test, _ = make_sample(table, parts, seed=0, n_jobs=1, rounds=2)
        select([which])[0].train(sample, {}).predict_proba(X_test[:10])


def earlier_results(path: Path) -> list[dict[str, Any]]:
    """Figures that an earlier run of the protocol left: of the peers, whose code has not changed, and of 0.1.0.

    Fits that the limit of 1,000 rounds stopped are marked.
    """
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        row["data"], row["which"] = (_RENAMED.get(row[name], row[name]) for name in ("data", "which"))
        if row["which"] in (*PEERS, FORMER) and row["data"] in SETS:
            at_limit = row["which"] != "chimeraboost" and row["it"] >= _EARLIER_LIMIT - _NEAR
            found.append({"at_limit": at_limit, **row, "summary": f"log loss {row['ll']:.4f}, from {path.name}"})
    return found


def check_earlier(kept: Sequence[dict[str, Any]], earlier: Sequence[dict[str, Any]]) -> list[str]:
    """Compare our figures with earlier ones of the same fits: a line each, with the largest difference."""
    own = {tuple(row[name] for name in NAMES): row for row in kept if "versions" in row}
    lines = []
    for row in earlier:
        fit = own.get(tuple(row[name] for name in NAMES))
        if fit is not None:
            largest = max(abs(fit[value] - row[value]) / max(row[value], 1e-12) for value in ("err", "ll"))
            same = "equal" if largest < 5e-4 else "DIFFERENT"
            note = ", which the limit of rounds stopped" if row["at_limit"] else ""
            lines.append(
                f"{same:9} {fit['data']} {fit['seed']} {fit['which']}: error {fit['err']:.6f} and {row['err']:.6f}, "
                f"log loss {fit['ll']:.6f} and {row['ll']:.6f}{note}"
            )
    return lines


def by_set(results: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[int, dict[str, Any]]]]:
    """Data set -> contender -> seed -> figures."""
    found: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for name in [*SETS, *sorted({row["data"] for row in results} - set(SETS))]:
        for row in results:
            if row["data"] == name:
                found.setdefault(name, {}).setdefault(row["which"], {})[row["seed"]] = row
    return found


def mean_of(fits: dict[int, dict[str, Any]], value: str, seeds: Sequence[int]) -> float:
    """Mean of a figure over some seeds."""
    return float(np.mean([fits[seed][value] for seed in seeds]))
