"""The parameters of a training run, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from abc_plugins.core.runtime.checks import check_choice, check_flag, check_integer, check_real, fail
from abc_plugins.core.schedule import BASE_CHOICES, check_search

PAPER_METHODS = ("mart", "robustlogit", "abcmart", "abcrobustlogit")
DIRECTIONAL = "directional"
METHODS = (DIRECTIONAL, *PAPER_METHODS)
TREE_SHAPES = ("auto", "best-first", "symmetric")
LEAF_VALUES = ("paper", "sequential")
STARTS = ("priors", "zero")
MAX_LEAVES = 32767  # node numbers fit into 16 bits
MAX_DEPTH = 14  # of a symmetric tree: likewise
MAX_BINS = 255  # with the bin of missing values a code fits into a byte
MAX_TREES_PER_ROUND = 1024

_PAPER_DEFAULTS: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 20,
    "min_samples_leaf": 10,
    "reg_lambda": 0.0,
    "leaf_reg_lambda": None,  # as reg_lambda
    "start_scores": "zero",
    "max_bins": MAX_BINS,
}
_DIRECTIONAL_DEFAULTS: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 40,
    "min_samples_leaf": 1,
    "reg_lambda": 1.0,
    "leaf_reg_lambda": 0.1,
    "start_scores": "priors",
}
"""What None stands for in parameters whose best value depends on the method."""

_RATE_WITH_EARLY_STOPPING = 0.05
_ROUNDS, _ROUNDS_WITH_EARLY_STOPPING = 300, 4000


_INTERACTIONS = (
    'None, "pairwise", "no_interactions", or a list of lists of names or indices of columns that may be on a branch '
    "together"
)


@dataclass(frozen=True)
class Settings:
    """Parameters of the booster; see `ABCBoostClassifier` for what they mean."""

    method: str = DIRECTIONAL
    n_estimators: int = 300
    learning_rate: float = 0.1
    num_leaves: int = 40
    tree_shape: str = "auto"
    max_depth: int | None = None
    trees_per_round: int | None = None
    search: int | str = 1
    gap: int = 0
    warmup: int = 0
    base_choice: str = "drawn"
    min_samples_leaf: int = 1
    pair_samples_per_leaf: float = 4.0
    min_child_weight: float = 0.0
    min_split_gain: float = 0.0
    reg_alpha: float = 0.0
    reg_lambda: float = 1.0
    leaf_reg_lambda: float = 0.1
    leaf_clip: float | None = 50.0
    leaf_values: str = "sequential"
    guard: bool = True
    start_scores: str = "priors"
    max_bins: int | None = None
    subsample: float = 1.0
    colsample: float = 1.0
    max_features: float = 1.0
    interaction_constraints: Any = None
    seed: int = 0

    @property
    def is_directional(self) -> bool:
        """Whether trees are grown along directions of class space."""
        return self.method == DIRECTIONAL

    @property
    def is_adaptive(self) -> bool:
        """Whether the method has an adaptive base class."""
        return self.method.startswith("abc")

    @property
    def second_order(self) -> bool:
        """Whether splits are valued by the second-order gain."""
        return not self.method.endswith("mart")


def check_settings(*, stops_early: bool = False, **values: Any) -> Settings:
    """Check every parameter by itself, and put in what None stands for.

    Parameters
    ----------
    stops_early : bool, default=False
        Whether the number of rounds is found by early stopping, so that small steps cost no accuracy.
    **values : object
        The parameters of `Settings`.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter, its value and what is allowed.
    """
    method = check_choice("method", values["method"], METHODS)
    defaults = _DIRECTIONAL_DEFAULTS if method == DIRECTIONAL else _PAPER_DEFAULTS
    defaults = defaults | {"n_estimators": _ROUNDS_WITH_EARLY_STOPPING if stops_early else _ROUNDS}
    if stops_early and method == DIRECTIONAL:
        defaults = defaults | {"learning_rate": _RATE_WITH_EARLY_STOPPING}
    values = {name: defaults.get(name) if value is None else value for name, value in values.items()}
    clip, trees_per_round, leaf_lambda = values["leaf_clip"], values["trees_per_round"], values["leaf_reg_lambda"]
    if clip is not None:
        clip = check_real("leaf_clip", clip, above=0.0, allowed="a number larger than 0, or None")
    if trees_per_round is not None:
        trees_per_round = check_integer("trees_per_round", trees_per_round, minimum=1, maximum=MAX_TREES_PER_ROUND)
    max_bins, max_depth = values["max_bins"], values["max_depth"]
    if max_bins is not None:
        max_bins = check_integer("max_bins", max_bins, minimum=2, maximum=MAX_BINS)
    shape = check_choice("tree_shape", values["tree_shape"], TREE_SHAPES)
    if max_depth is not None:
        is_best_first = method != DIRECTIONAL or shape == "best-first"
        max_depth = check_integer("max_depth", max_depth, minimum=1, maximum=MAX_LEAVES if is_best_first else MAX_DEPTH)
    if method != DIRECTIONAL and shape == "symmetric":
        fail("tree_shape", shape, f'"auto" or "best-first" with method={method!r}')
    reg_lambda = check_real("reg_lambda", values["reg_lambda"], minimum=0.0)
    return Settings(
        method=method,
        n_estimators=check_integer("n_estimators", values["n_estimators"], minimum=1),
        learning_rate=check_real("learning_rate", values["learning_rate"], above=0.0),
        num_leaves=check_integer("num_leaves", values["num_leaves"], minimum=2, maximum=MAX_LEAVES),
        tree_shape=shape if method == DIRECTIONAL else "best-first",
        max_depth=max_depth,
        trees_per_round=trees_per_round,
        search=check_search(values["search"], None),
        gap=check_integer("gap", values["gap"], minimum=0),
        warmup=check_integer("warmup", values["warmup"], minimum=0),
        base_choice=check_choice("base_choice", values["base_choice"], BASE_CHOICES),
        min_samples_leaf=check_integer("min_samples_leaf", values["min_samples_leaf"], minimum=1),
        pair_samples_per_leaf=check_real("pair_samples_per_leaf", values["pair_samples_per_leaf"], minimum=0.0),
        min_child_weight=check_real("min_child_weight", values["min_child_weight"], minimum=0.0),
        min_split_gain=check_real("min_split_gain", values["min_split_gain"], minimum=0.0),
        reg_alpha=check_real("reg_alpha", values["reg_alpha"], minimum=0.0),
        reg_lambda=reg_lambda,
        leaf_reg_lambda=reg_lambda if leaf_lambda is None else check_real("leaf_reg_lambda", leaf_lambda, minimum=0.0),
        leaf_clip=clip,
        leaf_values=check_choice("leaf_values", values["leaf_values"], LEAF_VALUES),
        guard=check_flag("guard", values["guard"]),
        start_scores=check_choice("start_scores", values["start_scores"], STARTS),
        max_bins=max_bins,
        subsample=check_real("subsample", values["subsample"], above=0.0, maximum=1.0),
        colsample=check_real("colsample", values["colsample"], above=0.0, maximum=1.0),
        max_features=check_real("max_features", values["max_features"], above=0.0, maximum=1.0),
        interaction_constraints=check_interactions(values["interaction_constraints"]),
        seed=check_integer("seed", values["seed"], minimum=0),
    )


def check_interactions(value: Any) -> Any:
    """Check the parameter `interaction_constraints` as far as that is possible without data; sets become lists."""
    if value is None or (isinstance(value, str) and value in ("pairwise", "no_interactions")):
        return value
    if isinstance(value, str | bytes | dict) or not isinstance(value, Iterable):
        kind = ValueError if isinstance(value, str) else TypeError
        fail("interaction_constraints", value, _INTERACTIONS, kind)
    groups = list(value)
    for group in groups:
        if isinstance(group, str | bytes | dict) or not isinstance(group, Iterable):
            fail("interaction_constraints", value, _INTERACTIONS, TypeError)
    plain = [[item.item() if hasattr(item, "item") else item for item in group] for group in groups]
    if not all(type(item) in (int, str) for group in plain for item in group):
        fail("interaction_constraints", value, _INTERACTIONS, TypeError)
    return plain


def interaction_groups(value: Any, names: Sequence[str] | None, n_features: int) -> list[list[int]] | None:
    """Groups of column indices that may be on a branch together; columns that are not named are one more group.

    Parameters
    ----------
    value : object
        What `check_interactions` returned.
    names : sequence of str or None
        Names of the columns.
    n_features : int
    """
    if value is None:
        return None
    if value == "no_interactions":
        return [[f] for f in range(n_features)]
    if value == "pairwise":
        return [list(pair) for pair in combinations(range(n_features), 2)] or [[0]]
    groups = [[_column(item, names, n_features) for item in group] for group in value]
    rest = sorted(set(range(n_features)) - {f for group in groups for f in group})
    return [*groups, rest] if rest else groups


def _column(item: int | str, names: Sequence[str] | None, n_features: int) -> int:
    """The index of a column that is named by its name or its index."""
    name = "interaction_constraints"
    if isinstance(item, int):
        if not 0 <= item < n_features:
            fail(name, item, f"lists of column indices from 0 to {n_features - 1}")
        return item
    if names is None or item not in names:
        fail(name, item, "lists of names of columns of X" if names is not None else "lists of column indices")
    return list(names).index(item)
