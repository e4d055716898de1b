"""SHAP values of native models, by shap's own tree format and its TreeExplainer.

A tree along a direction has a vector in each leaf, and TreeExplainer walks down once for all classes. A tree of a class
and the base class is explained for its two classes alone: as vectors of K numbers, K - 1 trees per round would cost K
times as much.

TreeExplainer knows no sets of categories. Which way a row goes at a node with a set depends on its category alone, so
rows with the same categories are explained together, with thresholds that send all of them that way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

try:
    import shap
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("abc_plugins.explain needs shap: pip install 'abc-plugins[integrations]'") from error

from abc_plugins.core.model.ensemble import LEAF, SET_WORDS, THRESHOLD, Tree
from abc_plugins.core.model.export_terms import (
    class_vectors,
    covers_of,
    ensemble_of,
    first_rounds,
    labels_of,
    moves_all_classes,
    names_of,
)
from abc_plugins.core.runtime.arrays import AnyArray, Booleans, Floats, Integers
from abc_plugins.core.runtime.checks import check_flag, fail
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.sparse_table import SparseTable, Table

_TOLERANCE = 1e-6
"""Largest error of the sum of contributions, as a share of the largest score."""


def explain(model: Any, *, data: Any = None, n_rounds: int | None = None) -> Explainer:
    """Make an explainer of a native model, which gives SHAP values of its raw scores (log odds).

    Parameters
    ----------
    model : ABCBoostClassifier or TreeEnsemble
        A fitted model.
    data : table, optional
        Background rows, some hundred: contributions are then against these ("interventional"); by default against the
        training samples that the trees were grown on ("tree_path_dependent"), which is much faster. Not for models
        that split on categories.
    n_rounds : int, optional
        Rounds to explain; by default those that the model predicts with.

    Returns
    -------
    explainer : Explainer

    Examples
    --------
    >>> explanation = abc_plugins.explain(model)(X_test)  # doctest: +SKIP
    >>> shap.plots.beeswarm(explanation[:, :, 0])  # the first class  # doctest: +SKIP
    """
    return Explainer(model, data=data, n_rounds=n_rounds)


@dataclass(frozen=True)
class _SetNodes:
    """Nodes with a set of categories.

    Attributes
    ----------
    tree, node, feature : arrays of int
        Where they are among the dense arrays of TreeExplainer, and what they split.
    words : array of uint64, shape (n_nodes, SET_WORDS)
        Their sets.
    """

    tree: Integers
    node: Integers
    feature: Integers
    words: AnyArray

    def thresholds(self, categories: Floats) -> Floats:
        """Infinity where the categories of a row, one number per feature, go left, else minus infinity."""
        number = np.nan_to_num(categories[self.feature], nan=0.0).astype(np.int64)  # a missing one is not compared
        word = self.words[np.arange(number.size), number >> 6]
        goes_left = (word >> (number & 63).astype(np.uint64)) & np.uint64(1) != 0
        return np.where(goes_left, np.inf, -np.inf)


@dataclass(frozen=True)
class _Part:
    """A TreeExplainer of some classes."""

    classes: slice
    trees: Any
    sets: _SetNodes


class Explainer:
    """SHAP values of a native model; see `explain`.

    Attributes
    ----------
    expected_value : array of shape (n_classes,)
        What contributions add to: the mean score over the training samples, or over the background rows.
    output_names : list of str
        The labels.
    """

    def __init__(self, model: Any, *, data: Any = None, n_rounds: int | None = None) -> None:
        self._model = model
        self._ensemble = ensemble_of(model)
        self._set_features: AnyArray = np.empty(0, dtype=np.intp)
        rounds = first_rounds(model, n_rounds)
        self._n_rounds = len(rounds)
        trees = [tree for trees in rounds for tree in trees]
        if data is not None and any(tree.sets.size for tree in trees):
            fail("data", "background rows", "None for a model that splits on categories")
        background = None if data is None else self._read(data)
        n_classes = self._ensemble.n_classes
        self._parts = list(_parts(trees, n_classes, self._ensemble.start_scores, background))
        self._set_features = np.unique([f for part in self._parts for f in part.sets.feature]).astype(np.intp)
        self.expected_value = self._ensemble.start_scores.copy()
        for part in self._parts:
            self.expected_value[part.classes] = part.trees.expected_value
        self.output_names = [str(label) for label in labels_of(model) or range(n_classes)]

    def __call__(self, X: Any, *, check_additivity: bool = True) -> shap.Explanation:
        """Explain rows: an Explanation of shape (n_samples, n_features, n_classes) for the plots of shap."""
        values = self._read(X)
        contributions = self._shap_values(values, check_flag("check_additivity", check_additivity))
        return shap.Explanation(
            contributions,
            base_values=np.tile(self.expected_value, (len(values), 1)),
            data=values,
            feature_names=names_of(self._model) or [f"x{f}" for f in range(values.shape[1])],
            output_names=self.output_names,
        )

    def shap_values(self, X: Any, *, check_additivity: bool = True) -> Floats:
        """SHAP values of shape (n_samples, n_features, n_classes).

        Parameters
        ----------
        X : table, array or sparse matrix
            As for `predict_proba` of the model; a sparse one is made dense.
        check_additivity : bool, default=True
            Check that contributions and `expected_value` sum up to the scores of the model.
        """
        return self._shap_values(self._read(X), check_flag("check_additivity", check_additivity))

    def shap_interaction_values(self, X: Any) -> Floats:
        """SHAP interaction values of shape (n_samples, n_features, n_features, n_classes)."""
        values = self._read(X)
        found = np.zeros((len(values), values.shape[1], values.shape[1], self._ensemble.n_classes))
        for part, rows in self._work(values):
            of_part = part.trees.shap_interaction_values(values[rows])
            found[rows, :, :, part.classes] = np.asarray(of_part).reshape(len(rows), *found.shape[1:3], -1)
        return found

    def _shap_values(self, values: Floats, check_additivity: bool) -> Floats:
        found = np.zeros((len(values), values.shape[1], self._ensemble.n_classes))
        for part, rows in self._work(values):
            of_part = part.trees.shap_values(values[rows], check_additivity=False)
            found[rows, :, part.classes] = np.asarray(of_part).reshape(len(rows), found.shape[1], -1)
        if check_additivity:
            self._check_sums(found, values)
        return found

    def _check_sums(self, contributions: Floats, values: Floats) -> None:
        with Workers(1) as workers:
            scores = self._ensemble.raw_scores(values, workers, self._n_rounds)
        error = np.abs(contributions.sum(axis=1) + self.expected_value - scores).max(initial=0.0)
        if not error <= _TOLERANCE * max(1.0, np.abs(scores).max(initial=0.0)):
            raise ValueError(f"contributions do not sum up to the scores of the model: they are off by {error:.2g}.")

    def _work(self, values: Floats) -> Iterator[tuple[_Part, AnyArray]]:
        """Parts and the rows to explain together, with the thresholds of the part set for their categories."""
        group = np.zeros(len(values), dtype=np.intp)
        if self._set_features.size:
            categories = np.nan_to_num(values[:, self._set_features], nan=-1.0)
            group = np.unique(categories, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.argsort(group, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
        for part in self._parts:
            for rows in groups:
                thresholds = part.trees.model.thresholds
                thresholds[part.sets.tree, part.sets.node] = part.sets.thresholds(values[rows[0]])
                yield part, rows

    def _read(self, X: Any) -> Floats:
        """Rows as numbers; what is no category is missing."""
        read = getattr(self._model, "_read", lambda rows: rows.toarray() if issparse(rows) else np.asarray(rows))
        values = np.array(_dense(read(X)), dtype=np.float64, order="C")
        if values.ndim != 2 or values.shape[1] != self._ensemble.n_features:
            fail("X", f"shape {values.shape}", f"an array of shape (n_samples, {self._ensemble.n_features})")
        categories = values[:, self._set_features]
        values[:, self._set_features] = np.where((categories >= 0) & (categories < 64 * SET_WORDS), categories, np.nan)
        return values


def _dense(table: Table) -> AnyArray:
    """A table as TreeExplainer takes it."""
    if isinstance(table, SparseTable):
        return np.column_stack([table.column(f) for f in range(table.shape[1])])
    return table


def _parts(trees: list[Tree], n_classes: int, start: Floats, background: Floats | None) -> Iterator[_Part]:
    """TreeExplainers: one for all classes if trees move all of them, else one for each."""
    if moves_all_classes(trees, n_classes):
        values = [class_vectors(tree, n_classes) for tree in trees]
        yield _part(slice(n_classes), trees, values, start, background)
        return
    for k in range(n_classes):
        of_class = [tree for tree in trees if k in tree.classes]
        if of_class:
            values = [tree.values[:, tree.classes == k] for tree in of_class]
            yield _part(slice(k, k + 1), of_class, values, start[[k]], background)


def _part(classes: slice, trees: list[Tree], values: list[Floats], start: Floats, background: Floats | None) -> _Part:
    model = {
        "trees": [_shap_tree(tree, of_leaves) for tree, of_leaves in zip(trees, values, strict=True)],
        "internal_dtype": np.float64,
        "input_dtype": np.float64,
        "tree_output": "raw_value",
        "base_offset": start,
    }
    perturbation = "tree_path_dependent" if background is None else "interventional"
    explainer = shap.TreeExplainer(model, data=background, feature_perturbation=perturbation)
    has_set: list[Booleans] = [tree.left_set != THRESHOLD for tree in trees]
    nodes = [np.flatnonzero(of_tree) for of_tree in has_set]
    words = [tree.sets[tree.left_set[at]] for tree, at in zip(trees, nodes, strict=True)]
    sets = _SetNodes(
        tree=np.repeat(np.arange(len(trees)), [at.size for at in nodes]),
        node=np.concatenate(nodes),
        feature=np.concatenate([tree.feature[at] for tree, at in zip(trees, nodes, strict=True)]),
        words=np.concatenate(words).reshape(-1, SET_WORDS),
    )
    return _Part(classes, explainer, sets)


def _shap_tree(tree: Tree, values: Floats) -> dict[str, AnyArray]:
    """A tree in shap's terms; `values` has a row for each leaf."""
    leaf = tree.feature == LEAF
    of_nodes = np.zeros((leaf.size, values.shape[1]))
    of_nodes[leaf] = values[tree.left[leaf]]
    left, right = np.where(leaf, -1, tree.left), np.where(leaf, -1, tree.right)
    return {
        "children_left": left,
        "children_right": right,
        "children_default": np.where(tree.missing_left, left, right),
        "features": np.where(leaf, -1, tree.feature),
        "thresholds": np.array(tree.threshold, dtype=np.float64),
        "values": of_nodes,
        "node_sample_weight": np.array(covers_of(tree), dtype=np.float64),  # shap writes to it
    }
