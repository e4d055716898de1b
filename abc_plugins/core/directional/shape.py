"""The shape and depth of directional trees, chosen from the data.

Symmetric trees are better on small data: each split is supported by all samples. Best-first trees, which split
different parts of the data in different places, are better on large data, and where there are few splits to choose
from.
"""

from __future__ import annotations

from dataclasses import replace

from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.settings import Settings

_SPLITS_PER_CLASS = 4
"""With fewer possible splits of all features together for each class, there is little to choose from."""

_MANY_ROWS = 2**15

_LEAST_DEPTH, _MOST_DEPTH = 6, 7
_ROWS_PER_LEAF = 25
"""A symmetric tree gets one more level if its leaves then still have this many samples in the mean."""


def choose_shape(data: TrainingData, settings: Settings, n_samples: int) -> Settings:
    """Put "best-first" or "symmetric" in place of "auto", and the depth of symmetric trees in place of None."""
    columns = data.columns
    shape = settings.tree_shape
    if shape == "auto":
        best_first = columns.n_splits < _SPLITS_PER_CLASS * data.n_classes or n_samples > _MANY_ROWS
        shape = "best-first" if best_first else "symmetric"
    if shape == "best-first":
        return replace(settings, tree_shape=shape)
    depth = settings.max_depth or max(_LEAST_DEPTH, min((n_samples // _ROWS_PER_LEAF).bit_length() - 1, _MOST_DEPTH))
    return replace(settings, tree_shape=shape, max_depth=depth)
