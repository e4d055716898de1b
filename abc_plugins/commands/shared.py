"""Options and checks that several commands have in common."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abc_plugins.data.csvfiles import CsvFormat
    from abc_plugins.data.tablefiles import TableData


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a table file is to be read."""
    parser.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    group = parser.add_argument_group("CSV files (also .gz, .bz2 and .xz)")
    group.add_argument("--delimiter", metavar="CHARACTER", help="between cells (default: comma, or tab for .tsv)")
    group.add_argument("--decimal", default=".", metavar="CHARACTER", help="decimal point (default .)")
    group.add_argument(
        "--missing", nargs="+", default=[], metavar="CELL", help="cells that are missing values, besides NA, NaN, ..."
    )
    group.add_argument("--encoding", default="utf-8", metavar="NAME", help="of the text (default utf-8)")


def add_categories_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes columns categories besides those of text."""
    parser.add_argument(
        "--categorical-features",
        type=lambda names: names.split(","),
        default=[],
        metavar="COLUMN,...",
        help="columns that are categories though they look like numbers; columns of text are anyway",
    )


def csv_format(options: argparse.Namespace) -> CsvFormat:
    """The format of CSV files that the options say."""
    from abc_plugins.data.csvfiles import CsvFormat

    return CsvFormat(options.delimiter, options.encoding, tuple(options.missing), options.decimal)


def read(options: argparse.Namespace, path: str, **roles: Any) -> TableData:
    """Read a table file."""
    from abc_plugins.data.tablefiles import read_table

    return read_table(path, drop=options.drop, form=csv_format(options), **roles)


def warn_of_index(names: Sequence[str] | None, path: str) -> None:
    """Warn of a feature without a name, which mostly is a row index that was written to the file."""
    for name in names or ():
        if not name.strip() or name.startswith("Unnamed: "):
            shown = repr(name) if name.strip() else "without a name"
            warnings.warn(
                f"{path} has a column {shown}, which looks like a row index, and is taken for a feature. Leave it out "
                f"with --drop {name!r}.",
                stacklevel=2,
            )


def text_columns(names: Sequence[str], levels: Sequence[Any]) -> list[str]:
    """Columns whose levels are text; the same cells may look like numbers in another file."""
    found = zip(names, levels, strict=False)
    return [name for name, known in found if known is not None and any(isinstance(level, str) for level in known)]


def text_target(target: str, labels: Any) -> list[str]:
    """The target if its labels are text; the same cells may look like numbers in another file."""
    return [target] if labels.dtype.kind == "O" else []


def check_output(path: str, force: bool, *inputs: str | None) -> None:
    """Find out before the work whether its result can be written; never over one of the inputs."""
    if not path:
        raise ValueError("--out must be the name of a file; got an empty one.")
    target = Path(path)
    if any(one is not None and os.path.realpath(one) == os.path.realpath(path) for one in inputs):
        raise ValueError(f"--out must be another file than those that are read; got {path}.")
    if target.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it.")
    if target.exists() and not force:
        raise ValueError(f"{path} exists; use --force to replace it.")
    if not target.parent.is_dir():
        raise ValueError(f"the folder {target.parent} does not exist.")
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"the folder {target.parent} cannot be written to.")
