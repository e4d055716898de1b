"""
In scikit-learn: pipelines, cross-validation, grid search
=========================================================

The classifier is a scikit-learn estimator: what works there works here.
"""

# %%
# Cross-validation of a pipeline; the model itself needs no scaling, other steps may.
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from abc_plugins import ABCBoostClassifier

X, y = load_wine(return_X_y=True, as_frame=True)
model = ABCBoostClassifier(n_estimators=60, random_state=0, n_jobs=1)
pipeline = make_pipeline(StandardScaler(), PCA(8), model)
for name, estimator in {"alone": model, "behind PCA": pipeline}.items():
    result = cross_validate(estimator, X, y, cv=3, scoring=["accuracy", "neg_log_loss"])
    print(
        f"{name:11} accuracy {result['test_accuracy'].mean():.3f}, log loss {-result['test_neg_log_loss'].mean():.3f}"
    )

# %%
# Parameters have the names that LightGBM and scikit-learn users know.
search = GridSearchCV(model, {"learning_rate": [0.05, 0.2], "max_depth": [3, 6]}, cv=3, scoring="neg_log_loss")
search.fit(X, y)
table = pd.DataFrame(search.cv_results_)[["param_learning_rate", "param_max_depth", "mean_test_score"]]
table.sort_values("mean_test_score", ascending=False).round(3)
