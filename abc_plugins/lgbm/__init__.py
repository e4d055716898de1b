"""ABC-Boost on LightGBM: lightgbm.train, lightgbm.cv and LGBMClassifier with an adaptive base class."""

from abc_plugins.lgbm.exporting import export, model_info
from abc_plugins.lgbm.training import train

__all__ = ["export", "model_info", "train"]
