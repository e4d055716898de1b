"""A study as one HTML page that needs no network."""

from __future__ import annotations

import html
import os
from importlib.util import find_spec
from typing import Any

from abc_plugins.core.runtime.atomic import replace_file
from tuning.objective import PARAMS
from tuning.result import compare, find_best, mean_rounds, trial_records
from tuning.studies import FINGERPRINT, PREFIX

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2127; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25em 0.8em; text-align: right; border-bottom: 1px solid #e1e4e8; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tr.best td { background: #fdf1ef; } tr.pruned td, tr.fail td { color: #707780; }
.scroll { overflow-x: auto; } img { max-width: 100%; height: auto; } p.note { color: #4c535c; }
"""
_TRIAL_COLUMNS = ("number", "state", "start", "score", "spread", "folds", "rounds", "cost", "seconds")


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
    from tuning.plots import figures

    if FINGERPRINT not in study.user_attrs:
        raise ValueError(f"study must be one made by tuning.tune; {study.study_name!r} is not.")
    name = html.escape(study.study_name)
    parts = [
        f"<h1>Study {name}</h1>",
        _facts(study),
        "<h2>Best against the baselines</h2>",
        _baselines(study),
        *(
            f'<h2>{title}</h2><p class="note">{html.escape(text)}</p><img alt="{title}" src="{source}">'
            for title, text, source in figures(study)
        ),
        "<h2>Trials</h2>",
        _trials(study),
    ]
    head = f'<meta charset="utf-8"><title>{name}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _facts(study: Any) -> str:
    best = find_best(study)
    attributes = study.user_attrs
    settings, versions = attributes[FINGERPRINT]["settings"], attributes[FINGERPRINT]["versions"]
    records = trial_records(study)
    parameters = {**best.user_attrs[PARAMS], "n_estimators": mean_rounds(best)}
    counts = {state: sum(record["state"] == state for record in records) for state in ("complete", "pruned", "fail")}
    facts = {
        "engine": attributes[PREFIX + "engine"],
        "classes": len(attributes[PREFIX + "classes"]),
        "metric": f"{attributes[PREFIX + 'metric']}, mean of {attributes[PREFIX + 'n_folds']} outer folds",
        "trials": ", ".join(f"{count} {state}" for state, count in counts.items() if count),
        "fit time": f"{sum(record['seconds'] or 0.0 for record in records):.1f} s",
        "best parameters": ", ".join(f"{name}={_cell(value)}" for name, value in parameters.items()),
        "rounds": f"at most {settings['max_rounds']}, stopped after {settings['early_stopping_rounds']} without gain",
        "versions": ", ".join(f"{package} {version}" for package, version in versions.items()),
    }
    rows = "".join(
        f'<tr><td>{name}</td><td style="text-align:left;white-space:normal">{html.escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f"<table>{rows}</table>"


def _baselines(study: Any) -> str:
    best = find_best(study)
    own = next(record for record in trial_records(study) if record["number"] == best.number)
    rows = [
        _row(("trial", "score", "spread over folds", "best is better by", "spread of that", "folds won"), tag="th"),
        _row((f"best (trial {best.number})", own["score"], own["spread"], "", "", ""), "best"),
        *(
            _row((c.name, c.score, c.spread, c.gain, c.gain_spread, f"{c.n_better} of {c.n_folds}"))
            for c in compare(study)
        ),
    ]
    note = (
        "The score of the best trial is the best of many and so a little too good; the difference to a baseline is "
        "judged fold by fold. An untouched test set tells the truth."
    )
    return f'<div class="scroll"><table>{"".join(rows)}</table></div><p class="note">{note}</p>'


def _trials(study: Any) -> str:
    records = trial_records(study)
    best = find_best(study).number
    parameters = list(dict.fromkeys(key for record in records for key in record if key.startswith("params_")))
    rows = [_row((*_TRIAL_COLUMNS, *(name.removeprefix("params_") for name in parameters)), tag="th")]
    for record in records:
        cells = [record.get(key) for key in (*_TRIAL_COLUMNS, *parameters)]
        rows.append(_row(cells, "best" if record["number"] == best else record["state"]))
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _row(cells: Any, kind: str = "", tag: str = "td") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f"<tr{attribute}>" + "".join(f"<{tag}>{html.escape(_cell(cell))}</{tag}>" for cell in cells) + "</tr>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
