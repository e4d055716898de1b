"""The package's own engine in a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from abc_plugins.callbacks import early_stopping
from abc_plugins.classifier import ABCBoostClassifier
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.booster import Booster
from abc_plugins.core.runtime.checks import check_choice
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import MAX_BINS, PAPER_METHODS, Settings, check_settings
from abc_plugins.training.evaluation import EvalSet, Metrics, softmax
from abc_plugins.training.run import train
from tuning.engines.base import Engine, FoldData, FoldFit, Samples, Stopping
from tuning.metric import TunedMetric
from tuning.pruning import ABCPruningCallback

METHOD = "abcrobustlogit"
"""What is tuned: the schedule of the base class is a matter of the paper's methods."""


class NativeEngine(Engine):
    """`ABCBoostClassifier`, driven by its booster so that the bins of a fold are reused."""

    name = "native"
    defaults: Mapping[str, Any] = {
        name: getattr(ABCBoostClassifier(method=METHOD)._check_parameters(seed=0), name)
        for name in ("search", "gap", "warmup", "num_leaves", "learning_rate", "min_samples_leaf", "reg_lambda",
                     "subsample", "colsample")
    }  # fmt: skip
    bin_parameters = ("max_bins",)

    def __init__(
        self, n_classes: int, metric: TunedMetric, fixed: Mapping[str, Any], n_threads: int, seed: int
    ) -> None:
        check_choice("method", fixed.get("method", METHOD), PAPER_METHODS)
        super().__init__(n_classes, metric, {"method": METHOD, **fixed}, n_threads, seed)

    def bin_fold(self, train: Samples, valid: Samples, test: Samples) -> FoldData:
        """Bin the training rows that have a weight."""
        kept = train.weights > 0
        max_bins = self._settings({}).max_bins or MAX_BINS
        with Workers(self.n_threads) as workers:
            binned = make_training_data(
                train.X[kept], train.codes[kept], train.weights[kept], self.n_classes, max_bins, workers
            )
        return FoldData(binned, valid, test)

    def fit(
        self, fold: FoldData, parameters: Mapping[str, Any], stopping: Stopping, callback: ABCPruningCallback
    ) -> FoldFit:
        """Boost until the inner split does not improve any more."""
        with Workers(self.n_threads) as workers:
            run = train(
                Booster(fold.binned, self._settings(parameters), workers),
                stopping.max_rounds,
                [self._eval_set(fold.valid)],
                Metrics(self.metric.eval_metric),
                [callback, early_stopping(stopping.patience)],
                workers,
            )
            scores = run.model.raw_scores(fold.test.X, workers, run.best_iteration)
        bases = [int(base) for base in run.base_classes[: run.best_iteration]]
        return FoldFit(run.best_iteration, run.trees_grown, bases, softmax(scores))

    def estimator(self, parameters: Mapping[str, Any]) -> ABCBoostClassifier:
        """Make the classifier."""
        return ABCBoostClassifier(**{**self.fixed, **parameters})

    def plain(self, max_rounds: int) -> dict[str, Any]:  # noqa: ARG002
        """Take the method without a base class."""
        return {"method": self._settings({}).method.removeprefix("abc")}

    def _settings(self, parameters: Mapping[str, Any]) -> Settings:
        estimator = self.estimator(parameters)
        names = set(Settings.__dataclass_fields__) - {"seed"}
        seed = int(check_random_state(estimator.random_state).randint(2**31 - 1))
        return check_settings(seed=seed, **{name: getattr(estimator, name) for name in names})

    def _eval_set(self, samples: Samples) -> EvalSet:
        return EvalSet(
            name="valid",
            X=samples.X,
            y=self.metric.classes[samples.codes],
            codes=samples.codes,
            weights=samples.weights,
            scores=np.zeros((samples.codes.size, self.n_classes)),
            classes=self.metric.classes,
        )
