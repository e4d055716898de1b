"""The directional method, slow and obvious: what the fast code is compared with. Its splits are those of `trees`."""

from dataclasses import dataclass, field

import numpy as np

from .terms import NOISE, softmax, total_loss
from .trees import gain_term, grow, shrunken


@dataclass
class Settings:
    """Parameters of `fit`, named as in ABCBoostClassifier; `directions` are those of every round, (n_trees, K)."""

    directions: list
    tree_shape: str = "symmetric"
    max_depth: int = 3
    num_leaves: int = 6
    learning_rate: float = 0.1
    reg_lambda: float = 1.0
    leaf_reg_lambda: float = 0.1
    leaf_clip: float = 50.0
    min_samples_leaf: int = 1
    min_child_weight: float = 0.0
    min_split_gain: float = 0.0
    reg_alpha: float = 0.0
    warmup: int = 0
    start_scores: str = "priors"
    second_order: bool = True


@dataclass
class Tree:
    """`splits` part the samples, and every leaf adds its row of `values` to the scores of all classes."""

    leaf_of: object  # a function of X
    values: np.ndarray
    root_gain: float = 0.0

    def add_to(self, F, X):
        F += self.values[self.leaf_of(X)]


@dataclass
class Model:
    start: np.ndarray
    rounds: list = field(default_factory=list)
    train_loss: list = field(default_factory=list)

    def scores(self, X):
        F = np.tile(self.start, (len(X), 1))
        for trees in self.rounds:
            for tree in trees:
                tree.add_to(F, X)
        return F


def derivatives(p, y, v):
    """Minus the gradient of the loss along v, and its curvature: the variance of v under p."""
    mean = p @ v
    return v[y] - mean, p @ v**2 - mean**2


def level_gains(X, z, h, leaf, feature, thresholds, settings):
    """For every way to split a feature its gain over all leaves; those with missing values on the right first."""
    x = X[:, feature]
    missing = np.isnan(x)
    ways = [(t, False) for t in thresholds]
    if missing.any():
        ways += [(np.inf, False), *((t, True) for t in [*thresholds, np.inf])]
    gains = []
    for threshold, missing_left in ways:
        left = np.where(missing, missing_left, x <= threshold)
        gain = 0.0
        for number in np.unique(leaf):
            sides = [(leaf == number) & left, (leaf == number) & ~left]
            N = [side.sum() for side in sides]
            H = [h[side].sum() for side in sides]
            if min(N) >= settings.min_samples_leaf and min(N) > 0 and min(H) >= settings.min_child_weight:
                G = [z[side].sum() for side in sides]
                gain += sum(gain_term(G, H, settings.reg_lambda))
                gain -= gain_term(sum(G), sum(H), settings.reg_lambda)
        gains.append(float(gain))
    return ways, gains


def grow_symmetric(X, z, h, thresholds, settings):
    """Split all leaves alike, level by level; the (feature, threshold, missing_left) of every level."""
    splits, leaf = [], np.zeros(len(X), dtype=int)
    for _ in range(settings.max_depth):
        best, best_gain = None, 0.0
        scale = sum(gain_term(z[leaf == n].sum(), h[leaf == n].sum(), settings.reg_lambda) for n in np.unique(leaf))
        best_gain = max(NOISE * scale, settings.min_split_gain)
        for feature in range(X.shape[1]):
            for way, gain in zip(*level_gains(X, z, h, leaf, feature, thresholds[feature], settings), strict=True):
                if gain > best_gain:
                    best, best_gain = (feature, *way), gain * (1 + 1e-11)
        if best is None:
            break
        splits.append(best)
        leaf = leaf_numbers(X, splits)
    return splits


def leaf_numbers(X, splits):
    """The comparisons of the levels are the bits of the leaf's number."""
    leaf = np.zeros(len(X), dtype=int)
    for feature, threshold, missing_left in splits:
        x = X[:, feature]
        leaf = 2 * leaf + ~np.where(np.isnan(x), missing_left, x <= threshold)
    return leaf


def best_first_leaves(nodes):
    """A function that finds the leaf of samples in a tree of `grow`, leaves counted by their nodes."""
    order = [number for number, node in enumerate(nodes) if node.is_leaf]

    def leaf_of(X):
        numbers = np.zeros(len(X), dtype=int)
        for i in range(len(X)):
            number = 0
            while not nodes[number].is_leaf:
                node = nodes[number]
                number = node.left if node.split.goes_left(X[i : i + 1])[0] else node.right
            numbers[i] = order.index(number)
        return numbers

    return leaf_of, len(order)


def leaf_vectors(p, y, weights, leaf, n_leaves, settings, only=None):
    """Newton steps of all classes in every leaf, which sum to zero; with `only` of one class."""
    K = p.shape[1]
    residuals = np.eye(K)[y] - p
    values = np.zeros((n_leaves, K))
    for number in range(n_leaves):
        rows = leaf == number
        G = shrunken(weights[rows] @ residuals[rows], settings.reg_alpha)
        H = weights[rows] @ (p[rows] * (1 - p[rows])) + settings.leaf_reg_lambda
        step = (K - 1) / K * np.divide(G, H, out=np.zeros(K), where=H > 0)
        step = settings.learning_rate * np.clip(step, -settings.leaf_clip, settings.leaf_clip)
        if only is None:
            values[number] = step - step.mean()
        else:
            values[number, only] = step[only]
    return values


def fit(X, y, weights, K, thresholds, settings):
    """Boost; the trees of a round from the same probabilities, their leaf vectors one after the other."""
    masses = np.bincount(y, weights, K)
    start = np.log(masses) if settings.start_scores == "priors" else np.zeros(K)
    model = Model(start - start.mean())
    F = model.scores(X)
    for m, directions in enumerate(settings.directions):
        p_before, trees = softmax(F), []
        for k, v in enumerate(directions):
            # In single precision, as the method has it: rounding may decide between splits of equal gain.
            z, h = ((weights * part).astype(np.float32).astype(float) for part in derivatives(p_before, y, v))
            if settings.tree_shape == "symmetric":
                splits = grow_symmetric(X, z, h, thresholds, settings)
                leaf_of, n_leaves = (lambda X, splits=splits: leaf_numbers(X, splits)), 2 ** len(splits)
            else:
                nodes = grow(X, z, h, weights, thresholds, settings)
                leaf_of, n_leaves = best_first_leaves(nodes)
            only = k if m < settings.warmup else None
            tree = Tree(leaf_of, leaf_vectors(softmax(F), y, weights, leaf_of(X), n_leaves, settings, only))
            tree.add_to(F, X)
            trees.append(tree)
        model.rounds.append(trees)
        model.train_loss.append(total_loss(F, y, weights))
    return model
