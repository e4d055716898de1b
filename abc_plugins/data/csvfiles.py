"""CSV files: how they are written down, plain or compressed, and their cells as numbers, truth values or text.

They are read by pyarrow if it is installed, else by the standard library, with the same rules. Blanks around cells and
names do not count.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray

MISSING = ("", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null")
"""Cells that are missing values, except in a column of labels that are text."""

TRUTH_VALUES = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}

_COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_OTHER_ARCHIVES = (".zip", ".7z", ".zst", ".tar", ".rar", ".xlsx", ".xls", ".ods")
_DELIMITERS = (",", ";", "\t", "|")
_NAMED_DELIMITERS = {"\\t": "\t", "tab": "\t"}
"""A tab is hard to type in a shell."""

BLANKS = " \t"

_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_HEXADECIMAL = re.compile(r"0x[0-9a-f]{1,15}", re.ASCII | re.IGNORECASE)
"""What a number looks like: float() would take 1_0 and the digits of other scripts as well."""

_LEADING_ZERO = re.compile(r"[+-]?0\d", re.ASCII)


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written down.

    Attributes
    ----------
    delimiter : str or None
        By default a comma, a tab for .tsv files, a semicolon where the comma is the decimal point.
    encoding : str
    missing : tuple of str
        Cells that are missing values, besides MISSING.
    decimal : str
        Decimal point.
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()
    decimal: str = "."

    @cached_property
    def all_missing(self) -> tuple[str, ...]:
        """All cells that are missing values."""
        return (*MISSING, *(cell.strip(BLANKS) for cell in self.missing))

    @property
    def has_missing_numbers(self) -> bool:
        """Whether a cell that is a number is a missing value."""
        return any(is_number(cell, self) for cell in set(self.all_missing) - set(MISSING))

    def delimiter_of(self, path: Path) -> str:
        """The delimiter of a file; refuses what cannot be one, or is the decimal point, too."""
        tabs = ".tsv" in [suffix.lower() for suffix in path.suffixes]
        delimiter = _NAMED_DELIMITERS.get(self.delimiter or "", self.delimiter)
        delimiter = delimiter or ("\t" if tabs else ";" if self.decimal == "," else ",")
        for name, value in (("delimiter", delimiter), ("decimal", self.decimal)):
            if len(value) != 1 or ord(value) > 127:
                or_tab = ", or tab" if name == "delimiter" else ""
                raise ValueError(f"{name} must be one ASCII character{or_tab}; got {value!r}.")
        if delimiter == self.decimal:
            raise ValueError(f"delimiter and decimal must be different characters; both are {delimiter!r}.")
        return delimiter


def open_bytes(path: Path) -> Any:
    """Open a file for reading; one whose name ends with .gz, .bz2 or .xz is decompressed."""
    return _COMPRESSED.get(path.suffix.lower(), open)(path, "rb")


def check_text(path: Path, form: CsvFormat) -> str:
    """Return the first line; refuse empty files and those that are no text."""
    try:
        with open_bytes(path) as file:
            head = file.read(2**16)
    except (gzip.BadGzipFile, lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{path} is not a valid {path.suffix} file: {error}") from error
    if not head.strip():
        raise ValueError(f"{path} is empty.")
    if path.suffix.lower() in _OTHER_ARCHIVES:
        kinds = ", ".join(_COMPRESSED)
        raise ValueError(f"{path} must be a CSV file (perhaps compressed: {kinds}) or Parquet; unpack or convert it.")
    if b"\0" in head and not form.encoding.lower().replace("-", "").startswith(("utf16", "utf32")):
        raise ValueError(f"{path} is not a text file in {form.encoding} (it may be UTF-16 or binary).")
    try:
        return str(head.splitlines()[0].decode(form.encoding, errors="replace"))
    except LookupError as error:
        raise ValueError(f"encoding must be one that Python knows; got {form.encoding!r}.") from error


def check_delimiter(path: Path, head: str, form: CsvFormat) -> None:
    """Refuse a file whose first line has only one cell but looks as if it had more with another delimiter."""
    delimiter = form.delimiter_of(path)
    counts = {other: head.count(other) for other in _DELIMITERS if other != delimiter}
    likely = max(counts, key=lambda other: counts[other])
    if delimiter not in head and counts[likely]:
        shown = "tab" if likely == "\t" else likely
        raise ValueError(
            f"{path} has only one column with the delimiter {delimiter!r}; set another delimiter, perhaps {shown!r}."
        )


def column_names(path: Path, form: CsvFormat, wanted: Sequence[str]) -> list[str]:
    """Names of the columns without blanks around them, but for those that are wanted with blanks."""
    return [name if name in wanted else name.strip(BLANKS) for name in next(read_rows(path, form))]


def wrong_encoding(path: Path, encoding: str, detail: object) -> ValueError:
    """Make the error for bytes that are no text."""
    return ValueError(f"{path} is not text in the encoding {encoding} ({detail}); set the encoding, e.g. latin-1.")


# ------------------------------------------------------------------------------------------------ cells


def to_number(cell: str, form: CsvFormat) -> float:
    """A cell as a number; NaN if it is missing."""
    return np.nan if cell in form.all_missing else _number(cell, form)


def to_integer(cell: str) -> int:
    """A cell as a whole number; one with a plus is none, as for pyarrow."""
    if _HEXADECIMAL.fullmatch(cell):
        return int(cell, 16)
    if not _NUMBER.fullmatch(cell) or cell.startswith("+"):
        raise ValueError(f"{cell!r} is no whole number")
    return int(cell)


def is_number(cell: str, form: CsvFormat) -> bool:
    """Whether a cell is a number; a missing one is if it looks like one."""
    try:
        _number(cell, form)
    except ValueError:
        return False
    return True


def _number(cell: str, form: CsvFormat) -> float:
    if _HEXADECIMAL.fullmatch(cell):
        return float(int(cell, 16))
    plain = cell if form.decimal == "." else _with_point(cell, form)
    if not _NUMBER.fullmatch(plain):
        raise ValueError(f"{cell!r} is no number")
    return float(plain)


def _with_point(cell: str, form: CsvFormat) -> str:
    if "." in cell:
        raise ValueError(f"{cell!r} has a point, but the decimal point is {form.decimal!r}")
    return cell.replace(form.decimal, ".")


def to_truth(cell: str, form: CsvFormat) -> float:
    """A cell as a truth value, 0 or 1; NaN if it is missing."""
    return np.nan if cell in form.all_missing else TRUTH_VALUES[cell]


def parse(cells: Sequence[str], convert: Callable[[str], Any], dtype: type) -> AnyArray | None:
    """Convert all cells; None if one of them cannot be."""
    try:
        return np.array([convert(cell) for cell in cells], dtype=dtype)
    except (ValueError, KeyError, OverflowError):
        return None


def loses_spelling(cells: Sequence[str], form: CsvFormat) -> bool:
    """Whether distinct cells, read as numbers, lose zeros in front of them, or two of them become the same number."""
    there = [cell for cell in cells if cell not in form.all_missing]
    for convert, dtype in ((to_integer, np.int64), (partial(to_number, form=form), np.float64)):
        numbers = parse(there, convert, dtype)
        if numbers is not None:
            return np.unique(numbers).size < len(there) or any(map(has_leading_zero, there))
    return False


def has_leading_zero(cell: str) -> bool:
    """Whether a number begins with a zero that it could do without."""
    return _LEADING_ZERO.match(cell) is not None


def label_values(cells: Sequence[str], form: CsvFormat, as_text: bool) -> AnyArray:
    """The labels of distinct cells: numbers or truth values if all are and keep their spelling, else text.

    A missing value among numbers is None. With `as_text`, labels are text whatever they look like.
    """
    there = [cell for cell in cells if cell not in form.all_missing]
    missing = set(cells).difference(there)
    number = partial(to_number, form=form)
    kinds = ((to_integer, np.int64), (TRUTH_VALUES.__getitem__, np.bool_), (number, np.float64))
    for convert, dtype in () if as_text else kinds:
        labels = parse(there, convert, dtype)
        if labels is None:
            continue
        if missing:
            return np.array([None if cell in missing else cell for cell in cells], dtype=object)
        if not loses_spelling(there, form):
            return labels
    return np.array(cells, dtype=object)


# ------------------------------------------------------------------------------------------------ standard library


def read_rows(path: Path, form: CsvFormat) -> Iterator[list[str]]:
    """Read the rows of cells of a file, that of the names first; empty lines are left out."""
    encoding = "utf-8-sig" if form.encoding.lower() in ("utf-8", "utf8") else form.encoding
    width = None
    try:
        with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as file:
            reader = csv.reader(file, delimiter=form.delimiter_of(path), strict=True)
            for row in reader:
                width = len(row) if width is None and row else width
                if row and len(row) != width:
                    raise ValueError(
                        f"{path} is not a valid CSV file: line {reader.line_num}: Expected {width} columns, "
                        f"got {len(row)}"
                    )
                if row:
                    yield row
    except UnicodeDecodeError as error:
        raise wrong_encoding(path, form.encoding, error) from error
    except csv.Error as error:
        raise ValueError(f"{path} is not a valid CSV file: {error}") from error


# ------------------------------------------------------------------------------------------------ pyarrow


def read_arrow(path: Path, form: CsvFormat, names: Sequence[str], text: Sequence[str | None]) -> Any:
    """Read a whole file into an Arrow table of numbers, and of cells as they are; those in `text` are never numbers."""
    import pyarrow as pa

    table = _read_arrow(path, form, names, text)
    # Pyarrow sees no missing numbers between blanks. Dates are text, as for the standard library.
    again = [
        f.name
        for f in table.schema
        if pa.types.is_temporal(f.type) or (form.has_missing_numbers and _is_number_type(f.type))
    ]
    if again:
        cells = _read_arrow(path, form, names, [*text, *again])
        for name in again:
            table = table.set_column(names.index(name), name, cells.column(name))
    return table


def _is_number_type(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _read_arrow(path: Path, form: CsvFormat, names: Sequence[str], text: Sequence[str | None]) -> Any:
    """A table of what pyarrow takes the columns for, except those in `text`."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    named = dict(zip(next(read_rows(path, form)), names, strict=True))
    with _arrow_errors(path, form), open_bytes(path) as file:
        table = arrow_csv.read_csv(
            file,
            read_options=arrow_csv.ReadOptions(encoding=form.encoding, use_threads=False),
            parse_options=_parse_options(path, form),
            convert_options=arrow_csv.ConvertOptions(
                null_values=list(form.all_missing),
                true_values=[cell for cell, truth in TRUTH_VALUES.items() if truth],
                false_values=[cell for cell, truth in TRUTH_VALUES.items() if not truth],
                column_types={raw: pa.string() for raw, name in named.items() if name in text},
                decimal_point=form.decimal,
            ),
        )
        table = table.rename_columns(list(names))
        kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    binary = [name for name, kind in kinds.items() if kind == pa.binary()]
    if binary:
        raise wrong_encoding(path, form.encoding, f"column {binary[0]!r}")
    return table


def iterate_arrow(
    path: Path, form: CsvFormat, names: Sequence[str], wanted: Sequence[str], block_bytes: int
) -> Iterator[Any]:
    """Read some of the columns as text, a block of bytes at a time."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    named = dict(zip(names, next(read_rows(path, form)), strict=True))
    raw = [named[name] for name in wanted]
    with _arrow_errors(path, form), open_bytes(path) as file:
        batches = arrow_csv.open_csv(
            file,
            read_options=arrow_csv.ReadOptions(encoding=form.encoding, block_size=block_bytes, use_threads=False),
            parse_options=_parse_options(path, form),
            convert_options=arrow_csv.ConvertOptions(include_columns=raw, column_types=dict.fromkeys(raw, pa.string())),
        )
        for batch in batches:
            if batch.num_rows:
                yield pa.Table.from_batches([batch]).rename_columns(list(wanted))


def with_numbers(cells: Any, form: CsvFormat, text: Sequence[str | None], chosen: Iterable[str] = ()) -> Any:
    """Columns of text without blanks, as numbers where all cells are numbers, truth values or missing.

    Those that are `chosen` as categories stay text where numbers would lose their spelling.
    """
    import pyarrow as pa
    from pyarrow import compute

    for name in [field.name for field in cells.schema if field.type == pa.string()]:
        column = compute.utf8_trim(cells.column(name), BLANKS)
        is_text = name in text or (name in chosen and loses_spelling(column.unique().to_pylist(), form))
        numbers = None if is_text else _numbers(column, form)
        cells = cells.set_column(cells.column_names.index(name), name, column if numbers is None else numbers)
    return cells


def _numbers(column: Any, form: CsvFormat) -> Any:
    """A column of text as numbers or truth values; None if it is neither."""
    import pyarrow as pa
    from pyarrow import compute

    column = compute.if_else(compute.is_in(column, pa.array(form.all_missing)), pa.scalar(None, pa.string()), column)
    for kind in (pa.int64(), pa.float64()) if form.decimal == "." else ():  # the fast way, without odd spellings
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    coded = column.dictionary_encode().unify_dictionaries().chunks
    distinct = coded[0].dictionary.to_pylist() if coded else []
    for convert, dtype in ((to_number, np.float64), (to_truth, np.bool_)):
        found = parse(distinct, partial(convert, form=form), dtype)
        if found is not None:
            numbers = pa.array(found)
            return pa.chunked_array([numbers.take(chunk.indices) for chunk in coded], numbers.type)
    return None


def with_nulls(table: Any, form: CsvFormat) -> Any:
    """Make cells of text that stand for missing values missing; in a column of labels they are labels."""
    import pyarrow as pa
    from pyarrow import compute

    missing, null = pa.array(form.all_missing), pa.scalar(None, pa.string())
    for index, column in enumerate(table.columns):
        if pa.types.is_string(column.type):
            column = compute.if_else(compute.is_in(column, missing), null, column)
            table = table.set_column(index, table.column_names[index], column)
    return table


def _parse_options(path: Path, form: CsvFormat) -> Any:
    from pyarrow import csv as arrow_csv

    return arrow_csv.ParseOptions(delimiter=form.delimiter_of(path), newlines_in_values=True)


class _arrow_errors:
    """Say which file an error of pyarrow is about."""

    def __init__(self, path: Path, form: CsvFormat) -> None:
        self.path, self.form = path, form

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _traceback: Any) -> None:
        import pyarrow as pa

        if isinstance(error, UnicodeDecodeError):
            raise wrong_encoding(self.path, self.form.encoding, error) from error
        if isinstance(error, pa.ArrowInvalid):
            if "UTF8" in str(error):
                raise wrong_encoding(self.path, self.form.encoding, error) from error
            raise ValueError(f"{self.path} is not a valid CSV file: {error}") from error
