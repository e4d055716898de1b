"""A comparison as one HTML page that needs nothing else, and no network."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abc_plugins.compare.report import HEADINGS, PAIR_HEADINGS, cells, format_p, headline, notes, pair_cells

_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1c2127; background: #fff; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0.3rem; } h2 { font-size: 1.25rem; margin-top: 2.4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.93rem; }
th, td { padding: 0.3rem 0.75rem; text-align: right; border-bottom: 1px solid #dfe3e8; white-space: nowrap; }
th { border-bottom: 2px solid #8a929b; font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0.3rem; }
tr.adaptive td:first-child { font-weight: 600; } td.best { background: #e3f1fb; font-weight: 600; }
table.facts td { white-space: normal; text-align: left; vertical-align: top; }
table.facts td:first-child { white-space: nowrap; font-weight: 600; }
.scroll { overflow-x: auto; } img { max-width: 100%; height: auto; display: block; }
.lead { font-size: 1.08rem; } .note { color: #4c535c; } figure { margin: 0 0 1.5rem; }
code, pre { font: 0.88rem/1.5 ui-monospace, monospace; background: #f3f5f7; border-radius: 4px; }
code { padding: 0.1rem 0.3rem; } pre { padding: 0.7rem; overflow-x: auto; white-space: pre-wrap; }
summary { cursor: pointer; }
"""


def render_page(results: dict[str, Any], pictures: Sequence[tuple[str, str, str]], folder: Path) -> str:
    """Make the page.

    Parameters
    ----------
    results : dict
        What results.json holds.
    pictures : sequence of (file name, title, explanation)
    folder : Path
        Where the pictures are.
    """
    title = f"ABC-Boost head to head on {html.escape(results['data']['name'])}"
    parts = [
        f"<h1>{title}</h1>",
        *(f'<p class="note">{html.escape(line)}</p>' for line in headline(results)),
        '<ul class="lead">' + "".join(f"<li>{html.escape(line)}</li>" for line in _verdicts(results)) + "</ul>",
        "<h2>All contenders</h2>",
        _table(results),
        *(f'<p class="note">{html.escape(line)}</p>' for line in notes(results)),
        *_pairs(results),
        *(_figure(folder / name, heading, text) for name, heading, text in pictures),
        "<h2>What is the same for all, and what is not</h2>",
        _differences(results),
        "<h2>How to repeat it</h2>",
        _facts(results),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>{title}</title><style>{_STYLE}</style>"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _verdicts(results: dict[str, Any]) -> list[str]:
    """The result in words, whatever it is."""
    best = min(results["table"], key=lambda row: row["error"])
    sentences = [f"{best['title']} has the lowest test error: {100 * best['error']:.2f}%."]
    for pair in results["pairs"]:
        points = 100 * pair["difference"]
        outcome = "the same error as"
        if points:
            outcome = f"an error {abs(points):.2f} percentage points {'below' if points < 0 else 'above'} that of"
        own, rival = pair["title"].split(" - ")
        certainty = "" if pair["p_value"] is None else f" (p: {format_p(pair['p_value'])})"
        sentences.append(f"{own} has {outcome} {rival}{certainty}.")
    return sentences


def _table(results: dict[str, Any]) -> str:
    adaptive = {pair["contender"] for pair in results["pairs"]}
    rows = results["table"]
    lowest = {
        column: min(row[name] for row in rows)
        for column, name in ((1, "error"), (2, "log_loss"), (3, "seconds"), (5, "ms_per_tree"))
    }
    names = {1: "error", 2: "log_loss", 3: "seconds", 5: "ms_per_tree"}
    lines = [_row(HEADINGS, tag="th")]
    for row in rows:
        best = {column for column, value in lowest.items() if row[names[column]] == value}
        lines.append(_row(cells(row), best=best, kind="adaptive" if row["contender"] in adaptive else ""))
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _pairs(results: dict[str, Any]) -> list[str]:
    if not results["pairs"]:
        return []
    rows = "".join([_row(PAIR_HEADINGS, tag="th"), *(_row(pair_cells(pair)) for pair in results["pairs"])])
    text = "Negative differences are fewer errors with an adaptive base class. Time is that of the fit, as a ratio."
    return [
        "<h2>What the adaptive base class brings</h2>",
        f'<div class="scroll"><table>{rows}</table></div><p class="note">{text}</p>',
    ]


def _row(texts: Sequence[str], *, tag: str = "td", best: set[int] | None = None, kind: str = "") -> str:
    made = [
        f"<{tag}{' class=best' if best and index in best else ''}>{html.escape(text)}</{tag}>"
        for index, text in enumerate(texts)
    ]
    return f"<tr{f' class={kind}' if kind else ''}>{''.join(made)}</tr>"


def _figure(path: Path, heading: str, text: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    picture = f'<img alt="{html.escape(heading)}" src="data:image/png;base64,{data}">'
    return f'<h2>{html.escape(heading)}</h2><figure>{picture}<figcaption class="note">{text}</figcaption></figure>'


def _differences(results: dict[str, Any]) -> str:
    settings = results["settings"]
    same = (
        f"Rounds ({settings['rounds']}), leaves ({settings['num_leaves']}), shrinkage ({settings['learning_rate']:g}), "
        f"bins ({settings['max_bins']}) and leaf clip ({settings['leaf_clip']:g}) are the same for all that know them, "
        "and trees are grown best-first. Everything else is as each package comes:"
    )
    rows = "".join(
        f"<tr><td>{html.escape(contender['title'])}</td><td>{html.escape('; '.join(contender['differences']))}."
        f"<details><summary>parameters</summary><code>{html.escape(_parameters(contender))}</code></details></td></tr>"
        for contender in results["contenders"]
    )
    return f'<p>{same}</p><table class="facts">{rows}</table>'


def _parameters(contender: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in contender["parameters"].items())


def _facts(results: dict[str, Any]) -> str:
    machine, data = results["machine"], results["data"]
    seeds = "the data set's own split" if data["own_split"] else ", ".join(map(str, data["seeds"]))
    facts = {
        "versions": ", ".join(f"{package} {version}" for package, version in machine["versions"].items()),
        "machine": f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}",
        "seeds of the splits": seeds,
        "seed of the contenders": "0",
        "data": f"{data['name']}, SHA-256 {data['sha256']}" + (f"; {data['note']}" if data["note"] else ""),
    }
    rows = "".join(f"<tr><td>{name}</td><td>{html.escape(str(value))}</td></tr>" for name, value in facts.items())
    return f'<pre>{html.escape(results["command"])}</pre><table class="facts">{rows}</table>'
