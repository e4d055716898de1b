"""What a fit is given, read and checked: samples to train on, evaluation sets, categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from abc_plugins.core.bins.binning import default_max_bins
from abc_plugins.core.bins.training_data import TrainingData, make_training_data
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.sparse_table import Table
from abc_plugins.data.categories import Categories, learn_categories
from abc_plugins.data.labels import read_labels
from abc_plugins.data.tables import read_features
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

    def binned(self, max_bins: int | None, workers: Workers) -> TrainingData:
        """The samples as the booster takes them; the number of bins depends on theirs by default."""
        return make_training_data(
            self.X,
            self.codes,
            self.weights,
            self.classes.size,
            max_bins or default_max_bins(self.codes.size),
            workers,
            self.categories.is_categorical if self.categories.any else None,
        )


def read_fit_data(
    X: Any,
    y: Any,
    sample_weight: Any,
    eval_set: Any,
    *,
    class_weight: Any,
    categorical: Any,
    held_out_share: float | None,
    seed: int,
) -> FitData:
    """Read the arguments of a fit.

    Levels are those of the rows that are trained on: of what is held out, others are as unknown as they are to a
    prediction.

    Parameters
    ----------
    X, y, sample_weight, eval_set : see `ABCBoostClassifier.fit`
    class_weight : dict, "balanced" or None
    categorical : "from_dtype", list or None
        See `abc_plugins.data.categories.check_categorical_features`.
    held_out_share : float or None
        Share of the rows to set aside if there is no evaluation set; None for no such set.
    seed : int
        Of the draw of these rows.
    """
    features = read_features(X, keep_integers=True, categorical=categorical)
    classes, codes = read_labels(y)
    check_same_length(features.values, codes)
    weights = combine_weights(sample_weight, class_weight, classes, codes)
    values, kept = features.values, weights > 0
    if not kept.all():
        values, codes, weights = values[kept], codes[kept], weights[kept]
    held_out = []
    if held_out_share is not None and (eval_set is None or (isinstance(eval_set, list) and not eval_set)):
        values, codes, weights, validation = hold_out(values, codes, weights, classes, held_out_share, seed)
        held_out = [validation]
    categories = learn_categories(values, features.levels, weights)
    for table in (values, *(validation.X for validation in held_out)):
        categories.encode(table, features.levels, features.names, "X")
    eval_sets = held_out or read_eval_sets(eval_set, features.names, categories, classes)
    return FitData(values, codes, classes, weights, features.names, categories, eval_sets)
