"""Studies on small data sets against the defaults: whether tuning ever hurts, and what it gains."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common import print_table

from abc_plugins import ABCBoostClassifier
from abc_plugins.tuning.result import fit_parameters
from studies.data import done_before, error, keep, load, log_loss, split
from tuning import TuneResult, tune

SETS = (
    *("iris", "wine", "vowel", "soybean", "digits", "flavia_leaves", "texture", "satimage", "pendigits"),
    *("optdigits", "letter", "covtype"),
)
TRIALS, ROWS, MAX_ROUNDS, MEMBERS = 30, 400, 400, 5


def run(options: argparse.Namespace) -> None:
    """Tune on every data set that the file does not have yet."""
    rows = done_before(options.out)
    known = {row["data"] for row in rows}
    for name in options.data or SETS:
        if name not in known:
            rows.append(_run_set(name, options))
            keep(options.out, rows[-1])
    table(rows)


def _run_set(name: str, options: argparse.Namespace) -> dict[str, Any]:
    X, y = load(name)
    rows, untouched = split(y, options.rows or ROWS, options.seed)
    X_train, y_train, X_test, y_test = X.iloc[rows], y[rows], X.iloc[untouched], y[untouched]
    max_rounds = options.max_rounds or MAX_ROUNDS
    started = time.perf_counter()
    result = tune(
        X_train,
        y_train,
        n_trials=options.trials or TRIALS,
        max_rounds=max_rounds,
        seed=options.seed,
        ensemble=MEMBERS,
        storage=None if options.out is None else f"{options.out}.{name}.log",
        progress=False,
    )
    seconds = time.perf_counter() - started
    print(result.summary(), flush=True)
    fitted = {
        "defaults": _fit(result, result.verdict.defaults, X_train, y_train, options.seed),
        "tuned": _fit(result, result.best_trial, X_train, y_train, options.seed),
        "leader": _fit(result, result.verdict.leader, X_train, y_train, options.seed),
        "ensemble": result.best_estimator,
        "early stopping": ABCBoostClassifier(
            n_estimators=max_rounds, early_stopping_rounds=100, validation_fraction=0.2, n_jobs=1,
            random_state=options.seed,
        ).fit(X_train, y_train),
        "as it comes": ABCBoostClassifier(n_jobs=1, random_state=options.seed).fit(X_train, y_train),
    }  # fmt: skip
    scores = {who: model.predict_proba(X_test) for who, model in fitted.items()}
    verdict = result.verdict
    return {
        "data": name,
        "rows": len(rows),
        "test_rows": len(untouched),
        "classes": int(y.max()) + 1,
        "seconds": seconds,
        "kept_defaults": verdict.keeps_defaults,
        "leader": verdict.leader.number,
        "gain": verdict.gain,
        "margin": verdict.margin,
        "confirmed": verdict.is_confirmed,
        "parameters": fit_parameters(result.study, result.best_trial),
        "ensemble_used": bool(result.ensemble and result.ensemble.is_used),
        "logloss": {who: log_loss(y_test, p) for who, p in scores.items()},
        "error": {who: error(y_test, p) for who, p in scores.items()},
    }


def _fit(result: TuneResult, trial: Any, X: Any, y: Any, seed: int) -> ABCBoostClassifier:
    """The final fit of a trial."""
    if trial.number == result.best_trial.number and isinstance(result.best_estimator, ABCBoostClassifier):
        return result.best_estimator
    return ABCBoostClassifier(**fit_parameters(result.study, trial), n_jobs=1, random_state=seed).fit(X, y)


def table(rows: list[dict[str, Any]]) -> None:
    """Log loss on the untouched rows, and ratios to the defaults."""
    who = ("as it comes", "early stopping", "defaults", "leader", "tuned", "ensemble")
    print_table(
        ["data", "rows", "chosen", *who, "tuned / defaults", "ensemble / defaults"],
        [
            [
                row["data"],
                str(row["rows"]),
                "defaults" if row["kept_defaults"] else f"trial {row['leader']}",
                *(f"{row['logloss'][one]:.4f}" for one in who),
                *(f"{row['logloss'][one] / row['logloss']['defaults']:.3f}" for one in ("tuned", "ensemble")),
            ]
            for row in rows
        ],
    )
    for base in ("defaults", "early stopping", "as it comes"):
        for one in ("tuned", "ensemble", "leader"):
            ratios = np.array([row["logloss"][one] / row["logloss"][base] for row in rows])
            print(
                f"{one} / {base}: geometric mean {np.exp(np.log(ratios).mean()):.3f} over {ratios.size} sets, "
                f"largest {ratios.max():.3f}, above 1.01 on {(ratios > 1.01).sum()}"
            )
