"""The contenders: classifiers with the same leaves, rounds and shrinkage, everything else as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from abc_plugins.core.checks import check_integer, check_real


@dataclass(frozen=True)
class CompareSettings:
    """What all contenders share.

    Attributes
    ----------
    n_estimators : int
        Rounds, M.
    num_leaves : int
        Leaves of a tree, J.
    learning_rate : float
        Shrinkage, nu.
    n_jobs : int
        Threads.
    """

    n_estimators: int = 100
    num_leaves: int = 20
    learning_rate: float = 0.1
    n_jobs: int = 1

    def __post_init__(self) -> None:
        check_integer("n_estimators", self.n_estimators, minimum=1)
        check_integer("num_leaves", self.num_leaves, minimum=2)
        check_real("learning_rate", self.learning_rate, above=0.0)
        check_integer("n_jobs", self.n_jobs, minimum=1)


@dataclass(frozen=True)
class Contender:
    """A classifier that takes part.

    Attributes
    ----------
    name : str
    package : str
        The package it needs.
    extra : str or None
        Our extra that installs the package; None if it is always there.
    make : function
        CompareSettings -> a classifier with scikit-learn's `fit` and `predict_proba`.
    """

    name: str
    package: str
    extra: str | None
    make: Callable[[CompareSettings], Any]

    @property
    def is_installed(self) -> bool:
        """Whether its package can be imported."""
        return find_spec(self.package) is not None


def contenders() -> list[Contender]:
    """All contenders, in the order of the table."""
    return [
        Contender("abcrobustlogit", "abc_plugins", None, lambda settings: _native("abcrobustlogit", settings)),
        Contender("robustlogit", "abc_plugins", None, lambda settings: _native("robustlogit", settings)),
        Contender("LightGBM", "lightgbm", "lgbm", _lightgbm),
        Contender("XGBoost", "xgboost", "xgb", _xgboost),
    ]


def _native(method: str, settings: CompareSettings) -> Any:
    from abc_plugins.classifier import ABCBoostClassifier

    return ABCBoostClassifier(
        method=method,
        n_estimators=settings.n_estimators,
        num_leaves=settings.num_leaves,
        learning_rate=settings.learning_rate,
        n_jobs=settings.n_jobs,
        random_state=0,
    )


def _lightgbm(settings: CompareSettings) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=settings.n_estimators,
        num_leaves=settings.num_leaves,
        learning_rate=settings.learning_rate,
        n_jobs=settings.n_jobs,
        random_state=0,
        verbosity=-1,
    )


def _xgboost(settings: CompareSettings) -> Any:
    from xgboost import XGBClassifier

    # Leaf-wise growth without a depth limit is what "the same leaves" means here.
    return XGBClassifier(
        n_estimators=settings.n_estimators,
        max_leaves=settings.num_leaves,
        max_depth=0,
        grow_policy="lossguide",
        tree_method="hist",
        learning_rate=settings.learning_rate,
        n_jobs=settings.n_jobs,
        random_state=0,
    )
