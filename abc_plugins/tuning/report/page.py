"""A study as one HTML page that needs no network."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from abc_plugins.core.runtime.atomic import replace_file
from abc_plugins.html_page import document, facts, paragraphs, scrolling_table
from abc_plugins.tuning.report.importance import importances
from abc_plugins.tuning.result import cut_short, finding, fit_parameters, noise, shown, trial_records
from abc_plugins.tuning.study.storage import FINGERPRINT, PREFIX, silent_optuna
from abc_plugins.tuning.study.trials import maximizes
from abc_plugins.tuning.verdict import judge

COMMAND = PREFIX + "command"
"""Attribute of a study: the command that made it."""

_STYLE = """
body { max-width: 47rem; }
.found { border-left: 4px solid #1f5fa8; background: #f2f6fb; padding: 0.7em 1em; font-size: 1.08em; }
.found.kept { border-color: #8a8f98; background: #f4f5f6; }
tr.chosen td { background: #fdf1ef; font-weight: 600; } tr.pruned td, tr.fail td, tr.running td { color: #707780; }
"""


def write_report(study: Any, path: str | os.PathLike[str]) -> None:
    """Write the report of a study.

    Parameters
    ----------
    study : optuna.Study
        One made by `tuning.tune`, see `load_study`.
    path : path
        The HTML file, replaced if it exists.
    """
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError("the report needs matplotlib: pip install 'abc-plugins[plot]'")
    text = render_report(study)
    with replace_file(path, "w", encoding="utf-8") as file:
        file.write(text)


def render_report(study: Any) -> str:
    """Make the page."""
    from abc_plugins.tuning.report.plots import figures

    if FINGERPRINT not in study.user_attrs:
        raise ValueError(f"study must be one made by tuning.tune; {study.study_name!r} is not.")
    with silent_optuna():
        shares, n_used = importances(study)
    parts = [
        _found(study),
        _facts(study),
        *(
            f'<h2>{picture.title}</h2><p class="note">{html.escape(picture.text)}</p>'
            f'<img alt="{picture.title}" src="{picture.source}">'
            for picture in figures(study, shares, n_used)
        ),
        "<h2>Trials</h2>",
        *paragraphs(["The best first. Pruned trials have no score: they were given up after some of the folds."]),
        _trials(study, shares),
    ]
    return document(f"Study {study.study_name}", parts, _STYLE)


def _found(study: Any) -> str:
    """What was found, and whether to believe it."""
    kept = " kept" if judge(study).keeps_defaults else ""
    where = "folds drawn anew, which had no part in choosing it" if judge(study).is_confirmed else "the same folds"
    believe = (
        f"The score of the best of many trials is a little too good, so look at its difference to the defaults, on "
        f"{where}. An untouched test set tells the truth."
    )
    note = " ".join(text for text in (noise(study), cut_short(study), believe) if text)
    return "".join([*paragraphs([finding(study)], f"found{kept}"), *paragraphs([note])])


def _facts(study: Any) -> str:
    attributes = study.user_attrs
    settings, versions = attributes[FINGERPRINT]["settings"], attributes[FINGERPRINT]["versions"]
    records = trial_records(study)
    counts = {state: sum(record["state"] == state for record in records) for state in ("complete", "pruned", "fail")}
    dates = [trial.datetime_start for trial in study.get_trials(deepcopy=False) if trial.datetime_start is not None]
    n_rows, n_features = attributes[PREFIX + "shape"]
    parameters = fit_parameters(study, judge(study).chosen)
    known = {
        "chosen": ", ".join(f"{name}={shown(value)}" for name, value in parameters.items()),
        "engine": attributes[PREFIX + "engine"],
        "data": f"{n_rows:,} rows, {n_features:,} features, {len(attributes[PREFIX + 'classes'])} classes",
        "metric": f"{attributes[PREFIX + 'metric']}, mean of {attributes[PREFIX + 'n_folds']} outer folds",
        "trials": ", ".join(f"{count} {state}" for state, count in counts.items() if count),
        "rounds": f"at most {settings['max_rounds']}, stopped early by log loss",
        "begun": f"{min(dates):%Y-%m-%d %H:%M}",
        "fit time": f"{sum(record['seconds'] or 0.0 for record in records):.1f} s",
        "versions": ", ".join(f"{package} {version}" for package, version in versions.items()),
    }
    again = f"<code>{html.escape(_command(study, len(records)))}</code>"
    return facts({**{name: html.escape(str(value)) for name, value in known.items()}, "to repeat": again})


def _command(study: Any, n_trials: int) -> str:
    """The command line that made the study, or the call."""
    if COMMAND in study.user_attrs:
        return str(study.user_attrs[COMMAND])
    settings = study.user_attrs[FINGERPRINT]["settings"]
    fixed = {name: value for name, value in settings["fixed"].items() if name != "random_state" and value is not None}
    options = {
        "engine": settings["engine"],
        "n_trials": n_trials,
        "metric": settings["metric"],
        "max_rounds": settings["max_rounds"],
        "seed": settings["fixed"].get("random_state", 0),
        **({"fixed": fixed} if fixed else {}),
    }
    return f"tuning.tune(X, y, {', '.join(f'{name}={value!r}' for name, value in options.items())})"


def _trials(study: Any, shares: Mapping[str, float]) -> str:
    """All trials; parameters in the order of their importance, so that what mattered is seen first."""
    records = trial_records(study)
    chosen = judge(study).chosen.number
    names = list(dict.fromkeys(key.removeprefix("params_") for one in records for key in one if "params_" in key))
    first = [name for name in (*shares, "method") if name in names]
    ordered = [*first, *(name for name in names if name not in first)]
    metric = study.user_attrs[PREFIX + "metric"]
    rows = [_row(("trial", "", metric, *ordered, "spread", "rounds", "trees", "seconds", "state"), tag="th")]
    sign = -1.0 if maximizes(study) else 1.0
    best_first = sorted(
        records,
        key=lambda one: (one["state"] != "complete", sign * (one["score"] or 0.0) if one["state"] == "complete" else 0),
    )
    for record in best_first:
        is_complete = record["state"] == "complete"
        state = f"pruned after {record['folds']}" if record["state"] == "pruned" else record["state"]
        cells = [
            record["number"],
            record["start"],
            record["score"] if is_complete else "",
            *(record.get(f"params_{name}") for name in ordered),
            record["spread"] if is_complete else "",
            *(record[key] for key in ("rounds", "cost", "seconds")),
            state,
        ]
        rows.append(_row(cells, "chosen" if record["number"] == chosen else record["state"]))
    return scrolling_table(rows)


def _row(cells: Sequence[Any], kind: str = "", tag: str = "td") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f"<tr{attribute}>" + "".join(f"<{tag}>{html.escape(_cell(cell))}</{tag}>" for cell in cells) + "</tr>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
