"""What the header of a model file says of the data: categories, scores before the first round, rounds to use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from abc_plugins.core.model.file import ModelFormatError
from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.data.categories import Categories, no_categories

KIND = "ABCBoostClassifier"


def stored_categories(header: Mapping[str, Any]) -> Categories:
    """The categories of a model; files of 0.1.0 have none."""
    categories = no_categories(header["n_features"])
    levels = list(categories.levels)
    for entry in header.get("categories", ()):
        levels[entry["feature"]] = entry["levels"]
        categories.has_other[entry["feature"]] = entry["other"]
    return Categories(tuple(levels), categories.has_other)


def start_scores(header: Mapping[str, Any]) -> Floats:
    """Scores before the first round; files of 0.1.0 do not name them, and start at zero."""
    return np.array(header.get("start_scores", [0.0] * header["classes"].size), dtype=np.float64)


def check_kind(header: Mapping[str, Any]) -> None:
    """Refuse the model of something else than a classifier."""
    if header.get("kind") != KIND:
        raise ModelFormatError(f"it holds a {header.get('kind')!r}, not a {KIND}.")


def best_iteration(header: Mapping[str, Any], n_rounds: int) -> int:
    """Rounds that predictions use."""
    best = header.get("best_iteration")
    if not isinstance(best, int) or isinstance(best, bool):
        raise ModelFormatError("best_iteration is missing or of the wrong kind.")
    if not min(1, n_rounds) <= best <= n_rounds:
        raise ModelFormatError(f"best_iteration must be from 1 to {n_rounds}; got {best}.")
    return best
