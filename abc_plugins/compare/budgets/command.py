"""Comparisons under a budget on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.compare.budgets.contenders import contenders, select
from abc_plugins.compare.budgets.page import render_page
from abc_plugins.compare.budgets.plan import BudgetPlan
from abc_plugins.compare.budgets.report import POINT_COLUMNS, as_text
from abc_plugins.compare.budgets.settings import CompareSettings
from abc_plugins.compare.budgets.standings import BUDGETS, summarise
from abc_plugins.compare.page_parts import Picture
from abc_plugins.compare.running import run
from abc_plugins.compare.view import View
from abc_plugins.data.datasets import Dataset

_FORMAT = 2
_DEFAULTS = CompareSettings()
ROUNDS = _DEFAULTS.rounds


def keys() -> list[str]:
    """Names of the contenders."""
    return [contender.key for contender in contenders()]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only a budget has; None stands for the default."""
    group = parser.add_argument_group("the same settings for all, without early stopping")
    group.add_argument("--budget", choices=BUDGETS, help="what the table holds equal; the fits serve all three of them")
    for name, kind, letter, default, text in (
        ("--leaves", int, "J", _DEFAULTS.num_leaves, "leaves of a tree"),
        ("--learning-rate", float, "NU", _DEFAULTS.learning_rate, "shrinkage"),
        ("--bins", int, "N", _DEFAULTS.max_bins, "bins of a feature"),
        ("--clip", float, "V", _DEFAULTS.leaf_clip, "largest leaf value before shrinkage"),
    ):
        group.add_argument(name, type=kind, metavar=letter, help=f"{text} (default {default})")
    group.add_argument("--search", type=_search, metavar="S", help="base classes to try, or 'all'")
    group.add_argument("--gap", type=int, metavar="G", help="rounds that keep the base after a search")
    group.add_argument("--warmup", type=int, metavar="W", help="classic rounds at the start")


def check_options(options: argparse.Namespace) -> None:
    """Refuse bad settings and unknown contenders before any data is read."""
    _settings(options)
    select(options.engines)


def _settings(options: argparse.Namespace) -> CompareSettings:
    names = {
        "rounds": options.rounds,
        "num_leaves": options.leaves,
        "learning_rate": options.learning_rate,
        "max_bins": options.bins,
        "leaf_clip": options.clip,
        "search": options.search,
        "gap": options.gap,
        "warmup": options.warmup,
    }
    given = {name: value for name, value in names.items() if value is not None}
    return CompareSettings(**given, n_jobs=options.n_jobs)


def make_plan(options: argparse.Namespace, dataset: Dataset) -> BudgetPlan:
    """The plan that the options ask for."""
    settings = _settings(options)
    classes = np.unique(dataset.y)
    if classes.size < 2:
        raise ValueError(f"{dataset.name} must have at least two classes; got {classes.size}.")
    if isinstance(settings.search, int) and settings.search > classes.size:
        raise ValueError(f"--search must be at most the number of classes ({classes.size}); got {settings.search}.")
    return BudgetPlan(
        dataset,
        settings,
        select(options.engines),
        splits=options.splits,
        test_size=options.test_size,
        seed=options.seed,
    )


def make_results(options: argparse.Namespace, plan: BudgetPlan, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return all that results.json holds: the tables, and what they were measured on."""
    subject = plan.subject()
    dataset, first = plan.dataset, runs[0]
    missing = [] if options.engines else [contender for contender in contenders() if not contender.is_installed]
    return {
        "format": _FORMAT,
        "budget": options.budget,
        "data": {
            "name": dataset.name,
            "note": dataset.note,
            "sha256": subject["data"]["sha256"],
            "n_train": first["n_train"],
            "n_test": first["n_test"],
            "n_features": dataset.X.shape[1],
            "n_classes": len(first["classes"]),
            "splits": plan.splits,
            "own_split": plan.own_split,
            "seed": plan.seed,
            "seeds": sorted({run["seed"] for run in runs if run["seed"] is not None}),
        },
        "settings": asdict(plan.settings),
        "machine": subject["machine"],
        "contenders": [
            {
                "key": contender.key,
                "title": contender.title,
                "settings": "; ".join(contender.differences),
                "parameters": next(run for run in runs if run["contender"] == contender.key)["parameters"],
            }
            for contender in plan.contenders
        ],
        "not_installed": [f"{contender.title}: pip install {contender.extra}" for contender in missing],
        **summarise(runs, plan.contenders, options.budget),
    }


def draw_all(plan: BudgetPlan, runs: Sequence[dict[str, Any]], _: dict[str, Any], folder: Path) -> list[Picture]:
    """Draw the pictures."""
    from abc_plugins.compare.budgets.pictures import draw_all as draw

    return draw(runs, plan.contenders, folder)


def _search(text: str) -> int | str:
    return text if text == "all" else int(text)


VIEW = View(check_options, make_plan, run, make_results, as_text, render_page, draw_all, POINT_COLUMNS)
