"""
A LightGBM training loop of your own
====================================

``ABCObjective`` brings the adaptive base class into a ``lightgbm.train`` call of your own.
"""

import lightgbm as lgb
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from abc_plugins.lgbm import ABCObjective, model_info

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
params = {"num_class": 10, "num_leaves": 20, "max_delta_step": 4.0, "num_threads": 1, "verbosity": -1}

objective = ABCObjective(params, search=2, gap=10, warmup=10)
booster = lgb.train({**params, "objective": objective, "metric": "None"}, lgb.Dataset(X_train, y_train), 60)
model = objective.finalise(booster)  # from here on a stock multiclass model

error = (model.predict(X_test).argmax(axis=1) != y_test).mean()
print(f"test error {error:.4f}; bases {model_info(model)['base_classes']}")
