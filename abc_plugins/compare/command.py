"""The command `abc-plugins compare`: fits, tables, files."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.compare.contenders import Contender, contenders, select
from abc_plugins.compare.report import as_text, write_csv
from abc_plugins.compare.running import Plan, Progress, run
from abc_plugins.compare.settings import CompareSettings
from abc_plugins.compare.standings import BUDGETS, summarise
from abc_plugins.core.runtime.atomic import replace_file
from abc_plugins.data.datasets import Dataset, load, names
from abc_plugins.data.tablefiles import read_table
from abc_plugins.training.progress import make_display

_FORMAT = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    defaults = CompareSettings()
    keys = [contender.key for contender in contenders()]
    known = f"CSV or Parquet file, or one of {', '.join(names())} (default digits)"
    parser.add_argument("data", nargs="?", default="digits", help=known)
    parser.add_argument("--target", help="column of the labels, if the data are a file")
    parser.add_argument(
        "--engines",
        nargs="+",
        metavar="NAME",
        help=f"some of {', '.join(keys)}; all that are installed by default",
    )
    parser.add_argument("--rounds", type=int, default=defaults.rounds, metavar="M", help="rounds (default %(default)s)")
    parser.add_argument(
        "--leaves", type=int, default=defaults.num_leaves, metavar="J", help="leaves of a tree (default %(default)s)"
    )
    parser.add_argument(
        "--learning-rate",
        type=float,
        default=defaults.learning_rate,
        metavar="NU",
        help="shrinkage (default %(default)s)",
    )
    parser.add_argument(
        "--bins", type=int, default=defaults.max_bins, metavar="N", help="bins of a feature (default %(default)s)"
    )
    parser.add_argument(
        "--clip",
        type=float,
        default=defaults.leaf_clip,
        metavar="V",
        help="largest leaf value before shrinkage (default %(default)s)",
    )
    parser.add_argument("--search", type=_search, metavar="S", help="base classes to try, or 'all'")
    parser.add_argument("--gap", type=int, metavar="G", help="rounds that keep the base after a search")
    parser.add_argument("--warmup", type=int, metavar="W", help="classic rounds at the start")
    parser.add_argument(
        "--splits",
        type=int,
        default=5,
        metavar="N",
        help="random splits (default 5); 1 is the split of the literature where the data set has one",
    )
    parser.add_argument("--test-size", type=float, metavar="SHARE", help="of random splits")
    parser.add_argument("--seed", type=int, default=0, help="of the first split (default 0)")
    parser.add_argument(
        "--budget",
        choices=BUDGETS,
        default=BUDGETS[0],
        help="what the table holds equal; the fits serve all three (default %(default)s)",
    )
    parser.add_argument(
        "--n-jobs", type=int, default=defaults.n_jobs, metavar="N", help="threads (default %(default)s)"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="folder for results (default compare-DATA); fits there are not redone"
    )
    parser.add_argument("--force", action="store_true", help="redo the fits that the folder has")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    parser.add_argument("--delimiter", help="of CSV files (default: comma, or tab for .tsv)")
    parser.add_argument("--encoding", default="utf-8", help="of CSV files (default utf-8)")


def run_command(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Compare, print the tables and write the files.

    Parameters
    ----------
    options : argparse.Namespace
    arguments : sequence of str
        The command line, for the page to tell.
    """
    settings = CompareSettings(
        rounds=options.rounds,
        num_leaves=options.leaves,
        learning_rate=options.learning_rate,
        max_bins=options.bins,
        leaf_clip=options.clip,
        search=options.search,
        gap=options.gap,
        warmup=options.warmup,
        n_jobs=options.n_jobs,
    )
    chosen = select(options.engines)
    dataset = find_dataset(options)
    _check_data(dataset, settings)
    plan = Plan(dataset, settings, chosen, splits=options.splits, test_size=options.test_size, seed=options.seed)
    folder = Path(options.out or f"compare-{Path(dataset.name).stem}")
    _check_folder(folder)
    with _shown(quiet=options.quiet) as progress:
        runs = run(plan, folder, fresh=options.force, progress=progress)
    missing = [] if options.engines else [contender for contender in contenders() if not contender.is_installed]
    results = make_results(plan, runs, options.budget, " ".join(map(shlex.quote, ["abc-plugins", *arguments])), missing)
    write_files(results, runs, chosen, folder)
    print(as_text(results))
    print(f"\nResults, pictures and {'a page' if find_spec('matplotlib') else 'a page without pictures'}: {folder}")


def find_dataset(options: argparse.Namespace) -> Dataset:
    """Find a data set by name, or read it from a file."""
    if options.data in names() or not Path(options.data).exists():
        return load(options.data, download=True)
    if options.target is None:
        raise ValueError(f"--target must name the column of the labels of {options.data}.")
    data = read_table(
        options.data,
        target=options.target,
        drop=options.drop,
        delimiter=options.delimiter,
        encoding=options.encoding,
    )
    if data.labels is None or data.features.names is None:
        raise ValueError(f"{options.data} has no column names.")
    return Dataset(Path(options.data).name, data.features.array, data.labels, data.features.names)


def make_results(
    plan: Plan, runs: Sequence[dict[str, Any]], budget: str, command: str, missing: Sequence[Contender] = ()
) -> dict[str, Any]:
    """Return all that results.json holds: the tables, and what they were measured on."""
    subject = plan.subject()
    dataset, first = plan.dataset, runs[0]
    return {
        "format": _FORMAT,
        "command": command,
        "budget": budget,
        "data": {
            "name": dataset.name,
            "note": dataset.note,
            "sha256": subject["data"]["sha256"],
            "n_train": first["n_train"],
            "n_test": first["n_test"],
            "n_features": dataset.X.shape[1],
            "n_classes": len(first["classes"]),
            "splits": plan.splits,
            "own_split": plan.own_split,
            "seed": plan.seed,
            "seeds": sorted({run["seed"] for run in runs if run["seed"] is not None}),
        },
        "settings": asdict(plan.settings),
        "machine": subject["machine"],
        "contenders": [
            {
                "key": contender.key,
                "title": contender.title,
                "differences": list(contender.differences),
                "parameters": next(run for run in runs if run["contender"] == contender.key)["parameters"],
            }
            for contender in plan.contenders
        ],
        "not_installed": [f"{contender.title}: pip install {contender.extra}" for contender in missing],
        **summarise(runs, plan.contenders, budget),
    }


def write_files(
    results: dict[str, Any], runs: Sequence[dict[str, Any]], chosen: Sequence[Contender], folder: Path
) -> None:
    """Write results.json, results.csv, the pictures (with matplotlib) and the page."""
    from abc_plugins.compare.page import render_page

    with replace_file(folder / "results.json", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=2, allow_nan=False)
    write_csv(folder / "results.csv", results["points"])
    pictures: list[tuple[str, str, str]] = []
    if find_spec("matplotlib") is not None:
        from abc_plugins.compare.pictures import draw_all

        pictures = draw_all(runs, chosen, folder)
    with replace_file(folder / "index.html", "w", encoding="utf-8") as file:
        file.write(render_page(results, pictures, folder))


def _search(text: str) -> int | str:
    return text if text == "all" else int(text)


def _check_data(dataset: Dataset, settings: CompareSettings) -> None:
    classes = np.unique(dataset.y)
    if classes.size < 2:
        raise ValueError(f"{dataset.name} must have at least two classes; got {classes.size}.")
    if isinstance(settings.search, int) and settings.search > classes.size:
        raise ValueError(f"--search must be at most the number of classes ({classes.size}); got {settings.search}.")


def _check_folder(folder: Path) -> None:
    """Find out before the work whether its results can be written."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a folder with --out.")
    above = folder if folder.exists() else folder.parent
    if not above.is_dir():
        raise ValueError(f"the folder {above} does not exist.")
    if not os.access(above, os.W_OK):
        raise ValueError(f"the folder {above} cannot be written to; name another with --out.")


@contextmanager
def _shown(*, quiet: bool) -> Iterator[Progress]:
    """Show progress on standard error."""
    display: Any = None

    def progress(done: int, total: int, text: str, seconds_left: float) -> None:
        nonlocal display
        if display is None:
            display = make_display(total, sys.stderr, "fit")
        display.update(done, text, seconds_left)

    try:
        yield (lambda *_: None) if quiet else progress
    finally:
        if display is not None:
            display.close()
