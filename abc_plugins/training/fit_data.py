"""What a fit is given, read and checked: samples to train on, evaluation sets, categories."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from abc_plugins.core.bins.training_data import TrainingData, make_training_data
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.sparse_table import Table
from abc_plugins.data.categories import FROM_DTYPE, Categories, learn_categories, warn_of_amounts
from abc_plugins.data.labels import encode_labels, read_labels
from abc_plugins.data.tables import Features, read_features, read_known
from abc_plugins.data.weights import combine_weights
from abc_plugins.training.eval_sets import (
    VALIDATION_NAME,
    GivenSet,
    check_same_length,
    hold_out,
    make_eval_set,
    read_scores,
)
from abc_plugins.training.evaluation import EvalSet

if TYPE_CHECKING:
    from abc_plugins.fitted import FittedClassifier

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_IN_EVAL_SET = "give (X, y, sample_weight) in eval_set"
_ELSEWHERE = {
    "categorical_feature": "it is categorical_features of the constructor",
    "cat_features": "it is categorical_features of the constructor",
    "eval_sample_weight": _IN_EVAL_SET,
    "sample_weight_eval_set": _IN_EVAL_SET,
    "eval_class_weight": _IN_EVAL_SET,
    "base_margin": "it is init_score",
    "feature_name": "names are those of the columns of X",
    "xgb_model": "it is init_model",
}
"""What other libraries' fit takes, and how it is said here."""


def with_hints(
    fit: Callable[Concatenate[Any, _Parameters], _Result],
) -> Callable[Concatenate[Any, _Parameters], _Result]:
    """Say of arguments that a `fit` does not have, but its constructor or another library's has, where they belong."""
    known = set(inspect.signature(fit).parameters)

    @wraps(fit)
    def checked(self: Any, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        for name in kwargs:
            hint = None if name in known else _ELSEWHERE.get(name)
            if name not in known and name in self.get_params(deep=False):
                hint = f"it is a parameter of the constructor, {type(self).__name__}({name}=...)"
            if hint is not None:
                raise TypeError(f"fit() got an unexpected keyword argument {name!r}: {hint}.")
        return fit(self, *args, **kwargs)

    return checked


@dataclass(frozen=True)
class FitData:
    """What a model is trained and evaluated on.

    Attributes
    ----------
    X : array or SparseTable, shape (n_samples, n_features)
        Categorical columns hold the numbers of categories.
    codes : array of int32, shape (n_samples,)
        Class indices.
    classes : array of shape (n_classes,)
    weights : array of shape (n_samples,)
        All positive: rows without weight are left out.
    names : list of str or None
        Names of the features.
    categories : Categories
    eval_sets : list of EvalSet
    start : array of shape (n_samples, n_classes) or None
        Scores to begin with, those of trees that there are already left out.
    """

    X: Table
    codes: Integers
    classes: AnyArray
    weights: Floats
    names: Sequence[str] | None
    categories: Categories
    eval_sets: Sequence[EvalSet]
    start: Floats | None = None

    def binned(self, max_bins: int, workers: Workers) -> TrainingData:
        """The samples as the booster takes them."""
        return make_training_data(
            self.X,
            self.codes,
            self.weights,
            self.classes.size,
            max_bins,
            workers,
            self.categories.is_categorical if self.categories.any else None,
        )


@dataclass(frozen=True)
class GivenData:
    """What a fit was given, read and checked; rows without weight are left out.

    Attributes
    ----------
    features : Features
    values : array or SparseTable, shape (n_samples, n_features)
        Those of the rows that have a weight; indices of levels in categorical columns.
    codes : array of int32, shape (n_samples,)
    classes : array of shape (n_classes,)
    weights : array of shape (n_samples,)
    start : array of shape (n_samples, n_classes) or None
        Scores that the user gives to begin with.
    categories : Categories or None
        Those of a model that training goes on from: `values` holds their numbers already.
    """

    features: Features
    values: Table
    codes: Integers
    classes: AnyArray
    weights: Floats
    start: Floats | None
    categories: Categories | None

    @property
    def n_samples(self) -> int:
        """Number of rows that have a weight."""
        return self.codes.size

    def with_all_rows(self, eval_sets: Sequence[GivenSet] = ()) -> FitData:
        """Train on all rows, and evaluate on the user's sets; categorical columns are encoded in place."""
        categories = self._encode(self.values, self.weights)
        return FitData(
            self.values,
            self.codes,
            self.classes,
            self.weights,
            self.features.names,
            categories,
            [one.read(self.features.names, categories, self.classes) for one in eval_sets],
            self.start,
        )

    def with_part_held_out(self, share: float, seed: int) -> FitData:
        """Train on most rows, and evaluate on the others.

        Levels are those of the rows that are trained on: of what is held out, others are as unknown as they are to a
        prediction.
        """
        inner, held = hold_out(self.codes, share, seed)
        values, weights = self.values[inner], self.weights[inner]
        X_held = read_features(Features(self.values[held], None)).values  # prediction has need of floats
        categories = self._encode(values, weights)
        if self.categories is None:
            categories.encode(X_held, self.features.levels, self.features.names, "X", check_kinds=False)
        start_inner, start_held = (None, None) if self.start is None else (self.start[inner], self.start[held])
        held_out = make_eval_set(
            VALIDATION_NAME, X_held, self.codes[held], self.weights[held], self.classes, start_held
        )
        return FitData(
            values, self.codes[inner], self.classes, weights, self.features.names, categories, [held_out], start_inner
        )

    def _encode(self, values: Table, weights: Floats) -> Categories:
        """Learn the categories of some rows, and replace levels by their numbers; those of a model are kept."""
        if self.categories is not None:
            return self.categories
        categories = learn_categories(values, self.features.levels, weights)
        categories.encode(values, self.features.levels, self.features.names, "X")
        return categories


def read_given(
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    class_weight: Any,
    categorical: Any,
    init_score: Any = None,
    before: FittedClassifier | None = None,
) -> GivenData:
    """Read the arguments of a fit.

    Parameters
    ----------
    X, y, sample_weight, init_score : see `ABCBoostClassifier.fit`
    class_weight : dict, "balanced" or None
    categorical : "from_dtype", list or None
        See `abc_plugins.data.categories.check_categorical_features`.
    before : FittedClassifier, optional
        The model that training goes on from: it knows the classes, columns and categories.
    """
    if before is None:
        features = read_features(X, keep_integers=True, categorical=categorical)
        if categorical == FROM_DTYPE:
            warn_of_amounts(features.levels, features.names)
        classes, codes = read_labels(y)
    else:
        names = getattr(before, "feature_names_in_", None)
        names = None if names is None else list(names)
        features = Features(read_known(X, before._categories, names, "X", "the model to go on from"), names)
        classes, codes = before.classes_, encode_labels(y, before.classes_)
    check_same_length(features.values, codes)
    weights = combine_weights(sample_weight, class_weight, classes, codes)
    start = read_scores(init_score, codes.size, classes.size, "init_score")
    values, kept = features.values, weights > 0
    if not kept.all():
        values, codes, weights = values[kept], codes[kept], weights[kept]
        start = None if start is None else start[kept]
    return GivenData(features, values, codes, classes, weights, start, None if before is None else before._categories)
