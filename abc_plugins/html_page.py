"""The frame of an HTML page: one file that needs nothing else, and no network."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1c2127; background: #fff; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0.3rem; } h2 { font-size: 1.25rem; margin-top: 2.4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.93rem; }
th, td { padding: 0.3rem 0.65rem; text-align: right; border-bottom: 1px solid #dfe3e8; white-space: nowrap; }
th { border-bottom: 2px solid #8a929b; font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0.3rem; }
table.facts td { white-space: normal; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
table.facts td:first-child { font-weight: 600; min-width: 8.5rem; overflow-wrap: normal; }
.scroll { overflow-x: auto; } img { width: 100%; height: auto; display: block; }
.lead { font-size: 1.08rem; } .note { color: #4c535c; } figure { margin: 0 0 1.5rem; }
code, pre { font: 0.88rem/1.5 ui-monospace, monospace; background: #f3f5f7; border-radius: 4px; }
code { padding: 0.1rem 0.3rem; overflow-wrap: anywhere; }
pre { padding: 0.7rem; white-space: pre-wrap; overflow-wrap: anywhere; }
summary { cursor: pointer; }
@media (max-width: 640px) { body { margin: 1rem auto; } th, td { padding: 0.3rem 0.5rem; } }
"""


def document(title: str, parts: Sequence[str], style: str) -> str:
    """The whole page; `style` comes behind what all pages have."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>{html.escape(title)}</title><style>{_STYLE}{style}</style>"
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *parts])
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def paragraphs(lines: Sequence[str], kind: str = "note") -> list[str]:
    """Lines of text."""
    return [f'<p class="{kind}">{html.escape(line)}</p>' for line in lines]


def scrolling_table(rows: Sequence[str]) -> str:
    """A table that scrolls, of rows that are HTML already."""
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def facts(values: Mapping[str, str]) -> str:
    """A table of names and what they are; the values are HTML already."""
    rows = "".join(f"<tr><td>{html.escape(name)}</td><td>{value}</td></tr>" for name, value in values.items())
    return f'<table class="facts">{rows}</table>'
