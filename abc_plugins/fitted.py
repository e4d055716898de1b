"""What a fitted classifier can do: predict, tell what its trees use, be saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from abc_plugins.core.model.ensemble import TreeEnsemble
from abc_plugins.core.model.predicting import find_leaves
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import check_choice, check_integer
from abc_plugins.core.runtime.parallel import Workers, check_n_jobs, resolve_n_jobs
from abc_plugins.core.runtime.sparse_table import Table
from abc_plugins.core.runtime.values import softmax
from abc_plugins.data.categories import Categories
from abc_plugins.data.labels import encode_labels
from abc_plugins.data.tables import read_known, read_weights
from abc_plugins.training.persistence import load_classifier, save_classifier
from abc_plugins.training.run import TrainingRun

_Owner = TypeVar("_Owner")


class _ClassOrInstanceMethod:
    """A method that takes what it is called on, the class or an instance, and returns an instance."""

    def __init__(self, function: Callable[[Any, str | os.PathLike[str]], Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: _Owner | None, owner: type[_Owner]) -> Callable[[str | os.PathLike[str]], _Owner]:
        return MethodType(self._function, owner if instance is None else instance)


class FittedClassifier(ClassifierMixin, BaseEstimator):
    """The part of `ABCBoostClassifier` that needs no more than a model.

    Methods that take `n_rounds` use the first `n_rounds` rounds, by default `best_iteration_` of them. Those called
    `staged_` yield all `n_iter_` rounds, also those behind the best one.
    """

    n_jobs: int | None
    classes_: AnyArray
    n_classes_: int
    n_iter_: int
    best_iteration_: int
    model_: TreeEnsemble
    _categories: Categories
    _directions: dict[str, Any]

    def predict(self, X: Any, n_rounds: int | None = None) -> AnyArray:
        """Predict the label of every sample, array of shape (n_samples,)."""
        best = self._raw_scores(X, n_rounds).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any, n_rounds: int | None = None) -> Floats:
        """Predict class probabilities, array of shape (n_samples, n_classes)."""
        return softmax(self._raw_scores(X, n_rounds))

    def predict_log_proba(self, X: Any, n_rounds: int | None = None) -> Floats:
        """Predict the logarithms of class probabilities, finite even where a probability is 0."""
        scores = self._raw_scores(X, n_rounds)
        scores -= scores.max(axis=1, keepdims=True)
        return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    def decision_function(self, X: Any, n_rounds: int | None = None) -> Floats:
        """Scores of shape (n_samples, n_classes) that sum to zero; with two classes the log odds of the second."""
        return self._decision(self._raw_scores(X, n_rounds))

    def apply(self, X: Any, n_rounds: int | None = None) -> Integers:
        """Node number of the leaf that every sample reaches in every tree, array of shape (n_samples, n_trees)."""
        values, n_rounds = self._read(X), self._check_n_rounds(n_rounds)
        with Workers(self._n_threads()) as workers:
            return find_leaves(values, self.model_.flat().first_rounds(n_rounds), workers)

    def staged_decision_function(self, X: Any) -> Iterator[Floats]:
        """Yield what `decision_function` gives after each round."""
        for scores in self._staged_scores(X):
            yield self._decision(scores)

    def staged_predict_proba(self, X: Any) -> Iterator[Floats]:
        """Yield the probabilities after each round."""
        for scores in self._staged_scores(X):
            yield softmax(scores)

    def staged_predict(self, X: Any) -> Iterator[AnyArray]:
        """Yield the predicted labels after each round."""
        for scores in self._staged_scores(X):
            yield self.classes_[scores.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the samples whose label is predicted."""
        check_is_fitted(self)
        if not isinstance(self.classes_[0], tuple):
            return super().score(X, y, sample_weight)
        # scikit-learn's metrics take a tuple for several labels.
        right = self._raw_scores(X).argmax(axis=1) == encode_labels(y, self.classes_)
        return float(np.average(right, weights=read_weights(sample_weight, right.size)))

    @property
    def feature_importances_(self) -> Floats:
        """Share of each feature in the total gain of all splits."""
        check_is_fitted(self)
        gains = self.feature_importance("gain")
        total = gains.sum()
        return gains / total if total > 0 else gains

    def feature_importance(self, importance_type: str = "gain") -> Floats:
        """Total gain ("gain") or number ("count", "split") of the splits on every feature."""
        check_is_fitted(self)
        check_choice("importance_type", importance_type, ("gain", "count", "split"))
        return self.model_.feature_importance(importance_type, self.best_iteration_)

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; `load_model` reads it."""
        check_is_fitted(self)
        save_classifier(self, path)

    @_ClassOrInstanceMethod
    def load_model(target: Any, path: str | os.PathLike[str]) -> Any:
        """Read a model that `save_model` wrote.

        Parameters
        ----------
        path : path

        Returns
        -------
        model : ABCBoostClassifier
            A new one where it is called on the class. Called on an instance it is that instance, which then is as it
            was saved: its parameters are those of the file, too.

        Raises
        ------
        ModelFormatError
            If the file is not a valid model.
        """
        if isinstance(target, type):
            return load_classifier(target, path)
        target.__dict__ = load_classifier(type(target), path).__dict__
        return target

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _n_threads(self) -> int:
        return resolve_n_jobs(check_n_jobs(self.n_jobs))

    def _check_n_rounds(self, n_rounds: int | None) -> int:
        if n_rounds is None:
            return self.best_iteration_
        return check_integer("n_rounds", n_rounds, minimum=0, maximum=self.model_.n_rounds)

    def _read(self, X: Any) -> Table:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return read_known(X, self._categories, None if names is None else list(names), "X", type(self).__name__)

    def _raw_scores(self, X: Any, n_rounds: int | None = None) -> Floats:
        values, n_rounds = self._read(X), self._check_n_rounds(n_rounds)
        with Workers(self._n_threads()) as workers:
            return self.model_.raw_scores(values, workers, n_rounds)

    def _staged_scores(self, X: Any) -> Iterator[Floats]:
        values = self._read(X)
        with Workers(self._n_threads()) as workers:
            yield from self.model_.staged_raw_scores(values, workers)

    def _decision(self, scores: Floats) -> Floats:
        if self.n_classes_ == 2:
            return scores[:, 1] - scores[:, 0]
        return scores - scores.mean(axis=1, keepdims=True)

    def _keep(self, run: TrainingRun, classes: AnyArray, names: Sequence[str] | None, categories: Categories) -> None:
        """Set the fitted attributes."""
        self.classes_ = classes
        self.n_classes_ = int(classes.size)
        self.n_features_in_ = len(categories.levels)
        self._categories = categories
        self.categories_ = list(categories.levels)
        self.is_categorical_ = categories.is_categorical
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.model_ = run.model
        self.base_classes_ = np.array(run.base_classes, dtype=np.int64)
        self.train_loss_ = np.array(run.train_loss)
        self.trees_grown_ = run.trees_grown
        self.guarded_rounds_ = run.guarded_rounds
        self.evals_result_ = run.evals_result
        self.best_iteration_ = run.best_iteration
        self.best_score_ = run.best_score
        self.n_iter_ = run.model.n_rounds
        self.stopped_because_ = run.stopped_because
        self.temperature_ = run.temperature
        self.rounds_before_ = run.rounds_before
        self._directions = run.directions
