"""LightGBM's own API - train, cv, LGBMClassifier - with directional trees, or with an adaptive base class."""

try:
    import lightgbm  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("abc_plugins.lgbm needs LightGBM: pip install 'abc-plugins[lgbm]'") from error

from abc_plugins.lgbm.crossval import cv
from abc_plugins.lgbm.estimator import ABCLGBMClassifier
from abc_plugins.lgbm.exporting import export, export_classifier, model_info
from abc_plugins.lgbm.objective import ABCObjective
from abc_plugins.lgbm.training import train

__all__ = ["ABCLGBMClassifier", "ABCObjective", "cv", "export", "export_classifier", "model_info", "train"]
