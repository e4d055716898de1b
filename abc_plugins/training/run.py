"""Run the rounds of a booster: evaluation sets, callbacks, stopping, interruption."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from abc_plugins.callbacks import CallbackList, Evaluations, RoundContext
from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.boosters import AnyBooster
from abc_plugins.core.model.ensemble import LEAF, TreeEnsemble
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import Settings
from abc_plugins.training.evaluation import EvalSet, Metrics

if TYPE_CHECKING:
    from abc_plugins.training.resuming import RunCheckpoints

_NO_LOSS = 1e-12
"""Mean loss below which there is nothing left to learn."""

_logger = logging.getLogger("abc_plugins")


@dataclass(frozen=True)
class TrainingRun:
    """What a training run leaves behind; see the attributes of `ABCBoostClassifier`."""

    model: TreeEnsemble
    base_classes: Sequence[int]
    train_loss: Sequence[float]
    trees_grown: int
    guarded_rounds: int
    evals_result: Evaluations
    best_iteration: int


def train(
    booster: AnyBooster,
    n_rounds: int,
    eval_sets: Sequence[EvalSet],
    metrics: Metrics,
    callbacks: Sequence[Any],
    workers: Workers,
    checkpoints: RunCheckpoints | None = None,
    keep_interrupted: bool = False,
) -> TrainingRun:
    """Boost for up to `n_rounds` rounds.

    With `keep_interrupted` an interruption (Ctrl-C) after the first round ends the training with the rounds done so
    far; else it is raised.
    """
    context = RoundContext(booster=booster, n_rounds=n_rounds, higher_is_better=metrics.higher_is_better)
    hooks = CallbackList(callbacks)
    if checkpoints is not None:
        checkpoints.begin(context, metrics, hooks)
    started = time.perf_counter() - context.seconds
    rounds_done = booster.model.n_rounds
    if rounds_done == 0:
        for eval_set in eval_sets:
            eval_set.scores[:] = booster.model.start_scores
    hooks.before_training(context)
    if checkpoints is not None:
        checkpoints.restore_callbacks(context, hooks)
    try:
        for round_index in range(rounds_done, n_rounds):
            context.round_index = round_index
            if hooks.before_round(context):
                break
            trees = booster.run_round()
            for eval_set in eval_sets:
                eval_set.add_round(trees, workers)
            _describe_round(context, booster, eval_sets, metrics, time.perf_counter() - started)
            rounds_done = round_index + 1
            if hooks.after_round(context):
                break
    except KeyboardInterrupt:
        if rounds_done == 0 or not keep_interrupted:
            raise
        # Part of a round may have been done.
        booster.model.truncate(rounds_done)
        for values in (values for metrics_of in context.evals_result.values() for values in metrics_of.values()):
            del values[rounds_done:]
        _logger.warning("Training was interrupted: the model has the %d rounds done so far.", rounds_done)
    finally:
        hooks.after_training(context)
    return describe_run(context, rounds_done)


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
    warnings.warn(f"The model has no splits, and predicts the same for all samples: {why}.", stacklevel=3)


def describe_run(context: RoundContext, rounds_done: int) -> TrainingRun:
    """What the training has left behind after so many rounds."""
    booster = context.booster
    return TrainingRun(
        model=booster.model,
        base_classes=booster.schedule.bases[:rounds_done],
        train_loss=booster.train_loss[:rounds_done],
        trees_grown=booster.trees_grown,
        guarded_rounds=booster.guarded_rounds,
        evals_result=context.evals_result,
        best_iteration=rounds_done if context.best_iteration is None else context.best_iteration,
    )


def _describe_round(
    context: RoundContext, booster: AnyBooster, eval_sets: Sequence[EvalSet], metrics: Metrics, seconds: float
) -> None:
    """Tell the callbacks what the round did."""
    context.base_class = booster.schedule.bases[-1]
    context.train_loss = booster.train_loss[-1]
    context.trees_grown = booster.trees_grown
    context.seconds = seconds
    for eval_set in eval_sets:
        for name, value in metrics.evaluate(eval_set):
            context.evals_result.setdefault(eval_set.name, {}).setdefault(name, []).append(value)
