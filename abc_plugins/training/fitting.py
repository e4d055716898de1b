"""A fit from end to end: train until early stopping says when, and then, perhaps, once more on all rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from abc_plugins.callbacks import Callback, early_stopping
from abc_plugins.core.bins.binning import default_max_bins
from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.boosters import make_booster, settle
from abc_plugins.core.model.ensemble import LEAF
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import Settings
from abc_plugins.data.categories import Categories
from abc_plugins.training.evaluation import Metrics
from abc_plugins.training.fit_data import FitData, GivenData
from abc_plugins.training.refitting import RefitPlan
from abc_plugins.training.resuming import Resumption, RunCheckpoints
from abc_plugins.training.run import BY_CALLBACK, INTERRUPTED, TrainingRun, train
from abc_plugins.training.stopping import Stopping

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier

_NO_LOSS = 1e-12
"""Mean loss below which there is nothing left to learn."""


@dataclass(frozen=True)
class Fit:
    """One fit of a classifier.

    Attributes
    ----------
    classifier : ABCBoostClassifier
    given : GivenData
    eval_set : object
        As the user gave it.
    settings : Settings
    stopping : Stopping
    metrics : Metrics
    callbacks : sequence of Callback
    seed : int
    resumption : Resumption or None
    """

    classifier: ABCBoostClassifier
    given: GivenData
    eval_set: Any
    settings: Settings
    stopping: Stopping
    metrics: Metrics
    callbacks: Sequence[Callback]
    seed: int
    resumption: Resumption | None

    def run(self, workers: Workers) -> tuple[TrainingRun, Categories]:
        """Train; what that leaves behind, and the categories of the model."""
        share, plan = self.stopping.held_out_share, None if self.resumption is None else self.resumption.refit_plan
        if share is None:
            data = self.given.with_all_rows(self.eval_set)
            return self._train(data, workers)[0], data.categories
        first = None
        if plan is None:
            data = self.given.with_part_held_out(share, self.seed)
            first, settings = self._train(data, workers)
            if not self.stopping.refits or first.stopped_because in (BY_CALLBACK, INTERRUPTED):
                return first, data.categories
            first_categories, plan = data.categories, RefitPlan.after(first, settings)
        second, categories = self._refit(plan, workers)
        if first is not None and second.model.n_rounds < plan.n_rounds:  # whoever ended it has a whole model so far
            return first, first_categories
        return plan.describe(second), categories

    def _train(self, data: FitData, workers: Workers) -> tuple[TrainingRun, Settings]:
        """Train until early stopping, or for all rounds; what was left open in the settings is filled in."""
        stoppers = [] if self.stopping.patience is None else [early_stopping(self.stopping.patience)]
        binned = self._bin(data, workers)
        settings = settle(binned, self.settings, self.given.n_samples)
        run = train(
            make_booster(binned, settings, workers),
            settings.n_estimators,
            data.eval_sets,
            self.metrics,
            [*stoppers, *self.callbacks],
            workers,
            RunCheckpoints(self.classifier, data, self.settings, self.seed, self.resumption),
            keep_interrupted=self._keeps_interrupted,
        )
        warn_without_splits(run, binned, settings)
        return run, settings

    def _refit(self, plan: RefitPlan, workers: Workers) -> tuple[TrainingRun, Categories]:
        """Train on all rows."""
        data = self.given.with_all_rows()
        binned = self._bin(data, workers)
        settings = settle(binned, replace(self.settings, tree_shape=plan.tree_shape), self.given.n_samples)
        is_resumed = self.resumption is not None and self.resumption.refit_plan is not None
        run = train(
            make_booster(binned, settings, workers),
            plan.n_rounds,
            data.eval_sets,
            self.metrics,
            [callback for callback in self.callbacks if callback.in_refit],
            workers,
            RunCheckpoints(
                self.classifier, data, self.settings, self.seed, self.resumption if is_resumed else None, plan
            ),
            keep_interrupted=self._keeps_interrupted,
            is_refit=True,
        )
        return run, data.categories

    @property
    def _keeps_interrupted(self) -> bool:
        return self.classifier.on_interrupt == "keep"

    def _bin(self, data: FitData, workers: Workers) -> TrainingData:
        """Bin the rows; how finely depends on the number of all rows, so that a second training has the same bins."""
        return data.binned(self.settings.max_bins or default_max_bins(self.given.n_samples), workers)


def warn_without_splits(run: TrainingRun, data: TrainingData, settings: Settings) -> None:
    """Warn, in the name of who called the fit, of a model without a single split, and say why it has none."""
    trees = run.model.flat()
    total = float(data.weights.sum())
    if trees.n_rounds == 0 or (trees.feature != LEAF).any() or run.train_loss[-1] <= _NO_LOSS * total:
        return
    least = 2 * settings.min_samples_leaf
    if total * settings.subsample < least:
        share = "" if settings.subsample == 1.0 else f" of which {settings.subsample:g} are drawn for a round,"
        why = (
            f"the samples have a total weight of {total:g} (their number if there are no weights),{share} but two "
            f"leaves need {least:g}: set a smaller min_samples_leaf than {settings.min_samples_leaf:g}"
        )
    elif data.columns.feature.size == 0:
        why = "all features are constant"
    elif np.unique(data.labels).size == 1:
        why = "all samples that have weight are of one class"
    else:
        why = (
            "no split of a feature improves the loss and leaves enough samples on both sides (see min_samples_leaf and "
            "min_child_weight)"
        )
    warnings.warn(f"The model has no splits, and predicts the same for all samples: {why}.", stacklevel=5)
