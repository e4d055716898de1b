"""From fits to figures: what each contender reached within the budget, and who beats whom."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from abc_plugins.compare.budgets.contenders import BudgetContender
from abc_plugins.compare.budgets.fitting import unpack_wrong
from abc_plugins.compare.chance import corrected_t_test, mcnemar, standard_error
from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.runtime.checks import check_choice

BUDGETS = ("equal-rounds", "equal-trees", "equal-time")


def summarise(
    runs: Sequence[dict[str, Any]], contenders: Sequence[BudgetContender], budget: str = "equal-rounds"
) -> dict[str, Any]:
    """Compute the tables.

    All contenders were trained for the same number of rounds. A boosted model that is cut after round m is the model of
    m rounds, so that other budgets need no other fits: "equal-trees" cuts every model of a split at the number of
    trees that the thriftiest contender grew, "equal-time" at the seconds that the fastest one took.

    Parameters
    ----------
    runs : sequence of dict
        From `run`.
    contenders : sequence of BudgetContender
    budget : {"equal-rounds", "equal-trees", "equal-time"}

    Returns
    -------
    dict of plain JSON values
        table: one row per contender; pairs: every ABC contender against the same engine without it; points: one per
        fit.
    """
    check_choice("budget", budget, BUDGETS)
    points = [point for _, group in _by_split(runs) for point in _cut(group, budget)]
    table = [_row(contender, points) for contender in contenders]
    present = {contender.key: contender for contender in contenders}
    pairs = [
        _pair(contender, present[contender.rival], points, runs)
        for contender in contenders
        if contender.rival in present
    ]
    return {"table": table, "pairs": pairs, "points": points}


def _by_split(runs: Sequence[dict[str, Any]]) -> Any:
    return itertools.groupby(sorted(runs, key=lambda run: run["split"]), key=lambda run: run["split"])


def _cut(group: Any, budget: str) -> list[dict[str, Any]]:
    """Figures of the fits of one split at the end of the budget."""
    runs = list(group)
    if budget == "equal-rounds":
        return [_point(run, len(run["errors"])) for run in runs]
    spent = "trees" if budget == "equal-trees" else "seconds"
    limit = min(run[spent][-1] for run in runs)
    return [_point(run, max(1, int(np.searchsorted(run[spent], limit, side="right")))) for run in runs]


def _point(run: dict[str, Any], n_rounds: int) -> dict[str, Any]:
    last = n_rounds - 1
    seconds = run["seconds"][last] + run["phases"]["finishing"]
    return {
        "contender": run["contender"],
        "split": run["split"],
        "seed": run["seed"],
        "n_train": run["n_train"],
        "n_test": run["n_test"],
        "rounds": n_rounds,
        "errors": run["errors"][last],
        "error": run["errors"][last] / run["n_test"],
        "log_loss": run["log_loss"][last],
        "seconds": seconds,
        "trees": run["trees"][last],
        "ms_per_tree": 1000 * seconds / run["trees"][last],
    }


def _row(contender: BudgetContender, points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    own = [point for point in points if point["contender"] == contender.key]
    means = {
        name: float(np.mean([point[name] for point in own]))
        for name in ("error", "log_loss", "seconds", "trees", "ms_per_tree", "rounds")
    }
    wins, losses, ties = _count_wins(own, [point for point in points if point["contender"] != contender.key])
    return {
        "contender": contender.key,
        "title": contender.title,
        **means,
        "error_se": standard_error([point["error"] for point in own]),
        "log_loss_se": standard_error([point["log_loss"] for point in own]),
        "wins": wins,
        "losses": losses,
        "ties": ties,
        "splits": len(own),
    }


def _count_wins(own: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> tuple[int, int, int]:
    """Count on how many splits and against how many contenders there were fewer errors, more, and as many."""
    differences = [a["errors"] - b["errors"] for a in own for b in others if a["split"] == b["split"]]
    signs = [int(np.sign(difference)) for difference in differences]
    return signs.count(-1), signs.count(1), signs.count(0)


def _pair(
    contender: BudgetContender, rival: BudgetContender, points: Sequence[dict[str, Any]], runs: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Compare an ABC contender with the same engine without an adaptive base class, split by split."""
    own = sorted((p for p in points if p["contender"] == contender.key), key=lambda point: point["split"])
    other = sorted((p for p in points if p["contender"] == rival.key), key=lambda point: point["split"])
    differences = np.array([a["error"] - b["error"] for a, b in zip(own, other, strict=True)])
    wins, losses, ties = _count_wins(own, other)
    test, p_value = "corrected paired t-test", corrected_t_test(differences, own[0]["n_test"] / own[0]["n_train"])
    if len(own) == 1:
        test, p_value = "needs several splits", None
        wrong, rivals_wrong = _wrong(contender.key, own[0], runs), _wrong(rival.key, other[0], runs)
        if wrong is not None and rivals_wrong is not None:
            test, p_value = "McNemar's exact test", mcnemar(wrong, rivals_wrong)
    return {
        "contender": contender.key,
        "rival": rival.key,
        "title": f"{contender.title} - {rival.title}",
        "difference": float(differences.mean()),
        "difference_se": standard_error(differences.tolist()),
        "relative": float(differences.mean() / np.mean([p["error"] for p in other]))
        if any(p["errors"] for p in other)
        else None,
        "wins": wins,
        "losses": losses,
        "ties": ties,
        "time_ratio": float(np.mean([p["seconds"] for p in own]) / np.mean([p["seconds"] for p in other])),
        "test": test,
        "p_value": p_value,
    }


def _wrong(key: str, point: dict[str, Any], runs: Sequence[dict[str, Any]]) -> AnyArray | None:
    """Which test rows are wrong; only known of the whole model."""
    run = next(run for run in runs if run["contender"] == key and run["split"] == point["split"])
    return unpack_wrong(run["wrong"], run["n_test"]) if point["rounds"] == len(run["errors"]) else None
