"""Runs on LightGBM: what all have in common, and a run of pairs, which grows, chooses the base and keeps scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np

from abc_plugins.core.additions import LeafFinder, add_trees, gather_additions
from abc_plugins.core.driver import ABCScores
from abc_plugins.core.losses import update_probabilities
from abc_plugins.core.pairs import Pair, classic_pairs, pairs_of_base
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC, RoundPlan
from abc_plugins.lgbm.internals import eval_result
from abc_plugins.lgbm.lightgbm_grower import Grown, LightGBMGrower, ScoredSet, scored_sets
from abc_plugins.lgbm.metrics import Evaluated
from abc_plugins.lgbm.params import TrainingParams
from abc_plugins.lgbm.text import ModelFrame, TaggedTree, TreeText, read_model, scaled, with_leaf_values

EvalFunction = Callable[[AnyArray, lgb.Dataset], Any]


@dataclass(frozen=True)
class TrainedModel:
    """The trees of a run, and what is needed to write them down.

    Attributes
    ----------
    params : TrainingParams
    frame : ModelFrame
    initial_trees : list of TreeText
        The trees of the initial model, K an iteration.
    rounds : sequence of sequences of TaggedTree
        The trees of every further round; a round without any split is empty.
    bases : sequence of int
        The base of every round, those of the initial model included.
    n_initial_rounds : int
    guarded_rounds : int
        Rounds whose step the guard shortened or replaced.
    """

    params: TrainingParams
    frame: ModelFrame
    initial_trees: list[TreeText]
    rounds: Sequence[Sequence[TaggedTree]]
    bases: Sequence[int]
    n_initial_rounds: int
    guarded_rounds: int


class Run(ABC):
    """A run that is driven round by round.

    Parameters
    ----------
    params : TrainingParams
    booster : Booster
        Made with `params.grower`, with its validation sets added; nobody else may update it.
    n_initial_rounds : int
        Rounds that an initial model consists of.

    Attributes
    ----------
    train : ScoredSet
    valid : list of ScoredSet
    initial_trees : list of TreeText
        The trees of the initial model, K an iteration.
    """

    def __init__(self, params: TrainingParams, booster: lgb.Booster, n_initial_rounds: int) -> None:
        self.params = params
        self.booster = booster
        self.n_initial_rounds = n_initial_rounds
        self.frame, self.initial_trees = read_model(lgb.Booster.model_to_string(booster, num_iteration=-1))
        self.train, *self.valid = scored_sets(booster, params.n_classes)
        self.workers = Workers(params.n_threads)

    @property
    @abstractmethod
    def n_rounds(self) -> int:
        """Rounds done, those of the initial model included."""

    @abstractmethod
    def boost_round(self) -> None:
        """Do one round."""

    @abstractmethod
    def model(self) -> TrainedModel:
        """Return all that the rounds so far have made."""

    @abstractmethod
    def evaluated(self, data: ScoredSet) -> Evaluated:
        """Scores and probabilities of a data set as they are now."""

    @abstractmethod
    def scores(self, data: ScoredSet) -> Floats:
        """Scores of a data set as they are now, shape (n_classes, n_samples)."""

    def evaluate(self, feval: Sequence[EvalFunction], *, with_train: bool) -> list[Any]:
        """Evaluate as lightgbm does: the training set first if it is wanted, built-in metrics before `feval`."""
        sets = ([self.train] if with_train else []) + self.valid
        return [result for data in sets for result in self.evaluate_set(data, feval)]

    def evaluate_set(
        self, data: ScoredSet, feval: EvalFunction | Sequence[EvalFunction] | None, name: str | None = None
    ) -> list[Any]:
        """Evaluate one data set, under its own name or another."""
        name = data.name if name is None else name
        evaluated = self.evaluated(data)
        results = [eval_result(name, m.name, m.value(evaluated), m.maximize) for m in self.params.metrics]
        for function in [feval] if callable(feval) else feval or ():
            returned = function(evaluated.probabilities.T.copy(order="F"), data.data)
            for metric, value, maximize in returned if isinstance(returned, list) else [returned]:
                results.append(eval_result(name, metric, value, maximize))
        return results

    def close(self) -> None:
        """End the threads."""
        self.workers.close()


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


class Trainer(Run):
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
    """

    def __init__(self, params: TrainingParams, booster: lgb.Booster, bases: Sequence[int] = ()) -> None:
        super().__init__(params, booster, len(bases))
        self.rounds: list[tuple[TaggedTree, ...]] = []
        schedule = params.options.base_schedule(params.n_classes)
        for base in bases:
            schedule.record(base)
        self.grower = LightGBMGrower(params, booster, [self.train, *self.valid])
        self.state = ABCScores(self.train.labels, self.train.weights, self.train.tree_sums, schedule, self.workers)

    def model(self) -> TrainedModel:
        """Return all that the rounds so far have made."""
        return TrainedModel(
            self.params,
            self.frame,
            self.initial_trees,
            self.rounds,
            self.state.schedule.bases,
            self.n_initial_rounds,
            self.state.guarded_rounds,
        )

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
        grown = self.grower.grow(self.grower.slots(plan, self.state), self.state)
        step = self._best_step(plan, grown)
        factor = self._guarded_factor(step, grown)
        replaced = factor == 0.0 and step.base != CLASSIC and not grown.stalled
        if replaced:
            # No part of the step helped: a classic round in its place.
            grown = self.grower.grow(classic_pairs(self.params.n_classes), self.state)
            step = self._step(CLASSIC, grown)
            factor = self._guarded_factor(step, grown)
        if replaced or (factor < 1.0 and not grown.stalled):
            self.state.count_guarded_round()
        self._take(step, grown, factor)

    def _guarded_factor(self, step: Step, grown: Grown) -> float:
        """How much of the step the guard allows; 0 if there is none."""
        if grown.stalled:
            return 0.0
        guard = self.params.options.guard
        return self.state.guarded_factor(step.pairs, step.additions, step.used, guard=guard)

    def _best_step(self, plan: RoundPlan, grown: Grown) -> Step:
        """Choose the base by the training loss that each candidate's step would lead to."""
        steps = [self._step(base, grown) for base in plan.candidates or (CLASSIC,)]
        if len(steps) == 1:
            return steps[0]
        losses = [self.state.trial_loss(step.pairs, step.additions, step.used) for step in steps]
        return steps[plan.candidates.index(self.state.choose_base(plan, losses))]

    def _step(self, base: int, grown: Grown) -> Step:
        """Put the step of one base together, with renewed leaf values if they are wanted."""
        rows: Sequence[int] = range(self.params.n_classes) if base == CLASSIC else pairs_of_base(grown.slots, base)
        if self.params.options.leaf_values == "paper":
            return Step(base, rows, grown.slots, grown.additions, rows)
        rows = [row for row in rows if not grown.is_stump(row)]
        pairs = [grown.slots[row] for row in rows]
        if not rows:
            return Step(base, rows, pairs, grown.additions, rows)
        finders = [grown.finder(row) for row in rows]
        leaf_ids = _find_leaves(finders, rows, grown.additions)
        n_leaves = 1 + max(int(finder.group.max()) for finder in finders)
        rules = self.params.leaf_rules(self.booster.params)
        values = self.state.renewed_values(pairs, range(len(pairs)), leaf_ids, n_leaves, rules)
        additions = gather_additions(values, leaf_ids, self.workers)
        return Step(base, rows, pairs, additions, range(len(pairs)), values)

    def _take(self, step: Step, grown: Grown, factor: float) -> None:
        """Take the step times `factor`."""
        if factor == 0.0:
            self.state.skip(step.base)
            self.rounds.append(())
            return
        self.state.accept(step.base)
        for data, added in zip(self.valid, grown.valid_additions, strict=True):
            add_trees(data.scores, step.pairs, self._valid_additions(step, grown, added), step.used, factor)
        self.rounds.append(tuple(self._tagged_trees(step, grown, factor)))

    def _valid_additions(self, step: Step, grown: Grown, additions: Floats) -> Floats:
        if step.values is None:
            return additions
        leaf_ids = _find_leaves([grown.finder(row) for row in step.rows], step.rows, additions)
        return gather_additions(step.values, leaf_ids, self.workers)

    def _tagged_trees(self, step: Step, grown: Grown, factor: float) -> Iterator[TaggedTree]:
        """Yield the trees of the step; those without a split add nothing and are left out."""
        for t, row in enumerate(step.rows):
            pair = grown.slots[row]
            if pair is None or grown.is_stump(row):
                continue
            text = grown.text(row)
            if step.values is not None:
                text = with_leaf_values(text, step.values[t, grown.finder(row).group])
            yield TaggedTree(*pair, text if factor == 1.0 else scaled(text, factor))

    def evaluated(self, data: ScoredSet) -> Evaluated:
        """Scores and probabilities of a data set as they are now."""
        if data is self.train:
            return Evaluated(self.scores(data), self.state.probabilities, data.labels, data.weights)
        probabilities = np.empty_like(data.scores)
        weights = np.ones(data.labels.size) if data.weights is None else data.weights
        update_probabilities(data.scores, data.labels, weights, probabilities, self.workers)
        return Evaluated(data.scores, probabilities, data.labels, data.weights)

    def scores(self, data: ScoredSet) -> Floats:
        """Scores of a data set as they are now, shape (n_classes, n_samples)."""
        return self.state.scores if data is self.train else data.scores


def _find_leaves(finders: Sequence[LeafFinder], rows: Sequence[int], additions: Floats) -> AnyArray:
    """Leaf numbers of every sample in the trees `rows`, shape (len(rows), n_samples)."""
    leaf_ids = np.empty((len(rows), additions.shape[1]), dtype=np.uint16)
    for finder, row, found in zip(finders, rows, leaf_ids, strict=True):
        finder.find(additions[row], found)
    return leaf_ids
