"""Plots of fitted models on matplotlib axes: learning curves, base classes, importances.

They take ABCBoostClassifier, and the estimators on LightGBM and XGBoost, and return the axes that they drew on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import check_choice, check_integer, fail
from abc_plugins.core.schedule import CLASSIC

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # of Okabe and Ito
_LINES = ("-", (0, (4, 2)), (0, (1, 1.5)), "-.")
_MAX_CLASS_LABELS = 30


def learning_curves(model: Any, *, metric: str | None = None, ax: Any = None) -> Any:
    """Plot a metric of every evaluation set, and the training loss, against rounds.

    Parameters
    ----------
    model : fitted classifier
        For curves of evaluation sets it must have been fitted with some.
    metric : str, optional
        By default the first one that was evaluated.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    ax : matplotlib Axes
        The training loss is drawn only if there is no evaluation set: it is a sum, they are means.
    """
    check_is_fitted(model)
    evaluations = _evaluations(model)
    names = list(dict.fromkeys(name for metrics in evaluations.values() for name in metrics))
    if metric is not None:
        check_choice("metric", metric, names)
    losses = getattr(model, "train_loss_", ())
    if not names and not len(losses):
        raise ValueError("learning_curves needs a model that was fitted with an evaluation set.")
    ax = _axes(ax)
    if not names:
        ax.plot(np.arange(1, len(losses) + 1), losses, color=_COLOURS[0])
        ax.set(yscale="log" if np.all(np.asarray(losses) > 0) else "linear", ylabel="training loss")
    chosen = metric or (names[0] if names else "")
    curves = {name: metrics[chosen] for name, metrics in evaluations.items() if chosen in metrics}
    for index, (name, values) in enumerate(curves.items()):
        style = {"color": _COLOURS[index % len(_COLOURS)], "linestyle": _LINES[index % len(_LINES)]}
        first = 1 + getattr(model, "rounds_before_", 0)  # rounds of a model that training went on from have no metrics
        ax.plot(np.arange(first, first + len(values)), values, label=name, **style)
    if curves:
        ax.set(ylabel=chosen)
        _mark_best_round(ax, model)
        ax.legend(frameon=False)
    ax.set(xlabel="boosting rounds", title="Learning curves")
    ax.grid(alpha=0.25)
    return ax


def base_classes(model: Any, *, ax: Any = None) -> Any:
    """Plot the base class of every round.

    Parameters
    ----------
    model : fitted classifier
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    """
    check_is_fitted(model)
    bases = np.asarray(model.base_classes_)
    ax = _axes(ax)
    draw_base_classes(ax, bases, [str(label) for label in model.classes_.tolist()])
    ax.set_title("Base class of every round")
    return ax


def importance(model: Any, *, importance_type: str = "gain", top: int = 20, ax: Any = None) -> Any:
    """Plot the most important features as bars.

    Parameters
    ----------
    model : fitted classifier
    importance_type : {"gain", "split"}, default="gain"
        Total gain or number of the splits on a feature, as shares of all. Only for ABCBoostClassifier; other
        estimators have their importances by their own `importance_type`.
    top : int, default=20
        Number of features.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    """
    check_is_fitted(model)
    check_choice("importance_type", importance_type, ("gain", "split"))
    check_integer("top", top, minimum=1)
    shares = _importances(model, importance_type)
    order = np.argsort(-shares, kind="stable")[:top]
    names = _feature_names(model)
    ax = _axes(ax)
    bars = ax.barh(range(order.size), shares[order], color=_COLOURS[0])
    ax.bar_label(bars, [f"{share:.1%}" for share in shares[order]], padding=3, fontsize=8)
    ax.set_yticks(range(order.size), [names[index] for index in order])
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.15 * max(float(shares.max()), 1e-12)), title="Feature importance")
    kind = f"share of the total {'gain' if importance_type == 'gain' else 'number of splits'}"
    ax.set_xlabel(kind if hasattr(model, "feature_importance") else "share of the importance")
    return ax


def overview(model: Any, *, top: int = 10) -> Any:
    """Draw learning curves, base classes and importances side by side on a new matplotlib Figure, without a display.

    Parameters
    ----------
    model : fitted classifier
    top : int, default=10
        Number of features.

    Returns
    -------
    figure : matplotlib Figure
    """
    check_is_fitted(model)
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise _no_matplotlib() from error
    figure = Figure(figsize=(15, 4.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    learning_curves(model, ax=left)
    base_classes(model, ax=middle)
    importance(model, top=top, ax=right)
    return figure


def draw_base_classes(ax: Any, bases: AnyArray, labels: Sequence[str], *, color: str = _COLOURS[0]) -> None:
    """Mark the base class of every round; classic rounds have no mark.

    Parameters
    ----------
    ax : matplotlib Axes
    bases : array of int, shape (n_rounds,)
        Class indices, -1 for a classic round.
    labels : sequence of str
        Names of the classes.
    color : str
    """
    rounds = np.flatnonzero(bases != CLASSIC)
    ax.plot(rounds + 1, bases[rounds], "|", color=color, markersize=6, markeredgewidth=1.4)
    ax.set_xlim(0, bases.size + 1)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    step = -(-len(labels) // _MAX_CLASS_LABELS)
    ax.set_yticks(range(0, len(labels), step), labels[::step], fontsize=8)
    ax.set(xlabel="boosting rounds", ylabel="base class")
    ax.grid(alpha=0.25, axis="y")
    if rounds.size == 0:
        ax.text(0.5, 0.5, "no round has a base class", transform=ax.transAxes, ha="center", va="center")


def _axes(ax: Any) -> Any:
    if ax is not None:
        if not hasattr(ax, "plot"):
            fail("ax", ax, "matplotlib Axes, or None for a new figure", TypeError)
        return ax
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise _no_matplotlib() from error
    return pyplot.subplots(figsize=(7, 4.5), layout="constrained")[1]


def _no_matplotlib() -> ModuleNotFoundError:
    return ModuleNotFoundError("plots need matplotlib: pip install 'abc-plugins[plot]'")


def _evaluations(model: Any) -> dict[str, dict[str, Sequence[float]]]:
    """Evaluation set -> metric -> values, from the native, LightGBM's or XGBoost's estimators."""
    recorded = getattr(model, "evals_result_", None)
    if recorded is None and hasattr(model, "evals_result"):
        try:
            recorded = model.evals_result()
        except Exception as error:
            if type(error).__name__ not in ("XGBoostError", "NotFittedError"):  # XGBoost: no evaluation set was given
                raise
    return recorded or {}


def _mark_best_round(ax: Any, model: Any) -> None:
    """Draw a line at the round that early stopping chose, if it was not the last."""
    best = getattr(model, "best_iteration_", None)
    n_rounds = len(getattr(model, "base_classes_", ()))
    if best and best < n_rounds:
        ax.axvline(best, color="#666666", linewidth=1, linestyle=":", label=f"best round ({best})")


def _importances(model: Any, importance_type: str) -> Floats:
    values = (
        model.feature_importance(importance_type)
        if hasattr(model, "feature_importance")
        else np.asarray(model.feature_importances_, dtype=np.float64)
    )
    total = float(np.sum(values))
    return np.asarray(values / total if total > 0 else values, dtype=np.float64)


def _feature_names(model: Any) -> list[str] | AnyArray:
    names = getattr(model, "feature_names_in_", None)
    return [f"x{index}" for index in range(model.n_features_in_)] if names is None else [str(name) for name in names]
