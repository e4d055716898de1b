"""LightGBM's text model: reading trees out of it, negating them, and writing a multiclass model.

In a LightGBM model tree i belongs to class i mod K, and one iteration is K trees. A tree of a pair of classes
(plus, minus) therefore becomes two: itself for `plus` and a negated copy for `minus`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.core.schedule import CLASSIC

_LEAF_DIGITS = 13
"""Decimals of leaf values: thousands of trees together are exact to 1e-10."""

_INNER_DIGITS = 6
"""Decimals of the outputs of inner nodes, which only explanations by paths read."""

TreeText = str
"""The lines `key=value` of one tree, without its number; trees are many, and most are passed on as they are."""

_OUTPUTS = ("leaf_value", "internal_value", "leaf_const", "leaf_coeff")
_LIST_KEYS = (
    *("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child"),
    *("leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count"),
)


class TaggedTree(NamedTuple):
    """A tree of the pair (plus, minus); minus is CLASSIC for a tree of one class, or one class's share of a tree.

    Of the shares of one tree all but the first are copies: importances count a tree once.
    """

    plus: int
    minus: int
    text: TreeText
    is_copy: bool = False


@dataclass(frozen=True)
class ModelFrame:
    """What a text model has around its trees.

    Attributes
    ----------
    feature_names, feature_infos : str
        As in the text, separated by spaces.
    n_features : int
    parameters : str
        The lines between `parameters:` and `end of parameters`.
    pandas_categorical : str
        JSON.
    """

    feature_names: str
    feature_infos: str
    n_features: int
    parameters: str = ""
    pandas_categorical: str = "null"


def read_model(text: str) -> tuple[ModelFrame, list[TreeText]]:
    """Take a text model apart."""
    body, _, tail = text.partition("\nend of trees")
    head, *blocks = body.split("\nTree=")
    header = dict(line.split("=", 1) for line in head.split("\n") if "=" in line)
    frame = ModelFrame(
        feature_names=header["feature_names"],
        feature_infos=header["feature_infos"],
        n_features=int(header["max_feature_idx"]) + 1,
        parameters=tail.partition("\nparameters:\n")[2].partition("\nend of parameters")[0].strip(),
        pandas_categorical=tail.rpartition("\npandas_categorical:")[2].strip() or "null",
    )
    return frame, [block.partition("\n")[2].rstrip() for block in blocks]


def tree_text(lines: Mapping[str, object]) -> TreeText:
    """Write a tree of its lines."""
    return "\n".join(f"{key}={value}" for key, value in lines.items())


def field(tree: TreeText, key: str) -> str:
    """Return the value of a line."""
    return ("\n" + tree).partition(f"\n{key}=")[2].partition("\n")[0]


def is_stump(tree: TreeText) -> bool:
    """Whether the tree is a single leaf."""
    return tree.startswith("num_leaves=1\n")


def leaf_values(tree: TreeText) -> Floats:
    """Leaf values, shrinkage included, shape (n_leaves,)."""
    return np.array(field(tree, "leaf_value").split(), dtype=np.float64)


def with_leaf_values(tree: TreeText, values: Floats) -> TreeText:
    """Return the tree with other leaf values; the outputs of inner nodes become averages of theirs."""
    return with_leaf_vectors(tree, values[:, None])[0]


def with_leaf_vectors(tree: TreeText, vectors: Floats) -> list[TreeText]:
    """Return a copy of the tree for each column of leaf values, shape (n_leaves, n_classes)."""
    if is_stump(tree):
        return [shifted(NO_TREE, value) for value in vectors[0].tolist()]
    before, _, rest = tree.partition("\nleaf_value=")
    between, _, after = rest.partition("\n")[2].partition("\ninternal_value=")
    after = after.partition("\n")[2]
    leaves = _decimals(vectors.T, _LEAF_DIGITS)
    inner = _decimals(_inner_means(tree, vectors).T, _INNER_DIGITS)
    return [
        f"{before}\nleaf_value={of_leaves}\n{between}\ninternal_value={of_inner}\n{after}"
        for of_leaves, of_inner in zip(leaves, inner, strict=True)
    ]


def _inner_means(tree: TreeText, values: Floats) -> Floats:
    """Averages of leaf values, shape (n_leaves, n_classes), below each inner node."""
    left, right, counts = (
        list(map(int, field(tree, key).split())) for key in ("left_child", "right_child", "leaf_count")
    )
    below = np.zeros((len(left), len(counts)))  # how many samples of each leaf
    for node in range(len(left) - 1, -1, -1):  # a child has a larger number than its parent
        for child in (left[node], right[node]):
            if child >= 0:
                below[node] += below[child]
            else:
                below[node, ~child] = counts[~child]
    return (below @ values) / np.maximum(below.sum(axis=1, keepdims=True), 1.0)


def _decimals(numbers: Floats, digits: int) -> list[str]:
    """Write each row of numbers with so many decimals, as whole numbers and an exponent: three times as fast."""
    end = f"e-{digits}"
    rows = np.rint(numbers * 10.0**digits).astype(np.int64).tolist()
    return [f"{end} ".join(map(str, row)) + end for row in rows]


def leaf_vectors_of(copies: Sequence[TreeText]) -> Floats | None:
    """Leaf values of shape (n_leaves, n_classes), if these trees, one per class, split alike; else None."""
    splits, columns = set(), []
    for tree in copies:
        before, _, rest = tree.partition("\nleaf_value=")
        values, _, after = rest.partition("\n")
        splits.add((before, after.partition("\ninternal_count=")[2]))  # sets of categories come behind the counts
        columns.append(values.split())
    if len(splits) > 1 or any("\nis_linear=1" in after for _, after in splits):
        return None
    return np.array(columns, dtype=np.float64).T.copy()


def negated(tree: TreeText) -> TreeText:
    """Return the tree with all its outputs negated, digit for digit."""
    return _change_outputs(tree, lambda number: number[1:] if number[0] == "-" else "-" + number)


def scaled(tree: TreeText, factor: float) -> TreeText:
    """Return the tree with all its outputs multiplied."""
    return _change_outputs(tree, lambda number: repr(factor * float(number)))


def shifted(tree: TreeText, amount: float) -> TreeText:
    """Return the tree with something added to all its outputs; those of a linear tree are not supported."""
    return _change_outputs(tree, lambda number: repr(amount + float(number)))


def _change_outputs(tree: TreeText, change: Callable[[str], str]) -> TreeText:
    def change_all(line: str) -> str:
        # empty items: in a linear tree, two spaces part the coefficients of two leaves
        return " ".join([change(number) if number else "" for number in line.split(" ")])

    for key in _OUTPUTS:
        tree = _change_line(tree, key, change_all)
    return tree


def _change_line(tree: TreeText, key: str, change: Callable[[str], str]) -> TreeText:
    before, mark, rest = tree.partition(f"\n{key}=")
    if not mark:
        return tree
    line, end, after = rest.partition("\n")
    return f"{before}{mark}{change(line)}{end}{after}"


def join_numbers(numbers: Floats) -> str:
    """Write floats so that they are read back bit for bit."""
    return " ".join(map(repr, np.asarray(numbers, dtype=np.float64).tolist()))


NO_TREE = tree_text(
    {
        "num_leaves": 1,
        "num_cat": 0,
        **dict.fromkeys(_LIST_KEYS, ""),
        "leaf_value": 0,
        "leaf_weight": 1,
        "leaf_count": 1,  # explanations divide by it
        "is_linear": 0,
        "shrinkage": 1,
    }
)
"""A tree with one leaf of value 0, for a slot that has to be filled."""


class Layout(NamedTuple):
    """Trees in the order of a LightGBM model.

    Attributes
    ----------
    trees : list of TreeText
        K per iteration.
    round_ends : list of int
        Iterations after which a chosen number of rounds is complete, see `lay_out`.
    """

    trees: list[TreeText]
    round_ends: list[int]


def lay_out(rounds: Sequence[Sequence[TaggedTree]], n_classes: int, stops: Sequence[int]) -> Layout:
    """Put the trees into slots: each class's trees one behind the other, filled up at every stop.

    Parameters
    ----------
    rounds : sequence of sequences of TaggedTree
    n_classes : int
    stops : sequence of int
        Increasing numbers of rounds, the last one `len(rounds)`: the first `stops[j]` rounds are the first
        `round_ends[j]` iterations of the model. One stop gives the fewest slots, one after every round lets
        `num_iteration` cut the model at any round.
    """
    trees: list[TreeText] = []
    round_ends: list[int] = []
    begin = 0
    for stop in stops:
        columns: list[list[TreeText]] = [[] for _ in range(n_classes)]
        for tree in (tree for round_trees in rounds[begin:stop] for tree in round_trees):
            columns[tree.plus].append(tree.text)
            if tree.minus != CLASSIC:
                columns[tree.minus].append(negated(tree.text))
        for iteration in range(max(len(column) for column in columns)):
            trees += [column[iteration] if iteration < len(column) else NO_TREE for column in columns]
        round_ends.append(len(trees) // n_classes)
        begin = stop
    return Layout(trees, round_ends)


def write_model(frame: ModelFrame, trees: Sequence[TreeText], n_classes: int) -> str:
    """Write a text model with objective multiclass; with one class, of trees whose sum means nothing."""
    blocks = [f"Tree={number}\n{tree}\n\n\n" for number, tree in enumerate(trees)]
    header = {
        "version": "v4",
        "num_class": n_classes,
        "num_tree_per_iteration": n_classes,
        "label_index": 0,
        "max_feature_idx": frame.n_features - 1,
        "objective": f"multiclass num_class:{n_classes}" if n_classes > 1 else "regression",
        "feature_names": frame.feature_names,
        "feature_infos": frame.feature_infos,
        "tree_sizes": " ".join(str(len(block.encode())) for block in blocks),
    }
    return "".join(
        [
            "tree\n",
            *(f"{key}={value}\n" for key, value in header.items()),
            "\n",
            *blocks,
            "end of trees\n\nfeature_importances:\n\nparameters:\n",
            frame.parameters,
            "\n\nend of parameters\n\npandas_categorical:",
            frame.pandas_categorical,
            "\n",
        ]
    )


def without_copies(trees: Sequence[TreeText], n_classes: int) -> list[TreeText]:
    """Leave out copies: of an iteration whose trees all split alike, and gain as much by it, the first one is kept."""
    kept: list[TreeText] = []
    for first in range(0, len(trees), n_classes):
        iteration = trees[first : first + n_classes]
        kept += iteration[: 1 if len({tree.partition("\nleaf_value=")[0] for tree in iteration}) == 1 else n_classes]
    return kept


def importances(trees: Sequence[TreeText], n_features: int) -> tuple[Floats, Floats]:
    """Count the splits on every feature, and sum their gains."""
    features = np.array(" ".join([field(tree, "split_feature") for tree in trees]).split(), dtype=np.int64)
    gains = np.array(" ".join([field(tree, "split_gain") for tree in trees]).split(), dtype=np.float64)
    counts = np.bincount(features, minlength=n_features).astype(np.float64)
    return counts, np.bincount(features, weights=gains, minlength=n_features).astype(np.float64)
