"""A summary of a fitted model: classes, rounds, base classes, importances, sizes, parameters."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abc_plugins.core.model.ensemble import FlatTrees
from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.settings import DIRECTIONAL

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier

_MAX_CLASSES_SHOWN = 20


def summarise(model: ABCBoostClassifier, path: Path) -> dict[str, Any]:
    """Describe a model and the file it came from, in plain JSON values; a number that is not finite is None."""
    trees = model.model_.flat()
    labels = model.classes_.tolist()
    counts = Counter(model.base_classes_.tolist())
    n_without = counts.pop(CLASSIC, 0)
    n_directional = max(0, n_without - model.warmup) if model.method == DIRECTIONAL else 0
    summary = {
        "file": str(path),
        "file_bytes": path.stat().st_size,
        "classes": labels,
        "n_classes": model.n_classes_,
        "n_features": model.n_features_in_,
        "n_rounds": len(model.base_classes_),
        "best_iteration": model.best_iteration_,
        "n_trees": trees.n_trees,
        "n_nodes": int(trees.feature.size),
        "trees_grown": model.trees_grown_,
        "classic_rounds": n_without - n_directional,
        "directional_rounds": n_directional,
        "base_class_rounds": [{"class": labels[base], "rounds": count} for base, count in counts.most_common()],
        "train_loss": model.train_loss_.tolist(),
        "mean_train_loss": _mean_losses(model.train_loss_, trees),
        "rounds_before": model.rounds_before_,
        "evals_result": model.evals_result_,
        "importances": _importances(model),
        "params": model.get_params(),
    }
    return _finite(summary)


def as_text(summary: dict[str, Any], top: int) -> str:
    """Lay a summary out as text, with the `top` most important features."""
    used = [f"{entry['class']!r} {entry['rounds']}" for entry in summary["base_class_rounds"]]
    means = summary["mean_train_loss"]
    kind, values = ("total", summary["train_loss"]) if means is None else ("mean", means)
    losses = [f"{kind} logloss {_number(loss)} after round {m}" for m, loss in enumerate(values, start=1)]
    lines = [
        f"file            {summary['file']} ({summary['file_bytes']:,} bytes)",
        f"classes         {summary['n_classes']}: {_shortened([repr(label) for label in summary['classes']])}",
        f"features        {summary['n_features']}",
        f"rounds          {summary['n_rounds']} (prediction uses {summary['best_iteration']})",
        f"trees           {summary['n_trees']} with {summary['n_nodes']} nodes",
        f"trees grown     {summary['trees_grown']} (with those of losing candidates)",
        f"classic rounds  {summary['classic_rounds']}",
        f"directional     {summary['directional_rounds']}",
        f"base classes    {_shortened(used) if used else 'none'}",
        f"training loss   {', '.join(losses[:1] + losses[1:][-1:])}",
        *_evaluation_lines(summary["evals_result"], summary["best_iteration"], summary["rounds_before"]),
        "parameters      " + ", ".join(f"{name}={value!r}" for name, value in summary["params"].items()),
    ]
    features = summary["importances"][:top]
    if features:
        width = max(len(feature["name"]) for feature in features)
        lines.append(f"importances     {'feature'.ljust(width)}    gain  splits")
        lines += [f"{'':16}{f['name'].ljust(width)}  {f['gain']:6.2%}  {f['splits']:6d}" for f in features]
    return "\n".join(lines)


def _mean_losses(totals: Floats, trees: FlatTrees) -> list[float] | None:
    """Training losses by the weight of the training data, which the roots tell; None if they do not."""
    if not np.all(np.diff(trees.round_start) > 0):
        return None
    weights = trees.weight[trees.node_start[trees.round_start[:-1]]]
    return (totals / weights).tolist() if (weights > 0).all() else None


def _importances(model: ABCBoostClassifier) -> list[dict[str, Any]]:
    """Features with their share of the gain and number of splits, the most important first."""
    names = getattr(model, "feature_names_in_", None)
    names = [f"x{index}" for index in range(model.n_features_in_)] if names is None else [str(name) for name in names]
    gains = model.feature_importances_.tolist()
    splits = model.feature_importance("count").tolist()
    features = [
        {"name": name, "gain": gain, "splits": int(count)}
        for name, gain, count in zip(names, gains, splits, strict=True)
    ]
    return sorted(features, key=lambda feature: -feature["gain"])


def _evaluation_lines(evals_result: dict[str, Any], best_iteration: int, rounds_before: int) -> list[str]:
    n_evaluated = best_iteration - rounds_before
    return [
        f"{name:<15} {metric} {_number(values[n_evaluated - 1])} after round {best_iteration}"
        for name, metrics in evals_result.items()
        for metric, values in metrics.items()
        if len(values) >= n_evaluated > 0
    ]


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"


def _shortened(items: list[str]) -> str:
    more = len(items) - _MAX_CLASSES_SHOWN
    return ", ".join(items[:_MAX_CLASSES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
