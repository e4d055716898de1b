"""Who takes part in the practice protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

from abc_plugins.compare.practice import training
from abc_plugins.compare.practice.training import FOREST_TREES, LEAF_CLIP, SHRINKAGE, Train
from abc_plugins.core.runtime.checks import fail


@dataclass(frozen=True)
class Contender:
    """A classifier that takes part.

    Attributes
    ----------
    key : str
        Its name on the command line.
    title : str
        Its name in tables and pictures.
    package : str
        The package it needs.
    extra : str or None
        What to install for it; None if it is always there.
    is_ours : bool
        Whether this package makes it.
    train : function
        (Sample, parameters that are not to be its own) -> Trained.
    settings : str
        How it is used.
    """

    key: str
    title: str
    package: str
    extra: str | None
    is_ours: bool
    train: Train
    settings: str

    @property
    def is_installed(self) -> bool:
        """Whether its package can be imported."""
        return find_spec(self.package) is not None


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
    known = {contender.key: contender for contender in contenders()}
    if keys is None:
        return [contender for contender in known.values() if contender.is_installed]
    for key in keys:
        if key not in known:
            fail("engines", key, f"some of {', '.join(known)}")
        if not known[key].is_installed:
            raise ModuleNotFoundError(f"{key} needs {known[key].package}: pip install {known[key].extra}")
    return [contender for key, contender in known.items() if key in keys]
