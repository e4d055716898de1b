"""The frame of a page: one file that needs nothing else, and no network."""

from __future__ import annotations

import base64
import html
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1c2127; background: #fff; max-width: 68rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0.3rem; } h2 { font-size: 1.25rem; margin-top: 2.4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.93rem; }
th, td { padding: 0.3rem 0.65rem; text-align: right; border-bottom: 1px solid #dfe3e8; white-space: nowrap; }
th { border-bottom: 2px solid #8a929b; font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0.3rem; }
tr.ours td:first-child { color: #0072b2; font-weight: 600; } td.best { background: #e3f1fb; font-weight: 700; }
table.facts td { white-space: normal; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
table.facts td:first-child { font-weight: 600; min-width: 8.5rem; overflow-wrap: normal; }
.scroll { overflow-x: auto; } img { width: 100%; height: auto; display: block; }
.lead { font-size: 1.08rem; } .note { color: #4c535c; } figure { margin: 0 0 1.5rem; }
code, pre { font: 0.88rem/1.5 ui-monospace, monospace; background: #f3f5f7; border-radius: 4px; }
code { padding: 0.1rem 0.3rem; overflow-wrap: anywhere; }
pre { padding: 0.7rem; white-space: pre-wrap; overflow-wrap: anywhere; }
summary { cursor: pointer; }
@media (max-width: 640px) { body { margin: 1rem auto; } th, td { padding: 0.3rem 0.5rem; }
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


def document(title: str, parts: Sequence[str]) -> str:
    """The whole page."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>{html.escape(title)}</title><style>{_STYLE}</style>"
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *parts])
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def paragraphs(lines: Sequence[str], kind: str = "note") -> list[str]:
    """Lines of text."""
    return [f'<p class="{kind}">{html.escape(line)}</p>' for line in lines]


def list_of(lines: Sequence[str]) -> str:
    """Sentences that matter."""
    return '<ul class="lead">' + "".join(f"<li>{_joined(line)}</li>" for line in lines) + "</ul>"


def table(header: Sequence[str], rows: Sequence[tuple[Sequence[str], Collection[int], bool]]) -> str:
    """A table that scrolls; its rows are (texts, columns that are best, whether it is ours)."""
    lines = [_row(header, tag="th"), *(_row(texts, best=best, ours=ours) for texts, best, ours in rows)]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


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
    rows = "".join(
        f"<tr><td>{html.escape(contender['title'])}</td><td>{html.escape(contender['settings'])}."
        f"<details><summary>parameters</summary><code>{html.escape(_parameters(contender))}</code></details></td></tr>"
        for contender in contenders
    )
    return f'<table class="facts">{rows}</table>'


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
    rows = "".join(f"<tr><td>{name}</td><td>{html.escape(str(value))}</td></tr>" for name, value in facts.items())
    return f'<pre>{html.escape(results["command"])}</pre><table class="facts">{rows}</table>'
