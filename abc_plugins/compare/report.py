"""A comparison as a table or as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from abc_plugins.compare.running import Comparison, Result

_HEADINGS = ("method", "errors", "error", "log loss", "seconds")


def as_text(comparison: Comparison) -> str:
    """Table of the results, with what is needed to repeat it."""
    settings, seed = comparison.settings, comparison.seed
    split = "split of the data set" if seed is None else f"random split, seed {seed}"
    lines = [
        f"{comparison.dataset}: {comparison.n_train} training and {comparison.n_test} test rows ({split}), "
        f"{comparison.n_features} features, {comparison.n_classes} classes",
        f"{settings.n_estimators} rounds, {settings.num_leaves} leaves, learning rate {settings.learning_rate:g}, "
        f"{settings.n_jobs} threads, best time of {comparison.repeats}",
        *([f"note: {comparison.note}"] if comparison.note else []),
        "",
        *_aligned([_HEADINGS, *(_cells(result) for result in comparison.results)]),
        "",
        ", ".join(f"{package} {version}" for package, version in comparison.versions.items()),
    ]
    return "\n".join(lines)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return all figures as plain JSON values."""
    return dataclasses.asdict(comparison)


def _cells(result: Result) -> tuple[str, ...]:
    if result.error is None or result.log_loss is None or result.seconds is None:
        return (result.name, result.note)
    return (result.name, f"{result.n_errors}", f"{result.error:.2%}", f"{result.log_loss:.4f}", f"{result.seconds:.2f}")


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of equal columns: names to the left, figures to the right; a row without figures is left as it is."""
    widths = [max(len(row[index]) for row in rows if len(row) == len(rows[0])) for index in range(len(rows[0]))]
    widths[0] = max(len(row[0]) for row in rows)
    lines = []
    for row in rows:
        cells = (
            row[1:]
            if len(row) < len(rows[0])
            else [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        )
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]))
    return lines
