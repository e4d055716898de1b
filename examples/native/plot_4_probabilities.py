"""
Can the probabilities be trusted?
=================================

A reliability diagram: of all predictions of about 70%, do about 70% come true?
"""

# %%
# Noisy data with six classes; half of the rows are held out.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from abc_plugins import ABCBoostClassifier

X, y = make_classification(4000, 15, n_informative=8, n_classes=6, flip_y=0.15, class_sep=1.0, random_state=1)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
models = {
    "ABCBoostClassifier": ABCBoostClassifier(early_stopping_rounds=20, learning_rate=0.2, random_state=0, n_jobs=1),
    "HistGradientBoosting, 200 rounds": HistGradientBoostingClassifier(
        max_iter=200, max_leaf_nodes=15, early_stopping=False, random_state=0
    ),
}

# %%
# Early stopping by log loss ends training before the model becomes too sure of itself.
figure, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.6", linestyle=":", label="as sure as it should be")
edges = np.linspace(0, 1, 11)
for name, model in models.items():
    proba = model.fit(X_train, y_train).predict_proba(X_test)
    hits = y_test[:, None] == model.classes_
    place = np.clip(np.digitize(proba, edges) - 1, 0, 9)
    there = [cell for cell in range(10) if (place == cell).sum() >= 30]
    ax.plot(
        [proba[place == cell].mean() for cell in there],
        [hits[place == cell].mean() for cell in there],
        marker="o",
        label=f"{name}: log loss {log_loss(y_test, proba):.3f}",
    )
ax.set(xlabel="predicted probability", ylabel="share that came true", title="All classes together")
ax.legend(frameon=False, loc="upper left", fontsize=9)
