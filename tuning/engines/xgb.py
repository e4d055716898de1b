"""The XGBoost engine in a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xgboost

from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.xgb import ABCXGBClassifier, base_classes, train
from tuning.engines.base import Engine, FoldData, FoldFit, Samples, Stopping, two_columns
from tuning.pruning import ABCPruningCallback

_NAMES = {"min_samples_leaf": "min_child_weight", "colsample": "colsample_bytree", "num_leaves": "max_leaves"}
_OWN = ("search", "gap", "warmup", "leaf_clip", "leaf_values", "guard")
_METHOD = "abcrobustlogit"  # the schedule that is tuned is that of the base class
_DEFAULTS = ABCXGBClassifier(method=_METHOD, search=2, gap=10, warmup=10).get_params()
_XGBOOST_LEARNING_RATE = 0.3  # the estimator does not tell: None stands for XGBoost's own


class XGBoostEngine(Engine):
    """`ABCXGBClassifier`, driven by `abc_plugins.xgb.train` so that the quantised matrices of a fold are reused."""

    name = "xgb"
    # XGBoost limits the depth, not the leaves: as they come, trees are no point of the search space.
    defaults: Mapping[str, Any] = {
        **{name: _DEFAULTS[name] for name in _OWN[:3]},
        "learning_rate": _XGBOOST_LEARNING_RATE,
    }
    bin_parameters = ("max_bin",)

    def bin_fold(self, train: Samples, valid: Samples, test: Samples) -> FoldData:
        """Make the matrices."""
        max_bin = self.fixed.get("max_bin") or 256
        common = {"max_bin": max_bin, "nthread": self.n_threads}
        data = xgboost.QuantileDMatrix(train.X, train.codes, weight=train.weights, **common)
        held_out = xgboost.QuantileDMatrix(valid.X, valid.codes, weight=valid.weights, ref=data, **common)
        return FoldData((data, held_out), valid, test)

    def fit(
        self, fold: FoldData, parameters: Mapping[str, Any], stopping: Stopping, callback: ABCPruningCallback
    ) -> FoldFit:
        """Boost until the inner split does not improve any more."""
        data, held_out = fold.binned
        given = {**self.fixed, **parameters}
        stop = xgboost.callback.EarlyStopping(
            rounds=stopping.patience,
            metric_name=self.metric.name,
            data_name="valid",
            maximize=self.metric.higher_is_better,
        )
        booster = train(
            self._params(parameters),
            data,
            stopping.max_rounds,
            evals=[(held_out, "valid")],
            verbose_eval=False,
            custom_metric=lambda probabilities, _: self._evaluate(probabilities, fold.valid),
            callbacks=[callback, stop],
            method=_METHOD,
            **{name: given[name] for name in _OWN if name in given},
        )
        best = booster.best_iteration + 1
        n_rounds_run = booster.num_boosted_rounds()
        bases = base_classes(booster)[:best] if self.n_classes > 2 else [-1] * best
        test = xgboost.DMatrix(fold.test.X, nthread=self.n_threads)
        return FoldFit(
            n_rounds=best,
            trees_grown=self.count_trees({**_DEFAULTS, **given}, n_rounds_run),
            bases=[int(base) for base in bases],
            probabilities=two_columns(booster.predict(test, iteration_range=(0, best))),
        )

    def estimator(self, parameters: Mapping[str, Any]) -> ABCXGBClassifier:
        """Make the classifier."""
        return ABCXGBClassifier(**{"method": _METHOD, **self.fixed, **parameters})

    def fit_all(self, estimator: Any, X: Any, classes: AnyArray, codes: Integers, weights: Floats | None) -> None:
        """Fit the estimator on class indices where the labels are none: XGBoost takes no others."""
        plain = np.array_equal(classes, np.arange(classes.size))
        estimator.fit(X, classes[codes] if plain else codes, sample_weight=weights, verbose=False)

    @staticmethod
    def translate(parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Use XGBoost's names; a number of leaves means growth best-first, without a limit of the depth."""
        named = {_NAMES.get(name, name): value for name, value in parameters.items()}
        leaf_wise = {"max_depth": 0, "grow_policy": "lossguide", "tree_method": "hist"}
        return {**named, **leaf_wise} if "num_leaves" in parameters else named

    def _params(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        params = self.estimator(parameters).get_xgb_params()
        params = {name: value for name, value in params.items() if value is not None}
        objective = {"objective": "multi:softprob", "num_class": self.n_classes}
        if self.n_classes == 2:
            objective = {"objective": "binary:logistic"}
        # Its own metric would be computed every round, for nothing.
        return {**params, **objective, "nthread": self.n_threads, "disable_default_eval_metric": 1}

    def _evaluate(self, probabilities: Any, samples: Samples) -> tuple[str, float]:
        return self.metric.name, self.metric.value(samples.codes, two_columns(probabilities), samples.weights)
