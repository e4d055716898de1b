"""Pieces of text tables and files that all comparisons share."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abc_plugins.core.runtime.atomic import replace_file


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of equal columns: names to the left, figures to the right."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def with_error(value: float, error: float | None, scale: float, shape: str, error_shape: str | None = None) -> str:
    """A figure with its standard error, if there is one."""
    text = shape.format(value)
    return text if error is None else f"{text} ± {(error_shape or shape).format(scale * error)}"


def write_csv(path: str | os.PathLike[str], points: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """Write the figures of every fit, one per line."""
    with replace_file(Path(path), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(points)
