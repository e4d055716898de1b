"""The round loop of the directional method: directions, derivatives, trees, leaf vectors.

Every tree is grown along a direction v of class space, from the scalar derivatives along it,

    z_i = v[y_i] - sum_k p_ik v_k,        h_i = sum_k p_ik v_k**2 - (sum_k p_ik v_k)**2,

and then gets a vector of K values in every leaf. The trees of a round are grown side by side from the same
probabilities; their leaf vectors are set one tree after the other, each from the probabilities that the trees before
it left.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.directional.leaf_vectors import ALL_CLASSES, LEAST_PROBABILITY, ProbabilityRows, VectorRules
from abc_plugins.core.directional.schedule import DirectionPlan, DirectionSchedule, default_trees_per_round
from abc_plugins.core.leaves import UNLIMITED
from abc_plugins.core.losses import LEAST_DERIVATIVE, starting_scores
from abc_plugins.core.model.ensemble import FlatTrees, TreeEnsemble, single_leaf
from abc_plugins.core.model.validation import ModelFormatError
from abc_plugins.core.rounds import CONVERGED_MESSAGE, GUARD_MESSAGE, MAX_HALVINGS, draw_sample
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import Settings
from abc_plugins.core.trees.round_grower import RoundGrower

_logger = logging.getLogger("abc_plugins")


class DirectionalBooster:
    """Boosts round by round; the caller decides when to stop.

    Parameters
    ----------
    data : TrainingData
    settings : Settings
    workers : Workers

    Attributes
    ----------
    model : TreeEnsemble
    schedule : DirectionSchedule
    train_loss : list of float
        Total weighted log loss of the training data after each round.
    trees_grown : int
        Trees grown so far; candidates of a search, which are grown no further than their root, are not counted.
    guarded_rounds : int
        Rounds whose step the guard has shortened or replaced.
    most_leaves : int
        No tree has more leaves; all of them move all classes.
    """

    def __init__(self, data: TrainingData, settings: Settings, workers: Workers) -> None:
        n_classes = data.n_classes
        self.schedule = DirectionSchedule(
            n_classes,
            trees_per_round=settings.trees_per_round or default_trees_per_round(data.n_samples, n_classes),
            search=settings.search,
            gap=settings.gap,
            warmup=settings.warmup,
            seed=settings.seed,
        )
        start_scores = starting_scores(
            data.labels, data.weights, n_classes, settings.start_scores, settings.min_samples_leaf
        )
        self.model = TreeEnsemble(n_classes, data.n_features, start_scores)
        self.train_loss: list[float] = []
        self.trees_grown = 0
        self.guarded_rounds = 0
        self._data, self._settings, self._workers = data, settings, workers
        self._grower = RoundGrower(data, settings, workers)
        start = np.exp(start_scores - start_scores.max())
        self.most_leaves = (self._grower.max_nodes + 1) // 2
        self._rows = ProbabilityRows(data.labels, data.weights, start / start.sum(), self.most_leaves, workers)
        self._rules = VectorRules(
            factor=(n_classes - 1) / n_classes,
            reg_lambda=settings.leaf_reg_lambda,
            clip=UNLIMITED if settings.leaf_clip is None else settings.leaf_clip,
            learning_rate=settings.learning_rate,
            reg_alpha=settings.reg_alpha,
        )
        self._converged_loss = LEAST_DERIVATIVE * n_classes * float(data.weights.sum())
        self._has_converged = False
        self._z = self._h = np.empty((0, data.n_samples))
        self._prepare()

    def _prepare(self) -> None:
        """Plan the next round; derive along its directions, which tells the loss so far, too."""
        if self.schedule.wants_hessian:
            self.schedule.set_hessian(self._rows.mean_hessian())
        self._plan = self.schedule.plan()
        directions = self._plan.candidates.reshape(-1, self._data.n_classes)
        if self._z.shape[0] != directions.shape[0]:
            self._z = np.empty((directions.shape[0], self._data.n_samples))
            self._h = np.empty_like(self._z)
        self._loss = self._rows.derive(directions, self._z, self._h)

    def run_round(self) -> FlatTrees:
        """Add one round to the model and return its trees."""
        loss_before = self._loss
        if loss_before <= self._converged_loss:
            self.schedule.record(self._plan.candidates[0])
            trees = self._add_nothing(self._plan)
            self._prepare()
        else:
            trees = self._boost(self._plan, loss_before)
        self.model.append_round(trees)
        self.train_loss.append(self._loss)
        return trees

    def _boost(self, plan: DirectionPlan, loss_before: float) -> FlatTrees:
        settings, n_rounds = self._settings, self.model.n_rounds
        self._grower.orders.settle(self.model)
        sample = draw_sample(self._data.n_samples, settings.subsample, settings.seed, n_rounds)
        directions = self._choose_directions(plan, sample)
        vectors = self._grow(plan, sample)
        self.trees_grown += len(vectors)
        self.schedule.record(directions)
        self._prepare()
        vectors = self._guard(vectors, loss_before)
        if plan.is_classic:
            classes = [[k] for k in range(len(vectors))]
            vectors = [of_tree[:, k : k + 1] for k, of_tree in enumerate(vectors)]
        else:
            classes = [list(range(self._data.n_classes))] * len(vectors)
        return self._grower.to_trees(np.arange(len(vectors)), classes, vectors)

    def _choose_directions(self, plan: DirectionPlan, sample: AnyArray) -> Floats:
        """The directions of the round, by the gains of the roots along the candidates; keeps their derivatives only."""
        n_candidates, n_trees, n_classes = plan.candidates.shape
        if n_candidates == 1:
            return plan.candidates[0]
        self._grower.grow_along(self._z, self._h, sample, self.model.n_rounds, stumps=True)
        best = self.schedule.choose(self._grower.root_gains(n_candidates * n_trees).reshape(n_candidates, n_trees))
        chosen = best * n_trees + np.arange(n_trees)
        self._z, self._h = self._z[chosen], self._h[chosen]
        return plan.candidates.reshape(-1, n_classes)[chosen]

    def _grow(self, plan: DirectionPlan, sample: AnyArray) -> list[Floats]:
        """Grow the trees of a round from the samples in `sample`, and set their leaf vectors from all samples."""
        n_trees = plan.candidates.shape[1]
        vectors: list[Floats] = []

        def set_vectors(first: int, last: int) -> None:
            for t in range(first, last):
                leaves, n_leaves = self._grower.number_leaves(t)
                only = t if plan.is_classic else ALL_CLASSES
                vectors.append(
                    self._rows.set_leaf_vectors(leaves, n_leaves, self._data.weights, self._rules, only, alone=alone)
                )

        # One thread sets leaf vectors while the others grow the next trees, unless all are needed for it.
        alone = self._rows.is_for_one_thread
        self._grower.grow_along(self._z, self._h, sample, self.model.n_rounds, in_order=set_vectors if alone else None)
        if not alone:
            set_vectors(0, n_trees)
        return vectors

    def _guard(self, vectors: list[Floats], loss_before: float) -> list[Floats]:
        """Halve the step of a round that has raised the training loss, and give it up if that does not help.

        Returns
        -------
        vectors : list of arrays
            What the trees of the round have added in the end.
        """
        if not self._settings.guard or self._loss <= loss_before:
            return vectors
        self._count_guarded_round()
        for halving in range(MAX_HALVINGS + 1):
            kept = 0.5 if halving < MAX_HALVINGS else 0.0
            for t, of_tree in enumerate(vectors):
                self._rows.move_by(self._grower.leaf_ids[t], (kept - 1.0) * of_tree)
            vectors = [kept * of_tree for of_tree in vectors]
            self._prepare()
            if self._loss <= loss_before:
                break
        return vectors

    def _count_guarded_round(self) -> None:
        if self.guarded_rounds == 0:
            _logger.info(GUARD_MESSAGE, self.model.n_rounds + 1)
        self.guarded_rounds += 1

    def _add_nothing(self, plan: DirectionPlan) -> FlatTrees:
        """Trees of a single leaf of value 0, now that no training sample has anything to gain."""
        if not self._has_converged:
            _logger.info(CONVERGED_MESSAGE, self.model.n_rounds)
        self._has_converged = True
        n_trees, n_classes = plan.candidates.shape[1:]
        weight = float(self._data.weights.sum())
        leaves = [single_leaf([k] if plan.is_classic else range(n_classes), weight) for k in range(n_trees)]
        return FlatTrees.from_rounds([leaves])

    def go_on_from(self, model: TreeEnsemble, _bases: Sequence[int], scores: Floats) -> None:
        """Go on after the rounds of another model, whose scores for the samples, shape (n_samples, K), are these."""
        self.model = model
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        self._rows.set_probabilities(np.maximum(probabilities, LEAST_PROBABILITY))
        self.schedule.skip(model.n_rounds)
        self.schedule.set_hessian(self._rows.mean_hessian())
        self._prepare()

    def get_state(self) -> dict[str, Floats]:
        """What the model does not tell of the booster."""
        return {"probabilities": self._rows.probabilities, **self.schedule.get_state()}

    def set_state(self, _bases: Sequence[int], state: Mapping[str, Floats]) -> None:
        """Go on after the rounds of `model`, which has been set, from what `get_state` returned then.

        Raises
        ------
        ModelFormatError
            If the state does not fit the data.
        """
        shape = (self._data.n_samples, self._data.n_classes)
        probabilities = state.get("probabilities")
        if probabilities is None or probabilities.shape != shape or not (probabilities > 0.0).all():
            raise ModelFormatError(f"probabilities must be positive numbers of shape {shape}.")
        if not (probabilities.sum(axis=1) < 1.0 + 1e-6).all():
            raise ModelFormatError("probabilities must not sum to more than 1.")
        self._rows.set_probabilities(probabilities)
        self.schedule.set_state(self.model.n_rounds, state)
        self._prepare()
