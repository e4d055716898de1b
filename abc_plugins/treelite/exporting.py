"""Native models as treelite models, served by treelite's GTIL or compiled by TL2cgen."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import treelite
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

from abc_plugins.core.model.ensemble import LEAF, THRESHOLD, Tree, TreeEnsemble, single_leaf
from abc_plugins.core.model.export_terms import (
    categories_of,
    class_vectors,
    ensemble_of,
    first_rounds,
    labels_of,
    moves_all_classes,
    names_of,
)
from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.core.runtime.atomic import check_target, replace_file
from abc_plugins.core.runtime.checks import check_path

ALL_CLASSES = -1
"""In place of a class: the leaves of the tree are vectors."""


def export(model: Any, path: str | os.PathLike[str] | None = None, *, n_rounds: int | None = None) -> treelite.Model:
    """Turn a native model into a treelite model.

    Thresholds and leaf values are float64, as they are natively. If trees move all classes, as directional ones do,
    leaves are vectors; else a tree is written once for every class that it changes. Categories are given by number.

    Parameters
    ----------
    model : ABCBoostClassifier or TreeEnsemble
        A fitted model. Columns of the predictions follow `classes_`.
    path : path, optional
        Also write the model to this file; `treelite.Model.deserialize` reads it.
    n_rounds : int, optional
        Rounds to export; by default those that the model predicts with.

    Returns
    -------
    treelite_model : treelite.Model
        `treelite.gtil.predict` gives probabilities of shape (n, 1, n_classes). With the names of features and the
        labels as attributes.
    """
    path = check_path("path", path)
    if path is not None:
        check_target(path)
    ensemble = ensemble_of(model)
    trees = [tree for trees in first_rounds(model, n_rounds) for tree in trees]
    trees = trees or [single_leaf(range(ensemble.n_classes), 0.0)]
    with_vectors = moves_all_classes(trees, ensemble.n_classes)
    classes = [[ALL_CLASSES] if with_vectors else tree.classes.tolist() for tree in trees]
    builder = _builder(ensemble, [k for of_tree in classes for k in of_tree], with_vectors, _attributes(model))
    for tree, of_tree in zip(trees, classes, strict=True):
        for entry in range(len(of_tree)):
            values = class_vectors(tree, ensemble.n_classes) if with_vectors else tree.values[:, entry]
            _add_tree(builder, tree, values)
    exported = builder.commit()
    if path is not None:
        with replace_file(path) as file:
            file.write(exported.serialize_bytes())
    return exported


def _attributes(model: Any) -> dict[str, Any]:
    found = {"classes": labels_of(model), "feature_names": names_of(model)}
    return {name: value for name, value in found.items() if value is not None and _is_plain(value)}


def _is_plain(values: list[Any]) -> bool:
    return all(isinstance(value, str | bool | int | float) for value in values)


def _builder(
    ensemble: TreeEnsemble, classes: Sequence[int], with_vectors: bool, attributes: dict[str, Any]
) -> ModelBuilder:
    n_classes = ensemble.n_classes
    return ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=Metadata(
            num_feature=ensemble.n_features,
            task_type="kMultiClf",
            average_tree_output=False,
            num_target=1,
            num_class=[n_classes],
            leaf_vector_shape=(1, n_classes if with_vectors else 1),
        ),
        tree_annotation=TreeAnnotation(num_tree=len(classes), target_id=[0] * len(classes), class_id=list(classes)),
        postprocessor=PostProcessorFunc("softmax"),
        base_scores=ensemble.start_scores.tolist(),
        attributes=attributes,
    )


def _add_tree(builder: ModelBuilder, tree: Tree, values: Floats) -> None:
    """Add a tree whose leaves have these values: a number, or a vector, for each row of the native values."""
    leaf_values: list[Any] = values.tolist()
    sets = categories_of(tree.sets)
    builder.start_tree()
    for node, feature in enumerate(tree.feature.tolist()):
        builder.start_node(node)
        if feature == LEAF:
            builder.leaf(leaf_values[tree.left[node]])
        else:
            missing_left, has_set = bool(tree.missing_left[node]), tree.left_set[node] != THRESHOLD
            children = {"left_child_key": int(tree.left[node]), "right_child_key": int(tree.right[node])}
            if has_set:
                # What is no category is not in the list: it goes where missing values go, as natively.
                goes_left = sets[tree.left_set[node]]
                listed = np.setdiff1d(np.arange(256), goes_left) if missing_left else goes_left
                builder.categorical_test(
                    feature,
                    default_left=missing_left,
                    category_list=listed.tolist(),
                    category_list_right_child=missing_left,
                    **children,
                )
            else:
                threshold = float(tree.threshold[node])
                builder.numerical_test(feature, threshold, default_left=missing_left, opname="<=", **children)
            builder.gain(float(tree.gain[node]))
        builder.sum_hess(float(tree.weight[node]))
        builder.end_node()
    builder.end_tree()
