"""XGBoost's own API with directional trees, or with an adaptive base class; the result is a stock XGBoost model."""

from __future__ import annotations

try:
    import xgboost  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("abc_plugins.xgb needs XGBoost: pip install 'abc-plugins[xgb]'") from error

from abc_plugins.xgb.estimator import ABCXGBClassifier
from abc_plugins.xgb.exporting import export
from abc_plugins.xgb.live import ABCBoost
from abc_plugins.xgb.stock import base_classes
from abc_plugins.xgb.training import cv, train
from abc_plugins.xgb.vectors import with_vector_leaves

__all__ = ["ABCBoost", "ABCXGBClassifier", "base_classes", "cv", "export", "train", "with_vector_leaves"]
