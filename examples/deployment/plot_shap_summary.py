"""What moves the score of each class
==================================

SHAP values of a model in shap's summary plots, as one picture::

    python examples/deployment/plot_shap_summary.py docs/images/shap_summary.png
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import shap
from sklearn.datasets import load_wine

import abc_plugins
from abc_plugins import ABCBoostClassifier

data = load_wine(as_frame=True)
names = data.target_names[data.target]
model = ABCBoostClassifier(n_estimators=100, n_jobs=1, random_state=0).fit(data.data, names)
explanation = abc_plugins.explain(model)(data.data)  # (samples, features, classes)

figure, axes = plt.subplots(1, 3, figsize=(16, 4.5))
for k, (label, ax) in enumerate(zip(model.classes_, axes, strict=True)):
    plt.sca(ax)
    shap.plots.beeswarm(explanation[:, :, k], max_display=8, show=False, plot_size=None, color_bar=k == 2)
    ax.set(title=f"score of {label}", xlabel="contribution to the score")
figure.tight_layout()
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110, bbox_inches="tight")
