"""Growing trees in LightGBM from gradients of our own, and reading back what they add to the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import lightgbm as lgb
import numpy as np

from abc_plugins.core.additions import LeafFinder, take_difference
from abc_plugins.core.driver import ABCScores
from abc_plugins.core.pairs import Pair, classic_pairs, distinct_pairs
from abc_plugins.core.runtime.arrays import Floats, Integers
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.schedule import RoundPlan
from abc_plugins.lgbm.internals import aliases, training_name
from abc_plugins.lgbm.params import TrainingParams
from abc_plugins.lgbm.text import TreeText, is_stump, leaf_values, read_model


@dataclass
class ScoredSet:
    """A data set and its scores.

    Attributes
    ----------
    name : str
    data : Dataset
    labels : array of int32, shape (n_samples,)
    weights : array of float64, shape (n_samples,), or None
    scores : array of shape (n_classes, n_samples)
        F; for the training set they live in `Trainer.state`.
    tree_sums : array of shape (n_classes, n_samples)
        LightGBM's own sums of the trees in each slot, as last seen.
    """

    name: str
    data: lgb.Dataset
    labels: Integers
    weights: Floats | None
    scores: Floats
    tree_sums: Floats


@dataclass
class Grown:
    """Trees that LightGBM grew for one round, losers of a search included; valid until the next ones are grown.

    Attributes
    ----------
    slots : list of (plus, minus) or None
        One per tree; None for a slot without gradients, whose tree is a single leaf of 0.
    iterations : list of int
        Iteration of the booster for every K slots; -1 if none of them found a split.
    additions : array of shape (n_slots, n_samples)
        What each tree adds to the training scores.
    valid_additions : list of arrays of shape (n_slots, n_valid)
    booster : Booster
    """

    slots: list[Pair | None]
    iterations: list[int]
    additions: Floats
    valid_additions: list[Floats]
    booster: lgb.Booster
    _texts: dict[int, list[TreeText]] = field(default_factory=dict)
    _finders: dict[int, LeafFinder] = field(default_factory=dict)

    @property
    def stalled(self) -> bool:
        """Whether no tree found a split."""
        return all(iteration < 0 for iteration in self.iterations)

    def is_stump(self, row: int) -> bool:
        """Whether the tree found no split."""
        return self.iterations[self._place(row)[0]] < 0 or is_stump(self.text(row))

    def text(self, row: int) -> TreeText:
        """Read a tree out of the booster; all of its iteration are read at once and kept."""
        chunk, slot = self._place(row)
        if chunk not in self._texts:
            iteration = self.iterations[chunk]
            text = lgb.Booster.model_to_string(self.booster, num_iteration=1, start_iteration=iteration)
            self._texts[chunk] = read_model(text)[1]
        return self._texts[chunk][slot]

    def finder(self, row: int) -> LeafFinder:
        """Tell the leaves of a tree apart by their values."""
        if row not in self._finders:
            self._finders[row] = LeafFinder(leaf_values(self.text(row)))
        return self._finders[row]

    def _place(self, row: int) -> tuple[int, int]:
        return divmod(row, len(self.slots) // len(self.iterations))


class LightGBMGrower:
    """Grows trees for pairs of classes in one booster.

    Parameters
    ----------
    params : TrainingParams
    booster : Booster
        Made with `params.grower`, with its validation sets added; nobody else may update it.
    sets : sequence of ScoredSet, optional
        What `scored_sets` has returned for the booster.
    """

    def __init__(self, params: TrainingParams, booster: lgb.Booster, sets: Sequence[ScoredSet] = ()) -> None:
        self.params = params
        self.booster = booster
        self.sets = sets or scored_sets(booster, params.n_classes)
        self._has_categories = _has_categories(booster.train_set)
        self._gradients = np.empty((params.n_classes, self.sets[0].labels.size), dtype=np.float32)
        self._hessians = np.empty_like(self._gradients)
        self._spare: list[Floats] | None = None

    def slots(self, plan: RoundPlan, state: ABCScores) -> list[Pair | None]:
        """List the trees of a planned round; with one base, its own slot has none."""
        n_classes = self.params.n_classes
        if plan.is_classic:
            return list(classic_pairs(n_classes))
        if len(plan.candidates) == 1:
            (base,) = plan.candidates
            return [None if k == base else (k, base) for k in range(n_classes)]
        return list(distinct_pairs(plan, n_classes, shared=self._is_antisymmetric(state)))

    def _work_space(self, n_slots: int) -> list[Floats]:
        """Arrays for what the trees add to every data set. They are kept: the first touch of new memory is slow."""
        if self._spare is None or self._spare[0].shape[0] < n_slots:
            self._spare = [np.empty((n_slots, data.labels.size)) for data in self.sets]
        return [array[:n_slots] for array in self._spare]

    def _is_antisymmetric(self, state: ABCScores) -> bool:
        """Whether LightGBM grows the negated tree from negated gradients.

        It sorts categories by gradient / (hessian + cat_smooth), and the order of ties does not turn round with the
        sign. Categories tie where nothing smooths them, and where all scores are still equal.
        """
        return not self._has_categories or (
            float(self.params.given.get("cat_smooth", 10.0)) > 0.0 and bool(state.scores.any())
        )

    def grow(self, slots: Sequence[Pair | None], state: ABCScores) -> Grown:
        """Grow K trees at a time: a slot's tree depends on its gradients alone, whichever class they are for."""
        n_classes = self.params.n_classes
        slots = [*slots] + [None] * (-len(slots) % n_classes)
        additions = self._work_space(len(slots))
        iterations = []
        for begin in range(0, len(slots), n_classes):
            chunk = slice(begin, begin + n_classes)
            state.gradients(slots[chunk], self._gradients, self._hessians)
            stalled = self.booster.update(fobj=lambda _sums, _data: (self._gradients.T, self._hessians.T))
            iterations.append(-1 if stalled else lgb.Booster.num_trees(self.booster) // n_classes - 1)
            for data, added, sums in zip(self.sets, additions, tree_sums(self.booster), strict=True):
                take_difference(sums, data.tree_sums, added[chunk], state.workers)
        return Grown(slots, iterations, additions[0], additions[1:], self.booster)


def scored_sets(booster: lgb.Booster, n_classes: int) -> list[ScoredSet]:
    """The training set and the validation sets of a booster, with its scores."""
    sets = [booster.train_set, *booster.valid_sets]
    names = [training_name(booster), *booster.name_valid_sets]
    return [
        _scored_set(name, data, sums, n_classes)
        for name, data, sums in zip(names, sets, tree_sums(booster), strict=True)
    ]


def tree_sums(booster: lgb.Booster) -> list[Floats]:
    """LightGBM's sums of trees of the training and the validation sets, shape (n_classes, n_samples); not copied."""
    seen: list[Floats] = []

    def look(sums: Floats, _data: lgb.Dataset) -> tuple[str, float, bool]:
        seen.append(sums.T)
        return "", 0.0, False

    lgb.Booster.eval_train(booster, look)
    lgb.Booster.eval_valid(booster, look)
    return seen


def _scored_set(name: str, data: lgb.Dataset, sums: Floats, n_classes: int) -> ScoredSet:
    labels = class_labels(data, n_classes)
    weights = data.get_field("weight")
    return ScoredSet(
        name=name,
        data=data,
        labels=labels,
        weights=None if weights is None else np.asarray(weights, dtype=np.float64),
        scores=np.array(sums),
        tree_sums=np.array(sums),
    )


def class_labels(data: lgb.Dataset, n_classes: int) -> Integers:
    """Labels of a constructed Dataset as class indices."""
    labels = np.asarray(data.get_field("label"))
    whole = labels.astype(np.int32)
    wrong = (labels != whole) | (whole < 0) | (whole >= n_classes)
    if wrong.any():
        fail("label", float(labels[wrong][0]), f"whole numbers from 0 to num_class - 1 = {n_classes - 1}")
    return whole


def _has_categories(train_set: lgb.Dataset) -> bool:
    params = train_set.get_params()
    return any(params.get(alias) for alias in aliases("categorical_feature"))
