"""The table that contenders fit on, and the samples of a split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import train_test_split

from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.data.datasets import Dataset

MAX_TRAIN, MAX_TEST = 8_000, 20_000
VALID_SHARE = 0.2
_MIN_ROWS = 10
"""Rows of a class that takes part."""
_MIN_TRAINING_ROWS = 5
"""Of a class in a split: one goes to the validation part."""


@dataclass(frozen=True)
class Table:
    """Samples with labels that are class indices.

    Attributes
    ----------
    name : str
    X : array of shape (n_samples, n_features)
        Categories are codes 0, 1, ...; NaN is missing.
    y : array of int
        Indices into `classes`.
    classes : list of str
        Sorted as text.
    categorical : tuple of int
        Columns that are codes of categories.
    rows : array of int
        Row of each sample in the data set.
    left_out : tuple of str
        What was left out, in words.
    """

    name: str
    X: AnyArray
    y: AnyArray
    classes: list[str]
    categorical: tuple[int, ...]
    rows: AnyArray
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parts:
    """Rows of one split: to fit on, to stop by, to test on."""

    fit: AnyArray
    valid: AnyArray
    test: AnyArray
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sample:
    """What a contender is given.

    Attributes
    ----------
    X, y, X_valid, y_valid : arrays
        Training samples and those that stop the training; labels are 0 .. n_classes - 1.
    n_classes : int
    categorical : tuple of int
    n_levels : tuple of int
        Levels of each categorical column, in the whole table.
    seed, n_jobs, rounds : int
        Seed of the contender, its threads, and the limit of rounds.
    """

    X: Floats
    y: AnyArray
    X_valid: Floats
    y_valid: AnyArray
    n_classes: int
    categorical: tuple[int, ...]
    n_levels: tuple[int, ...]
    seed: int
    n_jobs: int
    rounds: int


def make_table(dataset: Dataset) -> Table:
    """Number the classes, and leave out those that are too small to be learned, stopped by and tested on."""
    labels = np.array([str(label) for label in dataset.y.tolist()])
    classes, y, counts = np.unique(labels, return_inverse=True, return_counts=True)
    large = counts >= _MIN_ROWS
    if large.sum() < 2:
        raise ValueError(
            f"{dataset.name} must have at least two classes of {_MIN_ROWS} rows or more; the largest have "
            f"{', '.join(f'{str(classes[k])!r}: {counts[k]}' for k in np.argsort(-counts)[:3])}."
        )
    keep = np.flatnonzero(large[y])
    small = [f"{name} ({count})" for name, count in zip(classes[~large], counts[~large], strict=True)]
    left_out = (f"classes of fewer than {_MIN_ROWS} rows: {_listed(small)}",) if small else ()
    index = np.cumsum(large) - 1
    categorical = tuple(dataset.feature_names.index(name) for name in dataset.categorical)
    return Table(dataset.name, dataset.X, index[y[keep]], classes[large].tolist(), categorical, keep, left_out)


def split_rows(
    table: Table, seed: int, *, test_size: float = 0.5, max_train: int | None = MAX_TRAIN, max_test: int = MAX_TEST
) -> Parts:
    """Draw a stratified split: rows to fit on, a fifth of the training rows to stop by, and rows to test on."""
    y = table.y
    if min(test_size, 1 - test_size) * y.size < len(table.classes):
        raise ValueError(
            f"a split needs a row of each of the {len(table.classes)} classes to train and to test on; {table.name} "
            f"has {y.size} rows, and the test size is {test_size:g}."
        )
    train, test = train_test_split(np.arange(y.size), test_size=test_size, stratify=y, random_state=seed)
    return _with_validation(table, train, test[:max_test], seed, max_train)


def own_rows(table: Table, dataset: Dataset, seed: int, *, max_train: int | None = MAX_TRAIN) -> Parts:
    """The split of the literature; a fifth of its training rows stops the training."""
    assert dataset.train_index is not None
    assert dataset.test_index is not None
    train = np.flatnonzero(np.isin(table.rows, dataset.train_index))
    test = np.flatnonzero(np.isin(table.rows, dataset.test_index))
    return _with_validation(table, train, test, seed, max_train)


def _with_validation(table: Table, train: AnyArray, test: AnyArray, seed: int, max_train: int | None) -> Parts:
    """Cut the training rows, leave out classes that have too few of them, and take the validation part."""
    if max_train is not None and train.size > max_train:
        train = train_test_split(train, train_size=max_train, stratify=table.y[train], random_state=seed)[0]
    counts = np.bincount(table.y[train], minlength=len(table.classes))
    small = np.flatnonzero(counts < _MIN_TRAINING_ROWS)
    train, test = (rows[~np.isin(table.y[rows], small)] for rows in (train, test))
    if np.unique(table.y[train]).size < 2:
        raise ValueError(f"{table.name}: no two classes have {_MIN_TRAINING_ROWS} training rows.")
    fit, valid = train_test_split(train, test_size=VALID_SHARE, stratify=table.y[train], random_state=seed)
    named = _listed([table.classes[k] for k in small])
    left_out = (f"classes of fewer than {_MIN_TRAINING_ROWS} training rows: {named}",) if small.size else ()
    return Parts(fit, valid, test, left_out)


def make_sample(table: Table, parts: Parts, *, seed: int, n_jobs: int, rounds: int) -> tuple[Sample, Floats, AnyArray]:
    """The sample of a split, with features and labels of its test rows."""
    present, y = np.unique(table.y[parts.fit], return_inverse=True)
    index = np.full(len(table.classes), -1)
    index[present] = np.arange(present.size)
    X, X_valid, X_test = (
        np.ascontiguousarray(table.X[table.rows[rows]], dtype=np.float64)
        for rows in (parts.fit, parts.valid, parts.test)
    )
    n_levels = tuple(int(np.nanmax(table.X[:, column], initial=0)) + 1 for column in table.categorical)
    sample = Sample(
        X, y, X_valid, index[table.y[parts.valid]], present.size, table.categorical, n_levels, seed, n_jobs, rounds
    )
    return sample, X_test, index[table.y[parts.test]]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
