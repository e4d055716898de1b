"""One fit: train a contender, and score what it predicts for the test rows."""

from __future__ import annotations

import pickle
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from abc_plugins.compare.parameters import plain_parameters
from abc_plugins.compare.practice.contenders import Contender
from abc_plugins.compare.practice.table import Sample
from abc_plugins.compare.practice.training import Params, Trained
from abc_plugins.core.runtime.arrays import AnyArray, Floats

_SMALLEST_PROBABILITY = 1e-15
NO_CHANCE = 1e-6
"""A probability below is no chance at all."""

_EDGES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
CALIBRATION_EDGES = np.array([*_EDGES, *(1 - np.array(_EDGES[-2::-1]))])
"""Edges of the bins of predicted probabilities, closer together towards 0 and 1."""

_CURVE_POINTS = 300
_SLOW_PREDICTION, _ROWS_OF_SLOW = 1.0, 200
"""A prediction that takes this many seconds is repeated with this many rows only."""


def fit_and_score(
    contender: Contender, sample: Sample, X_test: Floats, y_test: AnyArray, params: Params | None = None
) -> dict[str, Any]:
    """Fit a contender and score it.

    Parameters
    ----------
    contender : Contender
    sample : Sample
    X_test, y_test : arrays
        Test rows; labels are those of the sample.
    params : dict, optional
        Parameters that are not to be the contender's own.

    Returns
    -------
    dict of plain JSON values
        errors, log_loss: of the test rows; valid_loss: of the validation rows at the round that is kept; rounds;
        at_limit: whether the limit of rounds stopped it; seconds: of training; predict_ms: per 1,000 test rows;
        bytes: of the pickled model; no_chance: test rows whose class was given next to no probability;
        no_chance_loss: their part of the log loss; curve: (round, validation loss) of up to 300 rounds;
        calibration: counts, sums of probabilities and hits by bin; parameters.
    """
    trained, seconds = timed_training(contender, sample, params or {})
    return {"seconds": seconds, **score(trained, sample, X_test, y_test)}


def timed_training(contender: Contender, sample: Sample, params: Params) -> tuple[Trained, float]:
    """Train a contender; the model and the seconds it took."""
    with threadpool_limits(sample.n_jobs):  # for scikit-learn's boosting, which takes no number of threads
        started = time.perf_counter()
        trained = contender.train(sample, params)
        return trained, time.perf_counter() - started


def score(trained: Trained, sample: Sample, X_test: Floats, y_test: AnyArray) -> dict[str, Any]:
    """Figures of a fitted contender, all but the seconds of `fit_and_score`."""
    with threadpool_limits(sample.n_jobs):
        probabilities, predict_ms = _timed_prediction(trained, X_test)
    own = probabilities[np.arange(y_test.size), y_test] / probabilities.sum(axis=1)
    losses = -np.log(np.clip(own, _SMALLEST_PROBABILITY, 1.0))
    curve = np.asarray(trained.curve, dtype=np.float64)
    return {
        "errors": int((probabilities.argmax(axis=1) != y_test).sum()),
        "log_loss": float(losses.mean()),
        "valid_loss": valid_loss(trained),
        "rounds": trained.rounds,
        "at_limit": bool(curve.size >= sample.rounds),
        "predict_ms": predict_ms,
        "bytes": len(pickle.dumps(trained.model, protocol=pickle.HIGHEST_PROTOCOL)),
        "no_chance": int((own < NO_CHANCE).sum()),
        "no_chance_loss": float(losses[own < NO_CHANCE].sum() / y_test.size),
        "curve": _thinned(curve),
        "calibration": calibration(probabilities, y_test),
        "parameters": plain_parameters(trained.model),
    }


def valid_loss(trained: Trained) -> float | None:
    """Log loss of the validation samples at the round that predictions use; None if it is not known."""
    return float(trained.curve[min(trained.rounds, len(trained.curve)) - 1]) if len(trained.curve) else None


def _timed_prediction(trained: Trained, X: Floats) -> tuple[Floats, float]:
    """Predict; the probabilities, and the milliseconds per 1,000 rows.

    The first call may have kernels to compile or buffers to set up, so a second one is timed as well, and the shorter
    time counts. A call that takes long is repeated with a part of the rows.
    """
    probabilities, first = _timed_call(trained, X)
    rows = X if first < _SLOW_PREDICTION else X[:_ROWS_OF_SLOW]
    _, second = _timed_call(trained, rows)
    return probabilities, 1e6 * min(first / len(X), second / len(rows))


def _timed_call(trained: Trained, X: Floats) -> tuple[Floats, float]:
    started = time.perf_counter()
    probabilities = trained.predict_proba(X)
    return probabilities, time.perf_counter() - started


def calibration(probabilities: Floats, y: AnyArray) -> dict[str, list[float]]:
    """Probabilities of all rows and classes by bin: how many, their sum, and how many of them came true."""
    bins = np.digitize(probabilities.ravel(), CALIBRATION_EDGES)
    true = np.zeros_like(probabilities)
    true[np.arange(y.size), y] = 1.0
    found = (None, probabilities.ravel(), true.ravel())
    counts, sums, hits = (
        np.bincount(bins, weights=weights, minlength=CALIBRATION_EDGES.size + 1).tolist() for weights in found
    )
    return {"counts": counts, "sums": [round(value, 6) for value in sums], "hits": hits}


def _thinned(curve: Floats) -> list[list[float]]:
    """Rounds and losses: the first, the last, and others evenly between them on a logarithmic scale."""
    if not curve.size:
        return []
    rounds = np.unique(np.geomspace(1, curve.size, _CURVE_POINTS).round().astype(np.int64))
    return [[int(index), round(float(curve[index - 1]), 7)] for index in rounds]
