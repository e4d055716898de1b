"""The LightGBM engine in a study."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import lightgbm as lgb

from abc_plugins.lgbm import ABCLGBMClassifier
from abc_plugins.lgbm.internals import all_parameters
from abc_plugins.tuning.engines.base import FoldData, FoldFit, FoldStopping, Samples
from abc_plugins.tuning.engines.library import TunedLibrary
from abc_plugins.tuning.space import Space, plain_name
from abc_plugins.tuning.study.rounds import RoundCallback

_DEFAULTS = {**ABCLGBMClassifier().get_params(), "min_child_samples": 3, "reg_lambda": 1.0}  # what None stands for
_VALID = "valid"
_TAKES_EVAL_X = "eval_X" in inspect.signature(lgb.LGBMClassifier.fit).parameters


def _held_out(samples: Samples) -> dict[str, Any]:
    """Arguments for an evaluation set; LightGBM 4.7 gave them other names."""
    if _TAKES_EVAL_X:
        return {"eval_X": samples.X, "eval_y": samples.codes}
    return {"eval_set": [(samples.X, samples.codes)]}


class TunedLightGBM(TunedLibrary):
    """`ABCLGBMClassifier`."""

    name = "lgbm"
    not_tuned: Mapping[str, Any] = {"method": _DEFAULTS["method"]}

    def defaults(self, n_samples: int, space: Space) -> dict[str, Any]:  # noqa: ARG002
        """The estimator's own values; None, which stands for one that it does not tell, is left to the sampler."""
        return {name: _DEFAULTS[name] for name in map(plain_name, space) if _DEFAULTS.get(name) is not None}

    def estimator(self, parameters: Mapping[str, Any]) -> ABCLGBMClassifier:
        """Make the classifier."""
        return ABCLGBMClassifier(**{"verbosity": -1, "n_jobs": self.n_threads, **self.fixed, **parameters})

    def known_parameters(self) -> set[str]:
        """Those of the classifier, and all that it hands to LightGBM."""
        return {*_DEFAULTS, *all_parameters()}

    def fit_fold(
        self, fold: FoldData, parameters: Mapping[str, Any], stopping: FoldStopping, callback: RoundCallback
    ) -> FoldFit:
        """Boost until the validation rows gain nothing any more."""
        model = self.estimator(parameters).set_params(n_estimators=stopping.max_rounds)
        patience = stopping.patience_at(model.get_params()["learning_rate"])
        model.fit(
            fold.train.X,
            fold.train.codes,
            sample_weight=fold.train.weights,
            **_held_out(fold.valid),
            eval_names=[_VALID],
            eval_sample_weight=None if fold.valid.weights is None else [fold.valid.weights],
            eval_metric="multi_logloss" if fold.present.size > 2 else "binary_logloss",
            callbacks=[callback, lgb.early_stopping(patience, verbose=False)],
        )
        [curve] = model.evals_result_[_VALID].values()
        best = model.best_iteration_
        return FoldFit(
            n_rounds=best,
            trees_grown=self.count_trees(model.get_params(), len(curve)),
            bases=[int(base) for base in getattr(model, "base_classes_", [-1] * best)[:best]],
            probabilities=self.all_columns(fold, model.predict_proba(fold.test.X)),
        )

    @staticmethod
    def complete(parameters: Mapping[str, Any]) -> dict[str, Any]:
        """A share of the samples needs a frequency to be drawn at all."""
        return {**parameters, "subsample_freq": 1} if "subsample" in parameters else dict(parameters)
