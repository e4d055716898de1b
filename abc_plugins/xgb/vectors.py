"""Models whose trees have vectors in their leaves, made of models that have a copy of each tree for every class."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import xgboost
from xgboost import Booster, DMatrix

from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.runtime.checks import fail
from abc_plugins.xgb.format.trees import Document
from abc_plugins.xgb.format.ubjson import decode
from abc_plugins.xgb.stock import with_model

_VECTOR_LEAVES_SINCE = (3, 2)
_STRUCTURE = ("left_children", "right_children", "split_indices", "default_left")


def has_vector_leaves() -> bool:
    """Whether the installed XGBoost keeps vectors as it is expected here."""
    return tuple(int(part) for part in xgboost.__version__.split(".")[:2]) >= _VECTOR_LEAVES_SINCE


def empty_booster(n_classes: int, n_features: int, names: list[str] | None, *, vector_leaves: bool) -> Booster:
    """Make a booster without trees that has classes and features, and leaves of this kind."""
    params: dict[str, Any] = {"objective": "multi:softprob", "num_class": n_classes, "base_score": 0.0}
    if vector_leaves:
        if not has_vector_leaves():
            fail("vector_leaves", True, f"False with XGBoost {xgboost.__version__}: it keeps vector leaves differently")
        params["multi_strategy"] = "multi_output_tree"
    features = DMatrix(np.zeros((1, n_features)), feature_names=names)
    booster = Booster(params, [features])
    booster.save_config()  # counts the features, while there are any
    return booster


def with_vector_leaves(booster: Booster) -> Booster:
    """Return the same model with every tree once, and a vector of K values in each leaf.

    A tree along a direction is kept once for every class, since all of XGBoost works with such trees. With vectors the
    file is smaller and predictions take a fraction of the time. Needs XGBoost 3.2, which predicts with vectors, but
    does not explain them (`pred_contribs`), and goes on with neither kind where it was given the other.

    Parameters
    ----------
    booster : xgboost.Booster
        A model of `train`, or any other with objective multi:softprob. Trees of a round that split alike are joined.

    Returns
    -------
    booster : xgboost.Booster
        Rounds stay rounds; attributes and features are kept.

    Examples
    --------
    >>> import numpy as np, xgboost, abc_plugins.xgb
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> data = xgboost.DMatrix(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0))
    >>> booster = abc_plugins.xgb.train({"num_class": 3}, data, 2)
    >>> joined = abc_plugins.xgb.with_vector_leaves(booster)
    >>> len(booster.get_dump()), len(joined.get_dump())
    (6, 2)
    >>> bool(np.allclose(booster.predict(data), joined.predict(data)))
    True
    """
    if not isinstance(booster, Booster):
        fail("booster", type(booster).__name__, "an xgboost.Booster (of an estimator: get_booster())", TypeError)
    document = decode(booster.save_raw("ubj"))
    learner = document["learner"]
    n_classes, kind = int(learner["learner_model_param"]["num_class"]), learner["gradient_booster"]["name"]
    model = learner["gradient_booster"]["model"] if kind == "gbtree" else {"trees": []}
    is_scalar = all(tree["tree_param"]["size_leaf_vector"] in ("0", "1") for tree in model["trees"])
    if kind != "gbtree" or n_classes < 3 or not is_scalar:
        given = f"a {kind} model of {n_classes} classes, {'scalar' if is_scalar else 'vector'} leaves"
        fail("booster", given, "a gbtree model of three classes or more with scalar leaves")
    trees, indptr = [], [0]
    for first, last in pairwise(model["iteration_indptr"]):
        trees += _joined(zip(model["trees"][first:last], model["tree_info"][first:last], strict=True), n_classes)
        indptr.append(len(trees))
    model = model | {
        "trees": [tree | {"id": number} for number, tree in enumerate(trees)],
        "tree_info": [0] * len(trees),
        "iteration_indptr": indptr,
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
    }
    start = empty_booster(n_classes, booster.num_features(), booster.feature_names, vector_leaves=True)
    grown = learner["gradient_booster"] | {"model": model}
    joined = with_model(start, document | {"learner": learner | {"gradient_booster": grown}})
    joined.feature_types = booster.feature_types
    return joined


def _joined(scalar_trees: Iterable[tuple[Document, int]], n_classes: int) -> list[Document]:
    """The trees of a round, each structure once: its leaves have the values of all classes that share it."""
    alike: dict[tuple[bytes, ...], tuple[Document, AnyArray]] = {}
    for tree, k in scalar_trees:
        if tree["split_type"].any():
            fail("booster", "a model that splits on categories", "one without: XGBoost does not save them with vectors")
        leaf = tree["left_children"] == -1
        conditions = np.where(leaf, np.float32(0.0), tree["split_conditions"])
        structure = (*(tree[name].tobytes() for name in _STRUCTURE), conditions.tobytes())
        _, values = alike.setdefault(structure, (tree, np.zeros((leaf.size, n_classes), dtype=np.float32)))
        values[:, k] += np.where(leaf, tree["split_conditions"], tree["base_weights"])
    return [_vector_tree(tree, values) for tree, values in alike.values()]


def _vector_tree(tree: Document, values: AnyArray) -> Document:
    parents = tree["parents"].copy()
    parents[0] = -1
    param = tree["tree_param"] | {"size_leaf_vector": str(values.shape[1])}
    members = vector_members(tree["left_children"] == -1, tree["split_conditions"], tree["right_children"], values)
    return tree | members | {"parents": parents, "tree_param": param}


def vector_members(leaf: AnyArray, conditions: AnyArray, right: AnyArray, values: AnyArray) -> Document:
    """Members of a tree whose leaves are vectors: a leaf's number is its right child, its vector in `leaf_weights`.

    Parameters
    ----------
    leaf : array of bool, shape (n_nodes,)
    conditions, right : arrays of shape (n_nodes,)
        Those of leaves do not count.
    values : array of float32, shape (n_nodes, n_classes)
    """
    return {
        "base_weights": values.ravel(),
        "leaf_weights": values[leaf].ravel(),
        "split_conditions": np.where(leaf, np.float32(0.0), conditions).astype(np.float32),
        "right_children": np.where(leaf, np.cumsum(leaf) - 1, right).astype(np.int32),
    }
