"""Everybody tuned alike: the same number of Optuna trials within the same seconds of processor time.

A trial is a fit that the validation rows stop, and their log loss is what is tuned. The first trial has each
contender's own settings. The best trial's model is scored once, on test rows that no trial saw. Time is that of the
processor, one thread, so that a busy machine takes nothing away; a trial that has begun is finished.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from leagues.practice import figures, table_of, warm_up

SETS = ("covtype", "krkopt", "letter", "nursery", "pendigits", "shuttle", "diabetes130", "kddcup99_10pct")
CONTENDERS = ("directional", "lightgbm", "xgboost", "catboost")
NAMES = ("data", "seed", "which", "trials", "limit", "rows")
ROWS = 5_000
"""Training rows: 4,000 to fit on and 1,000 to stop by and to tune on."""
ROUNDS = 2000
"""With shrinkage of up to 0.3, enough for CatBoost too."""


def _directional(trial: Any) -> dict[str, Any]:
    shape = trial.suggest_categorical("tree_shape", ["symmetric", "best-first"])
    size = (
        {"max_depth": trial.suggest_int("max_depth", 4, 8)}
        if shape == "symmetric"
        else {"num_leaves": trial.suggest_int("num_leaves", 8, 128, log=True)}
    )
    return {
        "learning_rate": trial.suggest_float("learning_rate", 0.03, 0.3, log=True),
        "tree_shape": shape,
        **size,
        "leaf_reg_lambda": trial.suggest_float("leaf_reg_lambda", 1e-2, 10.0, log=True),
        "reg_lambda": trial.suggest_float("reg_lambda", 1e-2, 10.0, log=True),
        "subsample": trial.suggest_float("subsample", 0.5, 1.0),
        "colsample": trial.suggest_float("colsample", 0.4, 1.0),
    }


def _lightgbm(trial: Any) -> dict[str, Any]:
    return {
        "learning_rate": trial.suggest_float("learning_rate", 0.03, 0.3, log=True),
        "num_leaves": trial.suggest_int("num_leaves", 4, 128, log=True),
        "min_child_samples": trial.suggest_int("min_child_samples", 1, 50, log=True),
        "reg_lambda": trial.suggest_float("reg_lambda", 1e-3, 10.0, log=True),
        "subsample": trial.suggest_float("subsample", 0.5, 1.0),
        "subsample_freq": 1,  # it draws no rows without
        "colsample_bytree": trial.suggest_float("colsample_bytree", 0.4, 1.0),
    }


def _xgboost(trial: Any) -> dict[str, Any]:
    return {
        "learning_rate": trial.suggest_float("learning_rate", 0.03, 0.3, log=True),
        "max_depth": trial.suggest_int("max_depth", 3, 10),
        "min_child_weight": trial.suggest_float("min_child_weight", 1e-2, 10.0, log=True),
        "reg_lambda": trial.suggest_float("reg_lambda", 1e-2, 10.0, log=True),
        "subsample": trial.suggest_float("subsample", 0.5, 1.0),
        "colsample_bytree": trial.suggest_float("colsample_bytree", 0.4, 1.0),
    }


def _catboost(trial: Any) -> dict[str, Any]:
    return {
        "learning_rate": trial.suggest_float("learning_rate", 0.03, 0.3, log=True),
        "depth": trial.suggest_int("depth", 4, 8),
        "l2_leaf_reg": trial.suggest_float("l2_leaf_reg", 0.3, 10.0, log=True),
        "random_strength": trial.suggest_float("random_strength", 0.1, 10.0, log=True),
        "bagging_temperature": trial.suggest_float("bagging_temperature", 0.0, 1.0),
        "rsm": trial.suggest_float("rsm", 0.4, 1.0),
    }


SPACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "directional": _directional,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
}


def cells(
    sets: Sequence[str], seeds: Sequence[int], contenders: Sequence[str], trials: int, limit: float
) -> Iterator[dict[str, Any]]:
    """All searches, a data set after the other."""
    for data, seed, which in itertools.product(sets, seeds, contenders):
        yield {"data": data, "seed": seed, "which": which, "trials": trials, "limit": limit, "rows": ROWS}


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Search the settings of a contender, and score the best of its trials."""
    import optuna

    from abc_plugins.compare.practice.contenders import select
    from abc_plugins.compare.practice.fitting import timed_training, valid_loss
    from abc_plugins.compare.practice.table import make_sample, split_rows

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    table = table_of(cell["data"])
    parts = split_rows(table, cell["seed"], max_train=cell["rows"])
    warm_up(cell["which"], table, parts)
    sample, X_test, y_test = make_sample(table, parts, seed=cell["seed"], n_jobs=1, rounds=ROUNDS)
    (contender,) = select([cell["which"]])
    started = time.process_time()
    models: list[tuple[float, dict[str, Any], Any]] = []  # the first trial and the best: loss, settings, model

    def objective(trial: Any) -> float:
        params = SPACES[cell["which"]](trial) if trial.number else {}
        trained, _ = timed_training(contender, sample, params)
        loss = valid_loss(trained)
        fitted = (loss, params, trained)
        models[1:] = [min(models[1], fitted, key=lambda model: model[0])] if models else [fitted, fitted]
        if time.process_time() - started > cell["limit"]:
            trial.study.stop()
        return loss

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=cell["seed"], n_startup_trials=5))
    study.optimize(objective, n_trials=cell["trials"])
    spent = time.process_time() - started
    default, best = (figures(trained, sample, X_test, y_test) for _, _, trained in models)
    return {
        **cell,
        **best,
        "params": models[1][1],
        "done": len(study.trials),
        "search_cpu": spent,
        "default_ll": default["ll"],
        "default_err": default["err"],
        "summary": f"log loss {default['ll']:.4f} -> {best['ll']:.4f}, {len(study.trials)} trials, {spent:.0f} s",
    }
