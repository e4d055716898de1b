"""How safe are cheap choices of the base class? Two grids of fits, resumable.

    python benchmarks/robustness.py letter --jobs 2        # one data set, every s, g, w, clip and leaf values
    python benchmarks/robustness.py sets --jobs 2          # many data sets and splits, few settings, paired tests
    python benchmarks/robustness.py sets --only robustlogit default exhaustive --splits 5      # some of them
    python benchmarks/robustness.py stopped --jobs 2       # the default and robustlogit, stopped early
    python benchmarks/robustness.py late --jobs 2          # what hundreds of rounds too many do
    python benchmarks/robustness.py report                 # tables, and pictures into docs/images

Results are kept in results/robustness_*.jsonl, one line a fit; what is there is not run again, so that another version
of the package needs another folder. Every fit has 20 leaves,
shrinkage 0.1 and, unless it says so, 200 rounds and the guard. Those that stop early keep a fifth of the training
samples to stop by their error, after 100 rounds without gain and at the latest after 1000. "Late" has 30 leaves.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from common import describe_machine, print_table

ROUNDS = 200
METHODS = ("abcmart", "abcrobustlogit")
RESULTS = Path("results")
SETS = (
    "letter", "pendigits", "optdigits", "satimage", "texture", "vowel", "wine_quality", "splice", "krkopt",
    "flavia_leaves", "soybean", "nursery", "shuttle", "gas_drift", "digits", "leaf99",
)  # fmt: skip
SPLITS = 10
NO_EXHAUSTIVE = ("leaf99",)  # 4,851 trees per round
SEQUENTIAL = {"leaf_values": "sequential"}
CHEAP = {"search": 1, "gap": 0, "warmup": 0}
WORST = {"base_choice": "worst"}
SMALL_TREES = {"pair_samples_per_leaf": 4.0}  # for two classes with few samples: in exhaustive search as in the default
DEFAULT = {"base_choice": "drawn", **SMALL_TREES}  # in full: results of another default are not taken for it
CONTENDERS: dict[str, dict[str, Any]] = {
    "robustlogit": {"method": "robustlogit", "leaf_values": "paper"},
    "robustlogit, sequential": {"method": "robustlogit", **SEQUENTIAL},
    "paper s=2 g=10 w=10": {
        "leaf_values": "paper",
        "search": 2,
        "gap": 10,
        "warmup": 10,
        "pair_samples_per_leaf": 0.0,
        **WORST,
    },
    "exhaustive": {"leaf_values": "paper", "search": "all", "gap": 0, "warmup": 0, **SMALL_TREES, **WORST},
    "default": DEFAULT,
    "worst": {**SEQUENTIAL, **CHEAP, **WORST},
    "worst, w=10": {**SEQUENTIAL, **CHEAP, **WORST, "warmup": 10},
    "worst, s=2 g=10 w=10": {**SEQUENTIAL, "search": 2, "gap": 10, "warmup": 10, **WORST},
    "worst, clip 4": {**SEQUENTIAL, **CHEAP, **WORST, "leaf_clip": 4.0},
    "worst, reg_lambda 1": {**SEQUENTIAL, **CHEAP, **WORST, "reg_lambda": 1.0},
    "worst, min_child_weight 0.1": {**SEQUENTIAL, **CHEAP, **WORST, "min_child_weight": 0.1},
}


LATE_SETS, LATE_ROUNDS, LATE_LEAVES = ("letter", "pendigits", "optdigits", "texture", "vowel", "splice"), 1000, 30
STOPPED_ROUNDS = 1000
STOPPED = {"early_stopping_rounds": 100, "eval_metric": "error"}
STOPPED_CONTENDERS: dict[str, dict[str, Any]] = {
    "robustlogit": {"method": "robustlogit", "leaf_values": "paper", **STOPPED},
    "default": {**DEFAULT, **STOPPED},
    "worst": {**WORST, **STOPPED},
}


@lru_cache(maxsize=2)
def split_data(name: str, split: int) -> tuple[Any, Any, Any, Any]:
    """One half of the samples to train on, the other to test on; split 0 of letter and covtype is the usual one."""
    from abc_plugins.data.datasets import load

    data = load("letter10k" if name == "letter" else name)
    if name == "covtype" and split == 0:
        train, test = data.split()
        return data.X[train], data.y[train], data.X[test], data.y[test]
    rows = np.random.default_rng(split).permutation(data.y.size)
    if name == "letter" and split == 0:
        rows = np.arange(data.y.size)
    half = data.y.size // 2
    train, test = np.sort(rows[:half]), np.sort(rows[half:])
    return data.X[train], data.y[train], data.X[test], data.y[test]


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Fit one cell and count its test errors."""
    from abc_plugins import ABCBoostClassifier

    X, y, X_test, y_test = split_data(cell["data"], cell["split"])
    model = ABCBoostClassifier(n_estimators=cell["rounds"], n_jobs=1, **{"method": "abcrobustlogit", **cell["params"]})
    held_out = np.arange(y.size) % 5 == 4 if "early_stopping_rounds" in cell["params"] else np.zeros(y.size, dtype=bool)
    started = time.perf_counter()
    model.fit(X[~held_out], y[~held_out], eval_set=[(X[held_out], y[held_out])] if held_out.any() else None)
    seconds = time.perf_counter() - started
    errors = [int(np.sum(labels != y_test)) for labels in model.staged_predict(X_test)]
    loss = model.train_loss_
    return {
        **cell,
        "errors": int(np.sum(model.predict(X_test) != y_test)),  # at the best round of one that stopped early
        "errors_at_200": errors[min(ROUNDS, len(errors)) - 1],
        "best": min(errors),
        "worst_after_20": max(errors[20:], default=errors[-1]),
        "n_test": len(y_test),
        "n_classes": int(model.n_classes_),
        "train_loss": float(loss[-1]),
        "largest_rise": float(np.max(np.diff(loss), initial=0.0)),
        "guarded": int(model.guarded_rounds_),
        "trees": int(model.trees_grown_),
        "seconds": seconds,
    }


def letter_cells() -> Iterable[dict[str, Any]]:
    """The grid on letter: exhaustive search first, then failures without any cure, then everything cheaper.

    The base is one of the s worst classes, as in the paper; a few cells in the end draw it as the default does.
    """
    for method, leaf_values in itertools.product(METHODS, ("paper", "sequential")):
        yield _cell(method=method, leaf_values=leaf_values, search="all", gap=0, warmup=0, **WORST)
    for method, s, g in itertools.product(METHODS, (1, 2), (0, 5, 10)):
        bare = {"search": s, "gap": g, "warmup": 0, "leaf_clip": None, "guard": False, **WORST}
        yield _cell(method=method, leaf_values="paper", **bare)  # the paper's failure
        yield _cell(method=method, leaf_values="sequential", **bare)
    grid = itertools.product(
        ("sequential", "paper"), METHODS, (1, 2, 3), (0, 5, 10, 20, 100), (0, 10, 100), (50.0, None, 4.0)
    )
    for leaf_values, method, s, g, w, clip in grid:
        yield _cell(method=method, leaf_values=leaf_values, search=s, gap=g, warmup=w, leaf_clip=clip, **WORST)
    for leaf_values, method, g, w in itertools.product(("sequential", "paper"), METHODS, (10, 20, 100), (0, 10)):
        yield _cell(method=method, leaf_values=leaf_values, search="all", gap=g, warmup=w, leaf_clip=50.0, **WORST)
    for method, s, g, w in itertools.product(METHODS, (1, 2, 3), (0, 5, 10, 20, 100), (0, 10)):
        drawn = {"search": s, "gap": g, "warmup": w, "leaf_clip": 50.0, "base_choice": "drawn"}
        yield _cell(method=method, **SEQUENTIAL, **drawn)


def set_cells(labels: Sequence[str], n_splits: int) -> Iterable[dict[str, Any]]:
    """Contenders on many data sets."""
    for name, split, label in itertools.product(SETS, range(n_splits), labels):
        params = CONTENDERS[label]
        if label != "exhaustive" or name not in NO_EXHAUSTIVE:
            yield {**_cell(**params), "data": name, "split": split, "label": label}


def stopped_cells(labels: Sequence[str], n_splits: int) -> Iterable[dict[str, Any]]:
    """The default, other choices of the base, and robustlogit, all stopped early."""
    labels = [label for label in labels if label in STOPPED_CONTENDERS]
    for name, split, label in itertools.product(SETS, range(n_splits), labels):
        params = STOPPED_CONTENDERS[label]
        yield {**_cell(**params), "data": name, "split": split, "rounds": STOPPED_ROUNDS, "label": label}


def late_cells() -> Iterable[dict[str, Any]]:
    """Many more rounds than the training data can use."""
    for name, split in itertools.product(LATE_SETS, range(2)):
        yield {**_cell(num_leaves=LATE_LEAVES, **DEFAULT), "data": name, "split": split, "rounds": LATE_ROUNDS}


def _cell(**params: Any) -> dict[str, Any]:
    return {"data": "letter", "split": 0, "rounds": ROUNDS, "params": params}


def run(
    cells: Iterable[dict[str, Any]], path: Path, jobs: int, work: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Run the cells that the file does not have yet."""
    done = {_key(result) for result in read(path)}
    todo = [cell for cell in cells if _key(cell) not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file, ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, cell) for cell in todo]
        for count, future in enumerate(as_completed(futures), start=1):
            result = future.result()
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(
                f"{count}/{len(todo)} {_key(result)}: {result['errors']} errors, {result['seconds']:.1f} s", flush=True
            )


def _key(cell: dict[str, Any]) -> str:
    return json.dumps([cell["data"], cell["split"], cell["rounds"], cell["params"]], sort_keys=True)


def read(path: Path) -> list[dict[str, Any]]:
    """Results so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report_letter(results: Sequence[dict[str, Any]]) -> None:
    """Worst cell for each cure, against exhaustive search of the same method."""
    exhaustive = {
        one["params"]["method"]: one["errors"]
        for one in results
        if (one["params"]["search"], one["params"]["gap"], one["params"]["leaf_values"]) == ("all", 0, "paper")
    }
    print(f"Exhaustive search: {exhaustive}\n")
    rows = []
    grid = [one for one in results if _is_in_grid(one)]
    groups = itertools.product(
        METHODS, ("paper", "sequential"), ("worst", "drawn"), ("50", "None", "4"), ("g <= 20", "g = 100")
    )
    for method, leaf_values, base_choice, clip, gaps in groups:
        cells = [
            one for one in grid
            if one["params"]["method"] == method and one["params"]["leaf_values"] == leaf_values
            and one["params"]["base_choice"] == base_choice
            and _clip(one) == clip and (one["params"]["gap"] <= 20) == (gaps == "g <= 20")
        ]  # fmt: skip
        if cells:
            worst = max(cells, key=lambda one: one["errors"])
            rows.append([
                method, leaf_values, base_choice, clip, gaps, str(len(cells)),
                str(int(np.median([one["errors"] for one in cells]))),
                f"{worst['errors']} ({worst['errors'] / exhaustive[method]:.2f})",
                "s={search} g={gap} w={warmup}".format(**worst["params"]),
                f"{max(one['largest_rise'] for one in cells):.2g}", str(sum(one["guarded"] for one in cells)),
            ])  # fmt: skip
    header = ["method", "leaf values", "base", "clip", "gap", "cells", "median errors", "worst (/ exhaustive)",
              "worst at", "largest rise", "guarded rounds"]  # fmt: skip
    print_table(header, rows)
    print("\nWithout guard and clip:\n")
    bare = [one for one in results if not one["params"].get("guard", True)]
    print_table(
        ["method", "leaf values", "s", "g", "errors", "worst after round 20"],
        [[one["params"]["method"], one["params"]["leaf_values"], str(one["params"]["search"]),
          str(one["params"]["gap"]), str(one["errors"]), str(one["worst_after_20"])] for one in bare],
    )  # fmt: skip


def _is_in_grid(result: dict[str, Any]) -> bool:
    """Whether it is a cheap choice with the guard."""
    return result["params"]["search"] != "all" and result["params"].get("guard", True)


def _clip(result: dict[str, Any]) -> str:
    clip = result["params"].get("leaf_clip", 50.0)
    return "None" if clip is None else f"{clip:g}"


def report_sets(results: Sequence[dict[str, Any]]) -> None:
    """Mean errors of every contender, and each against robustlogit and exhaustive search, paired by split."""
    labels = list(CONTENDERS)
    errors = {(one["data"], one["label"], one["split"]): one["errors"] for one in results}
    rows = []
    for name in SETS:
        one = next((result for result in results if result["data"] == name), None)
        if one is None:
            continue
        means = [_mean([errors.get((name, label, split)) for split in range(SPLITS)]) for label in labels]
        rows.append([f"{name} (K={one['n_classes']})", str(one["n_test"]), *means])
    print("Mean test errors:\n")
    print_table(["data", "test rows", *labels], rows)
    for reference in ("robustlogit", "exhaustive"):
        print(f"\nAgainst {reference}: mean difference of errors (standard error), wins - losses over splits\n")
        table = []
        for name in SETS:
            cells = [_paired(errors, name, label, reference) for label in labels if label != reference]
            if any(cells):
                table.append([name, *cells])
        print_table(["data", *(label for label in labels if label != reference)], table)


def report_verdicts(results: Sequence[dict[str, Any]]) -> None:
    """For every contender: on how many data sets its mean error is below, within a standard error, or above."""
    errors = {(one["data"], one["label"], one["split"]): one["errors"] for one in results}
    for reference in ("robustlogit", "exhaustive"):
        rows = []
        for label in CONTENDERS:
            if label == reference:
                continue
            known = {name: pairs for name in SETS if (pairs := _differences(errors, name, label, reference))}
            means = {name: np.mean(pairs) for name, pairs in known.items()}
            spread = {name: np.std(pairs, ddof=1) / np.sqrt(len(pairs)) for name, pairs in known.items()}
            worse = [name for name in known if means[name] > spread[name]]
            rows.append([
                label, str(len(known)), str(sum(mean < 0 for mean in means.values())),
                str(len(known) - len(worse)), ", ".join(worse) or "none",
            ])  # fmt: skip
        print(f"\nAgainst {reference}:\n")
        header = ["setting", "data sets", "mean below", "below or within one standard error", "worse by more"]
        print_table(header, rows)


def report_stopped(results: Sequence[dict[str, Any]]) -> None:
    """The default and other choices of the base against robustlogit, all stopped early."""
    errors = {(one["data"], one["label"], one["split"]): one["errors"] for one in results}
    others = [label for label in STOPPED_CONTENDERS if label != "robustlogit"]
    rows = []
    for name in SETS:
        means = [_mean([errors.get((name, label, split)) for split in range(SPLITS)]) for label in STOPPED_CONTENDERS]
        if any(means):
            rows.append([name, *means, *(_paired(errors, name, label, "robustlogit") for label in others)])
    print("\nStopped early: mean test errors, and their difference (standard error), wins - losses over splits\n")
    print_table(["data", *STOPPED_CONTENDERS, *(f"{label} - robustlogit" for label in others)], rows)


def report_late(results: Sequence[dict[str, Any]]) -> None:
    """Errors in the middle and in the end."""
    print("\nTrained on:\n")
    rows = [
        [one["data"], str(one["split"]), *(str(one[name]) for name in ("errors_at_200", "best", "errors")),
         f"{one['train_loss']:.1g}", str(one["trees"] // (one["n_classes"] - 1)), str(one["guarded"])]
        for one in results
    ]  # fmt: skip
    header = ["data", "split", f"errors after {ROUNDS} rounds", "fewest", f"after {LATE_ROUNDS}", "training loss",
              "rounds with trees", "guarded rounds"]  # fmt: skip
    print_table(header, rows)


def _differences(errors: dict[Any, int], name: str, label: str, reference: str) -> list[int]:
    """Differences of errors over the splits that both have."""
    return [
        errors[name, label, split] - errors[name, reference, split]
        for split in range(SPLITS)
        if (name, label, split) in errors and (name, reference, split) in errors
    ]


def _mean(values: Sequence[int | None]) -> str:
    there = [value for value in values if value is not None]
    return f"{np.mean(there):.1f}" if there else ""


def _paired(errors: dict[Any, int], name: str, label: str, reference: str) -> str:
    pairs = _differences(errors, name, label, reference)
    if not pairs:
        return ""
    error = np.std(pairs, ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else float("nan")
    wins, losses = sum(pair < 0 for pair in pairs), sum(pair > 0 for pair in pairs)
    return f"{np.mean(pairs):+.1f} ({error:.1f}) {wins}-{losses}"


def draw_letter(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Test errors of all cells: a strip for each method, leaf values and clip."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    strips = list(itertools.product(METHODS, ("paper", "sequential"), ("None", "50", "4")))
    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    markers = {0: ("o", "#0072B2"), 10: ("s", "#E69F00"), 100: ("^", "#009E73")}
    random = np.random.default_rng(0)
    for position, (method, leaf_values, clip) in enumerate(strips):
        for warmup, (marker, colour) in markers.items():
            cells = [
                one["errors"] for one in results
                if one["params"]["method"] == method and one["params"]["leaf_values"] == leaf_values
                and _clip(one) == clip and one["params"]["warmup"] == warmup and _is_in_grid(one)
                and one["params"]["base_choice"] == "worst"
            ]  # fmt: skip
            where = position + random.uniform(-0.3, 0.3, len(cells))
            label = f"w={warmup}" if position == 0 else None
            axes.scatter(where, cells, marker=marker, s=14, color=colour, alpha=0.8, label=label)
    axes.set_yscale("log")
    axes.set_xticks(
        range(len(strips)),
        [f"{m.replace('robust', 'robust-' + chr(10))}\n{v}\nclip {c}" for m, v, c in strips],
        fontsize=7,
    )
    axes.set(
        ylabel="test errors of 10,000 after 200 rounds", title="Letter: every s in {1, 2, 3}, g in {0, 5, 10, 20, 100}"
    )
    axes.grid(axis="y", alpha=0.3, which="both")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("letter", "sets", "stopped", "late", "report"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS), help="settings to run")
    parser.add_argument("--splits", type=int, default=SPLITS, help="of each set")
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    arguments = parser.parse_args()
    letter, sets, stopped, late = (
        RESULTS / f"robustness_{name}.jsonl" for name in ("letter", "sets", "stopped", "late")
    )
    if arguments.what == "letter":
        run(letter_cells(), letter, arguments.jobs, run_cell)
    elif arguments.what == "sets":
        run(set_cells(arguments.only, arguments.splits), sets, arguments.jobs, run_cell)
    elif arguments.what == "stopped":
        run(stopped_cells(arguments.only, arguments.splits), stopped, arguments.jobs, run_cell)
    elif arguments.what == "late":
        run(late_cells(), late, arguments.jobs, run_cell)
    else:
        print(json.dumps(describe_machine()), "\n")
        if read(letter):
            report_letter(read(letter))
            if any(_is_in_grid(one) for one in read(letter)):
                draw_letter(read(letter), arguments.images / "robustness_letter.png")
        if read(sets):
            print()
            report_sets(read(sets))
            report_verdicts(read(sets))
        if read(stopped):
            report_stopped(read(stopped))
        if read(late):
            report_late(read(late))


if __name__ == "__main__":
    main()
