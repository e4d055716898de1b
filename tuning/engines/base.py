"""The three engines behind one interface: bin a fold once, fit it many times, make the estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from abc_plugins.core.pairs import trees_by_round
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import check_choice
from abc_plugins.core.schedule import BaseClassSchedule
from tuning.metric import TunedMetric
from tuning.pruning import ABCPruningCallback
from tuning.space import SCHEDULE

ENGINES = ("native", "lgbm", "xgb")


@dataclass(frozen=True)
class Samples:
    """Rows of one part of a fold.

    Attributes
    ----------
    X : array of shape (n_samples, n_features)
    codes : array of int32, shape (n_samples,)
    weights : array of float64, shape (n_samples,)
    """

    X: AnyArray
    codes: Integers
    weights: Floats


@dataclass(frozen=True)
class FoldData:
    """A fold with its bins.

    Attributes
    ----------
    binned : object
        The training rows, and whatever else the engine made of them.
    valid, test : Samples
    """

    binned: Any
    valid: Samples
    test: Samples


@dataclass(frozen=True)
class Stopping:
    """When a fit ends: at the latest after `max_rounds`, or `patience` rounds after the best one."""

    max_rounds: int
    patience: int


@dataclass(frozen=True)
class FoldFit:
    """What a fit on one fold gave.

    Attributes
    ----------
    n_rounds : int
        Rounds of the best model.
    trees_grown : int
        Trees of all rounds, those after the best one and those of losing candidates included.
    bases : list of int
        Base class of every round of the best model, -1 for a classic one.
    probabilities : array of shape (n_test, n_classes)
    """

    n_rounds: int
    trees_grown: int
    bases: list[int]
    probabilities: Floats


class Engine(ABC):
    """An engine.

    Parameters
    ----------
    n_classes : int
    metric : TunedMetric
    fixed : dict
        Parameters of the estimator that are not tuned.
    n_threads : int
    seed : int
    """

    name: str
    defaults: Mapping[str, Any]
    """The estimator's own values of tuned parameters; those without one are left to the estimator."""

    bin_parameters: tuple[str, ...]
    """Parameters that the bins depend on; they can only be fixed."""

    def __init__(
        self, n_classes: int, metric: TunedMetric, fixed: Mapping[str, Any], n_threads: int, seed: int
    ) -> None:
        self.n_classes = n_classes
        self.metric = metric
        self.fixed = {"random_state": seed, **fixed}
        self.n_threads = n_threads

    @abstractmethod
    def bin_fold(self, train: Samples, valid: Samples, test: Samples) -> FoldData:
        """Compute the bins of a fold."""

    @abstractmethod
    def fit(
        self, fold: FoldData, parameters: Mapping[str, Any], stopping: Stopping, callback: ABCPruningCallback
    ) -> FoldFit:
        """Fit on a fold with the estimator's `parameters`."""

    @abstractmethod
    def estimator(self, parameters: Mapping[str, Any]) -> Any:
        """Make the scikit-learn estimator."""

    def fit_all(self, estimator: Any, X: Any, classes: AnyArray, codes: Integers, weights: Floats | None) -> None:
        """Fit the estimator on all data."""
        estimator.fit(X, classes[codes], sample_weight=weights)

    @staticmethod
    def translate(parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Turn names of the search space into the estimator's."""
        return dict(parameters)

    def plain(self, max_rounds: int) -> dict[str, Any]:
        """Parameters that make every round a classic one."""
        return {"warmup": max_rounds}

    def count_trees(self, parameters: Mapping[str, Any], n_rounds: int) -> int:
        """Trees that the schedule grows in so many rounds."""
        options = {name: parameters[name] for name in SCHEDULE if name in parameters}
        schedule = BaseClassSchedule(self.n_classes, **options, adaptive=self.n_classes > 2)
        return trees_by_round(schedule, n_rounds)[-1] if n_rounds else 0


def engine_class(name: str) -> type[Engine]:
    """Find an engine; its package is imported only here."""
    check_choice("engine", name, ENGINES)
    if name == "native":
        from tuning.engines.native import NativeEngine

        return NativeEngine
    package = {"lgbm": "lightgbm", "xgb": "xgboost"}[name]
    if find_spec(package) is None:
        raise ModuleNotFoundError(f"engine {name!r} needs {package}: pip install 'abc-plugins[{name}]'")
    if name == "lgbm":
        from tuning.engines.lgbm import LightGBMEngine

        return LightGBMEngine
    from tuning.engines.xgb import XGBoostEngine

    return XGBoostEngine


def two_columns(probabilities: Any) -> Floats:
    """Probabilities of shape (n_samples, n_classes), also from an objective for two classes."""
    probabilities = np.asarray(probabilities, dtype=np.float64)
    return probabilities if probabilities.ndim == 2 else np.column_stack((1.0 - probabilities, probabilities))
