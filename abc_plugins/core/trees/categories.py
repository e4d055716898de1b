"""The order of categories: for the length of one tree a categorical feature is an ordered one.

The best split of categories into two groups keeps them in the order of sum z / sum h, which is exact for a scalar
direction. A tree takes that order from its root, where the sums have the most samples, and smooths them, so that rare
categories stay in the middle. In half of the trees, drawn at random, a feature keeps the order of its category
numbers instead: categories often have a natural order, and two kinds of splits are better than either. Where that
order turns out to be the better one, it is kept in all trees, see `category_orders`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Booleans
from abc_plugins.core.runtime.jit import kernel, part_of_kernel
from abc_plugins.core.trees.fixedpoint import packed_h, packed_z, to_float

_SMOOTHING = 1.0
"""Added to the sum of hessians of every category."""


class CategoryOrder(NamedTuple):
    """The order of the categories of all features during the growth of one tree.

    Attributes
    ----------
    is_sorted : array of bool, shape (n_split_features,)
        Whether the feature is categorical and its categories are sorted in this tree.
    start : array of int64, shape (n_split_features,)
        Where the places of a categorical feature begin in the arrays below.
    bin_at, place_of : arrays of uint8
        The bin at every place, and the place of every bin.
    cells : array of int64, shape (n_bins, 2)
        Work space: the histogram cells of one feature in its order.
    """

    is_sorted: Booleans
    start: AnyArray
    bin_at: AnyArray
    place_of: AnyArray
    cells: AnyArray


def make_category_order(n_bins: AnyArray, is_categorical: Booleans) -> CategoryOrder:
    """Make the order of no tree yet."""
    sizes = np.where(is_categorical, n_bins, 0).astype(np.int64)
    return CategoryOrder(
        is_sorted=np.zeros(sizes.size, dtype=np.bool_),
        start=np.cumsum(sizes) - sizes,
        bin_at=np.zeros(sizes.sum(), dtype=np.uint8),
        place_of=np.zeros(sizes.sum(), dtype=np.uint8),
        cells=np.empty((sizes.max(initial=0), 2), dtype=np.int64),
    )


@kernel
def sort_categories(order, wanted, first_cell, n_bins, hist, rules, h_unit):
    """Sort the categories of the wanted features by the sums of the root, pairs of residuals and hessians."""
    smoothing = _SMOOTHING / h_unit if h_unit > 0.0 else 1.0
    ratio = np.empty(256)
    for f in range(order.is_sorted.size):
        order.is_sorted[f] = wanted[f]
        if wanted[f]:
            for b in range(n_bins[f]):
                cell = first_cell[f] + b
                ratio[b] = to_float(hist[cell, 0]) / (to_float(hist[cell, 1] & rules.hessian_mask) + smoothing)
            _sort_by(ratio, order, f, np.int64(n_bins[f]))


@kernel
def sort_packed_categories(order, wanted, first_cell, n_bins, hist, h_unit):
    """Sort the categories of the wanted features by the sums of the root, packed cells."""
    smoothing = _SMOOTHING / h_unit if h_unit > 0.0 else 1.0
    ratio = np.empty(256)
    for f in range(order.is_sorted.size):
        order.is_sorted[f] = wanted[f]
        if wanted[f]:
            for b in range(n_bins[f]):
                cell = hist[first_cell[f] + b]
                ratio[b] = packed_z(cell) / (packed_h(cell) + smoothing)
            _sort_by(ratio, order, f, np.int64(n_bins[f]))


@part_of_kernel
def _sort_by(ratio, order, f, n):
    """Sort `n` bins of a feature, by insertion: there are few, and a sort takes a second to compile."""
    start = order.start[f]
    for b in range(n):
        place = b
        while place > 0 and ratio[order.bin_at[start + place - 1]] > ratio[b]:
            order.bin_at[start + place] = order.bin_at[start + place - 1]
            place -= 1
        order.bin_at[start + place] = b
    for place in range(n):
        order.place_of[start + order.bin_at[start + place]] = place


@part_of_kernel
def put_in_order(order, f, hist, first_cell, n_bins):
    """Copy the histogram cells of a sorted feature to `order.cells`, in its order."""
    for place in range(n_bins):
        cell = first_cell + order.bin_at[order.start[f] + place]
        order.cells[place, 0] = hist[cell, 0]
        order.cells[place, 1] = hist[cell, 1]


@part_of_kernel
def places_of(order, f, n_bins):
    """The place of every bin of a feature; empty if its bins are in their own order."""
    if order.is_sorted[f]:
        return order.place_of[order.start[f] : order.start[f] + n_bins]
    return order.place_of[:0]
