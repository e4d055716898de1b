"""A comparison by the practice protocol as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abc_plugins import html_page
from abc_plugins.compare import page_parts
from abc_plugins.compare.practice.report import DUEL_HEADINGS, HEADINGS, cells, duel_cells, headline, notes

_LOWER_IS_BETTER = {1: "log_loss", 2: "error", 3: "log_loss_rank", 4: "seconds", 5: "predict_ms", 6: "bytes"}


def render_page(results: dict[str, Any], pictures: Sequence[page_parts.Picture]) -> str:
    """Make the page of what results.json holds."""
    best = page_parts.lowest(results["table"], _LOWER_IS_BETTER)
    rows = [(cells(row), marks, row["is_ours"]) for row, marks in zip(results["table"], best, strict=True)]
    duels = [(duel_cells(duel), (), duel["is_ours"]) for duel in results["duels"]]
    parts = [
        *html_page.paragraphs(headline(results)),
        page_parts.list_of(results["verdict"]),
        *html_page.paragraphs(results["warnings"]),
        "<h2>All contenders</h2>",
        page_parts.table(HEADINGS, rows),
        *html_page.paragraphs([*notes(results), *(f"Not installed: {text}." for text in results["not_installed"])]),
    ]
    if duels:
        text = "Negative is less, which is better; splits are those where ABCBoostClassifier is better and worse."
        parts += ["<h2>One by one</h2>", page_parts.table(DUEL_HEADINGS, duels), *html_page.paragraphs([text])]
    parts += [
        *map(page_parts.figure, pictures),
        "<h2>How each was used</h2>",
        page_parts.contender_facts(results["contenders"]),
        "<h2>How to repeat it</h2>",
        page_parts.how_to_repeat(results, {"seeds of the contenders": "those of the splits"}),
    ]
    return html_page.document(f"Who is best on {results['data']['name']}?", parts, page_parts.STYLE)
