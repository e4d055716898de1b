"""Runs on LightGBM: what all have in common, and a run of pairs of classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lightgbm as lgb
import numpy as np

from abc_plugins.core.losses import update_probabilities
from abc_plugins.core.options import NO_PAST, Past
from abc_plugins.core.pair_rounds import PairRounds
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.scores import PairScores
from abc_plugins.lgbm.internals import eval_result
from abc_plugins.lgbm.lightgbm_grower import LightGBMGrower, ScoredSet, scored_sets
from abc_plugins.lgbm.metrics import Evaluated
from abc_plugins.lgbm.params import TrainingParams
from abc_plugins.lgbm.text import ModelFrame, TaggedTree, TreeText, read_model

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
    past : Past
    guarded_rounds : int
        Rounds of this run whose step the guard shortened or replaced.
    directions : dict
        The state of the schedule of directions after the last round; empty for pairs.
    """

    params: TrainingParams
    frame: ModelFrame
    initial_trees: list[TreeText]
    rounds: Sequence[Sequence[TaggedTree]]
    bases: Sequence[int]
    past: Past
    guarded_rounds: int
    directions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_initial_rounds(self) -> int:
        """Rounds that the initial model consists of."""
        return len(self.past.bases)


class Run(ABC):
    """A run that is driven round by round.

    Parameters
    ----------
    params : TrainingParams
    booster : Booster
        Made with `params.grower`, with its validation sets added; nobody else may update it.
    past : Past
        Of the initial model.

    Attributes
    ----------
    train : ScoredSet
    valid : list of ScoredSet
    initial_trees : list of TreeText
        The trees of the initial model, K an iteration.
    """

    def __init__(self, params: TrainingParams, booster: lgb.Booster, past: Past) -> None:
        self.params = params
        self.booster = booster
        self.past = past
        self.frame, self.initial_trees = read_model(lgb.Booster.model_to_string(booster, num_iteration=-1))
        self.train, *self.valid = scored_sets(booster, params.n_classes)
        self.workers = Workers(params.n_threads)

    @property
    def n_initial_rounds(self) -> int:
        """Rounds that the initial model consists of."""
        return len(self.past.bases)

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


class Trainer(Run):
    """A run of pairs of classes.

    Parameters
    ----------
    params : TrainingParams
    booster : Booster
        Made with `params.grower`, with its validation sets added; nobody else may update it.
    past : Past
        Of the initial model.

    Attributes
    ----------
    rounds : list of tuples of TaggedTree
        The trees of every round of this run; a round without any split is empty.
    state : PairRounds
    """

    def __init__(self, params: TrainingParams, booster: lgb.Booster, past: Past = NO_PAST) -> None:
        super().__init__(params, booster, past)
        self.rounds: list[tuple[TaggedTree, ...]] = []
        schedule = params.options.base_schedule(params.n_classes)
        for base in past.bases:
            schedule.record(base)
        self.grower = LightGBMGrower(params, booster, [self.train, *self.valid])
        options = params.options
        self.state = PairRounds(
            PairScores(self.train.labels, self.train.weights, self.train.tree_sums, self.workers),
            schedule,
            params.leaf_rules(booster.params),
            self.grower,
            leaf_values=options.leaf_values,
            guard=options.guard,
        )

    def model(self) -> TrainedModel:
        """Return all that the rounds so far have made."""
        return TrainedModel(
            self.params,
            self.frame,
            self.initial_trees,
            self.rounds,
            self.state.schedule.bases,
            self.past,
            self.state.guarded_rounds,
        )

    @property
    def n_rounds(self) -> int:
        """Rounds done, those of the initial model included."""
        return self.n_initial_rounds + len(self.rounds)

    def boost_round(self) -> None:
        """Do one round."""
        self.state.rules = self.params.leaf_rules(self.booster.params)  # callbacks may have changed them
        made = self.state.run()
        for number in range(1, len(self.grower.sets)):
            self.grower.add_to(number, made)
        self.rounds.append(tuple(self.grower.tagged_trees(made)))

    def evaluated(self, data: ScoredSet) -> Evaluated:
        """Scores and probabilities of a data set as they are now."""
        if data is self.train:
            return Evaluated(self.scores(data), self.state.scores.probabilities, data.labels, data.weights)
        probabilities = np.empty_like(data.scores)
        weights = np.ones(data.labels.size) if data.weights is None else data.weights
        update_probabilities(data.scores, data.labels, weights, probabilities, self.workers)
        return Evaluated(data.scores, probabilities, data.labels, data.weights)

    def scores(self, data: ScoredSet) -> Floats:
        """Scores of a data set as they are now, shape (n_classes, n_samples)."""
        return self.state.scores.scores if data is self.train else data.scores
