"""A comparison under a budget as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abc_plugins import html_page
from abc_plugins.compare import page_parts
from abc_plugins.compare.budgets.report import HEADINGS, PAIR_HEADINGS, cells, headline, notes, pair_cells
from abc_plugins.compare.chance import format_p

_LOWER_IS_BETTER = {1: "error", 2: "log_loss", 3: "seconds", 5: "ms_per_tree"}


def render_page(results: dict[str, Any], pictures: Sequence[page_parts.Picture]) -> str:
    """Make the page of what results.json holds."""
    adaptive = {pair["contender"] for pair in results["pairs"]}
    best = page_parts.lowest(results["table"], _LOWER_IS_BETTER)
    rows = [
        (cells(row), marks, row["contender"] in adaptive) for row, marks in zip(results["table"], best, strict=True)
    ]
    pairs = [(pair_cells(pair), (), False) for pair in results["pairs"]]
    parts = [
        *html_page.paragraphs(headline(results)),
        page_parts.list_of(_verdicts(results)),
        "<h2>All contenders</h2>",
        page_parts.table(HEADINGS, rows),
        *html_page.paragraphs(notes(results)),
    ]
    if pairs:
        text = "Negative differences are fewer errors with an adaptive base class. Time is that of the fit, as a ratio."
        heading = "<h2>What the adaptive base class brings</h2>"
        parts += [heading, page_parts.table(PAIR_HEADINGS, pairs), *html_page.paragraphs([text])]
    parts += [
        *map(page_parts.figure, pictures),
        "<h2>What is the same for all, and what is not</h2>",
        *html_page.paragraphs([_same(results["settings"])]),
        page_parts.contender_facts(results["contenders"]),
        "<h2>How to repeat it</h2>",
        page_parts.how_to_repeat(results, {"seed of the contenders": "0"}),
    ]
    return html_page.document(f"ABC-Boost head to head on {results['data']['name']}", parts, page_parts.STYLE)


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


def _same(settings: dict[str, Any]) -> str:
    return (
        f"Rounds ({settings['rounds']}), leaves ({settings['num_leaves']}), shrinkage ({settings['learning_rate']:g}), "
        f"bins ({settings['max_bins']}) and leaf clip ({settings['leaf_clip']:g}) are the same for all that know them, "
        "and trees are grown best-first. Everything else is as each package comes:"
    )
