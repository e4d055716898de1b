"""Models as stock LightGBM boosters: what a run leaves behind, and native models."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

from abc_plugins.core.model.ensemble import LEAF, THRESHOLD, Tree
from abc_plugins.core.model.export_terms import (
    bases_of,
    categories_of,
    ensemble_of,
    first_rounds,
    labels_of,
    node_means,
    safe_names,
    with_missing_right,
)
from abc_plugins.core.options import Past
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.atomic import check_target, replace_file
from abc_plugins.core.runtime.checks import check_choice, check_path, fail
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.lgbm.live import ABCBooster
from abc_plugins.lgbm.params import LAYOUTS
from abc_plugins.lgbm.text import (
    NO_TREE,
    Layout,
    ModelFrame,
    TaggedTree,
    importances,
    join_numbers,
    lay_out,
    shifted,
    tree_text,
    without_copies,
    write_model,
)
from abc_plugins.lgbm.trainer import TrainedModel

MANY_SLOTS = 100_000
"""Slots from which on an export warns of its size."""

_MISSING_IS_NAN = 2 << 2  # LightGBM's decision_type: missing values are NaN ...
_MISSING_LEFT = 2  # ... and go to the left
_BY_SET = 1  # categories in a set go left, all else, missing values as well, goes right


def finish(model: TrainedModel, *, best_round: int, layout: str, keep_later: bool = False) -> ABCBooster:
    """Turn a trained model into a stock Booster.

    Parameters
    ----------
    model : TrainedModel
    best_round : int
        Rounds that predictions use by default, those of the initial model included; 0 for all.
    layout : str
        See `export`.
    keep_later : bool, default=False
        Keep the rounds after the best one, as LightGBM does with `keep_training_booster` and in `cv`.

    Returns
    -------
    booster : ABCBooster
        With objective multiclass, and an attribute `abc_info` of plain values (see `model_info`).
    """
    params, past = model.params, model.past
    if 0 < best_round < len(model.bases) and not keep_later:
        n_kept = best_round - model.n_initial_rounds
        model = replace(model, rounds=model.rounds[:n_kept], bases=model.bases[:best_round], directions={})
    n_classes, n_rounds = params.n_classes, len(model.rounds)
    best = n_rounds if best_round <= 0 else best_round - model.n_initial_rounds
    stops = _stops(model.rounds, n_classes, layout, best)
    laid_out = lay_out(model.rounds, n_classes, stops)
    n_initial = len(model.initial_trees) // n_classes
    ends = [n_initial + end for end in laid_out.round_ends]
    trees = [*model.initial_trees, *laid_out.trees]
    _warn_of_size(len(trees), sum(map(len, model.rounds)), layout)
    frame = ModelFrame(
        model.frame.feature_names,
        model.frame.feature_infos,
        model.frame.n_features,
        _stock_parameters(model.frame.parameters, [metric.name for metric in params.metrics]),
        model.frame.pandas_categorical,
    )
    booster = ABCBooster(model_str=write_model(frame, trees, n_classes))
    booster.params = params.stock
    booster.best_iteration = ends[stops.index(best)] if best_round > 0 else 0
    used = [tree.text for trees in model.rounds[:best] for tree in trees if not tree.is_copy]
    if past.importances is None:
        used += without_copies(model.initial_trees, n_classes)
    splits, gains = past.importances or (0.0, 0.0)
    new_splits, new_gains = importances(used, frame.n_features)
    booster.abc_info = {
        "base_classes": list(model.bases),
        "best_round": best_round,
        "round_iterations": _round_iterations(model.n_initial_rounds, n_initial, stops, ends),
        "guarded_rounds": past.guarded_rounds + int(model.guarded_rounds),
        "split_importance": (splits + new_splits).tolist(),
        "gain_importance": (gains + new_gains).tolist(),
        "directions": dict(model.directions),
    }
    return booster


def past_of(info: Mapping[str, Any] | None, n_iterations: int) -> Past:
    """What is known of a Booster with so many iterations that is gone on from; of a stock one, that they are classic.

    Parameters
    ----------
    info : dict, or None
        `abc_info` of the Booster. Rounds after its best one, which it may have kept, are not in its importances, and
        what has changed its trees since, such as `update`, is in neither these nor the schedule.
    n_iterations : int
    """
    if info is None:
        return Past((CLASSIC,) * n_iterations)
    past = Past(tuple(info["base_classes"]), info["guarded_rounds"])
    n_rounds = len(past.bases)
    if info["round_iterations"].get(n_rounds, 0) != n_iterations:
        return past
    past = replace(past, directions=info.get("directions", {}))
    if info["best_round"] not in (0, n_rounds):
        return past
    counted = np.array(info["split_importance"]), np.array(info["gain_importance"])
    return replace(past, importances=counted)


def _round_iterations(
    n_initial_rounds: int, n_initial: int, stops: Sequence[int], ends: Sequence[int]
) -> dict[int, int]:
    """Numbers of rounds, those of the initial model included, and the iterations after which they are complete."""
    initial = {n_initial_rounds: n_initial} if n_initial_rounds else {}
    return initial | {n_initial_rounds + stop: end for stop, end in zip(stops, ends, strict=True)}


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
    return {name: value for name, value in booster.abc_info.items() if name != "directions"}  # of use to a run alone


def iterations_of(info: Mapping[str, Any], start: int, count: int | None) -> tuple[int, int]:
    """Translate rounds to iterations of LightGBM, as far as the layout lets rounds end at iterations.

    Parameters
    ----------
    info : dict
        `abc_info` of a Booster.
    start : int
        Rounds to leave out.
    count : int, or None
        Rounds from there on; None, and from 0 down, for all.

    Returns
    -------
    start_iteration, num_iteration : int
    """
    ends, n_rounds = {0: 0, **info["round_iterations"]}, len(info["base_classes"])
    last = n_rounds if count is None or count <= 0 else min(start + count, n_rounds)
    for name, n in (("start_iteration", min(start, n_rounds)), ("num_iteration", last)):
        if n not in ends:
            where = ", ".join(map(str, sorted(ends)))
            fail(name, n, f"a number of rounds after which the model can be cut: {where}, or any with layout='rounds'")
    first = ends[min(start, n_rounds)]
    return first, -1 if last == n_rounds and first == 0 else max(ends[last] - first, 0)


def _stock_parameters(text: str, metrics: Sequence[str]) -> str:
    """Let the stored parameters name the multiclass objective and the caller's metrics."""
    metric = ",".join(name.partition("@")[0] for name in metrics) or "custom"
    text = re.sub(r"(?m)^\[objective: .*\]$", "[objective: multiclass]", text)
    return re.sub(r"(?m)^\[metric: .*\]$", f"[metric: {metric}]", text)


def _warn_of_size(n_slots: int, n_trees: int, layout: str) -> None:
    if n_slots >= MANY_SLOTS:
        hint = "" if layout == "compact" else '; layout="compact" needs fewer'
        warnings.warn(
            f"The LightGBM model has {n_slots} tree slots for {n_trees} grown trees: LightGBM has one slot a class in "
            f"every iteration, and a tree takes one for every class that it changes{hint}.",
            UserWarning,
            stacklevel=3,
        )


def export(
    model: Any, path: str | Path | None = None, *, layout: str = "compact", n_rounds: int | None = None
) -> lgb.Booster:
    """Turn a native model into a stock LightGBM model.

    The model predicts the same probabilities in every LightGBM runtime, without abc_plugins. LightGBM's trees are of
    one class each: a tree is written once for every class that it changes, twice for a tree with a base class, K times
    for one along a direction. LightGBM's own feature importances count all of them.

    In names of features `_` takes the place of what is no letter, digit or `_`.

    Categories are given by number; of a model that was fitted on a table, with all of their levels known, also as
    columns of pandas categories. A line `abc_classes:` of the text model has the labels as JSON, until LightGBM writes
    it again; a fitted `LGBMClassifier` that predicts them is made by `export_classifier`.

    Parameters
    ----------
    model : ABCBoostClassifier or TreeEnsemble
        A fitted model. Columns of the Booster's output follow `classes_`.
    path : str or Path, optional
        Also write the text model to this file.
    layout : {"compact", "rounds"}, default="compact"
        "compact" has the fewest slots, but where rounds have base classes its iterations are not boosting rounds:
        `num_iteration` of LightGBM cuts it at no useful place. With "rounds" every round ends at an iteration of its
        own, found in `model_info(booster)["round_iterations"]`; a round with a base class then takes K - 1 iterations.
        A tree along a direction is one iteration with either.
    n_rounds : int, optional
        Rounds to export; by default those that the model predicts with.

    Returns
    -------
    booster : lightgbm.Booster
    """
    check_choice("layout", layout, LAYOUTS)
    path = check_path("path", path)
    if path is not None:
        check_target(path)
    ensemble = ensemble_of(model)
    rounds = first_rounds(model, n_rounds)
    written = [[list(_native_trees(tree)) for tree in trees] for trees in rounds]
    names = safe_names(model, r"\W")
    frame = ModelFrame(
        feature_names=" ".join(names or [f"Column_{j}" for j in range(ensemble.n_features)]),
        feature_infos=" ".join(["[-inf:inf]"] * ensemble.n_features),
        n_features=ensemble.n_features,
        parameters=f"[objective: multiclass]\n[num_class: {ensemble.n_classes}]",
        pandas_categorical=_pandas_categorical(model),
    )
    tagged = [[copy for copies in trees for copy in copies] for trees in written]
    stops = _stops(tagged, ensemble.n_classes, layout)
    laid_out = _with_start(lay_out(tagged, ensemble.n_classes, stops), ensemble.start_scores)
    used = [copies[0].text for trees in written for copies in trees]
    _warn_of_size(len(laid_out.trees), len(used), layout)
    text = _with_labels(write_model(frame, laid_out.trees, ensemble.n_classes), labels_of(model))
    if path is not None:
        with replace_file(path, "w", encoding="utf-8") as file:
            file.write(text)
    booster = ABCBooster(model_str=text)
    split_importance, gain_importance = importances(used, frame.n_features)
    booster.abc_info = {
        "base_classes": bases_of(model, rounds),
        "best_round": 0,
        "round_iterations": dict(zip(stops, laid_out.round_ends, strict=True)),
        "guarded_rounds": 0,
        "split_importance": split_importance.tolist(),
        "gain_importance": gain_importance.tolist(),
    }
    return booster


def export_classifier(model: Any, *, n_rounds: int | None = None) -> lgb.LGBMClassifier:
    """Turn a native classifier into a fitted stock `LGBMClassifier` that predicts the same labels.

    It can be pickled and used without abc_plugins.

    Parameters
    ----------
    model : ABCBoostClassifier
        A fitted classifier.
    n_rounds : int, optional
        Rounds to export; by default those that the model predicts with.

    Returns
    -------
    classifier : lightgbm.LGBMClassifier
    """
    labels = getattr(model, "classes_", None)
    if labels is None:
        fail("model", model, "a fitted ABCBoostClassifier", TypeError)
    if labels.size < 3:
        fail("model", "one of 2 classes", "one of 3 classes or more: LGBMClassifier takes two for a single score")
    booster = export(model, n_rounds=n_rounds)
    # A fit on a few rows sets all that the classifier knows of labels and features; the trees are replaced.
    options = {"n_estimators": 1, "min_child_samples": 1, "n_jobs": 1, "verbosity": -1}
    nothing = np.zeros((2 * labels.size, booster.num_feature()))
    classifier = lgb.LGBMClassifier(**options).fit(nothing, np.tile(labels, 2))
    classifier._Booster = lgb.Booster(model_str=booster.model_to_string())
    classifier.set_params(n_estimators=booster.current_iteration(), n_jobs=None)
    return classifier


def _with_labels(text: str, labels: list[Any] | None) -> str:
    """Name the labels behind the parameters of a text model, where LightGBM reads over them."""
    if labels is None or not all(isinstance(label, str | bool | int | float) for label in labels):
        return text
    before, end, after = text.rpartition("\nend of parameters\n")
    return f"{before}{end}\nabc_classes:{json.dumps(labels)}\n{after}"


def _pandas_categorical(model: Any) -> str:
    """Levels of the categories as JSON, as LightGBM keeps those of a table that it was trained on."""
    categories = getattr(model, "_categories", None)
    if categories is None or not hasattr(model, "feature_names_in_") or categories.has_other.any():
        return "null"
    levels = [of_feature.tolist() for of_feature in categories.levels if of_feature is not None]
    return json.dumps(levels) if levels else "null"


def _stops(rounds: Sequence[Sequence[TaggedTree]], n_classes: int, layout: str, *wanted: int) -> list[int]:
    """Rounds that are to end with an iteration; in the compact layout those that do so by themselves, and the last."""
    if layout == "rounds":
        return list(range(1, len(rounds) + 1)) or [0]
    n_trees = [0] * (n_classes + 1)
    stops = {len(rounds), *wanted}
    for m, trees in enumerate(rounds, start=1):
        for tree in trees:
            n_trees[tree.plus] += 1
            n_trees[tree.minus] += 1  # -1 for a tree of one class: the last place
        if min(n_trees[:-1]) == max(n_trees[:-1]):
            stops.add(m)
    return sorted(stops)


def _with_start(laid_out: Layout, start_scores: Floats) -> Layout:
    """Add the scores before the first round to the first iteration."""
    if not start_scores.any():
        return laid_out
    n_classes, (trees, round_ends) = start_scores.size, laid_out
    if not trees:
        trees, round_ends = [NO_TREE] * n_classes, [1] * len(round_ends)
    first = [shifted(tree, score) for tree, score in zip(trees, start_scores.tolist(), strict=False)]
    return Layout([*first, *trees[n_classes:]], round_ends)


def _native_trees(tree: Tree) -> Iterator[TaggedTree]:
    """Write a native tree in LightGBM's terms, once for every class that it changes.

    Inner nodes and leaves are numbered apart, leaf j is child ~j.
    """
    tree = with_missing_right(tree)
    is_leaf = tree.feature == LEAF
    inner, leaves = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    counts = _node_counts(tree, is_leaf)
    has_set = tree.left_set[inner] != THRESHOLD
    by_threshold = _MISSING_IS_NAN + _MISSING_LEFT * tree.missing_left[inner].astype(int)
    before = {
        "num_leaves": leaves.size,
        "num_cat": len(tree.sets),
        "split_feature": _join(tree.feature[inner]),
        "split_gain": join_numbers(tree.gain[inner]),
        "threshold": join_numbers(np.where(has_set, tree.left_set[inner], tree.threshold[inner])),
        "decision_type": _join(np.where(has_set, _MISSING_IS_NAN + _BY_SET, by_threshold)),
        "left_child": _join(number[tree.left[inner]]),
        "right_child": _join(number[tree.right[inner]]),
    }
    weights = {"leaf_weight": join_numbers(tree.weight[leaves]), "leaf_count": _join(counts[leaves])}
    after = {
        "internal_weight": join_numbers(tree.weight[inner]),
        "internal_count": _join(counts[inner]),
        **_set_lines(tree),
        "is_linear": 0,
        "shrinkage": 1,
    }
    means = node_means(tree, counts)
    for entry, k in enumerate(tree.classes.tolist()):
        leaf_values = {"leaf_value": join_numbers(means[leaves, entry])}
        internal_values = {"internal_value": join_numbers(means[inner, entry])}
        yield TaggedTree(k, CLASSIC, tree_text({**before, **leaf_values, **weights, **internal_values, **after}))


def _set_lines(tree: Tree) -> dict[str, str]:
    """Sets as words of 32 bits, one behind the other; nodes with a set name it in place of a threshold."""
    if not len(tree.sets):
        return {}
    words: list[AnyArray] = []
    for categories in categories_of(tree.sets):
        bits = np.zeros(32 * (categories.max(initial=0) // 32 + 1), dtype=np.uint8)
        bits[categories] = 1
        words.append(np.packbits(bits, bitorder="little").view("<u4"))
    bounds = np.cumsum([0, *(of_set.size for of_set in words)])
    return {"cat_boundaries": _join(bounds), "cat_threshold": _join(np.concatenate(words))}


def _join(numbers: Any) -> str:
    return " ".join(map(str, np.asarray(numbers).tolist()))


def _node_counts(tree: Tree, is_leaf: Any) -> Any:
    """Whole sample counts, at least 1 a leaf, that add up; explanations average over them."""
    counts = np.where(is_leaf, np.maximum(np.rint(tree.weight), 1.0), 0.0).astype(np.int64)
    for node in range(counts.size - 1, -1, -1):  # a child has a larger number than its parent
        if not is_leaf[node]:
            counts[node] = counts[tree.left[node]] + counts[tree.right[node]]
    return counts
