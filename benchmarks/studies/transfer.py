"""Where the settings come from that studies start with: random settings on some data sets, and a portfolio of them."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from abc_plugins import ABCBoostClassifier
from studies.data import done_before, error, keep, load, log_loss

SETS = ("wine_quality", "splice", "gas_drift_8batches", "krkopt", "diabetes130", "nursery")
"""None of those that studies are judged on."""

SEED, SETTINGS, ROWS, MAX_ROUNDS, MEMBERS = 100, 44, 1000, 1000, 5


def run(options: argparse.Namespace) -> None:
    """Fit every setting on every data set; then print the best in the mean, and a greedy portfolio."""
    known = {(row["data"], row["setting"]) for row in done_before(options.out)}
    data = {name: _read(name, options.rows or ROWS) for name in options.data or SETS}
    for index, setting in enumerate(draw_settings(options.trials or SETTINGS)):
        for name in data:
            if (name, index) not in known:
                keep(options.out, {"data": name, "setting": index, "parameters": setting, **_fit(data[name], setting)})
    show(done_before(options.out))


def draw_settings(n_settings: int) -> list[dict[str, Any]]:
    """The defaults, and settings drawn from wide ranges; five of six are directional."""
    rng = np.random.default_rng(SEED)

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    settings: list[dict[str, Any]] = [{}]
    for _ in range(n_settings):
        shape = str(rng.choice(["symmetric", "best-first"]))
        method = str(rng.choice(["directional"] * 5 + ["abcrobustlogit"]))
        setting = {
            "method": method,
            "learning_rate": round(between(0.02, 0.2), 4),
            "reg_lambda": round(between(0.01, 30.0), 4),
            "leaf_reg_lambda": round(between(0.01, 10.0), 4),
            "min_samples_leaf": round(between(1, 20)),
            "subsample": round(float(rng.uniform(0.5, 1.0)), 4),
            "colsample": round(float(rng.uniform(0.3, 1.0)), 4),
            "num_leaves": round(between(4, 64)),
        }
        depth = int(rng.integers(3, 9))
        if method == "directional":
            setting["tree_shape"] = shape
            if shape == "symmetric":
                del setting["num_leaves"]
                setting["max_depth"] = depth
        settings.append(setting)
    return settings


def _read(name: str, n_rows: int) -> tuple[Any, ...]:
    """Rows to fit, to stop and to score, of classes with at least 40 rows."""
    X, y = load(name)
    kept = train_test_split(np.arange(y.size), train_size=min(6000, y.size - 20), stratify=y, random_state=SEED)[0]
    kept = kept[np.bincount(y[kept])[y[kept]] >= 40]
    X, y = X.iloc[kept].reset_index(drop=True), np.unique(y[kept], return_inverse=True)[1]
    rows, test = train_test_split(np.arange(y.size), train_size=min(n_rows, y.size // 2), stratify=y, random_state=SEED)
    fit, valid = train_test_split(rows, test_size=0.25, stratify=y[rows], random_state=SEED)
    return X, y, fit, valid, test[:4000]


def _fit(data: tuple[Any, ...], setting: dict[str, Any]) -> dict[str, Any]:
    X, y, fit, valid, test = data
    patience = int(min(100, max(25, 5 / setting.get("learning_rate", 0.05))))
    started = time.perf_counter()
    model = ABCBoostClassifier(
        n_estimators=MAX_ROUNDS, early_stopping_rounds=patience, n_jobs=1, random_state=SEED, **setting
    )
    model.fit(X.iloc[fit], y[fit], eval_set=[(X.iloc[valid], y[valid])])
    seconds = time.perf_counter() - started
    probabilities = model.predict_proba(X.iloc[test])
    scores = {"logloss": log_loss(y[test], probabilities), "error": error(y[test], probabilities)}
    return {**scores, "rounds": int(model.best_iteration_), "seconds": seconds}


def show(rows: list[dict[str, Any]]) -> None:
    """Print settings that are good in the mean, and those that together have the best log loss per data set."""
    base = {row["data"]: row["logloss"] for row in rows if row["setting"] == 0}
    ratios: dict[int, dict[str, float]] = {}
    for row in rows:
        ratios.setdefault(row["setting"], {})[row["data"]] = np.log(row["logloss"] / base[row["data"]])
    whole = {index: np.array([one[name] for name in base]) for index, one in ratios.items() if len(one) == len(base)}
    settings = {row["setting"]: row["parameters"] for row in rows}
    for index in sorted(whole, key=lambda index: whole[index].mean())[:MEMBERS]:
        print(f"mean {np.exp(whole[index].mean()):.3f}  {settings[index]}")
    best = np.zeros(len(base))
    for _ in range(MEMBERS):
        index = min(whole, key=lambda index: np.minimum(best, whole[index]).mean())
        best = np.minimum(best, whole.pop(index))
        print(f"together {np.exp(best.mean()):.3f}  {settings[index]}")
