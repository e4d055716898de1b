"""Optuna studies that are never worse than the defaults by their own evidence, for all engines.

Users import the public names from the top-level package `tuning`.
"""

from __future__ import annotations

try:
    import optuna  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("tuning needs Optuna: pip install 'abc-plugins[tuning]'") from error

from abc_plugins.tuning.ensemble import WeightedEnsemble
from abc_plugins.tuning.report.page import write_report
from abc_plugins.tuning.result import TuneResult
from abc_plugins.tuning.space import default_space
from abc_plugins.tuning.study.pruning import ABCPruningCallback, FoldPruner
from abc_plugins.tuning.study.sampling import ReproducibleSampler
from abc_plugins.tuning.study.storage import StudyMismatchError, load_study
from abc_plugins.tuning.tuner import suggest, tune

__all__ = [
    "ABCPruningCallback",
    "FoldPruner",
    "ReproducibleSampler",
    "StudyMismatchError",
    "TuneResult",
    "WeightedEnsemble",
    "default_space",
    "load_study",
    "suggest",
    "tune",
    "write_report",
]
