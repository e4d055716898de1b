"""XGBClassifier with directional trees, or with an adaptive base class, and what it shares with the one on Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from xgboost import XGBClassifier

from abc_plugins.core.options import BoostOptions, takes
from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.runtime.checks import fail
from abc_plugins.data.fitcheck import check_fit_arguments
from abc_plugins.xgb.live import ABCBoost
from abc_plugins.xgb.stock import base_classes

OWN_PARAMETERS = BoostOptions.names()

_TWO_CLASSES = 2


class ABCEstimator:
    """The schedule's parameters, on top of an estimator of XGBoost."""

    # set by the estimator of XGBoost
    objective: Any
    callbacks: Any

    @takes(BoostOptions)
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def get_xgb_params(self) -> dict[str, Any]:
        """Get the parameters that XGBoost knows."""
        params = super().get_xgb_params()  # type: ignore[misc]
        return {name: value for name, value in params.items() if name not in OWN_PARAMETERS}

    @property
    def base_classes_(self) -> AnyArray:
        """Base class of every round as an index into `classes_`; -1 is a classic round."""
        return np.array(base_classes(self.get_booster()), dtype=np.int64)  # type: ignore[attr-defined]

    @property
    def best_iteration_(self) -> int:
        """Number of rounds that predictions use: those up to the best one with early stopping, else all.

        XGBoost's own `best_iteration` is the index of that round, one less, and exists with early stopping only.
        """
        booster = self.get_booster()  # type: ignore[attr-defined]
        return booster.num_boosted_rounds() if booster.attr("best_iteration") is None else booster.best_iteration + 1

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
    ) -> Any:
        """Fit the model; the arguments are those of XGBoost's `fit`."""
        arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        return self._fit(super().fit, arguments)  # type: ignore[misc]

    def _fit(self, fit: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Run XGBoost's `fit` with ABC-Boost among the callbacks."""
        with self._abc_training():
            return fit(**arguments)

    @contextmanager
    def _abc_training(self) -> Iterator[None]:
        """Let XGBoost's `fit` find ABC-Boost among the callbacks."""
        named = {name: value for name, value in self.get_xgb_params().items() if value is not None}
        abc = ABCBoost(**{name: getattr(self, name) for name in OWN_PARAMETERS}).for_params(named)
        given = self.callbacks
        self.callbacks = [abc, *(given or ())]
        try:
            yield
        finally:
            self.callbacks = given


class ABCXGBClassifier(ABCEstimator, XGBClassifier):
    """XGBoost classifier with directional trees, or with an adaptive base class.

    Everything that `xgboost.XGBClassifier` takes and offers works as there; the fitted booster is a stock one. Two
    classes are left to XGBoost's own objective.

    Parameters
    ----------
    method, trees_per_round, search, gap, warmup, base_choice, pair_samples_per_leaf, leaf_reg_lambda, leaf_clip, \
leaf_values, guard
        As in `abc_plugins.xgb.train`.
    **kwargs
        All parameters of `xgboost.XGBClassifier`.

    Attributes
    ----------
    base_classes_ : array of int, shape (n_rounds,)
        Base class of every round, -1 for a classic round.
    best_iteration_ : int
        Number of rounds that predictions use; `best_iteration` of XGBoost is an index, one less.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from abc_plugins.xgb import ABCXGBClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ABCXGBClassifier(n_estimators=15).fit(X, y)
    >>> model.score(X, y) > 0.95, len(model.base_classes_)
    (True, 15)
    """

    def _fit(self, fit: Callable[..., Any], arguments: dict[str, Any]) -> ABCXGBClassifier:
        X, y = arguments["X"], arguments["y"]
        table = X.to_frame() if hasattr(X, "to_frame") else X  # a Series is a column to XGBoost
        check_fit_arguments(table, y, arguments["sample_weight"])
        if callable(self.objective) and len(np.unique(y)) > _TWO_CLASSES:
            fail("objective", self.objective, "the name of an objective for more than two classes", TypeError)
        if not getattr(getattr(X, "dtype", None), "isnative", True):  # XGBoost would read the bytes the wrong way round
            fail("X", X.dtype, "in the byte order of this machine; use X.astype(X.dtype.newbyteorder('='))")
        super()._fit(fit, arguments)
        return self
