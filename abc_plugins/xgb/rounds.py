"""One round of ABC-Boost: grow, choose the base, set the leaf values, take as much of the step as helps."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xgboost import DMatrix

from abc_plugins.core.additions import LeafFinder, add_trees
from abc_plugins.core.driver import ABCScores, LeafStep
from abc_plugins.core.pairs import Pair, base_pairs, classic_pairs, pairs_of_base, search_pairs
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.schedule import CLASSIC, RoundPlan
from abc_plugins.xgb.settings import ABCSettings, RoundSettings
from abc_plugins.xgb.stock import StockRound
from abc_plugins.xgb.trees import TreeBytes
from abc_plugins.xgb.xgboost_grower import GrownTrees, XGBoostGrower

_logger = logging.getLogger("abc_plugins")


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
    rows : list of int
        Which of the grown trees belong to the step.
    renewed : RenewedLeaves or None
    """

    base: int
    grown: GrownTrees
    rows: list[int]
    renewed: RenewedLeaves | None = None

    @property
    def pairs(self) -> list[Pair]:
        """Classes of the trees of the step."""
        return [self.grown.pairs[row] for row in self.rows]

    def additions(self, grown_additions: AnyArray) -> tuple[AnyArray, list[Pair], Sequence[int]]:
        """Return what the step adds: additions, the pairs of their rows, and the rows that count."""
        if self.renewed is None:
            return grown_additions, self.grown.pairs, self.rows
        return self.renewed.additions([grown_additions[row] for row in self.rows]), self.pairs, range(len(self.rows))


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
        additions, pairs, rows = self.step.additions(self.grown.additions(matrix))
        add_trees(scores, pairs, additions, rows, self.factor)

    def to_stock(self) -> StockRound:
        """Return the trees with the values that were taken."""
        tagged = []
        for position, row in enumerate(self.step.rows):
            for tree in self.grown.trees[row]:
                final = tree if self.step.renewed is None else self.step.renewed.tree(position, tree)
                if self.factor != 1.0:
                    final = final.with_leaf_values(self.factor * final.values())
                tagged.append((self.grown.pairs[row], final))
        return StockRound(tagged)


class RoundMaker:
    """Makes the rounds of a training run on one matrix.

    Parameters
    ----------
    matrix : DMatrix
    scores : ABCScores
    settings : ABCSettings

    Attributes
    ----------
    guarded_rounds : int
        Rounds whose step the guard shortened or replaced.
    """

    def __init__(self, matrix: DMatrix, scores: ABCScores, settings: ABCSettings) -> None:
        self.matrix = matrix
        self.scores = scores
        self._grower = XGBoostGrower(matrix)
        self._renews = settings.leaf_values == "sequential"
        self._guard = settings.guard
        self.guarded_rounds = 0

    def make(self, settings: RoundSettings, iteration: int) -> Round:
        """Do one round and record it."""
        plan = self.scores.plan()
        grown, additions = self._grow(settings, _pairs_to_grow(plan.candidates, self.scores.n_classes), iteration)
        step = self._best_step(plan, grown, additions, settings.leaf_step)
        factor = self._guarded_factor(step, additions)
        replaced = factor == 0.0 and step.base != CLASSIC
        if replaced:
            # No part of the step helped: a classic round in its place.
            grown, additions = self._grow(settings, classic_pairs(self.scores.n_classes), iteration)
            step = self._step(CLASSIC, grown, additions, settings.leaf_step)
            factor = self._guarded_factor(step, additions)
        if factor < 1.0 or replaced:
            self._count_guarded_round()
        if factor > 0.0:
            self.scores.accept(step.base)
        else:
            self.scores.skip(step.base)
        return Round(step, factor)

    def _count_guarded_round(self) -> None:
        if self.guarded_rounds == 0:
            _logger.info(
                "Round %d would have raised the training loss: the guard shortened its step. Further rounds are only "
                "counted.",
                len(self.scores.schedule.bases) + 1,
            )
        self.guarded_rounds += 1

    def _grow(self, settings: RoundSettings, pairs: list[Pair], iteration: int) -> tuple[GrownTrees, AnyArray]:
        grown = self._grower.grow(settings.tree_params, self.scores, pairs, iteration)
        return grown, grown.additions(self.matrix)

    def _best_step(self, plan: RoundPlan, grown: GrownTrees, additions: AnyArray, leaf_step: LeafStep) -> Step:
        """Choose the base by the training loss that each candidate's step would lead to."""
        steps = [self._step(base, grown, additions, leaf_step) for base in plan.candidates or (CLASSIC,)]
        if len(steps) == 1:
            return steps[0]
        losses = []
        for step in steps:
            added, pairs, rows = step.additions(additions)
            losses.append(self.scores.trial_loss(pairs, added, rows))
        return steps[plan.candidates.index(self.scores.choose_base(plan, losses))]

    def _step(self, base: int, grown: GrownTrees, additions: AnyArray, leaf_step: LeafStep) -> Step:
        if base == CLASSIC:
            return Step(base, grown, list(range(len(grown.pairs))))
        rows = pairs_of_base(grown.pairs, base)
        if not self._renews:
            return Step(base, grown, rows)
        pairs = [grown.pairs[row] for row in rows]
        finders = [_leaf_finder(grown.trees[row][0]) for row in rows]
        leaf_ids = _leaf_ids(finders, [additions[row] for row in rows])
        n_leaves = 1 + max(int(finder.group.max()) for finder in finders)
        values = self.scores.renewed_values(pairs, range(len(pairs)), leaf_ids, n_leaves, leaf_step)
        # Trees keep their values in float32: so do the scores.
        return Step(base, grown, rows, RenewedLeaves(finders, values.astype(np.float32).astype(np.float64)))

    def _guarded_factor(self, step: Step, additions: AnyArray) -> float:
        added, pairs, rows = step.additions(additions)
        return self.scores.guarded_factor(pairs, added, rows, guard=self._guard)


def _pairs_to_grow(candidates: Sequence[int], n_classes: int) -> list[Pair]:
    if not candidates:
        return classic_pairs(n_classes)
    if len(candidates) == 1:
        return base_pairs(candidates[0], n_classes)
    return search_pairs(candidates, n_classes)


def _leaf_finder(tree: TreeBytes) -> LeafFinder:
    return LeafFinder(tree.values()[tree.is_leaf()].astype(np.float64))


def _leaf_ids(finders: Sequence[LeafFinder], grown_additions: Sequence[AnyArray]) -> AnyArray:
    """Leaf of every sample in every tree, shape (n_trees, n_samples)."""
    leaf_ids = np.empty((len(finders), grown_additions[0].size), dtype=np.int64)
    for finder, added, ids in zip(finders, grown_additions, leaf_ids, strict=True):
        finder.find(added, ids)
    return leaf_ids
