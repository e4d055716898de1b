"""The callback that turns XGBoost's own training loop into ABC-Boost."""

from __future__ import annotations

from typing import Any

from xgboost import Booster
from xgboost.callback import TrainingCallback

from abc_plugins.core.options import BoostOptions
from abc_plugins.xgb.internals import exchange_boosters
from abc_plugins.xgb.live import LiveBooster
from abc_plugins.xgb.settings import check_params, has_several_classes


class ABCBoost(TrainingCallback):
    """Train directional trees, or with an adaptive base class, wherever XGBoost takes callbacks.

    `abc_plugins.xgb.train`, `cv`, the estimators and the Dask versions all use it; in `xgboost.train`,
    `xgboost.spark` or code of your own it can be given directly. Put it first in the list of callbacks. Objectives
    for two classes are left to XGBoost.

    Parameters
    ----------
    **options
        See `abc_plugins.core.options.BoostOptions`: method, trees_per_round, search, gap, warmup, base_choice,
        leaf_reg_lambda, leaf_clip, leaf_values, guard.

    Examples
    --------
    >>> import numpy as np, xgboost
    >>> from abc_plugins.xgb import ABCBoost
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> data = xgboost.DMatrix(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0))
    >>> params = {"objective": "multi:softprob", "num_class": 3}
    >>> booster = xgboost.train(params, data, 5, callbacks=[ABCBoost()])
    >>> type(booster).__name__, booster.num_boosted_rounds()
    ('Booster', 5)
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = BoostOptions.of(options)
        self._named: frozenset[str] = frozenset()

    def for_params(self, params: Any) -> ABCBoost:
        """Note which of XGBoost's parameters the user has set: for others directional trees may have own defaults."""
        self._named = frozenset(check_params(params))
        return self

    def before_training(self, model: Any) -> Any:
        """Let a `LiveBooster` take the place of XGBoost's booster, or of the booster of every fold."""
        return exchange_boosters(model, self._live)

    def _live(self, booster: Booster) -> Booster:
        return LiveBooster(booster, self.options, self._named) if has_several_classes(booster) else booster
