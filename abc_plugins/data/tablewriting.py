"""Write tables as CSV or Parquet files, whole or some rows at a time."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.runtime.atomic import replace_file

PARQUET_SUFFIXES = (".parquet", ".pq")


def require_pyarrow(path: Path) -> None:
    """Refuse Parquet files without pyarrow."""
    if find_spec("pyarrow") is None:
        raise ModuleNotFoundError(
            f"Parquet files such as {path} need pyarrow, which is not installed: pip install 'abc-plugins[tables]'"
        )


def write_table(path: str | os.PathLike[str], columns: Mapping[str, AnyArray]) -> None:
    """Write columns to a file, see `open_writer`."""
    with open_writer(path) as write:
        write(columns)


@contextmanager
def open_writer(path: str | os.PathLike[str] | None) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Open a Parquet file if the path ends with .parquet or .pq, else a CSV file, which .gz compresses.

    None is CSV to the standard output.

    Yields
    ------
    write : function
        Writes columns, some rows at a time; the names are those of the first ones. The file is there once all is done.
    """
    if path is None:
        yield _CsvRows(csv.writer(sys.stdout, lineterminator="\n")).write
        return
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in (".bz2", ".xz", ".zst"):
        raise ValueError(f"{path}: CSV files are compressed as .gz only.")
    with ExitStack() as stack:
        if suffix in PARQUET_SUFFIXES:
            require_pyarrow(path)
            yield _ParquetRows(stack, stack.enter_context(replace_file(path))).write
            return
        if suffix == ".gz":
            raw = stack.enter_context(gzip.open(stack.enter_context(replace_file(path)), "wb"))
            file: Any = stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        else:
            file = stack.enter_context(replace_file(path, "w", encoding="utf-8", newline=""))
        yield _CsvRows(csv.writer(file)).write


class _CsvRows:
    def __init__(self, writer: Any) -> None:
        self.writer, self.has_names = writer, False

    def write(self, columns: Mapping[str, Any]) -> None:
        if not self.has_names:
            self.writer.writerow(columns)
            self.has_names = True
        self.writer.writerows(zip(*map(_plain_list, columns.values()), strict=True))


class _ParquetRows:
    def __init__(self, stack: ExitStack, file: Any) -> None:
        self.stack, self.file = stack, file
        self.writer: Any = None

    def write(self, columns: Mapping[str, Any]) -> None:
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.table({name: _plain_list(column) for name, column in columns.items()})
        if self.writer is None:
            self.writer = self.stack.enter_context(parquet.ParquetWriter(self.file, table.schema))
        self.writer.write_table(table.cast(self.writer.schema))


def _plain_list(column: Any) -> list[Any]:
    return column if isinstance(column, list) else list(column.tolist())
