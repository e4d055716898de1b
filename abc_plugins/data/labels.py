"""Labels of any kind and table library as class indices."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from abc_plugins.core.runtime.arrays import AnyArray, Integers
from abc_plugins.core.runtime.values import is_missing
from abc_plugins.data.columns import warn_caller
from abc_plugins.data.tables import series_values

_COUNTED_LABELS = 2**16
_MAX_LISTED = 5
"""Labels listed in an error message before the rest is left out."""


def read_labels(y: Any, *, input_name: str = "y") -> tuple[AnyArray, Integers]:
    """Read the labels of the training data.

    Labels may be of any hashable kind whose values can be sorted; a list of tuples is a list of labels.

    Returns
    -------
    classes : array of shape (n_classes,)
        The distinct labels in ascending order, with the dtype they came in.
    codes : array of int32, shape (n_samples,)
        The class index of every label.
    """
    classes, codes = _factorize(_label_array(y, input_name), input_name)
    if classes.size < 2:
        raise ValueError(f"{input_name} must have at least two classes; got one class: {classes.tolist()[0]!r}.")
    return classes, codes


def encode_labels(y: Any, classes: AnyArray, *, input_name: str = "y") -> Integers:
    """Class index of every label, for labels that the training data has, too."""
    labels, codes = _factorize(_label_array(y, input_name), input_name)
    index = {label: k for k, label in enumerate(classes.tolist())}
    unknown = [label for label in labels.tolist() if label not in index]
    if unknown:
        raise ValueError(
            f"{input_name} has labels that are not among the classes of the training data: {_listed(unknown)}. "
            f"The classes are {_listed(list(index))}."
        )
    return np.array([index[label] for label in labels.tolist()], dtype=np.int32)[codes]


def _label_array(y: Any, input_name: str) -> AnyArray:
    """Labels as a one-dimensional array without missing ones."""
    if y is None:
        raise ValueError(f"A classifier requires y to be passed, but the target {input_name} is None.")
    if isinstance(y, list | tuple) and y and all(isinstance(label, tuple) for label in y):
        labels = np.empty(len(y), dtype=object)
        labels[:] = y
    else:
        labels = column_or_1d(series_values(y, input_name), warn=True)
        if labels.dtype.kind == "U" and isinstance(y, list | tuple):
            _warn_of_kinds(y, input_name)
    if labels.size == 0:
        raise ValueError(f"{input_name} must have at least one label; got 0 sample(s).")
    return labels


def _warn_of_kinds(y: Sequence[Any], input_name: str) -> None:
    """Warn of labels that NumPy has turned into text since some of them are."""
    kinds = sorted({type(label).__name__ for label in y if not isinstance(label, str)})
    if kinds:
        warn_caller(
            f"{input_name} has labels of the types {', '.join(kinds)} beside strings: all are taken for strings. "
            "Convert them to one kind."
        )


def _factorize(labels: AnyArray, input_name: str) -> tuple[AnyArray, Integers]:
    """Distinct labels in ascending order, and the index of every label among them."""
    kind = labels.dtype.kind
    if kind == "O":
        return _factorize_objects(labels, input_name)
    if kind == "f":
        _check_float_labels(labels, input_name)
    elif kind in "mM" and np.isnat(labels).any():
        raise ValueError(f"Input {input_name} contains NaT.")
    elif kind not in "biuUSmM":
        raise ValueError(f"Unknown label type: {input_name} has the dtype {labels.dtype}.")
    if kind in "iu" and labels.min() >= 0 and labels.max() < _COUNTED_LABELS:
        return _factorize_by_counting(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes.reshape(-1).astype(np.int32)


def _factorize_by_counting(labels: AnyArray) -> tuple[AnyArray, Integers]:
    """Small integers have a place in a table each, which is much faster than sorting them."""
    classes = np.flatnonzero(np.bincount(labels.astype(np.int64)))
    index = np.zeros(classes[-1] + 1, dtype=np.int32)
    index[classes] = np.arange(classes.size)
    return classes.astype(labels.dtype), index[labels]


def _check_float_labels(labels: AnyArray, input_name: str) -> None:
    if np.isnan(labels).any():
        raise ValueError(f"Input {input_name} contains NaN.")
    if np.isinf(labels).any():
        raise ValueError(f"Input {input_name} contains infinity or a value too large for {labels.dtype!r}.")
    if (labels != np.trunc(labels)).any():
        raise ValueError(
            f"Unknown label type: continuous. {input_name} has numbers with a fraction; a classifier expects discrete "
            "classes. Convert them to strings if they are labels."
        )


def _factorize_objects(labels: AnyArray, input_name: str) -> tuple[AnyArray, Integers]:
    values = labels.tolist()
    try:
        distinct: list[Hashable] = list(dict.fromkeys(values))
    except TypeError as error:
        raise ValueError(f"Unknown label type: the labels in {input_name} must be hashable ({error}).") from error
    missing = next((label for label in distinct if is_missing(label)), distinct)
    if missing is not distinct:
        raise ValueError(f"Input {input_name} contains a missing label ({missing!r}); NaN and None are no classes.")
    try:
        ordered = sorted(distinct)  # type: ignore[type-var]
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in distinct})
        raise ValueError(
            f"Unknown label type: the labels in {input_name} cannot be sorted ({error}); found {', '.join(kinds)}. "
            "Convert them to one kind, for example to strings."
        ) from error
    if all(isinstance(label, float | np.floating) for label in ordered):
        _check_float_labels(np.array(ordered, dtype=np.float64), input_name)
    classes = np.empty(len(ordered), dtype=object)
    classes[:] = ordered
    index = {label: k for k, label in enumerate(ordered)}
    return classes, np.array([index[label] for label in values], dtype=np.int32)


def _listed(labels: list[Any]) -> str:
    return ", ".join(repr(label) for label in labels[:_MAX_LISTED]) + (", ..." if len(labels) > _MAX_LISTED else "")
