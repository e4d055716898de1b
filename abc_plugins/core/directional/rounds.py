"""One round along directions, whoever grows its trees: plan, grow, leaf vectors, guard, record.

Every tree is grown along a direction v of class space, from the scalar derivatives along it,

    z_i = v[y_i] - sum_k p_ik v_k,        h_i = sum_k p_ik v_k**2 - (sum_k p_ik v_k)**2,

and then gets a vector of K values in every leaf. The trees of a round are grown side by side from the same
probabilities; their leaf vectors are set one tree after the other, each from the probabilities that the trees before
it left.

What grows the trees is a `DirectionEngine`: the native grower, LightGBM, XGBoost, or anything else that turns scalar
derivatives into a tree and can tell the leaf of every sample.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from abc_plugins.core.directional.leaf_vectors import ALL_CLASSES, ProbabilityRows
from abc_plugins.core.directional.schedule import DirectionPlan, DirectionSchedule
from abc_plugins.core.leaves import LeafRules
from abc_plugins.core.losses import LEAST_DERIVATIVE
from abc_plugins.core.rounds import CONVERGED_MESSAGE, GUARD_MESSAGE, MAX_HALVINGS
from abc_plugins.core.runtime.arrays import DERIVATIVE, AnyArray, Derivatives, Floats

_logger = logging.getLogger("abc_plugins")


class DirectionEngine(Protocol):
    """Grows trees from derivatives along directions; the trees stay valid until the next ones are grown."""

    def root_gains(self, z: Derivatives, h: Derivatives, round_index: int) -> Floats:
        """How much the split of the root would gain along each direction, shape (n_directions,)."""

    def grow(
        self, z: Derivatives, h: Derivatives, round_index: int, in_order: Callable[[int, int], Any] | None = None
    ) -> None:
        """Grow one tree for each row of `z` and `h`, shape (n_trees, n_samples).

        With `in_order`, call `in_order(first, last)` for the trees first..last - 1 once they are grown, all of them
        in their order.
        """

    def leaves(self, tree: int) -> tuple[AnyArray, int]:
        """The leaf of every sample in a tree, from 0 on, array of uint16; and the number of leaves. Asked once."""


@dataclass(frozen=True)
class DirectionalRound:
    """What a round adds.

    Attributes
    ----------
    vectors : list of arrays of shape (n_leaves, n_classes)
        Leaf vectors of the trees that the engine has grown, shrinkage included. Empty once training has
        converged: then nothing is grown.
    is_classic : bool
        Tree k changes class k alone.
    n_trees : int
        Trees of the round, grown or not.
    """

    vectors: list[Floats]
    is_classic: bool
    n_trees: int


class DirectionalRounds:
    """Boosts round by round.

    Parameters
    ----------
    rows : ProbabilityRows
    weights : array of shape (n_samples,)
    schedule : DirectionSchedule
    rules : LeafRules
    engine : DirectionEngine
    guard : bool
        Halve the step of a round that raises the training loss, and give it up if that does not help.

    Attributes
    ----------
    loss : float
        Total weighted log loss of the training data.
    rules : LeafRules
        May be exchanged between rounds.
    trees_grown : int
        Candidates of a search, which are grown no further than their root, are not counted.
    guarded_rounds : int
        Rounds whose step the guard has shortened or given up.
    """

    def __init__(
        self,
        rows: ProbabilityRows,
        weights: Floats,
        schedule: DirectionSchedule,
        rules: LeafRules,
        engine: DirectionEngine,
        *,
        guard: bool,
    ) -> None:
        self.rows, self.schedule, self.rules = rows, schedule, rules
        self.trees_grown = 0
        self.guarded_rounds = 0
        self._weights, self._engine, self._guards = weights, engine, guard
        # Rounding of the sum: samples of a weight that is lost in it are not waited for.
        total_weight = float(rows.reduce(np.array([weights.sum()]))[0])
        self._converged_loss = LEAST_DERIVATIVE * schedule.n_classes * total_weight
        self._has_converged = False
        self._z = self._h = np.empty((0, weights.size), dtype=DERIVATIVE)
        self.prepare()

    def prepare(self) -> None:
        """Plan the next round; derive along its directions, which tells the loss so far, too."""
        if self.schedule.wants_hessian:
            self.schedule.set_hessian(self.rows.mean_hessian())
        self._plan = self.schedule.plan()
        directions = self._plan.candidates.reshape(-1, self.schedule.n_classes)
        if self._z.shape[0] != directions.shape[0]:
            self._z = np.empty((directions.shape[0], self._weights.size), dtype=DERIVATIVE)
            self._h = np.empty_like(self._z)
        self.loss = self.rows.derive(directions, self._z, self._h)

    def run(self) -> DirectionalRound:
        """Do one round."""
        plan, loss_before = self._plan, self.loss
        n_trees = plan.candidates.shape[1]
        if loss_before <= self._converged_loss:
            if not self._has_converged:
                _logger.info(CONVERGED_MESSAGE, self.schedule.n_rounds)
            self._has_converged = True
            self.schedule.record(plan.candidates[0])
            self.prepare()
            return DirectionalRound([], plan.is_classic, n_trees)
        directions = self._choose_directions(plan)
        vectors, leaves = self._grow(plan)
        self.trees_grown += n_trees
        self.schedule.record(directions)
        self.prepare()
        return DirectionalRound(self._guard(vectors, leaves, loss_before), plan.is_classic, n_trees)

    def _choose_directions(self, plan: DirectionPlan) -> Floats:
        """The directions of the round, by the gains of the roots along the candidates; keeps their derivatives only."""
        n_candidates, n_trees, n_classes = plan.candidates.shape
        if n_candidates == 1:
            return plan.candidates[0]
        gains = self._engine.root_gains(self._z, self._h, self.schedule.n_rounds)
        best = self.schedule.choose(gains.reshape(n_candidates, n_trees))
        chosen = best * n_trees + np.arange(n_trees)
        self._z, self._h = self._z[chosen], self._h[chosen]
        return plan.candidates.reshape(-1, n_classes)[chosen]

    def _grow(self, plan: DirectionPlan) -> tuple[list[Floats], list[AnyArray]]:
        """Grow the trees of a round, and set their leaf vectors from all samples; the leaves of every sample, too."""
        n_trees = plan.candidates.shape[1]
        vectors: list[Floats] = []
        leaves: list[AnyArray] = []

        def set_vectors(first: int, last: int) -> None:
            for t in range(first, last):
                of_tree, n_leaves = self._engine.leaves(t)
                only = t if plan.is_classic else ALL_CLASSES
                leaves.append(of_tree)
                vectors.append(
                    self.rows.set_leaf_vectors(of_tree, n_leaves, self._weights, self.rules, only, alone=alone)
                )

        # One thread sets leaf vectors while the others grow the next trees, unless all are needed for it.
        alone = self.rows.is_for_one_thread
        self._engine.grow(self._z, self._h, self.schedule.n_rounds, set_vectors if alone else None)
        if not alone:
            set_vectors(0, n_trees)
        return vectors, leaves

    def _guard(self, vectors: list[Floats], leaves: list[AnyArray], loss_before: float) -> list[Floats]:
        """Halve the step of a round that has raised the training loss, and give it up if that does not help.

        Returns
        -------
        vectors : list of arrays
            What the trees of the round have added in the end.
        """
        if not self._guards or self.loss <= loss_before:
            return vectors
        if self.guarded_rounds == 0:
            _logger.info(GUARD_MESSAGE, self.schedule.n_rounds)
        self.guarded_rounds += 1
        for halving in range(MAX_HALVINGS + 1):
            kept = 0.5 if halving < MAX_HALVINGS else 0.0
            for of_samples, of_tree in zip(leaves, vectors, strict=True):
                self.rows.move_by(of_samples, (kept - 1.0) * of_tree)
            vectors = [kept * of_tree for of_tree in vectors]
            self.prepare()
            if self.loss <= loss_before:
                break
        return vectors
