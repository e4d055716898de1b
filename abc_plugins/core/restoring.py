"""The state of a booster in a checkpoint: what is stored of it, and how a new booster takes it over."""

from __future__ import annotations

import numpy as np

from abc_plugins.core.booster import Booster
from abc_plugins.core.model.checkpoint import Checkpoint
from abc_plugins.core.model.ensemble import TreeEnsemble
from abc_plugins.core.model.validation import ModelFormatError
from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.core.schedule import PROBE_EVERY

_SCORES, _CLASS_LOSSES, _PROBES = "scores", "class_losses", "probes"


def booster_arrays(booster: Booster) -> dict[str, Floats]:
    """The part of a booster's state that its model does not tell; scores and losses are not copied."""
    probes = np.array(booster.schedule.probes, dtype=np.float64).reshape(-1, 2)
    return {_SCORES: booster._scores, _CLASS_LOSSES: booster._class_losses, _PROBES: probes}


def restore_booster(booster: Booster, checkpoint: Checkpoint) -> None:
    """Bring a new booster on the same data to the state of the checkpoint.

    Raises
    ------
    ModelFormatError
        If the state does not fit the data.
    """
    header, arrays = checkpoint.model_header, checkpoint.arrays
    n_probes = arrays[_PROBES].size // 2 if _PROBES in arrays else 0
    shapes = {
        _SCORES: booster._scores.shape,
        _CLASS_LOSSES: booster._class_losses.shape,
        _PROBES: (min(n_probes, len(header["base_classes"]) // PROBE_EVERY), 2),
    }
    for name, shape in shapes.items():
        if name not in arrays or arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
            raise ModelFormatError(f"{name} must be finite numbers of shape {shape}.")
    booster._scores = arrays[_SCORES]
    booster._restore_probabilities()
    booster._class_losses = arrays[_CLASS_LOSSES]
    booster.model = TreeEnsemble.from_flat(booster.model.n_classes, booster.model.n_features, checkpoint.trees)
    for base in header["base_classes"]:
        booster.schedule.record(base)
    for seen, unseen in arrays[_PROBES].tolist():
        booster.schedule.report_probe(seen, unseen)
    booster.train_loss = [float(loss) for loss in header["train_loss"]]
    booster.trees_grown = header["trees_grown"]
    booster.guarded_rounds = header["guarded_rounds"]
