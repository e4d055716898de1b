"""Stock against ABC, for each engine, on many data sets with five splits each; resumable.

    python benchmarks/head_to_head.py defaults --jobs 2     # all with their own defaults, 100 rounds
    python benchmarks/head_to_head.py tuned --jobs 2        # all with the same small budget of tuning
    python benchmarks/head_to_head.py report                # both tables in Markdown

Needs the data folder named by ABC_PLUGINS_DATA. Fits are kept in results/head_to_head_defaults.jsonl and
..._tuned.jsonl, one line a data set, split and contender; what is there is not run again.

A split trains on a random half of the rows, stratified by class and the same for all contenders, of which large data
sets give a part only (see `LIMITS`), and tests on the other half. Tuning: TRIALS settings, the same draws for all,
are fitted on three quarters of the training rows; the setting and the number of rounds with the fewest errors on the
last quarter (log loss decides ties) are fitted again on all training rows. The first setting is each contender's own
default. The schedule of the base class is drawn in the same trials: ABC has no more of them.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from common import describe_machine, print_table, read_results, run_cells
from scipy import stats
from sklearn.model_selection import train_test_split

NAMES = ("data", "split", "contender", "rounds", "limit")
SETS = (
    "letter", "pendigits", "optdigits", "satimage", "texture", "vowel", "wine_quality", "splice", "krkopt",
    "flavia_leaves", "soybean", "gas_drift", "nursery", "covtype",
)  # fmt: skip
NOT_TUNED = ("flavia_leaves", "gas_drift")
"""Data sets that take too long to be tuned on."""

SPLITS = 5
ROUNDS = {"defaults": 100, "tuned": 60}
TRIALS = 4
LIMITS = {"defaults": (4000, 5000), "tuned": (1200, 4000)}
"""Largest numbers of training and test rows."""

PAIRS = (("robustlogit", "abcrobustlogit"), ("lightgbm", "abc-lightgbm"), ("xgboost", "abc-xgboost"))
TITLES = {"robustlogit": "native", "lightgbm": "LightGBM", "xgboost": "XGBoost"}
LEAVES, RATES, CLIPS = (8, 16, 24, 32), (0.05, 0.1, 0.2), (2.0, 4.0, 10.0)
SCHEDULES = ((1, 0, 0), (2, 10, 10), (2, 5, 0), (3, 0, 10))


def cells(kind: str, sets: Sequence[str], splits: int, rounds: int, engines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The contenders of some engines on all data sets and splits."""
    pairs = [pair for pair in PAIRS if TITLES[pair[0]] in engines]
    for name, split, contender in itertools.product(sets, range(splits), itertools.chain(*pairs)):
        yield {"data": name, "split": split, "contender": contender, "rounds": rounds, "limit": list(LIMITS[kind])}


@lru_cache(maxsize=2)
def split_data(name: str, split: int, max_train: int, max_test: int) -> tuple[Any, Any, Any, Any]:
    """Training and test rows of a split; labels are class indices, -1 for one that no training row has."""
    from abc_plugins.data.datasets import load

    data = load(name)
    order = np.random.default_rng(split).permutation(data.y.size)
    _, codes = np.unique(data.y, return_inverse=True)
    stratify = codes[order] if np.bincount(codes).min() >= 2 else None
    train, test = train_test_split(order, test_size=0.5, random_state=split, stratify=stratify)
    train, test = np.sort(train[:max_train]), np.sort(test[:max_test])
    present = np.unique(codes[train])
    index = np.full(codes.max() + 1, -1)
    index[present] = np.arange(present.size)
    return data.X[train], index[codes[train]], data.X[test], index[codes[test]]


def run_defaults(cell: dict[str, Any]) -> dict[str, Any]:
    """Fit a contender as it comes."""
    _warm_up(cell["contender"])
    return _scored(cell, _own_defaults(cell["rounds"]), split_data(cell["data"], cell["split"], *cell["limit"]))


def run_tuned(cell: dict[str, Any]) -> dict[str, Any]:
    """Tune a contender on a part of the training rows, and fit the best setting on all of them."""
    from abc_plugins.compare import fit_and_score, select

    X, y, X_test, y_test = split_data(cell["data"], cell["split"], *cell["limit"])
    part, held_out = _hold_out(y, cell["split"])
    (contender,) = select([cell["contender"]])
    _warm_up(contender.key)
    best: tuple[tuple[float, float], Any, int] | None = None
    for settings in draws(cell["rounds"], cell["split"], int(y.max()) + 1):
        fit = fit_and_score(contender, settings, X[part], y[part], X[held_out], y[held_out])
        scores = list(zip(fit["errors"], fit["log_loss"], strict=True))
        score, n_rounds = min((score, index + 1) for index, score in enumerate(scores))
        if best is None or score < best[0]:
            best = (score, settings, n_rounds)
    assert best is not None
    return _scored(cell, best[1], (X, y, X_test, y_test), best[2])


def draws(rounds: int, split: int, n_classes: int) -> list[Any]:
    """The settings to try: the defaults, then random ones, the same for all contenders."""
    from abc_plugins.compare import CompareSettings

    random = np.random.default_rng([split, 7])
    found = [_own_defaults(rounds)]
    for _ in range(TRIALS - 1):
        s, g, w = SCHEDULES[random.integers(len(SCHEDULES))]
        found.append(
            CompareSettings(
                rounds=rounds,
                num_leaves=int(random.choice(LEAVES)),
                learning_rate=float(random.choice(RATES)),
                max_bins=None,
                leaf_clip=float(random.choice(CLIPS)),
                search=min(s, n_classes),
                gap=g,
                warmup=w,
            )
        )
    return found


@lru_cache
def _warm_up(key: str) -> None:
    """Import and compile what a contender needs, once a process, before its time is taken."""
    from abc_plugins.compare import fit_and_score, select

    (contender,) = select([key])
    X = np.random.default_rng(0).normal(size=(60, 3))
    fit_and_score(contender, _own_defaults(12), X, np.arange(60) % 3, X[:6], np.arange(6) % 3)


def _own_defaults(rounds: int) -> Any:
    from abc_plugins.compare import CompareSettings

    return CompareSettings(rounds=rounds, num_leaves=None, learning_rate=None, max_bins=None, leaf_clip=None)


def _hold_out(y: Any, split: int) -> tuple[Any, Any]:
    """Three quarters to fit on, which have every class, and a quarter to score on."""
    order = np.random.default_rng([split, 3]).permutation(y.size)
    _, first = np.unique(y[order], return_index=True)
    rest = np.setdiff1d(np.arange(y.size), first)
    n_held_out = min(y.size // 4, rest.size)
    held_out = rest[:n_held_out]
    return np.sort(order[np.setdiff1d(np.arange(y.size), held_out)]), np.sort(order[held_out])


def _scored(cell: dict[str, Any], settings: Any, rows: Any, n_rounds: int | None = None) -> dict[str, Any]:
    """Fit on all training rows, and score after `n_rounds` rounds or all."""
    from abc_plugins.compare import fit_and_score, select

    (contender,) = select([cell["contender"]])
    X, y, X_test, y_test = rows
    fit = fit_and_score(contender, settings, X, y, X_test, y_test)
    last = min(n_rounds or len(fit["errors"]), len(fit["errors"])) - 1
    return {
        **cell,
        "errors": fit["errors"][last],
        "log_loss": fit["log_loss"][last],
        "seconds": fit["seconds"][last] + fit["phases"]["finishing"],
        "used_rounds": last + 1,
        "n_train": len(y),
        "n_test": len(y_test),
        "n_classes": int(y.max()) + 1,
        "parameters": fit["parameters"],
        "versions": describe_machine()["versions"],
        "summary": f"{fit['errors'][last]} errors of {len(y_test)}, {sum(fit['phases'].values()):.2f} s",
    }


def report(kind: str, results: Sequence[dict[str, Any]]) -> None:
    """Print the tables of one kind."""
    title = "Defaults for all" if kind == "defaults" else f"The same tuning for all: {TRIALS} trials each"
    print(f"## {title}\n")
    print(", ".join(f"{package} {version}" for package, version in results[0]["versions"].items()), "\n")
    found = {(one["data"], one["split"], one["contender"]): one for one in results}
    names = [name for name in SETS if any(one["data"] == name for one in results)]
    rows = []
    for name in names:
        one = next(one for one in results if one["data"] == name)
        cells = [_cell(found, name, stock, abc) for stock, abc in PAIRS]
        rows.append([f"{name} (K={one['n_classes']})", f"{one['n_train']:,}", *cells])
    print_table(["data", "training rows", *(f"{TITLES[stock]}: stock → ABC" for stock, _ in PAIRS)], rows)
    print("\nTest error in %, mean of the splits; in brackets splits won and lost by ABC, then the difference and its")
    print("standard error.\n")
    header = ["engine", "data sets better-worse", "splits won-lost", "mean change of the error", "p over data sets",
              "log loss better-worse", "time, ABC / stock"]  # fmt: skip
    print_table(header, [_summary(found, names, *pair) for pair in PAIRS if any(_cell(found, n, *pair) for n in names)])
    print("\np: Wilcoxon's signed-rank test of the mean differences, one a data set. Time: geometric mean.\n")


def _both(found: dict[Any, Any], name: str, stock: str, abc: str, value: str) -> tuple[Any, Any]:
    """Values of stock and ABC on the splits that both have, arrays."""
    splits = [split for split in range(SPLITS) if {(name, split, stock), (name, split, abc)} <= found.keys()]
    return tuple(np.array([found[name, split, key][value] for split in splits]) for key in (stock, abc))  # type: ignore[return-value]


def _shares(found: dict[Any, Any], name: str, stock: str, abc: str) -> tuple[Any, Any]:
    plain, adaptive = _both(found, name, stock, abc, "errors")
    n_test = _both(found, name, stock, abc, "n_test")[0]
    return plain / n_test, adaptive / n_test


def _cell(found: dict[Any, Any], name: str, stock: str, abc: str) -> str:
    plain, adaptive = _shares(found, name, stock, abc)
    if not plain.size:
        return ""
    wins, losses = int((adaptive < plain).sum()), int((adaptive > plain).sum())
    difference = f"{100 * (adaptive.mean() - plain.mean()):+.2f}"
    if plain.size > 1:
        difference += f" ± {100 * np.std(adaptive - plain, ddof=1) / np.sqrt(plain.size):.2f}"
    return f"{100 * plain.mean():.2f} → {100 * adaptive.mean():.2f} ({wins}-{losses}), {difference}"


def _summary(found: dict[Any, Any], names: Sequence[str], stock: str, abc: str) -> list[str]:
    names = [name for name in names if _both(found, name, stock, abc, "errors")[0].size]
    shares = [_shares(found, name, stock, abc) for name in names]
    means = np.array([(plain.mean(), adaptive.mean()) for plain, adaptive in shares])
    losses = np.array([[v.mean() for v in _both(found, name, stock, abc, "log_loss")] for name in names])
    seconds = np.array([[v.mean() for v in _both(found, name, stock, abc, "seconds")] for name in names])
    differences = means[:, 1] - means[:, 0]
    change = np.exp(np.log(np.maximum(means[:, 1], 1e-6) / np.maximum(means[:, 0], 1e-6)).mean()) - 1
    p_value = float(stats.wilcoxon(differences).pvalue) if np.any(differences) else 1.0
    won = sum(int((adaptive < plain).sum()) for plain, adaptive in shares)
    lost = sum(int((adaptive > plain).sum()) for plain, adaptive in shares)
    return [
        TITLES[stock],
        f"{int((differences < 0).sum())}-{int((differences > 0).sum())}",
        f"{won}-{lost}",
        f"{change:+.1%}",
        f"{p_value:.3g}",
        f"{int((losses[:, 1] < losses[:, 0]).sum())}-{int((losses[:, 1] > losses[:, 0]).sum())}",
        f"{np.exp(np.log(seconds[:, 1] / seconds[:, 0]).mean()):.2f}",
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("defaults", "tuned", "report"))
    parser.add_argument("--data", nargs="+", choices=SETS, help="all by default, but for tuning two that are slow")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--engines", nargs="+", choices=TITLES.values(), default=list(TITLES.values()))
    parser.add_argument("--rounds", type=int, help="another number of rounds")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--results", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    paths = {kind: arguments.results / f"head_to_head_{kind}.jsonl" for kind in LIMITS}
    if arguments.what == "report":
        for kind, path in paths.items():
            if kept := read_results(path):
                report(kind, kept)
        return
    rounds = arguments.rounds or ROUNDS[arguments.what]
    left_out = NOT_TUNED if arguments.what == "tuned" else ()
    data = arguments.data or [name for name in SETS if name not in left_out]
    todo = cells(arguments.what, data, arguments.splits, rounds, arguments.engines)
    run_cell = run_defaults if arguments.what == "defaults" else run_tuned
    run_cells(todo, run_cell, paths[arguments.what], NAMES, arguments.jobs)


if __name__ == "__main__":
    main()
