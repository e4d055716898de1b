"""Native models as stock XGBoost models.

A native tree sends x to the left if x <= threshold, in float64; XGBoost if x < condition, in float32. The
condition written here is the smallest float32 above the threshold, so that every value that is a float32 goes the
same way. XGBoost rounds other values to float32 first: one that lies within half a unit in the last place of float32
of a threshold may go the other way.

XGBoost sends the categories that a node names to the right, and what is no category to the left: there missing values
go left, and children of native nodes that send them to the right change places.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from xgboost import Booster

from abc_plugins.core.model.ensemble import LEAF, THRESHOLD, Tree, TreeEnsemble, single_leaf
from abc_plugins.core.model.export_terms import (
    bases_of,
    categories_of,
    covers_of,
    ensemble_of,
    first_rounds,
    node_means,
    safe_names,
    with_missing_left,
)
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.atomic import check_target, replace_file
from abc_plugins.core.runtime.checks import check_flag, check_path, fail
from abc_plugins.xgb.format.trees import Document, TreeBytes, read_trees
from abc_plugins.xgb.format.ubjson import encode
from abc_plugins.xgb.stock import extend_model, with_model
from abc_plugins.xgb.vectors import empty_booster, has_vector_leaves, vector_members
from abc_plugins.xgb.xgboost_grower import read_model

_NO_PARENT = 2147483647
_REFUSED_IN_NAMES = r"[\[\]<]"
FILE_ENDINGS = (".json", ".ubj")
"""XGBoost's formats go by the name of the file."""


def export(
    model: Any, path: str | Path | None = None, *, vector_leaves: bool | None = None, n_rounds: int | None = None
) -> Booster:
    """Turn a native model into a stock XGBoost model.

    The model predicts the same probabilities in every XGBoost runtime, without abc_plugins. Rounds stay rounds.
    Categories are given by number. In names of features `_` takes the place of `[`, `]` and `<`, which XGBoost refuses.

    Parameters
    ----------
    model : ABCBoostClassifier or TreeEnsemble
        A fitted model. Columns of the Booster's output follow `classes_`, which the Booster's attribute `classes`
        holds as JSON.
    path : str or Path, optional
        Also save the model: UBJSON for a name that ends in .ubj, JSON for .json.
    vector_leaves : bool or None, default=None
        True: every tree is written once, with a vector of K values per leaf. Needs XGBoost 3.2, which predicts with
        such trees, but does not explain them (`pred_contribs`; `abc_plugins.explain` does). False: every tree is
        written once for each class that it changes, twice for a tree with a base class, K times for one along a
        direction, and everything that XGBoost does with trees works. None: vectors where trees change more than two
        classes, if XGBoost has them. XGBoost leaves out categories when it saves trees with vectors: models that
        split on categories need False, which is what None is for them.
    n_rounds : int, optional
        Rounds to export; by default those that the model predicts with.

    Returns
    -------
    booster : xgboost.Booster
        With objective multi:softprob.
    """
    path = check_path("path", path)
    if path is not None:
        _check_file(path)
    ensemble = ensemble_of(model)
    rounds = first_rounds(model, n_rounds)
    has_sets = any((tree.left_set != THRESHOLD).any() for trees in rounds for tree in trees)
    if vector_leaves is None:
        is_wide = any(tree.classes.size > 2 for trees in rounds for tree in trees)
        vector_leaves = is_wide and not has_sets and has_vector_leaves()
    if check_flag("vector_leaves", vector_leaves) and has_sets:
        fail(
            "vector_leaves",
            True,
            "False for a model that splits on categories: XGBoost does not save them with vectors",
        )
    bases = bases_of(model, rounds)
    names = safe_names(model, _REFUSED_IN_NAMES)
    start = empty_booster(ensemble.n_classes, ensemble.n_features, names, vector_leaves=vector_leaves)
    attributes = {"base_classes": json.dumps(bases)}
    if hasattr(model, "classes_"):
        attributes["classes"] = json.dumps(model.classes_.tolist())
    # XGBoost has at least one tree in a round.
    rounds = [trees or (single_leaf([ensemble.n_classes - 1], 0.0),) for trees in rounds]
    if vector_leaves:
        document = _vector_document(read_model(start), rounds, ensemble, attributes)
    else:
        scalar_rounds = _scalar_rounds(rounds, bases, ensemble)
        document = extend_model(read_model(start), scalar_rounds, attributes)
    booster = with_model(start, document)
    if path is not None:
        with replace_file(path) as file:
            file.write(booster.save_raw(Path(path).suffix.removeprefix(".")))
    return booster


def _check_file(path: str) -> None:
    """Refuse a file that cannot be written, or whose name does not tell the format."""
    if Path(path).suffix not in FILE_ENDINGS:
        fail("path", path, f"the name of a file that ends in {' or '.join(FILE_ENDINGS)}")
    check_target(path)


def _scalar_rounds(
    rounds: Sequence[Sequence[Tree]], bases: Sequence[int], ensemble: TreeEnsemble
) -> list[list[tuple[int, TreeBytes]]]:
    """Every tree once for each class that it changes, those of the base class last.

    Scores before the first round are added to the first tree of each class; a class without one in the first round
    gets one of a single leaf.
    """
    start = {k: score for k, score in enumerate(ensemble.start_scores.tolist()) if score != 0.0}
    unmoved = sorted(set(start) - {k for tree in rounds[0] for k in tree.classes.tolist()})
    rounds = [[*rounds[0], *(single_leaf([k], 0.0) for k in unmoved)], *rounds[1:]]
    scalar_rounds = []
    for trees, base in zip(rounds, bases, strict=True):
        copies: list[tuple[int, Document]] = []
        for tree in map(with_missing_left, trees):
            members, means = _common_members(tree, ensemble.n_features), node_means(tree, covers_of(tree))
            conditions, parents = _conditions(tree), _parents(tree, _NO_PARENT)
            for entry, k in enumerate(tree.classes.tolist()):
                values = (means[:, entry] + start.pop(k, 0.0)).astype(np.float32)
                copies.append((k, _scalar_tree(tree, members, conditions, parents, values)))
        copies.sort(key=itemgetter(0))
        copies = [copy for copy in copies if copy[0] != base] + [copy for copy in copies if copy[0] == base]
        written, _ = read_trees(bytes(encode([copy for _, copy in copies])), 0)
        scalar_rounds.append([(k, tree) for (k, _), tree in zip(copies, written, strict=True)])
    return scalar_rounds


def _vector_document(
    document: Document, rounds: Sequence[Sequence[Tree]], ensemble: TreeEnsemble, attributes: dict[str, str]
) -> Document:
    trees = [with_missing_left(tree) for round_trees in rounds for tree in round_trees]
    start = [ensemble.start_scores, *[np.zeros(ensemble.n_classes)] * (len(trees) - 1)]
    learner = document["learner"]
    model = learner["gradient_booster"]["model"] | {
        "trees": [_vector_tree(tree, number, ensemble, start[number]) for number, tree in enumerate(trees)],
        "tree_info": [0] * len(trees),
        "iteration_indptr": np.cumsum([0] + [len(round_trees) for round_trees in rounds]).tolist(),
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
    }
    booster = learner["gradient_booster"] | {"model": model}
    return document | {"learner": learner | {"gradient_booster": booster, "attributes": attributes}}


def _scalar_tree(tree: Tree, members: Document, conditions: AnyArray, parents: AnyArray, values: AnyArray) -> Document:
    leaf = tree.feature == LEAF
    return members | {
        "base_weights": values,
        "split_conditions": np.where(leaf, values, conditions),
        "right_children": np.where(leaf, -1, tree.right).astype(np.int32),
        "parents": parents,
        "id": 0,
    }


def _vector_tree(tree: Tree, number: int, ensemble: TreeEnsemble, start: Floats) -> Document:
    leaf = tree.feature == LEAF
    vectors = np.tile(start, (leaf.size, 1))
    vectors[:, tree.classes] += node_means(tree, covers_of(tree))
    vectors = vectors.astype(np.float32)
    members = _common_members(tree, ensemble.n_features)
    members["tree_param"]["size_leaf_vector"] = str(ensemble.n_classes)
    members |= vector_members(leaf, _conditions(tree), tree.right, vectors)
    return members | {"parents": _parents(tree, -1), "id": number}


def _common_members(tree: Tree, n_features: int) -> Document:
    """Write what scalar and vector trees have in common; the weight of the samples stands for the sum of hessians."""
    leaf = tree.feature == LEAF
    has_set = tree.left_set != THRESHOLD
    with_set = np.flatnonzero(has_set)
    go_right = categories_of(~tree.sets)
    categories = [go_right[row] for row in tree.left_set[with_set]]
    sizes = np.array([of_node.size for of_node in categories], dtype=np.int64)
    return {
        "categories": np.concatenate([*categories, []]).astype(np.int32),
        "categories_nodes": with_set.astype(np.int32),
        "categories_segments": np.cumsum(sizes) - sizes,
        "categories_sizes": sizes,
        "default_left": tree.missing_left.astype(np.uint8),
        "left_children": np.where(leaf, -1, tree.left).astype(np.int32),
        "loss_changes": tree.gain.astype(np.float32),
        "split_indices": np.where(leaf, 0, tree.feature).astype(np.int32),
        "split_type": has_set.astype(np.uint8),
        "sum_hessian": covers_of(tree).astype(np.float32),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(leaf.size),
            "size_leaf_vector": "1",
        },
    }


def _conditions(tree: Tree) -> AnyArray:
    return _smallest_float32_above(tree.threshold).astype(np.float32)


def _smallest_float32_above(thresholds: Floats) -> AnyArray:
    with np.errstate(over="ignore"):  # a threshold beyond float32 becomes infinity: every number is below it
        nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, nearest, np.nextafter(nearest, np.float32(np.inf)))


def _parents(tree: Tree, no_parent: int) -> AnyArray:
    parents = np.full(tree.feature.size, no_parent, dtype=np.int32)
    inner = np.flatnonzero(tree.feature != LEAF)
    parents[tree.left[inner]] = parents[tree.right[inner]] = inner
    return parents
