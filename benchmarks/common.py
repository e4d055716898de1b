"""What the benchmark commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from abc_plugins.machine import describe_machine

__all__ = [
    "cell_key",
    "describe_machine",
    "draw_panels",
    "peak_megabytes",
    "print_records",
    "print_table",
    "read_results",
    "run_cells",
]

Cell = dict[str, Any]


def peak_megabytes() -> float:
    """Peak memory of this process (Linux).

    Not from getrusage: its peak is handed down from the parent, which may have held a whole data set.
    """
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    for line in lines:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |")


def print_records(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows of equal keys as a Markdown table."""
    cells = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    print_table(list(rows[0]), cells)


def cell_key(cell: Cell, names: Sequence[str]) -> str:
    """Text that tells a cell of a study from the others."""
    return json.dumps([cell[name] for name in names], sort_keys=True)


def read_results(path: Path) -> list[Cell]:
    """Cells that were kept so far; a last line that was not written to its end is left out."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def run_cells(
    cells: Iterable[Cell], run_cell: Callable[[Cell], Cell], path: Path, names: Sequence[str], jobs: int
) -> None:
    """Run the cells that the file does not have yet, in `jobs` processes, and keep each as it arrives.

    Parameters
    ----------
    cells : iterable of dict
    run_cell : function
        cell -> the cell with its results; it can be pickled.
    path : Path
        One line a cell.
    names : sequence of str
        The parts of a cell that tell it from the others.
    jobs : int
    """
    kept = read_results(path)
    done = {cell_key(result, names) for result in kept}
    todo = list({cell_key(cell, names): cell for cell in cells if cell_key(cell, names) not in done}.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(result) + "\n" for result in kept), encoding="utf-8")
    with path.open("a", encoding="utf-8") as file, ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(run_cell, cell) for cell in todo]
        for count, future in enumerate(as_completed(futures), start=1):
            result = future.result()
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(f"{count}/{len(todo)} {cell_key(result, names)}: {result['summary']}", flush=True)


def draw_panels(results: list[dict[str, Any]], axes_names: list[str], path: Path) -> None:
    """Seconds against what was varied, one small picture each."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(11, 5), layout="constrained")
    styles = {"native": ("o-", "#0072B2"), "lightgbm": ("s--", "#E69F00")}
    for name, panel in zip(axes_names, axes.flat, strict=False):
        for engine, (style, colour) in styles.items():
            points = [
                (one["value"], one["seconds"]) for one in results if one["axis"] == name and one["engine"] == engine
            ]
            if points:
                panel.plot(*zip(*points, strict=True), style, color=colour, label=engine)
        panel.set(xlabel=name, ylabel="seconds")
        if name in "sgw":
            panel.set_ylim(0, None)
        else:
            values = sorted({one["value"] for one in results if one["axis"] == name})
            panel.set(xscale="log", yscale="log")
            panel.set_xticks(values, [f"{value:,}" for value in values])
            panel.xaxis.set_minor_formatter("")
            panel.yaxis.set_major_formatter("{x:g}")
            panel.yaxis.set_minor_formatter("")
        panel.grid(alpha=0.3, which="both")
    axes.flat[0].legend()
    axes.flat[-1].axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
