"""One boosting run on LightGBM: grows the trees of a round, chooses the base, keeps the scores of all data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import lightgbm as lgb
import numpy as np
from lightgbm import basic

from abc_plugins.core.arrays import AnyArray, Floats, Integers
from abc_plugins.core.checks import fail
from abc_plugins.core.driver import (
    ABCScores,
    LeafFinder,
    Pair,
    add_trees,
    classic_pairs,
    pairs_of_base,
    search_pairs,
)
from abc_plugins.core.losses import update_probabilities
from abc_plugins.core.parallel import Workers
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan
from abc_plugins.lgbm.metrics import Evaluated
from abc_plugins.lgbm.params import TrainingParams
from abc_plugins.lgbm.text import TaggedTree, TreeText, is_stump, leaf_values, read_model, scaled, with_leaf_values

EvalFunction = Callable[[AnyArray, lgb.Dataset], Any]


@dataclass
class Grown:
    """Trees that LightGBM grew for one round, losers of a search included.

    Attributes
    ----------
    slots : list of (plus, minus) or None
        One a tree; None for a slot without gradients, whose tree is a single leaf of 0.
    iterations : list of int
        Iteration of the booster for every K slots; -1 if none of them found a split.
    additions : array of shape (n_slots, n_samples)
        What each tree adds to the training scores.
    valid_additions : list of arrays of shape (n_slots, n_valid)
    texts, finders : dict
        Texts of the trees of an iteration and leaf finders of the trees, read when they are first needed.
    """

    slots: list[Pair | None]
    iterations: list[int]
    additions: Floats
    valid_additions: list[Floats]
    texts: dict[int, list[TreeText]] = field(default_factory=dict)
    finders: dict[int, LeafFinder] = field(default_factory=dict)


@dataclass
class Step:
    """What a round would add to the scores.

    Attributes
    ----------
    base : int
    rows : sequence of int
        The trees, by their slots in `Grown`.
    pairs : sequence of (plus, minus) or None
    additions : array of shape (n_trees, n_samples)
    used : sequence of int
        The rows of `pairs` and `additions` that belong to `rows`, one by one.
    values : array of shape (len(rows), n_leaves), or None
        Renewed leaf values, by the leaf numbers of `LeafFinder`; None if LightGBM's own stand.
    """

    base: int
    rows: Sequence[int]
    pairs: Sequence[Pair | None]
    additions: Floats
    used: Sequence[int]
    values: Floats | None = None


@dataclass
class ScoredSet:
    """A data set and its scores.

    Attributes
    ----------
    name : str
    data : Dataset
    labels : array of int32, shape (n_samples,)
    weights : array of float64, shape (n_samples,), or None
    scores : array of shape (n_classes, n_samples)
        F; for the training set they live in `Trainer.state`.
    tree_sums : array of shape (n_classes, n_samples)
        LightGBM's own sums of the trees in each slot, as last seen.
    """

    name: str
    data: lgb.Dataset
    labels: Integers
    weights: Floats | None
    scores: Floats
    tree_sums: Floats


class Trainer:
    """A run that is driven round by round.

    Parameters
    ----------
    params : TrainingParams
    booster : Booster
        Made with `params.grower`, with its validation sets added; nobody else may update it.
    bases : sequence of int
        Bases of the rounds that an initial model consists of.

    Attributes
    ----------
    rounds : list of tuples of TaggedTree
        The trees of every round of this run; a round without any split is empty.
    initial_trees : list of TreeText
        The trees of the initial model, K an iteration.
    retried_rounds : int
        Rounds whose step the guard halved or replaced by a classic round.
    """

    def __init__(self, params: TrainingParams, booster: lgb.Booster, bases: Sequence[int] = ()) -> None:
        self.params = params
        self.booster = booster
        self.n_initial_rounds = len(bases)
        self.frame, self.initial_trees = read_model(lgb.Booster.model_to_string(booster, num_iteration=-1))
        self.rounds: list[tuple[TaggedTree, ...]] = []
        self.retried_rounds = 0
        schedule = params.options.schedule(params.n_classes)
        for base in bases:
            schedule.record(base)
        sums = _tree_sums(booster)
        sets = [booster.train_set, *booster.valid_sets]
        names = [booster._train_data_name, *booster.name_valid_sets]
        scored = [
            _scored_set(name, data, own, params.n_classes) for name, data, own in zip(names, sets, sums, strict=True)
        ]
        self.train, self.valid = scored[0], scored[1:]
        self.workers = Workers(params.n_threads)
        self.state = ABCScores(self.train.labels, self.train.weights, self.train.tree_sums, schedule, self.workers)
        self._shares_pairs = _pairs_are_antisymmetric(params, booster.train_set)
        self._gradients = np.empty((params.n_classes, self.train.labels.size), dtype=np.float32)
        self._hessians = np.empty_like(self._gradients)

    @property
    def schedule(self) -> BaseClassSchedule:
        """The base classes so far."""
        return self.state.schedule

    @property
    def n_rounds(self) -> int:
        """Rounds done, those of the initial model included."""
        return self.n_initial_rounds + len(self.rounds)

    def boost_round(self) -> None:
        """Do one round: grow, choose the base, keep what the guard allows, record."""
        plan = self.state.plan()
        if plan.centre:
            for data in self.valid:
                data.scores -= data.scores.mean(axis=0)
        grown = self._grow(self._slots(plan))
        if not self._take(self._best_step(plan, grown), grown):
            # No part of the step helped: a classic round in its place.
            grown = self._grow(list(classic_pairs(self.params.n_classes)))
            self._take(self._step(CLASSIC, grown), grown)

    def _slots(self, plan: RoundPlan) -> list[Pair | None]:
        n_classes = self.params.n_classes
        if plan.is_classic:
            return list(classic_pairs(n_classes))
        if len(plan.candidates) == 1:
            (base,) = plan.candidates
            return [None if k == base else (k, base) for k in range(n_classes)]
        return list(search_pairs(plan.candidates, n_classes, shared=self._shares_pairs))

    def _grow(self, slots: list[Pair | None]) -> Grown:
        """Grow K trees at a time: a slot's tree depends on its gradients alone, whichever class they are for."""
        n_classes = self.params.n_classes
        slots = slots + [None] * (-len(slots) % n_classes)
        sets = [self.train, *self.valid]
        additions = [np.empty((len(slots), data.labels.size)) for data in sets]
        iterations = []
        for begin in range(0, len(slots), n_classes):
            chunk = slice(begin, begin + n_classes)
            self.state.gradients(slots[chunk], self._gradients, self._hessians)
            stalled = self.booster.update(fobj=lambda _sums, _data: (self._gradients.T, self._hessians.T))
            iterations.append(-1 if stalled else lgb.Booster.num_trees(self.booster) // n_classes - 1)
            for data, added, sums in zip(sets, additions, _tree_sums(self.booster), strict=True):
                np.subtract(sums, data.tree_sums, out=added[chunk])
                data.tree_sums[:] = sums
        return Grown(slots, iterations, additions[0], additions[1:])

    def _best_step(self, plan: RoundPlan, grown: Grown) -> Step:
        """Choose the base by the training loss that each candidate's step would lead to."""
        if plan.is_classic:
            return self._step(CLASSIC, grown)
        steps = {base: self._step(base, grown) for base in plan.candidates}
        losses = []
        if len(steps) > 1:
            losses = [self.state.trial_loss(step.pairs, step.additions, step.used) for step in steps.values()]
        return steps[self.state.choose_base(plan, losses)]

    def _step(self, base: int, grown: Grown) -> Step:
        """Put the step of one base together, with renewed leaf values if they are wanted."""
        if base == CLASSIC:
            rows: Sequence[int] = range(self.params.n_classes)
            return Step(base, rows, grown.slots, grown.additions, rows)
        rows = pairs_of_base(grown.slots, base)
        if self.params.options.leaf_values == "paper":
            return Step(base, rows, grown.slots, grown.additions, rows)
        rows = [row for row in rows if not self._is_stump(grown, row)]
        pairs = [grown.slots[row] for row in rows]
        if not rows:
            return Step(base, rows, pairs, grown.additions, rows)
        finders = [self._finder(grown, row) for row in rows]
        leaf_ids = _find_leaves(finders, rows, grown.additions)
        n_leaves = 1 + max(int(finder.group.max()) for finder in finders)
        step = self.params.leaf_step(self.booster.params)
        values = self.state.renewed_values(pairs, range(len(pairs)), leaf_ids, n_leaves, step)
        additions = np.take_along_axis(values, leaf_ids.astype(np.int64), axis=1)
        return Step(base, rows, pairs, additions, range(len(pairs)), values)

    def _take(self, step: Step, grown: Grown) -> bool:
        """Take the step as far as the guard allows; False if no part of it helps and a classic round might."""
        factor = 0.0
        if any(iteration >= 0 for iteration in grown.iterations):
            guard = self.params.options.guard
            factor = self.state.guarded_factor(step.pairs, step.additions, step.used, guard=guard)
            self.retried_rounds += factor < 1.0
            if factor == 0.0 and step.base != CLASSIC:
                return False
        if factor == 0.0:
            self.state.skip(step.base)
            self.rounds.append(())
            return True
        self.state.accept(step.base)
        for data, added in zip(self.valid, grown.valid_additions, strict=True):
            add_trees(data.scores, step.pairs, self._valid_additions(step, grown, added), step.used, factor)
        self.rounds.append(tuple(self._tagged_trees(step, grown, factor)))
        return True

    def _valid_additions(self, step: Step, grown: Grown, additions: Floats) -> Floats:
        if step.values is None:
            return additions
        leaf_ids = _find_leaves([self._finder(grown, row) for row in step.rows], step.rows, additions)
        return np.take_along_axis(step.values, leaf_ids.astype(np.int64), axis=1)

    def _tagged_trees(self, step: Step, grown: Grown, factor: float) -> Iterator[TaggedTree]:
        """Yield the trees of the step; those without a split add nothing and are left out."""
        for t, row in enumerate(step.rows):
            pair = grown.slots[row]
            if pair is None or self._is_stump(grown, row):
                continue
            text = self._text(grown, row)
            if step.values is not None:
                text = with_leaf_values(text, step.values[t, self._finder(grown, row).group])
            yield TaggedTree(*pair, text if factor == 1.0 else scaled(text, factor))

    def _is_stump(self, grown: Grown, row: int) -> bool:
        return grown.iterations[row // self.params.n_classes] < 0 or is_stump(self._text(grown, row))

    def _finder(self, grown: Grown, row: int) -> LeafFinder:
        if row not in grown.finders:
            grown.finders[row] = LeafFinder(leaf_values(self._text(grown, row)))
        return grown.finders[row]

    def _text(self, grown: Grown, row: int) -> TreeText:
        """Read a tree out of the booster, K at a time."""
        chunk, slot = divmod(row, self.params.n_classes)
        if chunk not in grown.texts:
            iteration = grown.iterations[chunk]
            text = lgb.Booster.model_to_string(self.booster, num_iteration=1, start_iteration=iteration)
            grown.texts[chunk] = read_model(text)[1]
        return grown.texts[chunk][slot]

    def evaluate(self, feval: Sequence[EvalFunction], *, with_train: bool) -> list[Any]:
        """Evaluate as lightgbm does: the training set first if it is wanted, built-in metrics before `feval`."""
        results = []
        for data in ([self.train] if with_train else []) + self.valid:
            evaluated = self.evaluated(data)
            for metric in self.params.metrics:
                results.append(_eval_result(data.name, metric.name, metric.value(evaluated), metric.maximize))
            for function in feval:
                returned = function(evaluated.probabilities.T.copy(order="F"), data.data)
                for name, value, maximize in returned if isinstance(returned, list) else [returned]:
                    results.append(_eval_result(data.name, name, value, maximize))
        return results

    def evaluated(self, data: ScoredSet) -> Evaluated:
        """Scores and probabilities of a data set as they are now."""
        if data is self.train:
            return Evaluated(self.state.scores, self.state.probabilities, data.labels, data.weights)
        probabilities = np.empty_like(data.scores)
        weights = np.ones(data.labels.size) if data.weights is None else data.weights
        update_probabilities(data.scores, data.labels, weights, probabilities, self.workers)
        return Evaluated(data.scores, probabilities, data.labels, data.weights)

    def close(self) -> None:
        """End the threads."""
        self.workers.close()


def _find_leaves(finders: Sequence[LeafFinder], rows: Sequence[int], additions: Floats) -> AnyArray:
    """Leaf numbers of every sample in the trees `rows`, shape (len(rows), n_samples)."""
    leaf_ids = np.empty((len(rows), additions.shape[1]), dtype=np.uint16)
    for finder, row, found in zip(finders, rows, leaf_ids, strict=True):
        finder.find(additions[row], found)
    return leaf_ids


def _eval_result(data_name: str, metric_name: str, value: float, maximize: bool) -> Any:
    record = getattr(basic, "EvalResult", None)  # plain tuples before LightGBM 4.7
    return record(data_name, metric_name, value, maximize) if record else (data_name, metric_name, value, maximize)


def _tree_sums(booster: lgb.Booster) -> list[Floats]:
    """LightGBM's sums of trees of the training and the validation sets, shape (n_classes, n_samples); not copied."""
    seen: list[Floats] = []

    def look(sums: Floats, _data: lgb.Dataset) -> tuple[str, float, bool]:
        seen.append(sums.T)
        return "", 0.0, False

    booster.eval_train(look)
    booster.eval_valid(look)
    return seen


def _scored_set(name: str, data: lgb.Dataset, sums: Floats, n_classes: int) -> ScoredSet:
    labels = class_labels(data, n_classes)
    weights = data.get_field("weight")
    return ScoredSet(
        name=name,
        data=data,
        labels=labels,
        weights=None if weights is None else np.asarray(weights, dtype=np.float64),
        scores=np.array(sums),
        tree_sums=np.array(sums),
    )


def class_labels(data: lgb.Dataset, n_classes: int) -> Integers:
    """Labels of a constructed Dataset as class indices."""
    labels = np.asarray(data.get_field("label"))
    whole = labels.astype(np.int32)
    wrong = (labels != whole) | (whole < 0) | (whole >= n_classes)
    if wrong.any():
        fail("label", float(labels[wrong][0]), f"whole numbers from 0 to num_class - 1 = {n_classes - 1}")
    return whole


def _pairs_are_antisymmetric(params: TrainingParams, train_set: lgb.Dataset) -> bool:
    """Whether LightGBM grows the negated tree from negated gradients.

    Categories are sorted by gradient / (hessian + cat_smooth). Where nothing smooths them, whole groups of categories
    tie, and the order of ties does not turn round with the sign.
    """
    given = params.given
    smoothed = given.get("cat_smooth", 10.0) > 0 or given.get("cat_l2", 10.0) > 0
    return bool(smoothed) or not train_set.get_params().get("categorical_column")
