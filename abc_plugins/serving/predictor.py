"""The predictor: a model file and NumPy, and Numba for many rows."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from abc_plugins.core.model.file import ModelFormatError, load, not_valid
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import check_path, fail
from abc_plugins.core.runtime.parallel import check_n_jobs, resolve_n_jobs
from abc_plugins.core.runtime.values import softmax
from abc_plugins.data.stored import best_iteration, check_kind, start_scores, stored_categories
from abc_plugins.serving.few_rows import FewRows
from abc_plugins.serving.inputs import read_rows

if TYPE_CHECKING:
    from abc_plugins.serving.many_rows import ManyRows

_MANY_ROWS = 8
"""Rows from which on the kernels are faster than NumPy."""

_BLOCK_OF_ROWS = 64
"""Rows from which on another kernel takes them in blocks."""


class Predictor:
    """Predicts with a model that `ABCBoostClassifier.save_model` wrote, bit for bit as the classifier does.

    Neither scikit-learn nor a table library is imported, and Numba not before there are many rows to predict, so that a
    process is ready soon. Only the rounds that predictions use are kept in memory.

    Parameters
    ----------
    path : path
        The model file.
    n_jobs : int or None, default=1
        Number of threads; None and -1 use every core.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    feature_names : list of str or None
    n_features : int

    Examples
    --------
    >>> predictor = Predictor("model.abc")  # doctest: +SKIP
    >>> predictor.predict([{"height": 1.2, "colour": "red"}])  # doctest: +SKIP
    """

    def __init__(self, path: str | os.PathLike[str], *, n_jobs: int | None = 1) -> None:
        n_threads = resolve_n_jobs(check_n_jobs(n_jobs))
        if check_path("path", path) is None:
            fail("path", path, "a path", TypeError)
        header, trees = load(path)
        try:
            check_kind(header)
            used = trees.first_rounds(best_iteration(header, trees.n_rounds))
        except ModelFormatError as error:
            raise not_valid(path, error) from error
        self.classes_: AnyArray = header["classes"]
        self.feature_names: list[str] | None = header.get("feature_names")
        self.n_features = int(header["n_features"])
        self._categories = stored_categories(header)
        self._trees, self._start_scores, self._n_threads = used, start_scores(header), n_threads
        self._few_rows = FewRows(used, self.n_features, self._start_scores)

    def predict_proba(self, X: Any) -> Floats:
        """Predict class probabilities.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), table or dict of columns, or list of dicts
            An array; or columns by feature name, each a sequence or array, or those of a pandas, polars or Arrow table;
            or rows, each a dict of values by feature name, as JSON has them. None, NaN and `pd.NA` are missing values.
            Names that the model does not know are left out.

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
        """
        return softmax(self._raw_scores(X))

    def predict(self, X: Any) -> AnyArray:
        """Predict the label of every sample, array of shape (n_samples,); X as for `predict_proba`."""
        best = self._raw_scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def warm_up(self) -> None:
        """Import Numba and load the kernels, or compile them if they are not in the cache: many rows wait for that."""
        for n_rows in (_MANY_ROWS, _BLOCK_OF_ROWS):
            self._many_rows.raw_scores(np.zeros((n_rows, self.n_features)))

    @cached_property
    def _many_rows(self) -> ManyRows:
        from abc_plugins.serving.many_rows import ManyRows  # with Numba, which few rows do without

        return ManyRows(self._trees, self._start_scores, self._n_threads)

    def _raw_scores(self, X: Any) -> Floats:
        rows = read_rows(X, self.feature_names, self._categories)
        return (self._few_rows if rows.shape[0] < _MANY_ROWS else self._many_rows).raw_scores(rows)
