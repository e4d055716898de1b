"""What the exporters to other libraries' formats have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from abc_plugins.core.model.ensemble import LEAF, THRESHOLD, Tree, TreeEnsemble
from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats
from abc_plugins.core.runtime.checks import check_integer, fail
from abc_plugins.core.schedule import CLASSIC


def ensemble_of(model: object) -> TreeEnsemble:
    """The trees of a fitted classifier, or of what is an ensemble itself."""
    if any(one.__name__ == "ABCBoostClassifier" for one in type(model).__mro__):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    ensemble = model if isinstance(model, TreeEnsemble) else getattr(model, "model_", None)
    if not isinstance(ensemble, TreeEnsemble):
        allowed = (
            "a fitted ABCBoostClassifier or a TreeEnsemble; models of the adapters are of LightGBM or XGBoost, whose"
        )
        fail("model", model, f"{allowed} own tools (shap.TreeExplainer, converters) take them", TypeError)
    return ensemble


def first_rounds(model: object, n_rounds: int | None) -> list[tuple[Tree, ...]]:
    """The trees of the first `n_rounds` rounds; by default of those that the model predicts with."""
    ensemble = ensemble_of(model)
    if ensemble.n_rounds == 0:
        fail("model", "one without rounds", "one of at least one round (a callback may have ended its training before)")
    if n_rounds is None:
        n_rounds = int(getattr(model, "best_iteration_", None) or ensemble.n_rounds)
    n_rounds = check_integer("n_rounds", n_rounds, minimum=1, maximum=ensemble.n_rounds)
    return list(ensemble.rounds())[:n_rounds]


def bases_of(model: object, rounds: list[tuple[Tree, ...]]) -> list[int]:
    """The base class of every round, CLASSIC for none: as the model says, else as the trees do."""
    bases = getattr(model, "base_classes_", None)
    if bases is not None:
        return [int(base) for base in bases[: len(rounds)]]
    return [trees[0].minus if trees and trees[0].is_pair else CLASSIC for trees in rounds]


def with_missing_left(tree: Tree) -> Tree:
    """The same tree, such that nodes with a set send missing values, and what is no category, to the left."""
    return _with_missing(tree, left=True)


def with_missing_right(tree: Tree) -> Tree:
    """The same tree, such that nodes with a set send missing values, and what is no category, to the right."""
    return _with_missing(tree, left=False)


def _with_missing(tree: Tree, *, left: bool) -> Tree:
    """Let the children of some nodes change places, so that their sets become those of all other categories.

    Siblings are next to each other in the end, as in all trees that were grown here.
    """
    inner, has_set = tree.feature != LEAF, tree.left_set != THRESHOLD
    swapped = has_set & (tree.missing_left != left)
    if not swapped.any() and (tree.right == tree.left + 1)[inner].all():
        return tree
    return _renumbered(tree, swapped)


def _renumbered(tree: Tree, swapped: Booleans) -> Tree:
    """Number the nodes level by level, with the children of some nodes swapped."""
    inner = tree.feature != LEAF
    left = np.where(swapped, tree.right, tree.left)
    right = np.where(swapped, tree.left, tree.right)
    order = [0]
    for node in order:
        if inner[node]:
            order += [left[node], right[node]]
    place = np.empty_like(tree.left)
    place[order] = np.arange(place.size)
    nodes = {name: getattr(tree, name)[order] for name in ("feature", "threshold", "gain", "weight")}
    values = tree.values[tree.left[order][~inner[order]]]
    leaf_row = np.cumsum(~inner[order]) - 1
    return replace(
        tree,
        values=values,
        sets=np.concatenate([tree.sets, ~tree.sets]),
        missing_left=(tree.missing_left ^ swapped)[order],
        left_set=(tree.left_set + len(tree.sets) * swapped).astype(np.int32)[order],
        left=np.where(inner[order], place[left * inner][order], leaf_row).astype(np.int32),
        right=np.where(inner[order], place[right * inner][order], 0).astype(np.int32),
        **nodes,
    )


def categories_of(sets: AnyArray) -> list[AnyArray]:
    """The categories of each set, in ascending order."""
    return [np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")) for words in sets]


def node_means(tree: Tree, weights: AnyArray) -> Floats:
    """What leaves add, and for inner nodes the weighted mean of their leaves: approximate explanations use them.

    Returns
    -------
    means : array of shape (n_nodes, n_entries)
    """
    leaf = tree.feature == LEAF
    means = np.zeros((leaf.size, tree.classes.size))
    means[leaf] = tree.values[tree.left[leaf]]
    for node in np.flatnonzero(~leaf)[::-1]:  # a child has a larger number than its parent
        left, right = tree.left[node], tree.right[node]
        total = weights[left] + weights[right]
        if total > 0:
            means[node] = (weights[left] * means[left] + weights[right] * means[right]) / total
    return means


EMPTY_SHARE = 0.01
"""Weight of a leaf without samples, as a share of the mean weight of the leaves."""


def covers_of(tree: Tree) -> Floats:
    """Weights of the nodes, with a little for leaves that no sample reached: explanations divide by them."""
    leaf = tree.feature == LEAF
    if (tree.weight[leaf] > 0.0).all():
        return tree.weight
    covers = np.where(leaf & (tree.weight == 0.0), max(EMPTY_SHARE * tree.weight[0] / leaf.sum(), 1e-30), tree.weight)
    for node in np.flatnonzero(~leaf)[::-1]:  # a child has a larger number than its parent
        covers[node] = covers[tree.left[node]] + covers[tree.right[node]]
    return covers


def class_vectors(tree: Tree, n_classes: int) -> Floats:
    """What each leaf adds to the score of every class, array of shape (n_leaves, n_classes)."""
    vectors = np.zeros((len(tree.values), n_classes))
    vectors[:, tree.classes] = tree.values
    return vectors


def moves_all_classes(trees: Iterable[Tree], n_classes: int) -> bool:
    """Whether a tree changes the scores of all classes: then one vector per leaf is smaller than one tree per class."""
    return any(tree.classes.size == n_classes for tree in trees)


def labels_of(model: object) -> list[Any] | None:
    """The labels of a classifier as plain Python values; None for a model that has none."""
    classes = getattr(model, "classes_", None)
    return None if classes is None else list(classes.tolist())


def names_of(model: object) -> list[str] | None:
    """The names of the features, None if the model has none."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def safe_names(model: object, refused: str) -> list[str] | None:
    """The names of the features, all different, with `_` for characters that a format refuses; None if there are none.

    Parameters
    ----------
    model : ABCBoostClassifier or TreeEnsemble
    refused : str
        Pattern of the characters.
    """
    names = names_of(model)
    if names is None:
        return None
    safe = [re.sub(refused, "_", name) or "_" for name in names]
    taken = {name for name, new in zip(names, safe, strict=True) if name == new}
    for f, (name, new) in enumerate(zip(names, safe, strict=True)):
        if name != new:
            number = 2
            while safe[f] in taken:
                safe[f], number = f"{new}_{number}", number + 1
            taken.add(safe[f])
    return safe
