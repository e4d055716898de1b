"""
A native model as an XGBoost model
==================================

Train natively, deploy wherever XGBoost runs.
"""

import numpy as np
import xgboost
from sklearn.datasets import load_digits

from abc_plugins import ABCBoostClassifier
from abc_plugins.xgb import export

X, y = load_digits(return_X_y=True)
model = ABCBoostClassifier(n_estimators=30).fit(X, y)
for vector_leaves in (False, True):
    booster = export(model, vector_leaves=vector_leaves)
    difference = np.abs(booster.predict(xgboost.DMatrix(X)) - model.predict_proba(X)).max()
    kind = "vector leaves" if vector_leaves else "scalar trees"
    print(f"{kind}: {len(booster.get_dump())} trees, largest difference of a probability {difference:.1e}")
