"""Pairs of classes on XGBoost: it grows their trees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from xgboost import DMatrix

from abc_plugins.core.additions import LeafFinder, LibraryEngine, add_trees
from abc_plugins.core.options import BoostOptions
from abc_plugins.core.pair_rounds import PairRound, PairRounds, TreeRange
from abc_plugins.core.pairs import Pair, limit_leaves
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.schedule import BaseClassSchedule
from abc_plugins.core.scores import PairScores
from abc_plugins.xgb.format.trees import Document, TreeBytes
from abc_plugins.xgb.settings import RoundSettings
from abc_plugins.xgb.stock import StockRound
from abc_plugins.xgb.xgboost_grower import GrownTrees, XGBoostGrower


class XGBoostPairs(LibraryEngine):
    """Grows trees for pairs of classes on one matrix; a `PairEngine`.

    Parameters
    ----------
    matrix : DMatrix
    settings : RoundSettings
        May be exchanged between rounds.
    options : BoostOptions

    Attributes
    ----------
    grown : GrownPairs
        The trees grown last, those of candidates that were not chosen included.
    """

    value_type = np.float32

    def __init__(self, matrix: DMatrix, settings: RoundSettings, options: BoostOptions) -> None:
        super().__init__()
        self.settings = settings
        self.grown = GrownPairs([], [], [])
        self._matrix, self._options = matrix, options
        self._grower = XGBoostGrower(matrix)

    @property
    def can_probe(self) -> bool:
        """Whether leaf values can be ours: not those of several trees side by side."""
        return int(self.settings.tree_params["num_parallel_tree"]) == 1

    def negates(self, _scores: PairScores) -> bool:
        """XGBoost grows the negated tree from negated gradients."""
        return True

    def grow(
        self,
        scores: PairScores,
        pairs: Sequence[Pair],
        seen: AnyArray,
        round_index: int,
        _after_each: TreeRange | None = None,
        _in_order: TreeRange | None = None,
    ) -> None:
        """Grow a tree for each pair; those that may have as many leaves share a booster."""
        plus, minus = np.array(pairs).T
        most = self.settings.max_leaves
        limits = limit_leaves(plus, minus, scores.class_weights, self._options.pair_samples_per_leaf, most)
        lots = [np.flatnonzero(limits == limit) for limit in np.unique(limits)[::-1]]
        boosters = []
        for trees in lots:
            limit = int(limits[trees[0]])
            params = self.settings.tree_params | ({} if limit == most else {"max_leaves": limit})
            write = partial(scores.gradients, [pairs[t] for t in trees.tolist()], seen)
            boosters.append(self._grower.grow(params, len(trees), write, round_index))
        self.grown = GrownPairs(list(pairs), boosters, lots)
        additions = self.grown.additions(self._matrix)
        # All processes must say the same: a probe leaves out something somewhere.
        n_left_out = scores.reduce(np.array([float(scores.labels.size - seen.size)]))[0]
        has_values = self._options.leaf_values == "paper" and n_left_out == 0.0
        self._note(pairs, self.grown.finders(additions), additions, has_values=has_values)

    def grow_nothing(self, pairs: Sequence[Pair], round_index: int) -> None:
        """Grow trees of one leaf, which add nothing."""

        def write(gradients: AnyArray, hessians: AnyArray) -> None:
            gradients[:] = hessians[:] = 0.0

        booster = self._grower.grow(self.settings.tree_params, len(pairs), write, round_index)
        self.grown = GrownPairs(list(pairs), [booster], [np.arange(len(pairs))])


@dataclass(frozen=True)
class GrownPairs:
    """The trees of a round, those of candidates that were not chosen included.

    Attributes
    ----------
    pairs : list of (plus, minus)
    boosters : list of GrownTrees
    lots : list of arrays of int
        For each booster the pairs that its outputs belong to.
    """

    pairs: list[Pair]
    boosters: list[GrownTrees]
    lots: list[AnyArray]

    @property
    def categories(self) -> Document:
        """The categories of the features as the model keeps them."""
        return self.boosters[0].categories

    @cached_property
    def trees(self) -> list[list[TreeBytes]]:
        """The trees of each pair, one unless `num_parallel_tree` says otherwise."""
        return self._by_pair([booster.trees for booster in self.boosters])

    def additions(self, matrix: DMatrix) -> list[AnyArray]:
        """Compute what the trees of every pair add to the rows of `matrix`."""
        return self._by_pair([booster.additions(matrix) for booster in self.boosters])

    def _by_pair(self, of_boosters: Sequence[Iterable[Any]]) -> list[Any]:
        """What the outputs of the boosters have, in the order of the pairs."""
        of_pair: dict[int, Any] = {}
        for of_outputs, pairs in zip(of_boosters, self.lots, strict=True):
            of_pair |= dict(zip(pairs.tolist(), of_outputs, strict=True))
        return [of_pair[t] for t in range(len(self.pairs))]

    def finders(self, additions: Sequence[AnyArray]) -> list[LeafFinder]:
        """Tell leaves apart by what they add; trees side by side only by what they add together."""
        return [
            leaf_finder(of_pair[0]) if len(of_pair) == 1 or added.size == 0 else LeafFinder(added)
            for of_pair, added in zip(self.trees, additions, strict=True)
        ]


class Round:
    """A round with the trees that it is made of; valid until the next one is made."""

    def __init__(self, made: PairRound, engine: XGBoostPairs) -> None:
        self.made = made
        self._engine = engine

    @property
    def grown(self) -> GrownPairs:
        """All trees that were grown for the round."""
        return self._engine.grown

    def add_to(self, scores: Floats, matrix: DMatrix) -> None:
        """Add the round to scores of other samples, shape (n_classes, n_samples)."""
        if self.made.update is None or self.made.factor == 0.0:
            return
        additions = self.grown.additions(matrix)
        add_trees(scores, self._engine.additions_of(self.made, additions.__getitem__))

    def to_stock(self) -> StockRound:
        """Return the trees with the values that were taken, as they were grown."""
        made, tagged = self.made, []
        if made.update is None:
            return StockRound([(pair, self.grown.trees[t][0]) for t, pair in enumerate(made.pairs)])
        for t, pair, values in zip(made.update.tree.tolist(), made.pairs, made.update.values, strict=True):
            for tree in self.grown.trees[t]:
                if not made.has_own_values:
                    by_leaf = values[self._engine.finders[t].group]
                    final = with_values(tree, by_leaf if pair == self.grown.pairs[t] else -by_leaf)
                else:
                    final = tree if made.factor == 1.0 else tree.with_leaf_values(made.factor * tree.values())
                tagged.append((self.grown.pairs[t], final))
        return StockRound(tagged)


class RoundMaker:
    """Makes the rounds of a training run on one matrix.

    Parameters
    ----------
    matrix : DMatrix
    scores : PairScores
    schedule : BaseClassSchedule
    options : BoostOptions
    settings : RoundSettings
    """

    def __init__(
        self,
        matrix: DMatrix,
        scores: PairScores,
        schedule: BaseClassSchedule,
        options: BoostOptions,
        settings: RoundSettings,
    ) -> None:
        self.matrix = matrix
        self._engine = XGBoostPairs(matrix, settings, options)
        self._rounds = PairRounds(
            scores,
            schedule,
            settings.leaf_rules,
            self._engine,
            leaf_values=options.leaf_values,
            guard=options.guard,
        )

    @property
    def scores(self) -> Floats:
        """Scores of the training samples, shape (n_classes, n_samples)."""
        return self._rounds.scores.scores

    @property
    def guarded_rounds(self) -> int:
        """Rounds whose step the guard shortened or replaced."""
        return self._rounds.guarded_rounds

    @property
    def bases(self) -> tuple[int, ...]:
        """The base class of every round, those of a continued model included."""
        return self._rounds.schedule.bases

    @property
    def directions(self) -> dict[str, Any]:
        """The state of the schedule of directions: there is none."""
        return {}

    def make(self, settings: RoundSettings, iteration: int) -> Round:
        """Do one round."""
        self._engine.settings = settings
        self._rounds.rules = settings.leaf_rules
        made = self._rounds.run()
        if made.update is None:
            self._engine.grow_nothing(made.pairs, iteration)
        return Round(made, self._engine)


def leaf_finder(tree: TreeBytes) -> LeafFinder:
    """Tell the leaves of a tree apart by their values."""
    return LeafFinder(tree.values()[tree.is_leaf()])


def find_leaves(finder: LeafFinder, additions: AnyArray) -> AnyArray:
    """Tell the leaf of every sample from what a tree's own leaf values add."""
    leaves = np.empty(additions.size, dtype=np.uint16)
    finder.find(additions, leaves)
    return leaves


def with_values(tree: TreeBytes, by_leaf: Floats) -> TreeBytes:
    """Return the tree with other leaf values, in the order of its leaves."""
    values = np.zeros(tree.n_nodes)
    values[tree.is_leaf()] = by_leaf
    return tree.with_leaf_values(values)
