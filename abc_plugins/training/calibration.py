"""One temperature for all scores, such that the probabilities of held-out samples are calibrated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from abc_plugins.core.losses import mean_loss
from abc_plugins.core.model.ensemble import TreeEnsemble
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.training.evaluation import EvalSet
from abc_plugins.training.run import TrainingRun

_COLDEST, _HOTTEST = 0.05, 20.0


def find_temperature(run: TrainingRun, eval_set: EvalSet, workers: Workers) -> float:
    """The number to divide all scores by that gives held-out samples the least log loss."""
    from scipy.optimize import minimize_scalar  # takes time to import, and most fits do without

    scores = run.model.raw_scores(eval_set.X, workers, run.best_iteration)
    found = minimize_scalar(
        lambda log: mean_loss(scores / np.exp(log), eval_set.codes, eval_set.weights),
        bounds=(np.log(_COLDEST), np.log(_HOTTEST)),
        method="bounded",
    )
    return float(np.exp(found.x))


def scale(run: TrainingRun) -> TrainingRun:
    """Divide all leaf values and start scores by the temperature."""
    if run.temperature == 1.0:
        return run
    model, trees = run.model, run.model.flat()
    trees = replace(trees, values=trees.values / run.temperature)
    scaled = TreeEnsemble.from_flat(model.n_classes, model.n_features, trees, model.start_scores / run.temperature)
    return replace(run, model=scaled)
