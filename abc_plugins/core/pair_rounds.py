"""One round of pairs of classes, whoever grows its trees: plan, grow, set leaf values, choose the base, guard, record.

A round with a base class has a tree for every other class against it, a classic round one for each class by itself.
What grows the trees is a `PairEngine`: the native grower, LightGBM, XGBoost, or anything else that can grow a tree
for a pair of classes and tell the leaf of every sample.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from abc_plugins.core.leaves import LeafRules, Update, make_update, newton_steps, sum_leaves
from abc_plugins.core.losses import LEAST_DERIVATIVE
from abc_plugins.core.pairs import Pair, base_pairs, classic_pairs, distinct_pairs
from abc_plugins.core.renewal import ROWS_WORTH_THREADS, LeafRenewal
from abc_plugins.core.rounds import CONVERGED_MESSAGE, GUARD_MESSAGE, draw_sample
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC, PROBE_PARTS, BaseClassSchedule, RoundPlan
from abc_plugins.core.scores import PairScores

_THREADS_PER_RENEWAL = 4
"""Growing a tree takes about this many times as long as setting its leaf values."""

_CLASSIC_PLAN = RoundPlan((), centre=False)
_logger = logging.getLogger("abc_plugins")

TreeRange = Callable[[int, int], Any]
"""Called with (first, last): the trees from `first` to `last` - 1."""


class PairEngine(Protocol):
    """Grows trees for pairs of classes; they stay valid until the next ones are grown."""

    @property
    def hands_over_trees(self) -> bool:
        """Whether threads hand over trees as soon as these are grown, so that others can set leaf values meanwhile."""

    @property
    def can_probe(self) -> bool:
        """Whether trees can be grown without some of the samples, and take leaf values from all."""

    @property
    def value_type(self) -> type[np.floating[Any]]:
        """What the engine keeps leaf values in."""

    @property
    def n_leaves(self) -> int:
        """Leaf numbers of the trees grown last are below this."""

    def negates(self, scores: PairScores) -> bool:
        """Whether the tree of (b, k) would be that of (k, b) with its leaf values negated."""

    def parts(self, scores: PairScores, n_parts: int) -> AnyArray:
        """Deal the samples out to parts, one of which a probe does not see; array of shape (n_samples,)."""

    def grow(
        self,
        scores: PairScores,
        pairs: Sequence[Pair],
        seen: AnyArray,
        round_index: int,
        after_each: TreeRange | None = None,
        in_order: TreeRange | None = None,
    ) -> None:
        """Grow one tree for each pair from the samples in `seen`.

        Once trees are grown they are handed to `after_each`, by any thread and in any order, and to `in_order`, one
        call at a time and in the order of the trees.
        """

    def leaf_ids(self, trees: Iterable[int]) -> AnyArray:
        """The leaf of every sample in these trees, array of unsigned integers of shape (n_grown, n_samples).

        Rows of other trees may hold anything.
        """

    def own_values(self) -> Floats | None:
        """Leaf values that the engine has set itself, shrinkage included, shape (n_grown, n_leaves).

        None if the round is to set them, as it must be in a probe.
        """


@dataclass(frozen=True)
class PairRound:
    """What a round adds.

    Attributes
    ----------
    base : int
        The base class, or CLASSIC.
    pairs : list of (plus, minus)
        One for each tree of the round: the class that it raises and the one that it lowers, or CLASSIC. With two
        classes the one tree raises 1 and lowers 0.
    update : Update or None
        Leaf values, and which of the trees that the engine grew last they belong to. None once training has
        converged: then nothing is grown.
    factor : float
        What the guard multiplied the step by: 1, or a half, a quarter and so on, or 0.
    has_own_values : bool
        The leaf values are those of the engine, times `factor`.
    is_centred : bool
        Every sample's mean score was subtracted before the round.
    """

    base: int
    pairs: list[Pair]
    update: Update | None
    factor: float
    has_own_values: bool
    is_centred: bool


class PairRounds:
    """Boost round by round.

    Parameters
    ----------
    scores : PairScores
    schedule : BaseClassSchedule
    rules : LeafRules
        Its factor is that of a tree with a base class, 1.
    engine : PairEngine
    leaf_values : {"paper", "sequential"}
        "paper": all trees of a round take their leaf values from the scores before it, or from the engine.
        "sequential": from the scores that the trees before it left.
    guard : bool
        Halve the step of a round that raises the training loss, and replace it by a classic one if that does not help.
    subsample : float, default=1
        Share of the samples to draw for each round.
    seed : int, default=0
        Of these draws.

    Attributes
    ----------
    rules : LeafRules
        May be exchanged between rounds.
    trees_grown : int
        Distinct trees grown so far, those of candidates that were not chosen included.
    guarded_rounds : int
        Rounds whose step the guard has shortened or replaced.
    """

    def __init__(
        self,
        scores: PairScores,
        schedule: BaseClassSchedule,
        rules: LeafRules,
        engine: PairEngine,
        *,
        leaf_values: str,
        guard: bool,
        subsample: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.scores, self.schedule, self.rules = scores, schedule, rules
        self.trees_grown = 0
        self.guarded_rounds = 0
        self._engine, self._leaf_values, self._guards = engine, leaf_values, guard
        self._subsample, self._seed = subsample, seed
        self._has_own_values = False
        # As large as the rounding of the sum of the losses.
        total_weight = float(scores.reduce(np.array([scores.weights.sum()]))[0])
        self._converged_loss = LEAST_DERIVATIVE * scores.n_classes * total_weight
        self._has_converged = False

    def run(self) -> PairRound:
        """Do one round."""
        plan = self.scores.plan(self.schedule)
        if self.scores.loss <= self._converged_loss:
            return self._add_nothing(plan)
        base, proposed = self.propose(plan)
        factor = self._take(proposed)
        is_replaced = factor == 0.0 and base != CLASSIC and bool(proposed.values.any())
        if is_replaced:
            base, proposed = self.propose(_CLASSIC_PLAN)
            factor = self._take(proposed)
        if is_replaced or (factor < 1.0 and proposed.values.any()):
            if self.guarded_rounds == 0:
                _logger.info(GUARD_MESSAGE, len(self.schedule.bases) + 1)
            self.guarded_rounds += 1
        self.schedule.record(base)
        pairs = list(zip(proposed.plus.tolist(), proposed.minus.tolist(), strict=True))
        return PairRound(base, pairs, proposed.times(factor), factor, self._has_own_values, plan.centre)

    def _take(self, proposed: Update) -> float:
        """Add the update, or the part of it that the guard allows; the factor. That of an update of zeros is 0."""
        if not proposed.values.any():
            return 0.0
        return self.scores.take(proposed, self._engine.leaf_ids(proposed.tree), guard=self._guards)

    def _add_nothing(self, plan: RoundPlan) -> PairRound:
        """Record a round that adds nothing, as the training loss is zero up to rounding: training has converged."""
        if not self._has_converged:
            _logger.info(CONVERGED_MESSAGE, len(self.schedule.bases))
        self._has_converged = True
        base, n_classes = CLASSIC if plan.is_classic else plan.candidates[0], self.scores.n_classes
        pairs = classic_pairs(n_classes) if plan.is_classic else base_pairs(base, n_classes)
        plus, minus = np.array(pairs).T
        pairs = list(zip(plus.tolist(), self._lowered(minus).tolist(), strict=True))
        self.schedule.record(base)
        return PairRound(base, pairs, None, 0.0, has_own_values=False, is_centred=plan.centre)

    def propose(self, plan: RoundPlan) -> tuple[int, Update]:
        """Grow the trees of a plan; the base class and what the round would add to the scores."""
        scores, engine, round_index = self.scores, self._engine, len(self.schedule.bases)
        sample = draw_sample(scores.labels.size, self._subsample, self._seed, round_index)
        parts = None if plan.probe is None or not engine.can_probe else engine.parts(scores, PROBE_PARTS)
        seen = sample if parts is None else self._seen_by_probe(sample, parts != plan.probe)
        pairs = distinct_pairs(plan, scores.n_classes, shared=engine.negates(scores))
        self.trees_grown += len(pairs)
        if len(plan.candidates) < 2 and self._renews_while_growing(pairs):
            base, update = pairs[0][1], self._grow_and_renew(pairs, seen, sample)
        else:
            base, update = self._best_update(plan, pairs, self._grow(pairs, seen, sample), sample)
        if parts is not None and seen is not sample:
            self._report_probe(update, seen, np.where(parts == plan.probe, scores.weights, 0.0))
        return base, update

    def _seen_by_probe(self, sample: AnyArray, is_seen: AnyArray) -> AnyArray:
        """The samples that a probe is grown from: those that are not in its part.

        All samples if the part has none, or if it has more than half of the weight, as where many samples are alike:
        then there is no probe.
        """
        weights, seen = self.scores.weights, sample[is_seen[sample]]
        of_seen, of_all = self.scores.reduce(np.array([weights[seen].sum(), weights[sample].sum()]))
        n_left_out = self.scores.reduce(np.array([float(sample.size - seen.size)]))[0]
        return seen if n_left_out > 0.0 and of_seen >= 0.5 * of_all else sample

    def _best_update(
        self, plan: RoundPlan, grown: Sequence[Pair], values: Floats, sample: AnyArray
    ) -> tuple[int, Update]:
        """The base, and what the round adds: the candidate with the lowest training loss."""
        if plan.is_classic:
            return CLASSIC, self._make_update(grown, grown, values, sample)
        n_classes, weights = self.scores.n_classes, self.scores.weights
        updates = [self._make_update(base_pairs(base, n_classes), grown, values, sample) for base in plan.candidates]
        if len(updates) == 1:
            return plan.candidates[0], updates[0]
        rises = [self._rises(update, weights)[0] for update in updates]
        base = self.schedule.choose(plan, rises)
        return base, updates[plan.candidates.index(base)]

    def _rises(self, update: Update, *weights: Floats) -> list[float]:
        return self.scores.rises(update, self._engine.leaf_ids(update.tree), *weights)

    def _report_probe(self, update: Update, seen: AnyArray, weights_unseen: Floats) -> None:
        """Tell the schedule what trees gain on their own and on held-out samples, with leaf values from their own."""
        weights_seen = self.scores.weights_of(seen)
        rises = self._rises(self._with_values_from(weights_seen, update), weights_seen, weights_unseen)
        of_seen, of_unseen = self.scores.reduce(np.array([weights_seen.sum(), weights_unseen.sum()]))
        self.schedule.report_probe(-rises[0] / of_seen, -rises[1] / of_unseen)

    def _grow(self, pairs: Sequence[Pair], seen: AnyArray, sample: AnyArray) -> Floats:
        """Grow trees from the samples in `seen`.

        Returns
        -------
        values : array of shape (n_trees, n_leaves)
            Those of the engine, or the paper's from the samples in `sample`. Zeros if leaf values are sequential: these
            are set afterwards.
        """
        engine, round_index = self._engine, len(self.schedule.bases)
        weights, rules = self.scores.weights_of(sample), self._rules_of(pairs[0][1])
        if engine.hands_over_trees and not self._is_sequential(pairs):
            values = np.zeros((len(pairs), engine.n_leaves))

            def set_values(first: int, last: int) -> None:
                self._set_values(range(first, last), pairs[first:last], weights, rules, values[first:last])

            engine.grow(self.scores, pairs, seen, round_index, after_each=set_values)
            return values
        engine.grow(self.scores, pairs, seen, round_index)
        own = engine.own_values()
        self._has_own_values = own is not None
        if own is not None:
            return own
        values = np.zeros((len(pairs), engine.n_leaves))
        if not self._is_sequential(pairs):
            self._set_values(range(len(pairs)), pairs, weights, rules, values)
        return values

    def _set_values(
        self, trees: Sequence[int], pairs: Iterable[Pair], weights: Floats, rules: LeafRules, values: Floats
    ) -> None:
        """Set the paper's leaf values of some trees."""
        scores, leaf_ids = self.scores, self._engine.leaf_ids(trees)
        sums = np.empty((*values.shape, 2))
        for tree, pair, sums_of_tree in zip(trees, pairs, sums, strict=True):
            sum_leaves(scores.probabilities, scores.labels, weights, *pair, leaf_ids[tree], sums_of_tree)
        sums = scores.reduce(sums)
        newton_steps(sums.reshape(-1, 2), rules, values.reshape(-1))
        values[:] = self._as_kept(values)

    def _as_kept(self, values: Floats) -> Floats:
        """Leaf values rounded as the engine will keep them, since scores are sums of these."""
        kept = self._engine.value_type
        return values if kept is np.float64 else values.astype(kept).astype(np.float64)

    def _renews_while_growing(self, pairs: Sequence[Pair]) -> bool:
        """Whether sequential leaf values are set while the next trees are grown."""
        return self._engine.hands_over_trees and self._is_sequential(pairs) and self._one_thread_can_renew(len(pairs))

    def _one_thread_can_renew(self, n_trees: int) -> bool:
        """Whether one thread can set leaf values while the others grow trees; else all do so afterwards."""
        n_threads = self.scores.workers.n_threads
        keeps_up = n_threads <= _THREADS_PER_RENEWAL and n_trees >= 2 * n_threads
        return keeps_up or self.scores.labels.size < ROWS_WORTH_THREADS

    def _grow_and_renew(self, pairs: Sequence[Pair], seen: AnyArray, sample: AnyArray) -> Update:
        """Grow trees from the samples in `seen`, and set their leaf values from `sample` while the next ones grow."""
        engine = self._engine
        weights = self.scores.weights_of(sample)
        renewal = self._renewal(pairs[0][1], weights, Workers(1))  # the others are growing trees
        values = np.empty((len(pairs), engine.n_leaves))
        classes = [plus for plus, _ in pairs]

        def renew(first: int, last: int) -> None:
            trees = range(first, last)
            values[first:last] = renewal.renew_trees(classes[first:last], trees, engine.leaf_ids(trees))

        engine.grow(self.scores, pairs, seen, len(self.schedule.bases), in_order=renew)
        return make_update(pairs, pairs, self._as_kept(values))

    def _make_update(self, wanted: Sequence[Pair], grown: Sequence[Pair], values: Floats, sample: AnyArray) -> Update:
        """Pick the wanted ones of the trees just grown, and set their leaf values."""
        update = make_update(wanted, grown, values)
        if self._is_sequential(wanted) and not self._has_own_values:
            update = self._with_values_from(self.scores.weights_of(sample), update)
        return update._replace(minus=self._lowered(update.minus))

    def _lowered(self, minus: Integers) -> Integers:
        """The class that each tree lowers. With two classes the one tree of a round raises 1 and lowers 0."""
        return np.zeros_like(minus) if self.scores.n_classes == 2 else minus

    def _with_values_from(self, weights: Floats, update: Update) -> Update:
        """The same trees with leaf values from samples of these weights."""
        base, trees, classes = int(update.minus[0]), update.tree.tolist(), update.plus.tolist()
        if self._leaf_values == "sequential":
            renewal = self._renewal(base, weights, self.scores.workers)
            values = renewal.renew_trees(classes, trees, self._engine.leaf_ids(trees))
            return update._replace(values=self._as_kept(values))
        values = np.empty_like(update.values)
        self._set_values(trees, [(k, base) for k in classes], weights, self._rules_of(base), values)
        return update._replace(values=values)

    def _is_sequential(self, pairs: Sequence[Pair]) -> bool:
        """Whether these trees get their leaf values one after the other; a single tree needs no order."""
        return self._leaf_values == "sequential" and len(pairs) > 1

    def _rules_of(self, minus: int) -> LeafRules:
        n_classes = self.scores.n_classes
        return self.rules._replace(factor=(n_classes - 1) / n_classes if minus == CLASSIC else 1.0)

    def _renewal(self, base: int, weights: Floats, workers: Workers) -> LeafRenewal:
        scores = self.scores
        return LeafRenewal(
            scores.probabilities,
            scores.labels,
            weights,
            base,
            self._engine.n_leaves,
            self._rules_of(base),
            workers,
            scores.process_sum,
        )
