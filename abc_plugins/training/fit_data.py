"""What a fit is given, read and checked: samples to train on, evaluation sets, categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from abc_plugins.core.bins.training_data import TrainingData, make_training_data
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.sparse_table import Table
from abc_plugins.data.categories import Categories, learn_categories
from abc_plugins.data.labels import read_labels
from abc_plugins.data.tables import Features, read_features
from abc_plugins.data.weights import combine_weights
from abc_plugins.training.eval_sets import check_same_length, hold_out, read_eval_sets
from abc_plugins.training.evaluation import EvalSet


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
    """

    X: Table
    codes: Integers
    classes: AnyArray
    weights: Floats
    names: Sequence[str] | None
    categories: Categories
    eval_sets: Sequence[EvalSet]

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
    """

    features: Features
    values: Table
    codes: Integers
    classes: AnyArray
    weights: Floats

    @property
    def n_samples(self) -> int:
        """Number of rows that have a weight."""
        return self.codes.size

    def with_all_rows(self, eval_set: Any = None) -> FitData:
        """Train on all rows, and evaluate on the user's sets; categorical columns are encoded in place."""
        features = self.features
        categories = learn_categories(self.values, features.levels, self.weights)
        categories.encode(self.values, features.levels, features.names, "X")
        eval_sets = read_eval_sets(eval_set, features.names, categories, self.classes)
        return FitData(self.values, self.codes, self.classes, self.weights, features.names, categories, eval_sets)

    def with_part_held_out(self, share: float, seed: int) -> FitData:
        """Train on most rows, and evaluate on the others.

        Levels are those of the rows that are trained on: of what is held out, others are as unknown as they are to a
        prediction.
        """
        features = self.features
        values, codes, weights, held_out = hold_out(self.values, self.codes, self.weights, self.classes, share, seed)
        categories = learn_categories(values, features.levels, weights)
        for table in (values, held_out.X):
            categories.encode(table, features.levels, features.names, "X")
        return FitData(values, codes, self.classes, weights, features.names, categories, [held_out])


def read_given(X: Any, y: Any, sample_weight: Any, *, class_weight: Any, categorical: Any) -> GivenData:
    """Read the arguments of a fit.

    Parameters
    ----------
    X, y, sample_weight : see `ABCBoostClassifier.fit`
    class_weight : dict, "balanced" or None
    categorical : "from_dtype", list or None
        See `abc_plugins.data.categories.check_categorical_features`.
    """
    features = read_features(X, keep_integers=True, categorical=categorical)
    classes, codes = read_labels(y)
    check_same_length(features.values, codes)
    weights = combine_weights(sample_weight, class_weight, classes, codes)
    values, kept = features.values, weights > 0
    if not kept.all():
        values, codes, weights = values[kept], codes[kept], weights[kept]
    return GivenData(features, values, codes, classes, weights)
