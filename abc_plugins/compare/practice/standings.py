"""From fits to figures: means, ranks, what ours has less or more than each other, and a verdict in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from abc_plugins.compare.chance import corrected_t_test, format_p, standard_error
from abc_plugins.compare.practice.contenders import MAIN, Contender
from abc_plugins.core.runtime.arrays import Floats

CERTAIN = 0.05
"""A p below is beyond chance."""
_TINY = 0.005
"""A relative difference below is none that anybody would notice."""
_ROUGH_TEST, _ROUGH_VALID = 200, 50
_MEANS = ("error", "log_loss", "seconds", "predict_ms", "bytes", "rounds")
_MORE = ("no_chance", "no_chance_loss", "at_limit", "n_test")


def summarise(runs: Sequence[dict[str, Any]], contenders: Sequence[Contender]) -> dict[str, Any]:
    """Compute the tables.

    Returns
    -------
    dict of plain JSON values
        table: one row per contender, the lowest log loss first; duels: ours against each other; verdict: sentences;
        warnings: what makes the figures rough; points: one per fit.
    """
    points = [_point(run) for run in runs]
    ranks = {value: _ranks(points, contenders, value) for value in ("log_loss", "error")}
    table = [_row(contender, points, ranks) for contender in contenders]
    table.sort(key=lambda row: row["log_loss"])
    main = next((contender for contender in contenders if contender.key == MAIN), None)
    duels = [
        _duel(main, other, points)
        for row in table
        for other in contenders
        if main is not None and other.key == row["contender"] != MAIN
    ]
    return {
        "table": table,
        "duels": duels,
        "verdict": _verdict(table, duels, len({run["split"] for run in runs})),
        "warnings": _warnings(runs, table),
        "points": points,
    }


def _point(run: dict[str, Any]) -> dict[str, Any]:
    names = ("contender", "split", "seed", "n_fit", "n_valid", "n_test", "rounds", "at_limit", "errors")
    more = ("log_loss", "valid_loss", "seconds", "predict_ms", "bytes", "no_chance", "no_chance_loss")
    return {**{name: run[name] for name in names}, "error": run["errors"] / run["n_test"]} | {
        name: run[name] for name in more
    }


def _values(points: Sequence[dict[str, Any]], key: str, value: str) -> Floats:
    """Values of a contender, split by split."""
    own = sorted((point for point in points if point["contender"] == key), key=lambda point: point["split"])
    return np.array([point[value] for point in own], dtype=np.float64)


def _ranks(points: Sequence[dict[str, Any]], contenders: Sequence[Contender], value: str) -> dict[str, float]:
    """Mean rank over the splits; the lowest value has rank 1, and equal ones share theirs."""
    columns = [_values(points, contender.key, value) for contender in contenders]
    means = stats.rankdata(np.column_stack(columns), axis=1).mean(axis=0)
    return {contender.key: float(rank) for contender, rank in zip(contenders, means, strict=True)}


def _row(contender: Contender, points: Sequence[dict[str, Any]], ranks: dict[str, dict[str, float]]) -> dict[str, Any]:
    own = {value: _values(points, contender.key, value) for value in (*_MEANS, *_MORE)}
    return {
        "contender": contender.key,
        "title": contender.title,
        "is_ours": contender.is_ours,
        **{value: float(own[value].mean()) for value in _MEANS},
        "error_se": standard_error(own["error"].tolist()),
        "log_loss_se": standard_error(own["log_loss"].tolist()),
        "log_loss_rank": ranks["log_loss"][contender.key],
        "error_rank": ranks["error"][contender.key],
        "no_chance": float(own["no_chance"].sum() / own["n_test"].sum()),
        "no_chance_loss": float(own["no_chance_loss"].mean()),
        "at_limit": int(own["at_limit"].sum()),
        "splits": int(own["error"].size),
    }


def _duel(main: Contender, other: Contender, points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Ours against another: relative differences, and whether they are beyond chance."""
    duel: dict[str, Any] = {"contender": other.key, "title": other.title, "is_ours": other.is_ours}
    first = next(point for point in points if point["contender"] == main.key)
    test_to_train = first["n_test"] / (first["n_fit"] + first["n_valid"])
    for value in ("log_loss", "error"):
        own, others = _values(points, main.key, value), _values(points, other.key, value)
        duel[value] = {
            "relative": float(own.mean() / others.mean() - 1) if others.mean() > 0 else None,
            "p_value": corrected_t_test(own - others, test_to_train),
            "better": int((own < others).sum()),
            "worse": int((own > others).sum()),
        }
    return duel


# ------------------------------------------------------------------------------------------------ in words


def _verdict(table: Sequence[dict[str, Any]], duels: Sequence[dict[str, Any]], splits: int) -> list[str]:
    """The result in words: against the best of the others, by log loss and by error."""
    sentences = []
    where = f"On these {splits} splits" if splits > 1 else "On this one split"
    peers = [duel for duel in duels if not duel["is_ours"]]
    for value, name in (("log_loss", "log loss"), ("error", "error")):
        figures = {row["contender"]: row[value] for row in table}
        if not peers:
            title = min(table, key=lambda row: figures[row["contender"]])["title"]
            sentences.append(f"{where} {title} has the lowest {name}.")
            continue
        rival = min(peers, key=lambda duel: figures[duel["contender"]])
        sentences.append(f"{where} {_outcome(rival, value, name, splits)}")
    return sentences


def _outcome(duel: dict[str, Any], value: str, name: str, splits: int) -> str:
    """What ours has against another, with how sure that is."""
    relative, p_value, title = duel[value]["relative"], duel[value]["p_value"], duel["title"]
    if relative is None or abs(relative) < _TINY:
        return f"ABCBoostClassifier has the same {name} as {title}, the best of the others."
    amount = f"{_per_cent(abs(relative))} {'less' if relative < 0 else 'more'}"
    claim = f"ABCBoostClassifier has {amount} {name} than {title}, the best of the others"
    if splits == 1 or p_value is None:
        return f"{claim}; whether that is chance cannot be told."
    if p_value < CERTAIN:
        return f"{claim}; this is beyond chance (p {_relation(p_value)})."
    rivals = f"between ABCBoostClassifier and {title}, the best of the others"
    return f"{name} is too close to call {rivals} (ours has {amount}, p {_relation(p_value)})."


def _relation(p_value: float) -> str:
    text = format_p(p_value)
    return text.replace("<", "< ") if text.startswith("<") else f"= {text}"


def _per_cent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.095 else f"{100 * share:.1f}%"


def _warnings(runs: Sequence[dict[str, Any]], table: Sequence[dict[str, Any]]) -> list[str]:
    """What a reader must know before believing the figures."""
    lines = []
    n_test, n_valid = min(run["n_test"] for run in runs), min(run["n_valid"] for run in runs)
    if n_test < _ROUGH_TEST:
        lines.append(f"Only {n_test} test rows: one more wrong is {100 / n_test:.1f} percentage points of error.")
    if n_valid < _ROUGH_VALID:
        lines.append(f"Only {n_valid} validation rows: when to stop is mostly chance.")
    for row in table:
        if row["no_chance"] > 0:
            lines.append(
                f"{row['title']} gives {100 * row['no_chance']:.2g}% of the test rows next to no chance of being what "
                f"they are; these make {100 * row['no_chance_loss'] / row['log_loss']:.0f}% of its log loss."
            )
        if row["at_limit"]:
            times = "once" if row["at_limit"] == 1 else f"{row['at_limit']} times"
            lines.append(f"{row['title']} was stopped by the limit of rounds {times}; a higher --rounds may help it.")
    return lines
