"""Trainings that are killed after some rounds, and their checkpoint files."""

from __future__ import annotations

from pathlib import Path

import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import Callback, checkpoint
from abc_plugins.core.model import checkpoint as checkpoint_file

OPTIONS = {
    "n_estimators": 12,
    "num_leaves": 5,
    "max_depth": 2,
    "min_samples_leaf": 3,
    "search": 2,
    "gap": 1,
    "warmup": 2,
    "n_jobs": 1,
    "random_state": 3,
}
PAPER = {"method": "abcrobustlogit", "leaf_values": "paper"}
VARIANTS = {
    "directional": {},
    "best-first": {"tree_shape": "best-first", "trees_per_round": 3},
    "kept directions": {"gap": 3, "warmup": 0},
    "long steps": {"learning_rate": 5.0},
    "sampling": {"subsample": 0.6, "colsample": 0.5},
    "unguarded": {"guard": False, "learning_rate": 1.0},
    "early stopping": {"early_stopping_rounds": 5, "n_estimators": 60, "learning_rate": 0.7},
    "threads": {"n_jobs": 3},
    "paper": PAPER,
    "paper, sequential": {**PAPER, "leaf_values": "sequential"},
    "paper, worst class": {**PAPER, "base_choice": "worst", "search": 1, "gap": 0, "warmup": 0},
    "paper, drawn": {**PAPER, "base_choice": "drawn", "search": 1, "gap": 0},
    "paper, classic": {**PAPER, "method": "mart"},
    "paper, sampling": {**PAPER, "subsample": 0.6, "colsample": 0.5},
    "paper, unguarded": {**PAPER, "guard": False, "learning_rate": 1.0},
    "paper, early stopping": {**PAPER, "early_stopping_rounds": 5, "n_estimators": 60, "learning_rate": 0.5},
    "paper, threads": {**PAPER, "n_jobs": 3},
}


class Killed(Exception):
    pass


class KillAfter(Callback):
    """Ends the training as abruptly as an error can, after the checkpoint of that round was written."""

    order = 99

    def __init__(self, n_rounds: int) -> None:
        self.n_rounds = n_rounds

    def after_round(self, context):
        if context.round_index + 1 == self.n_rounds:
            raise Killed


def model(**changes) -> ABCBoostClassifier:
    return ABCBoostClassifier(**{**OPTIONS, **changes})


def interrupted(path: Path, data, n_rounds: int, *, every_rounds: int = 1, callbacks=(), options=None, **fit) -> None:
    with pytest.raises(Killed):
        model(**(options or {})).fit(
            data.X,
            data.y,
            data.weights,
            callbacks=[checkpoint(path, every_rounds=every_rounds), *callbacks, KillAfter(n_rounds)],
            **fit,
        )


def assert_identical(one: ABCBoostClassifier, other: ABCBoostClassifier) -> None:
    mine, yours = one.model_.flat(), other.model_.flat()
    for name in mine.__dataclass_fields__:
        assert getattr(mine, name).tobytes() == getattr(yours, name).tobytes(), name
    assert one.base_classes_.tolist() == other.base_classes_.tolist()
    assert one.train_loss_.tolist() == other.train_loss_.tolist()
    for name in ("evals_result_", "best_iteration_", "trees_grown_", "guarded_rounds_"):
        assert getattr(one, name) == getattr(other, name), name


def change_header(path: Path, **changes) -> None:
    stored = checkpoint_file.load_checkpoint(path)
    arrays = {name: changes.pop(name, array) for name, array in stored.arrays.items()}
    model_header = {**stored.model_header, **changes.pop("model_header", {})}
    checkpoint_file.save_checkpoint(
        path, checkpoint_file.Checkpoint({**stored.header, **changes}, model_header, stored.trees, arrays)
    )
