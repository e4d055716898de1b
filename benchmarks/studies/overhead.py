"""What a study costs beyond its fits."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from sklearn.datasets import load_digits

from abc_plugins.tuning.objective import SECONDS, outcome
from abc_plugins.tuning.study.trials import finished_trials
from studies.data import keep
from tuning import tune

TRIALS, MAX_ROUNDS = 100, 1000


def run(options: argparse.Namespace) -> None:
    """Compare the processor time of a study on digits with that of its fits."""
    X, y = load_digits(return_X_y=True)
    if options.rows:
        X, y = X[: options.rows], y[: options.rows]
    tune(X[:300], y[:300], n_trials=8, cv=2, max_rounds=12, refit=False, progress=False)  # compile the kernels
    with tempfile.TemporaryDirectory() as folder:
        started, started_cpu = time.perf_counter(), time.process_time()
        result = tune(
            X,
            y,
            n_trials=options.trials or TRIALS,
            max_rounds=options.max_rounds or MAX_ROUNDS,
            seed=options.seed,
            storage=Path(folder) / "study.db",
            refit=False,
            progress=False,
        )
        wall, processor = time.perf_counter() - started, time.process_time() - started_cpu
        fits = sum(outcome(trial)[SECONDS] for trial in finished_trials(result.study))
    print(result.summary())
    share = (wall - fits) / wall
    keep(options.out, {"wall_seconds": wall, "processor_seconds": processor, "fit_seconds": fits, "overhead": share})
    print(json.dumps({"overhead_percent": round(100 * share, 2)}))
