"""Colours and lines of the contenders: one colour per engine, solid lines for what is ours, broken ones for others.

The colours are those of Okabe and Ito, which can be told apart with all common kinds of colour blindness.
"""

from __future__ import annotations

from typing import Any

_ORANGE, _SKY, _GREEN, _BLUE, _VERMILLION, _PURPLE, _BLACK = (
    *("#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#000000"),
)
_GREY = "#7A7A7A"
_DASHED, _DOTTED = (0, (4, 2)), (0, (1, 1.5))
_LINES: dict[str, tuple[str, Any]] = {
    "directional": (_VERMILLION, "-"),
    "pairs": (_ORANGE, "-"),
    "mart": (_ORANGE, _DASHED),
    "abcmart": (_ORANGE, "-"),
    "robustlogit": (_GREY, _DASHED),
    "abcrobustlogit": (_GREY, "-"),
    "lightgbm": (_BLUE, _DASHED),
    "abc-lightgbm": (_BLUE, "-"),
    "xgboost": (_GREEN, _DASHED),
    "abc-xgboost": (_GREEN, "-"),
    "xgboost-vector": (_GREEN, _DOTTED),
    "sklearn": (_BLACK, _DOTTED),
    "histgb": (_BLACK, _DOTTED),
    "catboost": (_PURPLE, _DASHED),
    "chimeraboost": (_SKY, _DASHED),
    "forest": (_GREY, _DOTTED),
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
    return {"color": colour, "linestyle": style, "linewidth": 2.6 if key == "directional" else 1.7}
