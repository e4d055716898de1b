"""
What a directional tree does
============================

Three kinds of trees seen in class space, and the borders that a few of them draw.
"""

# %%
# Every tree is grown along a direction: one number for each class. Classic boosting sets one class against the rest,
# ABC-Boost a class against the base class, and a directional tree groups of classes against each other.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from abc_plugins import ABCBoostClassifier

K = 6
rng = np.random.default_rng(3)
drawn = rng.normal(size=K)
directions = {
    "classic: class 2": np.eye(K)[2],
    "ABC: class 2, base 4": np.eye(K)[2] - np.eye(K)[4],
    "directional: drawn": drawn - drawn.mean(),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), sharey=True, layout="constrained")
for ax, (name, direction) in zip(axes, directions.items(), strict=True):
    ax.bar(range(K), direction, color=["C0" if value > 0 else "C1" for value in direction])
    ax.axhline(0, color="0.4", linewidth=0.8)
    ax.set(title=name, xlabel="class", xticks=range(K))
axes[0].set_ylabel("direction v")

# %%
# The direction decides where the tree splits. Then every leaf of a directional tree gets a value for *every* class, so
# that one tree moves all scores; a tree of a pair moves two of them. Here are the leaf values of a first tree.
X, y = make_blobs(600, centers=K, cluster_std=1.6, random_state=2)
model = ABCBoostClassifier(n_estimators=1, tree_shape="symmetric", max_depth=3, random_state=0, n_jobs=1).fit(X, y)
leaves = model.apply(X)[:, 0]
scores = model.decision_function(X)
order = np.unique(leaves)
values = np.array([scores[leaves == leaf][0] for leaf in order])

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
image = ax.imshow(values, cmap="RdBu", vmin=-np.abs(values).max(), vmax=np.abs(values).max(), aspect="auto")
ax.set(xlabel="class", ylabel="leaf", xticks=range(K), yticks=range(order.size), title="Scores after one tree")
figure.colorbar(image)

# %%
# A few dozen such trees are enough for clean borders, where pairs have grown five times as many.
grid_x, grid_y = np.meshgrid(
    np.linspace(*X[:, 0][[X[:, 0].argmin(), X[:, 0].argmax()]], 150),
    np.linspace(*X[:, 1][[X[:, 1].argmin(), X[:, 1].argmax()]], 150),
)
grid = np.column_stack([grid_x.ravel(), grid_y.ravel()])
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
for ax, (method, rounds) in zip(axes, {"directional": 40, "abcrobustlogit": 40}.items(), strict=True):
    model = ABCBoostClassifier(method=method, n_estimators=rounds, random_state=0, n_jobs=1).fit(X, y)
    ax.contourf(
        grid_x, grid_y, model.predict(grid).reshape(grid_x.shape), levels=np.arange(K + 1) - 0.5, cmap="Pastel1"
    )
    ax.scatter(X[:, 0], X[:, 1], c=y, cmap="Dark2", s=8)
    ax.set(title=f"{method}: {model.trees_grown_} trees")
