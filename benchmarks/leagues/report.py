"""The leagues as Markdown tables, and the first one as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from common import print_table
from scipy import stats

from leagues.practice import FORMER, by_set, mean_of

TITLES = {
    "directional": "ABCBoostClassifier",
    "pairs": "pairs",
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "chimeraboost": "ChimeraBoost",
    "abc-lightgbm": "ABC on LightGBM",
    "abc-xgboost": "ABC on XGBoost",
    "xgboost-vector": "XGBoost, vector leaves",
    "histgb": "HistGB",
    "forest": "random forest",
    FORMER: "ours, 0.1.0",
}
OURS = "directional"
LIMITED, FEWER = "†", "‡"
NEXT_TO_NONE = 0.005
"""A log loss below is next to none: a ratio of such is left out of the means."""

FARTHEST = 3.0
"""Ratio beyond which a point is drawn at the edge of the picture, with its figure."""

Rows = Sequence[dict[str, Any]]


def make_blocks(rows: Rows) -> dict[str, str]:
    """Tables of all leagues that there are rows of, in Markdown: name -> text."""
    tuned = [row for row in rows if "trials" in row]
    sizes = [row for row in rows if "classes" in row]
    practice = [row for row in rows if "trials" not in row and "classes" not in row]
    blocks = {}
    for name, part, show in (
        ("practice", practice, print_practice),
        ("means", practice, lambda part: print_means(part, tuned)),
        ("tuned", tuned, print_tuned),
        ("sizes", sizes, print_sizes),
    ):
        if part:
            with redirect_stdout(StringIO()) as text:
                show(part)
            blocks[name] = text.getvalue().strip()
    return blocks


def put_into(path: Path, blocks: dict[str, str]) -> None:
    """Replace what a page has between `<!-- league: NAME -->` and `<!-- /league -->`."""
    page = path.read_text(encoding="utf-8")
    for name, text in blocks.items():
        begin, end = f"<!-- league: {name} -->\n", "<!-- /league -->"
        if begin in page:
            head, rest = page.split(begin, 1)
            page = f"{head}{begin}{text}\n{end}{rest.split(end, 1)[1]}"
    path.write_text(page, encoding="utf-8")


def _contenders(rows: Rows) -> list[str]:
    found = {row["which"] for row in rows}
    return [key for key in TITLES if key in found]


# ------------------------------------------------------------------------------------------------ as people work


def print_practice(rows: Rows) -> None:
    """One line a data set."""
    found, contenders = by_set(rows), _contenders(rows)
    lines = [
        [_named(name, fits), *(_cell(fits, key, _best(fits)) for key in contenders)] for name, fits in found.items()
    ]
    print_table(["data (classes)", *(TITLES[key] for key in contenders)], lines)
    print("\nTest error in % / log loss, means over the seeds; bold: the lowest log loss.")
    if any(row.get("at_limit") for row in rows):
        print(f"{LIMITED} stopped by the limit of rounds on some seed.")
    if any(len(seeds) < len(fits[OURS]) for fits in found.values() for seeds in fits.values() if OURS in fits):
        print(f"{FEWER} fewer seeds than ours: compared with ours on these.")


def print_means(rows: Rows, tuned: Rows = ()) -> None:
    """How ours compares with each other contender, over all data sets, and if all are tuned."""
    found, searched = by_set(rows), by_set(tuned)
    header = ["ours against", "log loss", "test error", "sets with the lower log loss", "p", "all tuned (sets)"]
    lines = [_against(found, searched, key) for key in _contenders(rows) if key != OURS]
    print_table(header, [line for line in lines if line])
    print(
        "\nOurs divided by the other, geometric means over the data sets that both have; below 1 is better. Sets whose"
    )
    print(f"log loss is below {NEXT_TO_NONE} for either are left out. p: Wilcoxon's signed-rank test, of log loss.")


def _named(name: str, fits: dict[str, dict[int, dict[str, Any]]]) -> str:
    one = next(iter(next(iter(fits.values())).values()))
    return f"{name} ({one['K']})"


def _best(fits: dict[str, dict[int, dict[str, Any]]]) -> str:
    """The contender with the lowest log loss, each compared with ours on the seeds that it has."""
    leads = {
        key: mean_of(seeds, "ll", common) - mean_of(fits[OURS], "ll", common)
        for key, seeds in fits.items()
        if (common := sorted(set(seeds) & set(fits.get(OURS, {}))))
    }
    return min(leads, key=lambda key: leads[key], default="")


def _cell(fits: dict[str, dict[int, dict[str, Any]]], key: str, best: str) -> str:
    if key not in fits:
        return "-"
    seeds = list(fits[key])
    text = f"{100 * mean_of(fits[key], 'err', seeds):.2f} / {mean_of(fits[key], 'll', seeds):.4f}"
    mark = LIMITED if any(fit.get("at_limit") for fit in fits[key].values()) else ""
    mark += FEWER if len(seeds) < len(fits.get(OURS, {})) else ""
    return (f"**{text}**" if key == best else text) + mark


def ratios(found: dict[str, Any], key: str, value: str) -> dict[str, float]:
    """Ours divided by another contender on the seeds both have, data set by data set."""
    shares = {}
    for name, fits in found.items():
        seeds = sorted(set(fits.get(OURS, {})) & set(fits.get(key, {})))
        if not seeds:
            continue
        losses = [mean_of(fits[one], "ll", seeds) for one in (OURS, key)]
        own, other = (mean_of(fits[one], value, seeds) for one in (OURS, key))
        if min(losses) >= NEXT_TO_NONE and min(own, other) > 0:
            shares[name] = own / other
    return shares


def _against(found: dict[str, Any], searched: dict[str, Any], key: str) -> list[str] | None:
    losses, errors = (ratios(found, key, value) for value in ("ll", "err"))
    tuned = ratios(searched, key, "ll")
    if not losses:
        return None
    logs = np.log(list(losses.values()))
    p_value = float(stats.wilcoxon(logs).pvalue) if logs.size > 1 and np.any(logs) else 1.0
    return [
        TITLES[key],
        f"**{_mean(losses.values()):.2f}**",
        f"{_mean(errors.values()):.2f}",
        f"{int((logs < 0).sum())} of {logs.size}",
        f"{p_value:.2g}",
        f"{_mean(tuned.values()):.2f} ({len(tuned)})" if tuned else "-",
    ]


def _mean(values: Iterable[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(list(values)))))


def draw_practice(rows: Rows, path: Path) -> None:
    """Log loss of the peers relative to ours, a line a data set."""
    from matplotlib.figure import Figure

    from abc_plugins.compare.drawing import plain_ticks
    from abc_plugins.compare.style import line_of

    found = by_set(rows)
    peers = [key for key in _contenders(rows) if key not in (OURS, "pairs", "abc-lightgbm", "abc-xgboost", FORMER)]
    shares = {key: {name: 1 / ratio for name, ratio in ratios(found, key, "ll").items()} for key in peers}
    names = [name for name in found if any(name in shares[key] for key in peers)]
    names.sort(key=lambda name: _mean(shares[key][name] for key in peers if name in shares[key]))
    figure = Figure(figsize=(8.6, 1.5 + 0.3 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(1.0, color=line_of(OURS)["color"], linewidth=2.6, label="ABCBoostClassifier")
    for key, marker in zip(peers, "sD^vPX", strict=False):
        at = [names.index(name) for name in shares[key]]
        colour = line_of(key)["color"]
        shown = np.minimum(list(shares[key].values()), FARTHEST)
        axes.plot(shown, at, marker, color=colour, markersize=7, alpha=0.9, label=TITLES[key])
    for position, name in enumerate(names):
        far = [f"{TITLES[key]} {shares[key][name]:.1f}" for key in peers if shares[key].get(name, 0) > FARTHEST]
        place = {"xytext": (-8, 0), "textcoords": "offset points", "ha": "right", "va": "center", "fontsize": 9}
        axes.annotate(", ".join(far) + " →" if far else "", (FARTHEST, position), **place)
    axes.set_yticks(range(len(names)), [_named(name, found[name]) for name in names])
    axes.set_xscale("log")
    plain_ticks(axes.xaxis, (1, 1.2, 1.5, 2, 3, 5))
    axes.set_xlabel("log loss relative to ABCBoostClassifier's; further to the right is worse")
    axes.grid(alpha=0.25)
    figure.legend(loc="outside upper center", ncols=len(peers) + 1, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


# ------------------------------------------------------------------------------------------------ tuned


def print_tuned(rows: Rows) -> None:
    """Log loss with each contender's own settings and with those that the search found."""
    contenders = _contenders(rows)
    budget = max((row["trials"], row["limit"]) for row in rows)
    rows = [row for row in rows if (row["trials"], row["limit"]) == budget]
    found = by_set(rows)
    lines = []
    for name, fits in found.items():
        complete = {key: seeds for key, seeds in fits.items() if key in contenders}
        best = _best(complete)
        lines.append([_named(name, fits), *(_tuned_cell(fits.get(key), key == best) for key in contenders)])
    print_table(["data (classes)", *(TITLES[key] for key in contenders)], lines)
    print(
        "\nLog loss of the test rows, own settings → best trial (trials done); bold: the lowest after tuning. At most"
    )
    print(f"{budget[0]} trials within {budget[1]:g} seconds of processor time each. Ours divided by the other:\n")
    header = [
        "ours against",
        "log loss, tuned",
        "log loss, own settings",
        "error, tuned",
        "sets with the lower log loss",
    ]
    print_table(header, [line for key in contenders if key != OURS and (line := _tuned_against(found, key))])


def _tuned_cell(seeds: dict[int, dict[str, Any]] | None, is_best: bool) -> str:
    if not seeds:
        return "-"
    default, loss = (mean_of(seeds, value, list(seeds)) for value in ("default_ll", "ll"))
    trials = mean_of(seeds, "done", list(seeds))
    text = f"**{loss:.4f}**" if is_best else f"{loss:.4f}"
    return f"{default:.4f} → {text} ({trials:.0f})"


def _tuned_against(found: dict[str, Any], key: str) -> list[str] | None:
    tuned, own, errors = (ratios(found, key, value) for value in ("ll", "default_ll", "err"))
    if not tuned:
        return None
    lower = sum(ratio < 1 for ratio in tuned.values())
    means = [f"{_mean(one.values()):.2f}" for one in (tuned, own, errors)]
    return [TITLES[key], *means, f"{lower} of {len(tuned)}"]


# ------------------------------------------------------------------------------------------------ sizes


def print_sizes(rows: Rows) -> None:
    """How the lead depends on the training rows, and on the number of classes."""
    others = [key for key in _contenders(rows) if key != OURS]
    for part, title in (
        ([row for row in rows if row["classes"] is None], "All classes, fewer rows"),
        ([row for row in rows if row["classes"] is not None], "Fewer classes, as many rows for each"),
    ):
        if part:
            print(f"{title}:\n")
            print_table(
                ["data", "classes", "training rows", "for each class", *(TITLES[key] for key in others)],
                [_size_line(part, cut, others) for cut in sorted({(row["data"], row["rows"]) for row in part})],
            )
            print()
    print(
        "Log loss of ours divided by the other's; below 1 is better. Geometric means over the seeds, whose number is in"
    )
    print("brackets if it is not one. Training rows include the fifth that stops the training.")


def _size_line(rows: Rows, cut: tuple[str, int], others: Sequence[str]) -> list[str]:
    part = [row for row in rows if (row["data"], row["rows"]) == cut]
    n_classes = part[0]["K"]
    return [
        cut[0],
        str(n_classes),
        f"{cut[1]:,}",
        f"{cut[1] / n_classes:.0f}",
        *(_size_cell(part, key) for key in others),
    ]


def _size_cell(rows: Rows, key: str) -> str:
    found = {(row["which"], row["seed"]): row["ll"] for row in rows}
    seeds = [seed for which, seed in found if which == key and (OURS, seed) in found]
    if not seeds:
        return "-"
    return f"{_mean(found[OURS, seed] / found[key, seed] for seed in seeds):.2f}" + (
        f" ({len(seeds)})" if len(seeds) > 1 else ""
    )
