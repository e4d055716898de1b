"""Tables in CSV and Parquet files, with and without pyarrow."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from abc_plugins.data import tablefiles, tablewriting
from abc_plugins.data.csvfiles import CsvFormat
from abc_plugins.data.tablefiles import read_batches, read_table
from abc_plugins.data.tables import Features, read_features
from abc_plugins.data.tablewriting import write_table


@pytest.fixture(params=["pyarrow", "standard library"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "standard library":
        monkeypatch.setattr(tablefiles, "find_spec", lambda _: None)
    return str(request.param)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_file(content: str | bytes, name: str = "data.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.mark.usefixtures("reader")
class TestCsv:
    def test_columns_of_every_kind(self, write: Any) -> None:
        path = write('a,b,"c, d",flag,w,y\n1,0.5,,true,1,no\n2,NA,nan,False,2,"yes, it is"\n\n-3,1e3,7,,0.5,no\n')
        data = read_table(path, target="y", weight="w")
        assert data.features.names == ["a", "b", "c, d", "flag"]
        expected = [[1, 0.5, np.nan, 1], [2, np.nan, np.nan, 0], [-3, 1000, 7, np.nan]]
        np.testing.assert_array_equal(data.features.values, expected)
        assert data.labels is not None
        assert data.labels.tolist() == ["no", "yes, it is", "no"]
        assert data.weights is not None
        assert data.weights.tolist() == [1, 2, 0.5]

    def test_columns_of_text_are_categories(self, write: Any) -> None:
        path = write("a,b,c,y\n1,red,7,u\n2,NA,8,v\n3,,7,u\n4,blue,8,v\n")
        features = read_table(path, target="y", categorical="from_dtype").features
        np.testing.assert_array_equal(features.values, [[1, 1, 7], [2, np.nan, 8], [3, np.nan, 7], [4, 0, 8]])
        levels = [None if found is None else found.tolist() for found in features.levels or []]
        assert levels == [None, ["blue", "red"], None]
        features = read_table(path, target="y", categorical=["b", "c"], text=["c", "absent"]).features
        np.testing.assert_array_equal(features.values[:, 2], [0, 1, 0, 1])
        assert (features.levels or [])[2].tolist() == ["7", "8"]
        features = read_table(path, columns=["a", "c"], categorical=["c"]).features
        assert (features.levels or [])[1].tolist() == [7, 8]
        with pytest.raises(ValueError, match=r"Column 'b' of .* has the dtype"):
            read_table(path, target="y", categorical=["c"])

    @pytest.mark.parametrize(
        ("cells", "labels"),
        [
            (["1", "0"], [1, 0]),
            (["1.0", "2.5"], [1.0, 2.5]),
            (["true", "false"], [True, False]),
            (["a", "NA"], ["a", "NA"]),
            (["1", "b"], ["1", "b"]),
        ],
    )
    def test_labels_keep_their_kind(self, cells: list[str], labels: list[Any], write: Any) -> None:
        found = read_table(write("x,y\n" + "".join(f"1,{cell}\n" for cell in cells)), target="y").labels
        assert found is not None
        assert found.tolist() == labels
        assert [type(label) for label in found.tolist()] == [type(label) for label in labels]

    def test_selection_of_columns(self, write: Any) -> None:
        path = write("id,a,b,y\nr1,1,2,u\nr2,3,4,v\n")
        assert read_table(path, target="y", drop=["id"]).features.names == ["a", "b"]
        data = read_table(path, columns=["b", "a"])
        assert data.features.names == ["b", "a"]
        assert data.features.values.tolist() == [[2, 1], [4, 3]]
        assert data.labels is None

    def test_other_delimiters_and_encodings(self, write: Any) -> None:
        assert read_table(write("a\tb\n1\t2\n", "data.tsv")).features.names == ["a", "b"]
        assert read_table(write("a;b\n1;2\n"), form=CsvFormat(";")).features.names == ["a", "b"]
        for tab in ("tab", "\\t", "\t"):
            assert read_table(write("a\tb\n1\t2\n"), form=CsvFormat(tab)).features.names == ["a", "b"]
        assert read_table(
            write("größe,b\n1,2\n".encode("latin-1")), form=CsvFormat(encoding="latin-1")
        ).features.names == [
            "größe",
            "b",
        ]
        assert read_table(write("a,b\n1,2\n".encode("utf-16")), form=CsvFormat(encoding="utf-16")).features.names == [
            "a",
            "b",
        ]
        assert read_table(write(b"\xef\xbb\xbfa,b\r\n1,2\r\n")).features.names == ["a", "b"]

    @pytest.mark.parametrize(
        ("content", "options", "message"),
        [
            (b"", {}, r"data\.csv is empty"),
            (b" \n\n", {}, r"data\.csv is empty"),
            ("a,b\n", {}, r"data\.csv has no rows"),
            ("a,b\n1,2\n1,2,3\n", {}, r"data\.csv is not a valid CSV file: .*Expected 2 columns, got 3"),
            ("a,a\n1,2\n", {}, r"data\.csv must have unique column names; 'a' occurs more than once"),
            ("a,b\n1,x\n", {}, r"Column 'b' of .*data\.csv has the dtype String, .*Encode"),
            (b"a,b\n1,\xe9\n", {}, r"data\.csv is not text in the encoding utf-8"),
            (b"\xe9,b\n1,2\n", {}, r"data\.csv is not text in the encoding utf-8"),
            (
                "a,b\n1,2\n".encode("utf-16"),
                {},
                r"data\.csv is not a text file in utf-8 \(it may be UTF-16 or binary\)",
            ),
            (
                "a,b\n1,2\n",
                {"form": CsvFormat(encoding="klingon")},
                "encoding must be one that Python knows; got 'klingon'",
            ),
            (
                "a;b\n1;2\n",
                {},
                r"data\.csv has only one column with the delimiter ','; set another delimiter, perhaps ';'",
            ),
            ("a,b\n1,2\n", {"form": CsvFormat("::")}, "delimiter must be one ASCII character, or tab; got '::'"),
            ("width,b\n1,2\n", {"target": "widht"}, r"target 'widht' is not a column of .*Did you mean 'width'\?"),
            ("a,b\n1,2\n", {"target": "z"}, r"target 'z' is not a column of .*; its columns are a, b\.$"),
            (",b\n0,2\n", {"target": "z"}, r"; its columns are '', b\.$"),
            ("a,b\n1,2\n", {"weight": "w"}, "weight 'w' is not a column of"),
            ("a,b\n1,2\n", {"drop": ["w"]}, "drop 'w' is not a column of"),
            ("a,b\n1,2\n", {"columns": ["a", "c"]}, r"data\.csv lacks a column that the model needs: c\."),
            ("y\n2\n", {"target": "y"}, r"data\.csv has no columns left for features"),
            ("a,y\n1,u\n2,\n", {"target": "y"}, r"target 'y' of .*data\.csv is empty in row 2"),
        ],
    )
    def test_bad_files(self, content: str | bytes, options: dict[str, Any], message: str, write: Any) -> None:
        with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
            read_table(write(content), **options)

    @pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
    def test_compressed_files(self, suffix: str, tmp_path: Path) -> None:
        path = tmp_path / f"data.tsv.{suffix}"
        opener = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}[suffix]
        with opener(path, "wt") as file:
            file.write("a\tb\n1\t2\n")
        assert read_table(path).features.array.tolist() == [[1, 2]]
        path.write_bytes(b"a,b\n1,2\n")
        with pytest.raises((ValueError, OSError)):
            read_table(path)

    def test_decimal_comma_and_missing_cells(self, write: Any) -> None:
        path = write("a;b;c\n1,5;?;x\n-2;-999;?\n")
        form = CsvFormat(missing=("?", "-999"), decimal=",")
        data = read_table(path, form=form, categorical="from_dtype").features
        np.testing.assert_array_equal(data.array, [[1.5, np.nan, 0], [-2, np.nan, np.nan]])
        assert data.levels is not None
        assert data.levels[2].tolist() == ["x"]
        ((batch, kept),) = read_batches(path, keep=["c"], form=form)
        np.testing.assert_array_equal(batch.array, [[1.5, np.nan], [-2, np.nan]])
        assert kept == {"c": ["x", "?"]}
        with pytest.raises(ValueError, match="delimiter and decimal must be different characters; both are ','"):
            read_table(path, form=CsvFormat(",", decimal=","))

    def test_bad_cells_are_reported(self, write: Any) -> None:
        path = write("a,b\n" + "".join(f"{k},{k}\n" for k in range(40)) + "oops,1\n5,2\n")
        message = r"Column 'a' of .*data\.csv has numbers in 41 rows, but 'oops' in row 41\. Mend the file"
        with pytest.raises(ValueError, match=message):
            read_table(path, categorical="from_dtype")
        with pytest.raises(ValueError, match="but 'oops' in row 41"):
            list(read_batches(path))
        assert read_table(path, categorical=["a"]).features.levels is not None
        assert np.isnan(read_table(path, form=CsvFormat(missing=("oops",))).features.array[40, 0])

    def test_bad_cells_are_reported_with_their_row_of_the_file(
        self, write: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tablefiles, "_BATCH_ROWS", 10)
        monkeypatch.setattr(tablefiles, "_BATCH_BYTES", 64)
        path = write("a,b\n" + "".join(f"{k},{k}\n" for k in range(100, 150)) + "7,oops\n5,2\n")
        assert len(list(read_batches(path, columns=["a"]))) > 3
        with pytest.raises(ValueError, match=r"'b' of .* must have numbers, as in training; got 'oops' in row 51"):
            list(read_batches(path, columns=["a", "b"]))
        with pytest.raises(ValueError, match="got 'oops' in row 51"):
            read_table(path, columns=["b"], categorical="from_dtype")
        text = write("a,b\n1,2\nlow,3\nhigh,4\n")
        with pytest.raises(ValueError, match=r"Column 'a' .* got 'low' in row 2"):
            list(read_batches(text, columns=["a"], categorical=[]))
        assert [features.array.shape for features, _ in read_batches(text, columns=["a"], categorical=["a"])]

    def test_blanks_do_not_count(self, write: Any) -> None:
        path = write("a, b ,c\t,d , y\n1, 2, -999 ,NaN , u\n 3,NA , 0x10, blue, v \n")
        form = CsvFormat(missing=(" -999",))
        data = read_table(path, target="y", form=form, categorical="from_dtype")
        assert data.features.names == ["a", "b", "c", "d"]
        np.testing.assert_array_equal(data.features.array, [[1, 2, np.nan, np.nan], [3, np.nan, 16, 0]])
        assert data.labels is not None
        assert data.labels.tolist() == ["u", "v"]
        ((batch, kept),) = read_batches(path, columns=["a", " b ", "c"], keep=[" y"], form=form)
        assert batch.names == ["a", " b ", "c"]
        np.testing.assert_array_equal(batch.array, [[1, 2, np.nan], [3, np.nan, 16]])
        assert kept == {" y": [" u", " v "]}  # as they are
        assert read_table(path, columns=["a"], target=" y").labels is not None

    @pytest.mark.parametrize("odd", ["1_0", "\u0661", "\u00a02", "1d5", "0x", "nan(1)x"])
    def test_what_only_python_takes_for_a_number_is_a_bad_cell(self, odd: str, write: Any) -> None:
        path = write("a,b\n" + "".join(f"{odd if k in (7, 20, 33) else k % 7},{k}\n" for k in range(60)))
        with pytest.raises(ValueError, match=re.escape(f"has numbers in 57 rows, but {odd!r} in row 8 and others")):
            read_table(path, categorical="from_dtype")
        with pytest.raises(ValueError, match=re.escape(f"must have numbers, as in training; got {odd!r} in row 8")):
            list(read_batches(path, columns=["a"], categorical=[]))

    def test_spellings_of_numbers(self, write: Any) -> None:
        cells = ["+1", "-.5", "2.", "1e3", "1E-3", "0x1F", "inf", "-Infinity", "nan", "1e400", "007"]
        expected = [
            1,
            -0.5,
            2,
            1e3,
            1e-3,
            31,
            np.finfo(float).max,
            -np.finfo(float).max,
            np.nan,
            np.finfo(float).max,
            7,
        ]
        path = write("a,b\n" + "".join(f"{cell},1\n" for cell in cells))
        np.testing.assert_array_equal(read_table(path, categorical="from_dtype").features.array[:, 0], expected)
        ((batch, _),) = read_batches(path, columns=["a"], categorical=[])
        np.testing.assert_array_equal(batch.array[:, 0], expected)
        commas = write("a;b\n1,5;1\n1.5;2\n")
        with pytest.raises(ValueError, match=r"got '1\.5' in row 2"):
            list(read_batches(commas, columns=["a"], categorical=[], form=CsvFormat(decimal=",")))

    @pytest.mark.parametrize(
        ("roles", "message"),
        [
            ({"target": "y", "weight": "y"}, "target and weight must name different columns of .*; both name 'y'"),
            ({"target": "y", "drop": ["y"]}, "target and drop must .* both name 'y'"),
            ({"weight": "a", "drop": ["b", "a"]}, "weight and drop must .* both name 'a'"),
            ({"columns": ["a", "b"], "drop": ["b"]}, "features and drop must .* both name 'b'"),
            ({"columns": ["a", "b"], "target": "b"}, "target and features must .* both name 'b'"),
        ],
    )
    def test_a_column_has_one_role(self, roles: dict[str, Any], message: str, write: Any) -> None:
        with pytest.raises(ValueError, match=message):
            read_table(write("a,b,y\n1,2,0\n2,3,1\n"), **roles)

    def test_a_marker_among_numbers_is_warned_about(self, write: Any) -> None:
        path = write("a,b\n" + "".join(f"{'?' if k % 5 == 0 else k},{k}\n" for k in range(100)))
        with pytest.warns(UserWarning, match=r"'a' of .* has 80 different numbers in 80 rows, and '\?' in 20: it is"):
            assert read_table(path, categorical="from_dtype").features.levels is not None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read_table(path, categorical="from_dtype", form=CsvFormat(missing=("?",))).features.levels is None
            grades = write("grade,b\n" + "".join(f"{'K' if k % 5 == 0 else k % 9},{k}\n" for k in range(100)))
            assert read_table(grades, categorical="from_dtype").features.levels is not None

    def test_other_archives_are_refused(self, write: Any) -> None:
        with pytest.raises(
            ValueError, match=r"data\.csv\.zip must be a CSV file \(perhaps compressed: \.gz, \.bz2, \.xz"
        ):
            read_table(write("a,b\n1,2\n", "data.csv.zip"))

    def test_a_decimal_comma_hides_the_delimiter(self, write: Any) -> None:
        with pytest.raises(
            ValueError, match="only one column with the delimiter ','; set another delimiter, perhaps ';'"
        ):
            read_table(write("a;b\n1,5;2,5\n"))

    def test_large_integers_are_warned_about(self, write: Any) -> None:
        path = write("id,b\n7,1\n9007199254740993,2\n")
        with pytest.warns(UserWarning, match=r"Column 'id' of .* such as 9007199254740993 in row 2: as a feature"):
            read_table(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_table(path, drop=["id"])

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"nothing\.csv"):
            read_table(tmp_path / "nothing.csv")
        with pytest.raises(IsADirectoryError, match="Is a directory"):
            read_table(tmp_path)

    def test_missing_labels_that_are_numbers(self, write: Any) -> None:
        with pytest.raises(ValueError, match=r"target 'y' of .* is empty in row 2"):
            read_table(write("a,y\n1,0\n2,\n3,1\n"), target="y")


@pytest.mark.usefixtures("reader")
class TestCellsStayWhatTheyAre:
    @pytest.mark.parametrize(
        ("cells", "labels"),
        [
            (["001", "01", "1", "10"], ["001", "01", "1", "10"]),
            (["01", "02", "10"], ["01", "02", "10"]),
            (["2.0", "2", "1"], ["2.0", "2", "1"]),
            (["+1", "-1"], [1.0, -1.0]),
            (["0", "1", "10"], [0, 1, 10]),
            (["0.5", "1.0"], [0.5, 1.0]),
            (["true", "True", "false"], [True, True, False]),
            (["2020-01-01", "2020-01-02"], ["2020-01-01", "2020-01-02"]),
        ],
    )
    def test_labels(self, cells: list[str], labels: list[Any], write: Any) -> None:
        found = read_table(write("x,y\n" + "".join(f"1,{cell}\n" for cell in cells)), target="y").labels
        assert found is not None
        assert [(type(label), label) for label in found.tolist()] == [(type(label), label) for label in labels]

    @pytest.mark.parametrize("cell", ["", "NA"])
    def test_missing_labels_among_numbers(self, cell: str, write: Any) -> None:
        for first in ("0", "01"):
            with pytest.raises(ValueError, match=r"target 'y' of .* is empty in row 2"):
                read_table(write(f"x,y\n1,{first}\n2,{cell}\n3,1\n"), target="y")

    def test_categories(self, write: Any) -> None:
        path = write("zip,code,y\n01,2,a\n1,3,b\n01,2,a\n")
        for categorical in (["zip", "code"], [0, 1], [True, True]):
            levels = read_table(path, target="y", categorical=categorical).features.levels or []
            assert [one.tolist() for one in levels if one is not None] == [["01", "1"], [2, 3]]
        path = write("zip,y\n2.0,a\n2,b\n,b\n")
        features = read_table(path, target="y", categorical=["zip"]).features
        np.testing.assert_array_equal(features.array[:, 0], [1, 0, np.nan])
        assert (features.levels or [])[0].tolist() == ["2", "2.0"]

    def test_categories_that_a_model_knows(self, write: Any) -> None:
        path = write("zip,b\n01,2\n1,3\n")
        ((features, _),) = read_batches(path, columns=["zip"], categorical=["zip"], text=["zip"])
        assert (features.levels or [])[0].tolist() == ["01", "1"]
        for columns in (["zip"], ["zip", "b"]):
            with pytest.warns(UserWarning, match="'zip' of .* has the category '01', but the model knows numbers"):
                ((features, _),) = read_batches(path, columns=columns, categorical=["zip"])
            assert (features.levels or [])[0].tolist() == [1]
        with pytest.warns(UserWarning, match="has the category '01'"):
            read_table(path, columns=["zip"], categorical=["zip"])

    def test_numbers_with_zeros_in_front_are_warned_about(self, write: Any) -> None:
        path = write("zip,b,y\n02139,1,u\n,02,u\n01001,3,v\n")
        match = r"Column 'zip' of .* such as '02139', .*\(--categorical-features\) .*\(--drop\)"
        with pytest.warns(UserWarning, match=match) as found:
            read_table(path, target="y", categorical="from_dtype")
        assert len(found) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_table(path, target="y", drop=["zip"])
            read_table(path, target="y", categorical=["zip"])
            read_table(path, target="y", categorical="from_dtype", text=["zip"])
            read_table(path, columns=["zip", "b"])

    @pytest.mark.parametrize(
        "cell", ["2020-01-01", "2020-01-01 12:30:00", "2020-01-01T12:30:00.5Z", "12:30:00", "12:30", " 2020-12-31 "]
    )
    def test_dates_and_times(self, cell: str, write: Any) -> None:
        path = write("when,y\n" + f"{cell},u\n,v\n" * 20)
        shown = re.escape(repr(cell.strip()))
        match = rf"Column 'when' of .* has dates or times, such as {shown}, .*--drop.*--categorical-features"
        for categorical in ("from_dtype", None):
            with pytest.raises(ValueError, match=match):
                read_table(path, target="y", categorical=categorical)
        for how in ({"categorical": ["when"]}, {"categorical": "from_dtype", "dates_as_text": True}):
            levels = read_table(path, target="y", **how).features.levels or []
            assert levels[0].tolist() == [cell.strip()]
        ((features, _),) = read_batches(path, columns=["when"], categorical=["when"], text=["when"])
        assert (features.levels or [])[0].tolist() == [cell.strip()]


def test_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"a": [1, 2], "b": pd.array([None, 0.5], dtype="Float64"), "y": pd.Categorical(["u", "v"])}, index=[5, 7]
    )
    frame.to_parquet(tmp_path / "data.parquet")
    data = read_table(tmp_path / "data.parquet", target="y")
    assert data.features.names == ["a", "b"]
    np.testing.assert_array_equal(data.features.values, [[1, np.nan], [2, 0.5]])
    assert data.labels is not None
    assert data.labels.tolist() == ["u", "v"]


def test_parquet_labels_that_are_dates_become_text(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "y": pa.array([0, 1], pa.date32())})
    parquet.write_table(table, tmp_path / "data.pq")
    labels = read_table(tmp_path / "data.pq", target="y").labels
    assert labels is not None
    assert labels.tolist() == ["1970-01-01", "1970-01-02"]


def test_batches_of_parquet_take_no_memory_for_the_rest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    block = pa.table({f"f{j}": np.random.default_rng(j).normal(size=20_000) for j in range(5)})
    with parquet.ParquetWriter(path, block.schema) as writer:
        for _ in range(40):
            writer.write_table(block)
    before = pa.total_allocated_bytes()
    taken = [pa.total_allocated_bytes() - before for _ in read_batches(path)]
    assert len(taken) > 3
    assert max(taken) < 0.4 * path.stat().st_size


def test_bad_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(b"PAR1 nonsense")
    with pytest.raises(ValueError, match=r"data\.parquet is not a valid Parquet file"):
        read_table(path)
    parquet.write_table(pa.table({"a": [1], "y": pa.array([None], pa.string())}), path)
    with pytest.raises(ValueError, match=r"target 'y' of .* is empty in row 1"):
        read_table(path, target="y")
    monkeypatch.setattr(tablewriting, "find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"data\.parquet need pyarrow.*pip install 'abc-plugins\[tables\]'"):
        read_table(path)
    with pytest.raises(ModuleNotFoundError, match="need pyarrow"):
        write_table(path, {"a": np.arange(2)})


COLUMNS = {"label": np.array(["a", 'b,"c"']), "p": np.array([0.1, 1e-20]), "n": np.array([1, 2])}


def test_written_csv_reads_back_exactly(tmp_path: Path, reader: str) -> None:
    write_table(tmp_path / "out.csv", COLUMNS)
    data = read_table(tmp_path / "out.csv", target="label")
    assert data.labels is not None, reader
    assert data.labels.tolist() == COLUMNS["label"].tolist()
    assert data.features.values.tolist() == [[0.1, 1], [1e-20, 2]]


def test_written_parquet_reads_back_exactly(tmp_path: Path) -> None:
    write_table(tmp_path / "out.parquet", COLUMNS)
    assert parquet.read_table(tmp_path / "out.parquet").to_pydict() == {n: c.tolist() for n, c in COLUMNS.items()}


def test_features_are_read_again_with_their_names() -> None:
    features = Features(np.array([[1.0, 2.0]]), ["a", "b"])
    again = read_features(features, names=["a", "b"], n_features=2)
    assert again.values is features.values
    assert again.names == ["a", "b"]
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        read_features(features, names=["b", "a"], n_features=2)
