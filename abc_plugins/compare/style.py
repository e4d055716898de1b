"""Colours and lines of the contenders: one colour an engine, solid with an adaptive base class, dashed without.

The colours are those of Okabe and Ito, which can be told apart with all common kinds of colour blindness.
"""

from __future__ import annotations

from typing import Any

_ORANGE, _SKY, _GREEN, _BLUE, _VERMILLION, _PURPLE, _BLACK = (
    *("#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#000000"),
)
_DASHED, _DOTTED = (0, (4, 2)), (0, (1, 1.5))
_LINES: dict[str, tuple[str, Any]] = {
    "mart": (_ORANGE, _DASHED),
    "abcmart": (_ORANGE, "-"),
    "robustlogit": (_VERMILLION, _DASHED),
    "abcrobustlogit": (_VERMILLION, "-"),
    "lightgbm": (_BLUE, _DASHED),
    "abc-lightgbm": (_BLUE, "-"),
    "xgboost": (_GREEN, _DASHED),
    "abc-xgboost": (_GREEN, "-"),
    "sklearn": (_BLACK, _DOTTED),
    "catboost": (_PURPLE, _DOTTED),
}
PHASES = {
    "preparing": ("preparing the data", _SKY, ""),
    "rounds": ("rounds", _BLUE, ""),
    "searching": ("rounds with a search", _ORANGE, "//"),
    "finishing": ("finishing the model", _BLACK, ""),
    "predicting": ("predicting the test rows", _PURPLE, ".."),
}
"""Phase of a fit -> (what it is called, colour, hatching)."""


def line_of(key: str) -> dict[str, Any]:
    """Keywords of matplotlib for the line of a contender."""
    colour, style = _LINES.get(key, (_BLACK, "-"))
    return {"color": colour, "linestyle": style, "linewidth": 1.8}
