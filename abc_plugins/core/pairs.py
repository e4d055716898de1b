"""Trees are named by pairs of classes: (plus, minus), the class whose score a tree raises and the one it lowers."""

from __future__ import annotations

from collections.abc import Sequence

from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan

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
    """Distinct trees that a schedule grows until the end of each of its next rounds, trials included."""
    schedule = BaseClassSchedule.from_state(schedule.to_state())
    losses = [0.0] * schedule.n_classes
    grown = [0]
    for _ in range(n_rounds):
        plan = schedule.plan(losses)
        grown.append(grown[-1] + len(distinct_pairs(plan, schedule.n_classes)))
        schedule.record(CLASSIC if plan.is_classic else plan.candidates[0])
    return grown[1:]


def pairs_of_base(pairs: Sequence[Pair | None], base: int) -> list[int]:
    """Find the trees of a round with this base in `pairs`, in class order.

    A shared tree counts for both of its classes; None is a place without a tree.
    """
    tree_of: dict[int, int] = {}
    for position, pair in enumerate(pairs):
        if pair is not None and base in pair:
            other = other_class(pair, base)
            if pair[1] == base or other not in tree_of:
                tree_of[other] = position
    return [tree_of[k] for k in sorted(tree_of)]


def select_pairs(pairs: Sequence[Pair | None], rows: Sequence[int]) -> list[Pair]:
    """Return the pairs in these rows; a row without a tree has none."""
    return [pair for row in rows if (pair := pairs[row]) is not None]


def other_class(pair: Pair, base: int) -> int:
    """Return the class of the pair that is not the base."""
    return pair[0] if pair[1] == base else pair[1]


def common_class(pairs: Sequence[Pair]) -> int:
    """Return the class that all pairs of a round share, or CLASSIC."""
    common = set(pairs[0]).intersection(*pairs[1:])
    return pairs[0][1] if pairs[0][1] in common else pairs[0][0]
