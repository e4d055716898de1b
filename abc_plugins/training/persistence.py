"""Save and load `ABCBoostClassifier` as a model file."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from abc_plugins.core.directional.schedule import check_directions, check_spread
from abc_plugins.core.model.checkpoint import is_checkpoint, load_checkpoint
from abc_plugins.core.model.ensemble import TreeEnsemble
from abc_plugins.core.model.file import ModelFormatError, load, not_valid, save
from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.settings import check_interactions
from abc_plugins.data.categories import Categories, check_categorical_features
from abc_plugins.data.stored import KIND, best_iteration, check_kind, start_scores, stored_categories
from abc_plugins.training.refitting import check_best_score, check_evaluations, check_temperature
from abc_plugins.training.run import TrainingRun

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier

_RETIRED_PARAMS = ("trim",)
"""Parameters of version 0.1.0 that are gone: files may name them, and are read without."""

_RETIRED_VALUES = {"base_choice": ("overdue",)}
"""Values that are gone: a file that names one is read with the default instead."""


_MOST_CLASSES_WITH_DIRECTIONS = 128
"""With more the square matrix among the directions would be most of a header, which is text."""


def save_classifier(classifier: ABCBoostClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to a file."""
    classifier._check_all_parameters()  # what they are set to after the fit, too: it could not be loaded again
    names = getattr(classifier, "feature_names_in_", None)
    run = TrainingRun(
        model=classifier.model_,
        base_classes=classifier.base_classes_.tolist(),
        train_loss=classifier.train_loss_.tolist(),
        trees_grown=classifier.trees_grown_,
        guarded_rounds=classifier.guarded_rounds_,
        evals_result=classifier.evals_result_,
        best_iteration=classifier.best_iteration_,
        best_score=classifier.best_score_,
        stopped_because=classifier.stopped_because_,
        temperature=classifier.temperature_,
        rounds_before=classifier.rounds_before_,
        directions=classifier._directions,
    )
    params = storable_params(classifier, stacklevel=3)
    header = make_header(params, classifier.classes_, names, classifier._categories, run)
    save(path, header, classifier.model_.flat())


def make_header(
    params: Mapping[str, Any], classes: AnyArray, names: Sequence[str] | None, categories: Categories, run: TrainingRun
) -> dict[str, Any]:
    """Header of the model file of a classifier."""
    return {
        "kind": KIND,
        "params": params,
        "classes": classes,
        "n_features": len(categories.levels),
        "feature_names": None if names is None else list(names),
        "categories": [
            {"feature": f, "levels": levels, "other": bool(categories.has_other[f])}
            for f, levels in enumerate(categories.levels)
            if levels is not None
        ],
        "start_scores": run.model.start_scores,
        "base_classes": run.base_classes,
        "train_loss": run.train_loss,
        "trees_grown": run.trees_grown,
        "guarded_rounds": run.guarded_rounds,
        "evals_result": run.evals_result,
        "best_iteration": run.best_iteration,
        "best_score": run.best_score,
        "stopped_because": run.stopped_because,
        "temperature": run.temperature,
        "rounds_before": run.rounds_before,
        **({"directions": run.directions} if run.directions and len(classes) <= _MOST_CLASSES_WITH_DIRECTIONS else {}),
    }


def load_classifier(cls: type[ABCBoostClassifier], path: str | os.PathLike[str]) -> ABCBoostClassifier:
    """Read a classifier from a model file, or as far as it was trained from a checkpoint."""
    if is_checkpoint(path):
        checkpoint = load_checkpoint(path)
        header, trees = checkpoint.model_header, checkpoint.trees
    else:
        header, trees = load(path)
    try:
        check_classifier_header(header, trees.round_start.size - 1, set(cls().get_params()))
    except ModelFormatError as error:
        raise not_valid(path, error) from error
    classifier = cls(**current_params(header["params"]))
    try:
        classifier._check_all_parameters()
    except (TypeError, ValueError) as error:
        raise not_valid(path, error) from error
    run = TrainingRun(
        model=TreeEnsemble.from_flat(header["classes"].size, header["n_features"], trees, start_scores(header)),
        base_classes=header["base_classes"],
        train_loss=header["train_loss"],
        trees_grown=header["trees_grown"],
        guarded_rounds=header["guarded_rounds"],
        evals_result=header["evals_result"],
        best_iteration=header["best_iteration"],
        best_score=header.get("best_score", {}),
        stopped_because=header.get("stopped_because", ""),
        temperature=header.get("temperature", 1.0),
        rounds_before=header.get("rounds_before", 0),
        directions=header.get("directions", {}),
    )
    classifier._keep(run, header["classes"], header["feature_names"], stored_categories(header))
    return classifier


def current_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Stored parameters without those that an older version had; predictions do not depend on them."""
    current = {
        name: value
        for name, value in params.items()
        if name not in _RETIRED_PARAMS and value not in _RETIRED_VALUES.get(name, ())
    }
    least = current.get("min_samples_leaf")
    if isinstance(least, float) and 0.0 < least < math.inf:  # it was a weight before it counted rows
        current["min_samples_leaf"] = math.ceil(least)
    return current


def storable_params(classifier: ABCBoostClassifier, stacklevel: int) -> dict[str, Any]:
    """Parameters without live objects, which only a new fit would need."""
    params = classifier.get_params()
    if params["categorical_features"] is not None:
        params["categorical_features"] = check_categorical_features(params["categorical_features"])  # plain values
    params["interaction_constraints"] = check_interactions(params["interaction_constraints"])  # sets become lists
    live = {"eval_metric": not _is_plain_metric(params["eval_metric"]),
            "random_state": isinstance(params["random_state"], np.random.RandomState)}  # fmt: skip
    for name in (name for name, is_live in live.items() if is_live):
        warnings.warn(
            f"{name}={params[name]!r} cannot be stored in a model file; the loaded model will have the default. "
            "Predictions do not depend on it.",
            stacklevel=stacklevel + 1,
        )
        del params[name]
    return params


def _is_plain_metric(metric: Any) -> bool:
    return isinstance(metric, str) or (isinstance(metric, list | tuple) and all(isinstance(m, str) for m in metric))


def check_classifier_header(header: Mapping[str, Any], n_rounds: int, known_params: set[str]) -> None:
    """Check the parts of the header that only this class uses."""
    expected = {"params": dict, "feature_names": list | None, "train_loss": list, "trees_grown": int,
                "guarded_rounds": int, "evals_result": dict, "best_iteration": int}  # fmt: skip
    check_kind(header)
    for name, kind in expected.items():
        if name not in header or not isinstance(header[name], kind) or isinstance(header[name], bool):
            raise ModelFormatError(f"{name} is missing or of the wrong kind.")
    unknown = sorted(str(name) for name in current_params(header["params"]) if name not in known_params)
    if unknown:
        raise ModelFormatError(f"it has unknown parameters: {', '.join(unknown)}; it may be from a newer version.")
    best_iteration(header, n_rounds)
    for name in ("trees_grown", "guarded_rounds"):
        if header[name] < 0:
            raise ModelFormatError(f"{name} must not be negative.")
    rounds_before = header.get("rounds_before", 0)
    if type(rounds_before) is not int or not 0 <= rounds_before <= n_rounds:
        raise ModelFormatError(f"rounds_before must be a number from 0 to {n_rounds}.")
    if not isinstance(header.get("stopped_because", ""), str):
        raise ModelFormatError("stopped_because must be text.")
    check_evaluations(header["evals_result"])
    check_best_score(header.get("best_score", {}))
    check_temperature(header.get("temperature", 1.0))
    _check_directions(header.get("directions", {}), header["classes"].size)


def _check_directions(directions: Any, n_classes: int) -> None:
    """Check the state of the schedule of directions, lists of numbers for every class."""
    if not isinstance(directions, dict) or not set(directions) <= {"spread", "kept_directions"}:
        raise ModelFormatError("directions must be an object with spread and kept_directions.")
    for name, rows in directions.items():
        if not isinstance(rows, list) or not all(_is_row(row, n_classes) for row in rows):
            raise ModelFormatError(f"{name} must be lists of {n_classes} numbers.")
    if "spread" in directions:
        check_spread(np.array(directions["spread"], dtype=np.float64), n_classes)
    if "kept_directions" in directions:
        kept = np.array(directions["kept_directions"], dtype=np.float64)
        check_directions(kept, (len(kept), n_classes))


def _is_row(row: Any, n_classes: int) -> bool:
    return isinstance(row, list) and len(row) == n_classes and all(type(value) in (int, float) for value in row)
