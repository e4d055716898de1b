"""The round loop of the four methods: plan, grow, choose the base, update."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abc_plugins.core.arrays import AnyArray, Floats
from abc_plugins.core.data import TrainingData
from abc_plugins.core.grower import Pair, TreeGrower
from abc_plugins.core.leaves import LeafRules, Update, apply_update, newton_steps, trial_losses
from abc_plugins.core.losses import centre, starting_class_losses
from abc_plugins.core.model import Tree, TreeEnsemble
from abc_plugins.core.parallel import Workers
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan
from abc_plugins.core.settings import Settings


class Booster:
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
    trees_grown : int
        Distinct trees grown so far, trials included.
    """

    def __init__(self, data: TrainingData, settings: Settings, workers: Workers) -> None:
        self.schedule = BaseClassSchedule(
            data.n_classes,
            search=settings.search,
            gap=settings.gap,
            warmup=settings.warmup,
            adaptive=settings.is_adaptive,
        )
        self.model = TreeEnsemble(data.n_classes, data.n_features)
        self.train_loss: list[float] = []
        self.trees_grown = 0
        self._data = data
        self._settings = settings
        self._workers = workers
        self._grower = TreeGrower(data, settings, workers)
        self._scores = np.zeros((data.n_classes, data.n_samples))
        self._new_scores = np.empty_like(self._scores)
        self._probabilities = np.full_like(self._scores, 1.0 / data.n_classes)
        self._class_losses = starting_class_losses(data.labels, data.weights, data.n_classes)

    def run_round(self) -> list[Tree]:
        """Add one round to the model and return its trees."""
        plan = self.schedule.plan(self._class_losses.tolist())
        if plan.centre:
            centre(self._scores)
        sample = self._draw_sample()
        pairs = distinct_pairs(plan, self._data.n_classes)
        self._grower.grow(self._probabilities, pairs, sample, self.model.n_rounds)
        self.trees_grown += len(pairs)
        values = self._leaf_values(pairs)
        base, update = self._choose(plan, pairs, values)
        self._apply(update)
        trees = self._grower.to_trees(update)
        self.model.append_round(trees)
        self.schedule.record(base)
        self.train_loss.append(float(self._class_losses.sum()))
        return trees

    def _draw_sample(self) -> AnyArray:
        """Samples to grow this round's trees from, in increasing order."""
        n_samples, share = self._data.n_samples, self._settings.subsample
        n_drawn = max(1, round(share * n_samples))
        if n_drawn == n_samples:
            return np.arange(n_samples, dtype=np.uint32)
        random = np.random.default_rng([self._settings.seed, self.model.n_rounds])
        return np.sort(random.choice(n_samples, n_drawn, replace=False)).astype(np.uint32)

    def _leaf_values(self, pairs: Sequence[Pair]) -> Floats:
        """The paper's leaf values of every tree just grown, shape (n_trees, n_nodes)."""
        return newton_steps(self._grower.leaf_sums[: len(pairs)], self._leaf_rules(pairs[0][1]))

    def _leaf_rules(self, minus: int) -> LeafRules:
        n_classes, settings = self._data.n_classes, self._settings
        return LeafRules(
            factor=(n_classes - 1) / n_classes if minus == CLASSIC else 1.0,
            reg_lambda=settings.reg_lambda,
            clip=np.inf if settings.leaf_clip is None else settings.leaf_clip,
            learning_rate=settings.learning_rate,
        )

    def _choose(self, plan: RoundPlan, pairs: Sequence[Pair], values: Floats) -> tuple[int, Update]:
        """The base class of this round and what it adds; a search tries every candidate."""
        if plan.is_classic:
            update = make_update(pairs, pairs, values)
            if self._data.n_classes == 2:
                update = update._replace(minus=np.zeros(1, dtype=np.int32))  # what class 1 gains, class 0 loses
            return CLASSIC, update
        updates = [make_update(base_pairs(base, self._data.n_classes), pairs, values) for base in plan.candidates]
        if len(updates) == 1:
            return plan.candidates[0], updates[0]
        data, leaf_ids = self._data, self._grower.leaf_ids
        losses = [
            float(trial_losses(self._scores, data.labels, data.weights, leaf_ids, update, self._workers).sum())
            for update in updates
        ]
        base = self.schedule.choose(plan, losses)
        return base, updates[plan.candidates.index(base)]

    def _apply(self, update: Update) -> None:
        """Add the update to scores, probabilities and class losses."""
        self._class_losses = apply_update(
            self._scores,
            self._data.labels,
            self._data.weights,
            self._grower.leaf_ids,
            update,
            self._new_scores,
            self._probabilities,
            self._workers,
        )
        self._scores, self._new_scores = self._new_scores, self._scores


def base_pairs(base: int, n_classes: int) -> list[Pair]:
    """The trees of an ABC round: every other class against the base."""
    return [(k, base) for k in range(n_classes) if k != base]


def distinct_pairs(plan: RoundPlan, n_classes: int) -> list[Pair]:
    """The trees to grow for a plan, no pair of classes twice: (k, b) and (b, k) are the same tree negated."""
    if plan.is_classic:
        # Two classes have one free score, and so one tree.
        return [(1, CLASSIC)] if n_classes == 2 else [(k, CLASSIC) for k in range(n_classes)]
    pairs: dict[frozenset[int], Pair] = {}
    for base in plan.candidates:
        for pair in base_pairs(base, n_classes):
            pairs.setdefault(frozenset(pair), pair)
    return list(pairs.values())


def make_update(wanted: Sequence[Pair], grown: Sequence[Pair], values: Floats) -> Update:
    """Find the wanted trees among those grown, negating the values of those grown the other way round."""
    where = {pair: (t, 1.0) for t, pair in enumerate(grown)}
    where |= {(minus, plus): (t, -1.0) for t, (plus, minus) in enumerate(grown)}
    tree, sign = zip(*(where[pair] for pair in wanted), strict=True)
    return Update(
        tree=np.array(tree, dtype=np.int32),
        plus=np.array([plus for plus, _ in wanted], dtype=np.int32),
        minus=np.array([minus for _, minus in wanted], dtype=np.int32),
        values=values[list(tree)] * np.array(sign)[:, None],
    )
