"""A fit from end to end: train until early stopping says when, and then, perhaps, once more on all rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from abc_plugins.callbacks import Callback, early_stopping
from abc_plugins.core.bins.binning import default_max_bins
from abc_plugins.core.bins.columns import Columns
from abc_plugins.core.bins.lists import make_spare_codes, spread_codes
from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.boosters import AnyBooster, make_booster, settle
from abc_plugins.core.model.ensemble import LEAF, TreeEnsemble
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import Settings
from abc_plugins.data.categories import Categories
from abc_plugins.data.columns import warn_caller
from abc_plugins.training.calibration import find_temperature, scale
from abc_plugins.training.eval_sets import GivenSet
from abc_plugins.training.evaluation import Metrics
from abc_plugins.training.fit_data import FitData, GivenData
from abc_plugins.training.held_out import score_held_out
from abc_plugins.training.refitting import RefitPlan
from abc_plugins.training.resuming import Resumption, RunCheckpoints
from abc_plugins.training.run import INTERRUPTED, TrainingRun, train
from abc_plugins.training.stopping import Stopping

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.fitted import FittedClassifier

_FIRST_IS_KEPT = (
    "The refit on all rows was interrupted: the model is that of the training before, whose best round was %d."
)

_logger = logging.getLogger("abc_plugins")

_NO_LOSS = 1e-12
"""Mean loss below which there is nothing left to learn."""


@dataclass(frozen=True)
class Fit:
    """One fit of a classifier.

    Attributes
    ----------
    classifier : ABCBoostClassifier
    given : GivenData
    eval_sets : sequence of GivenSet
        Those of the user.
    settings : Settings
        `n_estimators` counts the rounds of this fit only.
    stopping : Stopping
    metrics : Metrics
    callbacks : sequence of Callback
    seed : int
    resumption : Resumption or None
    before : FittedClassifier or None
        The model that training goes on from.
    """

    classifier: ABCBoostClassifier
    given: GivenData
    eval_sets: Sequence[GivenSet]
    settings: Settings
    stopping: Stopping
    metrics: Metrics
    callbacks: Sequence[Callback]
    seed: int
    resumption: Resumption | None
    before: FittedClassifier | None

    def run(self, workers: Workers) -> tuple[TrainingRun, Categories]:
        """Train; what that leaves behind, and the categories of the model."""
        share, plan = self.stopping.held_out_share, None if self.resumption is None else self.resumption.refit_plan
        if share is None:
            data = self.given.with_all_rows(self.eval_sets)
            run, categories = self._train(data, workers)[0], data.categories
        elif plan is None:
            run, categories = self._train_and_refit(share, workers)
        else:
            run, categories = self._refit(plan, workers)
            tell_of_interruption(run)
            run = plan.describe(run)
        return scale(replace(run, rounds_before=self._n_before)), categories

    def _train_and_refit(self, share: float, workers: Workers) -> tuple[TrainingRun, Categories]:
        """Train on most rows until early stopping, and then, perhaps, on all of them."""
        if self.before is not None:
            warn_of_known_rows(share)
        data = self.given.with_part_held_out(share, self.seed)
        first, settings = self._train(data, workers)
        first = score_held_out(first, data.eval_sets[0], self._n_before, workers)
        if not self.stopping.refits or first.is_cut_short:
            return first, data.categories
        plan = RefitPlan.after(first, settings)
        try:
            second, categories = self._refit(plan, workers)
        except KeyboardInterrupt:
            if not self._keeps_interrupted:
                raise
            _logger.warning(_FIRST_IS_KEPT, first.best_iteration)
            return plan.describe_without(first, INTERRUPTED), data.categories
        if second.model.n_rounds < plan.n_rounds:  # whoever ended it has a whole model so far
            if second.stopped_because == INTERRUPTED:
                _logger.warning(_FIRST_IS_KEPT, first.best_iteration)
            return plan.describe_without(first, second.stopped_because), data.categories
        return plan.describe(second), categories

    def _train(self, data: FitData, workers: Workers) -> tuple[TrainingRun, Settings]:
        """Train until early stopping, or for all rounds; what was left open in the settings is filled in."""
        stoppers = [] if self.stopping.patience is None else [early_stopping(self.stopping.patience)]
        binned = self._bin(data, workers)
        settings = settle(binned, self.settings, self.given.n_samples)
        warn_of_unused_leaves(self.classifier.num_leaves, settings)
        booster = self._make_booster(data, binned, settings, workers, self.resumption is not None)
        run = train(
            booster,
            self._n_before + settings.n_estimators,
            data.eval_sets,
            self.metrics,
            [*stoppers, *self.callbacks],
            workers,
            RunCheckpoints(self.classifier, data, self.settings, self.seed, self.resumption, before=self.before),
            keep_interrupted=self._keeps_interrupted,
            total_weight=float(binned.weights.sum()),
        )
        tell_of_interruption(run)
        warn_without_splits(run, binned, settings)
        if self.classifier.calibration is not None and run.model.n_rounds > 0:
            run = replace(run, temperature=find_temperature(run, data.eval_sets[0], workers))
        return run, settings

    def _refit(self, plan: RefitPlan, workers: Workers) -> tuple[TrainingRun, Categories]:
        """Train on all rows."""
        data = self.given.with_all_rows()
        binned = self._bin(data, workers)
        settings = settle(binned, replace(self.settings, tree_shape=plan.tree_shape), self.given.n_samples)
        is_resumed = self.resumption is not None and self.resumption.refit_plan is not None
        run = train(
            self._make_booster(data, binned, settings, workers, is_resumed),
            plan.n_rounds,
            data.eval_sets,
            self.metrics,
            [callback for callback in self.callbacks if callback.in_refit],
            workers,
            RunCheckpoints(
                self.classifier,
                data,
                self.settings,
                self.seed,
                self.resumption if is_resumed else None,
                plan,
                before=self.before,
            ),
            keep_interrupted=self._keeps_interrupted,
            total_weight=float(binned.weights.sum()),
            is_refit=True,
        )
        return run, data.categories

    def _make_booster(
        self, data: FitData, binned: TrainingData, settings: Settings, workers: Workers, is_resumed: bool
    ) -> AnyBooster:
        """Make the booster, and bring it and the evaluation sets to where the model before was.

        A checkpoint that training is resumed from knows all of that.
        """
        if data.start is not None and self.before is None:
            settings = replace(settings, start_scores="zero")
        booster = make_booster(binned, settings, workers)
        model, before = booster.model, self.before
        if before is None and data.start is None:
            return booster
        bases: list[int] = []
        directions: dict[str, Any] = {}
        if before is not None:
            trees, n_rounds = before.model_.flat().first_rounds(before.best_iteration_), before.best_iteration_
            model = TreeEnsemble.from_flat(model.n_classes, model.n_features, trees, before.model_.start_scores)
            bases = before.base_classes_[:n_rounds].tolist()
            if n_rounds == before.n_iter_:  # they are of the last round
                directions = before._directions
            booster.train_loss = before.train_loss_[:n_rounds].tolist()
            for eval_set in data.eval_sets:
                scores = model.raw_scores(eval_set.X, workers)
                given = eval_set.given_scores
                eval_set.given_scores = scores if given is None else scores + given
        if is_resumed:
            booster.model = model
        else:
            scores = model.raw_scores(data.X, workers)
            scores = scores if data.start is None else scores + data.start
            booster.go_on_from(model, bases, scores, directions)
        return booster

    @property
    def _n_before(self) -> int:
        return 0 if self.before is None else self.before.best_iteration_

    @property
    def _keeps_interrupted(self) -> bool:
        return self.classifier.on_interrupt == "keep"

    def _bin(self, data: FitData, workers: Workers) -> TrainingData:
        """Bin the rows; how finely depends on the number of all rows, so that a second training has the same bins."""
        return data.binned(self.settings.max_bins or default_max_bins(self.given.n_samples), workers)


def tell_of_interruption(run: TrainingRun) -> None:
    """Say what is left of a training that was interrupted."""
    if run.stopped_because == INTERRUPTED:
        _logger.warning("Training was interrupted: the model has the %d rounds done so far.", run.model.n_rounds)


def warn_of_known_rows(share: float) -> None:
    """Warn, in the name of who called the fit, of held-out rows that the model before may have been trained on."""
    warn_caller(
        f"A share of {share:g} of the rows is held out to stop the training early, but the model that it goes on from "
        "may have been trained on them: their metrics may be too good, and stop it too late. Give an eval_set of rows "
        "that the earlier rounds have not seen, or early_stopping=False."
    )


def warn_of_unused_leaves(num_leaves: int | None, settings: Settings) -> None:
    """Warn, in the name of who called the fit, of a number of leaves that symmetric trees do not have."""
    if num_leaves is not None and settings.tree_shape == "symmetric":
        warn_caller(
            f"num_leaves={num_leaves} has no effect: the trees are symmetric, with max_depth={settings.max_depth} "
            'levels of splits. It is of trees that are grown with tree_shape="best-first".'
        )


def warn_without_splits(run: TrainingRun, data: TrainingData, settings: Settings) -> None:
    """Warn, in the name of who called the fit, of a model without a single split, and say why it has none."""
    trees = run.model.flat()
    total = float(data.weights.sum())
    if trees.n_rounds == 0 or (trees.feature != LEAF).any() or run.train_loss[-1] <= _NO_LOSS * total:
        return
    least = 2 * settings.min_samples_leaf
    if data.n_samples * settings.subsample < least:
        share = "" if settings.subsample == 1.0 else f" of which a share of {settings.subsample:g} is drawn,"
        why = (
            f"there are {data.n_samples} samples,{share} but two leaves need {least}: set a smaller min_samples_leaf "
            f"than {settings.min_samples_leaf}"
        )
    elif _are_constant(data.columns):
        why = "all features are constant or missing"
    elif np.unique(data.labels).size == 1:
        why = "all samples that have weight are of one class"
    else:
        why = (
            "no split of a feature improves the loss by enough and leaves enough samples on both sides (see "
            "min_samples_leaf, min_child_weight and min_split_gain)"
        )
    warn_caller(f"The model has no splits, and predicts the same for all samples: {why}.")


def _are_constant(columns: Columns) -> bool:
    """Whether no feature has two values, or one beside missing ones."""
    if (columns.n_bins > 1).any():
        return False
    spare = make_spare_codes(columns)
    return all(np.ptp(spread_codes(columns, f, spare)) == 0 for f in range(columns.feature.size))
