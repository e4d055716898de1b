"""Tables, verdicts and pictures of the paper's studies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import print_table, read_results
from paper import ADAPTIVE, CLASSIC, GAPS, SEARCHES, WARMUPS, params
from paper_data import SETS

from abc_plugins.compare.budgets.fitting import unpack_wrong
from abc_plugins.compare.chance import mcnemar

CLOSE = 1.05
"""Up to so many times the errors counts as "close to" and as "little"."""

_TITLES = {
    "covtype": "Covertype",
    "mnist10k": "Mnist10k",
    "letter10k": "Letter10k",
    "m_rand": "M-Rand",
    "m_noise1": "M-Noise1",
}
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
_METHOD_LINES = {"mart": ("#E69F00", "--"), "abcmart": ("#E69F00", "-"), "robustlogit": ("#0072B2", "--"),
                 "abcrobustlogit": ("#0072B2", "-")}  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v")


class Results:
    """Kept cells by data set and parameters."""

    def __init__(self, kept: Iterable[dict[str, Any]]) -> None:
        self.cells = {(one["data"], json.dumps(one["params"], sort_keys=True)): one for one in kept}
        self.data = [name for name in SETS if any(data == name for data, _ in self.cells)]

    def get(self, name: str, method: str, *schedule: Any, **more: Any) -> dict[str, Any] | None:
        """Find a cell; None if it was not run."""
        return self.cells.get((name, json.dumps(params(method, *schedule, **more), sort_keys=True)))

    def errors(self, name: str, method: str, *schedule: Any, **more: Any) -> str:
        """Test errors of a cell after the last round, as text."""
        one = self.get(name, method, *schedule, **more)
        return f"{one['errors'][-1]:,}" if one else ""


def report(path: Path, images: Path) -> None:
    """Print the tables and verdicts in Markdown, and draw the pictures."""
    results = Results(read_results(path))
    if not results.data:
        raise SystemExit(f"{path} has no results.")
    first = next(iter(results.cells.values()))
    print(", ".join(f"{package} {version}" for package, version in first["versions"].items()), "\n")
    print_data(results)
    print_claims(results)
    print_methods(results)
    for name in results.data:
        print_grids(results, name)
    images.mkdir(parents=True, exist_ok=True)
    draw_methods(results, images / "paper_methods.png")
    draw_gaps(results, images / "paper_gaps.png")


def print_data(results: Results) -> None:
    """Sizes of the data sets and of the study."""
    rows = []
    for name in results.data:
        own = [one for (data, _), one in results.cells.items() if data == name]
        rows.append([
            _TITLES[name], f"{own[0]['n_train']:,}", f"{own[0]['n_test']:,}", str(own[0]["n_classes"]),
            str(own[0]["rounds"]), str(len(own)), f"{sum(one['seconds'] for one in own) / 60:.0f}",
        ])  # fmt: skip
    print_table(["data", "training rows", "test rows", "classes", "rounds", "fits", "minutes"], rows)


def print_claims(results: Results) -> None:
    """Each claim with our figures and whether it held."""
    print("\n## Claims\n")
    rows = []
    for claim, compare in _CLAIMS.items():
        for name in results.data:
            rows += [[claim, _TITLES[name], *found] for found in compare(results, name)]
    print_table(["claim", "data", "figures: test errors", "ratio", "p", "verdict"], rows)
    print("\nSummary:\n")
    counts = []
    for claim in _CLAIMS:
        verdicts = [row[5] for row in rows if row[0] == claim]
        held = sum(verdict.startswith("held") for verdict in verdicts)
        counts.append([claim, f"{held} of {len(verdicts)}", f"{sum('within' in verdict for verdict in verdicts)}"])
    print_table(["claim", "held", "of all, within the noise"], counts)


def _better(results: Results, name: str, own: str, other: str) -> list[list[str]]:
    """Whether a method has fewer errors than another after the same rounds, both with exhaustive search."""
    first, second = results.get(name, own), results.get(name, other)
    if first is None or second is None:
        return []
    ratio = first["errors"][-1] / second["errors"][-1]
    p_value = mcnemar(*(unpack_wrong(one["wrong"], one["n_test"]) for one in (first, second)))
    verdict = "held" if ratio < 1 else "did not hold"
    verdict += ", within the noise" if p_value > 0.05 else ""
    figures = f"{own} {first['errors'][-1]:,}, {other} {second['errors'][-1]:,}"
    return [[figures, f"{ratio:.3f}", f"{p_value:.2g}", verdict]]


def _close(results: Results, name: str, cheap: Sequence[tuple[Any, ...]], dear: tuple[Any, ...]) -> list[list[str]]:
    """Whether cheap schedules have at most CLOSE times the errors of a dear one."""
    found = []
    for method in ADAPTIVE:
        best = results.get(name, method, *dear)
        runs = [(schedule, results.get(name, method, *schedule)) for schedule in cheap]
        there = [(schedule, one) for schedule, one in runs if one is not None]
        if best is None or not there:
            continue
        worst = max((one["errors"][-1] for _, one in there)) / best["errors"][-1]
        parts = [f"{_schedule(schedule)} {one['errors'][-1]:,}" for schedule, one in there]
        figures = f"{method}: {', '.join(parts)}; {_schedule(dear)} {best['errors'][-1]:,}"
        found.append([figures, f"{worst:.3f}", "", "held" if worst <= CLOSE else "did not hold"])
    return found


def _schedule(schedule: tuple[Any, ...]) -> str:
    s, g = schedule[0], schedule[1]
    return f"s={'K' if s == 'all' else s}" + (f" g={g}" if g else "")


_CLAIMS = {
    "robustlogit beats mart": lambda results, name: _better(results, name, "robustlogit", "mart"),
    "abcrobustlogit beats abcmart": lambda results, name: _better(results, name, "abcrobustlogit", "abcmart"),
    "ABC beats non-ABC at equal rounds": lambda results, name: [
        *_better(results, name, "abcmart", "mart"), *_better(results, name, "abcrobustlogit", "robustlogit")
    ],
    "s=2..4 is close to exhaustive": lambda results, name: _close(
        results, name, [(2, 0), (3, 0), (4, 0)], ("all", 0)
    ),
    "g=10 loses little": lambda results, name: _close(results, name, [(2, 10)], (2, 0)),
}  # fmt: skip


def print_methods(results: Results) -> None:
    """Errors of the four methods with exhaustive search, and the trees they took."""
    print("\n## Four methods, exhaustive search (J=20, nu=0.1)\n")
    rows = []
    for name in results.data:
        found = [results.get(name, method) for method in (*CLASSIC, *ADAPTIVE)]
        rows.append(
            [_TITLES[name], *(f"{one['errors'][-1]:,} ({min(one['errors']):,})" if one else "" for one in found)]
        )
    print_table(["test errors after the last round (best round)", *CLASSIC, *ADAPTIVE], rows)


def print_grids(results: Results, name: str) -> None:
    """Search, gap, warm-up, leaves and shrinkage of one data set."""
    print(f"\n## {_TITLES[name]}\n")
    for method in ADAPTIVE:
        gaps = [g for g in GAPS if any(results.get(name, method, s, g) for s in SEARCHES)]
        rows = [
            [f"s={'K' if s == 'all' else s}", *(results.errors(name, method, s, g) for g in gaps)]
            for s in SEARCHES
            if any(results.get(name, method, s, g) for g in gaps)
        ]
        print_table([f"{method}, w=0", *(f"g={g}" for g in gaps)], rows)
        print()
    rows = [
        [f"{method} s={s} g={g}", *(results.errors(name, method, s, g, w) for w in WARMUPS)]
        for method in ADAPTIVE
        for s in SEARCHES
        for g in GAPS
        if any(results.get(name, method, s, g, w) for w in WARMUPS[1:])
    ]
    if rows:
        print_table(["test errors", *(f"w={w}" for w in WARMUPS)], rows)
        print()
    grid = [(10, 0.06), (10, 0.1), (20, 0.06), (20, 0.1)]
    rows = [
        [method, *(results.errors(name, method, 2, 10, 10, leaves=leaves, nu=nu) for leaves, nu in grid)]
        for method in (*CLASSIC, *ADAPTIVE)
        if results.get(name, method, 2, 10, 10, leaves=10, nu=0.06)
    ]
    if rows:
        print_table(["s=2 g=10 w=10", *(f"J={leaves} nu={nu}" for leaves, nu in grid)], rows)


def draw_methods(results: Results, path: Path) -> None:
    """Test errors of the four methods against rounds, a panel a data set."""
    figure, panels = _panels(len(results.data))
    for axes, name in zip(panels, results.data, strict=False):
        for method, (colour, line) in _METHOD_LINES.items():
            one = results.get(name, method)
            if one:
                start = max(1, len(one["errors"]) // 20)
                rounds = np.arange(start, len(one["errors"]) + 1)
                axes.plot(rounds, one["errors"][start - 1 :], line, color=colour, label=method, linewidth=1.8)
        _finish(axes, _TITLES[name], "boosting rounds")
    panels[0].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)


def draw_gaps(results: Results, path: Path) -> None:
    """Test errors of abcrobustlogit against the gap, a line an s, a panel a data set."""
    named = [name for name in results.data if results.get(name, "abcrobustlogit", 1, 10)]
    if not named:
        return
    figure, panels = _panels(len(named))
    for axes, name in zip(panels, named, strict=False):
        gaps = [g for g in GAPS if any(results.get(name, "abcrobustlogit", s, g) for s in SEARCHES)]
        for s, colour, marker in zip(SEARCHES, _COLOURS, _MARKERS, strict=True):
            cells = [(place, results.get(name, "abcrobustlogit", s, g)) for place, g in enumerate(gaps)]
            found = [(place, one["errors"][-1]) for place, one in cells if one]
            label = f"s={'K' if s == 'all' else s}"
            axes.plot(*zip(*found, strict=True), marker=marker, color=colour, label=label, linewidth=1.6, markersize=5)
        plain = results.get(name, "robustlogit")
        if plain:
            axes.axhline(plain["errors"][-1], color="#666666", linestyle=":", label="robustlogit")
        axes.set_xticks(range(len(gaps)), [str(g) for g in gaps])
        _finish(axes, _TITLES[name], "gap g")
    panels[0].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)


def _panels(count: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    columns = min(3, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(4.2 * columns, 3.5 * rows), layout="constrained")
    panels = list(np.ravel(figure.subplots(rows, columns, squeeze=False)))
    for axes in panels[count:]:
        axes.set_visible(False)
    return figure, panels


def _finish(axes: Any, title: str, label: str) -> None:
    axes.set(title=title, xlabel=label, ylabel="test errors")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.grid(alpha=0.25, which="both")
