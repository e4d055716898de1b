"""
Quickstart
==========

Fit a classifier, look at how it learnt, and keep it in a file.
"""

# %%
# The handwritten digits of scikit-learn: 1,797 images of 8 x 8 pixels, ten classes. A quarter is held out.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from abc_plugins import ABCBoostClassifier, plot

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)

# %%
# Without arguments the classifier finds the number of rounds by early stopping on a tenth of the rows, and then trains
# anew on all of them. ``early_stopping_rounds=20`` makes this page quick; the default waits for 100 rounds.
model = ABCBoostClassifier(early_stopping_rounds=20, learning_rate=0.2, random_state=0, n_jobs=1)
model.fit(X_train, y_train)
print(f"{model.n_iter_} rounds; {model.stopped_because_}")
print(f"accuracy {model.score(X_test, y_test):.3f}")
print(f"log loss {log_loss(y_test, model.predict_proba(X_test)):.3f}")

# %%
# The curve of the rows that were set aside shows where training stopped.
ax = plot.learning_curves(model)

# %%
# Which pixels do the trees look at?
importances = model.feature_importances_.reshape(8, 8)
figure, ax = plt.subplots(figsize=(4, 4))
ax.imshow(importances, cmap="Blues")
_ = ax.set(title="Share of the gain by pixel", xticks=[], yticks=[])

# %%
# A model is one file of numbers and JSON, without pickle.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "digits.abc")
    model.save_model(path)
    loaded = ABCBoostClassifier.load_model(path)
    same = (loaded.predict(X_test) == model.predict(X_test)).all()
    print(f"{path.stat().st_size / 1000:.0f} kB, the same predictions: {same}")
