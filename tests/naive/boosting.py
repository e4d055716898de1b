"""Rounds, probes, the guard, and `fit`."""

import math
from dataclasses import dataclass, field

import numpy as np

from .schedule import lowest, probed_part, round_candidates
from .terms import CLASSIC, Settings, class_losses, derivatives, sample_losses, softmax, total_loss
from .trees import Tree, candidate_thresholds, grow, leaves_of_pair, place, set_leaf_values


@dataclass
class Model:
    """What `fit` returns. `F` are the scores of the training rows that have a positive weight."""

    n_classes: int
    rounds: list = field(default_factory=list)  # a list of trees a round
    base_classes: list = field(default_factory=list)  # CLASSIC for a round without one
    train_loss: list = field(default_factory=list)
    trees_grown: int = 0
    probes: list = field(default_factory=list)  # gains a unit of weight on samples seen and not seen
    F: np.ndarray | None = None

    def predict_scores(self, X, n_rounds=None):
        """Scores of shape (N, K) that sum to zero over the classes."""
        F = np.zeros((len(X), self.n_classes))
        for trees in self.rounds[:n_rounds]:
            for tree in trees:
                tree.add_to(F, X)
        return F - F.mean(axis=1, keepdims=True)


def pairs_of_round(K, b):
    """(plus, minus) of every tree of a round with base b."""
    if K == 2:
        return [(1, 0)]
    if b == CLASSIC:
        return [(k, CLASSIC) for k in range(K)]
    return [(k, b) for k in range(K) if k != b]


def train_round(X, y, weights, F, b, thresholds, settings, seen=None, valued=None):
    """Trees of one round with base b (CLASSIC: none), and the scores after it.

    They are grown from the rows `seen`, and their leaf values are made from the rows `valued`; both all by default.
    """
    K = F.shape[1]
    seen = np.full(len(y), True) if seen is None else seen
    valued = np.full(len(y), True) if valued is None else valued
    factor = (K - 1) / K if b == CLASSIC else 1.0
    p = softmax(F)
    F = F.copy()
    trees = []
    for k, minus in pairs_of_round(K, b):
        z, h = derivatives(p, y, k, b)
        grown_from = (X[seen], (weights * z)[seen], (weights * h)[seen], weights[seen])
        num_leaves = leaves_of_pair(weights, y, k, b, settings)
        tree = Tree(k, minus, grow(*grown_from, thresholds, settings, num_leaves))
        place(tree.nodes, X, weights)
        if settings.leaf_values == "sequential":
            z, h = derivatives(softmax(F), y, k, b)
        set_leaf_values(tree.nodes, weights * valued * z, weights * valued * h, factor, settings)
        tree.add_to(F, X)
        trees.append(tree)
    return trees, F


def probe(X, y, weights, F, b, seen, thresholds, settings):
    """Gains a unit of weight on samples seen and not seen, where trees and leaf values are made from those seen."""
    _, F_after = train_round(X, y, weights, F, b, thresholds, settings, seen, seen)
    gains = weights * (sample_losses(F, y) - sample_losses(F_after, y))
    return tuple(float(gains[rows].sum() / weights[rows].sum()) for rows in (seen, ~seen))


def shortened(trees, F, F_after, X, y, weights):
    """Scores after the round, halving its leaf values while the loss would rise; None if that does not help."""
    for _ in range(9):
        if total_loss(F_after, y, weights) <= total_loss(F, y, weights):
            return F_after
        F_after = F.copy()
        for tree in trees:
            tree.scale(0.5)
            tree.add_to(F_after, X)
    return None


def guarded(b, trees, F, F_after, X, y, weights, thresholds, settings):
    """Base, trees and scores of what the guard makes of a round."""
    F_after = shortened(trees, F, F_after, X, y, weights)
    if F_after is not None:
        return b, trees, F_after
    if b != CLASSIC:
        trees, F_after = train_round(X, y, weights, F, CLASSIC, thresholds, settings)
        return guarded(CLASSIC, trees, F, F_after, X, y, weights, thresholds, settings)
    for tree in trees:
        tree.scale(0.0)
    return b, trees, F


def fit(X, y, weights=None, *, n_classes=None, thresholds=None, settings=None, parts=None):
    """Train on X of shape (N, n_features), class indices y and sample weights; a weight of 0 is an absent row.

    `parts` is the part, from 0 to 4, of every row that is not absent: what probes leave out.
    """
    settings = settings or Settings()
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    K = n_classes or int(y.max()) + 1
    X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
    thresholds = candidate_thresholds(X) if thresholds is None else thresholds
    model = Model(K)
    F = np.zeros((len(y), K))
    losses = [float(np.sum(weights[y == k])) * math.log(K) for k in range(K)]
    base = None
    for m in range(settings.n_estimators):
        candidates = round_candidates(m, losses, base, settings, model.probes)
        if candidates and base is None:
            F = F - F.mean(axis=1, keepdims=True)
        # Every candidate grows all its trees; that (k, b) and (b, k) are one tree is for the tests to see.
        part = probed_part(m, settings) if candidates else None
        seen = None if part is None else parts != part
        trials = {b: train_round(X, y, weights, F, b, thresholds, settings, seen) for b in candidates or [CLASSIC]}
        b = lowest(list(trials), [total_loss(F_trial, y, weights) for _, F_trial in trials.values()])
        model.trees_grown += len({frozenset((t.plus, t.minus)) for trees, _ in trials.values() for t in trees})
        trees, F_after = trials[b]
        if seen is not None:
            model.probes.append(probe(X, y, weights, F, b, seen, thresholds, settings))
        planned = b
        if settings.guard:
            b, trees, F_after = guarded(b, trees, F, F_after, X, y, weights, thresholds, settings)
        model.trees_grown += len(trees) if b != planned else 0
        F = F_after
        base = base if b == CLASSIC else b
        losses = class_losses(F, y, weights)
        model.rounds.append(trees)
        model.base_classes.append(b)
        model.train_loss.append(total_loss(F, y, weights))
    model.F = F
    return model
