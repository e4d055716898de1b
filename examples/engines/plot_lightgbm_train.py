"""
LightGBM with one line changed
==============================

``lgb.train`` becomes ``abc_lgbm.train``: Datasets, parameters, callbacks, early stopping and the saved model
stay what they are.
"""

import lightgbm as lgb
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import abc_plugins.lgbm as abc_lgbm

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
params = {
    "objective": "multiclass",
    "num_class": 10,
    "metric": ["multi_logloss", "multi_error"],
    "num_leaves": 20,
    "num_threads": 1,
    "verbosity": -1,
}

for name, train in (("lightgbm.train", lgb.train), ("abc_plugins.lgbm.train", abc_lgbm.train)):
    train_set = lgb.Dataset(X_train, y_train)
    booster = train(
        params,
        train_set,
        num_boost_round=100,
        valid_sets=[lgb.Dataset(X_test, y_test, reference=train_set)],
        callbacks=[lgb.early_stopping(20, verbose=False)],
    )
    scores = booster.best_score["valid_0"]
    print(f"{name:24} log loss {scores['multi_logloss']:.4f}  error {scores['multi_error']:.4f}")

print("base class of every round:", abc_lgbm.model_info(booster)["base_classes"])
