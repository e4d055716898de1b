"""Figures of a study, drawn by matplotlib without a display."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from abc_plugins.tuning.result import base_class_rounds, pareto_front, trial_records
from abc_plugins.tuning.space import to_parameters
from abc_plugins.tuning.study.storage import DEFAULTS, PREFIX
from abc_plugins.tuning.study.trials import complete_trials, maximizes
from abc_plugins.tuning.verdict import judge

_BLUE, _GREY, _RED, _LIGHT = "#1f5fa8", "#8a8f98", "#c0392b", "#b9cfe8"
_LOGARITHMIC = ("num_leaves", "learning_rate", "reg_lambda", "leaf_reg_lambda", "min_samples_leaf", "min_child_weight")
_LOGARITHMIC_TOO = ("min_child_samples", "gap")
_DPI, _WIDTH = 150, 7.2
_MAX_SLICES, _MAX_BASES = 6, 30
_FONT = {"font.size": 11, "axes.titlesize": 11}


class ReportPicture(NamedTuple):
    """A figure of the report: its title, what it shows, and a PNG as a data URI."""

    title: str
    text: str
    source: str


def figures(study: Any, shares: Mapping[str, float], n_used: int) -> list[ReportPicture]:
    """All figures of a study with at least one complete trial; those for which there are too few trials are left out.

    Parameters
    ----------
    study : optuna.Study
    shares : dict of str to float
        Importances of the parameters, the largest first.
    n_used : int
        Trials that they come from.
    """
    import matplotlib

    with matplotlib.rc_context({**_FONT, "backend": "Agg"}):
        drawn = [_history(study), _importances(shares, n_used), _slices(study, list(shares)), _front(study)]
        return [picture for picture in [*drawn, _bases(study)] if picture is not None]


def _history(study: Any) -> ReportPicture:
    from matplotlib.ticker import MaxNLocator

    records = trial_records(study)
    complete = [record for record in records if record["state"] == "complete"]
    others = [record for record in records if record["state"] in ("pruned", "fail")]
    verdict = judge(study)
    figure, axes = _axes(_WIDTH, 3.8)
    best = (np.maximum if maximizes(study) else np.minimum).accumulate([record["score"] for record in complete])
    axes.step([record["number"] for record in complete], best, where="post", color=_RED, label="best so far")
    axes.scatter(
        [record["number"] for record in complete],
        [record["score"] for record in complete],
        s=26,
        color=_BLUE,
        zorder=3,
        label="complete trial",
    )
    if verdict.defaults is not None:
        level, margin = verdict.defaults.values[0], verdict.margin
        axes.axhline(level, color=_GREY, linewidth=1, label="defaults")
        if margin > 0:
            sign = 1.0 if maximizes(study) else -1.0
            edge = level + sign * margin
            axes.axhspan(min(level, edge), max(level, edge), color=_GREY, alpha=0.18, label="not beyond the noise")
    _limit(axes, [record["score"] for record in complete], maximizes(study))
    if others:
        # What a pruned trial had reached is no score of all folds: only that it was there is shown.
        place = axes.get_ylim()[0 if maximizes(study) else 1]
        axes.scatter(
            [record["number"] for record in others],
            [place] * len(others),
            marker="|",
            s=60,
            color=_GREY,
            clip_on=False,
            label="pruned or failed",
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("trial")
    axes.set_ylabel(_metric(study))
    _legend_below(axes)
    text = (
        "Mean over the outer folds. The grey band is the standard error of the gain over the defaults. Trials far "
        "worse than most lie outside the picture; pruned ones, which have no score of all folds, are marked at the "
        "edge."
    )
    return ReportPicture("History", text, _png(figure))


def _importances(shares: Mapping[str, float], n_used: int) -> ReportPicture | None:
    if not shares:
        return None
    figure, axes = _axes(_WIDTH, 0.9 + 0.36 * len(shares))
    labels, widths = list(shares)[::-1], list(shares.values())[::-1]
    bars = axes.barh(labels, widths, color=_BLUE)
    axes.bar_label(bars, fmt="%.2f", padding=4)
    axes.set_xlim(0, 1.15 * max(widths))
    axes.set_xlabel("share of the variance of the metric")
    text = f"By fANOVA, from {n_used} complete trials of one method. With few trials this is a rough guide."
    return ReportPicture("What mattered", text, _png(figure))


def _slices(study: Any, by_importance: Sequence[str]) -> ReportPicture | None:
    # What was drawn, not what the estimator was given: it says where the defaults are, too.
    complete = complete_trials(study)
    drawn = {trial.number: to_parameters(trial.params) for trial in complete}
    known = list(dict.fromkeys(name for values in drawn.values() for name in values))
    ordered = [*by_importance, *(name for name in known if name not in by_importance)]
    names = [name for name in ordered if len({values.get(name) for values in drawn.values()} - {None}) > 1]
    if not names:
        return None
    names = names[:_MAX_SLICES]
    columns = min(2, len(names))
    figure, grid = _axes(_WIDTH, 2.7 * -(-len(names) // columns), -(-len(names) // columns), columns)
    for axes, name in zip(np.ravel(grid), names, strict=False):
        values = {number: own[name] for number, own in drawn.items() if name in own}
        _slice(axes, study, {trial.number: trial.values[0] for trial in complete}, name, values)
    for axes in np.ravel(grid)[len(names) :]:
        axes.set_visible(False)
    figure.tight_layout()
    text = "Complete trials by the value of one parameter, the most important first; the star is the chosen trial."
    return ReportPicture("Parameters one by one", text, _png(figure))


def _slice(axes: Any, study: Any, scores: Mapping[int, float], name: str, values: Mapping[int, Any]) -> None:
    """Scores by the value of one parameter; both are given by the number of the trial."""
    is_text = any(isinstance(value, str) for value in values.values())
    shown = {number: str(value) if is_text else value for number, value in values.items()}
    axes.scatter(list(shown.values()), [scores[number] for number in shown], s=20, color=_BLUE, alpha=0.75)
    chosen = judge(study).chosen.number
    if chosen in shown:
        axes.scatter([shown[chosen]], [scores[chosen]], s=110, color=_RED, marker="*", zorder=3)
    if is_text:
        axes.margins(x=0.3)
    else:
        _ticks(axes, list(values.values()), name)
    _limit(axes, list(scores.values()), maximizes(study))
    axes.set_xlabel(name)
    axes.set_ylabel(_metric(study))


def _front(study: Any) -> ReportPicture:
    records = [record for record in trial_records(study) if record["state"] == "complete"]
    front = sorted(pareto_front(study), key=lambda record: record["cost"])
    figure, axes = _axes(_WIDTH, 3.6)
    axes.scatter([r["cost"] for r in records], [r["score"] for r in records], s=24, color=_LIGHT, label="complete")
    costs, scores = [record["cost"] for record in front], [record["score"] for record in front]
    axes.plot(costs, scores, "-o", color=_RED, markersize=5, label="front")
    for place, record in enumerate(front):
        offset = (4, 6) if place % 2 else (4, -14)
        axes.annotate(str(record["number"]), (record["cost"], record["score"]), offset, textcoords="offset points")
    for record in records:
        if record["start"] == DEFAULTS:
            axes.scatter(
                [record["cost"]], [record["score"]], color="black", marker="s", s=36, label="defaults", zorder=3
            )
    axes.set_xscale("log")
    _log_ticks(axes, [record["cost"] for record in records])
    _limit(axes, [record["score"] for record in records], maximizes(study))
    axes.set_xlabel("trees grown in all folds")
    axes.set_ylabel(_metric(study))
    _legend_below(axes)
    text = "Trials on the front (with their numbers) are beaten by none in both the metric and the cost."
    return ReportPicture("Metric and cost", text, _png(figure))


def _bases(study: Any) -> ReportPicture | None:
    counts = base_class_rounds(study)
    without = counts.pop("none", 0)
    if not counts:
        return None
    chosen = sorted(counts.items(), key=lambda item: -item[1])[:_MAX_BASES]
    figure, axes = _axes(_WIDTH, 3.2)
    axes.bar([label for label, _ in chosen], [count for _, count in chosen], color=_BLUE)
    axes.set_xlabel("base class")
    axes.set_ylabel("rounds, all folds")
    if max(len(label) for label, _ in chosen) * len(chosen) > 60:
        axes.tick_params(axis="x", rotation=60)
    left_out = len(counts) - len(chosen)
    more = f" {left_out} classes with fewer rounds are not shown." if left_out > 0 else ""
    text = f"Rounds of the chosen trial by their base class; {without} rounds had none.{more}"
    return ReportPicture("Base classes", text, _png(figure))


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


def _limit(axes: Any, scores: Sequence[float], maximize: bool) -> None:
    """Show the better trials well: cut those off that are much worse than three quarters of them."""
    good = np.quantile(scores, 0.25 if maximize else 0.75)
    best = max(scores) if maximize else min(scores)
    reach = 2.0 * abs(good - best) or 0.1 * abs(best) or 0.01
    edge = min(s for s in scores if s >= good - reach) if maximize else max(s for s in scores if s <= good + reach)
    margin = 0.15 * (abs(edge - best) or reach)
    axes.set_ylim(min(best, edge) - margin, max(best, edge) + margin)


def _ticks(axes: Any, values: Sequence[float], name: str) -> None:
    """Whole numbers where the parameter is one, round numbers written out on logarithmic axes."""
    from matplotlib.ticker import MaxNLocator

    if name in _LOGARITHMIC and min(values) > 0:
        axes.set_xscale("log")
        _log_ticks(axes, values)
    elif name in _LOGARITHMIC_TOO:
        axes.set_xscale("symlog", linthresh=1)
        _log_ticks(axes, values, from_zero=min(values) == 0)
    elif all(isinstance(value, int) for value in values):
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def _log_ticks(axes: Any, values: Sequence[float], from_zero: bool = False) -> None:
    """Two ticks at least, at round numbers, on a logarithmic axis."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = min(value for value in values if value > 0 or not from_zero), max(values)
    low = low or 1.0
    for factors in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        steps = [factor * 10.0**power for power in range(-5, 10) for factor in factors]
        inside = [step for step in steps if low * 0.9 <= step <= high * 1.1]
        if len(inside) >= 3:
            break
    if len(inside) < 2:
        inside = sorted({low, high})
    if all(isinstance(value, int) for value in values):
        inside = sorted({round(step) for step in inside})
    thinned = inside if len(inside) <= 6 else inside[:: -(-len(inside) // 6)]
    axes.xaxis.set_major_locator(FixedLocator([0.0, *thinned] if from_zero else thinned))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _legend_below(axes: Any) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=3, frameon=False, fontsize=10)


def _metric(study: Any) -> str:
    return str(study.user_attrs[PREFIX + "metric"])


def _png(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor="white")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
