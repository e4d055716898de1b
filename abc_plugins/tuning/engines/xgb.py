"""The XGBoost engine in a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abc_plugins.tuning.engines.base import FoldData, FoldFit, FoldStopping
from abc_plugins.tuning.engines.library import TunedLibrary
from abc_plugins.tuning.space import Space, plain_name
from abc_plugins.tuning.study.rounds import RoundCallback
from abc_plugins.xgb import ABCXGBClassifier

_DEFAULTS = ABCXGBClassifier().get_params()
_LIBRARY_DEFAULTS = {
    "learning_rate": 0.3,
    "max_depth": 6,
    "min_child_weight": 1e-3,  # next to 0, the default of directional trees
    "reg_lambda": 1.0,
    "subsample": 1.0,
    "colsample_bytree": 1.0,
}
"""What None, which the estimator tells, stands for in XGBoost."""


class TunedXGBoost(TunedLibrary):
    """`ABCXGBClassifier`."""

    name = "xgb"
    not_tuned: Mapping[str, Any] = {"method": _DEFAULTS["method"]}

    def defaults(self, n_samples: int, space: Space) -> dict[str, Any]:  # noqa: ARG002
        """The estimator's own values, or XGBoost's."""
        known = {**_LIBRARY_DEFAULTS, **{name: value for name, value in _DEFAULTS.items() if value is not None}}
        return {name: known[name] for name in map(plain_name, space) if name in known}

    def estimator(self, parameters: Mapping[str, Any]) -> ABCXGBClassifier:
        """Make the classifier."""
        return ABCXGBClassifier(**{"enable_categorical": True, "n_jobs": self.n_threads, **self.fixed, **parameters})

    def fit_fold(
        self, fold: FoldData, parameters: Mapping[str, Any], stopping: FoldStopping, callback: RoundCallback
    ) -> FoldFit:
        """Boost until the validation rows gain nothing any more."""
        model = self.estimator(parameters)
        rate = model.learning_rate or _LIBRARY_DEFAULTS["learning_rate"]
        model.set_params(
            n_estimators=stopping.max_rounds,
            early_stopping_rounds=stopping.patience_at(rate),
            eval_metric="mlogloss" if fold.present.size > 2 else "logloss",
            callbacks=[callback],
        )
        model.fit(
            fold.train.X,
            fold.train.codes,
            sample_weight=fold.train.weights,
            eval_set=[(fold.valid.X, fold.valid.codes)],
            sample_weight_eval_set=None if fold.valid.weights is None else [fold.valid.weights],
            verbose=False,
        )
        best = model.best_iteration + 1
        [curve] = model.evals_result()["validation_0"].values()
        has_bases = fold.present.size > 2
        return FoldFit(
            n_rounds=best,
            trees_grown=self.count_trees(model.get_params(), len(curve)),
            bases=[int(base) for base in model.base_classes_[:best]] if has_bases else [-1] * best,
            probabilities=self.all_columns(fold, model.predict_proba(fold.test.X)),
        )
