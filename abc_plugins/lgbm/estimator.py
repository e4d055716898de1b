"""`ABCLGBMClassifier`: LGBMClassifier with directional trees, or with an adaptive base class."""

from __future__ import annotations

from functools import partial, wraps
from typing import Any

import lightgbm as lgb
import numpy as np

from abc_plugins.core.options import takes
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import fail
from abc_plugins.data.fitcheck import check_fit_arguments
from abc_plugins.lgbm.exporting import iterations_of
from abc_plugins.lgbm.internals import fit_with, let_onnxmltools_know
from abc_plugins.lgbm.params import ABCOptions
from abc_plugins.lgbm.training import train

_OPTION_NAMES = ABCOptions.names()
_CHOSEN_LATER = ("min_child_samples", "reg_lambda")


class _ABCModel(lgb.LGBMModel):
    """LGBMModel that trains with `train` of this package and counts in rounds."""

    def fit(self, *args: Any, **kwargs: Any) -> _ABCModel:
        """Run LightGBM's fit with `train` exchanged."""
        options = {name: getattr(self, name) for name in _OPTION_NAMES}
        ABCOptions(**options)  # refuse wrong values before any work is done
        return fit_with(partial(train, **options))(self, *args, **kwargs)

    def predict(
        self,
        X: Any,
        raw_score: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Predict with some of the rounds; LGBMClassifier's methods all come here."""
        info = getattr(self._Booster, "abc_info", None)
        if info is not None and (start_iteration > 0 or (num_iteration or 0) > 0):
            start_iteration, num_iteration = iterations_of(info, start_iteration, num_iteration)
        return super().predict(X, raw_score, start_iteration, num_iteration, *args, **kwargs)


class ABCLGBMClassifier(lgb.LGBMClassifier, _ABCModel):
    """LightGBM classifier with directional trees, or with an adaptive base class.

    A drop-in for `lightgbm.LGBMClassifier`: all its parameters and methods, and the parameters of the schedule. With
    two classes it is LGBMClassifier.

    Parameters
    ----------
    boosting_type, num_leaves, max_depth, learning_rate, n_estimators, subsample_for_bin, objective, class_weight, \
min_split_gain, min_child_weight, min_child_samples, subsample, subsample_freq, colsample_bytree, reg_alpha, \
reg_lambda, random_state, n_jobs, importance_type, **kwargs
        As in LGBMClassifier. `min_child_samples` and `reg_lambda` are None, which stands for 3 and 1 with directional
        trees, else for LightGBM's 20 and 0.
    method, trees_per_round, search, gap, warmup, base_choice, pair_samples_per_leaf, leaf_reg_lambda, leaf_clip, \
leaf_values, guard, layout
        As in `abc_plugins.lgbm.train`.

    Attributes
    ----------
    booster_ : lightgbm.Booster
        A stock multiclass model.
    base_classes_ : array of int, shape (n_rounds,)
        The base of every round, as an index into `classes_`; -1 for a classic round.
    best_iteration_ : int
        Best round of early stopping, 0 without. The estimator counts in rounds: `n_estimators`, `evals_result_` and
        `start_iteration` and `num_iteration` of the prediction methods. `booster_` counts LightGBM's iterations, of
        which a round takes one or more.
    feature_importances_ : array of shape (n_features,)
        Every tree counted once; LightGBM's own importances of `booster_` count it for every class that it changes.
    """

    @takes(ABCOptions)
    def __init__(
        self,
        *,
        boosting_type: str = "gbdt",
        num_leaves: int = 31,
        max_depth: int = -1,
        learning_rate: float = 0.1,
        n_estimators: int = 100,
        subsample_for_bin: int = 200000,
        objective: str | None = None,
        class_weight: dict[Any, float] | str | None = None,
        min_split_gain: float = 0.0,
        min_child_weight: float = 1e-3,
        min_child_samples: int | None = None,
        subsample: float = 1.0,
        subsample_freq: int = 0,
        colsample_bytree: float = 1.0,
        reg_alpha: float = 0.0,
        reg_lambda: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        importance_type: str = "split",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            boosting_type=boosting_type,
            num_leaves=num_leaves,
            max_depth=max_depth,
            learning_rate=learning_rate,
            n_estimators=n_estimators,
            subsample_for_bin=subsample_for_bin,
            objective=objective,
            class_weight=class_weight,
            min_split_gain=min_split_gain,
            min_child_weight=min_child_weight,
            min_child_samples=min_child_samples,
            subsample=subsample,
            subsample_freq=subsample_freq,
            colsample_bytree=colsample_bytree,
            reg_alpha=reg_alpha,
            reg_lambda=reg_lambda,
            random_state=random_state,
            n_jobs=n_jobs,
            importance_type=importance_type,
            **kwargs,
        )

    @wraps(lgb.LGBMClassifier.fit)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *args: Any, **kwargs: Any) -> ABCLGBMClassifier:
        """Fit the model; the arguments are those of `LGBMClassifier.fit`."""
        check_fit_arguments(X, y, sample_weight)
        return super().fit(X, y, sample_weight, *args, **kwargs)

    def _process_params(self, stage: str) -> dict[str, Any]:
        """Keep the parameters of the schedule away from LightGBM, which does not know them."""
        params = super()._process_params(stage)
        if callable(params["objective"]) and self._n_classes > 2:
            fail(
                "objective",
                self.objective,
                "None or 'multiclass': directional trees and base classes belong to the softmax loss",
            )
        left_out = {*_OPTION_NAMES, *(name for name in _CHOSEN_LATER if params.get(name) is None)}
        return {name: value for name, value in params.items() if name not in left_out}

    @property
    def base_classes_(self) -> AnyArray:
        """Base class of every round, -1 for a classic one."""
        info = getattr(self.booster_, "abc_info", None)
        return np.array(info["base_classes"] if info else [-1] * self.booster_.current_iteration(), dtype=np.int64)

    @property
    def best_iteration_(self) -> int:
        """Best round of early stopping, 0 without."""
        info = getattr(self.booster_, "abc_info", None)
        return info["best_round"] if info else self._best_iteration

    @property
    def n_estimators_(self) -> int:
        """Rounds of the fitted model: those up to the best one with early stopping, else all."""
        return self.best_iteration_ if self.best_iteration_ > 0 else len(self.base_classes_)

    @property
    def n_iter_(self) -> int:
        """The same as `n_estimators_`."""
        return self.n_estimators_

    @property
    def feature_importances_(self) -> Floats:
        """Importances by `importance_type`, every tree counted once."""
        info = getattr(self.booster_, "abc_info", None)
        if info is None:
            return super().feature_importances_
        return np.array(info[f"{self.importance_type}_importance"])


let_onnxmltools_know(ABCLGBMClassifier)
