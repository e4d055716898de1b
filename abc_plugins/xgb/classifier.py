"""XGBClassifier with an adaptive base class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xgboost import XGBClassifier

from abc_plugins.core.runtime.checks import fail
from abc_plugins.fitcheck import check_fit_arguments
from abc_plugins.xgb.estimator import ABCEstimator


class ABCXGBClassifier(ABCEstimator, XGBClassifier):
    """ABC-Boost with XGBoost's scikit-learn interface.

    Everything that `xgboost.XGBClassifier` takes and offers works as there; the fitted booster is a stock one. Two
    classes are left to XGBoost's own objective.

    Parameters
    ----------
    search, gap, warmup, leaf_clip, leaf_values, guard
        As in `abc_plugins.xgb.train`.
    **kwargs
        All parameters of `xgboost.XGBClassifier`.

    Attributes
    ----------
    base_classes_ : list of int
        Base class of every round, -1 for a classic round.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from abc_plugins.xgb import ABCXGBClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ABCXGBClassifier(n_estimators=15, warmup=5).fit(X, y)
    >>> model.score(X, y) > 0.95, len(model.base_classes_)
    (True, 15)
    """

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        verbose: bool | int | None = True,
        xgb_model: Any = None,
        sample_weight_eval_set: Sequence[Any] | None = None,
        base_margin_eval_set: Sequence[Any] | None = None,
        feature_weights: Any = None,
    ) -> ABCXGBClassifier:
        """Fit the model; the arguments are those of `XGBClassifier.fit`."""
        check_fit_arguments(X, y, sample_weight)
        if not getattr(getattr(X, "dtype", None), "isnative", True):  # XGBoost would read the bytes the wrong way round
            fail("X", X.dtype, "in the byte order of this machine; use X.astype(X.dtype.newbyteorder('='))")
        with self._abc_training():
            super().fit(
                X,
                y,
                sample_weight=sample_weight,
                base_margin=base_margin,
                eval_set=eval_set,
                verbose=verbose,
                xgb_model=xgb_model,
                sample_weight_eval_set=sample_weight_eval_set,
                base_margin_eval_set=base_margin_eval_set,
                feature_weights=feature_weights,
            )
        return self
