"""
Early stopping
==============

How many rounds? Watch held-out rows, stop when they no longer improve, and use the best round.
"""

# %%
# With an ``eval_set`` of your own, training stops when a metric of it has not improved for ``early_stopping_rounds``
# rounds. Metrics go by name; the first one given is the one that the learning curve shows.
import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from abc_plugins import ABCBoostClassifier, plot

X, y = make_classification(2000, 20, n_informative=8, n_classes=5, flip_y=0.1, class_sep=1.2, random_state=0)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
model = ABCBoostClassifier(
    n_estimators=1000,
    learning_rate=0.2,
    early_stopping_rounds=30,
    eval_metric=["logloss", "error", "top_2"],
    random_state=0,
    n_jobs=1,
)
model.fit(X_train, y_train, eval_set=[(X_valid, y_valid)])
print(f"stopped after {len(model.evals_result_['valid_0']['logloss'])} rounds: {model.stopped_because_}")
print(f"predictions use the first {model.best_iteration_}; there: {model.best_score_['valid_0']}")

# %%
# Log loss and error side by side. Ten per cent of the labels are wrong, so neither can reach zero.
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for metric, ax in zip(("logloss", "error"), axes, strict=True):
    plot.learning_curves(model, metric=metric, ax=ax)

# %%
# Fewer rounds predict faster. ``n_rounds`` uses the first ones only.
for n_rounds in (10, 40, model.best_iteration_):
    accuracy = (model.predict(X_valid, n_rounds=n_rounds) == y_valid).mean()
    print(f"{n_rounds:4} rounds: accuracy {accuracy:.3f}")
