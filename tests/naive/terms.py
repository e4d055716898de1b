"""Settings, the loss and its derivatives."""

from dataclasses import dataclass

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
