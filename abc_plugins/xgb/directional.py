"""Directional trees on XGBoost: it grows their structure, the leaf vectors are ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from xgboost import DMatrix

from abc_plugins.core.additions import LeafFinder
from abc_plugins.core.directional.leaf_vectors import ProbabilityRows, softmax_rows
from abc_plugins.core.directional.rounds import DirectionalRounds
from abc_plugins.core.leaves import LeafRules
from abc_plugins.core.options import BoostOptions, Past
from abc_plugins.core.runtime.arrays import AnyArray, Derivatives, Floats
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.xgb.rounds import find_leaves, leaf_finder, with_values
from abc_plugins.xgb.settings import RoundSettings
from abc_plugins.xgb.stock import StockRound
from abc_plugins.xgb.xgboost_grower import GrownTrees, XGBoostGrower

_LEAF_REG_LAMBDA = 1.0
"""XGBoost's own lambda. Its leaves may have one sample, and 0.1 costs 3% of the log loss."""


class XGBoostEngine:
    """Grows trees along directions on one matrix; a `DirectionEngine`.

    Parameters
    ----------
    matrix : DMatrix
    settings : RoundSettings
        May be exchanged between rounds.
    max_leaves : int
        No tree may have more leaves.
    reduce : callable
        Adds arrays of sums over the workers of a cluster.
    """

    def __init__(
        self, matrix: DMatrix, settings: RoundSettings, max_leaves: int, reduce: Callable[[Floats], Floats]
    ) -> None:
        self.settings = settings
        self._reduce = reduce
        self._max_leaves = max_leaves
        self.grown: GrownTrees | None = None
        self.finders: list[LeafFinder] = []
        self._matrix = matrix
        self._grower = XGBoostGrower(matrix)
        self._additions: AnyArray = np.empty((0, 0), dtype=np.float32)

    def root_gains(self, z: Derivatives, h: Derivatives, round_index: int) -> Floats:
        """Gains of roots, from trees that are grown no further."""
        grown = self._grow(z, h, round_index, {"max_depth": 1, "max_leaves": 2})
        return np.array([tree.root_gain() for (tree,) in grown.trees])

    def grow(
        self, z: Derivatives, h: Derivatives, round_index: int, in_order: Callable[[int, int], Any] | None = None
    ) -> None:
        """Grow a tree for each direction."""
        self.grown = self._grow(z, h, round_index, {})
        self.finders = [leaf_finder(tree) for (tree,) in self.grown.trees]
        self._additions = self.grown.additions(self._matrix)
        if in_order is not None:
            in_order(0, len(z))

    def leaves(self, tree: int) -> tuple[AnyArray, int]:
        """The leaf of every training sample, and the number of leaves; leaves of the same value are one."""
        n_leaves = 1 + int(self.finders[tree].group.max())
        if n_leaves > self._max_leaves:
            allowed = f"such that trees have at most {self._max_leaves} leaves, as at the start of the training"
            fail("max_depth or max_leaves", f"a tree of {n_leaves} leaves", allowed)
        return find_leaves(self.finders[tree], self._additions[tree]), n_leaves

    def _grow(self, z: Derivatives, h: Derivatives, round_index: int, limits: dict[str, Any]) -> GrownTrees:
        # Of all processes: they must grow the same trees.
        curvature, n_samples = self._reduce(np.array([h.sum(dtype=np.float64) / max(len(h), 1), float(h.shape[1])]))
        params = {**self.settings.directional_params(float(curvature), float(n_samples)), **limits}

        def write(gradients: AnyArray, hessians: AnyArray) -> None:
            np.negative(z, out=gradients, casting="same_kind")
            hessians[:] = h

        return self._grower.grow(params, len(z), write, round_index)


@dataclass(frozen=True)
class VectorRound:
    """A round of directional trees.

    Attributes
    ----------
    grown : GrownTrees
    finders : list of LeafFinder
    vectors : list of arrays of shape (n_leaves, n_classes)
        By the leaf numbers of the finders, in float32 as XGBoost keeps them; empty for a round that adds nothing.
    is_classic : bool
        Tree k changes class k alone.
    start : array of shape (n_classes,)
        Scores before the first round, which are a part of it; 0 in all others.
    """

    grown: GrownTrees
    finders: list[LeafFinder]
    vectors: list[Floats]
    is_classic: bool
    start: Floats

    def add_to(self, scores: Floats, matrix: DMatrix) -> None:
        """Add the round to scores of other samples, shape (n_classes, n_samples)."""
        scores += self.start[:, None]
        if not self.vectors:
            return
        additions = self.grown.additions(matrix)
        for finder, of_tree, added in zip(self.finders, self.vectors, additions, strict=False):
            scores += of_tree[find_leaves(finder, added)].T

    def to_stock(self) -> StockRound:
        """Every tree once for each class that it changes."""
        trees = [of_output[0] for of_output in self.grown.trees]
        if not self.vectors:  # XGBoost has at least one tree in a round
            return StockRound([((0, CLASSIC), trees[0].with_leaf_values(np.zeros(trees[0].n_nodes)))])
        copies = []
        for t, (tree, finder, of_tree) in enumerate(zip(trees, self.finders, self.vectors, strict=True)):
            by_leaf = of_tree[finder.group]
            for k in [t] if self.is_classic else range(self.start.size):
                # The scores before the first round go with the first tree of each class.
                start = self.start[k] if t == 0 or self.is_classic else 0.0
                copies.append(((k, CLASSIC), with_values(tree, by_leaf[:, k] + start)))
        return StockRound(copies)


class DirectionalMaker:
    """Makes the rounds of a training run on one matrix.

    Parameters
    ----------
    matrix : DMatrix
    labels : array of int32
    weights : array of float64
    margins : array of shape (n_classes, n_samples)
        Scores to start from.
    start : array of shape (n_classes,)
        Scores to add to those, the same for all samples.
    past : Past
        Of a continued model.
    options : BoostOptions
    settings : RoundSettings
    workers : Workers
    reduce : callable
        Adds arrays of sums over the workers of a cluster.
    """

    def __init__(
        self,
        matrix: DMatrix,
        labels: AnyArray,
        weights: Floats,
        margins: Floats,
        start: Floats,
        past: Past,
        options: BoostOptions,
        settings: RoundSettings,
        workers: Workers,
        reduce: Callable[[Floats], Floats],
    ) -> None:
        self.matrix = matrix
        self._options, self._start_bases = options, past.bases
        self._start = start
        n_classes = settings.n_classes
        schedule = options.direction_schedule(n_classes, abs(settings.seed))
        equal = np.full(n_classes, 1.0 / n_classes)
        max_leaves = min(settings.max_leaves, max(int(reduce(np.array([float(labels.size)]))[0]), 1))
        rows = ProbabilityRows(labels, weights, equal, max_leaves, workers, reduce)
        rows.set_probabilities(softmax_rows(margins.T + start))
        schedule.go_on(len(past.bases), past.directions, rows.mean_hessian)
        self._engine = XGBoostEngine(matrix, settings, max_leaves, reduce)
        self._rounds = DirectionalRounds(
            rows, weights, schedule, self._rules(settings), self._engine, guard=options.guard
        )

    def _rules(self, settings: RoundSettings) -> LeafRules:
        n_classes, rules = settings.n_classes, settings.leaf_rules
        factor = (n_classes - 1) / n_classes
        leaf_lambda = self._options.leaf_reg_lambda
        leaf_lambda = _LEAF_REG_LAMBDA if leaf_lambda is None else leaf_lambda
        return LeafRules(factor, leaf_lambda, rules.clip, rules.learning_rate)

    @property
    def scores(self) -> Floats:
        """Scores of the training samples up to a constant of each, shape (n_classes, n_samples)."""
        return np.log(self._rounds.rows.probabilities.T)

    @property
    def guarded_rounds(self) -> int:
        """Rounds whose step the guard shortened or gave up."""
        return self._rounds.guarded_rounds

    @property
    def bases(self) -> tuple[int, ...]:
        """The base class of every round: there is none."""
        return self._start_bases + (CLASSIC,) * (self._rounds.schedule.n_rounds - len(self._start_bases))

    @property
    def directions(self) -> dict[str, Any]:
        """The state of the schedule of directions."""
        return {name: values.tolist() for name, values in self._rounds.schedule.get_state().items()}

    def make(self, settings: RoundSettings, _iteration: int) -> VectorRound:
        """Do one round."""
        self._engine.settings = settings
        self._rounds.rules = self._rules(settings)
        made = self._rounds.run()
        start, self._start = self._start, np.zeros_like(self._start)
        if self._engine.grown is None:  # nothing to learn from the first round on: a tree that adds nothing
            nothing = np.zeros((1, self.matrix.num_row()))
            self._engine.grow(nothing, nothing, 0)
        assert self._engine.grown is not None
        vectors = [of_tree.astype(np.float32).astype(np.float64) for of_tree in made.vectors]
        return VectorRound(self._engine.grown, self._engine.finders, vectors, made.is_classic, start)
