"""Figures of a study, drawn by matplotlib without a display."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from tuning.objective import PARAMS
from tuning.result import base_class_rounds, find_best, maximizes, pareto_front, trial_records
from tuning.studies import PREFIX

_BLUE, _GREY, _RED, _LIGHT = "#1f5fa8", "#8a8f98", "#c0392b", "#b9cfe8"
_START_MARKERS = {"paper": "^", "defaults": "s", "plain": "X"}
_SLICED = ("search", "gap", "warmup", "num_leaves", "max_leaves", "learning_rate")
_LOGARITHMIC = ("gap", "num_leaves", "max_leaves", "learning_rate", "reg_lambda", "min_samples_leaf")
_DPI = 120
_MAX_BASES, _FEW_BASES = 40, 10


def figures(study: Any) -> list[tuple[str, str, str]]:
    """All figures of a study with at least one complete trial.

    Returns
    -------
    list of (title, explanation, PNG as a data URI)
        Those for which there are too few trials are left out.
    """
    import matplotlib

    matplotlib.use("Agg")
    drawn = [_history(study), _importances(study), _slices(study), _front(study), _bases(study)]
    return [figure for figure in drawn if figure is not None]


def _history(study: Any) -> tuple[str, str, str]:
    records = [record for record in trial_records(study) if record["score"] is not None]
    complete = [record for record in records if record["state"] == "complete"]
    pruned = [record for record in records if record["state"] == "pruned"]
    figure, axes = _axes(9, 4)
    if pruned:
        _scatter(axes, pruned, "number", color=_LIGHT, label="pruned (mean of the folds done)")
    plain = [record for record in complete if not record["start"]]
    if plain:
        axes.errorbar(
            [record["number"] for record in plain],
            [record["score"] for record in plain],
            yerr=[record["spread"] for record in plain],
            fmt="o",
            color=_BLUE,
            ecolor=_LIGHT,
            markersize=4,
            label="complete, with the standard deviation over folds",
        )
    _mark_starts(axes, complete, "number")
    best = (np.maximum if maximizes(study) else np.minimum).accumulate([record["score"] for record in complete])
    axes.step([record["number"] for record in complete], best, where="post", color=_RED, label="best so far")
    _limit(axes, [record["score"] for record in complete], maximizes(study))
    axes.set_xlabel("trial")
    axes.set_ylabel(_metric(study))
    _legend_below(axes)
    text = "Mean of the metric over the outer folds. Trials far worse than most lie outside the picture."
    return "Optimisation history", text, _png(figure)


def _importances(study: Any) -> tuple[str, str, str] | None:
    """Importances by fANOVA, from the trials that have all parameters."""
    import optuna

    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    names = max((set(trial.params) for trial in complete), key=len)
    usable = [trial for trial in complete if set(trial.params) == names]
    values = [trial.values[0] for trial in usable]
    if len(usable) < 4 or min(values) == max(values):
        return None
    copy = _silent_study("maximize" if maximizes(study) else "minimize")
    for trial in usable:
        copy.add_trial(
            optuna.trial.create_trial(params=trial.params, distributions=trial.distributions, value=trial.values[0])
        )
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(copy, evaluator=evaluator)
    figure, axes = _axes(7, 0.6 + 0.45 * len(shares))
    labels, widths = list(shares)[::-1], list(shares.values())[::-1]
    bars = axes.barh([label.removesuffix("_plus_1") for label in labels], widths, color=_BLUE)
    axes.bar_label(bars, fmt="%.2f", padding=4)
    axes.set_xlim(0, 1.12 * max(widths))
    axes.set_xlabel("share of the variance of the metric")
    text = f"By fANOVA, from {len(usable)} complete trials. With few trials this is a rough guide."
    return "Parameter importances", text, _png(figure)


def _silent_study(direction: str) -> Any:
    """Make a study in memory without Optuna telling so."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(direction=direction)
    finally:
        optuna.logging.set_verbosity(verbosity)


def _slices(study: Any) -> tuple[str, str, str]:
    records = [record for record in trial_records(study) if record["state"] == "complete"]
    names = [name for name in _SLICED if sum(f"params_{name}" in record for record in records) > 1]
    columns = min(3, len(names)) or 1
    rows = max(1, -(-len(names) // columns))
    figure, grid = _axes(3.6 * columns, 3.0 * rows, rows, columns)
    best = find_best(study)
    all_axes = list(np.ravel(grid))
    for axes, name in zip(all_axes, names, strict=False):
        having = [record for record in records if f"params_{name}" in record]
        having = [record for record in having if record["start"] != "plain" or name not in ("search", "gap", "warmup")]
        values = [record[f"params_{name}"] for record in having]
        shown = [str(value) for value in values] if any(isinstance(value, str) for value in values) else values
        axes.scatter(shown, [record["score"] for record in having], s=18, color=_BLUE, alpha=0.7)
        if name in best.user_attrs[PARAMS] and any(record["number"] == best.number for record in having):
            own = best.user_attrs[PARAMS][name]
            axes.scatter([str(own) if shown is not values else own], [best.values[0]], s=70, color=_RED, marker="*")
        if name in _LOGARITHMIC and shown is values:
            axes.set_xscale("symlog" if name == "gap" else "log", **({"linthresh": 1} if name == "gap" else {}))
            _plain_ticks(axes, values, name)
        _limit(axes, [record["score"] for record in having], maximizes(study))
        axes.set_xlabel(name)
        axes.set_ylabel(_metric(study))
    for axes in all_axes[len(names) :]:
        axes.set_visible(False)
    figure.tight_layout()
    return "Slices", "Complete trials by the value of one parameter; the star is the best trial.", _png(figure)


def _front(study: Any) -> tuple[str, str, str]:
    records = [record for record in trial_records(study) if record["state"] == "complete"]
    front = pareto_front(study)
    figure, axes = _axes(9, 4)
    _scatter(axes, [record for record in records if not record["start"]], "cost", color=_LIGHT, label="complete")
    _mark_starts(axes, records, "cost")
    front = sorted(front, key=lambda record: record["cost"])
    costs, scores = [record["cost"] for record in front], [record["score"] for record in front]
    axes.plot(costs, scores, "-o", color=_RED, markersize=4, label="front")
    for place, record in enumerate(front):
        offset = (4, 5) if place % 2 else (4, -11)
        axes.annotate(
            str(record["number"]), (record["cost"], record["score"]), offset, textcoords="offset points", fontsize=8
        )
    axes.set_xscale("log")
    _plain_ticks(axes, [record["cost"] for record in records], "cost")
    _limit(axes, [record["score"] for record in records], maximizes(study))
    axes.set_xlabel("trees grown in all folds, those of losing candidates included")
    axes.set_ylabel(_metric(study))
    _legend_below(axes)
    text = "Trials on the front (with their numbers) are beaten by none in both the metric and the cost."
    return "Error and cost", text, _png(figure)


def _bases(study: Any) -> tuple[str, str, str] | None:
    counts = base_class_rounds(study)
    classic = counts.pop("classic", 0)
    if not counts:
        return None
    chosen = sorted(counts.items(), key=lambda item: -item[1])[:_MAX_BASES]
    figure, axes = _axes(9, 3.2)
    axes.bar([label for label, _ in chosen], [count for _, count in chosen], color=_BLUE)
    axes.set_xlabel("base class")
    axes.set_ylabel("rounds, all folds")
    axes.set_xlim(-0.6, max(len(chosen), _FEW_BASES) - 0.4)  # a few bars need not fill the picture
    if max(len(label) for label, _ in chosen) * len(chosen) > 90:
        axes.tick_params(axis="x", rotation=60)
    left_out = len(counts) - len(chosen)
    more = f" {left_out} classes with fewer rounds are not shown." if left_out > 0 else ""
    text = f"Rounds of the best trial by their base class; {classic} rounds were classic ones.{more}"
    return "Base classes used", text, _png(figure)


# ------------------------------------------------------------------------------------------------ drawing


def _axes(width: float, height: float, rows: int = 1, columns: int = 1) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI, layout=None if rows * columns > 1 else "tight")
    axes = figure.subplots(rows, columns)
    for one in np.ravel(axes):
        one.grid(True, color="#e6e8eb", linewidth=0.8)
        one.set_axisbelow(True)
        for side in ("top", "right"):
            one.spines[side].set_visible(False)
    return figure, axes


def _scatter(axes: Any, records: Sequence[dict[str, Any]], x: str, **style: Any) -> None:
    axes.scatter([record[x] for record in records], [record["score"] for record in records], s=22, **style)


def _mark_starts(axes: Any, records: Sequence[dict[str, Any]], x: str) -> None:
    for name, marker in _START_MARKERS.items():
        marked = [record for record in records if record["start"] == name]
        if marked:
            _scatter(axes, marked, x, color="black", marker=marker, label=name, zorder=3)


def _limit(axes: Any, scores: Sequence[float], maximize: bool) -> None:
    """Show the better trials well: cut those off that are much worse than three quarters of them."""
    good = np.quantile(scores, 0.25 if maximize else 0.75)
    best = max(scores) if maximize else min(scores)
    reach = 2.0 * abs(good - best) or 0.1 * abs(best) or 0.01
    worst = min(scores) if maximize else max(scores)
    edge = max(worst, good - reach) if maximize else min(worst, good + reach)
    margin = 0.15 * (abs(edge - best) or reach)
    axes.set_ylim(min(best, edge) - margin, max(best, edge) + margin)


def _plain_ticks(axes: Any, values: Sequence[float], name: str) -> None:
    """Ticks at round numbers, written out, on a logarithmic axis."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = min(values), max(values)
    steps = [factor * 10.0**power for power in range(-4, 9) for factor in (1, 2, 5)]
    inside = ([0.0] if name == "gap" else []) + [step for step in steps if low * 0.8 <= step <= high * 1.25]
    if name == "gap":
        inside = [step for step in inside if step == 0 or step >= 1]
    thinned = inside if len(inside) <= 6 else inside[:: -(-len(inside) // 6)]
    axes.xaxis.set_major_locator(FixedLocator(thinned))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _legend_below(axes: Any) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False, fontsize=9)


def _metric(study: Any) -> str:
    return str(study.user_attrs[PREFIX + "metric"])


def _png(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor="white")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
