"""A study of one's own: `suggest` chooses the parameters, `ABCPruningCallback` prunes, here with Optuna's Hyperband."""

from __future__ import annotations

import argparse
from typing import Any

import optuna
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from abc_plugins import ABCBoostClassifier
from tuning import ABCPruningCallback, suggest


def main() -> None:
    """Minimise the log loss of one validation set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

    def objective(trial: Any) -> float:
        suggested = suggest(trial, n_classes=10)
        model = ABCBoostClassifier(n_estimators=options.rounds, early_stopping_rounds=20, n_jobs=1, **suggested)
        model.fit(X_train, y_train, eval_set=[(X_valid, y_valid)], callbacks=[ABCPruningCallback(trial)])
        return min(model.evals_result_["valid_0"]["logloss"])

    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=0), pruner=optuna.pruners.HyperbandPruner(max_resource=options.rounds)
    )
    study.optimize(objective, n_trials=options.trials)
    print(f"log loss {study.best_value:.4f} with {study.best_params}")


if __name__ == "__main__":
    main()
