"""Everything of XGBoost that is used here and is not part of its public interface.

XGBoost may change these in any release. Importing this module fails, with the versions that are supported, where the
version is another or one of them is gone. The format of trees in a model file, which is documented, is read in `trees`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import xgboost
from xgboost import Booster, training

from abc_plugins.core.runtime.checks import check_supported

SUPPORTED = "3.0 to 3.2"

_NAMES = {
    Booster: ("__getstate__", "__setstate__", "reset", "boost", "save_raw", "save_config"),
    training: ("_PackedBooster", "CVPack"),
}
_ARGUMENTS = {
    Booster.update: ("dtrain", "iteration"),
    Booster.eval_set: ("evals", "iteration", "feval", "output_margin"),
}


def check_version(version: str = xgboost.__version__, names: Mapping[Any, tuple[str, ...]] = _NAMES) -> None:
    """Fail if the version is not supported, or something that is needed is not there."""
    missing = [
        f"{name} of Booster.{method.__name__}"
        for method, wanted in _ARGUMENTS.items()
        for name in wanted
        if name not in signature(method).parameters
    ]
    check_supported("XGBoost", version, SUPPORTED, names, (3, 0), (3, 3), missing)


check_version()


def exchange_boosters(model: Any, exchange: Callable[[Booster], Booster]) -> Any:
    """Exchange what a callback's `before_training` is given: a Booster, or the Boosters of all folds of `cv`."""
    if isinstance(model, Booster):
        return exchange(model)
    for fold in model.cvfolds:
        fold.bst = exchange(fold.bst)
    return model


def changed_copy(booster: Booster, change: Callable[[bytearray], bytearray]) -> Booster:
    """Copy a booster with its parameters and its model as XGBoost pickles them, changed in between."""
    state = booster.__getstate__()
    state["handle"] = change(state["handle"])
    result = Booster.__new__(Booster)
    result.__setstate__(state)
    return result
