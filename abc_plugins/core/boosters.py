"""Boosters of all methods: how one is made, and how it goes on from a checkpoint."""

from __future__ import annotations

from dataclasses import replace

from abc_plugins.core.bins.training_data import TrainingData
from abc_plugins.core.booster import Booster
from abc_plugins.core.directional.booster import DirectionalBooster
from abc_plugins.core.directional.schedule import default_trees_per_round
from abc_plugins.core.directional.shape import choose_shape
from abc_plugins.core.model.checkpoint import Checkpoint
from abc_plugins.core.model.ensemble import TreeEnsemble
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import Settings

AnyBooster = Booster | DirectionalBooster


def settle(data: TrainingData, settings: Settings, n_samples: int | None = None) -> Settings:
    """Fill in what settings leave to the data: the shape of directional trees, and how many a round has.

    Parameters
    ----------
    data : TrainingData
    settings : Settings
    n_samples : int, optional
        Samples to choose for if `data` has only some of them, as where a part is held out.
    """
    if not settings.is_directional:
        return settings
    n_samples = data.n_samples if n_samples is None else n_samples
    n_trees = settings.trees_per_round or default_trees_per_round(n_samples, data.n_classes)
    return choose_shape(data, replace(settings, trees_per_round=n_trees), n_samples)


def make_booster(data: TrainingData, settings: Settings, workers: Workers) -> AnyBooster:
    """Make the booster of a method."""
    settings = settle(data, settings)
    return (DirectionalBooster if settings.is_directional else Booster)(data, settings, workers)


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
