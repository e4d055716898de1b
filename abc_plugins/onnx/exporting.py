"""Native models as ONNX models: the operator TreeEnsembleClassifier, whose leaves add to the scores of many classes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from abc_plugins import __version__
from abc_plugins.core.model.ensemble import Tree, TreeEnsemble, single_leaf
from abc_plugins.core.model.export_terms import class_vectors, ensemble_of, first_rounds, labels_of, names_of
from abc_plugins.core.runtime.atomic import check_target, replace_file
from abc_plugins.core.runtime.checks import check_choice, check_path, fail
from abc_plugins.onnx.attributes import Attributes

OPSET, ML_OPSET, IR_VERSION = 15, 3, 8
"""Versions of the operator sets ai.onnx and ai.onnx.ml and of the file format: those of 2021 and 2022."""

_TYPES = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE}
_INPUTS = ("matrix", "columns")
_MAX_BYTES = 2**31 - 1
"""A protobuf message is not larger."""


def export(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    inputs: str = "matrix",
    input_type: str = "float",
    precision: str = "double",
    n_rounds: int | None = None,
) -> onnx.ModelProto:
    """Turn a native model into an ONNX model.

    It has the outputs `label`, as in `classes_`, and `probabilities`, float32 of shape (n, n_classes). NaN is a missing
    value.

    Parameters
    ----------
    model : ABCBoostClassifier or TreeEnsemble
        A fitted model.
    path : path, optional
        Also write the model to this file.
    inputs : {"matrix", "columns"}, default="matrix"
        "matrix": one input `X` of shape (n, n_features), categories given by number, their place in `categories_`.
        "columns": one input of shape (n, 1) for every feature, called as in `feature_names_in_`, else `x0`, `x1`, ...;
        categories are given as they are: text as strings (an empty one is missing), numbers as numbers.
    input_type : {"float", "double"}, default="float"
        Type of the features. With "float", rows are predicted as the native model predicts them once they are rounded
        to float32.
    precision : {"double", "float"}, default="double"
        Type of thresholds, leaf values and scores. With "float" the model is smaller and often faster, every value
        that is a float32 goes the same way, but thousands of trees add up to errors of some 1e-5. Not with features of
        type "double".
    n_rounds : int, optional
        Rounds to export; by default those that the model predicts with.

    Returns
    -------
    onnx_model : onnx.ModelProto
        With ai.onnx 15 and ai.onnx.ml 3. Its metadata have the names of features and the levels of categories as JSON.
    """
    check_choice("inputs", inputs, _INPUTS)
    check_choice("input_type", input_type, _TYPES)
    check_choice("precision", precision, _TYPES)
    if (input_type, precision) == ("double", "float"):
        fail("precision", precision, "'double' with input_type='double'")
    path = check_path("path", path)
    if path is not None:
        check_target(path)
    ensemble = ensemble_of(model)
    trees = [tree for trees in first_rounds(model, n_rounds) for tree in trees]
    levels = _levels_of(model, ensemble)
    names = names_of(model)
    graph = _Graph(_TYPES[input_type])
    features = (
        graph.add_columns(names or [f"x{f}" for f in range(ensemble.n_features)], levels)
        if inputs == "columns"
        else graph.add_input("X", ensemble.n_features)
    )
    attributes = Attributes(np.dtype(np.float32 if precision == "float" else np.float64))
    start = replace(single_leaf(range(ensemble.n_classes), 0.0), values=ensemble.start_scores[None, :])
    for tree in [start, *trees]:
        attributes.add(_centred(tree) if ensemble.n_classes == 2 else tree)
    if precision != input_type:
        features = graph.cast(features, _TYPES[precision])
    graph.add_classifier(features, attributes.finish(), labels_of(model) or list(range(ensemble.n_classes)))
    exported = graph.model(ensemble.n_classes)
    _describe(exported, names, levels)
    if exported.ByteSize() > _MAX_BYTES:
        fail("model", f"one of {exported.ByteSize()} bytes", f"small enough for ONNX, {_MAX_BYTES} bytes at the most")
    onnx.checker.check_model(exported)
    if path is not None:
        with replace_file(path) as file:
            file.write(exported.SerializeToString())
    return exported


def _centred(tree: Tree) -> Tree:
    """The same tree of two classes with opposite values.

    onnxruntime takes the second of two classes for the label if its score is positive; and it takes two classes for a
    single score if there are `base_values`, which is why start scores are a tree.
    """
    vectors = class_vectors(tree, 2)
    return replace(tree, classes=np.arange(2, dtype=np.int32), values=vectors - vectors.mean(axis=1, keepdims=True))


def _levels_of(model: Any, ensemble: TreeEnsemble) -> list[tuple[list[Any], bool] | None]:
    """For every categorical feature its levels, and whether there is a number of all others."""
    categories = getattr(model, "_categories", None)
    if categories is None:
        return [None] * ensemble.n_features
    return [
        None if levels is None else (levels.tolist(), bool(other))
        for levels, other in zip(categories.levels, categories.has_other, strict=True)
    ]


def _describe(exported: onnx.ModelProto, names: list[str] | None, levels: list[Any]) -> None:
    """Store names and levels as metadata, for those who have to make the inputs."""
    properties = {"abc_plugins": __version__}
    if names is not None:
        properties["feature_names"] = json.dumps(names)
    if any(levels):
        properties["categories"] = json.dumps([None if one is None else one[0] for one in levels])
    helper.set_model_props(exported, properties)


class _Graph:
    """A graph in the making.

    Parameters
    ----------
    dtype : int
        ONNX type of the features.
    """

    def __init__(self, dtype: int) -> None:
        self.dtype = dtype
        self.inputs: list[onnx.ValueInfoProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.label_dtype = TensorProto.INT64

    def add_input(self, name: str, width: int, dtype: int | None = None) -> str:
        shape = ["n", width]
        self.inputs.append(helper.make_tensor_value_info(name, self.dtype if dtype is None else dtype, shape))
        return name

    def add_columns(self, names: Sequence[str], levels: Sequence[tuple[list[Any], bool] | None]) -> str:
        """Add an input for every feature, and put them side by side; levels become their numbers."""
        if len(set(names) | {"label", "probabilities"}) != len(names) + 2:
            fail("inputs", "columns", "'matrix' for a model with features called 'label' or 'probabilities'")
        columns = [
            self.add_input(name, 1) if known is None else self._add_category(name, *known)
            for name, known in zip(names, levels, strict=True)
        ]
        self._add("Concat", columns, ["X:matrix"], axis=1)
        return "X:matrix"

    def _add_category(self, name: str, levels: list[Any], has_other: bool) -> str:
        is_text = [isinstance(level, str) for level in levels]
        if any(is_text) and not all(is_text):
            fail("inputs", "columns", f"'matrix', as the categories of feature {name!r} are strings and numbers")
        numbers: list[float] = [float(k) for k in range(len(levels))]
        other = float(len(levels)) if has_other else float("nan")
        if any(is_text):
            keys: list[Any] = list(levels) if "" in levels else [*levels, ""]
            numbers += [float("nan")] * (len(keys) - len(levels))
            options, dtype = {"keys_strings": keys}, TensorProto.STRING
        else:
            keys = [float(level) for level in levels]
            if keys != levels or np.array(keys, dtype=np.float32).tolist() != keys:
                fail("inputs", "columns", f"'matrix', as float32 cannot hold the categories of feature {name!r}")
            options, dtype = {"keys_floats": [*keys, float("nan")]}, TensorProto.FLOAT
            numbers.append(float("nan"))
        source = self.add_input(name, 1, dtype)
        self._add("LabelEncoder", [source], [f"{name}:number"], ml=True, values_floats=numbers, default_float=other,
                  **options)  # fmt: skip
        return self.cast(f"{name}:number", self.dtype) if self.dtype != TensorProto.FLOAT else f"{name}:number"

    def cast(self, source: str, dtype: int) -> str:
        """Change the type of numbers."""
        self._add("Cast", [source], [f"{source}:cast"], to=dtype)
        return f"{source}:cast"

    def add_classifier(self, features: str, attributes: list[onnx.AttributeProto], labels: list[Any]) -> None:
        """Add the trees; `labels` become integers or strings, and are cast to what they were if they can."""
        given, self.label_dtype = _label_attribute(labels)
        label = "label" if self.label_dtype in (TensorProto.INT64, TensorProto.STRING) else "label:integer"
        outputs = [label, "probabilities"]
        self._add("TreeEnsembleClassifier", [features], outputs, ml=True, post_transform="SOFTMAX", **given)
        self.nodes[-1].attribute.extend(attributes)
        if label != "label":
            self._add("Cast", [label], ["label"], to=self.label_dtype)

    def _add(self, kind: str, inputs: list[str], outputs: list[str], *, ml: bool = False, **options: Any) -> None:
        domain = "ai.onnx.ml" if ml else ""
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=outputs[-1], domain=domain, **options))

    def model(self, n_classes: int) -> onnx.ModelProto:
        outputs = [
            helper.make_tensor_value_info("label", self.label_dtype, ["n"]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", n_classes]),
        ]
        graph = helper.make_graph(self.nodes, "abc_plugins", self.inputs, outputs)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        return helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=IR_VERSION,
            producer_name="abc-plugins",
            producer_version=__version__,
        )


def _label_attribute(labels: list[Any]) -> tuple[dict[str, Any], int]:
    """The attribute with the labels, and the type that the output gets."""
    kinds = {type(label) for label in labels}
    if kinds == {str}:
        return {"classlabels_strings": labels}, TensorProto.STRING
    whole = {bool: TensorProto.BOOL, int: TensorProto.INT64, float: TensorProto.DOUBLE}
    if len(kinds) == 1 and kinds <= set(whole):
        integers = [int(label) for label in labels]
        if all(-(2**63) <= number < 2**63 and number == label for number, label in zip(integers, labels, strict=True)):
            return {"classlabels_int64s": integers}, whole[kinds.pop()]
    shown = ", ".join(map(repr, labels[:3])) + (", ..." if len(labels) > 3 else "")
    return fail("classes_ of the model", shown, "all strings, booleans or whole numbers of up to 64 bits, for ONNX")
