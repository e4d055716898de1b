"""One round of pairs: grow, choose the base, set the leaf values, take as much of the step as helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xgboost import DMatrix

from abc_plugins.core.additions import LeafFinder, add_trees
from abc_plugins.core.driver import ABCScores
from abc_plugins.core.leaves import LeafRules
from abc_plugins.core.options import BoostOptions
from abc_plugins.core.pairs import Pair, distinct_pairs, pairs_of_base
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.schedule import CLASSIC, RoundPlan
from abc_plugins.xgb.settings import RoundSettings
from abc_plugins.xgb.stock import StockRound
from abc_plugins.xgb.trees import TreeBytes
from abc_plugins.xgb.xgboost_grower import GrownTrees, XGBoostGrower


@dataclass(frozen=True)
class RenewedLeaves:
    """Leaf values of the trees of a round that replace those of XGBoost.

    Attributes
    ----------
    finders : list of LeafFinder
        Find the leaf of a sample from what XGBoost's leaf would add, one per tree.
    values : array of shape (n_trees, n_leaves)
    """

    finders: list[LeafFinder]
    values: Floats

    def additions(self, grown_additions: Sequence[AnyArray]) -> Floats:
        """Compute what each tree adds with its new values in place of XGBoost's, shape (n_trees, n_samples)."""
        return np.take_along_axis(self.values, _leaf_ids(self.finders, grown_additions), axis=1)

    def tree(self, position: int, tree: TreeBytes) -> TreeBytes:
        """Return the tree with its new values."""
        new_values = np.zeros(tree.n_nodes)
        new_values[tree.is_leaf()] = self.values[position, self.finders[position].group]
        return tree.with_leaf_values(new_values)


@dataclass(frozen=True)
class Step:
    """What a round with one base would add.

    Attributes
    ----------
    base : int
        The base class, or `CLASSIC`.
    grown : GrownTrees
    all_pairs : list of (plus, minus)
        Classes of the grown trees.
    rows : list of int
        Which of the grown trees belong to the step.
    added : array of shape (n_trees, n_samples)
        What the trees add to the training samples: those in `rows` if leaf values are renewed, else all.
    renewed : RenewedLeaves or None
    """

    base: int
    grown: GrownTrees
    all_pairs: list[Pair]
    rows: list[int]
    added: AnyArray
    renewed: RenewedLeaves | None = None

    @property
    def pairs(self) -> list[Pair]:
        """Classes of the trees in `added`."""
        return self.all_pairs if self.renewed is None else [self.all_pairs[row] for row in self.rows]

    @property
    def used(self) -> Sequence[int]:
        """Which of the trees in `added` belong to the step."""
        return self.rows if self.renewed is None else range(len(self.rows))

    def additions(self, matrix: DMatrix) -> AnyArray:
        """Compute what the trees add to other samples, as `added`."""
        additions = self.grown.additions(matrix)
        if self.renewed is None:
            return additions
        return self.renewed.additions([additions[row] for row in self.rows])


@dataclass(frozen=True)
class Round:
    """A step as it was taken: times `factor`."""

    step: Step
    factor: float

    @property
    def grown(self) -> GrownTrees:
        """All trees that were grown for the round."""
        return self.step.grown

    def add_to(self, scores: Floats, matrix: DMatrix) -> None:
        """Add the round to scores of other samples, shape (n_classes, n_samples)."""
        add_trees(scores, self.step.pairs, self.step.additions(matrix), self.step.used, self.factor)

    def to_stock(self) -> StockRound:
        """Return the trees with the values that were taken."""
        tagged = []
        for position, row in enumerate(self.step.rows):
            for tree in self.grown.trees[row]:
                final = tree if self.step.renewed is None else self.step.renewed.tree(position, tree)
                if self.factor != 1.0:
                    final = final.with_leaf_values(self.factor * final.values())
                tagged.append((self.step.all_pairs[row], final))
        return StockRound(tagged)


class RoundMaker:
    """Makes the rounds of a training run on one matrix.

    Parameters
    ----------
    matrix : DMatrix
    state : ABCScores
    options : BoostOptions
    """

    def __init__(self, matrix: DMatrix, state: ABCScores, options: BoostOptions) -> None:
        self.matrix = matrix
        self._state = state
        self._grower = XGBoostGrower(matrix)
        self._options = options

    @property
    def scores(self) -> Floats:
        """Scores of the training samples, shape (n_classes, n_samples)."""
        return self._state.scores

    @property
    def guarded_rounds(self) -> int:
        """Rounds whose step the guard shortened or replaced."""
        return self._state.guarded_rounds

    @property
    def bases(self) -> tuple[int, ...]:
        """The base class of every round, those of a continued model included."""
        return self._state.schedule.bases

    def make(self, settings: RoundSettings, iteration: int) -> Round:
        """Do one round and record it."""
        state = self._state
        plan = state.plan()
        step = self._best_step(plan, settings, iteration)
        factor = self._guarded_factor(step)
        replaced = factor == 0.0 and step.base != CLASSIC
        if replaced:
            # No part of the step helped: a classic round in its place.
            step = self._best_step(RoundPlan((), centre=False), settings, iteration)
            factor = self._guarded_factor(step)
        if factor < 1.0 or replaced:
            state.count_guarded_round()
        if factor > 0.0:
            state.accept(step.base)
        else:
            state.skip(step.base)
        return Round(step, factor)

    def _best_step(self, plan: RoundPlan, settings: RoundSettings, iteration: int) -> Step:
        """Grow the trees of a plan; choose the base by the training loss that each candidate's step would lead to."""
        state = self._state
        pairs = distinct_pairs(plan, state.n_classes)
        grown = self._grower.grow(
            settings.tree_params, len(pairs), lambda g, h: state.gradients(pairs, g, h), iteration
        )
        additions = grown.additions(self.matrix)
        steps = [
            self._step(base, grown, pairs, additions, settings.leaf_rules) for base in plan.candidates or [CLASSIC]
        ]
        if len(steps) == 1:
            return steps[0]
        losses = [state.trial_loss(step.pairs, step.added, step.used) for step in steps]
        return steps[plan.candidates.index(state.choose_base(plan, losses))]

    def _step(self, base: int, grown: GrownTrees, all_pairs: list[Pair], additions: AnyArray, rules: LeafRules) -> Step:
        rows = list(range(len(all_pairs))) if base == CLASSIC else pairs_of_base(all_pairs, base)
        if self._options.leaf_values == "paper":
            return Step(base, grown, all_pairs, rows, additions)
        pairs = [all_pairs[row] for row in rows]
        finders = [leaf_finder(grown.trees[row][0]) for row in rows]
        grown_additions = [additions[row] for row in rows]
        leaf_ids = _leaf_ids(finders, grown_additions)
        n_leaves = 1 + max(int(finder.group.max()) for finder in finders)
        values = self._state.renewed_values(pairs, range(len(pairs)), leaf_ids, n_leaves, rules)
        # Trees keep their values in float32: so do the scores.
        renewed = RenewedLeaves(finders, values.astype(np.float32).astype(np.float64))
        return Step(base, grown, all_pairs, rows, renewed.additions(grown_additions), renewed)

    def _guarded_factor(self, step: Step) -> float:
        return self._state.guarded_factor(step.pairs, step.added, step.used, guard=self._options.guard)


def leaf_finder(tree: TreeBytes) -> LeafFinder:
    """Tell the leaves of a tree apart by their values."""
    return LeafFinder(tree.values()[tree.is_leaf()].astype(np.float64))


def _leaf_ids(finders: Sequence[LeafFinder], grown_additions: Sequence[AnyArray]) -> AnyArray:
    """Leaf of every sample in every tree, shape (n_trees, n_samples)."""
    leaf_ids = np.empty((len(finders), grown_additions[0].size), dtype=np.int64)
    for finder, added, ids in zip(finders, grown_additions, leaf_ids, strict=True):
        finder.find(added, ids)
    return leaf_ids
