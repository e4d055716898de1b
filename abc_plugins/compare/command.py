"""The command `abc-plugins compare`: fits, tables, files."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from abc_plugins.commands.shared import add_categories_option, add_table_options
from abc_plugins.compare.budgets import command as budgets
from abc_plugins.compare.practice import command as practice
from abc_plugins.compare.practice.plan import ROUNDS
from abc_plugins.compare.reading import find_dataset
from abc_plugins.compare.running import Progress
from abc_plugins.compare.text_tables import write_csv
from abc_plugins.compare.view import View
from abc_plugins.core.runtime.atomic import replace_file
from abc_plugins.data.datasets import names
from abc_plugins.training.progress import make_display


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    known = f"CSV or Parquet file, or one of {', '.join(names())} (default digits)"
    parser.add_argument("data", nargs="?", default="digits", help=known)
    parser.add_argument("--target", help="column of the labels, if the data are a file")
    parser.add_argument(
        "--engines",
        nargs="+",
        metavar="NAME",
        help=f"some of {', '.join(practice.keys())} (with a budget: {', '.join(budgets.keys())}); all that are "
        "installed by default",
    )
    parser.add_argument(
        "--splits",
        type=int,
        default=5,
        metavar="N",
        help="random splits (default 5); 1 is the split of the literature where the data set has one",
    )
    parser.add_argument("--test-size", type=float, metavar="SHARE", help="of random splits (default 0.5)")
    parser.add_argument("--seed", type=int, default=0, help="of the first split (default 0)")
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="M",
        help=f"limit of the rounds (default {ROUNDS}); with a budget, all of them (default {budgets.ROUNDS})",
    )
    parser.add_argument("--n-jobs", type=int, default=1, metavar="N", help="threads (default 1)")
    parser.add_argument(
        "--out", metavar="DIR", help="folder for results (default compare-DATA); fits there are not redone"
    )
    parser.add_argument("--force", action="store_true", help="redo the fits that the folder has")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_categories_option(parser)
    add_table_options(parser)
    practice.add_options(parser)
    budgets.add_options(parser)


def run_command(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Compare, print the tables and write the files.

    Parameters
    ----------
    options : argparse.Namespace
    arguments : sequence of str
        The command line, for the page to tell.
    """
    view = practice.VIEW if options.budget is None else budgets.VIEW
    view.check_options(options)
    dataset = find_dataset(options)
    plan = view.make_plan(options, dataset)
    folder = Path(options.out or f"compare-{Path(dataset.name).stem}")
    _check_folder(folder)
    with _shown(quiet=options.quiet) as progress:
        runs = view.run(plan, folder, fresh=options.force, progress=progress)
    command = " ".join(map(shlex.quote, ["abc-plugins", *arguments]))
    results = {"command": command, **view.make_results(options, plan, runs)}
    _write_figures(results, folder, view)
    can_draw = find_spec("matplotlib") is not None
    pictures = view.draw_all(plan, runs, results, folder) if can_draw else []
    with replace_file(folder / "index.html", "w", encoding="utf-8") as file:
        file.write(view.render_page(results, pictures))
    print(view.as_text(results))
    what = "Results, pictures and a page" if can_draw else "Results and a page without pictures (matplotlib is missing)"
    print(f"\n{what}: {folder / 'index.html'}")


def _write_figures(results: dict[str, Any], folder: Path, view: View) -> None:
    """Write results.json and results.csv."""
    with replace_file(folder / "results.json", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=2, allow_nan=False)
    write_csv(folder / "results.csv", results["points"], view.point_columns)


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
