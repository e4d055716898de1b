"""The LightGBM engine in a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightgbm as lgb

from abc_plugins.lgbm import ABCLGBMClassifier, model_info, train
from tuning.engines.base import Engine, FoldData, FoldFit, Samples, Stopping, two_columns
from tuning.pruning import ABCPruningCallback

_NAMES = {"min_samples_leaf": "min_child_samples", "colsample": "colsample_bytree"}
_OWN = ("search", "gap", "warmup", "leaf_clip", "leaf_values", "guard")
_METHOD = "abcrobustlogit"  # the schedule that is tuned is that of the base class
_DEFAULTS = {
    **ABCLGBMClassifier(method=_METHOD, search=2, gap=10, warmup=10).get_params(),
    "min_child_samples": 20,
    "reg_lambda": 0.0,
}


class LightGBMEngine(Engine):
    """`ABCLGBMClassifier`, driven by `abc_plugins.lgbm.train` so that the Datasets of a fold are reused."""

    name = "lgbm"
    defaults: Mapping[str, Any] = {
        "min_samples_leaf": _DEFAULTS["min_child_samples"],
        "colsample": _DEFAULTS["colsample_bytree"],
        **{name: _DEFAULTS[name] for name in (*_OWN[:3], "num_leaves", "learning_rate", "reg_lambda", "subsample")},
    }
    bin_parameters = ("max_bin", "min_data_in_bin", "subsample_for_bin")

    def bin_fold(self, train: Samples, valid: Samples, test: Samples) -> FoldData:
        """Make the Datasets; filters that depend on tuned parameters are switched off."""
        params = {**self._params({}), "feature_pre_filter": False}
        data = lgb.Dataset(train.X, train.codes, weight=train.weights, params=params, free_raw_data=False)
        held_out = lgb.Dataset(
            valid.X, valid.codes, weight=valid.weights, reference=data, params=params, free_raw_data=False
        )
        return FoldData((data.construct(), held_out.construct()), valid, test)

    def fit(
        self, fold: FoldData, parameters: Mapping[str, Any], stopping: Stopping, callback: ABCPruningCallback
    ) -> FoldFit:
        """Boost until the inner split does not improve any more."""
        data, held_out = fold.binned
        given = {**self.fixed, **parameters}
        rounds_run = _Counter()
        booster = train(
            {**self._params(parameters), "feature_pre_filter": False, "metric": "None"},
            data,
            stopping.max_rounds,
            valid_sets=[held_out],
            valid_names=["valid"],
            feval=lambda probabilities, _: self._evaluate(probabilities, fold.valid),
            callbacks=[rounds_run, callback, lgb.early_stopping(stopping.patience, verbose=False)],
            method=_METHOD,
            **{name: given[name] for name in _OWN if name in given},
        )
        best = model_info(booster)["best_round"] if self.n_classes > 2 else booster.best_iteration
        bases = model_info(booster)["base_classes"][:best] if self.n_classes > 2 else [-1] * best
        return FoldFit(
            n_rounds=best,
            trees_grown=self.count_trees({**_DEFAULTS, **given}, rounds_run.count),
            bases=[int(base) for base in bases],
            probabilities=two_columns(booster.predict(fold.test.X, num_threads=self.n_threads)),
        )

    def estimator(self, parameters: Mapping[str, Any]) -> ABCLGBMClassifier:
        """Make the classifier."""
        return ABCLGBMClassifier(**{"verbosity": -1, "method": _METHOD, **self.fixed, **parameters})

    @staticmethod
    def translate(parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Use LightGBM's names; a share of the samples needs a frequency to be drawn at all."""
        named = {_NAMES.get(name, name): value for name, value in parameters.items()}
        return {**named, "subsample_freq": 1} if "subsample" in named else named

    def _params(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """LightGBM's own parameters; it knows the estimator's names as aliases."""
        own = {name: value for name, value in {**self.fixed, **parameters}.items() if name not in _OWN}
        objective = {"objective": "multiclass", "num_class": self.n_classes}
        if self.n_classes == 2:
            objective = {"objective": "binary"}
        return {"verbosity": -1, **own, **objective, "num_threads": self.n_threads}

    def _evaluate(self, probabilities: Any, samples: Samples) -> tuple[str, float, bool]:
        value = self.metric.value(samples.codes, two_columns(probabilities), samples.weights)
        return self.metric.name, value, self.metric.higher_is_better


class _Counter:
    """Callback that counts the rounds."""

    order = 0

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _: Any) -> None:
        self.count += 1
