"""The contenders: who they are, and how each is told the common settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from abc_plugins.compare.budgets.engines import (
    WatchedCatBoost,
    WatchedEngine,
    WatchedHistGB,
    WatchedLightGBM,
    WatchedNative,
    WatchedXGBoost,
)
from abc_plugins.compare.budgets.settings import SEED, CompareSettings
from abc_plugins.compare.entrants import Entrant, pick


@dataclass(frozen=True)
class BudgetContender(Entrant):
    """A classifier that takes part.

    Attributes
    ----------
    key, title, package, extra : str
        See `Entrant`.
    rival : str or None
        Key of the same engine without an adaptive base class; None if it has no base class itself.
    make : function
        CompareSettings -> a classifier with scikit-learn's `fit` and `predict_proba`.
    engine : WatchedEngine
        How to watch it train, and what it predicts after every round.
    differences : tuple of str
        What it does differently from the others in spite of the common settings.
    """

    rival: str | None
    make: Callable[[CompareSettings], Any]
    engine: WatchedEngine
    differences: tuple[str, ...] = ()

    @property
    def is_adaptive(self) -> bool:
        """Whether it has an adaptive base class."""
        return self.rival is not None


def _given(**parameters: Any) -> dict[str, Any]:
    """Leave out what is None, so that the contender's own default stands."""
    return {name: value for name, value in parameters.items() if value is not None}


def _native(method: str) -> Callable[[CompareSettings], Any]:
    def make(settings: CompareSettings) -> Any:
        from abc_plugins.classifier import ABCBoostClassifier

        shared = _given(
            num_leaves=settings.num_leaves,
            learning_rate=settings.learning_rate,
            max_bins=settings.max_bins,
            leaf_clip=settings.leaf_clip,
        )
        schedule = settings.schedule if method.startswith("abc") else {}
        if method == "directional" and settings.num_leaves is not None:
            shared["tree_shape"] = "best-first"  # which is what a number of leaves is for
        return ABCBoostClassifier(
            method=method,
            n_estimators=settings.rounds,
            n_jobs=settings.n_jobs,
            random_state=SEED,
            **shared,
            **schedule,
        )

    return make


def _lightgbm_parameters(settings: CompareSettings) -> dict[str, Any]:
    shared = _given(num_leaves=settings.num_leaves, learning_rate=settings.learning_rate, max_bin=settings.max_bins)
    return {
        "n_estimators": settings.rounds,
        "n_jobs": settings.n_jobs,
        "random_state": SEED,
        "verbosity": -1,
        **shared,
    }


def _lightgbm(settings: CompareSettings) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(**_lightgbm_parameters(settings), **_given(max_delta_step=settings.leaf_clip))


def _abc_lightgbm(settings: CompareSettings) -> Any:
    from abc_plugins.lgbm import ABCLGBMClassifier

    own = {"method": "abcrobustlogit", **_given(leaf_clip=settings.leaf_clip)}
    return ABCLGBMClassifier(**_lightgbm_parameters(settings), **own, **settings.schedule)


def _xgboost_parameters(settings: CompareSettings) -> dict[str, Any]:
    shared = _given(learning_rate=settings.learning_rate, max_bin=settings.max_bins)
    if settings.num_leaves is not None:
        # Best-first growth without a limit of the depth is what "the same leaves" means.
        leaves = {"max_leaves": settings.num_leaves, "max_depth": 0, "grow_policy": "lossguide"}
        shared = {**shared, **leaves, "tree_method": "hist"}
    return {"n_estimators": settings.rounds, "n_jobs": settings.n_jobs, "random_state": SEED, **shared}


def _xgboost(settings: CompareSettings) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(**_xgboost_parameters(settings), **_given(max_delta_step=settings.leaf_clip))


def _abc_xgboost(settings: CompareSettings) -> Any:
    from abc_plugins.xgb import ABCXGBClassifier

    own = {"method": "abcrobustlogit", **_given(leaf_clip=settings.leaf_clip)}
    return ABCXGBClassifier(**_xgboost_parameters(settings), **own, **settings.schedule)


def _sklearn(settings: CompareSettings) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    shared = _given(
        max_leaf_nodes=settings.num_leaves, learning_rate=settings.learning_rate, max_bins=settings.max_bins
    )
    # Its number of threads is set when it is fitted. Rounds are to be equal: no early stopping on large data.
    return HistGradientBoostingClassifier(max_iter=settings.rounds, early_stopping=False, random_state=SEED, **shared)


def _catboost(settings: CompareSettings) -> Any:
    from catboost import CatBoostClassifier

    shared = _given(learning_rate=settings.learning_rate)
    if settings.num_leaves is not None:
        shared |= {"grow_policy": "Lossguide", "max_leaves": settings.num_leaves, "depth": 16}
    if settings.max_bins is not None:
        shared["border_count"] = settings.max_bins - 1
    return CatBoostClassifier(
        iterations=settings.rounds,
        thread_count=settings.n_jobs,
        random_seed=SEED,
        verbose=False,
        allow_writing_files=False,
        **shared,
    )


_ADAPTER = "scores start at 0; which leaf values and guard it uses is in its parameters below"
_LIGHTGBM = "at least 20 samples and a hessian of 0.001 a leaf"
_XGBOOST = "at least a hessian of 1 a leaf, and an L2 penalty of 1, in place of a smallest number of samples"
_FIRST_ORDER = "chooses splits by the first-order gain"


def contenders() -> list[BudgetContender]:
    """All contenders, in the order of the table."""
    return [*_native_contenders(), *_adapters_and_rivals(), *_other_libraries()]


def _native_contenders() -> list[BudgetContender]:
    native = WatchedNative()
    own = "at least 10 samples per leaf; scores start at 0"
    package = "abc_plugins"
    return [
        BudgetContender(
            "directional",
            "directional",
            package,
            None,
            None,
            _native("directional"),
            native,
            ("at least 1 sample a leaf; scores start at the class frequencies", "a tree serves all classes"),
        ),
        BudgetContender("mart", "mart", package, None, None, _native("mart"), native, (own, _FIRST_ORDER)),
        BudgetContender(
            "abcmart", "ABC: abcmart", package, None, "mart", _native("abcmart"), native, (own, _FIRST_ORDER)
        ),
        BudgetContender("robustlogit", "robustlogit", package, None, None, _native("robustlogit"), native, (own,)),
        BudgetContender(
            "abcrobustlogit",
            "ABC: abcrobustlogit",
            package,
            None,
            "robustlogit",
            _native("abcrobustlogit"),
            native,
            (own,),
        ),
    ]


def _adapters_and_rivals() -> list[BudgetContender]:
    lightgbm, xgboost = WatchedLightGBM(), WatchedXGBoost()
    return [
        BudgetContender(
            "lightgbm",
            "LightGBM",
            "lightgbm",
            "'abc-plugins[lgbm]'",
            None,
            _lightgbm,
            lightgbm,
            (_LIGHTGBM, "scores start at the class frequencies"),
        ),
        BudgetContender(
            "abc-lightgbm",
            "ABC on LightGBM",
            "lightgbm",
            "'abc-plugins[lgbm]'",
            "lightgbm",
            _abc_lightgbm,
            lightgbm,
            (_LIGHTGBM, _ADAPTER),
        ),
        BudgetContender(
            "xgboost",
            "XGBoost",
            "xgboost",
            "'abc-plugins[xgb]'",
            None,
            _xgboost,
            xgboost,
            (_XGBOOST, "its hessian is 2p(1 - p): steps half as long at the same learning rate"),
        ),
        BudgetContender(
            "abc-xgboost",
            "ABC on XGBoost",
            "xgboost",
            "'abc-plugins[xgb]'",
            "xgboost",
            _abc_xgboost,
            xgboost,
            (_XGBOOST, _ADAPTER),
        ),
    ]


def _other_libraries() -> list[BudgetContender]:
    return [
        BudgetContender(
            "sklearn",
            "scikit-learn HistGB",
            "sklearn",
            None,
            None,
            _sklearn,
            WatchedHistGB(),
            (
                "has no leaf clip; at least 20 samples per leaf; scores start at the class frequencies",
                "tells no times of rounds: its seconds are spread evenly over them",
            ),
        ),
        BudgetContender(
            "catboost",
            "CatBoost",
            "catboost",
            "catboost",
            None,
            _catboost,
            WatchedCatBoost(),
            (
                "has no leaf clip; a depth of at most 16; an L2 penalty of 3; random scores and bootstrap as they come",
                "one tree per round serves all classes, with a value for each in a leaf: it counts as one per class",
            ),
        ),
    ]


def select(keys: Sequence[str] | None) -> list[BudgetContender]:
    """Pick contenders by their keys, in the order of the table; None is all that are installed.

    A contender that is named must be installed.
    """
    return pick(contenders(), keys)
