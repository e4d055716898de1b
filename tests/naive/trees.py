"""Splits, trees and their leaf values."""

import math
from dataclasses import dataclass

import numpy as np

from .terms import CLASSIC, NOISE


@dataclass
class Split:
    """A sample goes left if x <= threshold, or if x is missing and missing_left is set."""

    feature: int
    threshold: float
    missing_left: bool
    gain: float

    def goes_left(self, X):
        x = X[:, self.feature]
        return np.where(np.isnan(x), self.missing_left, x <= self.threshold)


@dataclass
class Node:
    """A node with the rows in it; `split` is the best allowed split, whether or not it is made."""

    rows: np.ndarray
    weight: float
    split: Split | None
    left: int = 0
    right: int = 0
    value: float = 0.0
    depth: int = 0

    @property
    def is_leaf(self):
        return self.left == 0


@dataclass
class Tree:
    """A leaf value v adds v to the score of class plus and subtracts it from that of class minus (CLASSIC: none)."""

    plus: int
    minus: int
    nodes: list

    def predict(self, X):
        values = np.empty(len(X))
        self._predict_node(0, X, np.arange(len(X)), values)
        return values

    def _predict_node(self, number, X, rows, values):
        node = self.nodes[number]
        if node.is_leaf:
            values[rows] = node.value
            return
        left = node.split.goes_left(X[rows])
        self._predict_node(node.left, X, rows[left], values)
        self._predict_node(node.right, X, rows[~left], values)

    def scale(self, factor):
        for node in self.nodes:
            node.value *= factor

    def add_to(self, F, X):
        values = self.predict(X)
        F[:, self.plus] += values
        if self.minus != CLASSIC:
            F[:, self.minus] -= values


def candidate_thresholds(X):
    """For every feature the midpoints between neighbouring distinct values: every value has a bin of its own.

    A midpoint that rounds up to the larger value would not part them; then it is the smaller value.
    """
    thresholds = []
    for x in X.T:
        values = np.unique(x[~np.isnan(x)])
        middle = values[:-1] / 2 + values[1:] / 2
        thresholds.append(np.where(middle < values[1:], middle, values[:-1]))
    return thresholds


def gain_term(G, H, reg_lambda):
    """G^2 / (H + reg_lambda), and 0 where the denominator is 0."""
    G, H = np.asarray(G, dtype=float), np.asarray(H, dtype=float)
    return np.divide(G * G, H + reg_lambda, out=np.zeros(G.shape), where=H + reg_lambda > 0)


def ways_to_split(x, thresholds):
    """All (threshold, missing_left), those that win a tie first, and which samples go left in each.

    Missing values may go to either side, and may be parted from all others by the threshold inf. A threshold below
    every value of the node parts nothing else, and is left out. Without missing values in the node, missing_left
    does not matter here and is None.
    """
    missing = np.isnan(x)
    thresholds = thresholds[thresholds >= np.min(x, where=~missing, initial=math.inf)]
    below = x <= thresholds[:, None]
    if not missing.any():
        return [(threshold, None) for threshold in thresholds], below
    ways = [(threshold, missing_left) for missing_left in (True, False) for threshold in thresholds]
    return [*ways, (math.inf, False)], np.vstack([below | missing, below, ~missing])


def best_split(X, z, h, weights, thresholds, settings):
    """The allowed split with the largest gain, or None; on ties the first feature, the first way to split it.

    Only a gain that exceeds zero, or the best one so far, by more than rounding (NOISE) is larger.
    """
    best = None
    for feature in range(X.shape[1]):
        ways, goes_left = ways_to_split(X[:, feature], thresholds[feature])
        GL, HL, WL = (goes_left @ np.column_stack([z, h, weights])).T
        GR, HR, WR = (~goes_left @ np.column_stack([z, h, weights])).T
        DL, DR, D = (HL, HR, h.sum()) if settings.second_order else (WL, WR, weights.sum())
        children = gain_term(GL, DL, settings.reg_lambda) + gain_term(GR, DR, settings.reg_lambda)
        gains = children - gain_term(z.sum(), D, settings.reg_lambda)
        # A leaf needs so many rows; where gains divide by weights, so much weight.
        rows = (weights > 0).astype(float) if settings.second_order else weights
        NL, NR = goes_left @ rows, ~goes_left @ rows
        allowed = (np.minimum(WL, WR) > 0) & (np.minimum(NL, NR) >= settings.min_samples_leaf)
        allowed &= np.minimum(HL, HR) >= settings.min_child_weight
        for i in np.flatnonzero(allowed):
            to_beat = 0.0 if best is None else best.gain
            if gains[i] > to_beat + NOISE * children[i]:
                threshold, missing_left = ways[i]
                if missing_left is None:
                    missing_left = bool(NL[i] >= NR[i])
                best = Split(feature, float(threshold), missing_left, float(gains[i]))
    return None if best is not None and best.gain < settings.min_split_gain else best


def leaves_of_pair(weights, y, k, b, settings):
    """J, or fewer for two classes that have few samples between them."""
    c = settings.pair_samples_per_leaf
    if b == CLASSIC or c == 0:
        return settings.num_leaves
    return min(
        settings.num_leaves, max(2, math.floor((1 + 1e-9) * (weights[y == k].sum() + weights[y == b].sum()) / c))
    )


def grow(X, z, h, weights, thresholds, settings, num_leaves=None):
    """Grow a tree to J leaves, the leaf with the largest gain first (on ties the one with the smaller number)."""

    deepest = math.inf if settings.max_depth is None else settings.max_depth

    def make_node(rows, depth):
        split = best_split(X[rows], z[rows], h[rows], weights[rows], thresholds, settings) if depth < deepest else None
        return Node(rows, float(weights[rows].sum()), split, depth=depth)

    nodes = [make_node(np.arange(len(X)), 0)]
    for _ in range((num_leaves or settings.num_leaves) - 1):
        best = None
        for node in nodes:
            to_beat = 0.0 if best is None else best.split.gain * (1 + NOISE)
            if node.is_leaf and node.split is not None and node.split.gain > to_beat:
                best = node
        if best is None:
            break
        left = best.split.goes_left(X[best.rows])
        best.left, best.right = len(nodes), len(nodes) + 1
        nodes += [make_node(best.rows[left], best.depth + 1), make_node(best.rows[~left], best.depth + 1)]
    return nodes


def place(nodes, X, weights):
    """Give every node the rows of X that reach it, those that the tree was not grown from as well."""
    nodes[0].rows = np.arange(len(X))
    for node in nodes:
        node.weight = float(weights[node.rows].sum())
        if not node.is_leaf:
            left = node.split.goes_left(X[node.rows])
            nodes[node.left].rows, nodes[node.right].rows = node.rows[left], node.rows[~left]


def shrunken(G, alpha):
    """G, nearer to 0 by alpha."""
    return np.sign(G) * np.maximum(np.abs(G) - alpha, 0.0)


def set_leaf_values(nodes, z, h, factor, settings):
    """beta = factor * sum z / (reg_lambda + sum h), clipped, times the shrinkage."""
    for node in nodes:
        if node.is_leaf:
            G, H = shrunken(z[node.rows].sum(), settings.reg_alpha), h[node.rows].sum() + settings.reg_lambda
            beta = factor * G / H if H > 0 else 0.0
            if settings.leaf_clip is not None:
                beta = min(max(beta, -settings.leaf_clip), settings.leaf_clip)
            node.value = settings.learning_rate * beta
