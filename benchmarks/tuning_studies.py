"""Tuning benchmarks: what a study finds on letter, and what it costs beyond the fits.

    python benchmarks/tuning_studies.py letter --storage letter.db --json letter.json
    python benchmarks/tuning_studies.py letter --regularisation --split 1 --seed 1 --storage letter_1.db
    python benchmarks/tuning_studies.py overhead --storage digits.db --json overhead.json

`letter` tunes on the first rows of letter (folder named by ABC_PLUGINS_DATA), or on rows drawn with the seed `--split`,
and scores the best trial, the defaults and boosting without a base class once on all other rows. `overhead` runs a
study on scikit-learn's digits and compares its wall time with the time of its fits. Both continue a study that the
storage has.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from common import describe_machine
from sklearn.datasets import load_digits

from abc_plugins import ABCBoostClassifier
from abc_plugins.data.datasets import load
from tuning import TuneResult, tune
from tuning.engines.native import METHOD
from tuning.objective import PARAMS, SECONDS, outcome
from tuning.result import DEFAULTS, PLAIN, compare, mean_rounds
from tuning.studies import START
from tuning.trials import finished_trials


def run_letter(options: argparse.Namespace) -> dict[str, Any]:
    """Tune on a part of letter, confirm on the rest."""
    data = load("letter")
    order = np.arange(data.y.size)
    if options.split is not None:
        order = np.random.default_rng(options.split).permutation(order)
    tuned, rest = order[: options.rows], order[options.rows :]
    X, y, X_rest, y_rest = data.X[tuned], data.y[tuned], data.X[rest], data.y[rest]
    result = tune(
        X,
        y,
        n_trials=options.trials,
        cv=options.folds,
        seed=options.seed,
        storage=options.storage,
        study_name=f"letter-{options.seed}" if options.split is None else f"letter-{options.split}-{options.seed}",
        fixed={"n_jobs": 1},
        refit=False,
        regularisation=options.regularisation,
    )
    print(result.summary())
    confirmed = {}
    for name, trial in _chosen(result).items():
        parameters = {"method": METHOD, **trial.user_attrs[PARAMS], "n_estimators": mean_rounds(trial)}
        model = ABCBoostClassifier(**parameters, n_jobs=1, random_state=options.seed).fit(X, y)
        errors = int((model.predict(X_rest) != y_rest).sum())
        print(f"{name:<10} {errors} errors of {y_rest.size} on the rest ({errors / y_rest.size:.3%}), {parameters}")
        confirmed[name] = {"errors": errors, "n_test": y_rest.size, "cv_error": trial.values[0], **parameters}
    return {"confirmed": confirmed, "comparisons": [vars(comparison) for comparison in compare(result.study)]}


def _chosen(result: TuneResult) -> dict[str, Any]:
    starts = {trial.user_attrs.get(START): trial for trial in finished_trials(result.study)}
    return {"best": result.best_trial, DEFAULTS: starts[DEFAULTS], PLAIN: starts[PLAIN]}


def run_overhead(options: argparse.Namespace) -> dict[str, Any]:
    """Compare the wall time of a study with the time of its fits."""
    X, y = load_digits(return_X_y=True)
    warm_up = {"n_trials": 3, "cv": 2, "max_rounds": 12, "fixed": {"n_jobs": 1}, "refit": False}
    tune(X[:300], y[:300], **warm_up)  # compile the kernels
    started = time.perf_counter()
    result = tune(
        X,
        y,
        n_trials=options.trials,
        cv=options.folds,
        seed=options.seed,
        storage=options.storage,
        study_name=f"overhead-{options.seed}",
        fixed={"n_jobs": 1},
        refit=False,
    )
    wall = time.perf_counter() - started
    fits = sum(outcome(trial)[SECONDS] for trial in finished_trials(result.study))
    share = (wall - fits) / wall
    print(result.summary())
    print(
        f"{options.trials} trials: {wall:.1f} s, fits {fits:.1f} s, beyond the fits {wall - fits:.2f} s or {share:.2%}"
    )
    return {"wall_seconds": wall, "fit_seconds": fits, "overhead": share}


def main() -> None:
    """Run one of the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", choices=("letter", "overhead"))
    parser.add_argument("--trials", type=int, help="40 on letter, 100 on digits by default")
    parser.add_argument("--rows", type=int, default=6000, help="training rows of letter (default 6000)")
    parser.add_argument("--split", type=int, help="draw the training rows of letter with this seed")
    parser.add_argument("--folds", type=int, default=5, help="outer folds (default 5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--regularisation", action="store_true", help="on letter, tune penalties and sampling, too")
    parser.add_argument("--storage", help="file of the study")
    parser.add_argument("--json", help="file to write the figures to")
    options = parser.parse_args()
    options.trials = options.trials or {"letter": 40, "overhead": 100}[options.benchmark]
    figures = {"letter": run_letter, "overhead": run_overhead}[options.benchmark](options)
    figures["options"] = vars(options)
    figures["machine"] = {**describe_machine(), "optuna": optuna.__version__}
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
