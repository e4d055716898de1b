"""The native booster of the paper's four methods: its trees, its model, and what a checkpoint keeps of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.leaves import UNLIMITED, LeafRules
from abc_plugins.core.losses import starting_scores
from abc_plugins.core.model.ensemble import FlatTrees, TreeEnsemble, single_leaf
from abc_plugins.core.model.validation import ModelFormatError
from abc_plugins.core.pair_rounds import PairRound, PairRounds, TreeRange
from abc_plugins.core.pairs import Pair
from abc_plugins.core.rounds import CountsRounds
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC, PROBE_EVERY, PROBE_PARTS, BaseClassSchedule
from abc_plugins.core.scores import PairScores
from abc_plugins.core.settings import Settings
from abc_plugins.core.trees.round_grower import RoundGrower


class NativeEngine:
    """The native grower as a `PairEngine`; leaves are numbered by their nodes."""

    hands_over_trees = True
    can_probe = True
    value_type = np.float64

    def __init__(self, grower: RoundGrower, data: TrainingData) -> None:
        self._grower, self._data = grower, data

    @property
    def n_leaves(self) -> int:
        """No tree has more nodes."""
        return self._grower.max_nodes

    def negates(self, _scores: PairScores) -> bool:
        """Negated derivatives grow the same tree."""
        return True

    def parts(self, _scores: PairScores, _n_parts: int) -> AnyArray:
        """Parts by a hash of bins, the same in all rounds."""
        return self._parts

    @cached_property
    def _parts(self) -> AnyArray:
        return self._data.parts(PROBE_PARTS)

    def grow(
        self,
        scores: PairScores,
        pairs: Sequence[Pair],
        seen: AnyArray,
        round_index: int,
        after_each: TreeRange | None = None,
        in_order: TreeRange | None = None,
    ) -> None:
        """Grow trees side by side."""
        self._grower.grow(scores.probabilities, pairs, seen, round_index, after_each=after_each, in_order=in_order)

    def leaf_ids(self, _trees: Iterable[int]) -> AnyArray:
        """The leaf nodes of the samples in all trees."""
        return self._grower.leaf_ids

    def own_values(self) -> None:
        """Leaf values are left to the round."""


class Booster(CountsRounds):
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
        self._total_weight = float(data.weights.sum())
        self._grower = RoundGrower(data, settings, workers)
        self._rounds: PairRounds = PairRounds(
            PairScores(data.labels, data.weights, start_scores, workers),
            self.schedule,
            LeafRules(
                factor=1.0,
                reg_lambda=float(settings.reg_lambda),
                clip=UNLIMITED if settings.leaf_clip is None else float(settings.leaf_clip),
                learning_rate=float(settings.learning_rate),
                reg_alpha=float(settings.reg_alpha),
            ),
            NativeEngine(self._grower, data),
            leaf_values=settings.leaf_values,
            guard=settings.guard,
            subsample=settings.subsample,
            seed=settings.seed,
        )

    @property
    def directions(self) -> dict[str, Any]:
        """The state of the schedule of directions: there is none."""
        return {}

    def run_round(self) -> FlatTrees:
        """Add one round to the model and return its trees."""
        trees = self._to_trees(self._rounds.run())
        self.model.append_round(trees)
        self.train_loss.append(self._rounds.scores.loss)
        return trees

    def _to_trees(self, made: PairRound) -> FlatTrees:
        """The trees of a round; single leaves of value 0 once training has converged."""
        if made.update is not None:
            return self._grower.to_round(made.update)
        moved = [[plus] if minus == CLASSIC else [plus, minus] for plus, minus in made.pairs]
        return FlatTrees.from_rounds([[single_leaf(classes, self._total_weight) for classes in moved]])

    def go_on_from(
        self, model: TreeEnsemble, bases: Sequence[int], scores: Floats, _directions: Mapping[str, Any]
    ) -> None:
        """Go on after the rounds of another model, whose scores for the samples, shape (n_samples, K), are these."""
        self.model = model
        self._rounds.scores.set_scores(scores.T)
        for base in bases:
            self.schedule.record(base)

    def get_state(self) -> dict[str, Floats]:
        """What the model does not tell of the booster; scores and losses are not copied."""
        probes = np.array(self.schedule.probes, dtype=np.float64).reshape(-1, 2)
        scores = self._rounds.scores
        return {"scores": scores.scores, "class_losses": scores.class_losses, "probes": probes}

    def set_state(self, bases: Sequence[int], state: Mapping[str, Floats]) -> None:
        """Go on after the rounds of `model`, which has been set, from what `get_state` returned then.

        Raises
        ------
        ModelFormatError
            If the state does not fit the data.
        """
        n_probes = state["probes"].size // 2 if "probes" in state else 0
        scores = self._rounds.scores
        shapes = {
            "scores": scores.scores.shape,
            "class_losses": scores.class_losses.shape,
            "probes": (min(n_probes, len(bases) // PROBE_EVERY), 2),
        }
        for name, shape in shapes.items():
            if name not in state or state[name].shape != shape or not np.isfinite(state[name]).all():
                raise ModelFormatError(f"{name} must be finite numbers of shape {shape}.")
        scores.set_scores(state["scores"], state["class_losses"])
        for base in bases:
            self.schedule.record(base)
        for seen, unseen in state["probes"].tolist():
            self.schedule.report_probe(seen, unseen)
