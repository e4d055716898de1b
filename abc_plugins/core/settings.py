"""The parameters of a training run, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from abc_plugins.core.runtime.checks import check_choice, check_flag, check_integer, check_real
from abc_plugins.core.schedule import BASE_CHOICES, check_search

METHODS = ("mart", "robustlogit", "abcmart", "abcrobustlogit")
LEAF_VALUES = ("paper", "sequential")
MAX_LEAVES = 32767  # node numbers fit into 16 bits
MAX_BINS = 255  # with the bin of missing values a code fits into a byte


@dataclass(frozen=True)
class Settings:
    """Parameters of the booster; see `ABCBoostClassifier` for what they mean."""

    method: str = "abcrobustlogit"
    n_estimators: int = 300
    learning_rate: float = 0.1
    num_leaves: int = 20
    search: int | str = 1
    gap: int = 0
    warmup: int = 0
    base_choice: str = "drawn"
    min_samples_leaf: float = 10
    pair_samples_per_leaf: float = 4.0
    min_child_weight: float = 0.0
    reg_lambda: float = 0.0
    leaf_clip: float | None = 50.0
    leaf_values: str = "sequential"
    guard: bool = True
    max_bins: int = 255
    subsample: float = 1.0
    colsample: float = 1.0
    seed: int = 0

    @property
    def is_adaptive(self) -> bool:
        """Whether the method has an adaptive base class."""
        return self.method.startswith("abc")

    @property
    def second_order(self) -> bool:
        """Whether splits are valued by the second-order gain."""
        return self.method.endswith("robustlogit")


def check_settings(**values: Any) -> Settings:
    """Check every parameter by itself and return the settings.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter, its value and what is allowed.
    """
    clip = values["leaf_clip"]
    if clip is not None:
        clip = check_real("leaf_clip", clip, above=0.0, allowed="a number larger than 0, or None")
    return Settings(
        method=check_choice("method", values["method"], METHODS),
        n_estimators=check_integer("n_estimators", values["n_estimators"], minimum=1),
        learning_rate=check_real("learning_rate", values["learning_rate"], above=0.0),
        num_leaves=check_integer("num_leaves", values["num_leaves"], minimum=2, maximum=MAX_LEAVES),
        search=check_search(values["search"], None),
        gap=check_integer("gap", values["gap"], minimum=0),
        warmup=check_integer("warmup", values["warmup"], minimum=0),
        base_choice=check_choice("base_choice", values["base_choice"], BASE_CHOICES),
        min_samples_leaf=check_real("min_samples_leaf", values["min_samples_leaf"], above=0.0),
        pair_samples_per_leaf=check_real("pair_samples_per_leaf", values["pair_samples_per_leaf"], minimum=0.0),
        min_child_weight=check_real("min_child_weight", values["min_child_weight"], minimum=0.0),
        reg_lambda=check_real("reg_lambda", values["reg_lambda"], minimum=0.0),
        leaf_clip=clip,
        leaf_values=check_choice("leaf_values", values["leaf_values"], LEAF_VALUES),
        guard=check_flag("guard", values["guard"]),
        max_bins=check_integer("max_bins", values["max_bins"], minimum=2, maximum=MAX_BINS),
        subsample=check_real("subsample", values["subsample"], above=0.0, maximum=1.0),
        colsample=check_real("colsample", values["colsample"], above=0.0, maximum=1.0),
        seed=check_integer("seed", values["seed"], minimum=0),
    )
