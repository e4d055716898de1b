"""
XGBoost with one line changed
=============================

DMatrix, params, callbacks and deployment stay as they are.
"""

import tempfile
from pathlib import Path

import numpy as np
import xgboost
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import abc_plugins.xgb as abc_xgb

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
train, test = xgboost.DMatrix(X_train, y_train), xgboost.DMatrix(X_test, y_test)
params = {
    "objective": "multi:softprob",
    "num_class": 10,
    "max_depth": 4,
    "eval_metric": ["merror", "mlogloss"],
    "nthread": 1,
}

stock = xgboost.train(params, train, 60, evals=[(test, "test")], verbose_eval=20)
booster = abc_xgb.train(  # was: xgboost.train(
    params,
    train,
    60,
    evals=[(test, "test")],
    callbacks=[xgboost.callback.EarlyStopping(rounds=10, metric_name="mlogloss", save_best=True)],
    verbose_eval=20,
)

for name, model in (("stock", stock), ("ABC", booster)):
    print(f"{name}: {(model.predict(test).argmax(axis=1) != y_test).sum()} test errors of {y_test.size}")
print("base class of every round (-1: a classic round):", abc_xgb.base_classes(booster))

# The model is XGBoost's own: it is saved, loaded, sliced and explained without abc_plugins.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.json"
    booster.save_model(path)
    loaded = xgboost.Booster(model_file=path)
contributions = loaded.predict(test, pred_contribs=True)
assert np.allclose(contributions.sum(axis=2), loaded.predict(test, output_margin=True), atol=1e-4)
