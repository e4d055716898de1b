"""The callback that turns XGBoost's own training loop into ABC-Boost."""

from __future__ import annotations

from typing import Any

from xgboost import Booster
from xgboost.callback import TrainingCallback

from abc_plugins.xgb.internals import exchange_boosters
from abc_plugins.xgb.live import LiveBooster
from abc_plugins.xgb.settings import LEAF_CLIP, ABCSettings, adaptive_base_makes_sense


class ABCBoost(TrainingCallback):
    """Train with an adaptive base class, wherever XGBoost takes callbacks.

    `abc_plugins.xgb.train`, `cv`, the estimators and the Dask versions all use it; in `xgboost.train`,
    `xgboost.spark` or code of your own it can be given directly. Put it first in the list of callbacks. Objectives
    for two classes are left to XGBoost.

    Parameters
    ----------
    search : int or "all", default=2
        s: classes tried as base in a search, those with the largest training loss.
    gap : int, default=10
        g: rounds that keep the base after a search.
    warmup : int, default=10
        w: classic rounds at the start.
    leaf_clip : float or None, default=4.0
        Largest leaf value before shrinkage, None for no limit; `max_delta_step` stands where it is given.
    leaf_values : "paper" or "sequential", default="paper"
        "sequential" renews the leaf values of a round tree by tree, each from the scores that the trees before left.
    guard : bool, default=True
        Halve the step of a round until the training loss does not rise.

    Examples
    --------
    >>> import numpy as np, xgboost
    >>> from abc_plugins.xgb import ABCBoost
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> data = xgboost.DMatrix(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0))
    >>> params = {"objective": "multi:softprob", "num_class": 3}
    >>> booster = xgboost.train(params, data, 5, callbacks=[ABCBoost(warmup=2)])
    >>> type(booster).__name__, booster.num_boosted_rounds()
    ('Booster', 5)
    """

    def __init__(
        self,
        *,
        search: int | str = 2,
        gap: int = 10,
        warmup: int = 10,
        leaf_clip: float | None = LEAF_CLIP,
        leaf_values: str = "paper",
        guard: bool = True,
    ) -> None:
        super().__init__()
        self.settings = ABCSettings(search, gap, warmup, leaf_clip, leaf_values, guard)

    def before_training(self, model: Any) -> Any:
        """Let a `LiveBooster` take the place of XGBoost's booster, or of the booster of every fold."""
        return exchange_boosters(model, self._live)

    def _live(self, booster: Booster) -> Booster:
        return LiveBooster(booster, self.settings) if adaptive_base_makes_sense(booster) else booster
