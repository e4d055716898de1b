"""What LightGBM and XGBoost have in common in a study: tables with text, and labels of any kind."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin, clone

from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.data.labels import read_labels
from abc_plugins.tuning.engines.base import TunedEngine, two_columns
from abc_plugins.tuning.engines.tables import KnownColumns, learn_columns


class TableClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of LightGBM or XGBoost behind the tables and labels that the user has.

    Tables with columns of text are turned into what the library takes, and class numbers back into labels. Whatever
    else is asked of it, such as `booster_`, `get_booster` or `feature_importances_`, the fitted estimator answers.

    Parameters
    ----------
    estimator : ABCLGBMClassifier or ABCXGBClassifier
        `fit` fits a copy of it.

    Attributes
    ----------
    estimator_ : ABCLGBMClassifier or ABCXGBClassifier
        The fitted estimator. It takes tables as `columns_.read` gives them, and predicts class numbers.
    classes_ : array of shape (n_classes,)
        The label of each class number.
    columns_ : KnownColumns
        Names and levels of the columns of the training table.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @classmethod
    def around(cls, fitted: Any, classes: AnyArray, columns: KnownColumns) -> TableClassifier:
        """Make one of an estimator that is fitted to class numbers already."""
        classifier = cls(fitted)
        classifier.estimator_, classifier.classes_, classifier.columns_ = fitted, classes, columns
        return classifier

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TableClassifier:
        """Fit a copy of the estimator."""
        table, self.columns_ = learn_columns(X)
        self.classes_, codes = read_labels(y)
        self.estimator_ = clone(self.estimator).fit(table, codes, sample_weight=sample_weight)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities, array of shape (n_samples, n_classes)."""
        return two_columns(self.estimator_.predict_proba(self.columns_.read(X)))

    def predict(self, X: Any) -> AnyArray:
        """Predict the label of every sample."""
        labels: AnyArray = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def __getattr__(self, name: str) -> Any:
        """What is not found here is the fitted estimator's."""
        fitted = self.__dict__.get("estimator_")
        if fitted is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(fitted, name)


class TunedLibrary(TunedEngine):
    """An engine whose library takes text from pandas tables alone, and perhaps no labels but class numbers.

    Attributes
    ----------
    columns : KnownColumns
        Set when the training table has been read.
    """

    columns: KnownColumns

    def read(self, X: Any) -> Any:
        """Turn the user's training table into one that the library takes."""
        table, self.columns = learn_columns(X)
        return table

    def fit_all(
        self, estimator: Any, X: Any, classes: AnyArray, codes: Integers, weights: Floats | None
    ) -> TableClassifier:
        """Fit the estimator to class numbers; the classifier returned predicts labels."""
        return TableClassifier.around(estimator.fit(X, codes, sample_weight=weights), classes, self.columns)
