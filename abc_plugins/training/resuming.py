"""Checkpoints of `ABCBoostClassifier`: which training a checkpoint is of, and how a new one goes on from it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from abc_plugins.callbacks import Callback, CallbackList, RoundContext
from abc_plugins.core.boosters import restore_booster
from abc_plugins.core.model.checkpoint import Checkpoint, check_checkpoint, load_checkpoint, save_checkpoint
from abc_plugins.core.model.validation import ModelFormatError
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.fingerprint import digest_array, digest_table, is_digest
from abc_plugins.core.settings import Settings
from abc_plugins.data.categories import Categories
from abc_plugins.training.evaluation import EvalSet, Metrics
from abc_plugins.training.fit_data import FitData
from abc_plugins.training.persistence import check_classifier_header, make_header, storable_params
from abc_plugins.training.refitting import RefitPlan
from abc_plugins.training.run import describe_run

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.fitted import FittedClassifier

_EVAL_SCORES = "eval_scores_"
_CHANGEABLE = ("n_estimators", "n_jobs", "verbose", "random_state", "class_weight", "on_interrupt")
"""Parameters that may differ, or whose effect - the seed, the weights - is compared instead."""


class Resumption:
    """A checkpoint that a training goes on from.

    Parameters
    ----------
    path : path

    Attributes
    ----------
    refit_plan : RefitPlan or None
        What the second training of a fit is about, if the checkpoint is of one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.checkpoint = load_checkpoint(path)
        self.refit_plan: RefitPlan | None = None

    def check(self, classifier: ABCBoostClassifier) -> None:
        """Check that the file is of a classifier and has all that a resumed training needs."""
        header, model_header = self.checkpoint.header, self.checkpoint.model_header
        n_rounds = len(model_header["base_classes"])
        allowed: dict[str, Callable[[Any], bool]] = {
            "seed": lambda value: type(value) is int and 0 <= value < 2**31,
            "seconds": lambda value: type(value) is float and math.isfinite(value),
            "best_iteration": lambda value: value is None or (type(value) is int and 1 <= value <= n_rounds),
            "callbacks": lambda value: isinstance(value, list),
            "origin": lambda value: isinstance(value, dict),
        }
        try:
            for name, is_allowed in allowed.items():
                if name not in header or not is_allowed(header[name]):
                    raise ModelFormatError(f"{name} is missing, or not what it must be.")
            check_classifier_header(model_header, n_rounds, set(classifier.get_params()))
            self.refit_plan = RefitPlan.from_header(header.get("refit"))
            for state in header["callbacks"]:
                if not isinstance(state, list) or len(state) != 2 or not isinstance(state[0], str):
                    raise ModelFormatError("callbacks must be pairs of a name and a state.")
            n_before = header.get("rounds_before", 0)
            if type(n_before) is not int or not 0 <= n_before <= n_rounds:
                raise ModelFormatError(f"rounds_before must be a number from 0 to {n_rounds}.")
            for values in (v for metrics in model_header["evals_result"].values() for v in metrics.values()):
                if len(values) != n_rounds - n_before:
                    raise ModelFormatError(f"evals_result must have a value for each of {n_rounds - n_before} rounds.")
        except ModelFormatError as error:
            raise self._invalid(error) from error

    @property
    def seed(self) -> int:
        """Seed of the training."""
        return int(self.checkpoint.header["seed"])

    def check_origin(self, origin: Mapping[str, Any]) -> None:
        """Refuse other data, parameters or versions than those of the checkpoint."""
        stored = dict(self.checkpoint.header["origin"])
        if stored.get("trim") == 0.0:
            del stored["trim"]  # a parameter of 0.1.0 that is gone; 0 was to do without
        for name in dict.fromkeys([*origin, *stored]):
            before, now = stored.get(name), origin.get(name)
            if before == now:
                continue
            shown = f"{name} is not the same" if is_digest(now) else f"{name} was {before!r} and is now {now!r}"
            if name not in stored:
                shown = f"{name} is new: an older version of abc-plugins wrote it"
            raise ValueError(
                f"resume_from must be a checkpoint of a training with the same data and parameters; "
                f"for {self.path}, {shown}."
            )

    def check_rounds(self, n_estimators: int) -> None:
        """Refuse a checkpoint that has more rounds than wanted."""
        n_rounds = len(self.checkpoint.model_header["base_classes"]) - self.checkpoint.header.get("rounds_before", 0)
        if n_rounds > n_estimators:
            raise ValueError(
                f"n_estimators must be at least the {n_rounds} rounds that {self.path} has done; got {n_estimators}."
            )

    def restore(self, context: RoundContext, eval_sets: Sequence[EvalSet], metrics: Metrics) -> None:
        """Bring a new booster and its evaluation sets to the state of the checkpoint."""
        header, model_header = self.checkpoint.header, self.checkpoint.model_header
        try:
            restore_booster(context.booster, self.checkpoint)
            for index, eval_set in enumerate(eval_sets):
                state = self.checkpoint.arrays.get(f"{_EVAL_SCORES}{index}")
                if state is None or state.shape != eval_set.scores.shape or not np.isfinite(state).all():
                    raise ModelFormatError(f"the scores of {eval_set.name} are missing or of the wrong shape.")
                eval_set.set_state(state)
            self._check_metrics(eval_sets, metrics)
        except ModelFormatError as error:
            raise self._invalid(error) from error
        context.round_index = context.booster.model.n_rounds - 1
        context.evals_result = {name: dict(metrics) for name, metrics in model_header["evals_result"].items()}
        context.seconds = header["seconds"]
        context.trees_grown = context.booster.trees_grown
        if context.round_index >= 0:
            context.base_class, context.train_loss = context.booster.schedule.bases[-1], context.booster.train_loss[-1]

    def _check_metrics(self, eval_sets: Sequence[EvalSet], metrics: Metrics) -> None:
        """Check that the metrics so far are those that the next rounds will have."""
        found = {name: list(values) for name, values in self.checkpoint.model_header["evals_result"].items()}
        expected = {eval_set.name: [name for name, _ in metrics.evaluate(eval_set)] for eval_set in eval_sets}
        if self.checkpoint.trees.n_rounds > self.checkpoint.header.get("rounds_before", 0) and found != expected:
            raise ModelFormatError(f"evals_result must have the metrics {expected}; it has {found}.")

    def restore_callbacks(self, context: RoundContext, hooks: CallbackList) -> None:
        """Give the callbacks their states back."""
        states = self.checkpoint.header["callbacks"]
        keepers = [callback for callback in hooks.callbacks if callback.get_state() is not None]
        stored, found = [name for name, _ in states], [_kind(callback) for callback in keepers]
        if stored != found:
            raise ValueError(
                f"callbacks must be those of the training that {self.path} is of, which had {stored} "
                f"with a state; got {found}."
            )
        for callback, (_, state) in zip(keepers, states, strict=True):
            try:
                callback.set_state(state, context)
            except (TypeError, ValueError) as error:
                raise self._invalid(f"the state of {_kind(callback)} is wrong: {error}") from error
        context.best_iteration = self.checkpoint.header["best_iteration"]

    def _invalid(self, why: object) -> ModelFormatError:
        return ModelFormatError(f"{self.path} is not a valid checkpoint: {why}")


def draw_seed(random_state: Any, resumption: Resumption | None) -> int:
    """Seed of a training; without a seed of the user's, a resumed training keeps its own."""
    try:
        if isinstance(random_state, bool | np.bool_):
            raise TypeError("a truth value is no seed")
        random = check_random_state(random_state)
    except (TypeError, ValueError) as error:
        allowed = "None, a whole number from 0 to 2**32 - 1 or a numpy.random.RandomState"
        raise type(error)(f"random_state must be {allowed}; got {random_state!r}.") from error
    if resumption is not None and not isinstance(random_state, Integral):
        return resumption.seed
    return int(random.randint(2**31 - 1))


def read_resumption(resume_from: Any, classifier: ABCBoostClassifier) -> Resumption | None:
    """Read the checkpoint that a fit goes on from, if there is one."""
    if resume_from is None:
        return None
    if not isinstance(resume_from, str | os.PathLike):
        fail("resume_from", resume_from, "the path of a checkpoint, or None", TypeError)
    resumption = Resumption(resume_from)
    resumption.check(classifier)
    return resumption


@dataclass
class RunCheckpoints:
    """Writes the checkpoints of one training, and starts it from one.

    Attributes
    ----------
    classifier : ABCBoostClassifier
    data : FitData
    settings : Settings
    seed : int
    resumption : Resumption or None
    refit_plan : RefitPlan or None
        If this is the second training of a fit.
    before : FittedClassifier or None
        The model that the fit goes on from.
    """

    classifier: ABCBoostClassifier
    data: FitData
    settings: Settings
    seed: int
    resumption: Resumption | None = None
    refit_plan: RefitPlan | None = None
    before: FittedClassifier | None = None

    def begin(self, context: RoundContext, metrics: Metrics, hooks: CallbackList) -> None:
        """Let callbacks write checkpoints of this training, and go to where the resumed one was."""
        context.save_checkpoint = partial(self._save, context, hooks)
        if self.resumption is not None:
            self.resumption.check_origin(self._origin)
            self.resumption.restore(context, self.data.eval_sets, metrics)

    def restore_callbacks(self, context: RoundContext, hooks: CallbackList) -> None:
        """Give the callbacks the states back that they had in the resumed training."""
        if self.resumption is not None:
            self.resumption.restore_callbacks(context, hooks)

    def _save(self, context: RoundContext, hooks: CallbackList, path: str | os.PathLike[str] | None) -> None:
        booster, data = context.booster, self.data
        rounds_before = 0 if self.before is None else self.before.best_iteration_
        run = replace(describe_run(context, booster.model.n_rounds), rounds_before=rounds_before)
        states = [[_kind(callback), callback.get_state()] for callback in hooks.callbacks]
        checkpoint = Checkpoint(
            header={
                "seed": self.seed,
                "seconds": context.seconds,
                "best_iteration": context.best_iteration,
                "callbacks": [state for state in states if state[1] is not None],
                "origin": self._origin,
                "rounds_before": rounds_before,
                "refit": None if self.refit_plan is None else self.refit_plan.to_header(),
            },
            model_header=make_header(self._params, data.classes, data.names, data.categories, run),
            trees=booster.model.flat(),
            arrays={
                **booster.get_state(),
                **{f"{_EVAL_SCORES}{index}": eval_set.state for index, eval_set in enumerate(self.data.eval_sets)},
            },
        )
        if path is None:
            check_checkpoint(checkpoint)
        else:
            save_checkpoint(path, checkpoint)

    @cached_property
    def _params(self) -> dict[str, Any]:
        return storable_params(self.classifier, stacklevel=2)

    @cached_property
    def _origin(self) -> dict[str, Any]:
        """What must be the same for a training to go on as it would have without a stop."""
        from abc_plugins import __version__

        data, settings = self.data, self.settings
        parameters = {
            name: _plain(getattr(settings, name, value))
            for name, value in self.classifier.get_params().items()
            if name not in _CHANGEABLE
        }
        return {
            "the version of abc-plugins": __version__,
            "method": settings.method,  # many others depend on it
            **parameters,
            "the seed (random_state)": self.seed,
            "the feature names": None if data.names is None else list(data.names),
            "the categories of X": _digest_categories(data.categories) if data.categories.any else None,
            "X": digest_table(data.X),
            "y": digest_array(data.codes, repr(data.classes.tolist())),
            "the sample weights (with class_weight)": digest_array(data.weights),
            **self._origin_of_start,
            "the names of the evaluation sets": [eval_set.name for eval_set in self.data.eval_sets],
            **{
                f"eval_set[{index}]": digest_array(eval_set.codes, eval_set.weights.tobytes(), digest_table(eval_set.X))
                for index, eval_set in enumerate(self.data.eval_sets)
            },
        }

    @property
    def _origin_of_start(self) -> dict[str, Any]:
        """What training begins with, if that is not nothing."""
        origin = {}
        if self.before is not None:
            trees = self.before.model_.flat().first_rounds(self.before.best_iteration_)
            origin["the model before (init_model)"] = digest_array(trees.values, trees.threshold.tobytes())
        if self.data.start is not None:
            origin["init_score"] = digest_array(self.data.start)
        return origin


def _kind(callback: Callback) -> str:
    return type(callback).__name__.lstrip("_")


def _plain(value: Any) -> Any:
    """Turn a parameter into plain values that can be compared; functions are compared by name."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return getattr(value, "__qualname__", type(value).__name__) if callable(value) else value


def _digest_categories(categories: Categories) -> str:
    shown = [None if levels is None else levels.tolist() for levels in categories.levels]
    return digest_array(categories.has_other, repr(shown))
