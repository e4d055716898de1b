"""Our study against Optuna on LightGBM, XGBoost and CatBoost: the same rows, folds, trials and processor seconds."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import optuna
import pandas as pd
from common import print_table

from abc_plugins import ABCBoostClassifier
from abc_plugins.tuning.splits import Fold, make_folds, usual_validation_fraction
from studies.data import done_before, error, keep, load, log_loss, split
from tuning import FoldPruner, tune

SETS = ("letter", "covtype", "satimage", "pendigits", "optdigits", "texture")
"""None of those that the ranges and the settings to start with come from."""

TRIALS, ROWS, MAX_ROUNDS, FOLDS, PATIENCE = 50, 2000, 1000, 3, 50
SECONDS = 90.0
"""Processor seconds after which no study begins another fit: fifty trials of CatBoost would take hours."""

MEMBERS = 5
Fit = Callable[[Any, np.ndarray, Any, np.ndarray, dict[str, Any], int, int], tuple[Any, int]]


def run(options: argparse.Namespace) -> None:
    """Run every study that the file does not have yet."""
    rows = done_before(options.out)
    known = {(row["data"], row["peer"]) for row in rows}
    for name in options.data or SETS:
        for peer in options.peers or ("ours", *PEERS, "lightgbm-tuner"):
            if (name, peer) not in known:
                rows.append(_run_study(name, peer, options))
                keep(options.out, rows[-1])
    table(rows)


def _run_study(name: str, peer: str, options: argparse.Namespace) -> dict[str, Any]:
    X, y = load(name)
    rows, untouched = split(y, options.rows or ROWS, options.seed)
    X_train, y_train = X.iloc[rows].reset_index(drop=True), y[rows]
    limits = _Limits(options.trials or TRIALS, options.seconds or SECONDS, options.max_rounds or MAX_ROUNDS)
    study = {"ours": _our_study, "lightgbm-tuner": _lightgbm_tuner}.get(peer, partial(_peer_study, peer))
    wall = time.perf_counter()
    models, n_trials = study(X_train, y_train, limits, options.seed)
    seconds = {"seconds": limits.used(), "wall_seconds": time.perf_counter() - wall}
    X_test = _strings(X.iloc[untouched]) if peer == "catboost" else X.iloc[untouched]
    probabilities = {who: model.predict_proba(X_test) for who, model in models.items()}
    scores = {
        "logloss": {who: log_loss(y[untouched], p) for who, p in probabilities.items()},
        "error": {who: error(y[untouched], p) for who, p in probabilities.items()},
    }
    sizes = {"rows": len(rows), "test_rows": len(untouched), "classes": int(y.max()) + 1}
    return {"data": name, "peer": peer, **sizes, "trials": n_trials, **seconds, **scores}


class _Limits:
    """What every study may use, and what it has used of it since this was made."""

    def __init__(self, n_trials: int, seconds: float, max_rounds: int) -> None:
        self.n_trials = n_trials
        self.seconds = seconds
        self.max_rounds = max_rounds
        self._started = time.process_time()

    def used(self) -> float:
        """Processor seconds so far."""
        return time.process_time() - self._started

    def forget(self, seconds: float) -> None:
        """Do not count what was no part of the study."""
        self._started += seconds

    def stop_if_used_up(self, study: Any, trial: Any) -> None:
        """As a callback of Optuna: begin no more trials."""
        if self.used() >= self.seconds or trial.number + 1 >= self.n_trials:
            study.stop()


Found = tuple[dict[str, Any], int]
"""Fitted models by their names, and the number of trials."""


def _our_study(X: pd.DataFrame, y: np.ndarray, limits: _Limits, seed: int) -> Found:
    """The ensemble of the best trials, and the chosen trial alone."""
    result = tune(
        X, y, n_trials=limits.n_trials, max_rounds=limits.max_rounds, cv=FOLDS, repeats=1, seed=seed, ensemble=MEMBERS,
        callbacks=[limits.stop_if_used_up], progress=False,
    )  # fmt: skip
    print(result.summary(), flush=True)
    used = limits.used()
    single = ABCBoostClassifier(**result.best_params, n_jobs=1).fit(X, y)
    limits.forget(limits.used() - used)
    return {"ours": result.best_estimator, "ours, one model": single}, len(result.trials)


def _peer_study(peer: str, X: pd.DataFrame, y: np.ndarray, limits: _Limits, seed: int) -> Found:
    """A study as people write it: TPE, folds, early stopping, a pruner that looks at folds, and the usual space."""
    X = _strings(X) if peer == "catboost" else X
    space, fit = PEERS[peer]
    folds = make_folds(FOLDS, y.astype(np.int32), None, usual_validation_fraction(y.size), seed)

    def objective(trial: Any) -> float:
        parameters = {} if trial.number == 0 else space(trial)  # the defaults first, as ours has them
        scores, rounds = [], []
        for index, fold in enumerate(folds):
            if trial.number and limits.used() >= limits.seconds:
                raise optuna.TrialPruned
            model, best = fit(*_parts(X, y, fold), parameters, limits.max_rounds, seed)
            scores.append(log_loss(y[fold.test], model.predict_proba(X.iloc[fold.test])))
            rounds.append(best)
            trial.report(float(np.mean(scores)), index)
            if trial.number and index + 1 < len(folds) and trial.should_prune():
                raise optuna.TrialPruned
        trial.set_user_attr("rounds", max(1, round(float(np.mean(rounds)))))
        trial.set_user_attr("parameters", parameters)
        return float(np.mean(scores))

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
    study = optuna.create_study(sampler=sampler, pruner=FoldPruner())
    study.optimize(objective, callbacks=[limits.stop_if_used_up])
    best = study.best_trial.user_attrs
    return {peer: fit(X, y, None, y, best["parameters"], best["rounds"], seed)[0]}, len(study.trials)


def _parts(X: pd.DataFrame, y: np.ndarray, fold: Fold) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    return X.iloc[fold.train], y[fold.train], X.iloc[fold.valid], y[fold.valid]


# ------------------------------------------------------------------------------------------------ peers


def _lightgbm_space(trial: Any) -> dict[str, Any]:
    return {
        "num_leaves": trial.suggest_int("num_leaves", 4, 256, log=True),
        "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.3, log=True),
        "min_child_samples": trial.suggest_int("min_child_samples", 2, 100, log=True),
        "reg_alpha": trial.suggest_float("reg_alpha", 1e-8, 10.0, log=True),
        "reg_lambda": trial.suggest_float("reg_lambda", 1e-8, 10.0, log=True),
        "subsample": trial.suggest_float("subsample", 0.4, 1.0),
        "subsample_freq": 1,
        "colsample_bytree": trial.suggest_float("colsample_bytree", 0.3, 1.0),
    }


def _fit_lightgbm(
    X: Any, y: np.ndarray, X_valid: Any, y_valid: np.ndarray, parameters: dict[str, Any], rounds: int, seed: int
) -> tuple[Any, int]:
    import lightgbm as lgb

    model = lgb.LGBMClassifier(
        **parameters, n_estimators=rounds, n_jobs=1, verbose=-1, random_state=seed, max_delta_step=4
    )
    if X_valid is None:
        return model.fit(X, y), rounds
    model.fit(X, y, eval_set=[(X_valid, y_valid)], callbacks=[lgb.early_stopping(PATIENCE, verbose=False)])
    return model, int(model.best_iteration_)


def _xgboost_space(trial: Any) -> dict[str, Any]:
    return {
        "max_depth": trial.suggest_int("max_depth", 3, 10),
        "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.3, log=True),
        "min_child_weight": trial.suggest_float("min_child_weight", 1e-3, 10.0, log=True),
        "reg_alpha": trial.suggest_float("reg_alpha", 1e-8, 10.0, log=True),
        "reg_lambda": trial.suggest_float("reg_lambda", 1e-8, 10.0, log=True),
        "subsample": trial.suggest_float("subsample", 0.4, 1.0),
        "colsample_bytree": trial.suggest_float("colsample_bytree", 0.3, 1.0),
    }


def _fit_xgboost(
    X: Any, y: np.ndarray, X_valid: Any, y_valid: np.ndarray, parameters: dict[str, Any], rounds: int, seed: int
) -> tuple[Any, int]:
    from xgboost import XGBClassifier

    options = {"n_jobs": 1, "random_state": seed, "enable_categorical": True, "tree_method": "hist"}
    if X_valid is None:
        return XGBClassifier(**parameters, **options, n_estimators=rounds).fit(X, y), rounds
    model = XGBClassifier(**parameters, **options, n_estimators=rounds, early_stopping_rounds=PATIENCE)
    model.fit(X, y, eval_set=[(X_valid, y_valid)], verbose=False)
    return model, int(model.best_iteration) + 1


def _catboost_space(trial: Any) -> dict[str, Any]:
    return {
        "depth": trial.suggest_int("depth", 4, 8),
        "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.3, log=True),
        "l2_leaf_reg": trial.suggest_float("l2_leaf_reg", 0.3, 30.0, log=True),
        "random_strength": trial.suggest_float("random_strength", 0.1, 10.0, log=True),
        "bagging_temperature": trial.suggest_float("bagging_temperature", 0.0, 2.0),
    }


def _fit_catboost(
    X: Any, y: np.ndarray, X_valid: Any, y_valid: np.ndarray, parameters: dict[str, Any], rounds: int, seed: int
) -> tuple[Any, int]:
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(
        **parameters,
        iterations=rounds,
        thread_count=1,
        random_seed=seed,
        verbose=0,
        allow_writing_files=False,
        cat_features=[column for column in X if X[column].dtype == object],
    )
    if X_valid is None:
        return model.fit(X, y), rounds
    model.fit(X, y, eval_set=(X_valid, y_valid), early_stopping_rounds=PATIENCE)
    return model, int(model.best_iteration_ or 0) + 1


PEERS: dict[str, tuple[Callable[[Any], dict[str, Any]], Fit]] = {
    "lightgbm": (_lightgbm_space, _fit_lightgbm),
    "xgboost": (_xgboost_space, _fit_xgboost),
    "catboost": (_catboost_space, _fit_catboost),
}


class _BoosterModel:
    """A LightGBM Booster as a classifier."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def predict_proba(self, X: Any) -> Any:
        return self.booster.predict(X)


def _lightgbm_tuner(X: pd.DataFrame, y: np.ndarray, limits: _Limits, seed: int) -> Found:
    """Optuna's own stepwise tuner of LightGBM (package optuna-integration), within the same limits."""
    import lightgbm as lgb
    from optuna_integration.lightgbm import LightGBMTunerCV

    params = {
        "objective": "multiclass", "num_class": int(y.max()) + 1, "metric": "multi_logloss", "verbosity": -1,
        "num_threads": 1, "max_delta_step": 4, "seed": seed,
    }  # fmt: skip
    study = optuna.create_study(direction="minimize")
    tuner = LightGBMTunerCV(
        params, lgb.Dataset(X, y), num_boost_round=limits.max_rounds, nfold=FOLDS, stratified=True, seed=seed,
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)], study=study, show_progress_bar=False,
        optuna_callbacks=[limits.stop_if_used_up],
    )  # fmt: skip
    tuner.run()
    found = lgb.cv(
        tuner.best_params, lgb.Dataset(X, y), limits.max_rounds, nfold=FOLDS, stratified=True, seed=seed,
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip
    rounds = len(found["valid multi_logloss-mean"])
    return {"lightgbm-tuner": _BoosterModel(lgb.train(tuner.best_params, lgb.Dataset(X, y), rounds))}, len(study.trials)


def _strings(X: pd.DataFrame) -> pd.DataFrame:
    """CatBoost takes categories as strings."""
    text = [column for column in X if isinstance(X[column].dtype, pd.CategoricalDtype)]
    return X.assign(**{column: X[column].astype(object).where(X[column].notna(), "nan").astype(str) for column in text})


def table(rows: list[dict[str, Any]]) -> None:
    """Log loss, trials and processor seconds by data set, and ours divided by each peer."""
    by_set: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        for who, loss in row["logloss"].items():
            by_set.setdefault(row["data"], {})[who] = {**row, "loss": loss}
    whos = list(dict.fromkeys(who for own in by_set.values() for who in own))
    cells = [
        [
            name,
            *(
                f"{own[who]['loss']:.4f} ({own[who]['trials']}, {own[who]['seconds']:.0f} s)" if who in own else "-"
                for who in whos
            ),
        ]
        for name, own in by_set.items()
    ]
    print_table(["data", *whos], cells)
    for mine in ("ours", "ours, one model"):
        for who in whos:
            pairs = [(own[mine], own[who]) for own in by_set.values() if mine in own and who in own and mine != who]
            if pairs:
                losses = np.mean([np.log(one["loss"] / other["loss"]) for one, other in pairs])
                times = np.mean([np.log(one["seconds"] / other["seconds"]) for one, other in pairs])
                print(f"{mine} / {who}: log loss {np.exp(losses):.3f}, time {np.exp(times):.2f}, {len(pairs)} sets")
