"""Real data sets with the splits of the literature, for comparisons and benchmarks.

Files are read from the folder named by the environment variable ABC_PLUGINS_DATA; scikit-learn's own sets need no
folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from abc_plugins.core.runtime.arrays import AnyArray

FOLDER_VARIABLE = "ABC_PLUGINS_DATA"


@dataclass(frozen=True)
class Dataset:
    """Samples with labels.

    Attributes
    ----------
    name : str
    X : array of shape (n_samples, n_features)
        Categories are codes: the index of the level among the sorted levels. NaN is missing.
    y : array of shape (n_samples,)
    feature_names : list of str
    train_index, test_index : array of int or None
        The split of the literature; None if there is none.
    categorical : list of str
        Features that are codes of categories.
    note : str
        What to know before using it.
    """

    name: str
    X: AnyArray
    y: AnyArray
    feature_names: list[str]
    train_index: AnyArray | None = None
    test_index: AnyArray | None = None
    categorical: tuple[str, ...] = ()
    note: str = ""

    def split(self, *, test_size: float = 0.5, seed: int = 0) -> tuple[AnyArray, AnyArray]:
        """Row numbers to train and to test on: those of the literature, else a random split of every class."""
        if self.train_index is not None and self.test_index is not None:
            return self.train_index, self.test_index
        _, codes, counts = np.unique(self.y, return_inverse=True, return_counts=True)
        stratify = codes if counts.min() >= 2 else None
        train, test = train_test_split(
            np.arange(self.y.size), test_size=test_size, random_state=seed, stratify=stratify, shuffle=True
        )
        return np.sort(train), np.sort(test)


@dataclass(frozen=True)
class _Source:
    """Where a data set comes from and how it is split.

    Attributes
    ----------
    file : str
    n_samples : int
        Rows the file must have: a split by row number is right only for the known order.
    n_train : int or None
        Train on the first rows and test on the others.
    train_last : bool
        Train on the last `n_train` rows instead.
    train_column : str or None
        Column that is true for training rows.
    drop : tuple of str
        Columns that are no features.
    """

    file: str
    n_samples: int
    n_train: int | None = None
    train_last: bool = False
    train_column: str | None = None
    drop: tuple[str, ...] = ()
    note: str = ""


_SORTED = "no split of its own; rows are sorted by class"
_SOURCES = {
    "covtype": _Source("covtype.parquet", 581012, train_column="is_train_abcboost", note="the split of the paper"),
    "mnist": _Source("mnist.npz", 70000, n_train=60000),
    "mnist10k": _Source("mnist.npz", 70000, n_train=10000, train_last=True, note="trained on MNIST's test set"),
    "letter": _Source("letter.parquet", 20000, n_train=16000),
    "letter10k": _Source("letter.parquet", 20000, n_train=10000, note="first and last half"),
    "pendigits": _Source("pendigits.parquet", 10992, n_train=7494, note="other writers in the test set"),
    "optdigits": _Source("optdigits.parquet", 5620, n_train=3823),
    "satimage": _Source("satimage.parquet", 6435, n_train=4435),
    "shuttle": _Source("shuttle.parquet", 58000, n_train=43500),
    "vowel": _Source("vowel.parquet", 990, train_column="is_train", drop=("speaker", "sex"), note="other speakers"),
    "kddcup99_10pct": _Source("kddcup99_10pct.parquet", 494021, note="many duplicate rows, classes with two rows"),
    "diabetes130": _Source("diabetes130.parquet", 101766, drop=("encounter_id", "patient_nbr")),
    "krkopt": _Source("krkopt.parquet", 28056, note=_SORTED),
    "nursery": _Source("nursery.parquet", 12960, note=_SORTED + "; one class has two rows"),
    "gas_drift": _Source(
        "gas_drift_8batches.parquet", 6697, drop=("batch", "concentration_ppmv"), note="8 of 10 batches"
    ),
    "wine_quality": _Source("wine_quality.parquet", 6497),
    "texture": _Source("texture.parquet", 5500),
    "splice": _Source("splice.parquet", 3190, note=_SORTED),
    "flavia_leaves": _Source("flavia_leaves.parquet", 1907),
    "isolet1560": _Source("isolet1560.parquet", 1560, note="1560 of 7797 rows"),
    "leaf99": _Source("leaf99.parquet", 990),
    "soybean": _Source("soybean.parquet", 683),
}
_BUNDLED = ("digits", "wine", "iris")
_DOWNLOADS = {
    "covtype": "covertype",
    "mnist": "mnist_784",
    "mnist10k": "mnist_784",
    "letter": "letter",
    "letter10k": "letter",
}
"""What scikit-learn can download -> its name at OpenML."""


def names() -> list[str]:
    """List the names that `load` knows."""
    return [*_BUNDLED, *_SOURCES]


def load(name: str, *, download: bool = False) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `names`.
    download : bool, default=False
        Let scikit-learn download Covertype, Letter and MNIST if there is no folder. Covertype then has UCI's split
        (15,120 rows to train on), not the paper's, and Letter none.
    """
    if name in _BUNDLED:
        return _load_bundled(name)
    if name not in _SOURCES:
        raise ValueError(f"data set must be one of {', '.join(names())}; got {name!r}.")
    source = _SOURCES[name]
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder and download and name in _DOWNLOADS:
        return _download(name)
    if not folder:
        raise FileNotFoundError(
            f"the data set {name!r} needs {source.file}: set the environment variable {FOLDER_VARIABLE} to its folder."
        )
    path = Path(folder) / source.file
    if not path.is_file():
        raise FileNotFoundError(f"the data set {name!r} needs {source.file} in {folder} (from {FOLDER_VARIABLE}).")
    dataset = _load_images(name, path, source) if path.suffix == ".npz" else _load_parquet(name, path, source)
    if dataset.y.size != source.n_samples:
        raise ValueError(f"{path} must have {source.n_samples} rows; got {dataset.y.size}.")
    return dataset


def _load_bundled(name: str) -> Dataset:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    return Dataset(name, bunch.data, bunch.target, [str(feature) for feature in bunch.feature_names])


def _download(name: str) -> Dataset:
    """Let scikit-learn download a data set; the split is the usual one only where the order of the rows is known."""
    from sklearn.datasets import fetch_covtype, fetch_openml

    try:
        bunch = fetch_covtype() if name == "covtype" else fetch_openml(_DOWNLOADS[name], version=1, as_frame=False)
    except OSError as error:
        raise FileNotFoundError(
            f"the data set {name!r} could not be downloaded ({error}); set the environment variable {FOLDER_VARIABLE} "
            f"to a folder that has {_SOURCES[name].file}."
        ) from error
    split: tuple[AnyArray | None, AnyArray | None] = (None, None)
    note = "from OpenML, whose order of rows is another: random splits"
    if name == "covtype":
        split, note = _split_rows(bunch.target.size, 11340 + 3780, train_last=False), "UCI's split, not the paper's"
    elif name.startswith("mnist"):
        split, note = _canonical_split(_SOURCES[name], bunch.target.size, None), _SOURCES[name].note
    columns = [str(column) for column in bunch.feature_names]
    return Dataset(name, np.asarray(bunch.data), np.asarray(bunch.target), columns, *split, note=note)


def _load_images(name: str, path: Path, source: _Source) -> Dataset:
    with np.load(path, allow_pickle=False) as arrays:
        X, y = arrays["X"], arrays["y"]
    columns = [f"pixel{index}" for index in range(X.shape[1])]
    return Dataset(name, X, y, columns, *_canonical_split(source, y.size, None), note=source.note)


def _load_parquet(name: str, path: Path, source: _Source) -> Dataset:
    try:
        from pyarrow import parquet, types
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{path} needs pyarrow: pip install 'abc-plugins[tables]'") from error
    table = parquet.ParquetFile(path).read()
    left_out = {"target", source.train_column, *source.drop}
    features = [column for column in table.column_names if column not in left_out]
    categorical = tuple(column for column in features if types.is_dictionary(table.schema.field(column).type))
    columns = [_column_values(table.column(column)) for column in features]
    X = np.empty((table.num_rows, len(features)), dtype=np.result_type(*columns), order="F")
    for index, column in enumerate(columns):
        X[:, index] = column
    y = _label_values(table.column("target"))
    is_train = None if source.train_column is None else table.column(source.train_column).to_numpy()
    note = "; ".join(part for part in (source.note, _category_note(categorical)) if part)
    split = _canonical_split(source, y.size, is_train)
    return Dataset(name, X, y, features, *split, categorical=categorical, note=note)


def _column_values(column: Any) -> AnyArray:
    """Read numbers as they are, categories as codes of their sorted levels; nulls become NaN."""
    from pyarrow import types

    if not types.is_dictionary(column.type):
        return np.asarray(column.to_numpy())
    levels, indices = _levels(column)
    ranks = np.empty(levels.size)
    ranks[np.argsort(levels)] = np.arange(levels.size)
    missing = np.isnan(indices)
    codes = np.where(missing, np.nan, ranks[np.where(missing, 0, indices).astype(np.int64)])
    return codes if missing.any() else codes.astype(np.int32)


def _label_values(column: Any) -> AnyArray:
    from pyarrow import types

    if not types.is_dictionary(column.type):
        return np.asarray(column.to_numpy())
    levels, indices = _levels(column)
    return levels[indices.astype(np.int64)]


def _levels(column: Any) -> tuple[AnyArray, AnyArray]:
    """Levels of a dictionary column, and every row's index into them, NaN for a null."""
    array = column.unify_dictionaries().combine_chunks()
    indices = array.indices.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.array(array.dictionary.to_pylist()), indices


def _category_note(categorical: tuple[str, ...]) -> str:
    return f"{len(categorical)} categorical features given as integer codes" if categorical else ""


def _canonical_split(
    source: _Source, n_samples: int, is_train: AnyArray | None
) -> tuple[AnyArray | None, AnyArray | None]:
    if is_train is not None:
        return np.flatnonzero(is_train), np.flatnonzero(~is_train)
    if source.n_train is not None:
        return _split_rows(n_samples, source.n_train, train_last=source.train_last)
    return None, None


def _split_rows(n_samples: int, n_train: int, *, train_last: bool) -> tuple[AnyArray, AnyArray]:
    rows = np.arange(n_samples)
    return (rows[-n_train:], rows[:-n_train]) if train_last else (rows[:n_train], rows[n_train:])
