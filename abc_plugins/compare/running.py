"""Fit every contender on the same rows, interleaved, and score it on the same test rows."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import abc_plugins
from abc_plugins.compare.contenders import CompareSettings, Contender, contenders
from abc_plugins.core.arrays import AnyArray, Floats
from abc_plugins.core.checks import check_integer
from abc_plugins.datasets import Dataset

_SMALLEST_PROBABILITY = 1e-15
_WARM_UP_ROUNDS = 12  # ten classic rounds by default, then a search and a kept base
_PEER_PACKAGES = ("numpy", "numba", "scikit-learn", "lightgbm", "xgboost")


@dataclass(frozen=True)
class Result:
    """How a contender did.

    Attributes
    ----------
    name : str
    note : str
        Why there are no figures, if there are none.
    n_errors : int or None
        Test rows with a wrong label.
    error : float or None
        Their share.
    log_loss : float or None
        Mean over the test rows.
    seconds : float or None
        Time to fit, the best of all repeats.
    """

    name: str
    note: str = ""
    n_errors: int | None = None
    error: float | None = None
    log_loss: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The results of all contenders and what they were measured on."""

    dataset: str
    note: str
    n_train: int
    n_test: int
    n_features: int
    n_classes: int
    seed: int | None
    repeats: int
    settings: CompareSettings
    versions: dict[str, str]
    results: list[Result]


def compare(
    dataset: Dataset,
    settings: CompareSettings,
    *,
    test_size: float = 0.5,
    seed: int = 0,
    repeats: int = 1,
    entrants: Sequence[Contender] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compare all contenders on one data set.

    Parameters
    ----------
    dataset : Dataset
    settings : CompareSettings
    test_size, seed : float and int
        Of the random split, if the data set has no split of its own.
    repeats : int, default=1
        How often each one is fitted; contenders take turns, and the best time counts.
    entrants : sequence of Contender, optional
        All by default.
    progress : function, optional
        Told what is being done.
    """
    check_integer("repeats", repeats, minimum=1)
    train, test = dataset.split(test_size=test_size, seed=seed)
    classes = np.unique(dataset.y[train])
    codes = _codes(dataset.y, classes)
    X_train, y_train = dataset.X[train], codes[train]
    entrants = contenders() if entrants is None else entrants
    _warm_up([entrant for entrant in entrants if entrant.is_installed], X_train, y_train, settings, progress)

    def run(entrant: Contender, repeat: int) -> Result:
        if not entrant.is_installed:
            return Result(entrant.name, f"not installed: pip install 'abc-plugins[{entrant.extra}]'")
        progress(f"{entrant.name}, run {repeat + 1} of {repeats}")
        model, seconds = _timed_fit(entrant.make(settings), X_train, y_train)
        return _score(entrant.name, model.predict_proba(dataset.X[test]), codes[test], seconds)

    runs = [[run(entrant, repeat) for entrant in entrants] for repeat in range(repeats)]
    return Comparison(
        dataset=dataset.name,
        note=dataset.note,
        n_train=train.size,
        n_test=test.size,
        n_features=dataset.X.shape[1],
        n_classes=classes.size,
        seed=None if dataset.train_index is not None else seed,
        repeats=repeats,
        settings=settings,
        versions=_versions(),
        results=[min(own_runs, key=lambda result: result.seconds or 0.0) for own_runs in zip(*runs, strict=True)],
    )


def _codes(y: AnyArray, classes: AnyArray) -> AnyArray:
    """Index of every label among the classes; -1 for one that no training row has."""
    index = {label: code for code, label in enumerate(classes.tolist())}
    return np.array([index.get(label, -1) for label in y.tolist()])


def _warm_up(
    entrants: Sequence[Contender], X: AnyArray, y: AnyArray, settings: CompareSettings, progress: Callable[[str], None]
) -> None:
    """Import packages and compile kernels before the clock runs: past the warm-up rounds, on the same data."""
    progress("warming up")
    for entrant in entrants:
        entrant.make(dataclasses.replace(settings, n_estimators=min(settings.n_estimators, _WARM_UP_ROUNDS))).fit(X, y)


def _timed_fit(model: Any, X: AnyArray, y: AnyArray) -> tuple[Any, float]:
    start = time.perf_counter()
    model.fit(X, y)
    return model, time.perf_counter() - start


def _score(name: str, probabilities: Floats, codes: AnyArray, seconds: float) -> Result:
    known = codes >= 0
    own = np.where(known, probabilities[np.arange(codes.size), codes], 0.0)
    n_errors = int((probabilities.argmax(axis=1) != codes).sum())
    log_loss = float(-np.log(np.maximum(own, _SMALLEST_PROBABILITY)).mean())
    return Result(name, "", n_errors, n_errors / codes.size, log_loss, seconds)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "abc-plugins": abc_plugins.__version__}
    for package in _PEER_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions
