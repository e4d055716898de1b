"""Several good trials as one model: greedy selection by the log loss of rows that no member was trained on."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.atomic import replace_file
from abc_plugins.tuning.metric import SMALLEST_PROBABILITY

_STEPS = 25
"""Members that are added, one after the other and with repetition; a weight is a multiple of one divided by this."""

_CONTENTS = "ensemble.json"


@dataclass(frozen=True)
class EnsembleReport:
    """What an ensemble gains.

    Attributes
    ----------
    weights : dict of int to float
        Trial number -> weight; they sum to one.
    single_loss, ensemble_loss : float
        Log loss of the chosen trial alone and of the ensemble, over the rows of the outer folds. For each fold, the
        weights come from the other folds.
    n_better, n_folds : int
        Folds in which the ensemble has the lower log loss, and the number of folds.
    """

    weights: dict[int, float]
    single_loss: float
    ensemble_loss: float
    n_better: int
    n_folds: int

    @property
    def is_used(self) -> bool:
        """Whether it is better than the chosen trial alone."""
        return self.ensemble_loss < self.single_loss

    def sentence(self) -> str:
        """What came out, in a sentence."""
        members = ", ".join(f"trial {number} ({weight:.2f})" for number, weight in self.weights.items())
        change = f"log loss {self.ensemble_loss:.4g} instead of {self.single_loss:.4g}"
        where = f"lower in {self.n_better} of {self.n_folds} folds"
        if self.is_used:
            return f"{members}: {change}, {where}"
        return f"not used, a single model is as good: {change}, {where}"


def build_ensemble(
    probabilities: dict[int, list[Floats]],
    codes: Sequence[Integers],
    weights: Sequence[Floats | None],
    single: int,
) -> EnsembleReport:
    """Choose members, and find out what they gain on folds that did not choose them.

    Parameters
    ----------
    probabilities : dict
        Trial number -> probabilities for the test rows, fold by fold.
    codes, weights : sequence of array, one per fold
        Class indices and weights of these rows.
    single : int
        Number of the trial that would be used alone.
    """
    numbers = list(probabilities)
    # Of every candidate, the probability of the right class is all that is needed.
    right = [
        np.stack([probabilities[number][fold][np.arange(own.size), own] for number in numbers])
        for fold, own in enumerate(codes)
    ]
    masses = [np.ones(own.size) if mass is None else mass for own, mass in zip(codes, weights, strict=True)]
    alone = np.eye(len(numbers))[numbers.index(single)]
    single_losses, ensemble_losses = [], []
    for fold in range(len(right)):
        others = [index for index in range(len(right)) if index != fold] or [fold]
        found = _select(
            np.concatenate([right[index] for index in others], axis=1),
            np.concatenate([masses[index] for index in others]),
        )
        single_losses.append(_log_loss(alone @ right[fold], masses[fold]))
        ensemble_losses.append(_log_loss(found @ right[fold], masses[fold]))
    final = _select(np.concatenate(right, axis=1), np.concatenate(masses))
    return EnsembleReport(
        weights={number: float(share) for number, share in zip(numbers, final, strict=True) if share > 0},
        single_loss=float(np.mean(single_losses)),
        ensemble_loss=float(np.mean(ensemble_losses)),
        n_better=sum(mine < alone_ for mine, alone_ in zip(ensemble_losses, single_losses, strict=True)),
        n_folds=len(right),
    )


def _select(right: Floats, mass: Floats) -> Floats:
    """Weights of the candidates by greedy selection (Caruana et al. 2004): add whichever lowers the loss most.

    Parameters
    ----------
    right : array of shape (n_candidates, n_samples)
        Probability of the right class.
    mass : array of shape (n_samples,)
    """
    chosen: Counter[int] = Counter()
    total = np.zeros(right.shape[1])
    best_loss, best = np.inf, Counter[int]()
    for step in range(1, _STEPS + 1):
        losses = [_log_loss((total + row) / step, mass) for row in right]
        index = int(np.argmin(losses))
        chosen[index] += 1
        total += right[index]
        if losses[index] < best_loss:
            best_loss, best = losses[index], chosen.copy()
    counts = np.array([best[index] for index in range(right.shape[0])], dtype=np.float64)
    return counts / counts.sum()


def _log_loss(right: Floats, mass: Floats) -> float:
    return float(-np.average(np.log(np.maximum(right, SMALLEST_PROBABILITY)), weights=mass))


class WeightedEnsemble(ClassifierMixin, BaseEstimator):
    """Fitted classifiers whose probabilities are averaged with weights.

    Parameters
    ----------
    members : list of classifiers
        Fitted on the same labels.
    weights : list of float
        They sum to one.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    """

    def __init__(self, members: list[Any], weights: list[float]) -> None:
        self.members = members
        self.weights = weights

    @property
    def classes_(self) -> AnyArray:
        """The labels."""
        return np.asarray(self.members[0].classes_)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WeightedEnsemble:
        """Fit all members."""
        for member in self.members:
            member.fit(X, y, sample_weight=sample_weight)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Weighted mean of the members' probabilities, array of shape (n_samples, n_classes)."""
        parts = zip(self.weights, self.members, strict=True)
        return np.asarray(sum(weight * np.asarray(member.predict_proba(X)) for weight, member in parts))

    def predict(self, X: Any) -> AnyArray:
        """Predict the label of every sample."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the members and their weights to one zip file, each member in the format of its library."""
        engine, columns = _engine_of(self.members[0]), getattr(self.members[0], "columns_", None)
        contents = {
            "engine": engine,
            "weights": list(self.weights),
            "classes": self.classes_.tolist(),
            "columns": None if columns is None else columns.described(),
        }
        with tempfile.TemporaryDirectory() as folder, replace_file(path) as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr(_CONTENTS, json.dumps(contents))
            for index, member in enumerate(self.members):
                name = f"member_{index}{_SUFFIXES[engine]}"
                save_estimator(member, os.path.join(folder, name))
                archive.write(os.path.join(folder, name), name)

    @classmethod
    def load_model(cls, path: str | os.PathLike[str]) -> WeightedEnsemble:
        """Read an ensemble that `save_model` wrote; members on LightGBM are a `lightgbm.Booster` each."""
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
            contents = json.loads(archive.read(_CONTENTS))
            members = []
            for index in range(len(contents["weights"])):
                name = f"member_{index}{_SUFFIXES[contents['engine']]}"
                # Read by its name alone: nothing else of the archive is unpacked.
                Path(folder, name).write_bytes(archive.read(name))
                members.append(_LOADERS[contents["engine"]](os.path.join(folder, name), contents))
        return cls(members, contents["weights"])


def save_estimator(estimator: Any, path: str) -> None:
    """Write a fitted estimator in the format of its library."""
    if hasattr(estimator, "booster_"):  # LightGBM
        estimator.booster_.save_model(path)
    else:
        estimator.save_model(path)


class _LightGBMMember:
    """A LightGBM model file as a classifier."""

    def __init__(self, path: str) -> None:
        import lightgbm

        self.booster_ = lightgbm.Booster(model_file=path)

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities."""
        return self.booster_.predict(X)


def _load_native(path: str, _: dict[str, Any]) -> Any:
    from abc_plugins.classifier import ABCBoostClassifier

    return ABCBoostClassifier.load_model(path)


def _load_lightgbm(path: str, contents: dict[str, Any]) -> Any:
    return _with_labels(_LightGBMMember(path), contents)


def _load_xgboost(path: str, contents: dict[str, Any]) -> Any:
    from abc_plugins.xgb import ABCXGBClassifier

    model = ABCXGBClassifier()
    model.load_model(path)
    return _with_labels(model, contents)


def _with_labels(model: Any, contents: dict[str, Any]) -> Any:
    from abc_plugins.tuning.engines.library import TableClassifier
    from abc_plugins.tuning.engines.tables import KnownColumns

    classes, columns = np.asarray(contents["classes"]), KnownColumns.from_description(contents["columns"])
    return TableClassifier.around(model, classes, columns)


_SUFFIXES = {"native": ".abc", "lgbm": ".txt", "xgb": ".ubj"}
_LOADERS: dict[str, Callable[[str, dict[str, Any]], Any]] = {
    "native": _load_native,
    "lgbm": _load_lightgbm,
    "xgb": _load_xgboost,
}


def _engine_of(member: Any) -> str:
    if hasattr(member, "booster_"):
        return "lgbm"
    return "xgb" if hasattr(member, "get_booster") else "native"
