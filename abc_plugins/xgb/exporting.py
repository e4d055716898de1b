"""Native models as stock XGBoost models.

A native tree sends x to the left if x <= threshold, in float64; XGBoost if x < condition, in float32. The
condition written here is the smallest float32 above the threshold, so that every value that is a float32 goes the
same way. XGBoost rounds other values to float32 first: one that lies within half a unit in the last place of float32
of a threshold may go the other way.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from xgboost import Booster, DMatrix

from abc_plugins.core.model.ensemble import LEAF, Tree, TreeEnsemble
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import check_integer, fail
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.xgb.stock import StockRound, extend_model, with_model
from abc_plugins.xgb.trees import Document, read_trees
from abc_plugins.xgb.ubjson import encode
from abc_plugins.xgb.xgboost_grower import read_model

_NO_PARENT = 2147483647
_VECTOR_LEAVES_SINCE = (3, 2)


def export(
    model: Any, path: str | Path | None = None, *, vector_leaves: bool = False, n_rounds: int | None = None
) -> Booster:
    """Turn a native model into a stock XGBoost model.

    The model predicts the same probabilities in every XGBoost runtime, without abc_plugins. Rounds stay rounds.

    Parameters
    ----------
    model : ABCBoostClassifier or TreeEnsemble
        A fitted model. Columns of the Booster's output follow `classes_`, which the Booster's attribute `classes`
        holds as JSON.
    path : str or Path, optional
        Also save the model: UBJSON for a name that ends in .ubj, JSON for .json.
    vector_leaves : bool, default=False
        False: every tree is written twice, for its own class and negated for the base class, and everything that
        XGBoost does with trees works. True: half the trees, each with a vector of K values per leaf; predictions walk
        half the trees, but XGBoost 3.2 explains no such trees. Needs XGBoost 3.2.
    n_rounds : int, optional
        Rounds to export; by default those that the model predicts with.

    Returns
    -------
    booster : xgboost.Booster
        With objective multi:softprob.
    """
    ensemble = model if isinstance(model, TreeEnsemble) else getattr(model, "model_", None)
    if not isinstance(ensemble, TreeEnsemble):
        fail("model", model, "a fitted ABCBoostClassifier or a TreeEnsemble", TypeError)
    if n_rounds is None:
        n_rounds = int(getattr(model, "best_iteration_", ensemble.n_rounds))
    n_rounds = check_integer("n_rounds", n_rounds, minimum=1, maximum=ensemble.n_rounds)
    start = _empty_booster(ensemble, getattr(model, "feature_names_in_", None), vector_leaves=vector_leaves)
    rounds = [trees or (_nothing(ensemble.n_classes),) for trees in list(ensemble.rounds())[:n_rounds]]
    attributes = {"base_classes": json.dumps([trees[0].minus for trees in rounds])}
    if hasattr(model, "classes_"):
        attributes["classes"] = json.dumps(model.classes_.tolist())
    lay_out = _vector_document if vector_leaves else _scalar_document
    booster = with_model(start, lay_out(read_model(start), rounds, ensemble, attributes))
    if path is not None:
        booster.save_model(path)
    return booster


def _empty_booster(ensemble: TreeEnsemble, names: AnyArray | None, *, vector_leaves: bool) -> Booster:
    """Make a booster without trees that has the classes and features of the model."""
    params: dict[str, Any] = {"objective": "multi:softprob", "num_class": ensemble.n_classes, "base_score": 0.0}
    if vector_leaves:
        version = tuple(int(part) for part in xgboost.__version__.split(".")[:2])
        if version < _VECTOR_LEAVES_SINCE:
            fail("vector_leaves", True, f"False with XGBoost {xgboost.__version__}: it keeps vector leaves differently")
        params["multi_strategy"] = "multi_output_tree"
    feature_names = None if names is None else [str(name) for name in names]
    features = DMatrix(np.zeros((1, ensemble.n_features)), feature_names=feature_names)
    booster = Booster(params, [features])
    booster.save_config()  # counts the features, while there are any
    return booster


def _nothing(n_classes: int) -> Tree:
    """Make the tree of a round that adds nothing: XGBoost has at least one tree in a round."""
    zero, root = np.zeros(1), np.zeros(1, dtype=np.int32)
    return Tree(n_classes - 1, CLASSIC, root + LEAF, zero, zero > 0, root, root, zero, zero, zero)


def _scalar_document(
    document: Document, rounds: list[tuple[Tree, ...]], ensemble: TreeEnsemble, attributes: dict[str, str]
) -> Document:
    stock_rounds = []
    for trees in rounds:
        written, _ = read_trees(bytes(encode([_scalar_tree(tree, ensemble.n_features) for tree in trees])), 0)
        pairs = [(tree.plus, tree.minus) for tree in trees]
        stock_rounds.append(StockRound(list(zip(pairs, written, strict=True))))
    return extend_model(document, stock_rounds, attributes)


def _vector_document(
    document: Document, rounds: list[tuple[Tree, ...]], ensemble: TreeEnsemble, attributes: dict[str, str]
) -> Document:
    trees = [tree for round_trees in rounds for tree in round_trees]
    learner = document["learner"]
    model = learner["gradient_booster"]["model"] | {
        "trees": [_vector_tree(tree, number, ensemble) for number, tree in enumerate(trees)],
        "tree_info": [0] * len(trees),
        "iteration_indptr": np.cumsum([0] + [len(round_trees) for round_trees in rounds]).tolist(),
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
    }
    booster = learner["gradient_booster"] | {"model": model}
    return document | {"learner": learner | {"gradient_booster": booster, "attributes": attributes}}


def _scalar_tree(tree: Tree, n_features: int) -> Document:
    leaf = tree.feature == LEAF
    values = _node_values(tree)
    conditions = np.where(leaf, tree.value.astype(np.float32), _smallest_float32_above(tree.threshold))
    return _common_members(tree, n_features) | {
        "base_weights": values.astype(np.float32),
        "split_conditions": conditions.astype(np.float32),
        "right_children": np.where(leaf, -1, tree.right).astype(np.int32),
        "parents": _parents(tree, _NO_PARENT),
        "id": 0,
    }


def _vector_tree(tree: Tree, number: int, ensemble: TreeEnsemble) -> Document:
    """Write a tree whose leaves are vectors: a leaf's number is its right child, its vector is in `leaf_weights`."""
    leaf = tree.feature == LEAF
    direction = np.zeros(ensemble.n_classes)
    direction[tree.plus] = 1.0
    if tree.minus != CLASSIC:
        direction[tree.minus] = -1.0
    vectors = np.outer(_node_values(tree), direction).astype(np.float32)
    members = _common_members(tree, ensemble.n_features)
    members["tree_param"]["size_leaf_vector"] = str(ensemble.n_classes)
    return members | {
        "base_weights": vectors.ravel(),
        "leaf_weights": vectors[leaf].ravel(),
        "split_conditions": np.where(leaf, 0.0, _smallest_float32_above(tree.threshold)).astype(np.float32),
        "right_children": np.where(leaf, np.cumsum(leaf) - 1, tree.right).astype(np.int32),
        "parents": _parents(tree, -1),
        "id": number,
    }


def _common_members(tree: Tree, n_features: int) -> Document:
    """Write what scalar and vector trees have in common; the weight of the samples stands for the sum of hessians."""
    leaf = tree.feature == LEAF
    n_nodes = tree.feature.size
    return {
        "categories": np.empty(0, dtype=np.int32),
        "categories_nodes": np.empty(0, dtype=np.int32),
        "categories_segments": np.empty(0, dtype=np.int64),
        "categories_sizes": np.empty(0, dtype=np.int64),
        "default_left": tree.missing_left.astype(np.uint8),
        "left_children": np.where(leaf, -1, tree.left).astype(np.int32),
        "loss_changes": tree.gain.astype(np.float32),
        "split_indices": np.where(leaf, 0, tree.feature).astype(np.int32),
        "split_type": np.zeros(n_nodes, dtype=np.uint8),
        "sum_hessian": tree.weight.astype(np.float32),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(n_nodes),
            "size_leaf_vector": "1",
        },
    }


def _smallest_float32_above(thresholds: Floats) -> AnyArray:
    with np.errstate(over="ignore"):  # a threshold beyond float32 becomes infinity: every number is below it
        nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, nearest, np.nextafter(nearest, np.float32(np.inf)))


def _parents(tree: Tree, no_parent: int) -> AnyArray:
    parents = np.full(tree.feature.size, no_parent, dtype=np.int32)
    for node in np.flatnonzero(tree.feature != LEAF):
        parents[[tree.left[node], tree.right[node]]] = node
    return parents


def _node_values(tree: Tree) -> Floats:
    """Leaf values, and for inner nodes the mean over their samples, which approximate explanations use."""
    values = tree.value.copy()
    for node in range(values.size - 1, -1, -1):  # a child has a larger number than its parent
        if tree.feature[node] != LEAF:
            children = [tree.left[node], tree.right[node]]
            total = tree.weight[children].sum()
            values[node] = values[children] @ tree.weight[children] / total if total > 0.0 else 0.0
    return values
