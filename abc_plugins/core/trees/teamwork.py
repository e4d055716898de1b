"""The threads that grow one tree: a single one, or a team that shares the samples of its large nodes.

Sums of integers do not depend on who adds them up, so that a tree is the same whatever the size of its team.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.parallel import Workers, count_blocks
from abc_plugins.core.trees.best_first import grow_trees, start_tree, sum_cells, write_leaf_ids
from abc_plugins.core.trees.feature_choice import FeatureChoice
from abc_plugins.core.trees.fixedpoint import (
    PairSamples,
    WeightUnits,
    scale_blocks,
    scale_derivatives,
    set_units,
    total_blocks,
)
from abc_plugins.core.trees.histogram import add_histogram, build_histogram
from abc_plugins.core.trees.splitting import SplitRules
from abc_plugins.core.trees.symmetric import grow_symmetric_trees, make_symmetric_space
from abc_plugins.core.trees.workspace import DONE, SUMMED, RoundTrees, make_workspace

ROWS_WORTH_A_TEAM = 2**15
"""With fewer samples in a node, starting the threads takes longer than they save."""


class SymmetricTeam:
    """Grows symmetric trees one after the other, with one thread; keeps the work space.

    Parameters
    ----------
    data : TrainingData
    weight_units : WeightUnits
    rules : SplitRules
    depth : int
        Most levels of splits.
    choice : FeatureChoice
        Which features may be split on.
    """

    def __init__(
        self, data: TrainingData, weight_units: WeightUnits, rules: SplitRules, depth: int, choice: FeatureChoice
    ) -> None:
        self._data, self._units, self._rules, self._depth = data, weight_units.units, rules, depth
        # Every child has a sample, and so a unit of weight, as one without gains nothing.
        min_units = rules.min_wh >> rules.hessian_bits
        self._min_units = min_units if min_units > 1 else 0
        self.work = make_symmetric_space(data.columns, depth, self._min_units, choice)

    def grow(self, _probabilities: Floats, n_rows: int, trees: RoundTrees, first: int, last: int) -> None:
        """Grow the trees from `first` to `last` - 1, as `Team.grow` does."""
        depth = min(self._depth, int(trees.max_leaves[first:last].max()) - 1)  # stumps have two leaves
        grow_symmetric_trees(
            self._data.columns, self._units, n_rows, self._rules, self._min_units, self.work, trees, depth, first, last
        )


class Team:
    """Grows trees one after the other; keeps the work space.

    Parameters
    ----------
    data : TrainingData
    weight_units : WeightUnits
    num_leaves : int
        J.
    n_histograms : int
        `num_leaves`, or fewer but at least 3.
    rules : SplitRules
    choice : FeatureChoice
        Which features may be split on.
    """

    def __init__(
        self,
        data: TrainingData,
        weight_units: WeightUnits,
        num_leaves: int,
        n_histograms: int,
        rules: SplitRules,
        choice: FeatureChoice,
    ) -> None:
        self._data, self._weight_units, self._rules = data, weight_units, rules
        self.work = make_workspace(data.columns, num_leaves, n_histograms, choice)
        self._parts: list[tuple[AnyArray, AnyArray]] = []  # what the other threads add up of a histogram
        self.set_workers(Workers(1))

    def set_workers(self, workers: Workers) -> None:
        """Set the threads of this team."""
        self._workers = workers
        self._rows_alone = self._data.n_samples if workers.n_threads == 1 else ROWS_WORTH_A_TEAM
        del self._parts[workers.n_threads - 1 :]
        while len(self._parts) < workers.n_threads - 1:
            self._parts.append((np.empty_like(self.work.histograms[0]), np.empty_like(self.work.joint_sums)))

    def grow(self, probabilities: Floats, n_rows: int, trees: RoundTrees, first: int, last: int) -> None:
        """Grow the trees from `first` to `last` - 1.

        Parameters
        ----------
        probabilities : array of shape (n_classes, n_samples)
        n_rows : int
            They are grown from the first `n_rows` samples of `work.rows`, which is filled in if that is all.
        trees : RoundTrees
            Filled in.
        first, last : int
        """
        if n_rows <= self._rows_alone:
            self._grow_on(probabilities, n_rows, trees, first, last)
        else:
            for t in range(first, last):
                self._grow_together(probabilities, n_rows, trees, t)

    def _grow_on(self, probabilities: Floats, n_rows: int, trees: RoundTrees, first: int, last: int) -> None:
        samples = self._samples(probabilities)
        columns = self._data.columns
        grow_trees(columns, samples, n_rows, self._rules, self._rows_alone, self.work, trees, first, last)

    def _samples(self, probabilities: Floats) -> PairSamples:
        return PairSamples(probabilities, self._data.labels, self._data.weights, self._weight_units.units)

    def _grow_together(self, probabilities: Floats, n_rows: int, trees: RoundTrees, t: int) -> None:
        work, nodes = self.work, trees.nodes[t]
        self._start(probabilities, n_rows, trees, t)
        while True:
            self._grow_on(probabilities, n_rows, trees, t, t + 1)
            if work.progress[1] == DONE:
                break
            self._sum_histogram(nodes[work.progress[2]])
            work.progress[1] = SUMMED

        def write(first: int, last: int, _thread: int) -> None:
            write_leaf_ids(nodes, trees.n_nodes[t], work.rows, first, last, trees.leaf_ids[t])

        self._share(0, n_rows, write)

    def _start(self, probabilities: Floats, n_rows: int, trees: RoundTrees, t: int) -> None:
        """Make the cells and the root."""
        data, work, units = self._data, self.work, self._weight_units
        if n_rows == data.n_samples:
            work.rows[:] = np.arange(n_rows)
        if len(trees.z):
            scale_derivatives(trees.z[t], trees.h[t], units.units, units.hessian_bits, work.cell_units, work.cells)
        else:
            self._make_cells(probabilities, (trees.plus[t], trees.minus[t]))
        parts = self._share(0, n_rows, lambda first, last, _thread: sum_cells(work.cells, work.rows[first:last]))
        z, wh = (sum(sums) for sums in zip(*parts, strict=True))
        start_tree(n_rows, z, wh, trees.usable[t], trees.seeds[t], self._rules, work, trees.nodes[t])

    def _make_cells(self, probabilities: Floats, pair: tuple[int, int]) -> None:
        """Make the cells of a tree of a class and its base class."""
        n_samples, work, bits = self._data.n_samples, self.work, self._weight_units.hessian_bits
        samples = self._samples(probabilities)
        totals = np.empty((count_blocks(n_samples), 2))
        self._workers.over_rows(n_samples, lambda first, last: total_blocks(samples, *pair, totals, first, last))
        set_units(totals, bits, work.cell_units)
        self._workers.over_rows(
            n_samples,
            lambda first, last: scale_blocks(samples, *pair, bits, work.cell_units, work.cells, first, last),
        )

    def _share(self, start: int, stop: int, do: Callable[[int, int, int], Any]) -> list[Any]:
        """Call `do(first, last, thread)` on a part of start..stop in each thread; the results in their order."""
        n_parts = self._workers.n_threads
        bounds = [start + (stop - start) * part // n_parts for part in range(n_parts + 1)]
        results: list[Any] = [None] * n_parts

        def do_part(part: int, _thread: int) -> None:
            results[part] = do(bounds[part], bounds[part + 1], part)

        self._workers.over_items(range(n_parts), do_part)
        return results

    def _sum_histogram(self, node: Any) -> None:
        columns, work = self._data.columns, self.work
        parts = [(work.histograms[node["histogram"]], work.joint_sums), *self._parts]

        def add_up(first: int, last: int, thread: int) -> None:
            hist, joint_sums = parts[thread]
            build_histogram(columns, work.rows[first:last], work.cells, joint_sums, hist)

        self._share(int(node["start"]), int(node["stop"]), add_up)
        for part, _ in parts[1:]:
            add_histogram(parts[0][0], part)
