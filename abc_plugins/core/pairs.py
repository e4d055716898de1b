"""Trees are named by pairs of classes: (plus, minus), the class whose score a tree raises and the one it lowers."""

from __future__ import annotations

from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan

Pair = tuple[int, int]
"""(plus, minus); minus is CLASSIC for a tree that lowers no score."""


def classic_pairs(n_classes: int) -> list[Pair]:
    """List the trees of a classic round: one a class, or one in all for two classes, which have one free score."""
    return [(1, CLASSIC)] if n_classes == 2 else [(k, CLASSIC) for k in range(n_classes)]


def base_pairs(base: int, n_classes: int) -> list[Pair]:
    """List the trees of a round with this base: every other class against it."""
    return [(k, base) for k in range(n_classes) if k != base]


def distinct_pairs(plan: RoundPlan, n_classes: int) -> list[Pair]:
    """List the trees to grow for a plan, none twice.

    The tree of (k, b) is that of (b, k) with its leaf values negated, so that a search over s candidates grows
    s (K - 1) - s (s - 1) / 2 trees.
    """
    if plan.is_classic:
        return classic_pairs(n_classes)
    pairs: dict[frozenset[int], Pair] = {}
    for base in plan.candidates:
        for pair in base_pairs(base, n_classes):
            pairs.setdefault(frozenset(pair), pair)
    return list(pairs.values())


def trees_by_round(schedule: BaseClassSchedule, n_rounds: int) -> list[int]:
    """Distinct trees that a schedule grows until the end of each of its next rounds, trials included."""
    schedule = BaseClassSchedule.from_state(schedule.to_state())
    losses = [0.0] * schedule.n_classes
    grown = [0]
    for _ in range(n_rounds):
        plan = schedule.plan(losses)
        grown.append(grown[-1] + len(distinct_pairs(plan, schedule.n_classes)))
        schedule.record(CLASSIC if plan.is_classic else plan.candidates[0])
    return grown[1:]
