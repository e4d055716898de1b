"""Arrays that the growth of trees works on: the nodes under construction, the trees of a round, the work space."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.bins.columns import Columns
from abc_plugins.core.bins.lists import SpareCodes, make_spare_codes
from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Derivatives, Floats, Integers
from abc_plugins.core.runtime.jit import kernel
from abc_plugins.core.trees.categories import CategoryOrder, make_category_order
from abc_plugins.core.trees.feature_choice import FeatureChoice
from abc_plugins.core.trees.splitting import Thresholds, make_thresholds

NODE = np.dtype(
    [
        # the node as it will be in the tree, see `ensemble.Tree`; `bin` is the threshold as a bin number
        ("feature", np.int32),
        ("bin", np.int32),
        ("left", np.int32),
        ("right", np.int32),
        ("missing_left", np.bool_),
        ("gain", np.float64),
        ("weight", np.float64),
        # its samples: rows[start:stop], their cell sums, its place among the leaves, how many splits are above it, and
        # where its histogram is
        ("start", np.int64),
        ("stop", np.int64),
        ("z", np.int64),
        ("wh", np.int64),
        ("slot", np.int64),
        ("depth", np.int64),
        ("histogram", np.int64),
        # the best split of a leaf that has been searched; no gain: none
        ("split_gain", np.float64),
        ("split_feature", np.int64),
        ("split_bin", np.int64),
        ("split_missing_left", np.bool_),
        ("split_z", np.int64),
        ("split_wh", np.int64),
    ],
    align=True,
)
"""A node of a tree under construction. The root is node 0, and the t-th split makes nodes 2t - 1 and 2t."""


SPLIT, SUM, SUMMED, DONE = range(4)
"""Where the growth of a tree stands: the best leaf is to be split; the histogram of a node is to be summed; it was; and
nothing is left to do."""


class RoundTrees(NamedTuple):
    """The trees of a round.

    Attributes
    ----------
    plus, minus : arrays of int64, shape (n_trees,)
        Class and base class; of no meaning for trees along directions.
    z, h : arrays of DERIVATIVE, shape (n_trees, n_samples)
        Derivatives along the direction of each tree; no rows for trees of a class and its base.
    usable : array of bool, shape (n_trees, n_split_features)
        Features to split on.
    sorts : array of bool, shape (n_trees, n_split_features)
        Categorical features whose categories a tree sorts, see `categories`.
    places : array of uint8, shape (n_trees, n_places)
        The place of every bin of those features.
    max_leaves : array of int64, shape (n_trees,)
        J, or fewer.
    nodes : array of NODE, shape (n_trees, 2 * num_leaves - 1)
    n_nodes : array of int64, shape (n_trees,)
    leaf_ids : array of uint16, shape (n_trees, n_samples)
        For the samples that a tree is grown from: the node number of their leaf.
    seeds : array of uint64, shape (n_trees,)
        Of the features that are drawn for each node.
    """

    plus: AnyArray
    minus: AnyArray
    z: Derivatives
    h: Derivatives
    usable: Booleans
    sorts: Booleans
    places: AnyArray
    max_leaves: AnyArray
    nodes: AnyArray
    n_nodes: AnyArray
    leaf_ids: AnyArray
    seeds: AnyArray


class WorkSpace(NamedTuple):
    """What growing one tree at a time needs; allocated once per fit.

    Attributes
    ----------
    cells : array of int64, shape (n_samples, 2)
    cell_units : array of float64, shape (2,)
        What one unit of the sums of z and of h is worth.
    rows, rows_aside : arrays of uint32, shape (n_samples,)
        Samples, those of a node next to each other; and the right child's while a node is being split.
    histograms : array of int64, shape (n_leaves, n_cells, 2)
        One for each leaf that may still be split, as far as memory allows: then there are fewer, at least three. The
        last two are of the leaves made last, and those of later leaves are forgotten once they have been searched.
    joint_sums : array of int64, shape (n_joint_cells, 2)
    usable : array of bool, shape (n_leaves, n_split_features)
    thresholds : Thresholds
    progress : array of int64, shape (3,)
        Number of nodes, what is next (SPLIT and so on), and the node to sum.
    order : CategoryOrder
    choice : FeatureChoice
    spare : SpareCodes
    """

    cells: AnyArray
    cell_units: Floats
    rows: AnyArray
    rows_aside: AnyArray
    histograms: AnyArray
    joint_sums: AnyArray
    usable: Booleans
    thresholds: Thresholds
    progress: AnyArray
    order: CategoryOrder
    choice: FeatureChoice
    spare: SpareCodes


def make_workspace(columns: Columns, num_leaves: int, n_histograms: int, choice: FeatureChoice) -> WorkSpace:
    """Allocate work space; for best-first growth `n_histograms` is `num_leaves`, or fewer but at least 3."""
    n_samples = columns.codes.shape[1]
    return WorkSpace(
        cells=np.empty((n_samples, 2), dtype=np.int64),
        cell_units=np.zeros(2),
        rows=np.empty(n_samples, dtype=np.uint32),
        rows_aside=np.empty(n_samples, dtype=np.uint32),
        histograms=np.empty((n_histograms, columns.total_cells, 2), dtype=np.int64),
        joint_sums=np.empty((int(columns.joint.start[-1]), 2), dtype=np.int64),
        usable=np.empty((num_leaves, columns.feature.size), dtype=np.bool_),
        thresholds=make_thresholds(int(columns.n_bins.max(initial=0))),
        progress=np.zeros(3, dtype=np.int64),
        order=make_category_order(columns.n_bins, columns.is_categorical),
        choice=choice,
        spare=make_spare_codes(columns),
    )


@kernel
def weigh_nodes(nodes, n_nodes, leaf_ids, weights):
    """Set the weight of every node to that of its samples, given the node number of each one's leaf."""
    for i in range(n_nodes):
        nodes[i].weight = 0.0
    for i in range(leaf_ids.size):
        nodes[leaf_ids[i]].weight += weights[i]
    for i in range(n_nodes - 1, -1, -1):
        if nodes[i].feature >= 0:
            nodes[i].weight = nodes[nodes[i].left].weight + nodes[nodes[i].right].weight


class ModelNodes(NamedTuple):
    """Nodes of some trees, one behind the other, to be filled in by `copy_nodes`.

    Attributes
    ----------
    split_feature, bin : arrays of int32
        The feature as an index into those of `Columns`, and the bin.
    feature, threshold, missing_left, left, right, gain, weight : arrays
        As in `ensemble.Tree`.
    """

    split_feature: Integers
    bin: Integers
    feature: Integers
    threshold: Floats
    missing_left: Booleans
    left: Integers
    right: Integers
    gain: Floats
    weight: Floats


@kernel
def copy_nodes(nodes, tree, node_start, edges, first_edge, columns, out):
    """Copy the nodes of some trees to those of a model; thresholds are `edges`, features those of the user's data."""
    split_feature, bins, feature, threshold, missing_left, left, right, gain, weight = out
    for j in range(tree.size):
        for i in range(node_start[j + 1] - node_start[j]):
            node, to = nodes[tree[j], i], node_start[j] + i
            f = node.feature
            split_feature[to] = f
            bins[to] = node.bin
            feature[to] = columns[f] if f >= 0 else f
            threshold[to] = edges[first_edge[f] + node.bin] if f >= 0 else 0.0
            missing_left[to] = node.missing_left
            left[to] = node.left
            right[to] = node.right
            gain[to] = node.gain
            weight[to] = node.weight
