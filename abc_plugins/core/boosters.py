"""Boosters of all methods: how one is made, and how it goes on from a checkpoint."""

from __future__ import annotations

from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.booster import Booster
from abc_plugins.core.directional.booster import DirectionalBooster
from abc_plugins.core.directional.shape import choose_shape
from abc_plugins.core.model.checkpoint import Checkpoint
from abc_plugins.core.model.ensemble import TreeEnsemble
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import Settings

AnyBooster = Booster | DirectionalBooster


def make_booster(data: TrainingData, settings: Settings, workers: Workers) -> AnyBooster:
    """Make the booster of a method."""
    if settings.is_directional:
        return DirectionalBooster(data, choose_shape(data, settings), workers)
    return Booster(data, settings, workers)


def restore_booster(booster: AnyBooster, checkpoint: Checkpoint) -> None:
    """Bring a new booster on the same data to the state of the checkpoint.

    Raises
    ------
    ModelFormatError
        If the state does not fit the data.
    """
    header, model = checkpoint.model_header, booster.model
    booster.model = TreeEnsemble.from_flat(model.n_classes, model.n_features, checkpoint.trees, model.start_scores)
    booster.set_state(header["base_classes"], checkpoint.arrays)
    booster.train_loss = [float(loss) for loss in header["train_loss"]]
    booster.trees_grown = header["trees_grown"]
    booster.guarded_rounds = header["guarded_rounds"]
