"""Run the rounds of a booster: evaluation sets, callbacks, stopping, interruption."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from abc_plugins.callbacks import CallbackList, Evaluations, RoundContext
from abc_plugins.core.boosters import AnyBooster
from abc_plugins.core.model.ensemble import TreeEnsemble
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.training.evaluation import EvalSet, Metrics

if TYPE_CHECKING:
    from abc_plugins.training.resuming import RunCheckpoints

ALL_ROUNDS = "all rounds"
BY_CALLBACK = "a callback stopped it"
INTERRUPTED = "it was interrupted"
"""Reasons why a training ended; early stopping tells its own."""


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
    best_score: dict[str, dict[str, float]]
    stopped_because: str
    temperature: float = 1.0
    rounds_before: int = 0
    directions: dict[str, Any] = field(default_factory=dict)  # for a fit that goes on after all rounds
    is_cut_short: bool = False  # by the user or their callback, so that nobody knows how many rounds are best


def train(
    booster: AnyBooster,
    n_rounds: int,
    eval_sets: Sequence[EvalSet],
    metrics: Metrics,
    callbacks: Sequence[Any],
    workers: Workers,
    checkpoints: RunCheckpoints | None = None,
    keep_interrupted: bool = False,
    is_refit: bool = False,
    total_weight: float = 1.0,
) -> TrainingRun:
    """Boost for up to `n_rounds` rounds.

    With `keep_interrupted` an interruption (Ctrl-C) after the first round ends the training with the rounds done so
    far; else it is raised. `total_weight`, that of the training samples, is for callbacks that tell mean losses.
    """
    context = RoundContext(
        booster=booster,
        n_rounds=n_rounds,
        higher_is_better=metrics.higher_is_better,
        is_refit=is_refit,
        total_weight=total_weight,
    )
    hooks = CallbackList(callbacks)
    for eval_set in eval_sets:
        eval_set.start(booster.model.start_scores, booster.most_leaves, workers)
    if checkpoints is not None:
        checkpoints.begin(context, metrics, hooks)
    started = time.perf_counter() - context.seconds
    rounds_done = context.n_rounds_done = booster.model.n_rounds
    rounds_before = rounds_done - _rounds_evaluated(context)
    hooks.before_training(context)
    if checkpoints is not None:
        checkpoints.restore_callbacks(context, hooks)
    try:
        for round_index in range(rounds_done, n_rounds):
            context.round_index = round_index
            if hooks.before_round(context):
                context.stopped_because = context.stopped_because or BY_CALLBACK
                break
            trees = booster.run_round()
            for eval_set in eval_sets:
                eval_set.add_round(trees, workers)
            _describe_round(context, booster, eval_sets, metrics, time.perf_counter() - started)
            rounds_done = context.n_rounds_done = round_index + 1
            if hooks.after_round(context):
                context.stopped_because = context.stopped_because or BY_CALLBACK
                break
        context.stopped_because = context.stopped_because or _describe_end(context)
    except BaseException as error:
        context.save_checkpoint = None  # part of a round may have been done
        if not isinstance(error, KeyboardInterrupt) or rounds_done == 0 or not keep_interrupted:
            raise
        booster.model.truncate(rounds_done)
        for values in (values for metrics_of in context.evals_result.values() for values in metrics_of.values()):
            del values[rounds_done - rounds_before :]
        context.stopped_because, hooks.is_cut_short = INTERRUPTED, True
    finally:
        hooks.after_training(context)
    return replace(describe_run(context, rounds_done), is_cut_short=hooks.is_cut_short)


def _describe_end(context: RoundContext) -> str:
    """Why a training ends that nothing has stopped."""
    ending = f"{ALL_ROUNDS}, {context.n_rounds}, were done"
    if context.best_iteration is None:
        return ending
    return f"{ending} before early stopping ended it (best was round {context.best_iteration})"


def describe_run(context: RoundContext, rounds_done: int) -> TrainingRun:
    """What the training has left behind after `rounds_done` rounds."""
    booster = context.booster
    best_iteration = rounds_done if context.best_iteration is None else context.best_iteration
    return TrainingRun(
        model=booster.model,
        base_classes=booster.schedule.bases[:rounds_done],
        train_loss=booster.train_loss[:rounds_done],
        trees_grown=booster.trees_grown,
        guarded_rounds=booster.guarded_rounds,
        evals_result=context.evals_result,
        best_iteration=best_iteration,
        best_score={
            # The rounds of a model before have no metrics.
            name: {metric: values[best_iteration - 1 - rounds_done] for metric, values in of_set.items()}
            for name, of_set in context.evals_result.items()
            if rounds_done - best_iteration < len(next(iter(of_set.values()), []))
        },
        stopped_because=context.stopped_because or "",
        directions=booster.directions,
    )


def _rounds_evaluated(context: RoundContext) -> int:
    """Rounds that have metrics; those of a model that training goes on from have none."""
    first = next(iter(context.evals_result.values()), {})
    return len(next(iter(first.values()), []))


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
