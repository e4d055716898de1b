"""What a first training, which a validation part has stopped, says about the second one on all rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from abc_plugins.callbacks import Evaluations
from abc_plugins.core.model.validation import ModelFormatError
from abc_plugins.core.settings import TREE_SHAPES, Settings
from abc_plugins.training.run import TrainingRun


@dataclass(frozen=True)
class RefitPlan:
    """How to train on all rows.

    Attributes
    ----------
    n_rounds : int
        The best number of rounds of the first training.
    tree_shape : str
        That of the first training: another one would need another number of rounds.
    stopped_because : str
        Why the first training ended.
    evals_result, best_score : dict
        Its metrics.
    temperature : float
        Found after it, see `calibration`.
    """

    n_rounds: int
    tree_shape: str
    stopped_because: str
    evals_result: Evaluations
    best_score: dict[str, dict[str, float]]
    temperature: float

    @classmethod
    def after(cls, first: TrainingRun, settings: Settings) -> RefitPlan:
        """Plan a second training after the first one, which had these settings."""
        return cls(
            n_rounds=first.best_iteration,
            tree_shape=settings.tree_shape,
            stopped_because=first.stopped_because,
            evals_result=first.evals_result,
            best_score=first.best_score,
            temperature=first.temperature,
        )

    def describe(self, second: TrainingRun) -> TrainingRun:
        """The second training, with the metrics of the first one: its own rows have none."""
        ending = f"refitted on all rows for {self.n_rounds} rounds"
        if second.model.n_rounds < self.n_rounds:
            n_rounds, why = second.model.n_rounds, second.stopped_because
            ending = f"the refit on all rows was cut short after {n_rounds} rounds: {why}"
        return replace(
            second,
            evals_result=self.evals_result,
            best_score=self.best_score,
            temperature=self.temperature,
            stopped_because=f"{self.stopped_because}; {ending}",
        )

    def describe_without(self, first: TrainingRun, why: str) -> TrainingRun:
        """The first training alone, since the second one was cut short."""
        return replace(first, stopped_because=f"{self.stopped_because}; the refit on all rows was cut short: {why}")

    def to_header(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_header(cls, values: Any) -> RefitPlan | None:
        """Read what `to_header` returned.

        Raises
        ------
        ModelFormatError
        """
        if values is None:
            return None
        names = set(cls.__dataclass_fields__)
        if not isinstance(values, dict) or set(values) != names:
            raise ModelFormatError(f"refit must have {', '.join(sorted(names))}.")
        if type(values["n_rounds"]) is not int or values["n_rounds"] < 1 or values["tree_shape"] not in TREE_SHAPES:
            raise ModelFormatError("refit must have a number of rounds and a shape of trees.")
        if not isinstance(values["stopped_because"], str):
            raise ModelFormatError("refit must say why the first training ended.")
        check_temperature(values["temperature"])
        check_evaluations(values["evals_result"])
        check_best_score(values["best_score"])
        return cls(**values)


def check_temperature(temperature: Any) -> None:
    """Check that a temperature is a positive number."""
    if type(temperature) is not float or not 0.0 < temperature < math.inf:
        raise ModelFormatError("temperature must be a positive number.")


def check_evaluations(evals_result: Any) -> None:
    """Check that metrics of evaluation sets are lists of numbers."""
    if not _is_nested(evals_result) or not all(
        _is_numbers(values) for of_set in evals_result.values() for values in of_set.values()
    ):
        raise ModelFormatError("evals_result must hold lists of numbers.")


def check_best_score(best_score: Any) -> None:
    """Check that there is a number for every metric of an evaluation set."""
    if not _is_nested(best_score) or not all(
        _is_number(value) for of_set in best_score.values() for value in of_set.values()
    ):
        raise ModelFormatError("best_score must hold numbers.")


def _is_nested(values: Any) -> bool:
    return isinstance(values, Mapping) and all(isinstance(of_set, Mapping) for of_set in values.values())


def _is_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(_is_number(value) for value in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
