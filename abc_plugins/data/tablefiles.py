"""Read and write tables as CSV or Parquet files.

CSV files are read by pyarrow if it is installed, else by the standard library, with the same rules for what is a
number, a truth value or missing. Parquet needs pyarrow.
"""

from __future__ import annotations

import csv
import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.runtime.atomic import replace_file
from abc_plugins.data.columns import levels_of_values, refuse_column
from abc_plugins.data.tables import Features, read_features

MISSING = ("", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null")
"""Cells of a CSV file that are missing values, except in a column of labels that are text."""

_TRUTH_VALUES = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
_PARQUET_SUFFIXES = (".parquet", ".pq")


@dataclass(frozen=True)
class TableData:
    """What a file of training or test data has.

    Attributes
    ----------
    features : Features
    labels : array of shape (n_samples,) or None
    weights : array of shape (n_samples,) or None
    """

    features: Features
    labels: AnyArray | None
    weights: AnyArray | None


def read_table(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str = "utf-8",
    categorical: Any = None,
    text: Sequence[str] = (),
    dates_as_text: bool = False,
) -> TableData:
    """Read features, labels and weights from a CSV or Parquet file.

    Parameters
    ----------
    path : path
        Parquet if it ends with .parquet or .pq, else CSV with a line of column names.
    target, weight : str, optional
        Columns of the labels and of the sample weights.
    columns : sequence of str, optional
        The columns to take as features, in this order; by default all others.
    drop : sequence of str, default=()
        Columns to leave out.
    delimiter : str, optional
        Of a CSV file; a comma by default, a tab for .tsv files.
    encoding : str, default="utf-8"
        Of a CSV file.
    categorical : "from_dtype", list of str or None
        Columns to read as categories: those of text, those in the list, or none.
    text : sequence of str, default=()
        Columns of a CSV file that are text whatever they look like, as far as there are such.
    dates_as_text : bool, default=False
        Take columns of dates and times as text; otherwise pyarrow's are refused.
    """
    path = Path(path)
    reader = _open(path, delimiter, encoding, text)
    if dates_as_text:
        reader.make_dates_text()
    for role, name in [("target", target), ("weight", weight), *(("drop", name) for name in drop)]:
        _check_column(reader, name, role)
    others = [name for name in reader.names if name not in {target, weight, *drop}]
    _check_features(reader, others if columns is None else columns)
    features = reader.features(others if columns is None else list(columns), categorical)
    labels = None if target is None else _labels(reader, target)
    weights = None if weight is None else reader.features([weight]).values[:, 0]
    return TableData(features, labels, weights)


def write_table(path: str | os.PathLike[str], columns: Mapping[str, AnyArray]) -> None:
    """Write columns to a CSV file, or to a Parquet file if the path ends with .parquet or .pq."""
    if Path(path).suffix.lower() in _PARQUET_SUFFIXES:
        _require_pyarrow(Path(path))
        import pyarrow
        from pyarrow import parquet

        with replace_file(path) as file:
            parquet.write_table(pyarrow.table({name: column.tolist() for name, column in columns.items()}), file)
        return
    with replace_file(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


# ------------------------------------------------------------------------------------------------ checks


def _check_column(reader: _TableFile, name: str | None, role: str) -> None:
    if name is not None and name not in reader.names:
        close = difflib.get_close_matches(name, reader.names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        shown = ", ".join(reader.names[:10]) + (", ..." if len(reader.names) > 10 else "")
        raise ValueError(f"{role} {name!r} is not a column of {reader.path}; its columns are {shown}.{hint}")


def _check_features(reader: _TableFile, columns: Sequence[str]) -> None:
    lacking = [name for name in columns if name not in reader.names]
    if lacking:
        shown = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
        raise ValueError(f"{reader.path} lacks {len(lacking)} columns that the model needs: {shown}.")
    if not columns:
        raise ValueError(f"{reader.path} has no columns left for features.")


def _labels(reader: _TableFile, target: str) -> AnyArray:
    labels = reader.labels(target)
    if labels.dtype.kind == "O":
        missing = sum(label is None or label == "" for label in labels)
        if missing:
            raise ValueError(f"target {target!r} of {reader.path} is empty in {missing} rows.")
    return labels


def _require_pyarrow(path: Path) -> None:
    if find_spec("pyarrow") is None:
        raise ModuleNotFoundError(
            f"Parquet files such as {path} need pyarrow, which is not installed: pip install 'abc-plugins[tables]'"
        )


# ------------------------------------------------------------------------------------------------ readers


class _TableFile:
    """A table file that is open for reading columns."""

    path: Path
    names: list[str]

    def features(self, names: list[str], categorical: Any = None) -> Features:
        """Columns of numbers and categories."""
        raise NotImplementedError

    def make_dates_text(self) -> None:
        """Take dates as text, which they are unless the reader knows better."""

    def labels(self, name: str) -> AnyArray:
        """Read one column of labels."""
        raise NotImplementedError


def _open(path: Path, delimiter: str | None, encoding: str, text: Sequence[str]) -> _TableFile:
    if path.suffix.lower() in _PARQUET_SUFFIXES:
        _require_pyarrow(path)
        return _ArrowTable(path, _read_parquet(path))
    head = _check_text(path, encoding)
    delimiter = delimiter or ("\t" if path.suffix.lower() == ".tsv" else ",")
    if len(delimiter) != 1 or ord(delimiter) > 127:
        raise ValueError(f"delimiter must be one ASCII character; got {delimiter!r}.")
    if find_spec("pyarrow") is not None:
        table: _TableFile = _ArrowTable(path, _read_csv(path, delimiter, encoding, text), is_text=True)
    else:
        table = _TextTable(path, delimiter, encoding, text)
    if len(table.names) == 1 and any(other in head for other in (";", "\t", "|")):
        raise ValueError(f"{path} has only one column with the delimiter {delimiter!r}; set another delimiter.")
    return table


def _check_text(path: Path, encoding: str) -> str:
    """Return the first line; refuse empty files and those that are no text."""
    with open(path, "rb") as file:
        head = file.read(2**16)
    if not head.strip():
        raise ValueError(f"{path} is empty.")
    if b"\0" in head and not encoding.lower().replace("-", "").startswith(("utf16", "utf32")):
        raise ValueError(f"{path} is not a text file in {encoding} (it may be UTF-16 or binary).")
    try:
        return head.splitlines()[0].decode(encoding, errors="replace")
    except LookupError as error:
        raise ValueError(f"encoding must be one that Python knows; got {encoding!r}.") from error


def _wrong_encoding(path: Path, encoding: str, detail: object) -> ValueError:
    return ValueError(f"{path} is not text in the encoding {encoding} ({detail}); set the encoding, e.g. latin-1.")


class _ArrowTable(_TableFile):
    def __init__(self, path: Path, table: Any, is_text: bool = False) -> None:
        self.path = path
        self.table = table
        self.is_text = is_text
        self.names = list(table.column_names)
        _check_names(path, self.names)
        if table.num_rows == 0:
            raise ValueError(f"{path} has no rows.")

    def make_dates_text(self) -> None:
        import pyarrow as pa

        for index, column in enumerate(self.table.columns):
            if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
                self.table = self.table.set_column(index, self.names[index], column.cast(pa.string()))

    def features(self, names: list[str], categorical: Any = None) -> Features:
        table = self.table.select(names)
        if self.is_text and categorical is not None:
            table = _with_nulls(table)
        return read_features(table, input_name=str(self.path), categorical=categorical)

    def labels(self, name: str) -> AnyArray:
        import pyarrow as pa

        column = self.table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.string())
        if column.null_count:
            raise ValueError(f"target {name!r} of {self.path} is empty in {column.null_count} rows.")
        return np.asarray(column.to_numpy())


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path).read()
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a valid Parquet file: {error}") from error
    # The row index that pandas stores beside the columns is no feature.
    index = [name for name in table.column_names if name.startswith("__index_level_")]
    return table.drop_columns(index) if index else table


def _with_nulls(table: Any) -> Any:
    """Make cells of text that stand for missing values missing; in a column of labels they are labels."""
    import pyarrow as pa
    from pyarrow import compute

    missing, null = pa.array(MISSING), pa.scalar(None, pa.string())
    for index, column in enumerate(table.columns):
        if pa.types.is_string(column.type):
            column = compute.if_else(compute.is_in(column, missing), null, column)
            table = table.set_column(index, table.column_names[index], column)
    return table


def _read_csv(path: Path, delimiter: str, encoding: str, text: Sequence[str]) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(encoding=encoding),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                null_values=list(MISSING),
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
                column_types=dict.fromkeys(text, pa.string()),
            ),
        )
        binary = [
            name for name, kind in zip(table.column_names, table.schema.types, strict=True) if kind == pa.binary()
        ]
    except UnicodeDecodeError as error:
        raise _wrong_encoding(path, encoding, error) from error
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a valid CSV file: {error}") from error
    if binary:
        raise _wrong_encoding(path, encoding, f"column {binary[0]!r}")
    return table


class _TextTable(_TableFile):
    """A CSV file read by the standard library."""

    def __init__(self, path: Path, delimiter: str, encoding: str, text: Sequence[str]) -> None:
        self.path = path
        self.text = text
        rows = _read_rows(path, delimiter, "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
        self.names = rows[0]
        _check_names(path, self.names)
        if len(rows) == 1:
            raise ValueError(f"{path} has no rows.")
        self.columns = dict(zip(self.names, zip(*rows[1:], strict=True), strict=True))

    def features(self, names: list[str], categorical: Any = None) -> Features:
        columns = [self._column(name, may_be_text=categorical is not None) for name in names]
        values = np.empty((len(columns[0]), len(names)), order="F")
        levels: list[AnyArray | None] = [None] * len(names)
        for index, (name, column) in enumerate(zip(names, columns, strict=True)):
            if isinstance(column, list):
                values[:, index], levels[index] = levels_of_values(column, f"column {name!r} of {self.path}")
            else:
                values[:, index] = column
        known = Features(values, names, levels if any(one is not None for one in levels) else None)
        return read_features(known, input_name=str(self.path), categorical=categorical)

    def _column(self, name: str, may_be_text: bool) -> AnyArray | list[str | None]:
        """Numbers if all cells are, else text."""
        cells = self.columns[name]
        for convert in () if name in self.text else (_to_number, _to_truth):
            numbers = _parse(cells, convert, np.float64)
            if numbers is not None:
                return numbers
        if not may_be_text:
            refuse_column(name, "String", str(self.path))
        return [None if cell in MISSING else cell for cell in cells]

    def labels(self, name: str) -> AnyArray:
        cells = self.columns[name]
        for convert, dtype in ((int, np.int64), (_TRUTH_VALUES.__getitem__, np.bool_), (float, np.float64)):
            labels = _parse(cells, convert, dtype)
            if labels is not None:
                return labels
        return np.array(cells, dtype=object)


def _read_rows(path: Path, delimiter: str, encoding: str) -> list[list[str]]:
    try:
        with open(path, encoding=encoding, newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            rows: list[list[str]] = []
            for row in reader:
                if row and rows and len(row) != len(rows[0]):
                    raise ValueError(
                        f"{path} is not a valid CSV file: line {reader.line_num}: Expected {len(rows[0])} columns, "
                        f"got {len(row)}"
                    )
                rows += [row] if row else []
    except UnicodeDecodeError as error:
        raise _wrong_encoding(path, encoding, error) from error
    except csv.Error as error:
        raise ValueError(f"{path} is not a valid CSV file: {error}") from error
    return rows


def _check_names(path: Path, names: Sequence[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{path} must have unique column names; {repeated[0]!r} occurs more than once.")


def _parse(cells: Sequence[str], convert: Callable[[str], Any], dtype: type) -> AnyArray | None:
    """Convert all cells; None if one of them cannot be."""
    try:
        return np.array([convert(cell) for cell in cells], dtype=dtype)
    except (ValueError, KeyError, OverflowError):
        return None


def _to_number(cell: str) -> float:
    return np.nan if cell in MISSING else float(cell)


def _to_truth(cell: str) -> float:
    return np.nan if cell in MISSING else _TRUTH_VALUES[cell]
