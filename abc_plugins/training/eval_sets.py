"""Evaluation sets of a fit: those that the user gives, or a share of the training data that is held out."""

from __future__ import annotations

from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.sparse_table import Table
from abc_plugins.data.categories import Categories
from abc_plugins.data.labels import encode_labels
from abc_plugins.data.tables import Features, read_features, read_known, read_weights
from abc_plugins.training.evaluation import EvalSet

_VALIDATION_NAME = "validation"


def read_eval_sets(eval_set: Any, names: list[str] | None, categories: Categories, classes: AnyArray) -> list[EvalSet]:
    """Read and check the `eval_set` of a fit, called "valid_0", "valid_1", ..."""
    if eval_set is None:
        return []
    if isinstance(eval_set, tuple):
        eval_set = [eval_set]
    allowed = "a list of (X, y) or (X, y, sample_weight) tuples"
    if not isinstance(eval_set, list):
        fail("eval_set", type(eval_set).__name__, allowed, TypeError)
    eval_sets = []
    for index, parts in enumerate(eval_set):
        where = f"eval_set[{index}]"
        if not isinstance(parts, list | tuple) or len(parts) not in (2, 3):
            fail(where, type(parts).__name__, allowed, TypeError)
        values = read_known(parts[0], categories, names, f"X of {where}", "the model")
        codes = encode_labels(parts[1], classes, input_name=f"y of {where}")
        check_same_length(values, codes, f" in {where}")
        weights = read_weights(parts[2] if len(parts) == 3 else None, codes.size)
        eval_sets.append(_make_eval_set(f"valid_{index}", values, codes, weights, classes))
    return eval_sets


def hold_out(
    values: Table, codes: Integers, weights: Floats, classes: AnyArray, fraction: float, seed: int
) -> tuple[Table, Integers, Floats, EvalSet]:
    """Set a share of the training data aside, the same share of every class where that is possible."""
    from sklearn.model_selection import train_test_split  # imports much more, and most fits do without

    counts = np.bincount(codes, minlength=classes.size)
    n_held = int(np.ceil(fraction * codes.size))
    stratify = codes if counts.min() >= 2 and min(n_held, codes.size - n_held) >= classes.size else None
    inner, held = train_test_split(np.arange(codes.size), test_size=fraction, random_state=seed, stratify=stratify)
    X_held = read_features(Features(values[held], None)).values  # prediction has need of floats
    held_out = _make_eval_set(_VALIDATION_NAME, X_held, codes[held], weights[held], classes)
    return values[inner], codes[inner], weights[inner], held_out


def _make_eval_set(name: str, values: Table, codes: Integers, weights: Floats | None, classes: AnyArray) -> EvalSet:
    return EvalSet(
        name=name,
        X=values,
        y=classes[codes],
        codes=codes,
        weights=np.ones(codes.size) if weights is None else weights,
        scores=np.zeros((codes.size, classes.size)),
        classes=classes,
    )


def check_same_length(values: Table, codes: Integers, where: str = "") -> None:
    """Raise an error unless there is one label for every row."""
    if values.shape[0] != codes.size:
        raise ValueError(
            f"X and y{where} must have the same number of samples; got {values.shape[0]} rows and {codes.size} labels."
        )
