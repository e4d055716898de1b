"""Our study against Optuna on LightGBM, XGBoost and CatBoost: the same trials, folds and rows."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
import pandas as pd
from common import print_table

from abc_plugins.tuning.splits import Fold, make_folds
from studies.data import done_before, error, keep, load, log_loss, split
from tuning import FoldPruner, tune

SETS = ("letter", "covtype", "satimage", "pendigits", "optdigits", "texture")
"""None of those that the ranges and the settings to start with come from."""

TRIALS, ROWS, MAX_ROUNDS, FOLDS, PATIENCE = 50, 4000, 1000, 5, 50
Fit = Callable[[Any, np.ndarray, Any, np.ndarray, dict[str, Any], int, int], tuple[Any, int]]


def run(options: argparse.Namespace) -> None:
    """Run every study that the file does not have yet."""
    known = {(row["data"], row["peer"]) for row in done_before(options.out)}
    for name in options.data or SETS:
        for peer in options.peers or ("ours", *PEERS, "lightgbm-tuner"):
            if (name, peer) not in known:
                keep(options.out, _run_study(name, peer, options))
    table(done_before(options.out))


def _run_study(name: str, peer: str, options: argparse.Namespace) -> dict[str, Any]:
    X, y = load(name)
    rows, untouched = split(y, options.rows or ROWS, options.seed)
    X_train, y_train = X.iloc[rows].reset_index(drop=True), y[rows]
    n_trials, max_rounds = options.trials or TRIALS, options.max_rounds or MAX_ROUNDS
    started = time.perf_counter()
    if peer == "ours":
        result = tune(
            X_train, y_train, n_trials=n_trials, max_rounds=max_rounds, cv=FOLDS, seed=options.seed, ensemble=5,
            progress=False,
        )  # fmt: skip
        models = {"ours": result.best_estimator}
        print(result.summary(), flush=True)
    elif peer == "lightgbm-tuner":
        models = {peer: _lightgbm_tuner(X_train, y_train, n_trials, max_rounds, options.seed)}
    else:
        models = {peer: _peer_study(peer, X_train, y_train, n_trials, max_rounds, options.seed)}
    seconds = time.perf_counter() - started
    p = models[peer].predict_proba(_strings(X.iloc[untouched]) if peer == "catboost" else X.iloc[untouched])
    scores = {"logloss": log_loss(y[untouched], p), "error": error(y[untouched], p)}
    return {"data": name, "peer": peer, "rows": len(rows), "trials": n_trials, "seconds": seconds, **scores}


def _peer_study(peer: str, X: pd.DataFrame, y: np.ndarray, n_trials: int, max_rounds: int, seed: int) -> Any:
    """A study as people write it: TPE, folds, early stopping, a pruner that looks at folds, and the usual space."""
    X = _strings(X) if peer == "catboost" else X
    space, fit = PEERS[peer]
    folds = make_folds(FOLDS, y.astype(np.int32), None, 0.1, seed)

    def objective(trial: Any) -> float:
        parameters = {} if trial.number == 0 else space(trial)  # the defaults first, as ours has them
        scores, rounds = [], []
        for index, fold in enumerate(folds):
            model, best = fit(*_parts(X, y, fold), parameters, max_rounds, seed)
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
    study.optimize(objective, n_trials=n_trials)
    best = study.best_trial.user_attrs
    return fit(X, y, None, y, best["parameters"], best["rounds"], seed)[0]


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
        "depth": trial.suggest_int("depth", 4, 9),
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


def _lightgbm_tuner(X: pd.DataFrame, y: np.ndarray, n_trials: int, max_rounds: int, seed: int) -> Any:
    """Optuna's own stepwise tuner of LightGBM (package optuna-integration), at the same number of trials at most."""
    import lightgbm as lgb
    from optuna_integration.lightgbm import LightGBMTunerCV

    params = {
        "objective": "multiclass", "num_class": int(y.max()) + 1, "metric": "multi_logloss", "verbosity": -1,
        "num_threads": 1, "max_delta_step": 4, "seed": seed,
    }  # fmt: skip
    study = optuna.create_study(direction="minimize")
    tuner = LightGBMTunerCV(
        params, lgb.Dataset(X, y), num_boost_round=max_rounds, nfold=FOLDS, stratified=True, seed=seed,
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)], study=study, show_progress_bar=False,
        optuna_callbacks=[lambda study, trial: study.stop() if trial.number + 1 >= n_trials else None],
    )  # fmt: skip
    tuner.run()
    found = lgb.cv(
        tuner.best_params, lgb.Dataset(X, y), max_rounds, nfold=FOLDS, stratified=True, seed=seed,
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip
    rounds = len(found["valid multi_logloss-mean"])
    return _BoosterModel(lgb.train(tuner.best_params, lgb.Dataset(X, y), rounds))


def _strings(X: pd.DataFrame) -> pd.DataFrame:
    """CatBoost takes categories as strings."""
    text = [column for column in X if isinstance(X[column].dtype, pd.CategoricalDtype)]
    return X.assign(**{column: X[column].astype(object).where(X[column].notna(), "nan").astype(str) for column in text})


def table(rows: list[dict[str, Any]]) -> None:
    """Log loss and time by data set, and ours divided by each peer."""
    by_set: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_set.setdefault(row["data"], {})[row["peer"]] = row
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    cells = [
        [
            name,
            *(f"{own[peer]['logloss']:.4f} ({own[peer]['seconds']:.0f} s)" if peer in own else "-" for peer in peers),
        ]
        for name, own in by_set.items()
    ]
    print_table(["data", *peers], cells)
    for peer in peers:
        pairs = [
            (own["ours"], own[peer]) for own in by_set.values() if "ours" in own and peer in own and peer != "ours"
        ]
        if pairs:
            losses = np.mean([np.log(mine["logloss"] / theirs["logloss"]) for mine, theirs in pairs])
            times = np.mean([np.log(mine["seconds"] / theirs["seconds"]) for mine, theirs in pairs])
            print(f"ours / {peer}: log loss {np.exp(losses):.3f}, time {np.exp(times):.2f}, over {len(pairs)} sets")
