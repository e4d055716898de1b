"""Data sets by name: splits, columns left out, categories, errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sklearn.datasets
from pyarrow import parquet

from abc_plugins.data.datasets import FOLDER_VARIABLE, Dataset, load

needs_data = pytest.mark.skipif(not os.environ.get(FOLDER_VARIABLE), reason=f"{FOLDER_VARIABLE} is not set")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("name", "shape", "n_classes"), [("digits", (1797, 64), 10), ("iris", (150, 4), 3)])
def test_bundled_sets_need_no_folder(
    name: str, shape: tuple[int, int], n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    dataset = load(name)
    assert dataset.X.shape == shape
    assert len(dataset.feature_names) == shape[1]
    assert np.unique(dataset.y).size == n_classes
    assert dataset.train_index is None


def test_a_split_by_row_number(folder: Path) -> None:
    rows = np.arange(20000)
    labels = pa.array([chr(ord("A") + row % 26) for row in rows]).dictionary_encode()
    parquet.write_table(pa.table({"row": rows.astype(np.int16), "target": labels}), folder / "letter.parquet")
    for name, n_train in (("letter", 16000), ("letter10k", 10000)):
        dataset = load(name)
        train, test = dataset.split()
        assert dataset.X.dtype == np.int16
        assert dataset.y[:3].tolist() == ["A", "B", "C"]
        assert train.tolist() == list(range(n_train))
        assert test.tolist() == list(range(n_train, 20000))


def test_mnist10k_trains_on_the_last_rows(folder: Path) -> None:
    np.savez(folder / "mnist.npz", X=np.zeros((70000, 1), np.uint8), y=np.arange(70000, dtype=np.int64) % 10)
    train, test = load("mnist10k").split()
    assert (train[0], train[-1], test[0], test[-1]) == (60000, 69999, 0, 59999)
    train, test = load("mnist").split()
    assert (train[0], train[-1], test[0], test[-1]) == (0, 59999, 60000, 69999)


def test_a_split_by_column_and_columns_left_out(folder: Path) -> None:
    is_train = np.arange(990) % 3 == 0
    table = {"f0": np.linspace(0, 1, 990), "speaker": ["s"] * 990, "sex": ["x"] * 990, "is_train": is_train}
    parquet.write_table(pa.table(table | {"target": np.arange(990) % 11}), folder / "vowel.parquet")
    dataset = load("vowel")
    assert dataset.feature_names == ["f0"]
    assert dataset.train_index is not None
    assert dataset.train_index.tolist() == np.flatnonzero(is_train).tolist()
    assert dataset.test_index is not None
    assert dataset.test_index.tolist() == np.flatnonzero(~is_train).tolist()


def test_categories_are_codes_of_sorted_levels(folder: Path) -> None:
    cells = (["b", "c", None, "a"] * 171)[:683]
    table = {"cat": pa.array(cells).dictionary_encode(), "full": pa.array(["v", "u"] * 341 + ["v"]).dictionary_encode()}
    parquet.write_table(pa.table(table | {"target": np.arange(683) % 19}), folder / "soybean.parquet")
    dataset = load("soybean")
    np.testing.assert_array_equal(dataset.X[:4, 0], [1, 2, np.nan, 0])
    np.testing.assert_array_equal(dataset.X[:2, 1], [1, 0])
    assert dataset.categorical == ("cat", "full")
    assert "2 categorical features given as integer codes" in dataset.note


def test_random_splits_keep_the_shares_of_the_classes() -> None:
    dataset = load("digits")
    train, test = dataset.split(test_size=0.5, seed=1)
    assert sorted(np.concatenate([train, test]).tolist()) == list(range(1797))
    assert np.abs(np.bincount(dataset.y[train]) - np.bincount(dataset.y[test])).max() <= 1
    assert train.tolist() == dataset.split(seed=1)[0].tolist()
    assert train.tolist() != dataset.split(seed=2)[0].tolist()
    rare = Dataset("rare", np.zeros((10, 1)), np.array([0] * 9 + [1]), ["x"])
    assert sum(part.size for part in rare.split()) == 10


def test_errors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"data set must be one of digits, wine, iris, covtype, .*; got 'cifar'"):
        load("cifar")
    with pytest.raises(FileNotFoundError, match=r"the data set 'letter' needs letter\.parquet in "):
        load("letter")
    parquet.write_table(pa.table({"f0": [1], "target": [1]}), folder / "letter.parquet")
    with pytest.raises(ValueError, match=r"letter\.parquet must have 20000 rows; got 1"):
        load("letter")
    monkeypatch.delenv(FOLDER_VARIABLE)
    with pytest.raises(
        FileNotFoundError, match=f"'covtype' needs covtype.parquet: set the environment variable {FOLDER_VARIABLE}"
    ):
        load("covtype")


def test_covtype_is_downloaded_only_when_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    bunch = sklearn.utils.Bunch(data=np.zeros((20000, 2)), target=np.ones(20000, np.int32), feature_names=["a", "b"])
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", lambda: bunch)
    dataset = load("covtype", download=True)
    assert dataset.train_index is not None
    assert dataset.train_index.size == 15120
    assert "not the paper's" in dataset.note


def test_other_sets_come_from_openml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    asked = []

    def fetch(name: str, *, version: int, as_frame: bool) -> Any:
        asked.append((name, version, as_frame))
        return sklearn.utils.Bunch(data=np.zeros((70000, 1)), target=np.full(70000, "a"), feature_names=["x"])

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    mnist = load("mnist10k", download=True)
    assert mnist.train_index is not None
    assert mnist.train_index.tolist() == list(range(60000, 70000))
    letter = load("letter", download=True)
    assert letter.train_index is None
    assert "order of rows is another" in letter.note
    assert asked == [("mnist_784", 1, False), ("letter", 1, False)]


def test_a_download_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)

    def fail() -> None:
        raise OSError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", fail)
    with pytest.raises(
        FileNotFoundError, match=r"'covtype' could not be downloaded \(no network\); set the environment"
    ):
        load("covtype", download=True)


SPLITS: dict[str, Any] = {
    "covtype": (290506, 290506, 54, 7),
    "mnist10k": (10000, 60000, 784, 10),
    "letter10k": (10000, 10000, 16, 26),
    "pendigits": (7494, 3498, 16, 10),
    "optdigits": (3823, 1797, 64, 10),
    "satimage": (4435, 2000, 36, 6),
    "shuttle": (43500, 14500, 9, 7),
    "vowel": (528, 462, 10, 11),
    "diabetes130": (50883, 50883, 47, 3),
    "gas_drift": (3348, 3349, 128, 6),
}


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("name", SPLITS)
def test_real_sets(name: str) -> None:
    dataset = load(name)
    train, test = dataset.split()
    assert (train.size, test.size, dataset.X.shape[1], np.unique(dataset.y).size) == SPLITS[name]
    assert np.intersect1d(train, test).size == 0
    if name == "covtype":  # as published with the paper's split
        assert np.bincount(dataset.y[train])[1:].tolist() == [106027, 141328, 17982, 1360, 4752, 8744, 10313]
    if name == "letter10k":
        assert dataset.y[:5].tolist() == list("TIDNG")
