"""Optuna studies for the boosters of abc_plugins: `abc_plugins.tuning` under the name that users import."""

from abc_plugins.tuning import *  # noqa: F403
from abc_plugins.tuning import __all__ as __all__
