"""The practice protocol on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.compare.page_parts import Picture
from abc_plugins.compare.practice.contenders import contenders, select
from abc_plugins.compare.practice.page import render_page
from abc_plugins.compare.practice.plan import ROUNDS, PracticePlan
from abc_plugins.compare.practice.report import POINT_COLUMNS, as_text
from abc_plugins.compare.practice.standings import summarise
from abc_plugins.compare.practice.table import MAX_TRAIN
from abc_plugins.compare.running import run
from abc_plugins.compare.view import View
from abc_plugins.data.datasets import Dataset

_FORMAT = 2


def keys() -> list[str]:
    """Names of the contenders."""
    return [contender.key for contender in contenders()]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this protocol has."""
    parser.add_argument(
        "--max-train",
        type=int,
        default=MAX_TRAIN,
        metavar="N",
        help="largest number of training rows of a split, 0 for all (default %(default)s)",
    )


def check_options(options: argparse.Namespace) -> None:
    """Refuse options that belong to a budget, and unknown contenders."""
    given = [name for name in ("leaves", "learning_rate", "bins", "clip", "search", "gap", "warmup")
             if getattr(options, name) is not None]  # fmt: skip
    if given:
        option = given[0].replace("_", "-")
        raise ValueError(f"--{option} needs a --budget; without one every contender has its own settings.")
    select(options.engines)


def make_plan(options: argparse.Namespace, dataset: Dataset) -> PracticePlan:
    """The plan that the options ask for."""
    return PracticePlan(
        dataset,
        select(options.engines),
        splits=options.splits,
        test_size=options.test_size,
        seed=options.seed,
        rounds=ROUNDS if options.rounds is None else options.rounds,
        max_train=options.max_train or None,
        n_jobs=options.n_jobs,
    )


def make_results(options: argparse.Namespace, plan: PracticePlan, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return all that results.json holds: the tables, and what they were measured on."""
    subject, first = plan.subject(), runs[0]
    missing = [] if options.engines else [contender for contender in contenders() if not contender.is_installed]
    left_out = [*plan.table.left_out, *dict.fromkeys(text for run in runs for text in run["left_out"])]
    train_rows = plan.dataset.train_index if plan.own_split else None
    share = 0.5 if plan.test_size is None else 1 - plan.test_size
    return {
        "format": _FORMAT,
        "protocol": "practice",
        "data": {
            "name": plan.dataset.name,
            "note": plan.dataset.note,
            "sha256": subject["data"]["sha256"],
            "n_fit": first["n_fit"],
            "n_valid": first["n_valid"],
            "n_test": first["n_test"],
            "n_train_rows": int(plan.table.y.size * share) if train_rows is None else int(np.size(train_rows)),
            "n_features": plan.dataset.X.shape[1],
            "n_categorical": len(plan.table.categorical),
            "n_classes": first["n_classes"],
            "left_out": left_out,
            "splits": plan.splits,
            "own_split": plan.own_split,
            "seeds": sorted({run["seed"] for run in runs}),
        },
        "settings": subject["settings"],
        "machine": subject["machine"],
        "contenders": [
            {
                "key": contender.key,
                "title": contender.title,
                "settings": contender.settings,
                "parameters": next(run for run in runs if run["contender"] == contender.key)["parameters"],
            }
            for contender in plan.contenders
        ],
        "not_installed": [f"{contender.title}: pip install {contender.extra}" for contender in missing],
        **summarise(runs, plan.contenders),
    }


def draw_all(
    plan: PracticePlan, runs: Sequence[dict[str, Any]], results: dict[str, Any], folder: Path
) -> list[Picture]:
    """Draw the pictures."""
    from abc_plugins.compare.practice.pictures import draw_all as draw

    return draw(runs, plan.contenders, results["table"], folder)


VIEW = View(check_options, make_plan, run, make_results, as_text, render_page, draw_all, POINT_COLUMNS)
