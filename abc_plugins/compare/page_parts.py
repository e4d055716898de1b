"""What the pages of all comparisons have: tables with the best figures marked, pictures, how to repeat it."""

from __future__ import annotations

import base64
import html
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from abc_plugins import html_page

STYLE = """
body { max-width: 68rem; }
tr.ours td:first-child { color: #0072b2; font-weight: 600; } td.best { background: #e3f1fb; font-weight: 700; }
@media (max-width: 640px) {
  .scroll th:first-child, .scroll td:first-child { position: sticky; left: 0; background: #fff; white-space: normal; } }
"""
NARROW = 640
"""Pixels up to which the narrow version of a picture is shown."""


class Picture(NamedTuple):
    """A picture in two files, for wide and for narrow screens."""

    wide: Path
    narrow: Path
    title: str
    text: str


def list_of(lines: Sequence[str]) -> str:
    """Sentences that matter."""
    return '<ul class="lead">' + "".join(f"<li>{_joined(line)}</li>" for line in lines) + "</ul>"


def table(header: Sequence[str], rows: Sequence[tuple[Sequence[str], Collection[int], bool]]) -> str:
    """A table that scrolls; its rows are (texts, columns that are best, whether it is ours)."""
    lines = [_row(header, tag="th"), *(_row(texts, best=best, ours=ours) for texts, best, ours in rows)]
    return html_page.scrolling_table(lines)


def _row(texts: Sequence[str], *, tag: str = "td", best: Collection[int] = (), ours: bool = False) -> str:
    made = [
        f"<{tag}{' class=best' if index in best else ''}>{_joined(text)}</{tag}>" for index, text in enumerate(texts)
    ]
    return f"<tr{' class=ours' if ours else ''}>{''.join(made)}</tr>"


def _joined(text: str) -> str:
    """Text in which no line ends before a mark, or within an equation."""
    for loose in (" *", " = ", " < "):
        text = text.replace(loose, loose.replace(" ", "\N{NO-BREAK SPACE}"))
    return html.escape(text)


def lowest(rows: Sequence[dict[str, Any]], columns: dict[int, str]) -> list[set[int]]:
    """Columns in which each row has the lowest value."""
    least = {name: min(row[name] for row in rows) for name in columns.values()}
    return [{column for column, name in columns.items() if row[name] == least[name]} for row in rows]


def figure(picture: Picture) -> str:
    """A picture inside the page; narrow screens get their own."""
    wide, narrow = (
        "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
        for path in (picture.wide, picture.narrow)
    )
    source = f'<source media="(max-width: {NARROW}px)" srcset="{narrow}">'
    shown = f'<picture>{source}<img alt="{html.escape(picture.title)}" src="{wide}"></picture>'
    text = f'<figcaption class="note">{html.escape(picture.text)}</figcaption>'
    return f"<h2>{html.escape(picture.title)}</h2><figure>{shown}{text}</figure>"


def contender_facts(contenders: Sequence[dict[str, Any]]) -> str:
    """How each contender was used, with all its parameters."""
    return html_page.facts({contender["title"]: _usage(contender) for contender in contenders})


def _usage(contender: dict[str, Any]) -> str:
    parameters = f"<details><summary>parameters</summary><code>{html.escape(_parameters(contender))}</code></details>"
    return f"{html.escape(contender['settings'])}.{parameters}"


def _parameters(contender: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in contender["parameters"].items())


def how_to_repeat(results: dict[str, Any], more: dict[str, str]) -> str:
    """The command, the machine and the data."""
    machine, data = results["machine"], results["data"]
    seeds = "the data set's own split" if data["own_split"] else ", ".join(map(str, data["seeds"]))
    facts = {
        "versions": ", ".join(f"{package} {version}" for package, version in machine["versions"].items()),
        "machine": f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}",
        "seeds of the splits": seeds,
        **more,
        "data": f"{data['name']}, SHA-256 {data['sha256']}" + (f"; {data['note']}" if data["note"] else ""),
    }
    shown = {name: html.escape(str(value)) for name, value in facts.items()}
    return f"<pre>{html.escape(results['command'])}</pre>{html_page.facts(shown)}"
