"""Pictures as vector graphics, drawn by matplotlib: each once for wide and once for narrow screens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from abc_plugins.compare.page_parts import Picture

_WIDE, _NARROW = (8.6, 4.6), (4.6, 5.2)
"""Inches."""


class Sketch(NamedTuple):
    """A picture to draw; `draw(figure, narrow)` returns whether there is anything to show."""

    name: str
    title: str
    text: str
    draw: Callable[[Any, bool], bool]


def draw_pictures(sketches: Sequence[Sketch], folder: Path) -> list[Picture]:
    """Draw all that show something into a folder."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    pictures = []
    for sketch in sketches:
        paths = folder / f"{sketch.name}.svg", folder / f"{sketch.name}_narrow.svg"
        shown = []
        with rc_context({"svg.hashsalt": sketch.name, "svg.fonttype": "path"}):  # the same file for the same figures
            for path, size in zip(paths, (_WIDE, _NARROW), strict=True):
                figure = Figure(figsize=size, layout="constrained")
                shown.append(sketch.draw(figure, size is _NARROW))
                if shown[-1]:
                    figure.savefig(path, metadata={"Date": None})
        if all(shown):
            pictures.append(Picture(*paths, sketch.title, sketch.text))
    return pictures


def legend(figure: Any, *, narrow: bool, columns: int = 2) -> None:
    """A legend beside a wide picture, below a narrow one."""
    place = {"loc": "outside lower center", "ncols": columns} if narrow else {"loc": "outside right center"}
    figure.legend(**place, frameon=False, fontsize=9, handlelength=2.5 if narrow else 3)


def plain_ticks(axis: Any, multiples: Sequence[float]) -> None:
    """Ticks of a logarithmic axis at these multiples of powers of ten, in plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(base=10, subs=multiples))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
