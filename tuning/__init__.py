"""Optuna studies over the base class schedule (s, g, w), the leaves J and the shrinkage nu, for all engines."""

from __future__ import annotations

try:
    import optuna  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("tuning needs Optuna: pip install 'abc-plugins[tuning]'") from error

from tuning.pruning import ABCPruningCallback, FoldPruner
from tuning.report import write_report
from tuning.result import TuneResult
from tuning.sampling import ReproducibleSampler
from tuning.space import default_space
from tuning.studies import StudyMismatchError, load_study
from tuning.tuner import suggest, tune

__all__ = [
    "ABCPruningCallback",
    "FoldPruner",
    "ReproducibleSampler",
    "StudyMismatchError",
    "TuneResult",
    "default_space",
    "load_study",
    "suggest",
    "tune",
    "write_report",
]
