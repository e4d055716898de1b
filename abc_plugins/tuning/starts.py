"""The trials that a study starts with: the defaults, and settings that did well on other data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from abc_plugins.tuning.engines.base import TunedEngine
from abc_plugins.tuning.space import Space, applies, plain_name, to_drawn, to_parameters
from abc_plugins.tuning.study.storage import DEFAULTS

Start = tuple[str, dict[str, Any]]
"""Name, and what Optuna draws."""


@cache
def transfer_table() -> dict[str, Any]:
    """The table of settings, by engine, with its source."""
    table: dict[str, Any] = json.loads(files("abc_plugins.tuning").joinpath("transfer.json").read_text("utf-8"))
    return table


def first_trials(engine: TunedEngine, space: Space, n_samples: int) -> list[Start]:
    """What the first trials of a study draw, the defaults before all others.

    Settings that are the same after they have been moved into the ranges of the space are tried once.
    """
    defaults = engine.defaults(n_samples, space)
    settings = [(DEFAULTS, defaults)]
    settings += [(row["name"], {**defaults, **row["parameters"]}) for row in transfer_table()[engine.name]]
    starts: list[Start] = []
    for name, values in settings:
        drawn = _matter(engine, space, to_drawn(values, space))
        if all(drawn != known for _, known in starts):
            starts.append((name, drawn))
    return starts


def _matter(engine: TunedEngine, space: Space, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that are drawn, given the others."""
    values: dict[str, Any] = {**engine.not_tuned, **engine.fixed}
    kept = {}
    for name in space:
        if name in drawn and applies(name, values):
            kept[name] = drawn[name]
            values[plain_name(name)] = to_parameters({name: drawn[name]})[plain_name(name)]
    return kept
