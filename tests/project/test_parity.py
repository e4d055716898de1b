"""docs/parity.md names every parameter and public name of the two classifiers that are installed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightgbm import LGBMClassifier
from lightgbm.basic import _ConfigAliases
from sklearn.ensemble import HistGradientBoostingClassifier

from abc_plugins import ABCBoostClassifier

PAGE = (Path(__file__).parents[2] / "docs" / "parity.md").read_text(encoding="utf-8")
METHODS = ("__init__", "fit", "predict", "predict_proba")
NOT_NAMED = {"self", "X", "y", "kwargs"}


def section(name: str) -> str:
    """The part of the page that is about a class."""
    return PAGE.partition(f"## {name}\n")[2].partition("\n## ")[0]


def names_of(classifier: Any) -> Iterator[tuple[str, set[str]]]:
    """Names of a class that the page must have, each with other names for the same thing."""
    for method in METHODS:
        yield from ((name, {name}) for name in inspect.signature(getattr(classifier, method)).parameters)
    yield from ((name, {name}) for name in dir(classifier) if not name.startswith("_"))
    if classifier is LGBMClassifier:
        yield from ((name, {name, *aliases}) for name, aliases in _ConfigAliases._get_all_param_aliases().items())


@pytest.mark.parametrize("classifier", [HistGradientBoostingClassifier, LGBMClassifier])
def test_every_name_is_on_the_page(classifier: Any) -> None:
    words = set(re.findall(r"\w+", section(classifier.__name__)))
    wanted = {name: others for name, others in names_of(classifier) if name not in NOT_NAMED}
    assert len(wanted) > 30
    assert [name for name, others in wanted.items() if not others & words] == []


@pytest.mark.parametrize("classifier", [HistGradientBoostingClassifier, LGBMClassifier])
def test_every_row_has_an_answer(classifier: Any) -> None:
    rows = [
        line.strip("| ").split(" | ") for line in section(classifier.__name__).splitlines() if line.startswith("| ")
    ]
    assert len(rows) > 25
    for there, *here in rows:
        assert len(here) == 1, there
        assert here[0] != "no", there  # a "no" has its reason


def test_what_is_said_to_be_ours_is_ours() -> None:
    """Parameters that a row offers under the same name exist."""
    ours = {*inspect.signature(ABCBoostClassifier).parameters, *dir(ABCBoostClassifier)}
    same = """num_leaves max_depth learning_rate n_estimators class_weight min_split_gain subsample min_child_weight
        reg_alpha reg_lambda interaction_constraints n_jobs random_state warm_start validation_fraction early_stopping
        max_features categorical_features predict_log_proba apply staged_decision_function feature_importances_"""
    for name in same.split():
        assert name in ours
        assert f"`{name}" in PAGE
