"""Grow the trees of one round, side by side, and turn them into model trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from abc_plugins.core.bins.columns import Columns
from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.leaves import Update
from abc_plugins.core.model.ensemble import LEAF, NO_SETS, NODE_DTYPES, SET_WORDS, THRESHOLD, FlatTrees
from abc_plugins.core.pairs import Pair, limit_leaves
from abc_plugins.core.runtime.arrays import DERIVATIVE, AnyArray, Booleans, Derivatives, Floats, Integers
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.settings import MAX_DEPTH, Settings
from abc_plugins.core.trees.best_first import number_leaf_nodes, number_leaves, send_down
from abc_plugins.core.trees.categories import make_category_order
from abc_plugins.core.trees.category_orders import CategoryOrders
from abc_plugins.core.trees.feature_choice import FeatureChoice, make_feature_choice
from abc_plugins.core.trees.fixedpoint import count_rows, weigh
from abc_plugins.core.trees.splitting import UNLIMITED_DEPTH, SplitRules
from abc_plugins.core.trees.teamwork import ROWS_WORTH_A_TEAM, SymmetricTeam, Team
from abc_plugins.core.trees.workspace import NODE, ModelNodes, RoundTrees, copy_nodes, weigh_nodes

_HISTOGRAM_BYTES = 2**30
"""Histograms take no more than this together, unless that is too little even for the fewest that one tree needs."""

_SPARSE_HISTOGRAM_BYTES = 2**26
"""For sparse data this much is allowed at the least, however small the data."""

_FEWEST_HISTOGRAMS = 3
"""One for the root, and two for the leaves that are searched."""

_OF_NODES = 2**32 - 2
"""In place of a tree: the draw of the seeds of features for each node."""

_ROWS_PER_LOT = 2**18
"""Samples of the trees that a thread grows in one call, all together: Ctrl-C waits for the end of the call."""


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
        For every tree grown last the node number of each sample's leaf.
    orders : CategoryOrders
    """

    def __init__(self, data: TrainingData, settings: Settings, workers: Workers) -> None:
        self._data = data
        self._settings = settings
        self._workers = workers
        # Gains of the second order have no need of weights: leaves are counted in samples.
        counts_rows = settings.second_order or bool((data.weights == 1.0).all())
        self._weight_units = weight_units = count_rows(data.n_samples) if counts_rows else weigh(data.weights)
        self._is_weighted = counts_rows and bool((data.weights != 1.0).any())
        total_units = int(weight_units.units.sum())
        min_units = _count_units(settings.min_samples_leaf, weight_units.per_unit, total_units + 1)
        # No tree has more leaves than that; nothing larger needs to be allocated.
        self._num_leaves = max(1, min(settings.num_leaves, data.n_samples, total_units // min_units))
        self._depth = self._affordable_depth(settings.max_depth) if settings.tree_shape == "symmetric" else None
        if self._depth is not None:
            self._num_leaves = 2**self._depth
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
            min_gain=settings.min_split_gain,
            max_depth=UNLIMITED_DEPTH if settings.max_depth is None else settings.max_depth,
        )
        self._class_weights = np.bincount(data.labels, data.weights, data.n_classes)
        self._teams: list[Team] = []
        self._symmetric_teams: list[SymmetricTeam] = []
        self._crews_of_size: dict[int, list[Workers]] = {}
        self._nodes: AnyArray = np.empty((0, 0), dtype=NODE)
        self._n_nodes = np.empty(0, dtype=np.int64)
        self.leaf_ids: AnyArray = np.empty((0, data.n_samples), dtype=np.uint16)
        self.orders = CategoryOrders(data.columns, data.n_samples, settings.seed)
        self._place_start = make_category_order(data.columns.n_bins, data.columns.is_categorical).start

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
        plus, minus = np.array(pairs, dtype=np.int64).T.copy()
        keys = [(low + 1, high + 1) for low, high in map(sorted, pairs)]  # the same for (k, b) and (b, k)
        none = np.empty((0, 0), dtype=DERIVATIVE)
        trees = self._make_trees(plus, minus, none, none, round_index, keys)
        self._grow(probabilities, trees, sample, after_each, in_order)

    def grow_along(
        self,
        z: Derivatives,
        h: Derivatives,
        sample: AnyArray,
        round_index: int,
        *,
        stumps: bool = False,
        in_order: Callable[[int, int], Any] | None = None,
    ) -> None:
        """Grow one tree for each direction, given the derivatives along it, from the samples in `sample`.

        Parameters
        ----------
        z, h : arrays of shape (n_trees, n_samples)
        sample : array of uint32
        round_index : int
        stumps : bool, default=False
            Grow no more than the split of the root.
        in_order : callable, optional
            As in `grow`.
        """
        none = np.zeros(len(z), dtype=np.int64)
        keys = [(t + 1,) for t in range(len(z))]
        trees = self._make_trees(none, none, z, h, round_index, keys)
        if stumps:
            trees.max_leaves[:] = 2
        self._grow(np.empty((0, 0)), trees, sample, None, in_order)

    def root_gains(self, n_trees: int) -> Floats:
        """Gain of the split of the root of each of the last trees grown."""
        return self._nodes["gain"][:n_trees, 0].copy()

    def number_leaves(self, t: int) -> tuple[AnyArray, int]:
        """Number the leaves of tree `t` in the order of their nodes.

        Returns
        -------
        leaves : array of uint16, shape (n_samples,)
            The number of each sample's leaf, in place of its node's number.
        n_leaves : int
        """
        number_leaves(self._nodes[t], self._n_nodes[t], self.leaf_ids[t])
        return self.leaf_ids[t], (int(self._n_nodes[t]) + 1) // 2

    def _make_trees(
        self,
        plus: AnyArray,
        minus: AnyArray,
        z: Derivatives,
        h: Derivatives,
        round_index: int,
        keys: Sequence[tuple[int, ...]],
    ) -> RoundTrees:
        n_trees = len(keys)
        self._reserve(n_trees)
        self._is_sorted[:n_trees] = self.orders.draw(round_index, n_trees)
        max_leaves = self._max_leaves(plus, minus) if len(z) == 0 else np.full(n_trees, self._num_leaves)
        return RoundTrees(
            plus, minus, z, h,
            usable=self._usable_features(round_index, keys),
            sorts=self._is_sorted[:n_trees],
            places=self._places,
            max_leaves=max_leaves,
            nodes=self._nodes,
            n_nodes=self._n_nodes,
            leaf_ids=self.leaf_ids,
            seeds=self._seeds(round_index, n_trees),
        )  # fmt: skip

    def _grow(
        self,
        probabilities: Floats,
        trees: RoundTrees,
        sample: AnyArray,
        after_each: Callable[[int, int], Any] | None,
        in_order: Callable[[int, int], Any] | None,
    ) -> None:
        data, rules, units = self._data, self._rules, self._weight_units.units
        n_trees = trees.plus.size
        everything = sample.size == data.n_samples
        others = sample[:0] if everything else np.delete(np.arange(data.n_samples, dtype=np.uint32), sample)
        depth = self._depth
        teams: Sequence[Team | SymmetricTeam] = (
            self._provide_teams(n_trees) if depth is None else self._provide_symmetric_teams(n_trees, depth)
        )

        def grow_lot(lot: tuple[int, int], thread: int) -> None:
            work = teams[thread].work
            if everything:
                teams[thread].grow(probabilities, data.n_samples, trees, *lot)
            else:
                for t in range(*lot):
                    work.rows[: sample.size], work.rows[sample.size :] = sample, others
                    teams[thread].grow(probabilities, sample.size, trees, t, t + 1)
                    if depth is None:  # symmetric trees know the leaves of all samples
                        send_down(
                            data.columns, trees.nodes[t], trees.n_nodes[t], work.rows[sample.size :], work.rows_aside,
                            units, rules, work.order, work.spare, trees.leaf_ids[t],
                        )  # fmt: skip
            if self._is_weighted:
                for t in range(*lot):
                    weigh_nodes(trees.nodes[t], trees.n_nodes[t], trees.leaf_ids[t], data.weights)
            if after_each is not None:
                after_each(*lot)

        follow = None if in_order is None else lambda lot: in_order(*lot)
        self._workers.over_items(_lots(n_trees, len(teams), data.n_samples), grow_lot, len(teams), follow)

    def to_round(self, update: Update) -> FlatTrees:
        """Model trees of an update of the last trees grown, as one round."""
        for t in set(update.tree.tolist()):
            number_leaf_nodes(self._nodes[t], self._n_nodes[t])
        # Classic trees move one class, those of a pair two: all trees of a round are of one kind.
        is_classic = bool((update.minus == CLASSIC).all())
        signs = [1.0] if is_classic else [1.0, -1.0]
        classes = update.plus[:, None] if is_classic else np.stack([update.plus, update.minus], axis=1)
        values = []
        for t, of_nodes in zip(update.tree, update.values, strict=True):
            n_nodes = self._n_nodes[t]
            leaf = self._nodes["feature"][t, :n_nodes] == LEAF
            values.append(np.outer(of_nodes[:n_nodes][leaf], signs))
        return self.to_trees(update.tree, classes.astype(np.int32), values)

    def to_trees(self, tree: AnyArray, classes: Integers, values: Sequence[Floats]) -> FlatTrees:
        """Model trees of some of the last trees grown, as one round.

        Parameters
        ----------
        tree : array of int
            Which of them; their leaves must have been numbered.
        classes : array of int32, shape (n_trees, n_entries)
            The classes of each tree.
        values : sequence of arrays of shape (n_leaves, n_entries)
        """
        n_trees, n_entries = classes.shape
        node_start = np.zeros(n_trees + 1, dtype=np.int64)
        np.cumsum(self._n_nodes[tree], out=node_start[1:])
        value_start = np.zeros_like(node_start)
        np.cumsum((self._n_nodes[tree] + 1) // 2 * n_entries, out=value_start[1:])
        arrays = {name: np.empty(node_start[-1], dtype) for name, dtype in NODE_DTYPES.items()}
        bins = np.empty(node_start[-1], dtype=np.int32)
        split_feature = np.empty_like(bins)
        shared = {name: arrays[name] for name in ModelNodes._fields if name in arrays}
        out = ModelNodes(split_feature=split_feature, bin=bins, **shared)
        copy_nodes(self._nodes, tree, node_start, *self._data.split_edges, self._data.columns.feature, out)
        left_set, set_start, sets = self._category_sets(tree, split_feature, bins, node_start)
        if sets.size > 0:
            arrays["threshold"][left_set != THRESHOLD] = 0.0
        arrays["left_set"] = left_set
        return FlatTrees(
            round_start=np.array([0, n_trees]),
            node_start=node_start,
            class_start=np.arange(0, classes.size + 1, n_entries),
            value_start=value_start,
            set_start=set_start,
            classes=classes.reshape(-1),
            values=np.concatenate([of_tree.reshape(-1) for of_tree in values]),
            sets=sets,
            **arrays,
        )

    def _category_sets(
        self, tree: AnyArray, split_feature: AnyArray, bins: AnyArray, node_start: AnyArray
    ) -> tuple[AnyArray, AnyArray, AnyArray]:
        """For splits of sorted categories the categories that go left; a natural order needs no more than a threshold.

        Returns
        -------
        left_set : array of int32, shape (n_nodes,)
        set_start : array of int64, shape (n_trees + 1,)
        sets : array of uint64
        """
        left_set = np.full(split_feature.size, THRESHOLD, dtype=np.int32)
        if self._places.shape[1] == 0:  # no categories
            return left_set, np.zeros(tree.size + 1, dtype=np.int64), NO_SETS.reshape(-1)
        sets: list[AnyArray] = []
        set_start = [0]
        for t, first, stop in zip(tree, node_start[:-1], node_start[1:], strict=True):
            inner = np.flatnonzero(split_feature[first:stop] != LEAF) + first
            rows: dict[tuple[int, int], int] = {}  # nodes that split alike share a set
            for node in inner[self._is_sorted[t][split_feature[inner]]]:
                split = int(split_feature[node]), int(bins[node])
                if split not in rows:
                    rows[split] = len(rows)
                    sets.append(self._left_categories(t, *split))
                left_set[node] = rows[split]
            set_start.append(len(sets) * SET_WORDS)
        return left_set, np.array(set_start), np.concatenate(sets) if sets else NO_SETS.reshape(-1)

    def _left_categories(self, t: int, feature: int, last_place: int) -> AnyArray:
        """The set of the categories up to a place in the order of tree `t`."""
        start = self._place_start[feature]
        places = self._places[t, start : start + self._data.columns.n_bins[feature]]
        goes_left = places[self._data.bins_of_categories(feature)] <= last_place
        return np.packbits(goes_left, bitorder="little").view(np.uint64)

    def _reserve(self, n_trees: int) -> None:
        """Make room for the results of `n_trees` trees."""
        if n_trees <= self.leaf_ids.shape[0]:
            return
        self._nodes = np.empty((n_trees, self.max_nodes), dtype=NODE)
        self._n_nodes = np.empty(n_trees, dtype=np.int64)
        self.leaf_ids = np.empty((n_trees, self._data.n_samples), dtype=np.uint16)
        self._is_sorted = np.zeros((n_trees, self._data.columns.feature.size), dtype=np.bool_)
        sizes = self._data.columns.n_bins[self._data.columns.is_categorical]
        self._places = np.zeros((n_trees, int(sizes.sum())), dtype=np.uint8)

    def _affordable_depth(self, max_depth: int | None) -> int:
        """Levels of a symmetric tree: all of its leaves but those of the last level have histograms."""
        columns = self._data.columns  # the depth of a model must not depend on their layout
        affordable = _HISTOGRAM_BYTES // max(1, 16 * (columns.n_splits + columns.feature.size))
        return max(1, min(max_depth or MAX_DEPTH, affordable.bit_length()))

    def _affordable_histograms(self) -> int:
        columns = self._data.columns
        return _histogram_bytes(columns) // max(1, 16 * columns.total_cells)

    def _provide_symmetric_teams(self, n_trees: int, depth: int) -> list[SymmetricTeam]:
        """Teams for as many symmetric trees at a time as there are threads and memory for."""
        affordable = self._affordable_histograms() // 2 ** (depth - 1)
        n_teams = min(self._workers.n_threads, n_trees, max(1, affordable))
        while len(self._symmetric_teams) < n_teams:
            choice = self._make_choice(1)
            self._symmetric_teams.append(SymmetricTeam(self._data, self._weight_units, self._rules, depth, choice))
        return self._symmetric_teams[:n_teams]

    def _provide_teams(self, n_trees: int) -> list[Team]:
        """Teams for as many trees at a time as there are threads and memory for; threads to spare make them larger."""
        n_threads = self._workers.n_threads
        affordable = self._affordable_histograms()
        n_histograms = min(self._num_leaves, max(_FEWEST_HISTOGRAMS, affordable))
        n_teams = min(n_threads, n_trees, max(1, affordable // n_histograms))
        # Each thread but the first one of a team has a histogram of its own.
        spare = affordable - n_histograms * max(n_teams, len(self._teams))
        size = min(n_threads // n_teams, 1 + spare // n_teams)
        size = size if size > 1 and self._data.n_samples > ROWS_WORTH_A_TEAM else 1
        while len(self._teams) < n_teams:
            choice = self._make_choice(self._num_leaves)
            self._teams.append(
                Team(self._data, self._weight_units, self._num_leaves, n_histograms, self._rules, choice)
            )
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
        return limit_leaves(plus, minus, self._class_weights, self._settings.pair_samples_per_leaf, self._num_leaves)

    def _usable_features(self, round_index: int, keys: Sequence[tuple[int, ...]]) -> Booleans:
        """The features that each tree may split on: drawn by its key."""
        n_features = self._data.columns.feature.size
        share = self._settings.colsample
        if share == 1.0 or n_features == 0:
            return np.ones((len(keys), n_features), dtype=np.bool_)
        usable = np.zeros((len(keys), n_features), dtype=np.bool_)
        for t, key in enumerate(keys):
            random = np.random.default_rng([self._settings.seed, round_index, *key])
            usable[t, random.choice(n_features, max(1, round(share * n_features)), replace=False)] = True
        return usable

    def _make_choice(self, n_leaves: int) -> FeatureChoice:
        settings, columns = self._settings, self._data.columns
        return make_feature_choice(settings.max_features, settings.interaction_constraints, columns.feature, n_leaves)

    def _seeds(self, round_index: int, n_trees: int) -> AnyArray:
        """Seeds of the features that are drawn for the nodes of each tree."""
        if self._settings.max_features == 1.0:
            return np.zeros(n_trees, dtype=np.uint64)
        random = np.random.default_rng([self._settings.seed, round_index, _OF_NODES])
        return random.integers(2**63, size=n_trees, dtype=np.uint64)


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


def _histogram_bytes(columns: Columns) -> int:
    """Memory for histograms: for sparse data no more than a few times that of the samples."""
    if columns.lists.start.size == 1:  # no lists
        return _HISTOGRAM_BYTES
    return min(_HISTOGRAM_BYTES, max(_SPARSE_HISTOGRAM_BYTES, 2 * columns.lists.n_bytes))


def _count_units(weight: float, per_unit: float, largest: int) -> int:
    """Units that make up a weight, rounded up; from 1 to `largest`."""
    return max(1, int(np.ceil(weight / per_unit))) if weight < largest * per_unit else largest
