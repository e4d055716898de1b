"""Optuna studies for the boosters of abc_plugins: `abc_plugins.tuning` under the name that users import."""

from abc_plugins.tuning import (
    ABCPruningCallback,
    FoldPruner,
    ReproducibleSampler,
    StudyMismatchError,
    TuneResult,
    WeightedEnsemble,
    default_space,
    load_study,
    suggest,
    tune,
    write_report,
)

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
