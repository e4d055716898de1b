"""The package's own engine in a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abc_plugins.classifier import ABCBoostClassifier
from abc_plugins.core.settings import Settings, check_settings
from abc_plugins.tuning.engines.base import FoldData, FoldFit, FoldStopping, TunedEngine
from abc_plugins.tuning.space import Space, plain_name
from abc_plugins.tuning.study.rounds import RoundCallback

_DEEP_FROM, _DEPTHS = 3200, (6, 7)
_BEST_FIRST_FROM = 2**15


class TunedNative(TunedEngine):
    """`ABCBoostClassifier`."""

    name = "native"
    not_tuned: Mapping[str, Any] = {"method": "directional", "tree_shape": "auto"}

    def defaults(self, n_samples: int, space: Space) -> dict[str, Any]:
        """What the estimator does with None and "auto"; the shape of trees as far as the number of rows tells."""
        settings = vars(self._settings({}))
        settings["tree_shape"] = "best-first" if n_samples > _BEST_FIRST_FROM else "symmetric"
        settings["max_depth"] = settings["max_depth"] or _DEPTHS[n_samples >= _DEEP_FROM]
        return {name: settings[name] for name in map(plain_name, space) if name in settings}

    def kept_as_default(self) -> dict[str, Any]:
        """The learning rate: without early stopping, as in the final fit, its default is another one."""
        return {} if "learning_rate" in self.fixed else {"learning_rate": self._settings({}).learning_rate}

    def estimator(self, parameters: Mapping[str, Any]) -> ABCBoostClassifier:
        """Make the classifier."""
        return ABCBoostClassifier(**{"n_jobs": self.n_threads, **self.fixed, **parameters})

    def known_parameters(self) -> set[str]:
        """Those of the classifier."""
        return set(ABCBoostClassifier().get_params())

    def fit_fold(
        self, fold: FoldData, parameters: Mapping[str, Any], stopping: FoldStopping, callback: RoundCallback
    ) -> FoldFit:
        """Boost until the validation rows gain nothing any more."""
        model = self.estimator(parameters).set_params(
            n_estimators=stopping.max_rounds,
            early_stopping_rounds=stopping.patience_at(self._settings(parameters).learning_rate),
            eval_metric="logloss",
        )
        held_out = tuple(part for part in (fold.valid.X, fold.valid.codes, fold.valid.weights) if part is not None)
        model.fit(
            fold.train.X,
            fold.train.codes,
            sample_weight=fold.train.weights,
            eval_set=[held_out],
            callbacks=[callback],
        )
        return FoldFit(
            n_rounds=model.best_iteration_,
            trees_grown=model.trees_grown_,
            bases=[int(base) for base in model.base_classes_[: model.best_iteration_]],
            probabilities=self.all_columns(fold, model.predict_proba(fold.test.X)),
        )

    def _settings(self, parameters: Mapping[str, Any]) -> Settings:
        """The parameters of a fit with early stopping, with what None stands for."""
        estimator = self.estimator(parameters)
        names = set(Settings.__dataclass_fields__) - {"seed"}
        return check_settings(seed=0, stops_early=True, **{name: getattr(estimator, name) for name in names})
