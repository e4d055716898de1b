"""Comparisons on files: numbers, text, dates and missing cells, and the page that is made of the result."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pages import Page

from abc_plugins import cli
from abc_plugins.compare import contenders
from abc_plugins.compare.reading import read_dataset
from abc_plugins.data.csvfiles import CsvFormat

MESSY = """size,colour,when,seen,name,mixed,void,kind
1.5,red,2024-01-05,05.01.2024,anna,1,,x
,blue,2024-02-01,01.02.2024,ben,a,,y
2.5,,2024-03-09,,carl,,,z
"""


def write_messy(path: Path, repeats: int = 30) -> None:
    header, *rows = MESSY.strip().split("\n")
    lines = [row.replace(name, f"{name}{i}") for i in range(repeats) for row, name in zip(rows, ("anna", "ben", "carl"), strict=True)]  # fmt: skip  # noqa: E501
    path.write_text("\n".join([header, *lines]) + "\n")


@pytest.mark.parametrize("with_arrow", [True, False])
def test_text_and_dates_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_arrow: bool) -> None:
    if not with_arrow:
        monkeypatch.setattr("abc_plugins.data.tablefiles.find_spec", lambda _: None)
    else:
        pytest.importorskip("pyarrow")
    write_messy(tmp_path / "messy.csv")
    data = read_dataset(str(tmp_path / "messy.csv"), "kind")
    assert data.feature_names == ["size", "colour", "when", "seen", "mixed"]
    assert data.categorical == ("colour", "mixed")
    assert data.note == (
        "dates counted in days: when, seen; left out, since hardly any text in it repeats: name; left out, since it is "
        "empty: void"
    )
    days = [19727.0, 19754.0, 19791.0]  # since 1970
    np.testing.assert_array_equal(data.X[:3, 2], days)
    np.testing.assert_array_equal(data.X[:3, 3], [*days[:2], np.nan])
    np.testing.assert_array_equal(data.X[:3, 0], [1.5, np.nan, 2.5])
    assert np.isnan(data.X[2, [1, 4]]).all()


def test_numbers_that_are_categories_and_cells_that_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "codes.csv"
    path.write_text("code,day,size,kind\n1,20240106,none,a\n" + "1,20240105,3,a\n2,20240105,4,b\n" * 20)
    with pytest.raises(ValueError, match=r"Column 'size' of .* has numbers in 40 rows, but 'none'"):
        read_dataset(str(path), "kind")
    form = CsvFormat(missing=("none",))
    assert read_dataset(str(path), "kind", form=form).categorical == ()
    data = read_dataset(str(path), "kind", categorical=["code", "day"], form=form)
    assert (data.categorical, data.note) == (("code", "day"), "")
    np.testing.assert_array_equal(data.X[:3, 0], [0, 0, 1])
    np.testing.assert_array_equal(data.X[:3, 2], [np.nan, 3, 4])
    with pytest.raises(ValueError, match=r"categorical_features must be columns of .* that are features; got 'cod'"):
        read_dataset(str(path), "kind", categorical=["cod"], form=form)


def test_the_command_on_a_messy_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    write_messy(tmp_path / "messy.csv")
    options = ["compare", "messy.csv", "--target", "kind", "--splits", "2", "--rounds", "4", "--quiet"]
    assert cli.main(options) == 0
    first = capsys.readouterr()
    assert "5 features (2 of them categories), 3 classes; 2 random splits, 1 thread" in first.out
    assert "left out, since hardly any text in it repeats: name" in first.out
    results = json.loads(Path("compare-messy/results.json").read_text())
    assert {row["contender"] for row in results["table"]} == {one.key for one in contenders() if one.is_installed}
    page = Page()
    page.feed(Path("compare-messy/index.html").read_text())
    assert len(page.sources) in (4, 6)  # a wide and a narrow version each; all may be too good for calibration
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    for row in results["table"]:
        assert any(row["title"] in text for text in page.texts)
    assert all(sentence in page.texts for sentence in results["verdict"])
    assert cli.main(options) == 0  # nothing is fitted again
    assert capsys.readouterr().out == first.out
    assert cli.main([*options, "--max-train", "60"]) == 1
    assert "settings.max_train is 8000 there and 60 here" in capsys.readouterr().err


def test_infinite_values_of_a_file_count_as_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """XGBoost and the forest take none."""
    path, random = tmp_path / "infinite.csv", np.random.default_rng(0)
    values = [str(value) for value in random.normal(size=80)]
    values[3], values[5], values[7] = "inf", "-inf", "1e200"
    path.write_text("a,b,kind\n" + "".join(f"{value},{i},{'xy'[i % 2]}\n" for i, value in enumerate(values)))
    data = read_dataset(str(path), "kind")
    assert np.flatnonzero(np.isnan(data.X[:, 0])).tolist() == [3, 5, 7]
    assert data.note == "infinite values and others beyond 3.4e+38 count as missing: a"
    command = ["compare", str(path), "--target", "kind", "--splits", "1", "--rounds", "2", "--quiet"]
    engines = [one.key for one in contenders() if one.is_installed and one.key in ("xgboost", "forest")]
    assert cli.main([*command, "--engines", *engines, "--out", str(tmp_path / "out")]) == 0, capsys.readouterr().err
