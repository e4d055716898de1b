"""What the scikit-learn estimators on one machine and on Dask share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from abc_plugins.core.runtime.checks import fail
from abc_plugins.xgb.callback import ABCBoost
from abc_plugins.xgb.settings import LEAF_CLIP
from abc_plugins.xgb.stock import base_classes

OWN_PARAMETERS = ("search", "gap", "warmup", "leaf_clip", "leaf_values", "guard")


class ABCEstimator:
    """The schedule's parameters, on top of an estimator of XGBoost."""

    # set by the estimator of XGBoost
    objective: Any
    callbacks: Any

    def __init__(
        self,
        *,
        search: int | str = 2,
        gap: int = 10,
        warmup: int = 10,
        leaf_clip: float | None = LEAF_CLIP,
        leaf_values: str = "paper",
        guard: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.search = search
        self.gap = gap
        self.warmup = warmup
        self.leaf_clip = leaf_clip
        self.leaf_values = leaf_values
        self.guard = guard

    def get_xgb_params(self) -> dict[str, Any]:
        """Get the parameters that XGBoost knows."""
        params = super().get_xgb_params()  # type: ignore[misc]
        return {name: value for name, value in params.items() if name not in OWN_PARAMETERS}

    @property
    def base_classes_(self) -> list[int]:
        """Base class of every round as an index into `classes_`; -1 is a classic round."""
        return base_classes(self.get_booster())  # type: ignore[attr-defined]

    @contextmanager
    def _abc_training(self) -> Iterator[None]:
        """Let XGBoost's `fit` find ABC-Boost among the callbacks."""
        if callable(self.objective):
            fail("objective", self.objective, "the name of an objective: ABC-Boost is one itself", TypeError)
        abc = ABCBoost(**{name: getattr(self, name) for name in OWN_PARAMETERS})
        given = self.callbacks
        self.callbacks = [abc, *(given or ())]
        try:
            yield
        finally:
            self.callbacks = given
