"""Evaluation sets of a fit: those that the user gives, or a share of the training data that is held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.sparse_table import Table
from abc_plugins.data.categories import Categories
from abc_plugins.data.labels import encode_labels
from abc_plugins.data.tables import read_known, read_weights
from abc_plugins.training.evaluation import EvalSet

VALIDATION_NAME = "validation"
_MOST_SCORE = 1e6


@dataclass(frozen=True)
class GivenSet:
    """An evaluation set as the user gave it.

    Attributes
    ----------
    name : str
    X, y, sample_weight, init_score : object
    X_name, y_name, where : str
        How errors call the features, the labels and both.
    """

    name: str
    X: Any
    y: Any
    sample_weight: Any
    init_score: Any
    X_name: str
    y_name: str
    where: str

    def read(self, names: list[str] | None, categories: Categories, classes: AnyArray) -> EvalSet:
        """Read and check it, for a model that knows these names, categories and classes."""
        values = read_known(self.X, categories, names, self.X_name, "the model")
        codes = encode_labels(self.y, classes, input_name=self.y_name)
        check_same_length(values, codes, self.where)
        weights = read_weights(self.sample_weight, codes.size)
        start = read_scores(self.init_score, codes.size, classes.size, f"init_score{self.where}")
        return make_eval_set(self.name, values, codes, weights, classes, start)


def list_eval_sets(
    eval_set: Any,
    eval_names: Any = None,
    eval_init_score: Any = None,
    X_val: Any = None,
    y_val: Any = None,
    sample_weight_val: Any = None,
) -> list[GivenSet]:
    """Evaluation sets of a fit: those of `eval_set`, called "valid_0", "valid_1", ... or by `eval_names`, or X_val."""
    if X_val is not None or y_val is not None:
        if eval_names is not None:
            fail("eval_names", eval_names, f'None with X_val, which is called "{VALIDATION_NAME}"')
        if X_val is None or y_val is None:
            there, missing = ("y_val", "X_val") if X_val is None else ("X_val", "y_val")
            raise ValueError(f"{there} is provided, but {missing} was not provided: they go together.")
        if eval_set is not None:
            raise ValueError("eval_set must be None with X_val: give all evaluation sets as eval_set, or one as X_val.")
        names = ("X_val", "y_val", " of X_val")
        return [GivenSet(VALIDATION_NAME, X_val, y_val, sample_weight_val, eval_init_score, *names)]
    if sample_weight_val is not None:
        raise ValueError("sample_weight_val is provided, but X_val was not provided: they go together.")
    given = _list_given(eval_set)
    set_names = _check_names(eval_names, len(given))
    scores: Any = [None] * len(given) if eval_init_score is None else eval_init_score
    if not isinstance(scores, list | tuple) or len(scores) != len(given):
        found = f"{len(scores)} of them" if isinstance(scores, list | tuple) else type(scores).__name__
        error = ValueError if isinstance(scores, list | tuple) else TypeError
        fail("eval_init_score", found, f"a list of scores for each of the {len(given)} sets in eval_set", error)
    return [
        GivenSet(
            name,
            parts[0],
            parts[1],
            parts[2] if len(parts) == 3 else None,
            score,
            f"X of eval_set[{index}]",
            f"y of eval_set[{index}]",
            f" in eval_set[{index}]",
        )
        for index, (name, parts, score) in enumerate(zip(set_names, given, scores, strict=True))
    ]


def _list_given(eval_set: Any) -> list[Any]:
    """The evaluation sets, also of a single one or of a tuple of them."""
    if eval_set is None:
        return []
    if isinstance(eval_set, tuple) and not (eval_set and all(isinstance(part, tuple) for part in eval_set)):
        eval_set = [eval_set]
    one = "(X, y) or (X, y, sample_weight)"
    if not isinstance(eval_set, list | tuple):
        fail("eval_set", type(eval_set).__name__, f"a list of {one} tuples", TypeError)
    for index, parts in enumerate(eval_set):
        if not isinstance(parts, list | tuple):
            fail(f"eval_set[{index}]", type(parts).__name__, f"a tuple {one}", TypeError)
        if len(parts) not in (2, 3):
            fail(f"eval_set[{index}]", f"{len(parts)} parts", f"a tuple {one}")
    return list(eval_set)


def check_beginning(init_score: Any, sets: Sequence[GivenSet], calibration: str | None, *, has_sets: bool) -> None:
    """Refuse scores and a calibration that would have nothing to be compared with."""
    if any((one.init_score is None) != (init_score is None) for one in sets):
        raise ValueError("eval_init_score must be given with init_score for all evaluation sets, and only then.")
    if calibration is not None and not has_sets:
        fail("calibration", calibration, "None without evaluation sets and early stopping")
    if calibration is not None and init_score is not None:
        fail("calibration", calibration, "None with init_score, which is not part of the model")


def _check_names(eval_names: Any, n_sets: int) -> list[str]:
    if eval_names is None:
        return [f"valid_{index}" for index in range(n_sets)]
    allowed = f"a list of {n_sets} different names, one for each set in eval_set"
    if not isinstance(eval_names, list | tuple) or not all(isinstance(name, str) for name in eval_names):
        fail("eval_names", eval_names, allowed, TypeError)
    if len(set(eval_names)) != len(eval_names) or len(eval_names) != n_sets:
        fail("eval_names", eval_names, allowed)
    return list(eval_names)


def read_scores(scores: Any, n_samples: int, n_classes: int, name: str) -> Floats | None:
    """Read scores to begin with, an array of shape (n_samples, n_classes) of finite numbers; None if there are none."""
    if scores is None:
        return None
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} must be an array of numbers. {error}") from error
    if values.shape != (n_samples, n_classes):
        fail(name, f"shape {values.shape}", f"a score for every row and class, shape ({n_samples}, {n_classes})")
    if not (np.abs(values) <= _MOST_SCORE).all():
        fail(name, "other values", f"numbers from -{_MOST_SCORE:g} to {_MOST_SCORE:g}")
    return values


def hold_out(codes: Integers, fraction: float, seed: int) -> tuple[AnyArray, AnyArray]:
    """Set a share of the training data aside, the same share of every class where that is possible.

    The only row of a class is trained on.

    Returns
    -------
    inner, held : arrays of int
        The rows to train on, and those to evaluate on.
    """
    from sklearn.model_selection import train_test_split  # imports much more, and most fits do without

    n_held = int(np.ceil(fraction * codes.size))
    is_single = np.bincount(codes)[codes] == 1
    if np.count_nonzero(~is_single) <= n_held:  # nearly all classes have one row
        is_single[:] = False
    rows = np.flatnonzero(~is_single)
    strata = np.bincount(codes[rows])
    strata = strata[strata > 0]
    is_enough = strata.min() >= 2 and min(n_held, rows.size - n_held) >= strata.size
    stratify = codes[rows] if is_enough else None
    inner, held = train_test_split(rows, test_size=n_held, random_state=seed, stratify=stratify)
    return np.concatenate([inner, np.flatnonzero(is_single)]), held


def make_eval_set(
    name: str,
    values: Table,
    codes: Integers,
    weights: Floats | None,
    classes: AnyArray,
    given_scores: Floats | None = None,
) -> EvalSet:
    """Make an evaluation set of samples that have been read."""
    return EvalSet(
        name=name,
        X=values,
        y=classes[codes],
        codes=codes,
        weights=np.ones(codes.size) if weights is None else weights,
        scores=np.zeros((codes.size, classes.size)),
        classes=classes,
        given_scores=given_scores,
    )


def check_same_length(values: Table, codes: Integers, where: str = "") -> None:
    """Raise an error unless there is one label for every row."""
    if values.shape[0] != codes.size:
        raise ValueError(
            f"X and y{where} must have the same number of samples; got {values.shape[0]} rows and {codes.size} labels."
        )
