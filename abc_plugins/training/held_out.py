"""What a model is worth on the rows that were held out of its training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from abc_plugins.core.losses import mean_loss
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.training.evaluation import EvalSet
from abc_plugins.training.run import TrainingRun


def score_held_out(run: TrainingRun, held_out: EvalSet, n_before: int, workers: Workers) -> TrainingRun:
    """Add the log loss and the error after the best round, whatever the metrics of the training are.

    Scores that the user gave are no part of the model: the samples began with them and `n_before` rounds.
    """
    scores = run.model.raw_scores(held_out.X, workers, run.best_iteration)
    if held_out.given_scores is not None:
        scores += held_out.given_scores - run.model.raw_scores(held_out.X, workers, n_before)
    found = {
        "logloss": float(mean_loss(scores, held_out.codes, held_out.weights)),
        "error": float(np.average(scores.argmax(axis=1) != held_out.codes, weights=held_out.weights)),
    }
    known = run.best_score.get(held_out.name, {})
    return replace(run, best_score={**run.best_score, held_out.name: found | known})
