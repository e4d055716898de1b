"""What a study is given: features, labels, weights, groups and a test set, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.class_weight import compute_sample_weight

from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.values import is_missing
from abc_plugins.data.categories import FROM_DTYPE
from abc_plugins.data.labels import encode_labels, read_labels
from abc_plugins.data.tables import Features, read_features, read_weights
from abc_plugins.tuning.engines.base import FoldData, Samples, TunedEngine
from abc_plugins.tuning.engines.tables import take_rows
from abc_plugins.tuning.splits import Fold


@dataclass(frozen=True)
class StudyData:
    """Checked data of a study.

    Attributes
    ----------
    X : table, array or sparse matrix
        As the user gave it, or as the engine takes it.
    shape : (int, int)
        Rows and features.
    names : list of str or None
        Of the columns.
    is_text : list of bool or None
        Which columns are text or categories; None if none is.
    contents : list of array
        All that X holds, for the fingerprint.
    codes : array of int32, shape (n_samples,)
    classes : array of shape (n_classes,)
    weights : array of shape (n_samples,) or None
        Of the samples.
    training_weights : array of shape (n_samples,) or None
        Those times the weights of the classes.
    groups : array of shape (n_samples,) or None
    """

    X: Any
    shape: tuple[int, int]
    names: list[str] | None
    is_text: list[bool] | None
    contents: list[AnyArray]
    codes: Integers
    classes: AnyArray
    weights: Floats | None
    training_weights: Floats | None
    groups: AnyArray | None

    def fingerprint(self) -> dict[str, list[AnyArray] | None]:
        """All that the study depends on, by name."""
        return {
            "X": self.contents,
            "y": [self.classes[self.codes]],
            "sample_weight": None if self.weights is None else [self.weights],
            "groups": None if self.groups is None else [self.groups],
        }

    def fold(self, fold: Fold) -> FoldData:
        """The rows of a fold."""
        weights = self.training_weights
        train = fold.train if weights is None else fold.train[weights[fold.train] > 0]
        present = np.unique(self.codes[train])
        # A class that is not trained on cannot stop the training.
        valid = fold.valid[np.isin(self.codes[fold.valid], present)]
        if present.size < 2 or not valid.size:
            raise ValueError(
                f"a fold of cv has {train.size} rows of {present.size} classes to train and {valid.size} rows of these "
                "classes to stop; give more rows, or other folds."
            )
        place = np.zeros(self.classes.size, dtype=np.int32)
        place[present] = np.arange(present.size, dtype=np.int32)
        return FoldData(
            train=Samples(
                take_rows(self.X, train),
                place[self.codes[train]],
                None if weights is None else weights[train],
            ),
            valid=Samples(take_rows(self.X, valid), place[self.codes[valid]], self._weights(valid)),
            test=Samples(take_rows(self.X, fold.test), self.codes[fold.test], self._weights(fold.test)),
            present=present,
        )

    def _weights(self, rows: AnyArray) -> Floats | None:
        return None if self.weights is None else self.weights[rows]


@dataclass(frozen=True)
class TestSet:
    """Rows that are scored once, at the end."""

    X: Any
    codes: Integers
    weights: Floats | None


def read_data(X: Any, y: Any, sample_weight: Any, groups: Any, class_weight: Any, engine: TunedEngine) -> StudyData:
    """Read the data of a study."""
    read = X if issparse(X) or isinstance(X, Features) else read_features(X, categorical=FROM_DTYPE)
    shape, contents = _contents(read)
    names, is_text = (read.names, _text_columns(read)) if isinstance(read, Features) else (None, None)
    classes, codes = read_labels(y)
    if shape[0] != codes.size:
        raise ValueError(f"X and y must have the same number of samples; got {shape[0]} rows and {codes.size} labels.")
    if classes.size < 2:
        fail("y", f"only {classes[0]!r}", "labels of at least 2 classes")
    if groups is not None:
        groups = np.asarray(groups)
        if groups.shape != (codes.size,):
            fail("groups", f"shape {groups.shape}", f"an array of shape ({codes.size},)")
        missing = next((row for row, group in enumerate(groups.tolist()) if is_missing(group)), None)
        if missing is not None:
            fail(f"groups[{missing}]", groups[missing], "a group, no missing value")
    weights = read_weights(sample_weight, codes.size)
    training = weights
    if class_weight is not None:
        training = compute_sample_weight(class_weight, classes[codes]) * (1.0 if weights is None else weights)
    table = engine.read(X)
    return StudyData(table, shape, names, is_text, contents, codes, classes, weights, training, groups)


def read_test(test: Any, data: StudyData, refit: bool) -> TestSet | None:
    """Check the test set against the training data."""
    if test is None:
        return None
    if not isinstance(test, list | tuple) or len(test) not in (2, 3):
        what = f"{len(test)} items" if isinstance(test, list | tuple) else type(test).__name__
        fail("test", what, "a tuple (X, y) or (X, y, sample_weight)", TypeError)
    if not refit:
        fail("refit", refit, "True with a test set, which the refitted estimator is scored on")
    codes = encode_labels(test[1], data.classes, input_name="y of test")
    n_rows = _read_like(test[0], data).values.shape[0]
    if n_rows != codes.size:
        raise ValueError(f"X and y of test must have the same length; got {n_rows} and {codes.size}.")
    weights = read_weights(test[2] if len(test) == 3 else None, codes.size, input_name="sample_weight of test")
    return TestSet(test[0], codes, weights)


def _read_like(X: Any, data: StudyData) -> Features:
    """Read the table of a test set, whose columns must be those that are tuned on."""
    try:
        return read_features(
            X,
            names=data.names,
            n_features=data.shape[1],
            input_name="X of test",
            owner="the study",
            categorical=data.is_text,
        )
    except ValueError as error:
        raise ValueError(f"X of test must have the columns of X. {error}") from error


def _text_columns(features: Features) -> list[bool] | None:
    return None if features.levels is None else [levels is not None for levels in features.levels]


def _contents(X: Any) -> tuple[tuple[int, int], list[AnyArray]]:
    """Shape of a table, and all that it holds."""
    if issparse(X):
        matrix = X.tocsr()
        return (int(matrix.shape[0]), int(matrix.shape[1])), [matrix.data, matrix.indices, matrix.indptr]
    levels = [np.asarray(one.tolist(), dtype=object) for one in X.levels or () if one is not None]
    n_rows, n_features = X.values.shape
    return (int(n_rows), int(n_features)), [X.array, *levels]
