"""Grow the trees of one round, side by side, and turn them into model trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from abc_plugins.core.leaves import Update
from abc_plugins.core.model.ensemble import LEAF, FlatTrees
from abc_plugins.core.pairs import Pair
from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.settings import Settings
from abc_plugins.core.trees.best_first import send_down
from abc_plugins.core.trees.fixedpoint import weigh
from abc_plugins.core.trees.splitting import SplitRules
from abc_plugins.core.trees.teamwork import ROWS_WORTH_A_TEAM, Team
from abc_plugins.core.trees.training_data import TrainingData
from abc_plugins.core.trees.workspace import NODE, RoundTrees

_HISTOGRAM_BYTES = 2**30
"""Histograms take no more than this together, unless that is too little even for the fewest that one tree needs."""

_FEWEST_HISTOGRAMS = 3
"""One for the root, and two for the leaves that are searched."""


_ROUNDING = 1e-9
"""Sums of weights that should be equal may differ by this share, and are to allow the same number of leaves."""

_ROWS_PER_LOT = 2**18
"""A thread grows no more trees at a time than have so many samples together: it cannot be interrupted meanwhile."""


class RoundGrower:
    """Grows trees on one training set; keeps the teams of threads that do so.

    Parameters
    ----------
    data : TrainingData
    settings : Settings
    workers : Workers

    Attributes
    ----------
    max_nodes : int
        No tree has more nodes.
    leaf_ids : array of uint16, shape (n_trees, n_samples)
        For every tree of the last call of `grow` the node number of each sample's leaf.
    """

    def __init__(self, data: TrainingData, settings: Settings, workers: Workers) -> None:
        self._data = data
        self._settings = settings
        self._workers = workers
        self._weight_units = weight_units = weigh(data.weights)
        total_units = int(weight_units.units.sum())
        min_units = _count_units(settings.min_samples_leaf, weight_units.per_unit, total_units + 1)
        # No tree has more leaves than that; nothing larger needs to be allocated.
        self._num_leaves = max(1, min(settings.num_leaves, data.n_samples, total_units // min_units))
        self.max_nodes = 2 * self._num_leaves - 1
        bits = weight_units.hessian_bits
        self._rules = SplitRules(
            second_order=settings.second_order,
            reg_lambda=settings.reg_lambda,
            min_wh=min_units << bits,
            min_hessian=settings.min_child_weight,
            hessian_bits=bits,
            hessian_mask=(1 << bits) - 1,
            weight_per_unit=weight_units.per_unit,
        )
        self._class_weights = np.bincount(data.labels, data.weights, data.n_classes)
        self._teams: list[Team] = []
        self._crews_of_size: dict[int, list[Workers]] = {}
        self._nodes: AnyArray = np.empty((0, 0), dtype=NODE)
        self._n_nodes = np.empty(0, dtype=np.int64)
        self.leaf_ids: AnyArray = np.empty((0, data.n_samples), dtype=np.uint16)

    def grow(
        self,
        probabilities: Floats,
        pairs: Sequence[Pair],
        sample: AnyArray,
        round_index: int,
        *,
        after_each: Callable[[int, int], Any] | None = None,
        in_order: Callable[[int, int], Any] | None = None,
    ) -> None:
        """Grow one tree for each pair of classes from the samples in `sample`, some at a time.

        `after_each(first, last)` is called for each lot of trees by the thread that has grown them;
        `in_order(first, last)` for one lot after the other in their order, after they were grown and while others are
        growing.
        """
        self._reserve(len(pairs))
        data, rules, units = self._data, self._rules, self._weight_units.units
        usable = self._usable_features(round_index, pairs)
        plus, minus = np.array(pairs, dtype=np.int64).T.copy()
        trees = RoundTrees(
            plus, minus, usable, self._max_leaves(plus, minus), self._nodes, self._n_nodes, self.leaf_ids
        )
        everything = sample.size == data.n_samples
        others = sample[:0] if everything else np.delete(np.arange(data.n_samples, dtype=np.uint32), sample)
        teams = self._provide_teams(len(pairs))

        def grow_lot(lot: tuple[int, int], thread: int) -> None:
            work = teams[thread].work
            if everything:
                teams[thread].grow(probabilities, data.n_samples, trees, *lot)
            else:
                for t in range(*lot):
                    work.rows[: sample.size], work.rows[sample.size :] = sample, others
                    teams[thread].grow(probabilities, sample.size, trees, t, t + 1)
                    send_down(
                        data.columns, trees.nodes[t], trees.n_nodes[t], work.rows[sample.size :], work.rows_aside,
                        units, rules, trees.leaf_ids[t],
                    )  # fmt: skip
            if after_each is not None:
                after_each(*lot)

        follow = None if in_order is None else lambda lot: in_order(*lot)
        self._workers.over_items(_lots(len(pairs), len(teams), data.n_samples), grow_lot, len(teams), follow)

    def to_round(self, update: Update) -> FlatTrees:
        """Model trees of an update of the last trees grown, as one round."""
        n_nodes = self._n_nodes[update.tree]
        there = np.flatnonzero(np.arange(self.max_nodes) < n_nodes[:, None])
        nodes = self._nodes.take(update.tree, axis=0).take(there)  # several times as fast as by brackets
        feature = nodes["feature"].copy()
        inner = feature != LEAF
        threshold = np.zeros(nodes.size)
        threshold[inner] = self._data.thresholds(feature[inner], nodes["bin"][inner])
        feature[inner] = self._data.columns.feature[feature[inner]]
        return FlatTrees(
            round_start=np.array([0, n_nodes.size]),
            node_start=np.concatenate(([0], np.cumsum(n_nodes))),
            plus=update.plus,
            minus=update.minus,
            feature=feature,
            threshold=threshold,
            value=np.where(inner, 0.0, update.values.reshape(-1)[there]),
            **{name: nodes[name].copy() for name in ("missing_left", "left", "right", "gain", "weight")},
        )

    def _reserve(self, n_trees: int) -> None:
        """Make room for the results of `n_trees` trees."""
        if n_trees <= self.leaf_ids.shape[0]:
            return
        self._nodes = np.empty((n_trees, self.max_nodes), dtype=NODE)
        self._n_nodes = np.empty(n_trees, dtype=np.int64)
        self.leaf_ids = np.empty((n_trees, self._data.n_samples), dtype=np.uint16)

    def _provide_teams(self, n_trees: int) -> list[Team]:
        """Teams for as many trees at a time as there are threads and memory for; threads to spare make them larger."""
        n_threads = self._workers.n_threads
        affordable = _HISTOGRAM_BYTES // max(1, 16 * int(self._data.columns.group_cell[-1]))
        n_histograms = min(self._num_leaves, max(_FEWEST_HISTOGRAMS, affordable))
        n_teams = min(n_threads, n_trees, max(1, affordable // n_histograms))
        # Each thread but the first one of a team has a histogram of its own.
        spare = affordable - n_histograms * max(n_teams, len(self._teams))
        size = min(n_threads // n_teams, 1 + spare // n_teams)
        size = size if size > 1 and self._data.n_samples > ROWS_WORTH_A_TEAM else 1
        while len(self._teams) < n_teams:
            self._teams.append(Team(self._data, self._weight_units, self._num_leaves, n_histograms, self._rules))
        for team, workers in zip(self._teams, self._crews(n_teams, size), strict=False):
            team.set_workers(workers)
        return self._teams[:n_teams]

    def _crews(self, n_teams: int, size: int) -> list[Workers]:
        """Threads for each team, kept for the rounds to come; a team of all threads is the only one."""
        if size == self._workers.n_threads:
            return [self._workers]
        crews = self._crews_of_size.setdefault(size, [])
        crews += [self._workers.make_crew(size) for _ in range(n_teams - len(crews))]
        return crews[:n_teams]

    def _max_leaves(self, plus: AnyArray, minus: AnyArray) -> AnyArray:
        """Most leaves of each tree: of two classes with few samples between them, fewer than J."""
        max_leaves = np.full(plus.size, self._num_leaves, dtype=np.int64)
        per_leaf, has_base = self._settings.pair_samples_per_leaf, minus != CLASSIC
        if per_leaf > 0.0:
            weights = (self._class_weights[plus] + self._class_weights[minus])[has_base]
            affordable = np.floor(weights / per_leaf * (1.0 + _ROUNDING))
            max_leaves[has_base] = np.minimum(np.maximum(affordable, 2), self._num_leaves)
        return max_leaves

    def _usable_features(self, round_index: int, pairs: Sequence[Pair]) -> Booleans:
        """The features that each tree may split on; the same for (k, b) and (b, k)."""
        n_features = self._data.columns.feature.size
        share = self._settings.colsample
        if share == 1.0 or n_features == 0:
            return np.ones((len(pairs), n_features), dtype=np.bool_)
        usable = np.zeros((len(pairs), n_features), dtype=np.bool_)
        for t, pair in enumerate(pairs):
            low, high = sorted(pair)
            random = np.random.default_rng([self._settings.seed, round_index, low + 1, high + 1])
            usable[t, random.choice(n_features, max(1, round(share * n_features)), replace=False)] = True
        return usable


def _lots(n_trees: int, n_teams: int, n_samples: int) -> list[tuple[int, int]]:
    """Trees for a thread to take at a time: many at first, as every lot takes time in Python, and few in the end."""
    lots = []
    first = 0
    while first < n_trees:
        left = n_trees - first
        size = left if n_teams == 1 else left // (2 * n_teams)
        last = first + max(1, min(size, _ROWS_PER_LOT // n_samples))
        lots.append((first, last))
        first = last
    return lots


def _count_units(weight: float, per_unit: float, largest: int) -> int:
    """Units that make up a weight, rounded up; from 1 to `largest`."""
    return max(1, int(np.ceil(weight / per_unit))) if weight < largest * per_unit else largest
