"""The pictures of a comparison, drawn by matplotlib without a display."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.compare.budgets.contenders import BudgetContender
from abc_plugins.compare.drawing import Sketch, draw_pictures, legend, plain_ticks
from abc_plugins.compare.page_parts import Picture
from abc_plugins.compare.style import PHASES, line_of
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.plot import draw_base_classes

_MAX_CLASS_LABELS = 26


def draw_all(runs: Sequence[dict[str, Any]], contenders: Sequence[BudgetContender], folder: Path) -> list[Picture]:
    """Draw all pictures into a folder."""
    sketches = [Sketch(name, title, text, partial(draw, runs, contenders)) for name, title, text, draw in _PICTURES]
    return draw_pictures(sketches, folder)


def _curves(
    runs: Sequence[dict[str, Any]], contenders: Sequence[BudgetContender], figure: Any, narrow: bool, *, against: str
) -> bool:
    """Mean test error of every contender against rounds, seconds or trees."""
    axes = figure.subplots()
    ends, starts = [], []
    for contender in contenders:
        x, y = _mean_curve([run for run in runs if run["contender"] == contender.key], against)
        axes.plot(x, 100 * y, label=contender.title, **line_of(contender.key))
        starts.append(100 * y[0])
        ends.append(100 * y.min())
    _error_axis(axes, min(ends))
    axes.set_ylim(
        top=max(1.3 * float(np.median(starts)), 1.1 * max(ends))
    )  # one that starts late needs not shrink the rest
    if against != "rounds":
        axes.set_xscale("log")
        plain_ticks(axes.xaxis, (1, 2, 5))
    label = {"rounds": "boosting rounds", "seconds": "seconds of training", "trees": "trees grown"}[against]
    axes.set_xlabel(label)
    axes.grid(alpha=0.25, which="both")
    legend(figure, narrow=narrow)
    return True


def _mean_curve(runs: Sequence[dict[str, Any]], against: str) -> tuple[AnyArray, Floats]:
    """Mean over the splits, round by round, of the rounds that all of them have."""
    n_rounds = min(len(run["errors"]) for run in runs)
    errors = np.mean([np.array(run["errors"][:n_rounds]) / run["n_test"] for run in runs], axis=0)
    if against == "rounds":
        return np.arange(1, n_rounds + 1), errors
    return np.mean([run[against][:n_rounds] for run in runs], axis=0), errors


def _error_axis(axes: Any, lowest: float) -> None:
    """Logarithmic where it can be."""
    axes.set_ylabel("test error, %")
    if lowest <= 0:
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log")
    plain_ticks(axes.yaxis, (1, 2, 3, 5))


def _base_classes(
    runs: Sequence[dict[str, Any]], contenders: Sequence[BudgetContender], figure: Any, narrow: bool
) -> bool:
    """Base class over the rounds of the first split."""
    own = [
        (contender, run)
        for contender in contenders
        for run in runs
        if run["contender"] == contender.key and run["split"] == 0 and max(run["bases"] or [-1]) >= 0
    ]
    if not own:
        return False
    columns = 2 if len(own) > 1 and not narrow else 1
    rows = -(-len(own) // columns)
    n_classes = len(own[0][1]["classes"])
    figure.set_size_inches(figure.get_figwidth(), rows * (1.4 + 0.12 * min(n_classes, _MAX_CLASS_LABELS)))
    grid = np.ravel(figure.subplots(rows, columns, squeeze=False, sharex=True))
    for axes, (contender, run) in zip(grid, own, strict=False):
        draw_base_classes(axes, np.array(run["bases"]), run["classes"], color=line_of(contender.key)["color"])
        axes.set_title(contender.title, fontsize=10)
        axes.label_outer()
    for axes in grid[len(own) :]:
        axes.set_visible(False)
    return True


def _time(runs: Sequence[dict[str, Any]], contenders: Sequence[BudgetContender], figure: Any, narrow: bool) -> bool:
    """Mean seconds of every contender by what was done."""
    axes = figure.subplots()
    left = np.zeros(len(contenders))
    for phase, (label, colour, hatch) in PHASES.items():
        widths = np.array(
            [np.mean([run["phases"][phase] for run in runs if run["contender"] == c.key]) for c in contenders]
        )
        axes.barh(range(len(contenders)), widths, left=left, color=colour, hatch=hatch, edgecolor="white", label=label)
        left += widths
    for position, total in enumerate(left):
        axes.annotate(f"{total:.2f} s", (total, position), (4, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(contenders)), [contender.title for contender in contenders])
    axes.invert_yaxis()
    axes.set_xlim(0, (1.3 if narrow else 1.12) * left.max())
    axes.set_xlabel("seconds, mean of the splits")
    axes.grid(alpha=0.25, axis="x")
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=1 if narrow else 3, frameon=False, fontsize=9)
    return True


_PICTURES = (
    (
        "error_rounds",
        "Test error against rounds",
        "Mean of the splits. Solid lines have an adaptive base class; a dashed line of the same colour is the same "
        "engine without.",
        partial(_curves, against="rounds"),
    ),
    (
        "error_seconds",
        "Test error against training time",
        "The time to prepare the data included. Lower and further to the left is better.",
        partial(_curves, against="seconds"),
    ),
    (
        "error_trees",
        "Test error against trees",
        "Trees grown, those of losing candidates of a search included.",
        partial(_curves, against="trees"),
    ),
    (
        "base_classes",
        "Base class over the rounds",
        "Each mark is a round, of the first split. Rounds without a mark are classic ones.",
        _base_classes,
    ),
    ("time", "Where the time went", "One fit and the prediction of all test rows.", _time),
)
