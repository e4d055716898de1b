"""Fast ABC-Boost written for reading, not for speed: what every fast path is compared with.

Pure NumPy, and nothing of the package is imported. Symbols are the paper's: N samples, K classes, F the scores and
p their softmax (both of shape (N, K)), r_ik = 1[y_i = k], z the residuals, h the second derivatives, b the base
class, nu the shrinkage, J the number of leaves, s, g, w the search, the gap and the warm-up of the schedule.
"""

import math
from dataclasses import dataclass, field
from random import Random

import numpy as np

CLASSIC = -1  # the "base class" of a round, or the minus class of a tree, that has none
LEAF = -1  # the "feature" of a node that is not split
NOISE = 1e-9  # differences of gains below this share of the terms they are computed from are rounding


@dataclass
class Settings:
    """Parameters of `fit`, named and defaulted as in ABCBoostClassifier.

    `leaf_values` is "paper" (all trees of a round from the same p) or "sequential" (leaf values are set tree after
    tree, in order of class, each from the scores that the trees before it left). `guard` halves the step of a round
    that would raise the loss, up to 8 times, then tries a classic round, then none at all. With `base_choice` "drawn"
    every tenth round with a base is a probe: its trees are grown without one of five parts of the samples.
    """

    method: str = "abcrobustlogit"
    n_estimators: int = 300
    learning_rate: float = 0.1
    num_leaves: int = 20
    search: int | str = 2
    gap: int = 10
    warmup: int = 10
    base_choice: str = "worst"
    min_samples_leaf: int = 10
    pair_samples_per_leaf: float = 0.0
    min_child_weight: float = 0.0
    reg_lambda: float = 0.0
    leaf_clip: float | None = 50.0
    leaf_values: str = "paper"
    guard: bool = True
    max_depth: int | None = None
    min_split_gain: float = 0.0
    reg_alpha: float = 0.0

    @property
    def adaptive(self):
        return self.method in ("abcmart", "abcrobustlogit")

    @property
    def second_order(self):
        return self.method in ("robustlogit", "abcrobustlogit")


# Loss and derivatives


def softmax(F):
    """p_ik = exp(F_ik) / sum_j exp(F_ij)."""
    e = np.exp(F - F.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def sample_losses(F, y):
    """-log p_iy of every sample."""
    largest = F.max(axis=1)
    log_sum = largest + np.log(np.exp(F - largest[:, None]).sum(axis=1))
    return log_sum - F[np.arange(len(y)), y]


def total_loss(F, y, weights):
    return float(np.sum(weights * sample_losses(F, y)))


def class_losses(F, y, weights):
    """For every class the weighted loss of its own samples."""
    losses = weights * sample_losses(F, y)
    return [float(np.sum(losses[y == k])) for k in range(F.shape[1])]


def classic_derivatives(p, y, k):
    """z = r_k - p_k and h = p_k (1 - p_k) of every sample."""
    r = (y == k).astype(float)
    return r - p[:, k], p[:, k] * (1 - p[:, k])


def abc_derivatives(p, y, k, b):
    """z_kb and h_kb of every sample: minus the derivatives of its loss along F_k += t, F_b -= t."""
    r_k, r_b = (y == k).astype(float), (y == b).astype(float)
    p_k, p_b = p[:, k], p[:, b]
    z = (r_k - p_k) - (r_b - p_b)
    h = p_b * (1 - p_b) + p_k * (1 - p_k) + 2 * p_b * p_k
    return z, h


def derivatives(p, y, k, b):
    """Residuals and second derivatives for the tree of class k in a round with base b.

    With two classes the base makes no difference, and the derivatives are the classic ones of class 1.
    """
    if b == CLASSIC or p.shape[1] == 2:
        return classic_derivatives(p, y, k)
    return abc_derivatives(p, y, k, b)


# Schedule


def worst_classes(losses, s):
    """The s classes with the largest loss, the smaller class first on ties; NaN is the largest loss."""
    losses = [math.inf if math.isnan(loss) else loss for loss in losses]
    left = list(range(len(losses)))
    worst = []
    while left and len(worst) < s:
        k = left[0]
        for other in left[1:]:
            if losses[other] > losses[k]:
                k = other
        worst.append(k)
        left.remove(k)
    return worst


def trust(probes):
    """How much of the gain on samples seen holds for samples not seen, by the last two probes; from 0 to 1."""
    if not probes:
        return 1.0
    seen = sum(gains[0] for gains in probes[-2:])
    unseen = sum(gains[1] for gains in probes[-2:])
    return float(np.clip(unseen / seen, 0, 1)) if seen > 0 else 0.0


def drawn_classes(m, losses, s, probes=()):
    """The s classes that arrive first in round m: waiting times over powers of losses, in units of the largest loss."""
    random = Random(m)
    power = min(2.0, 4.0 * trust(probes))
    losses = [math.inf if math.isnan(loss) else loss for loss in losses]
    largest = max([loss for loss in losses if 0 < loss < math.inf] or [1.0])
    arrivals = []
    for k, loss in enumerate(losses):
        wait = -math.log(1.0 - random.random())
        speed = 0.0 if loss == 0 else math.inf if loss == math.inf else (loss / largest) ** power
        arrivals.append((wait / speed if speed > 0 else math.inf, k))
    return [k for _, k in sorted(arrivals)[:s]]


def round_candidates(m, losses, last_base, settings, probes=()):
    """Classes to try as base in round m (counted from 0); none: a classic round."""
    K, s, g, w = len(losses), settings.search, settings.gap, settings.warmup
    if not settings.adaptive or K == 2 or m < w:
        return []
    if last_base is None or (m - w) % (g + 1) == 0:
        s = K if s == "all" else s
        return drawn_classes(m, losses, s, probes) if settings.base_choice == "drawn" else worst_classes(losses, s)
    return [last_base]


def probed_part(m, settings):
    """The part of the samples that round m is grown without, or None."""
    rounds = m - settings.warmup
    if settings.base_choice != "drawn" or rounds % 10 != 9 or settings.search == "all":
        return None
    return rounds // 10 % 5


def lowest(candidates, trial_losses):
    """The candidate with the lowest loss, the first of them on ties; NaN is never lower."""
    best, best_loss = candidates[0], math.inf
    for candidate, loss in zip(candidates, trial_losses, strict=True):
        if loss < best_loss:
            best, best_loss = candidate, loss
    return best


# Trees


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


# Boosting


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
