"""A comparison as text and as CSV."""

from __future__ import annotations

from typing import Any

from abc_plugins.compare.chance import format_p
from abc_plugins.compare.text_tables import aligned, with_error

HEADINGS = ("method", "log loss", "error, %", "rank", "training, s", "ms/1,000 rows", "model, MB", "rounds")
DUEL_HEADINGS = ("ABCBoostClassifier against", "log loss", "p", "splits", "error", "p", "splits")
OURS = "*"
POINT_COLUMNS = (
    *("contender", "split", "seed", "n_fit", "n_valid", "n_test", "rounds", "at_limit", "errors", "error"),
    *("log_loss", "valid_loss", "seconds", "predict_ms", "bytes", "no_chance", "no_chance_loss"),
)


def as_text(results: dict[str, Any]) -> str:
    """Verdict and tables, with what is needed to repeat them."""
    lines = [
        *headline(results),
        "",
        *aligned([HEADINGS, *(cells(row) for row in results["table"])]),
        "",
        *([*aligned([DUEL_HEADINGS, *map(duel_cells, results["duels"])]), ""] if results["duels"] else []),
        *results["verdict"],
        *results["warnings"],
        "",
        *notes(results),
        *(f"not installed: {text}" for text in results["not_installed"]),
        ", ".join(f"{package} {version}" for package, version in results["machine"]["versions"].items()),
    ]
    return "\n".join(lines)


def headline(results: dict[str, Any]) -> list[str]:
    """What was compared on what."""
    data, settings = results["data"], results["settings"]
    split = "the data set's own split" if data["own_split"] else _counted(data["splits"], "random split")
    features = f"{data['n_features']} features"
    if data["n_categorical"]:
        features += f" ({data['n_categorical']} of them categories)"
    lines = [
        f"{data['name']}: {data['n_fit']:,} rows to train on, {data['n_valid']:,} to stop by, {data['n_test']:,} to "
        f"test on; {features}, {data['n_classes']} classes; {split}, {_counted(settings['n_jobs'], 'thread')}",
    ]
    if data["n_train_rows"] > data["n_fit"] + data["n_valid"]:
        lines.append(
            f"{data['n_fit'] + data['n_valid']:,} of {data['n_train_rows']:,} training rows are used; --max-train sets "
            "how many (0: all)."
        )
    lines += [f"Left out: {text}." for text in data["left_out"]]
    return lines


def notes(results: dict[str, Any]) -> list[str]:
    """What to know to read the tables."""
    lines = [
        f"Every method has its own settings and stops by the log loss of the validation rows, after at most "
        f"{results['settings']['rounds']:,} rounds. {OURS} marks what is ours. Rank: by log loss, mean of the splits.",
    ]
    if results["data"]["splits"] > 1:
        lines.append(
            "±: standard error over the splits. p: corrected paired t-test (Nadeau and Bengio, 2003); below 0.05 a "
            "difference is beyond chance."
        )
    lines += [f"Data: {results['data']['note']}."] if results["data"]["note"] else []
    return lines


def cells(row: dict[str, Any], mark: str = OURS) -> tuple[str, ...]:
    """A row of the first table as text."""
    return (
        f"{row['title']} {mark}".strip() if row["is_ours"] else row["title"],
        with_error(row["log_loss"], row["log_loss_se"], 1, "{:.4f}"),
        with_error(100 * row["error"], row["error_se"], 100, "{:.2f}"),
        f"{row['log_loss_rank']:.1f}",
        f"{row['seconds']:.2f}",
        f"{row['predict_ms']:.1f}",
        f"{row['bytes'] / 1e6:.2f}",
        f"{row['rounds']:.0f}",
    )


def duel_cells(duel: dict[str, Any]) -> tuple[str, ...]:
    """A row of the second table as text."""
    found: list[str] = [duel["title"]]
    for value in ("log_loss", "error"):
        one = duel[value]
        found += [
            "" if one["relative"] is None else f"{100 * one['relative']:+.1f}%",
            "" if one["p_value"] is None else format_p(one["p_value"]),
            f"{one['better']}-{one['worse']}",
        ]
    return tuple(found)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
