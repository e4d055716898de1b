"""The native booster along directions: its trees, its model, and what a checkpoint keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.directional.leaf_vectors import ProbabilityRows, softmax_rows
from abc_plugins.core.directional.rounds import DirectionalRound, DirectionalRounds
from abc_plugins.core.directional.schedule import DirectionSchedule, default_trees_per_round
from abc_plugins.core.leaves import UNLIMITED, LeafRules
from abc_plugins.core.losses import starting_scores
from abc_plugins.core.model.ensemble import FlatTrees, TreeEnsemble, single_leaf
from abc_plugins.core.model.validation import ModelFormatError
from abc_plugins.core.rounds import CountsRounds, draw_sample
from abc_plugins.core.runtime.arrays import AnyArray, Derivatives, Floats
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import Settings
from abc_plugins.core.trees.round_grower import RoundGrower


class _NativeEngine:
    """The native grower as a `DirectionEngine`."""

    def __init__(self, grower: RoundGrower, settings: Settings, n_samples: int) -> None:
        self._grower, self._settings, self._n_samples = grower, settings, n_samples

    def root_gains(self, z: Derivatives, h: Derivatives, round_index: int) -> Floats:
        """Gains of roots, from trees that are grown no further."""
        self._grower.grow_along(z, h, self._sample(round_index), round_index, stumps=True)
        return self._grower.root_gains(len(z))

    def grow(
        self, z: Derivatives, h: Derivatives, round_index: int, in_order: Callable[[int, int], Any] | None = None
    ) -> None:
        """Grow a tree for each direction from the samples drawn for the round."""
        self._grower.grow_along(z, h, self._sample(round_index), round_index, in_order=in_order)

    def leaves(self, tree: int) -> tuple[AnyArray, int]:
        """The leaf of every sample, and the number of leaves."""
        return self._grower.number_leaves(tree)

    def _sample(self, round_index: int) -> AnyArray:
        return draw_sample(self._n_samples, self._settings.subsample, self._settings.seed, round_index)


class DirectionalBooster(CountsRounds):
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
        self._data, self._settings = data, settings
        self._grower = RoundGrower(data, settings, workers)
        start = np.exp(start_scores - start_scores.max())
        self.most_leaves = (self._grower.max_nodes + 1) // 2
        self._rounds: DirectionalRounds = DirectionalRounds(
            ProbabilityRows(data.labels, data.weights, start / start.sum(), self.most_leaves, workers),
            data.weights,
            self.schedule,
            LeafRules(
                factor=(n_classes - 1) / n_classes,
                reg_lambda=settings.leaf_reg_lambda,
                clip=UNLIMITED if settings.leaf_clip is None else settings.leaf_clip,
                learning_rate=settings.learning_rate,
                reg_alpha=settings.reg_alpha,
            ),
            _NativeEngine(self._grower, settings, data.n_samples),
            guard=settings.guard,
        )

    @property
    def directions(self) -> dict[str, Any]:
        """The state of the schedule of directions after the rounds of the model, as lists.

        Empty if it is not known: a round that was interrupted may have changed it.
        """
        if self.schedule.n_rounds != self.model.n_rounds:
            return {}
        return {name: values.tolist() for name, values in self.schedule.get_state().items()}

    def run_round(self) -> FlatTrees:
        """Add one round to the model and return its trees."""
        self._grower.orders.settle(self.model)
        trees = self._to_trees(self._rounds.run())
        self.model.append_round(trees)
        self.train_loss.append(self._rounds.loss)
        return trees

    def _to_trees(self, made: DirectionalRound) -> FlatTrees:
        """The trees of a round; single leaves of value 0 once training has converged."""
        classes: AnyArray = np.arange(self._data.n_classes, dtype=np.int32)
        classes = classes[:, None] if made.is_classic else np.tile(classes, (made.n_trees, 1))
        if not made.vectors:
            weight = float(self._data.weights.sum())
            return FlatTrees.from_rounds([[single_leaf(of_tree.tolist(), weight) for of_tree in classes]])
        vectors = made.vectors
        if made.is_classic:
            vectors = [of_tree[:, k : k + 1] for k, of_tree in enumerate(vectors)]
        return self._grower.to_trees(np.arange(made.n_trees), classes, vectors)

    def go_on_from(
        self, model: TreeEnsemble, _bases: Sequence[int], scores: Floats, directions: Mapping[str, Any]
    ) -> None:
        """Go on after the rounds of another model, whose scores for the samples, shape (n_samples, K), are these.

        With the `directions` of the booster that made it, the rounds to come are those that it would have made.
        """
        self.model = model
        self._rounds.rows.set_probabilities(softmax_rows(scores))
        self.schedule.go_on(model.n_rounds, directions, self._rounds.rows.mean_hessian)
        self._rounds.prepare()

    def get_state(self) -> dict[str, Floats]:
        """What the model does not tell of the booster."""
        return {"probabilities": self._rounds.rows.probabilities, **self.schedule.get_state()}

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
        self._rounds.rows.set_probabilities(probabilities)
        self.schedule.set_state(self.model.n_rounds, state)
        self._rounds.prepare()
