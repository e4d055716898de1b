"""Put rounds of tagged trees together as a stock XGBoost model.

A tree (plus, minus) becomes a tree of class `plus` and, leaves negated, one of class `minus`. XGBoost lets a tree
belong to any class and a round have any number of trees, so that rounds stay rounds: `iteration_range`, slicing and
`best_iteration` keep their meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from xgboost import Booster

from abc_plugins.core.pairs import Pair
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.xgb.format.trees import Document, TreeBytes, read_trees
from abc_plugins.xgb.format.ubjson import Encoded, decode, encode
from abc_plugins.xgb.internals import changed_copy
from abc_plugins.xgb.xgboost_grower import read_model


@dataclass(frozen=True)
class StockRound:
    """A round of a model: the trees with their classes."""

    trees: list[tuple[Pair, TreeBytes]]

    def scalar_trees(self) -> list[tuple[int, TreeBytes]]:
        """Every tree under its class, those of the base class last."""
        own = [(plus, tree) for (plus, _), tree in self.trees]
        mirrored = [(minus, tree.negated()) for (_, minus), tree in self.trees if minus != CLASSIC]
        base = self.base
        return sorted(own + mirrored, key=lambda item: (item[0] == base, item[0]))

    @property
    def base(self) -> int:
        """The class that all trees share, `CLASSIC` in a classic round."""
        shared = set(self.trees[0][0]).intersection(*(pair for pair, _ in self.trees))
        return shared.pop() if len(shared) == 1 else CLASSIC


def extend_model(
    document: Document, rounds: Sequence[Sequence[tuple[int, TreeBytes]]], attributes: dict[str, str]
) -> Document:
    """Return a model of the trees of `document`, then those of `rounds` under their classes, with these attributes."""
    learner = document["learner"]
    model = learner["gradient_booster"]["model"]
    tree_info = list(model["tree_info"])
    starts = list(model["iteration_indptr"])
    trees: list[Encoded] = [tree.numbered(number) for number, tree in enumerate(model["trees"])]
    for scalar_trees in rounds:
        for class_index, tree in scalar_trees:
            trees.append(tree.numbered(len(trees)))
            tree_info.append(class_index)
        starts.append(len(trees))
    sizes = model["gbtree_model_param"] | {"num_trees": str(len(trees))}
    model = model | {
        "trees": trees,
        "tree_info": tree_info,
        "iteration_indptr": starts,
        "gbtree_model_param": sizes,
    }
    booster = learner["gradient_booster"] | {"model": model}
    return document | {"learner": learner | {"gradient_booster": booster, "attributes": dict(attributes)}}


def with_model(booster: Booster, document: Document) -> Booster:
    """Return a booster with the parameters of `booster` and the model of `document`."""
    return changed_copy(booster, lambda state: encode(decode(state, {"trees": read_trees}) | {"Model": document}))


def base_classes(booster: Booster) -> list[int]:
    """Read the base class of every round from a stock model; -1 stands for a classic round.

    It is read from the classes of the trees, so that sliced and continued models have it as well.

    Examples
    --------
    >>> import numpy as np, xgboost, abc_plugins.xgb
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> data = xgboost.DMatrix(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0))
    >>> booster = abc_plugins.xgb.train({"num_class": 3}, data, 2, warmup=1)
    >>> len(abc_plugins.xgb.base_classes(booster)), abc_plugins.xgb.base_classes(booster)[0]
    (2, -1)
    """
    learner = read_model(booster)["learner"]
    n_classes = max(int(learner["learner_model_param"]["num_class"]), 2)
    model = learner["gradient_booster"]["model"]
    tree_info, starts = np.array(model["tree_info"], dtype=np.int64), model["iteration_indptr"]
    bases = []
    for first, last in pairwise(starts):
        counts = np.bincount(tree_info[first:last], minlength=n_classes)
        is_abc = n_classes > 2 and counts.max() == (n_classes - 1) * counts.min()
        bases.append(int(counts.argmax()) if is_abc else CLASSIC)
    return bases
