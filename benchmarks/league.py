"""Three leagues against the best peers there are, on real data; resumable.

    python benchmarks/league.py practice --out results/practice.jsonl      # everybody as people use it
    python benchmarks/league.py tuned --out results/tuned.jsonl            # the same tuning for all
    python benchmarks/league.py sizes --out results/sizes.jsonl            # cut sets: rows per class, number of classes
    python benchmarks/league.py report results/*.jsonl --into docs/head-to-head.md --draw docs/images/league.png

Needs the data folder named by ABC_PLUGINS_DATA. Fits are kept in the file, one a line, as they arrive; those that are
there are not done again.

*practice*: a stratified half of the rows to train on, at most 8,000, and the other half to test on, at most 20,000. A
stratified fifth of the training rows stops the training by log loss. Everything else is as `abc-plugins compare` has
it. `--earlier FILE` takes the peers' figures of a file instead of fitting them again; fits that a limit of rounds
stopped there are marked, and `--redo-limited` does these again with a higher one. `--check FILE` compares figures.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import cell_key, read_results, run_cells
from leagues import practice, report, sizes, tuned


def main() -> None:
    """Run the command line."""
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    for name, league in (("practice", practice), ("tuned", tuned), ("sizes", sizes)):
        command = commands.add_parser(name)
        command.add_argument("--out", type=Path, default=Path(f"results/{name}.jsonl"))
        command.add_argument("--contenders", nargs="+", default=list(league.CONTENDERS), metavar="NAME")
        command.add_argument("--jobs", type=int, default=1, help="processes")
        command.add_argument("--redo", action="store_true", help="drop the kept fits of these first")
        if name != "sizes":
            command.add_argument("--data", nargs="+", default=list(league.SETS), metavar="NAME")
        seeds = practice.SEEDS if name == "practice" else practice.SEEDS[:1]
        command.add_argument("--seeds", nargs="+", type=int, default=list(seeds))
        if name == "practice":
            command.add_argument("--earlier", type=Path, metavar="FILE", help="take the peers' figures of this file")
            command.add_argument("--redo-limited", action="store_true", help="redo what a limit of rounds stopped")
            command.add_argument("--check", type=Path, metavar="FILE", help="compare with the figures of this file")
        if name == "sizes":
            command.add_argument("--largest", type=int, metavar="ROWS", help="only cuts of at most so many rows")
        if name == "tuned":
            command.add_argument("--trials", type=int, default=10)
            command.add_argument("--limit", type=float, default=30.0, help="seconds of processor time of a search")
    command = commands.add_parser("report")
    command.add_argument("files", nargs="+", type=Path)
    command.add_argument("--draw", type=Path, metavar="FILE", help="draw the picture of the first league")
    command.add_argument(
        "--into", nargs="+", type=Path, default=[], metavar="PAGE", help="pages to put the tables into"
    )
    arguments = parser.parse_args()
    if arguments.what == "report":
        write_report(arguments)
        return
    {"practice": run_practice, "tuned": run_tuned, "sizes": run_sizes}[arguments.what](arguments)


def write_report(arguments: argparse.Namespace) -> None:
    """Print the tables, put them into pages, and draw."""
    rows = [row for path in arguments.files for row in read_results(path)]
    blocks = report.make_blocks(rows)
    print("\n\n".join(f"## {name}\n\n{text}" for name, text in blocks.items()))
    for page in arguments.into:
        report.put_into(page, blocks)
    if arguments.draw:
        report.draw_practice([row for row in rows if "trials" not in row and "classes" not in row], arguments.draw)


def run_practice(arguments: argparse.Namespace) -> None:
    """Run the first league, or check its figures."""
    path = arguments.out
    if arguments.check:
        print("\n".join(practice.check_earlier(read_results(path), practice.earlier_results(arguments.check))))
        return
    if arguments.earlier:
        kept = read_results(path)
        known = {cell_key(row, practice.NAMES) for row in kept}
        new = [row for row in practice.earlier_results(arguments.earlier) if cell_key(row, practice.NAMES) not in known]
        _write(path, [*kept, *new])
        print(f"{len(new)} figures taken from {arguments.earlier.name}")
    todo = list(practice.cells(arguments.data, arguments.seeds, arguments.contenders))
    if arguments.redo or arguments.redo_limited:
        _drop(path, todo, practice.NAMES, only_limited=not arguments.redo)
    run_cells(todo, practice.run_cell, path, practice.NAMES, arguments.jobs)


def run_tuned(arguments: argparse.Namespace) -> None:
    """Run the second league."""
    todo = list(tuned.cells(arguments.data, arguments.seeds, arguments.contenders, arguments.trials, arguments.limit))
    if arguments.redo:
        _drop(arguments.out, todo, tuned.NAMES)
    run_cells(todo, tuned.run_cell, arguments.out, tuned.NAMES, arguments.jobs)


def run_sizes(arguments: argparse.Namespace) -> None:
    """Run the third league."""
    todo = list(sizes.cells(arguments.seeds, arguments.contenders, arguments.largest))
    if arguments.redo:
        _drop(arguments.out, todo, sizes.NAMES)
    run_cells(todo, sizes.run_cell, arguments.out, sizes.NAMES, arguments.jobs)


def _drop(path: Path, todo: Sequence[dict[str, Any]], names: Sequence[str], *, only_limited: bool = False) -> None:
    """Leave out kept fits that are to be done again."""
    again = {cell_key(cell, names) for cell in todo}
    kept = read_results(path)
    _write(
        path,
        [row for row in kept if cell_key(row, names) not in again or (only_limited and not row.get("at_limit"))],
    )


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    fresh.replace(path)


if __name__ == "__main__":
    main()
