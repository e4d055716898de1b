"""Read tables from CSV or Parquet files, whole or some rows at a time.

CSV files are read by pyarrow if it is installed, else by the standard library (see `csvfiles`). Parquet needs pyarrow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.data.categories import chosen_columns, listed_columns
from abc_plugins.data.columns import levels_of_values, refuse_column
from abc_plugins.data.csvfiles import (
    BLANKS,
    CsvFormat,
    check_delimiter,
    check_text,
    column_names,
    iterate_arrow,
    label_values,
    loses_spelling,
    parse,
    read_arrow,
    read_rows,
    to_integer,
    to_number,
    to_truth,
    with_nulls,
    with_numbers,
)
from abc_plugins.data.tablechecks import (
    EXACT_INTEGERS,
    check_cells,
    check_column,
    check_features,
    check_integers,
    check_known_categories,
    check_names,
    check_roles,
    empty_labels,
    warn_of_zeros,
)
from abc_plugins.data.tables import Features, read_features
from abc_plugins.data.tablewriting import PARQUET_SUFFIXES, require_pyarrow

_BATCH_ROWS = 100_000
_BATCH_BYTES = 2**24
"""Read at a time: bytes of a CSV file by pyarrow, rows of all other files."""


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
    form: CsvFormat | None = None,
    categorical: Any = None,
    text: Sequence[str] = (),
    dates_as_text: bool = False,
) -> TableData:
    """Read features, labels and weights from a CSV or Parquet file.

    Parameters
    ----------
    path : path
        Parquet if it ends with .parquet or .pq, else CSV with a line of column names; .gz, .bz2 and .xz are
        decompressed.
    target, weight : str, optional
        Columns of the labels and of the sample weights.
    columns : sequence of str, optional
        The columns to take as features, in this order; by default all others.
    drop : sequence of str, default=()
        Columns to leave out.
    form : CsvFormat, optional
        How a CSV file is written down.
    categorical : "from_dtype", list of str or None
        Columns to read as categories: those of text, those in the list, or none. In a CSV file, numbers of listed
        columns stay text if one begins with a needless zero, or if two spellings of one number occur.
    text : sequence of str, default=()
        Columns of a CSV file that are text whatever they look like; names that the file does not have are ignored.
    dates_as_text : bool, default=False
        Take columns of dates and times as text; otherwise they are refused.
    """
    path, form = Path(path), form or CsvFormat()
    given = {role: [name] for role, name in (("target", target), ("weight", weight)) if name is not None}
    wanted = [*(columns or ()), *drop, *text, *listed_columns(categorical), *(name for (name,) in given.values())]

    def features_of(names: list[str]) -> list[str]:
        return [name for name in names if name not in {target, weight, *drop}] if columns is None else list(columns)

    def choose(names: list[str]) -> set[str]:
        return chosen_columns(categorical, features_of(names))

    reader = _open(path, form, wanted, text, target, choose, columns is not None)
    if dates_as_text:
        reader.make_dates_text()
    for role, name in [("target", target), ("weight", weight), *(("drop", name) for name in drop)]:
        check_column(path, reader.names, name, role)
    check_roles(path, drop, **given, features=columns or ())
    others = features_of(reader.names)
    check_features(path, reader.names, others)
    features = reader.features(others, categorical, columns is not None)
    if columns is None and path.suffix.lower() not in PARQUET_SUFFIXES:
        warn_of_zeros(path, form, reader.names, features)
    labels = None if target is None else _labels(reader, target)
    weights = None if weight is None else reader.features([weight]).array[:, 0]
    return TableData(features, labels, weights)


def read_batches(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    form: CsvFormat | None = None,
    categorical: Any = None,
    text: Sequence[str] = (),
) -> Iterator[tuple[Features, dict[str, list[Any]]]]:
    """Read features from a file some rows at a time, and beside them the columns in `keep` as they are.

    Parameters
    ----------
    path, columns, drop, form, categorical, text : see `read_table`
    keep : sequence of str
    """
    path, form = Path(path), form or CsvFormat()
    names, tables = _batches(path, form, [*(columns or ()), *drop, *keep, *listed_columns(categorical)], text)
    for role, name in [*(("drop", name) for name in drop), *(("id", name) for name in keep)]:
        check_column(path, names, name, role)
    check_roles(path, drop, features=columns or ())
    wanted = [name for name in names if name not in {*drop, *keep}] if columns is None else list(columns)
    check_features(path, names, wanted)
    is_empty = True
    for table in tables(list(dict.fromkeys([*wanted, *keep]))):
        is_empty = False
        yield table.features(wanted, categorical, columns is not None), {name: table.values(name) for name in keep}
    if is_empty:
        raise ValueError(f"{path} has no rows.")


# ------------------------------------------------------------------------------------------------ labels


def _labels(reader: _TableFile, target: str) -> AnyArray:
    labels = reader.labels(target)
    if labels.dtype.kind == "O":
        missing = np.flatnonzero([label is None or label == "" for label in labels])
        if missing.size:
            raise empty_labels(target, reader.path, missing)
    return labels


# ------------------------------------------------------------------------------------------------ readers


class _TableFile:
    """A table file, or some rows of it, that is open for reading columns.

    Attributes
    ----------
    path : Path
    names : list of str
        Of the columns.
    first_row : int
        Number of the first row in the file; the first of all is 1, names do not count.
    dates_are_text, keeps_spelling : bool
        Whether dates are taken, and whether categories stay text where numbers would lose their spelling.
    """

    path: Path
    names: list[str]
    first_row: int
    dates_are_text = False
    keeps_spelling = False

    def features(self, names: list[str], categorical: Any = None, known: bool = False) -> Features:
        """Columns of numbers and categories; of `known` columns those that are no text must be numbers."""
        raise NotImplementedError

    def make_dates_text(self) -> None:
        """Take dates as text, which are refused otherwise."""
        self.dates_are_text = True

    def labels(self, name: str) -> AnyArray:
        """Read one column of labels."""
        raise NotImplementedError

    def values(self, name: str) -> list[Any]:
        """Read one column as it is."""
        raise NotImplementedError


def _open(
    path: Path,
    form: CsvFormat,
    wanted: Sequence[str],
    text: Sequence[str],
    target: str | None,
    choose: Callable[[list[str]], set[str]],
    known: bool,
) -> _TableFile:
    """Open a file; of its column names, `choose` returns those of categories, whose kind may be `known`."""
    if path.suffix.lower() in PARQUET_SUFFIXES:
        require_pyarrow(path)
        return _ArrowTable(path, _without_index(_open_parquet(path).read()))
    check_delimiter(path, check_text(path, form), form)
    names = column_names(path, form, wanted)
    check_names(path, names)
    if find_spec("pyarrow") is not None:
        chosen = choose(names)
        cells = read_arrow(path, form, names, [*text, *chosen, target])
        table = with_numbers(cells, form, [*text, target], () if known else chosen)
        return _ArrowTable(path, table, form, text, cells)
    table = _TextTable(path, names, list(read_rows(path, form))[1:], form, text)
    table.keeps_spelling = not known
    return table


def _batches(
    path: Path, form: CsvFormat, wanted: Sequence[str], text: Sequence[str]
) -> tuple[list[str], Callable[[list[str]], Iterator[_TableFile]]]:
    """Names of the columns, and a function that reads some of them, some rows at a time."""
    if path.suffix.lower() in PARQUET_SUFFIXES:
        require_pyarrow(path)
        file = _open_parquet(path)

        def read_parquet(names: list[str]) -> Iterator[_TableFile]:
            import pyarrow as pa

            first_row = 1
            for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                yield _ArrowTable(path, pa.Table.from_batches([batch]), first_row=first_row)
                first_row += batch.num_rows

        return _without_index(file.schema_arrow.empty_table()).column_names, read_parquet
    check_delimiter(path, check_text(path, form), form)
    names = column_names(path, form, wanted)
    check_names(path, names)
    if find_spec("pyarrow") is None:
        return names, lambda _wanted: _text_batches(path, form, names, text)

    def read_csv(wanted: list[str]) -> Iterator[_TableFile]:
        first_row = 1
        for cells in iterate_arrow(path, form, names, wanted, _BATCH_BYTES):
            yield _ArrowTable(path, with_numbers(cells, form, text), form, text, cells, first_row)
            first_row += cells.num_rows

    return names, read_csv


def _text_batches(path: Path, form: CsvFormat, names: list[str], text: Sequence[str]) -> Iterator[_TableFile]:
    rows = islice(read_rows(path, form), 1, None)
    first_row = 1
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield _TextTable(path, names, batch, form, text, first_row)
        first_row += len(batch)


class _ArrowTable(_TableFile):
    """An Arrow table; for a CSV file with its format, and perhaps with its cells as they are."""

    def __init__(
        self,
        path: Path,
        table: Any,
        form: CsvFormat | None = None,
        text: Sequence[str] = (),
        cells: Any = None,
        first_row: int = 1,
    ) -> None:
        self.path, self.table, self.form, self.text, self.first_row = path, table, form, text, first_row
        self.cells = table if cells is None else cells
        self.names = list(table.column_names)
        check_names(path, self.names)
        if table.num_rows == 0:
            raise ValueError(f"{path} has no rows.")

    def make_dates_text(self) -> None:
        import pyarrow as pa

        super().make_dates_text()
        for index, column in enumerate(self.table.columns):
            if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
                self.table = self.table.set_column(index, self.names[index], column.cast(pa.string()))

    def features(self, names: list[str], categorical: Any = None, known: bool = False) -> Features:
        table = self.table.select(names)
        self._check(table, categorical, known)
        if self.form is not None and categorical is not None:
            table = with_nulls(table, self.form)
        return read_features(table, input_name=str(self.path), categorical=categorical)

    def _check(self, table: Any, categorical: Any, known: bool) -> None:
        """Refuse bad cells of a CSV file, and warn of large integers."""
        import pyarrow as pa
        from pyarrow import compute

        chosen = chosen_columns(categorical, table.column_names)
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name in self.text:
                continue
            if name in chosen:
                cells = self.cells.column(name)
                if pa.types.is_string(cells.type) and not pa.types.is_string(column.type):
                    check_known_categories(cells.unique().to_pylist(), name, self.path)
                continue
            if self.form is not None and pa.types.is_string(column.type):
                cells, dates = column.to_pylist(), self.dates_are_text
                check_cells(cells, name, self.path, self.form, self.first_row, known, dates)
            elif pa.types.is_integer(column.type) and column.type.bit_width == 64:
                extremes = compute.min_max(column).as_py().values()
                if any(value is not None and abs(value) > EXACT_INTEGERS for value in extremes):
                    check_integers(name, self.path, column.to_pylist(), self.first_row)

    def labels(self, name: str) -> AnyArray:
        import pyarrow as pa

        column = self.table.column(name)
        if self.form is not None:
            coded = column.combine_chunks().dictionary_encode()
            return label_values(coded.dictionary.to_pylist(), self.form, name in self.text)[coded.indices.to_numpy()]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.string())
        if column.null_count:
            raise empty_labels(name, self.path, np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)))
        return np.asarray(column.to_numpy())

    def values(self, name: str) -> list[Any]:
        return list(self.cells.column(name).to_pylist())


def _open_parquet(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        # Without a buffer for all of the file: a part of it is enough at a time.
        return parquet.ParquetFile(path, pre_buffer=False)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a valid Parquet file: {error}") from error


def _without_index(table: Any) -> Any:
    """Leave out the row index that pandas stores beside the columns: it is no feature."""
    index = [name for name in table.column_names if name.startswith("__index_level_")]
    return table.drop_columns(index) if index else table


class _TextTable(_TableFile):
    """Rows of cells of a CSV file."""

    def __init__(
        self,
        path: Path,
        names: list[str],
        rows: Sequence[Sequence[str]],
        form: CsvFormat,
        text: Sequence[str],
        first_row: int = 1,
    ) -> None:
        self.path, self.names, self.form, self.text, self.first_row = path, names, form, text, first_row
        check_names(path, self.names)
        if not rows:
            raise ValueError(f"{path} has no rows.")
        self.columns = dict(zip(self.names, zip(*rows, strict=True), strict=True))

    def features(self, names: list[str], categorical: Any = None, known: bool = False) -> Features:
        chosen = chosen_columns(categorical, names)
        columns = [self._column(name, name in chosen, categorical is not None, known) for name in names]
        values = np.empty((len(columns[0]), len(names)), order="F")
        levels: list[AnyArray | None] = [None] * len(names)
        for index, (name, column) in enumerate(zip(names, columns, strict=True)):
            if isinstance(column, list):
                values[:, index], levels[index] = levels_of_values(column, f"column {name!r} of {self.path}")
            else:
                values[:, index] = column
        features = Features(values, names, levels if any(one is not None for one in levels) else None)
        return read_features(features, input_name=str(self.path), categorical=categorical)

    def _column(self, name: str, is_category: bool, may_be_text: bool, known: bool) -> AnyArray | list[str | None]:
        """Numbers if all cells are, else text."""
        cells = self._cells(name)
        as_text = name in self.text
        if is_category and not as_text:
            distinct = list(dict.fromkeys(cells))
            as_text = self.keeps_spelling and loses_spelling(distinct, self.form)
            if not as_text:
                check_known_categories(distinct, name, self.path)
        for convert in () if as_text else (to_number, to_truth):
            numbers = parse(cells, partial(convert, form=self.form), np.float64)
            if numbers is not None:
                if not is_category and (np.abs(numbers) >= EXACT_INTEGERS).any():
                    check_integers(name, self.path, [_whole(cell) for cell in cells], self.first_row)
                return numbers
        if name not in self.text and not is_category:
            check_cells(cells, name, self.path, self.form, self.first_row, known, self.dates_are_text)
        if not may_be_text:
            refuse_column(name, "String", str(self.path))
        return [None if cell in self.form.all_missing else cell for cell in cells]

    def labels(self, name: str) -> AnyArray:
        cells = self._cells(name)
        distinct = {cell: index for index, cell in enumerate(dict.fromkeys(cells))}
        return label_values(list(distinct), self.form, name in self.text)[[distinct[cell] for cell in cells]]

    def values(self, name: str) -> list[Any]:
        return list(self.columns[name])

    def _cells(self, name: str) -> list[str]:
        return [cell.strip(BLANKS) for cell in self.columns[name]]


def _whole(cell: str) -> int | None:
    try:
        return to_integer(cell)
    except ValueError:
        return None
