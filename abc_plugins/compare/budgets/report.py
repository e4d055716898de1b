"""A comparison as text."""

from __future__ import annotations

from typing import Any

from abc_plugins.compare.chance import format_p
from abc_plugins.compare.text_tables import aligned, with_error

HEADINGS = ("method", "test error, %", "log loss", "seconds", "trees", "ms/tree", "rounds", "wins-losses")
PAIR_HEADINGS = ("ABC against the same engine without", "error, % points", "relative", "wins-losses", "p", "time")
POINT_COLUMNS = (
    *("contender", "split", "seed", "n_train", "n_test", "rounds", "errors", "error", "log_loss", "seconds", "trees"),
    "ms_per_tree",
)


def as_text(results: dict[str, Any]) -> str:
    """Tables of the results, with what is needed to repeat them."""
    lines = [
        *headline(results),
        "",
        *aligned([HEADINGS, *map(cells, results["table"])]),
        "",
        *([*aligned([PAIR_HEADINGS, *map(pair_cells, results["pairs"])]), ""] if results["pairs"] else []),
        *notes(results),
        *(f"not installed: {text}" for text in results["not_installed"]),
        ", ".join(f"{package} {version}" for package, version in results["machine"]["versions"].items()),
    ]
    return "\n".join(lines)


def headline(results: dict[str, Any]) -> list[str]:
    """What was compared on what, in two lines."""
    data, settings = results["data"], results["settings"]
    split = "the data set's own split" if data["own_split"] else f"{data['splits']} random splits, seed {data['seed']}"
    threads = "1 thread" if settings["n_jobs"] == 1 else f"{settings['n_jobs']} threads"
    return [
        f"{data['name']}: {data['n_train']} training and {data['n_test']} test rows ({split}), "
        f"{data['n_features']} features, {data['n_classes']} classes",
        f"{settings['rounds']} rounds, {settings['num_leaves']} leaves, learning rate {settings['learning_rate']:g}, "
        f"{settings['max_bins']} bins, leaf values up to {settings['leaf_clip']:g}, {threads}; {results['budget']}",
    ]


def notes(results: dict[str, Any]) -> list[str]:
    """What to know to read the tables."""
    several = results["data"]["splits"] > 1
    tests = sorted({pair["test"] for pair in results["pairs"]})
    budget = {
        "equal-rounds": "equal-rounds: every contender has the same number of rounds.",
        "equal-trees": "equal-trees: every model is cut at the number of trees of the contender that grew the fewest.",
        "equal-time": "equal-time: every model is cut at the training time of the fastest contender.",
    }[results["budget"]]
    lines = [
        budget,
        "Errors are means over the splits with their standard error; wins and losses are counted over all splits, in "
        "the first table against all other contenders."
        if several
        else "Wins and losses are against the other contenders.",
    ]
    if tests:
        lines.append(f"p: {', '.join(tests)} of the difference in errors, two-sided.")
    if results["data"]["note"]:
        lines.append(f"Data: {results['data']['note']}.")
    return lines


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A row of the first table as text."""
    return (
        row["title"],
        with_error(100 * row["error"], row["error_se"], 100, "{:.2f}"),
        with_error(row["log_loss"], row["log_loss_se"], 1, "{:.4f}"),
        f"{row['seconds']:.2f}",
        f"{row['trees']:.0f}",
        f"{row['ms_per_tree']:.2f}",
        f"{row['rounds']:.0f}",
        f"{row['wins']}-{row['losses']}",
    )


def pair_cells(pair: dict[str, Any]) -> tuple[str, ...]:
    """A row of the second table as text."""
    return (
        pair["title"],
        with_error(100 * pair["difference"], pair["difference_se"], 100, "{:+.2f}", "{:.2f}"),
        "" if pair["relative"] is None else f"{pair['relative']:+.0%}",
        f"{pair['wins']}-{pair['losses']}",
        "" if pair["p_value"] is None else format_p(pair["p_value"]),
        f"x{pair['time_ratio']:.2f}",
    )
