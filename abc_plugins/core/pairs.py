"""Trees are named by pairs of classes: (plus, minus), the class whose score a tree raises and the one it lowers."""

from __future__ import annotations

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan

_ROUNDING = 1e-9
"""Sums of weights that should be equal may differ by this share, and are to allow the same number of leaves."""

Pair = tuple[int, int]
"""(plus, minus); minus is CLASSIC for a tree that lowers no score."""


def classic_pairs(n_classes: int) -> list[Pair]:
    """List the trees of a classic round: one per class, or one in all for two classes, which have one free score."""
    return [(1, CLASSIC)] if n_classes == 2 else [(k, CLASSIC) for k in range(n_classes)]


def base_pairs(base: int, n_classes: int) -> list[Pair]:
    """List the trees of a round with this base: every other class against it."""
    return [(k, base) for k in range(n_classes) if k != base]


def distinct_pairs(plan: RoundPlan, n_classes: int, *, shared: bool = True) -> list[Pair]:
    """List the trees to grow for a plan.

    The tree of (k, b) is that of (b, k) with its leaf values negated. With `shared` each of these is grown once:
    s (K - 1) - s (s - 1) / 2 trees for s candidates; without, every candidate has K - 1 trees of its own.
    """
    if plan.is_classic:
        return classic_pairs(n_classes)
    done: set[int] = set()
    pairs: list[Pair] = []
    for base in plan.candidates:
        pairs += [pair for pair in base_pairs(base, n_classes) if not shared or pair[0] not in done]
        done.add(base)
    return pairs


def trees_by_round(schedule: BaseClassSchedule, n_rounds: int) -> list[int]:
    """Distinct trees that a schedule grows until the end of each of its next rounds, also those of bases not chosen."""
    schedule = BaseClassSchedule.from_state(schedule.to_state())
    losses = [0.0] * schedule.n_classes
    grown = [0]
    for _ in range(n_rounds):
        plan = schedule.plan(losses)
        grown.append(grown[-1] + len(distinct_pairs(plan, schedule.n_classes)))
        schedule.record(CLASSIC if plan.is_classic else plan.candidates[0])
    return grown[1:]


def limit_leaves(
    plus: AnyArray, minus: AnyArray, class_weights: AnyArray, per_leaf: float, num_leaves: int
) -> AnyArray:
    """Most leaves of each tree: of two classes with few samples between them, fewer than `num_leaves`.

    Parameters
    ----------
    plus, minus : arrays of int
        The classes of each tree.
    class_weights : array of shape (n_classes,)
    per_leaf : float
        A tree of two classes has at most one leaf per this many samples of the two; 0 is no limit.
    num_leaves : int
    """
    max_leaves = np.full(plus.size, num_leaves, dtype=np.int64)
    has_base = minus != CLASSIC
    if per_leaf > 0.0:
        weights = (class_weights[plus] + class_weights[minus])[has_base]
        affordable = np.floor(weights / per_leaf * (1.0 + _ROUNDING))
        max_leaves[has_base] = np.minimum(np.maximum(affordable, 2), num_leaves)
    return max_leaves
