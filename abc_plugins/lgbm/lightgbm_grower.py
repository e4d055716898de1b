"""Growing trees in LightGBM from gradients of our own, and reading back what they add to the scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np

from abc_plugins.core.additions import LeafFinder, LibraryEngine, add_trees, take_difference
from abc_plugins.core.losses import centre
from abc_plugins.core.pair_rounds import PairRound, TreeRange
from abc_plugins.core.pairs import Pair, base_pairs, limit_leaves
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.scores import PairScores
from abc_plugins.lgbm.internals import aliases, training_name
from abc_plugins.lgbm.params import DEFAULT_LEAVES, TrainingParams, main_names
from abc_plugins.lgbm.text import (
    NO_TREE,
    TaggedTree,
    TreeText,
    is_stump,
    leaf_values,
    read_model,
    scaled,
    with_leaf_values,
)


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
        F; for the training set they live in `Trainer.state.scores`.
    tree_sums : array of shape (n_classes, n_samples)
        LightGBM's own sums of the trees in each slot, as last seen.
    """

    name: str
    data: lgb.Dataset
    labels: Integers
    weights: Floats | None
    scores: Floats
    tree_sums: Floats


class LightGBMGrower(LibraryEngine):
    """Grows trees for pairs of classes in one booster; a `PairEngine`.

    Parameters
    ----------
    params : TrainingParams
    booster : Booster
        Made with `params.grower`, with its validation sets added; nobody else may update it.
    sets : sequence of ScoredSet, optional
        What `scored_sets` has returned for the booster.

    """

    value_type = np.float64

    def __init__(self, params: TrainingParams, booster: lgb.Booster, sets: Sequence[ScoredSet] = ()) -> None:
        super().__init__()
        self.params = params
        self.booster = booster
        self.sets = sets or scored_sets(booster, params.n_classes)
        self._has_categories = _has_categories(booster.train_set)
        self._gradients = np.empty((params.n_classes, self.sets[0].labels.size), dtype=np.float32)
        self._hessians = np.empty_like(self._gradients)
        self._spare: list[Floats] = [np.empty((0, data.labels.size)) for data in self.sets]
        self._places: dict[int, tuple[int, int]] = {}
        self._texts: dict[int, list[TreeText]] = {}

    @property
    def can_probe(self) -> bool:
        """Whether leaf values can be ours: they can unless leaves have coefficients, or depend on those above them."""
        return not self.params.is_linear and not self.params.has_path_smooth

    def negates(self, scores: PairScores) -> bool:
        """Whether LightGBM grows the negated tree from negated gradients.

        It sorts categories by gradient / (hessian + cat_smooth), and the order of ties does not turn round with the
        sign. Categories tie where nothing smooths them, and where all scores are still equal.
        """
        return not self._has_categories or (
            float(self.params.given.get("cat_smooth", 10.0)) > 0.0 and bool(scores.scores.any())
        )

    def grow(
        self,
        scores: PairScores,
        pairs: Sequence[Pair],
        seen: AnyArray,
        _round_index: int,
        _after_each: TreeRange | None = None,
        _in_order: TreeRange | None = None,
    ) -> None:
        """Grow K trees at a time: a slot's tree depends on its gradients alone, whichever class they are for."""
        self._places, self._texts = {}, {}
        n_classes, lots = self.params.n_classes, self._lots(pairs, scores)
        self._reserve(n_classes * len(lots))
        with self._kept_parameters():
            for number, (num_leaves, slots) in enumerate(lots):
                if num_leaves is not None:
                    lgb.Booster.reset_parameter(self.booster, {"num_leaves": num_leaves})
                grown = [None if t is None else pairs[t] for t in slots]
                scores.gradients(grown, seen, self._gradients, self._hessians)
                stalled = self.booster.update(fobj=lambda _sums, _data: (self._gradients.T, self._hessians.T))
                iteration = -1 if stalled else lgb.Booster.num_trees(self.booster) // n_classes - 1
                for slot, t in enumerate(slots):
                    if t is not None:
                        self._places[t] = (number * n_classes + slot, iteration)
                rows = slice(number * n_classes, (number + 1) * n_classes)
                for data, added, sums in zip(self.sets, self._spare, tree_sums(self.booster), strict=True):
                    take_difference(sums, data.tree_sums, added[rows], scores.workers)
        added_by_trees = [self.additions(t) for t in range(len(pairs))]
        known = added_by_trees if self.params.is_linear else [leaf_values(self.text(t)) for t in range(len(pairs))]
        has_values = self.params.options.leaf_values == "paper" and seen.size == scores.labels.size
        self._note(pairs, [LeafFinder(values) for values in known], added_by_trees, has_values=has_values)

    def _reserve(self, n_slots: int) -> None:
        """Make room for what trees add to every data set. It is kept: the first touch of new memory is slow."""
        if self._spare[0].shape[0] < n_slots:
            self._spare = [np.empty((n_slots, data.labels.size)) for data in self.sets]

    def _lots(self, pairs: Sequence[Pair], scores: PairScores) -> list[tuple[int | None, Sequence[int | None]]]:
        """Trees to grow at a time: those that may have as many leaves. Without a limit the booster's parameter stands.

        Trees with one base are in the slots of their classes, and the base's own slot has none.
        """
        n_classes = self.params.n_classes
        plus, minus = np.array(pairs).T
        most = int(main_names(self.booster.params).get("num_leaves", DEFAULT_LEAVES))
        per_leaf = self.params.options.pair_samples_per_leaf
        limits = limit_leaves(plus, minus, scores.class_weights, per_leaf, most)
        before = int(minus[0])
        if before != CLASSIC and limits.min() == most and list(pairs) == base_pairs(before, n_classes):
            return [(None, [*range(before), None, *range(before, n_classes - 1)])]
        lots: list[tuple[int | None, Sequence[int | None]]] = []
        for limit in np.unique(limits)[::-1].tolist():
            trees: Sequence[int | None] = np.flatnonzero(limits == limit).tolist()
            for first in range(0, len(trees), n_classes):
                lots.append((None if limit == most else limit, trees[first : first + n_classes]))
        return lots

    @contextmanager
    def _kept_parameters(self) -> Iterator[None]:
        """Leave the booster's parameters as they are, whatever a round needs."""
        kept = dict(self.booster.params)
        yield
        if self.booster.params != kept:
            most = main_names(kept).get("num_leaves", DEFAULT_LEAVES)
            lgb.Booster.reset_parameter(self.booster, {"num_leaves": most})
            self.booster.params = kept

    def text(self, t: int) -> TreeText:
        """Read a tree out of the booster; all of its iteration are read at once and kept."""
        row, iteration = self._places[t]
        if iteration < 0:
            return NO_TREE
        if iteration not in self._texts:
            text = lgb.Booster.model_to_string(self.booster, num_iteration=1, start_iteration=iteration)
            self._texts[iteration] = read_model(text)[1]
        return self._texts[iteration][row % self.params.n_classes]

    def additions(self, t: int, number: int = 0) -> Floats:
        """What a tree's own leaf values add to a data set: 0 is the training set, validation sets follow."""
        return self._spare[number][self._places[t][0]]

    def add_to(self, number: int, made: PairRound) -> None:
        """Add a round to the scores of a validation set; the first one has number 1."""
        scores = self.sets[number].scores
        if made.is_centred:
            centre(scores)
        add_trees(scores, self.additions_of(made, lambda t: self.additions(t, number)))

    def tagged_trees(self, made: PairRound) -> Iterator[TaggedTree]:
        """Yield the trees of a round as they were grown; those that add nothing are left out."""
        if made.update is None or made.factor == 0.0:
            return
        for t, pair, values in zip(made.update.tree.tolist(), made.pairs, made.update.values, strict=True):
            text = self.text(t)
            if not made.has_own_values:
                by_leaf = values[self.finders[t].group]
                text = with_leaf_values(text, by_leaf if pair == self.pairs[t] else -by_leaf)
            elif made.factor != 1.0:
                text = scaled(text, made.factor)
            if not is_stump(text) or leaf_values(text).any():
                plus, minus = self.pairs[t]
                yield TaggedTree(plus, minus, text)


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
