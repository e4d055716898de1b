"""Directional trees on LightGBM: it grows their structure, the leaf vectors are ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import lightgbm as lgb
import numpy as np

from abc_plugins.core.additions import LeafFinder, take_difference
from abc_plugins.core.directional.leaf_vectors import ProbabilityRows, softmax_rows
from abc_plugins.core.directional.rounds import DirectionalRounds
from abc_plugins.core.leaves import LeafRules
from abc_plugins.core.losses import scores_of_masses
from abc_plugins.core.options import NO_PAST, Past
from abc_plugins.core.runtime.arrays import AnyArray, Derivatives, Floats
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.lgbm.internals import (
    get_predictor,
    keep_objective_none,
    name_predictor,
    restore_params,
    training_name,
    update_params,
)
from abc_plugins.lgbm.lightgbm_grower import ScoredSet, tree_sums
from abc_plugins.lgbm.metrics import Evaluated
from abc_plugins.lgbm.params import DEFAULT_LEAVES, TrainingParams, main_names
from abc_plugins.lgbm.text import NO_TREE, TaggedTree, TreeText, field, is_stump, leaf_values, read_model
from abc_plugins.lgbm.text import with_leaf_vectors as copies_of
from abc_plugins.lgbm.trainer import Run, TrainedModel

_LEAF_REG_LAMBDA = 0.1
"""As of the native booster; 1 is better on some data and worse on as many."""


class LightGBMEngine:
    """Grows trees along directions in a private booster on the user's Datasets; a `DirectionEngine`.

    Parameters
    ----------
    params : TrainingParams
    booster : Booster
        The run's own, which has the training set and the validation sets.
    n_outputs : int
        Trees that are grown at a time.
    max_leaves : int
        No tree may have more leaves.
    workers : Workers
    """

    def __init__(
        self, params: TrainingParams, booster: lgb.Booster, n_outputs: int, max_leaves: int, workers: Workers
    ) -> None:
        self._n_outputs, self._max_leaves, self._workers = n_outputs, max_leaves, workers
        self._booster = _private_booster(params, booster, n_outputs)
        self._rate = float(self._booster.params["learning_rate"])
        self._sums = [np.array(sums) for sums in self._tree_sums()]
        self._gradients, self._hessians = np.empty((2, self._sums[0].shape[1], n_outputs), dtype=np.float32)
        self._additions: list[list[Floats]] = []
        self.texts: list[TreeText] = []
        self.finders: list[LeafFinder] = []

    def change(self, params: dict[str, Any]) -> None:
        """Change parameters of growth."""
        self._booster.reset_parameter(params)

    def root_gains(self, z: Derivatives, h: Derivatives, round_index: int) -> Floats:
        """Gains of roots; LightGBM cannot grow stumps in between, so that whole trees are grown for them."""
        self.grow(z, h, round_index)
        gains = [field(text, "split_gain").split(" ", 1)[0] for text in self.texts]
        return np.array([float(gain or 0.0) for gain in gains])

    def grow(
        self, z: Derivatives, h: Derivatives, _round_index: int, in_order: Callable[[int, int], Any] | None = None
    ) -> None:
        """Grow a tree for each direction."""
        self.texts, self.finders, self._additions = [], [], []
        for first in range(0, len(z), self._n_outputs):
            rows = slice(first, first + self._n_outputs)
            n_rows = len(z[rows])
            self._gradients[:, n_rows:] = self._hessians[:, n_rows:] = 0.0
            np.negative(z[rows].T, out=self._gradients[:, :n_rows], casting="same_kind")
            self._hessians[:, :n_rows] = h[rows].T
            self._grow_chunk(n_rows)
        if in_order is not None:
            in_order(0, len(z))

    def _grow_chunk(self, n_rows: int) -> None:
        gradients, hessians = self._gradients, self._hessians
        if self._n_outputs == 1:
            gradients, hessians = gradients[:, 0], hessians[:, 0]
        stalled = self._booster.update(fobj=lambda _sums, _data: (gradients, hessians))
        texts = [NO_TREE] * n_rows
        if not stalled:
            iteration = self._booster.num_trees() // self._n_outputs - 1
            text = self._booster.model_to_string(num_iteration=1, start_iteration=iteration)
            texts = read_model(text)[1][:n_rows]
        self.texts += texts
        # Divided by the rate, leaves are told apart as well as at a rate of 1.
        self.finders += [
            LeafFinder(np.zeros(1) if is_stump(text) else leaf_values(text) / self._rate) for text in texts
        ]
        additions = []
        for sums, before in zip(self._tree_sums(), self._sums, strict=True):
            added = np.empty_like(before)
            take_difference(sums, before, added, self._workers)
            if self._rate != 1.0:
                added /= self._rate
            additions.append(added)
        self._additions += [[added[t] for added in additions] for t in range(n_rows)]

    def _tree_sums(self) -> list[Floats]:
        return [sums.reshape(self._n_outputs, -1) for sums in tree_sums(self._booster)]

    def leaves(self, tree: int) -> tuple[AnyArray, int]:
        """The leaf of every training sample, and the number of leaves; leaves of the same value are one."""
        n_leaves = 1 + int(self.finders[tree].group.max())
        if n_leaves > self._max_leaves:
            fail("num_leaves", n_leaves, f"at most {self._max_leaves}, as at the start of the training")
        return self.leaves_of(0, tree), n_leaves

    def leaves_of(self, data: int, tree: int) -> AnyArray:
        """The leaf of every sample of a data set: 0 is the training set, validation sets follow."""
        added = self._additions[tree][data]
        leaves = np.zeros(added.size, dtype=np.uint16)
        if not is_stump(self.texts[tree]):
            self.finders[tree].find(added, leaves)
        return leaves


def _private_booster(params: TrainingParams, booster: lgb.Booster, n_outputs: int) -> lgb.Booster:
    """Make the booster that grows the trees; its scores start at 0, whatever those of the Datasets start at."""
    train_set, valid_sets = booster.train_set, list(zip(booster.valid_sets, booster.name_valid_sets, strict=True))
    grower = params.directional_grower(n_outputs, main_names(train_set.params))
    return _booster_of(grower, train_set, valid_sets, training_name(booster))


def _booster_of(
    grower: dict[str, Any], train_set: lgb.Dataset, valid_sets: list[tuple[lgb.Dataset, str]], name: str
) -> lgb.Booster:
    data_sets = [train_set, *(data for data, _ in valid_sets)]
    with _without_scores(data_sets):
        try:
            for data in data_sets:
                update_params(data, grower)
            booster = lgb.Booster(params=grower, train_set=train_set)
            booster.set_train_data_name(name)
            for data, valid_name in valid_sets:
                booster.add_valid(data, valid_name)
        finally:
            for data in data_sets:
                restore_params(data)
    keep_objective_none(booster)
    booster.train_set_version = train_set.version  # with its scores back, the Dataset counts as changed
    return booster


@contextmanager
def _without_scores(data_sets: Sequence[lgb.Dataset]) -> Iterator[None]:
    """Take what the scores of Datasets start at, which has a column per class, off while a booster is made."""
    kept = [(data, data.get_field("init_score"), get_predictor(data)) for data in data_sets]
    for data, scores, _ in kept:
        name_predictor(data, None)
        if scores is not None:
            data.set_field("init_score", None)
    try:
        yield
    finally:
        for data, scores, predictor in kept:
            name_predictor(data, predictor)
            if scores is not None:
                data.set_field("init_score", scores)


class VectorTrees:
    """The trees of one round with their leaf vectors."""

    def __init__(self, texts: list[TreeText], vectors: list[Floats], is_classic: bool, start: Floats) -> None:
        self._texts, self._vectors, self._is_classic, self._start = texts, vectors, is_classic, start

    @cached_property
    def tagged(self) -> tuple[TaggedTree, ...]:
        """Every tree once for each class that it changes; scores before the first round go with the first ones."""
        trees: list[TaggedTree] = []
        for t, (text, vectors) in enumerate(zip(self._texts, self._vectors, strict=True)):
            if self._is_classic:
                (copy,) = copies_of(text, vectors[:, t : t + 1] + self._start[t])
                trees.append(TaggedTree(t, CLASSIC, copy))
            else:
                start = self._start if t == 0 else 0.0
                copies = copies_of(text, vectors + start)
                trees += [TaggedTree(k, CLASSIC, copy, is_copy=k > 0) for k, copy in enumerate(copies)]
        return tuple(trees)


class DirectionalRun(Run):
    """A run of directional trees.

    Parameters
    ----------
    params : TrainingParams
    booster : Booster
        Made with `params.grower`, with its validation sets added. It holds the data and what callbacks change; trees
        are grown in a private one.
    past : Past
        Of the initial model.
    """

    def __init__(self, params: TrainingParams, booster: lgb.Booster, past: Past = NO_PAST) -> None:
        super().__init__(params, booster, past)
        n_classes, train = params.n_classes, self.train
        self._rounds: list[VectorTrees] = []
        self._weights = np.ones(train.labels.size) if train.weights is None else train.weights
        schedule = params.options.direction_schedule(n_classes, params.seed)
        max_leaves = int(params.given.get("num_leaves", DEFAULT_LEAVES))
        self._start = self._starting_scores()
        for data in (train, *self.valid):
            data.scores += self._start[:, None]
        equal = np.full(n_classes, 1.0 / n_classes)
        rows = ProbabilityRows(train.labels, self._weights, equal, max_leaves, self.workers)
        rows.set_probabilities(softmax_rows(train.scores.T))
        schedule.go_on(self.n_initial_rounds, past.directions, rows.mean_hessian)
        self._engine = LightGBMEngine(params, booster, schedule.trees_per_round, max_leaves, self.workers)
        self._parameters = dict(booster.params)
        self._state = DirectionalRounds(
            rows, self._weights, schedule, self._rules(), self._engine, guard=params.options.guard
        )

    def _starting_scores(self) -> Floats:
        """Logarithms of the class frequencies, unless scores start elsewhere."""
        n_classes = self.params.n_classes
        starts_elsewhere = self.past.bases or self.train.data.get_field("init_score") is not None
        if starts_elsewhere or not self.params.starts_from_priors:
            return np.zeros(n_classes)
        masses = np.bincount(self.train.labels, weights=self._weights, minlength=n_classes).astype(np.float64)
        return scores_of_masses(masses, 1.0)

    def _rules(self) -> LeafRules:
        n_classes, rules = self.params.n_classes, self.params.leaf_rules(self.booster.params)
        leaf_lambda = self.params.options.leaf_reg_lambda
        leaf_lambda = _LEAF_REG_LAMBDA if leaf_lambda is None else leaf_lambda
        return LeafRules((n_classes - 1) / n_classes, leaf_lambda, rules.clip, rules.learning_rate)

    @property
    def n_rounds(self) -> int:
        """Rounds done, those of the initial model included."""
        return self.n_initial_rounds + len(self._rounds)

    def boost_round(self) -> None:
        """Do one round."""
        self._follow_parameters()
        made = self._state.run()
        start, self._start = self._start, np.zeros_like(self._start)
        texts, vectors = self._engine.texts, made.vectors
        if not vectors:  # the loss is gone
            texts, vectors = [NO_TREE], [np.zeros((1, start.size))]
        by_leaf = [of_tree[finder.group] for of_tree, finder in zip(vectors, self._engine.finders, strict=False)]
        self._rounds.append(VectorTrees(texts, by_leaf if made.vectors else vectors, made.is_classic, start))
        for number, data in enumerate(self.valid, start=1):
            for t, of_tree in enumerate(made.vectors):
                data.scores += of_tree[self._engine.leaves_of(number, t)].T

    def _follow_parameters(self) -> None:
        """Take over what callbacks have changed since the round before."""
        now = dict(self.booster.params)
        changed = {name: value for name, value in now.items() if self._parameters.get(name) != value}
        if changed:
            self._parameters = now
            self._state.rules = self._rules()
            growth = {name: value for name, value in changed.items() if name in self.params.growth_names(changed)}
            if growth:
                self._engine.change(growth)

    def model(self) -> TrainedModel:
        """Return all that the rounds so far have made."""
        return TrainedModel(
            self.params,
            self.frame,
            self.initial_trees,
            [trees.tagged for trees in self._rounds],
            self.past.bases + (CLASSIC,) * len(self._rounds),
            self.past,
            self._state.guarded_rounds,
            {name: values.tolist() for name, values in self._state.schedule.get_state().items()},
        )

    def evaluated(self, data: ScoredSet) -> Evaluated:
        """Scores and probabilities of a data set as they are now."""
        scores = self.scores(data)
        return Evaluated(scores, np.ascontiguousarray(softmax_rows(scores.T).T), data.labels, data.weights)

    def scores(self, data: ScoredSet) -> Floats:
        """Scores of a data set, those of the training set up to a constant of each sample."""
        return np.log(self._state.rows.probabilities.T) if data is self.train else data.scores
