"""Multi-class gradient boosting: directional trees, and Fast ABC-Boost natively and on LightGBM and XGBoost."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.core.model.file import ModelFormatError
    from abc_plugins.core.schedule import BaseClassSchedule
    from abc_plugins.explaining import explain

    __version__: str

SKOPS_TRUSTED_TYPES = [
    "abc_plugins.classifier.ABCBoostClassifier",
    "abc_plugins.core.model.ensemble.FlatTrees",
    "abc_plugins.core.model.ensemble.TreeEnsemble",
    "abc_plugins.data.categories.Categories",
]
"""Types of a fitted classifier, for skops and MLflow to trust in files of your own: they do not check the trees."""

__all__ = [
    "SKOPS_TRUSTED_TYPES",
    "ABCBoostClassifier",
    "BaseClassSchedule",
    "ModelFormatError",
    "__version__",
    "explain",
]

_HOME = {
    "ABCBoostClassifier": "abc_plugins.classifier",
    "BaseClassSchedule": "abc_plugins.core.schedule",
    "ModelFormatError": "abc_plugins.core.model.file",
    "explain": "abc_plugins.explaining",
}


def __getattr__(name: str) -> Any:
    """Load public names when they are first used: importing the package stays fast."""
    if name == "__version__":
        return _version()
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("abc-plugins")
    except PackageNotFoundError:  # running from a source tree that was not installed
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted(__all__)
