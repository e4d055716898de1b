"""The round loop of the four methods: plan, grow, choose the base, update."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.candidates import trial_rises
from abc_plugins.core.leaves import (
    UNLIMITED,
    LeafRules,
    Update,
    apply_update,
    make_update,
    newton_steps,
    sum_leaves,
)
from abc_plugins.core.losses import (
    LEAST_DERIVATIVE,
    centre,
    starting_class_losses,
    starting_scores,
    update_probabilities,
)
from abc_plugins.core.model.ensemble import FlatTrees, TreeEnsemble, single_leaf
from abc_plugins.core.model.validation import ModelFormatError
from abc_plugins.core.pairs import Pair, base_pairs, classic_pairs, distinct_pairs
from abc_plugins.core.renewal import ROWS_WORTH_THREADS, LeafRenewal
from abc_plugins.core.rounds import CONVERGED_MESSAGE, GUARD_MESSAGE, MAX_HALVINGS, draw_sample
from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats, Integers
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers
from abc_plugins.core.schedule import CLASSIC, PROBE_EVERY, PROBE_PARTS, BaseClassSchedule, RoundPlan
from abc_plugins.core.settings import Settings
from abc_plugins.core.trees.round_grower import RoundGrower

_THREADS_PER_RENEWAL = 4
"""Growing a tree takes about this many times as long as setting its leaf values."""

_CLASSIC_PLAN = RoundPlan((), centre=False)
_logger = logging.getLogger("abc_plugins")


class Booster:
    """Boosts round by round; the caller decides when to stop.

    Parameters
    ----------
    data : TrainingData
    settings : Settings
    workers : Workers

    Attributes
    ----------
    model : TreeEnsemble
    schedule : BaseClassSchedule
        Its `bases` is the base class of every round.
    train_loss : list of float
        Total weighted log loss of the training data after each round.
    trees_grown : int
        Distinct trees grown so far, trials included.
    guarded_rounds : int
        Rounds whose step the guard has shortened or replaced.
    most_leaves : None
        Trees move one class or two, so that nobody has to know.
    """

    most_leaves = None

    def __init__(self, data: TrainingData, settings: Settings, workers: Workers) -> None:
        self.schedule = BaseClassSchedule(
            data.n_classes,
            search=settings.search,
            gap=settings.gap,
            warmup=settings.warmup,
            base_choice=settings.base_choice,
            adaptive=settings.is_adaptive,
        )
        start_scores = starting_scores(
            data.labels, data.weights, data.n_classes, settings.start_scores, settings.min_samples_leaf
        )
        self.model = TreeEnsemble(data.n_classes, data.n_features, start_scores)
        self.train_loss: list[float] = []
        self.trees_grown = 0
        self.guarded_rounds = 0
        self._has_converged = False
        self._data = data
        self._settings = settings
        self._workers = workers
        self._grower = RoundGrower(data, settings, workers)
        self._scores = np.empty((data.n_classes, data.n_samples))
        self._new_scores = np.empty_like(self._scores)
        self._probabilities = np.empty_like(self._scores)
        workers.over_rows(data.n_samples, self._start)  # the first touch of memory takes time
        self._class_losses = starting_class_losses(data.labels, data.weights, start_scores)
        # Rounding of the sum: samples of a weight that is lost in it are not waited for.
        self._converged_loss = LEAST_DERIVATIVE * data.n_classes * float(data.weights.sum())

    def _start(self, first_block: int, last_block: int) -> None:
        """Set scores and probabilities of some blocks of samples."""
        start_scores = self.model.start_scores
        exponentials = np.exp(start_scores - start_scores.max())
        rows = slice(first_block * ROWS_PER_BLOCK, last_block * ROWS_PER_BLOCK)
        self._scores[:, rows] = start_scores[:, None]
        self._probabilities[:, rows] = (exponentials / exponentials.sum())[:, None]

    def run_round(self) -> FlatTrees:
        """Add one round to the model and return its trees."""
        plan = self.schedule.plan(self._class_losses.tolist())
        if plan.centre and self.model.n_rounds > 0:  # at first they are all zero
            centre(self._scores)
        if self._class_losses.sum() <= self._converged_loss:
            return self._append(CLASSIC if plan.is_classic else plan.candidates[0], self._add_nothing(plan))
        base, proposed = self._propose(plan)
        update = self._apply(proposed)
        if update is None and base != CLASSIC:
            self._restore_probabilities()
            base, proposed = self._propose(_CLASSIC_PLAN)
            update = self._apply(proposed)
        if update is None:
            # Nothing lowers the loss any more: a round that changes nothing.
            update = proposed._replace(values=np.zeros_like(proposed.values))
            self._restore_probabilities()
        if not np.array_equal(update.values, proposed.values):
            self._count_guarded_round()
        return self._append(base, self._grower.to_round(update))

    def _append(self, base: int, trees: FlatTrees) -> FlatTrees:
        self.model.append_round(trees)
        self.schedule.record(base)
        self.train_loss.append(float(self._class_losses.sum()))
        return trees

    def _add_nothing(self, plan: RoundPlan) -> FlatTrees:
        """Trees of a single leaf of value 0, now that no training sample has anything to gain."""
        data = self._data
        if not self._has_converged:
            _logger.info(CONVERGED_MESSAGE, self.model.n_rounds)
        self._has_converged = True
        pairs = classic_pairs(data.n_classes) if plan.is_classic else base_pairs(plan.candidates[0], data.n_classes)
        plus, minus = np.array(pairs).T
        weight = float(data.weights.sum())
        lowered = self._lowered(minus)
        moved = [[k] if b == CLASSIC else [k, b] for k, b in zip(plus, lowered, strict=True)]
        leaves = [single_leaf(classes, weight) for classes in moved]
        return FlatTrees.from_rounds([leaves])

    def _lowered(self, minus: Integers) -> Integers:
        """The classes whose scores trees lower: of two classes, one loses what the other gains."""
        return np.zeros_like(minus) if self._data.n_classes == 2 else minus

    def _propose(self, plan: RoundPlan) -> tuple[int, Update]:
        """Grow the trees of a plan; the base class and what the round would add to the scores."""
        settings = self._settings
        sample = draw_sample(self._data.n_samples, settings.subsample, settings.seed, self.model.n_rounds)
        seen = self._seen_by_probe(sample, plan.probe)
        pairs = distinct_pairs(plan, self._data.n_classes)
        self.trees_grown += len(pairs)
        if len(plan.candidates) < 2 and self._renews_while_growing(pairs):
            base, update = pairs[0][1], self._grow_and_renew(pairs, seen, sample)
        else:
            base, update = self._best_update(plan, pairs, self._grow(pairs, seen, sample), sample)
        if seen.size < sample.size:
            self._report_probe(update, seen, self._parts == plan.probe)
        return base, update

    def _seen_by_probe(self, sample: AnyArray, probe: int | None) -> AnyArray:
        """The samples that a round is grown from: all, or in a probe those that are not in its part.

        A part with more than half of the weight, as where many samples are alike, is too much to do without.
        """
        if probe is None:
            return sample
        weights, seen = self._data.weights, sample[self._parts[sample] != probe]
        return seen if weights[seen].sum() >= 0.5 * weights[sample].sum() else sample

    def _best_update(
        self, plan: RoundPlan, grown: Sequence[Pair], values: Floats, sample: AnyArray
    ) -> tuple[int, Update]:
        """The base, and what the round adds: the candidate with the lowest training loss."""
        if plan.is_classic:
            return CLASSIC, self._make_update(grown, grown, values, sample)
        updates = [
            self._make_update(base_pairs(base, self._data.n_classes), grown, values, sample) for base in plan.candidates
        ]
        if len(updates) == 1:
            return plan.candidates[0], updates[0]
        base = self.schedule.choose(plan, [self._rises(update, self._data.weights)[0] for update in updates])
        return base, updates[plan.candidates.index(base)]

    def _rises(self, update: Update, *weights: Floats) -> list[float]:
        """Rise of the training loss if an update were applied, with each of these weights."""
        probabilities, leaf_ids = self._probabilities, self._grower.leaf_ids
        return trial_rises(probabilities, self._data.labels, np.stack(weights), leaf_ids, update, self._workers)

    def _report_probe(self, update: Update, seen: AnyArray, is_unseen: Booleans) -> None:
        """Tell the schedule what trees gain on their own and on held-out samples, with leaf values from their own."""
        weights_seen = self._weights_of(seen)
        weights_unseen = np.where(is_unseen, self._data.weights, 0.0)
        rises = self._rises(self._with_values_from(weights_seen, update), weights_seen, weights_unseen)
        self.schedule.report_probe(-rises[0] / weights_seen.sum(), -rises[1] / weights_unseen.sum())

    @cached_property
    def _parts(self) -> AnyArray:
        """The part of every sample, one of which a probe does not see."""
        return self._data.parts(PROBE_PARTS)

    def _grow(self, pairs: Sequence[Pair], seen: AnyArray, sample: AnyArray) -> Floats:
        """Grow trees from the samples in `seen`.

        Returns
        -------
        values : array of shape (n_trees, n_nodes)
            The paper's leaf values, from the samples in `sample`, or zeros if they will be renewed.
        """
        values = np.zeros((len(pairs), self._grower.max_nodes))
        weights, rules = self._weights_of(sample), self._leaf_rules(pairs[0][1])

        def set_values(first: int, last: int) -> None:
            self._set_values(range(first, last), pairs[first:last], weights, rules, values[first:last])

        after_each = None if self._is_sequential(pairs) else set_values
        self._grower.grow(self._probabilities, pairs, seen, self.model.n_rounds, after_each=after_each)
        return values

    def _set_values(
        self, trees: Iterable[int], pairs: Iterable[Pair], weights: Floats, rules: LeafRules, values: Floats
    ) -> None:
        """Set the paper's leaf values of some trees."""
        sums = np.empty((*values.shape, 2))
        for tree, pair, sums_of_tree in zip(trees, pairs, sums, strict=True):
            leaf_ids = self._grower.leaf_ids[tree]
            sum_leaves(self._probabilities, self._data.labels, weights, *pair, leaf_ids, sums_of_tree)
        newton_steps(sums.reshape(-1, 2), rules, values.reshape(-1))

    def _renews_while_growing(self, pairs: Sequence[Pair]) -> bool:
        """Whether leaf values are set one after the other by a thread while others grow the next trees."""
        return self._is_sequential(pairs) and self._one_thread_can_renew(len(pairs))

    def _one_thread_can_renew(self, n_trees: int) -> bool:
        """Whether leaf values are set by one thread while others grow the next trees, or by all threads afterwards."""
        n_threads = self._workers.n_threads
        keeps_up = n_threads <= _THREADS_PER_RENEWAL and n_trees >= 2 * n_threads
        return keeps_up or self._data.n_samples < ROWS_WORTH_THREADS

    def _grow_and_renew(self, pairs: Sequence[Pair], seen: AnyArray, sample: AnyArray) -> Update:
        """Grow trees from the samples in `seen`, and set their leaf values from `sample` while the next ones grow."""
        renewal = self._renewal(pairs[0][1], self._weights_of(sample), Workers(1))  # the others are growing trees
        values = np.empty((len(pairs), self._grower.max_nodes))
        classes = [plus for plus, _ in pairs]

        def renew(first: int, last: int) -> None:
            values[first:last] = renewal.renew_trees(classes[first:last], range(first, last), self._grower.leaf_ids)

        self._grower.grow(self._probabilities, pairs, seen, self.model.n_rounds, in_order=renew)
        return make_update(pairs, pairs, values)

    def _make_update(self, wanted: Sequence[Pair], grown: Sequence[Pair], values: Floats, sample: AnyArray) -> Update:
        """Pick the wanted ones of the trees just grown, and set their leaf values."""
        update = make_update(wanted, grown, values)
        if self._is_sequential(wanted):
            update = self._with_values_from(self._weights_of(sample), update)
        return update._replace(minus=self._lowered(update.minus))

    def _with_values_from(self, weights: Floats, update: Update) -> Update:
        """The same trees with leaf values from samples of these weights."""
        base, trees, classes = int(update.minus[0]), update.tree.tolist(), update.plus.tolist()
        if self._settings.leaf_values == "sequential":
            values = self._renewal(base, weights, self._workers).renew_trees(classes, trees, self._grower.leaf_ids)
            return update._replace(values=values)
        values = np.empty_like(update.values)
        self._set_values(trees, [(k, base) for k in classes], weights, self._leaf_rules(base), values)
        return update._replace(values=values)

    def _is_sequential(self, pairs: Sequence[Pair]) -> bool:
        """Whether these trees get their leaf values one after the other; a single one has nothing to wait for."""
        return self._settings.leaf_values == "sequential" and len(pairs) > 1

    def _weights_of(self, sample: AnyArray) -> Floats:
        """All weights, with 0 for the samples outside `sample`."""
        if sample.size == self._data.n_samples:
            return self._data.weights
        weights = np.zeros_like(self._data.weights)
        weights[sample] = self._data.weights[sample]
        return weights

    def _leaf_rules(self, minus: int) -> LeafRules:
        n_classes, settings = self._data.n_classes, self._settings
        return LeafRules(
            factor=(n_classes - 1) / n_classes if minus == CLASSIC else 1.0,
            reg_lambda=float(settings.reg_lambda),
            clip=UNLIMITED if settings.leaf_clip is None else float(settings.leaf_clip),
            learning_rate=float(settings.learning_rate),
            reg_alpha=float(settings.reg_alpha),
        )

    def _renewal(self, base: int, weights: Floats, workers: Workers) -> LeafRenewal:
        return LeafRenewal(
            self._probabilities,
            self._data.labels,
            weights,
            base,
            self._grower.max_nodes,
            self._leaf_rules(base),
            workers,
        )

    def _apply(self, update: Update) -> Update | None:
        """Add the update to scores, probabilities and class losses.

        Returns
        -------
        Update or None
            What was added: the update, or half of it, and so on, such that the loss does not rise. None if that did not
            help: the scores are as before, but the probabilities are not.
        """
        limit = self._class_losses.sum() if self._settings.guard else math.inf
        for _ in range(MAX_HALVINGS + 1):
            class_losses = apply_update(
                self._scores,
                self._data.labels,
                self._data.weights,
                self._grower.leaf_ids,
                update,
                self._new_scores,
                self._probabilities,
                self._workers,
            )
            loss = class_losses.sum()
            if math.isfinite(loss) and loss <= limit:
                self._class_losses = class_losses
                self._scores, self._new_scores = self._new_scores, self._scores
                return update
            update = update._replace(values=0.5 * update.values)
        return None

    def _restore_probabilities(self) -> None:
        """Bring the probabilities back to those of the scores after an update was given up."""
        update_probabilities(self._scores, self._data.labels, self._data.weights, self._probabilities, self._workers)

    def _count_guarded_round(self) -> None:
        if self.guarded_rounds == 0:
            _logger.info(GUARD_MESSAGE, self.model.n_rounds + 1)
        self.guarded_rounds += 1

    def go_on_from(self, model: TreeEnsemble, bases: Sequence[int], scores: Floats) -> None:
        """Go on after the rounds of another model, whose scores for the samples, shape (n_samples, K), are these."""
        self.model = model
        self._scores[:] = scores.T
        self._class_losses = update_probabilities(
            self._scores, self._data.labels, self._data.weights, self._probabilities, self._workers
        )
        for base in bases:
            self.schedule.record(base)

    def get_state(self) -> dict[str, Floats]:
        """What the model does not tell of the booster; scores and losses are not copied."""
        probes = np.array(self.schedule.probes, dtype=np.float64).reshape(-1, 2)
        return {"scores": self._scores, "class_losses": self._class_losses, "probes": probes}

    def set_state(self, bases: Sequence[int], state: Mapping[str, Floats]) -> None:
        """Go on after the rounds of `model`, which has been set, from what `get_state` returned then.

        Raises
        ------
        ModelFormatError
            If the state does not fit the data.
        """
        n_probes = state["probes"].size // 2 if "probes" in state else 0
        shapes = {
            "scores": self._scores.shape,
            "class_losses": self._class_losses.shape,
            "probes": (min(n_probes, len(bases) // PROBE_EVERY), 2),
        }
        for name, shape in shapes.items():
            if name not in state or state[name].shape != shape or not np.isfinite(state[name]).all():
                raise ModelFormatError(f"{name} must be finite numbers of shape {shape}.")
        self._scores = state["scores"]
        self._restore_probabilities()
        self._class_losses = state["class_losses"]
        for base in bases:
            self.schedule.record(base)
        for seen, unseen in state["probes"].tolist():
            self.schedule.report_probe(seen, unseen)
