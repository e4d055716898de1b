"""The three engines behind one interface: each fits its own estimator, on folds as in the final fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from abc_plugins.core.options import BoostOptions
from abc_plugins.core.pairs import trees_by_round
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import check_choice
from abc_plugins.core.schedule import BaseClassSchedule
from abc_plugins.core.settings import DIRECTIONAL
from abc_plugins.tuning.space import SCHEDULE, Space
from abc_plugins.tuning.study.rounds import RoundCallback

ENGINES = ("native", "lgbm", "xgb")
PACKAGES: dict[str, list[str]] = {"native": [], "lgbm": ["lightgbm"], "xgb": ["xgboost"]}
"""What an engine needs beyond this package."""


@dataclass(frozen=True)
class Samples:
    """Rows of one part of a fold.

    Attributes
    ----------
    X : table of n_samples rows
        Of the kind that the user gave.
    codes : array of int, shape (n_samples,)
        Class indices.
    weights : array of float64, shape (n_samples,), or None
    """

    X: Any
    codes: Integers
    weights: Floats | None


@dataclass(frozen=True)
class FoldData:
    """A fold: rows to grow trees from, rows that stop the training, rows that score the trial.

    Attributes
    ----------
    train, valid : Samples
        Their class indices count the classes that `train` has.
    test : Samples
        With indices of all classes.
    present : array of int
        The classes that `train` has.
    """

    train: Samples
    valid: Samples
    test: Samples
    present: Integers


@dataclass(frozen=True)
class FoldStopping:
    """When a fit ends: at the latest after `max_rounds`, or some rounds after the best one.

    Attributes
    ----------
    max_rounds : int
    patience : int or None
        Rounds without a gain after which the training stops; None for a number that suits the learning rate.
    """

    max_rounds: int
    patience: int | None = None

    def patience_at(self, learning_rate: float) -> int:
        """Rounds to wait for a gain: small steps need more of them."""
        if self.patience is not None:
            return self.patience
        return int(min(max(_STEPS_WITHOUT_GAIN / learning_rate, _LEAST_PATIENCE), _MOST_PATIENCE))


_STEPS_WITHOUT_GAIN, _LEAST_PATIENCE, _MOST_PATIENCE = 5.0, 25, 100


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
        Base class of every round of the best model, -1 for one without.
    probabilities : array of shape (n_test, n_classes)
    """

    n_rounds: int
    trees_grown: int
    bases: list[int]
    probabilities: Floats


class TunedEngine(ABC):
    """An engine.

    Parameters
    ----------
    fixed : dict
        Parameters of the estimator that are not tuned.
    n_threads : int
    seed : int

    Attributes
    ----------
    n_classes : int
        Set when the labels have been read.
    """

    name: str
    not_tuned: Mapping[str, Any]
    """Values that conditions of the space see where a parameter is neither drawn nor fixed."""

    n_classes: int

    def __init__(self, fixed: Mapping[str, Any], n_threads: int, seed: int) -> None:
        self.fixed = {"random_state": seed, **fixed}
        self.n_threads = n_threads

    @abstractmethod
    def defaults(self, n_samples: int, space: Space) -> dict[str, Any]:
        """The estimator's own values of parameters of the space, on `n_samples` rows with early stopping."""

    @abstractmethod
    def estimator(self, parameters: Mapping[str, Any]) -> Any:
        """Make the scikit-learn estimator of a fit without early stopping."""

    @abstractmethod
    def fit_fold(
        self, fold: FoldData, parameters: Mapping[str, Any], stopping: FoldStopping, callback: RoundCallback
    ) -> FoldFit:
        """Fit with the estimator's `parameters`, stopped by the log loss of the fold's validation rows."""

    @staticmethod
    def complete(parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Add what the drawn parameters imply."""
        return dict(parameters)

    def kept_as_default(self) -> dict[str, Any]:
        """Parameters that a fit must be given to be that of the defaults with early stopping."""
        return {}

    def fit_all(self, estimator: Any, X: Any, classes: AnyArray, codes: Integers, weights: Floats | None) -> Any:
        """Fit the estimator on all data, as `read` gave it; a classifier of the user's tables and labels."""
        return estimator.fit(X, classes[codes], sample_weight=weights)

    def read(self, X: Any) -> Any:
        """Turn the user's training table into one that the estimator takes."""
        return X

    def known_parameters(self) -> set[str] | None:
        """Names that the estimator takes; None if the library alone knows them."""
        return None

    def all_columns(self, fold: FoldData, probabilities: Any) -> Floats:
        """Probabilities of all classes from those of the classes that the fold's training rows have."""
        columns = two_columns(probabilities)
        if fold.present.size == self.n_classes:
            return columns
        full = np.zeros((columns.shape[0], self.n_classes))
        full[:, fold.present] = columns
        return full

    def count_trees(self, parameters: Mapping[str, Any], n_rounds: int) -> int:
        """Trees that an adapter grows in `n_rounds` rounds."""
        if parameters.get("method") == DIRECTIONAL and self.n_classes > 2:
            own = BoostOptions(trees_per_round=parameters.get("trees_per_round"))
            return own.count_trees(self.n_classes) * n_rounds
        options = {name: parameters[name] for name in SCHEDULE if parameters.get(name) is not None}
        schedule = BaseClassSchedule(self.n_classes, **options, adaptive=self.n_classes > 2)
        return trees_by_round(schedule, n_rounds)[-1] if n_rounds else 0


def engine_class(name: str) -> type[TunedEngine]:
    """Find an engine; its package is imported only here."""
    check_choice("engine", name, ENGINES)
    if name == "native":
        from abc_plugins.tuning.engines.native import TunedNative

        return TunedNative
    [package] = PACKAGES[name]
    if find_spec(package) is None:
        raise ModuleNotFoundError(f"engine {name!r} needs {package}: pip install 'abc-plugins[{name}]'")
    if name == "lgbm":
        from abc_plugins.tuning.engines.lgbm import TunedLightGBM

        return TunedLightGBM
    from abc_plugins.tuning.engines.xgb import TunedXGBoost

    return TunedXGBoost


def two_columns(probabilities: Any) -> Floats:
    """Probabilities of shape (n_samples, n_classes), also from an objective for two classes."""
    probabilities = np.asarray(probabilities, dtype=np.float64)
    return probabilities if probabilities.ndim == 2 else np.column_stack((1.0 - probabilities, probabilities))
