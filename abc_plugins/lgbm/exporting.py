"""Models as stock LightGBM boosters: what a run leaves behind, and native models."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

from abc_plugins.core.model.ensemble import LEAF, Tree
from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.core.runtime.atomic import replace_file
from abc_plugins.core.runtime.checks import check_choice, check_integer, fail
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.lgbm.text import (
    ModelFrame,
    TaggedTree,
    importances,
    join_numbers,
    lay_out,
    tree_text,
    write_model,
)
from abc_plugins.lgbm.trainer import TrainedModel

LAYOUTS = ("compact", "rounds")
MANY_SLOTS = 100_000
"""Slots from which on an export warns of its size."""

_MISSING_IS_NAN = 2 << 2  # LightGBM's decision_type: missing values are NaN ...
_MISSING_LEFT = 2  # ... and go to the left


def finish(model: TrainedModel, *, best_round: int, layout: str) -> lgb.Booster:
    """Turn a trained model into a stock Booster.

    Parameters
    ----------
    model : TrainedModel
    best_round : int
        Rounds that predictions use by default, those of the initial model included; 0 for all.
    layout : str
        See `export`.

    Returns
    -------
    booster : Booster
        With objective multiclass, and an attribute `abc_info` of plain values (see `model_info`).
    """
    params = model.params
    n_classes, n_rounds = params.n_classes, len(model.rounds)
    best = n_rounds if best_round <= 0 else best_round - model.n_initial_rounds
    stops = range(1, n_rounds + 1) if layout == "rounds" else sorted({best, n_rounds})
    layed = lay_out(model.rounds, n_classes, stops)
    n_initial = len(model.initial_trees) // n_classes
    ends = [n_initial + end for end in layed.round_ends]
    trees = [*model.initial_trees, *layed.trees]
    _warn_of_size(len(trees), sum(map(len, model.rounds)), layout)
    frame = ModelFrame(
        model.frame.feature_names,
        model.frame.feature_infos,
        model.frame.n_features,
        _stock_parameters(model.frame.parameters, params.stock),
        model.frame.pandas_categorical,
    )
    booster = lgb.Booster(model_str=write_model(frame, trees, n_classes))
    booster.params = params.stock
    booster.best_iteration = ends[list(stops).index(best)] if best_round > 0 else 0
    used = [tree.text for trees in model.rounds[:best] for tree in trees] + model.initial_trees
    split_importance, gain_importance = importances(used, frame.n_features)
    booster.abc_info = {
        "base_classes": list(model.bases),
        "best_round": best_round,
        "round_iterations": {model.n_initial_rounds + stop: end for stop, end in zip(stops, ends, strict=True)},
        "guarded_rounds": int(model.guarded_rounds),
        "split_importance": split_importance.tolist(),
        "gain_importance": gain_importance.tolist(),
    }
    return booster


def model_info(booster: lgb.Booster) -> dict[str, Any]:
    """Return what is known about a Booster from `abc_plugins.lgbm.train` beyond a stock model.

    Returns
    -------
    info : dict
        - base_classes: the base class of every round, -1 for a classic round
        - best_round: the round of the best validation metric, 0 without early stopping
        - round_iterations: for some numbers of rounds (all with layout "rounds") the `num_iteration` they end at
        - guarded_rounds: rounds whose step the guard shortened or replaced
        - split_importance, gain_importance: feature importances with every tree counted once
    """
    if not isinstance(booster, lgb.Booster) or not hasattr(booster, "abc_info"):
        fail("booster", booster, "a Booster that abc_plugins.lgbm.train returned", TypeError)
    return dict(booster.abc_info)


def _stock_parameters(text: str, stock: dict[str, Any]) -> str:
    """Let the stored parameters name the multiclass objective and the caller's metrics."""
    metric = stock.get("metric", "multi_logloss")
    metric = metric if isinstance(metric, str) else ",".join(map(str, metric))
    text = re.sub(r"(?m)^\[objective: .*\]$", "[objective: multiclass]", text)
    return re.sub(r"(?m)^\[metric: .*\]$", lambda _match: f"[metric: {metric}]", text)


def _warn_of_size(n_slots: int, n_trees: int, layout: str) -> None:
    if n_slots >= MANY_SLOTS:
        hint = "" if layout == "compact" else '; layout="compact" needs fewer'
        warnings.warn(
            f"The LightGBM model has {n_slots} tree slots for {n_trees} grown trees: LightGBM has one slot a class in "
            f"every iteration, and a base class needs one for every tree of its rounds{hint}.",
            UserWarning,
            stacklevel=3,
        )


def export(
    model: Any, path: str | Path | None = None, *, layout: str = "compact", n_rounds: int | None = None
) -> lgb.Booster:
    """Turn a native model into a stock LightGBM model.

    The model predicts the same probabilities in every LightGBM runtime, without abc_plugins. It has about twice the
    trees: what a tree takes from the base class is a tree of its own there. LightGBM's own feature importances
    count both.

    Parameters
    ----------
    model : ABCBoostClassifier or TreeEnsemble
        A fitted model. Columns of the Booster's output follow `classes_`.
    path : str or Path, optional
        Also write the text model to this file.
    layout : {"compact", "rounds"}, default="compact"
        "compact" has the fewest slots, but its iterations are not boosting rounds: `num_iteration` of LightGBM cuts
        it at no useful place. With "rounds" every round ends at an iteration of its own, found in
        `model_info(booster)["round_iterations"]`; a round with a base class then takes K - 1 iterations.
    n_rounds : int, optional
        Rounds to export; by default those that the model predicts with.

    Returns
    -------
    booster : lightgbm.Booster
    """
    check_choice("layout", layout, LAYOUTS)
    ensemble = getattr(model, "model_", model)
    if not hasattr(ensemble, "rounds") or not hasattr(ensemble, "n_classes"):
        fail("model", model, "a fitted ABCBoostClassifier or a TreeEnsemble", TypeError)
    if n_rounds is None:
        n_rounds = int(getattr(model, "best_iteration_", None) or ensemble.n_rounds)
    n_rounds = check_integer("n_rounds", n_rounds, minimum=1, maximum=ensemble.n_rounds)
    rounds = [tuple(map(_native_tree, trees)) for trees in list(ensemble.rounds())[:n_rounds]]
    names = [re.sub(r"\W", "_", str(name)) for name in getattr(model, "feature_names_in_", ())]
    frame = ModelFrame(
        feature_names=" ".join(names or [f"Column_{j}" for j in range(ensemble.n_features)]),
        feature_infos=" ".join(["[-inf:inf]"] * ensemble.n_features),
        n_features=ensemble.n_features,
        parameters=f"[objective: multiclass]\n[num_class: {ensemble.n_classes}]",
    )
    return _native_booster(rounds, frame, ensemble.n_classes, layout, path)


def _native_booster(
    rounds: Sequence[Sequence[TaggedTree]], frame: ModelFrame, n_classes: int, layout: str, path: str | Path | None
) -> lgb.Booster:
    stops = range(1, len(rounds) + 1) if layout == "rounds" else [len(rounds)]
    layed = lay_out(rounds, n_classes, stops)
    used = [tree.text for trees in rounds for tree in trees]
    _warn_of_size(len(layed.trees), len(used), layout)
    text = write_model(frame, layed.trees, n_classes)
    if path is not None:
        with replace_file(path, "w", encoding="utf-8") as file:
            file.write(text)
    booster = lgb.Booster(model_str=text)
    split_importance, gain_importance = importances(used, frame.n_features)
    booster.abc_info = {
        "base_classes": [trees[0].minus if trees else CLASSIC for trees in rounds],
        "best_round": 0,
        "round_iterations": dict(zip(stops, layed.round_ends, strict=True)),
        "guarded_rounds": 0,
        "split_importance": split_importance.tolist(),
        "gain_importance": gain_importance.tolist(),
    }
    return booster


def _native_tree(tree: Tree) -> TaggedTree:
    """Write a native tree in LightGBM's terms: inner nodes and leaves are numbered apart, leaf j is child ~j."""
    is_leaf = tree.feature == LEAF
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    counts = _node_counts(tree, is_leaf)
    inner, leaves = ~is_leaf, is_leaf
    lines = {
        "num_leaves": int(leaves.sum()),
        "num_cat": 0,
        "split_feature": _join(tree.feature[inner]),
        "split_gain": join_numbers(tree.gain[inner]),
        "threshold": join_numbers(tree.threshold[inner]),
        "decision_type": _join(_MISSING_IS_NAN + _MISSING_LEFT * tree.missing_left[inner].astype(int)),
        "left_child": _join(number[tree.left[inner]]),
        "right_child": _join(number[tree.right[inner]]),
        "leaf_value": join_numbers(tree.value[leaves]),
        "leaf_weight": join_numbers(tree.weight[leaves]),
        "leaf_count": _join(counts[leaves]),
        "internal_value": join_numbers(_node_means(tree, counts)[inner]),
        "internal_weight": join_numbers(tree.weight[inner]),
        "internal_count": _join(counts[inner]),
        "is_linear": 0,
        "shrinkage": 1,
    }
    return TaggedTree(tree.plus, tree.minus, tree_text(lines))


def _join(numbers: Any) -> str:
    return " ".join(map(str, np.asarray(numbers).tolist()))


def _node_counts(tree: Tree, is_leaf: Any) -> Any:
    """Whole sample counts, at least 1 a leaf, that add up; explanations average over them."""
    counts = np.where(is_leaf, np.maximum(np.rint(tree.weight), 1.0), 0.0).astype(np.int64)
    for node in range(counts.size - 1, -1, -1):  # a child has a larger number than its parent
        if not is_leaf[node]:
            counts[node] = counts[tree.left[node]] + counts[tree.right[node]]
    return counts


def _node_means(tree: Tree, counts: Any) -> Floats:
    means = tree.value.copy()
    for node in range(means.size - 1, -1, -1):
        if tree.feature[node] != LEAF:
            children = [tree.left[node], tree.right[node]]
            means[node] = np.average(means[children], weights=counts[children])
    return means
