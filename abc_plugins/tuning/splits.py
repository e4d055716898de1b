"""Outer folds that score a trial, and within each one an inner split that stops the training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, StratifiedGroupKFold, StratifiedKFold, train_test_split

from abc_plugins.core.runtime.arrays import AnyArray, Integers
from abc_plugins.core.runtime.checks import check_integer, fail

Rows = AnyArray
_ROWS_TO_SCORE, _MOST_REPEATS = 500, 3
_ROWS_TO_STOP = 250
_ALLOWED = "a whole number of at least 2, a scikit-learn splitter, or a list of (train rows, test rows)"


@dataclass(frozen=True)
class Fold:
    """Row numbers of one fold.

    Attributes
    ----------
    train : array of int
        Rows that trees are grown from.
    valid : array of int
        Rows that decide when to stop; they are part of the fold's training data.
    test : array of int
        Rows that score the trial; neither training nor stopping sees them.
    """

    train: Rows
    valid: Rows
    test: Rows


def usual_repeats(cv: Any, n_samples: int) -> int:
    """How often folds are drawn anew by default: the score of a few hundred rows depends on how they fell."""
    if not isinstance(cv, int | np.integer):
        return 1
    return max(1, min(-(-_ROWS_TO_SCORE // n_samples), _MOST_REPEATS))


def usual_validation_fraction(n_samples: int) -> float:
    """Share of a fold's training rows that stops the training by default: more where there are few rows."""
    return float(np.clip(_ROWS_TO_STOP / n_samples, 0.1, 0.25))


def make_folds(
    cv: Any, codes: Integers, groups: AnyArray | None, validation_fraction: float, seed: int, repeats: int = 1
) -> list[Fold]:
    """Split the rows.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test)
        A number of folds is stratified and shuffled; with `groups`, no group is in two folds.
    codes : array of int, shape (n_samples,)
        Class indices.
    groups : array of shape (n_samples,), optional
        The inner split keeps groups together as well.
    validation_fraction : float
        Share of a fold's training rows that is set aside for early stopping. If the test rows of all folds come
        after their training rows, it is the last ones, else a random share.
    seed : int
    repeats : int, default=1
        Draw the folds this many times, where `cv` is a number.
    """
    if repeats > 1 and not isinstance(cv, int | np.integer):
        fail("repeats", repeats, "1, or None, unless cv is a number of folds")
    outer_folds = [fold for repeat in range(repeats) for fold in _outer(cv, codes, groups, seed + repeat)]
    pairs = [(_rows(train, codes.size), _rows(test, codes.size)) for train, test in outer_folds]
    if not pairs:
        fail("cv", cv, _ALLOWED)
    ordered = all(train.size and test.size and train.max() < test.min() for train, test in pairs)
    folds = []
    for index, (outer, test) in enumerate(pairs):
        if np.intersect1d(outer, test).size:
            raise ValueError(f"cv must not have rows in the training and the test part of a fold; fold {index} does.")
        train, valid = _inner(outer, codes, groups, validation_fraction, seed + index, ordered)
        if not (train.size and valid.size and test.size):
            sizes = f"{train.size} rows to train, {valid.size} to stop and {test.size} to score"
            raise ValueError(f"fold {index} of cv has {sizes}; each part needs at least one.")
        folds.append(Fold(train, valid, test))
    return folds


def _outer(cv: Any, codes: Integers, groups: AnyArray | None, seed: int) -> Iterable[Any]:
    features = np.empty((codes.size, 0))
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        n_splits = check_integer("cv", cv, minimum=2, maximum=codes.size)
        largest = int(np.bincount(codes).max())
        if largest < n_splits:
            fail("cv", cv, f"at most {largest}, the rows of the largest class")
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        return kind(n_splits, shuffle=True, random_state=seed).split(features, codes, groups)
    if hasattr(cv, "split") and not isinstance(cv, str | bytes):
        return cv.split(features, codes, groups)
    if isinstance(cv, Iterable) and not isinstance(cv, str | bytes):
        return cv
    raise TypeError(f"cv must be {_ALLOWED}; got {cv!r}.")


def _rows(rows: Any, n_samples: int) -> Rows:
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n_samples,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        fail("cv", f"{rows.dtype} of shape {rows.shape}", "folds of row numbers or of truth values", TypeError)
    if rows.size and (rows.min() < 0 or rows.max() >= n_samples):
        fail("cv", f"rows from {rows.min()} to {rows.max()}", f"folds of row numbers from 0 to {n_samples - 1}")
    return rows.astype(np.int64)


def _inner(
    outer: Rows, codes: Integers, groups: AnyArray | None, fraction: float, seed: int, ordered: bool
) -> tuple[Rows, Rows]:
    if ordered:
        outer = np.sort(outer)
        n_valid = int(np.ceil(fraction * outer.size))
        train, valid = outer[:-n_valid], outer[-n_valid:]
        return (train, valid) if groups is None else (train[~np.isin(groups[train], groups[valid])], valid)
    if groups is not None:
        if np.unique(groups[outer]).size < 2:
            raise ValueError("groups must have at least 2 values in the training part of every fold.")
        splitter = GroupShuffleSplit(1, test_size=fraction, random_state=seed)
        train, valid = next(splitter.split(outer, groups=groups[outer]))
        return outer[train], outer[valid]
    # A class must not be missing among the rows that trees are grown from: single rows of a class go there.
    single = np.bincount(codes[outer])[codes[outer]] < 2
    if np.count_nonzero(~single) < 2:
        single[:] = False
    alone, outer = outer[single], outer[~single]
    n_valid, n_classes = int(np.ceil(fraction * outer.size)), np.unique(codes[outer]).size
    possible = min(n_valid, outer.size - n_valid) >= n_classes
    train, valid = train_test_split(
        outer, test_size=fraction, random_state=seed, stratify=codes[outer] if possible else None
    )
    return np.sort(np.concatenate((train, alone))), np.sort(valid)
