"""The pictures of a comparison by the practice protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.compare.drawing import Sketch, draw_pictures, legend, plain_ticks
from abc_plugins.compare.page_parts import Picture
from abc_plugins.compare.practice.contenders import Contender
from abc_plugins.compare.style import line_of
from abc_plugins.core.runtime.arrays import AnyArray, Floats

Runs = Sequence[dict[str, Any]]
_MIN_COUNT = 30
"""Predictions of a bin that is drawn in the picture of calibration."""
_MIN_HITS = 3
_GRID = 200


def draw_all(runs: Runs, contenders: Sequence[Contender], table: Runs, folder: Path) -> list[Picture]:
    """Draw all pictures into a folder."""
    sketches = [
        Sketch(
            "standings",
            "Log loss and error",
            "Means over the splits with their standard errors; further to the left is better. Names in blue are ours.",
            lambda figure, narrow: _standings(figure, table, narrow),
        ),
        Sketch(
            "curves",
            "What training time buys",
            "Log loss of the validation rows at the best round so far: mean of the splits, in a band of a standard "
            "error to both sides. A line ends where training stopped. Seconds are spread evenly over the rounds of a "
            "fit.",
            lambda figure, narrow: _curves(figure, runs, contenders, narrow),
        ),
        Sketch(
            "calibration",
            "Can the probabilities be trusted?",
            "Of all predictions of about this probability, how many came true, over all rows, classes and splits. On "
            "the diagonal probabilities mean what they say; above it they are too low, below it too high.",
            lambda figure, narrow: _calibration(figure, runs, contenders, narrow),
        ),
    ]
    return draw_pictures(sketches, folder)


def _standings(figure: Any, table: Runs, narrow: bool) -> bool:
    """Dots with standard errors, a panel for log loss and one for error."""
    figure.set_size_inches(figure.get_figwidth(), (1.6 if narrow else 1.2) + len(table) * (0.5 if narrow else 0.32))
    shape = (2, 1) if narrow else (1, 2)
    panels = figure.subplots(*shape)
    for axes, value, scale, label in zip(
        panels, ("log_loss", "error"), (1, 100), ("log loss", "test error, %"), strict=True
    ):
        for position, row in enumerate(table):
            error = scale * (row[f"{value}_se"] or 0.0)
            colour = line_of(row["contender"])["color"]
            axes.errorbar(
                scale * row[value], position, xerr=error, fmt="o" if row["is_ours"] else "s", color=colour, capsize=3
            )
        _interesting_part(axes, [scale * row[value] for row in table])
        axes.set_yticks(range(len(table)), [row["title"] for row in table])
        for text, row in zip(axes.get_yticklabels(), table, strict=True):
            text.set_color("#0072B2" if row["is_ours"] else "black")
        axes.set_ylim(len(table) - 0.5, -0.5)
        axes.set_xlabel(label)
        axes.grid(alpha=0.25)
    panels[1].tick_params(labelleft=narrow)
    return True


def _interesting_part(axes: Any, values: Sequence[float]) -> None:
    """Leave out of sight what lies far behind all others, and say so."""
    low, high = min(values), max(values)
    limit = 2.5 * float(np.median(values))
    shown = [value for value in values if value <= limit]
    if low <= 0 or high <= limit:
        return
    high = max(shown)
    margin = 0.08 * (high - low) or 0.1 * high
    axes.set_xlim(low - margin, high + 3 * margin)
    for position, value in enumerate(values):
        if value > limit:
            place = {"xycoords": axes.get_yaxis_transform(), "xytext": (-4, 0), "textcoords": "offset points"}
            axes.annotate(f"{value:.3g} →", (1, position), **place, ha="right", va="center")


def _curves(figure: Any, runs: Runs, contenders: Sequence[Contender], narrow: bool) -> bool:
    """Best validation loss so far against seconds, with bands."""
    axes = figure.subplots()
    ends = []
    for contender in contenders:
        own = [run for run in runs if run["contender"] == contender.key and run["curve"]]
        if not own:
            continue
        seconds, curves = _on_grid(own)
        line = line_of(contender.key)
        mean, low, high = _band(curves)
        axes.plot(seconds, mean, label=contender.title, **line)
        axes.fill_between(seconds, low, high, color=line["color"], alpha=0.12, linewidth=0)
        ends.append((mean[-1], low[-1], high[-1]))
    if not ends:
        return False
    means, lows, highs = np.transpose(ends)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.93 * lows.min(), max(2.5 * np.median(means), 1.1 * highs.max()))
    begin, end = _in_sight(axes)
    axes.set_xlim(0.9 * begin, 1.1 * end)
    plain_ticks(axes.xaxis, (1, 2, 5) if end < (30 if narrow else 300) * begin else (1,))
    plain_ticks(axes.yaxis, (1, 1.5, 2, 3, 5, 7))
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("log loss, validation rows")
    axes.grid(alpha=0.25, which="both")
    legend(figure, narrow=narrow)
    return True


def _band(curves: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean of the curves, and a standard error below and above it; what is below 0 cannot be drawn."""
    mean = curves.mean(axis=0)
    error = curves.std(axis=0, ddof=1) / np.sqrt(len(curves)) if len(curves) > 1 else np.zeros_like(mean)
    return mean, np.maximum(mean - error, curves.min(axis=0)), mean + error


def _in_sight(axes: Any) -> tuple[float, float]:
    """The seconds from where a curve enters the picture to where the last one ends."""
    top = axes.get_ylim()[1]
    lines = [np.array(line.get_data()) for line in axes.get_lines()]
    return min(float(x[y <= top][0]) for x, y in lines), max(float(x[-1]) for x, _ in lines)


def _on_grid(runs: Runs) -> tuple[Floats, Floats]:
    """Curves of the splits at common seconds; after its end a curve stays at its best."""
    first = max(run["seconds"] / run["curve"][-1][0] for run in runs)
    seconds = np.geomspace(first, max(run["seconds"] for run in runs), _GRID)
    curves = []
    for run in runs:
        rounds, losses = np.array(run["curve"]).T
        at = rounds * run["seconds"] / rounds[-1]
        index = np.clip(np.searchsorted(at, seconds, side="right") - 1, 0, None)
        curves.append(np.minimum.accumulate(losses)[index])
    return seconds, np.array(curves)


def _calibration(figure: Any, runs: Runs, contenders: Sequence[Contender], narrow: bool) -> bool:
    """Share of predictions that came true against the probability they gave, both on a logit scale."""
    axes = figure.subplots()
    ticks = [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999]
    axes.plot([0.0005, 0.9995], [0.0005, 0.9995], color="#B0B0B0", linewidth=1, zorder=0)
    drawn = []
    for contender in contenders:
        said, found = _reliability([run["calibration"] for run in runs if run["contender"] == contender.key])
        if said.size:
            axes.plot(said, found, label=contender.title, marker=".", markersize=5, **line_of(contender.key))
            drawn += [said, found]
    if not drawn:
        return False
    low, high = (float(edge(np.concatenate(drawn))) for edge in (np.min, np.max))
    limits = 0.8 * low, 1 - 0.8 * (1 - high)
    for axis, set_scale, set_limits, set_ticks in (
        (axes.xaxis, axes.set_xscale, axes.set_xlim, axes.set_xticks),
        (axes.yaxis, axes.set_yscale, axes.set_ylim, axes.set_yticks),
    ):
        set_scale("logit")
        set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_minor_formatter("")
        set_limits(*limits)
    axes.set_xlabel("predicted probability")
    axes.set_ylabel("share that came true")
    axes.grid(alpha=0.25)
    legend(figure, narrow=narrow)
    return True


def _reliability(found: Sequence[dict[str, list[float]]]) -> tuple[AnyArray, AnyArray]:
    """Mean probability and share of hits of the bins that have enough of both hits and misses."""
    counts, sums, hits = (np.sum([one[name] for one in found], axis=0) for name in ("counts", "sums", "hits"))
    keep = (counts >= _MIN_COUNT) & (hits >= _MIN_HITS) & (counts - hits >= _MIN_HITS)
    return sums[keep] / counts[keep], hits[keep] / counts[keep]
