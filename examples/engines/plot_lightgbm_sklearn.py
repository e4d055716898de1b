"""
ABCLGBMClassifier where LGBMClassifier was
==========================================

In a Pipeline, behind a ColumnTransformer, under GridSearchCV.
"""

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from abc_plugins.lgbm import ABCLGBMClassifier

data = load_wine(as_frame=True)
table = data.data.assign(strength=pd.cut(data.data["alcohol"], 3, labels=["light", "medium", "strong"]).astype(str))
labels = np.array(["Barolo", "Grignolino", "Barbera"])[data.target]

columns = ColumnTransformer(
    [("numbers", StandardScaler(), list(data.data.columns)), ("kinds", OneHotEncoder(), ["strength"])]
)
pipeline = Pipeline(
    [
        ("columns", columns),
        ("model", ABCLGBMClassifier(method="abcrobustlogit", n_estimators=40, n_jobs=1, verbosity=-1)),
    ]
)
search = GridSearchCV(pipeline, {"model__search": [1, 2, "all"], "model__gap": [0, 5]}, cv=3)
search.fit(table, labels)
print("best schedule:", search.best_params_, f"accuracy {search.best_score_:.3f}")

model = search.best_estimator_.named_steps["model"]
names = model.feature_importances_.argsort()[::-1][:3]
print("most used columns:", [search.best_estimator_.named_steps["columns"].get_feature_names_out()[j] for j in names])
