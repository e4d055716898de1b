"""Who takes part in the practice protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from abc_plugins.compare.entrants import Entrant, pick
from abc_plugins.compare.practice import training
from abc_plugins.compare.practice.training import FOREST_TREES, LEAF_CLIP, SHRINKAGE, Train


@dataclass(frozen=True)
class Contender(Entrant):
    """A classifier that takes part.

    Attributes
    ----------
    key, title, package, extra : str
        See `Entrant`.
    is_ours : bool
        Whether this package makes it.
    train : function
        (Sample, parameters that are not to be its own) -> Trained.
    settings : str
        How it is used.
    """

    is_ours: bool
    train: Train
    settings: str


MAIN = "directional"
"""The contender whose standing the verdict is about."""

_PATIENCE = "stops after 50 rounds without a lower log loss"
_CODES = "categories as such"
_TEXT = "categories as text"
_ONE_HOT = "categories of up to 32 levels as columns of zeros and ones, longer ones as codes"


def contenders() -> list[Contender]:
    """All contenders, in the order of the table."""
    native, lgbm, xgb = "abc_plugins", "'abc-plugins[lgbm]'", "'abc-plugins[xgb]'"
    peers = "'abc-plugins[peers]'"
    shrinkage = f"shrinkage {SHRINKAGE:g}"
    return [
        Contender(
            MAIN, "ABCBoostClassifier", native, None, True, training.native("directional"),
            f"as it comes; stops after 100 rounds, of a tree each, without a lower log loss; {_CODES}",
        ),
        Contender(
            "pairs", "ABCBoostClassifier, pairs", native, None, True, training.native("abcrobustlogit"),
            f"method='abcrobustlogit'; {_PATIENCE}; {_CODES}",
        ),
        Contender(
            "abc-lightgbm", "ABC on LightGBM", "lightgbm", lgbm, True, partial(training.lightgbm, adapter=True),
            f"{_PATIENCE}; {_CODES}",
        ),
        Contender(
            "abc-xgboost", "ABC on XGBoost", "xgboost", xgb, True, partial(training.xgboost, adapter=True),
            f"{shrinkage}; {_PATIENCE}; {_CODES}",
        ),
        Contender(
            "lightgbm", "LightGBM", "lightgbm", lgbm, False, training.lightgbm,
            f"max_delta_step={LEAF_CLIP:g}, without which it diverges on some data; {_PATIENCE}; {_CODES}",
        ),
        Contender(
            "xgboost", "XGBoost", "xgboost", xgb, False, training.xgboost, f"{shrinkage}; {_PATIENCE}; {_CODES}"
        ),
        Contender(
            "xgboost-vector", "XGBoost, vector leaves", "xgboost", xgb, False,
            partial(training.xgboost, vector_leaves=True),
            f"multi_strategy='multi_output_tree'; {shrinkage}; {_PATIENCE}; {_ONE_HOT}",
        ),
        Contender(
            "catboost", "CatBoost", "catboost", peers, False, training.catboost, f"{shrinkage}; {_PATIENCE}; {_TEXT}"
        ),
        Contender(
            "chimeraboost", "ChimeraBoost", "chimeraboost", peers, False, training.chimeraboost,
            f"at most 2,000 rounds, its own limit; {_PATIENCE}; {_TEXT}",
        ),
        Contender(
            "histgb", "scikit-learn HistGB", "sklearn", None, False, training.histgb,
            "stops after 10 rounds without a lower log loss, as it comes, and keeps them; categories as such, the "
            "rarest of more than 255 levels as one",
        ),
        Contender(
            "forest", "random forest", "sklearn", None, False, training.forest,
            f"{FOREST_TREES} trees, trained on the validation rows too since it needs no stopping; {_ONE_HOT}",
        ),
    ]  # fmt: skip


def select(keys: Sequence[str] | None) -> list[Contender]:
    """Pick contenders by their keys, in the order of the table; None is all that are installed.

    A contender that is named must be installed.
    """
    return pick(contenders(), keys)
