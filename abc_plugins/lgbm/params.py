"""What the caller's LightGBM parameters mean for a run with an adaptive base class, checked before any work."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abc_plugins.core.driver import LeafStep
from abc_plugins.core.runtime.checks import check_choice, check_flag, check_integer, check_real, fail
from abc_plugins.core.runtime.parallel import available_cores
from abc_plugins.core.schedule import BaseClassSchedule, check_search
from abc_plugins.lgbm.internals import aliases, log_warning
from abc_plugins.lgbm.metrics import Metric, parse_metrics

LEAF_CLIP = 4.0
"""Default of the largest leaf value before shrinkage (LightGBM's max_delta_step)."""

LEAF_VALUES = ("paper", "sequential")

_OBJECTIVES = (None, "multiclass", "softmax")
_MAIN_NAMES = (
    *("objective", "metric", "num_class", "boosting", "num_iterations", "early_stopping_round", "max_delta_step"),
    *("num_machines", "machines", "tree_learner", "monotone_constraints", "linear_tree", "path_smooth", "num_threads"),
    *("multi_error_top_k", "auc_mu_weights", "first_metric_only", "early_stopping_min_delta", "verbosity"),
    *("cat_smooth", "cat_l2", "min_data_per_group", "learning_rate", "lambda_l1", "lambda_l2", "max_cat_to_onehot"),
)
_RENAMED = ("objective", "num_iterations", "early_stopping_round")  # by lightgbm.train itself


@dataclass(frozen=True)
class ABCOptions:
    """The arguments that ABC-Boost adds to LightGBM's; see `abc_plugins.lgbm.train`."""

    search: int | str = 2
    gap: int = 10
    warmup: int = 10
    leaf_clip: float | None = LEAF_CLIP
    leaf_values: str = "paper"
    guard: bool = True
    layout: str = "compact"

    def __post_init__(self) -> None:
        check_search(self.search, None)
        check_integer("gap", self.gap, minimum=0)
        check_integer("warmup", self.warmup, minimum=0)
        if self.leaf_clip is not None:
            check_real("leaf_clip", self.leaf_clip, above=0.0, allowed="a number larger than 0, or None for no clip")
        check_choice("leaf_values", self.leaf_values, LEAF_VALUES)
        check_flag("guard", self.guard)
        check_choice("layout", self.layout, ("compact", "rounds"))

    def schedule(self, n_classes: int) -> BaseClassSchedule:
        """Start a schedule; `search` may not exceed the number of classes."""
        return BaseClassSchedule(n_classes, search=self.search, gap=self.gap, warmup=self.warmup)


def main_names(params: Mapping[str, Any] | None, names: Sequence[str] = _MAIN_NAMES) -> dict[str, Any]:
    """Copy the parameters, with the main name in place of an alias for those in `names`.

    Of several names for one parameter the one counts that counts in LightGBM: the main one, else the shortest.
    """
    if params is not None and not isinstance(params, Mapping):
        fail("params", type(params).__name__, "a dict, or None", TypeError)
    named = {} if params is None else dict(params)
    for main in names:
        values = [named.pop(alias) for alias in aliases(main) if alias in named]
        if values:
            named[main] = copy.deepcopy(values[0])
    return named


def whole_number(name: str, value: Any, minimum: int | None = None) -> int:
    """Return a parameter as an int; LightGBM takes numbers as text, too, as they stand in its .conf files."""
    if isinstance(value, str) and value.strip().lstrip("+-").isdigit():
        value = int(value)
    return check_integer(name, value, minimum=minimum)


def count_rounds(params: Mapping[str, Any] | None, num_boost_round: Any) -> int:
    """Find the number of rounds, for which the parameters count more than the argument; warn where they disagree."""
    given = {} if params is None else {name: params[name] for name in aliases("num_iterations") if name in params}
    n_rounds = whole_number("num_boost_round", next(iter(given.values()), num_boost_round), minimum=1)
    if len(set(given.values())) > 1:
        values = ", ".join(f"{name}={value}" for name, value in given.items())
        log_warning(f"Found conflicting values for num_iterations in params: {values}. {n_rounds} rounds will be done.")
    return n_rounds


@dataclass(frozen=True)
class TrainingParams:
    """Parameters of one run.

    Attributes
    ----------
    given : dict
        The caller's parameters under their main names.
    named : dict
        The caller's parameters under the caller's names, but for those that `lightgbm.train` renames.
    n_classes : int
    options : ABCOptions
    metrics : list of Metric
    """

    given: dict[str, Any]
    named: dict[str, Any]
    n_classes: int
    options: ABCOptions
    metrics: list[Metric]

    @classmethod
    def check(
        cls, params: Mapping[str, Any] | None, options: ABCOptions, n_classes: int, n_rounds: int = 100
    ) -> TrainingParams:
        """Refuse what cannot be right with an adaptive base class, by name and with the reason."""
        given = main_names(params)
        _refuse(given, options)
        options.schedule(n_classes)
        named = main_names(params, _RENAMED)
        given["num_iterations"] = named["num_iterations"] = n_rounds
        return cls(given, named, n_classes, options, _metrics(given, n_classes))

    @property
    def grower(self) -> dict[str, Any]:
        """Parameters of the booster that grows the trees: gradients from outside, no metric of its own."""
        clip = self.options.leaf_clip or 0.0
        if self.options.leaf_values == "sequential":
            clip = 0.0  # the clip is for the renewed values
        own = {"objective": "none", "metric": "None", "num_class": self.n_classes}
        if "max_delta_step" not in self.given:
            own["max_delta_step"] = clip
        return {**_without(self.named, own), **own}

    @property
    def stock(self) -> dict[str, Any]:
        """Parameters of the finished model, which is a multiclass model like any other."""
        return {**self.named, "objective": "multiclass"} | (
            {} if "num_class" in self.given else {"num_class": self.n_classes}
        )

    @property
    def n_threads(self) -> int:
        """Threads for the work around the trees."""
        threads = int(self.given.get("num_threads") or 0)
        return threads if threads > 0 else available_cores()

    @property
    def verbose(self) -> bool:
        """Whether LightGBM would log."""
        return int(self.given.get("verbosity", 1)) > 0

    def leaf_step(self, current: Mapping[str, Any]) -> LeafStep:
        """How leaf values are renewed; `current` are the booster's parameters, which a callback may change."""
        now = main_names(current)
        clip = self.given.get("max_delta_step", self.options.leaf_clip)
        return LeafStep(
            learning_rate=float(now.get("learning_rate", 0.1)),
            clip=float(clip) if clip else math.inf,
            lambda_l1=float(now.get("lambda_l1", 0.0)),
            lambda_l2=float(now.get("lambda_l2", 0.0)),
        )


def find_n_classes(params: Mapping[str, Any] | None, labels_max: float) -> int:
    """Take the number of classes from the parameters or, where they do not say, from the labels."""
    given = main_names(params)
    if "num_class" not in given:
        return max(int(labels_max) + 1, 2)
    return whole_number("num_class", given["num_class"], minimum=2)


def _without(params: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Leave out parameters, whatever they are called."""
    left_out = {alias for name in names for alias in aliases(name)}
    return {name: value for name, value in params.items() if name not in left_out}


def _metrics(given: Mapping[str, Any], n_classes: int) -> list[Metric]:
    return parse_metrics(
        given.get("metric"),
        top_k=whole_number("multi_error_top_k", given.get("multi_error_top_k", 1), minimum=1),
        auc_mu_weights=given.get("auc_mu_weights"),
        n_classes=n_classes,
    )


def _refuse(given: Mapping[str, Any], options: ABCOptions) -> None:
    if given.get("objective") not in _OBJECTIVES:
        fail("objective", given["objective"], "'multiclass': an adaptive base class belongs to the softmax loss")
    boosting = given.get("boosting", "gbdt")
    if boosting in ("dart", "rf", "random_forest"):
        fail("boosting", boosting, "'gbdt' or 'goss': DART and random forests rescale the trees of earlier rounds")
    if whole_number("num_machines", given.get("num_machines", 1), minimum=1) > 1 or given.get("machines"):
        several = given.get("machines") or given.get("num_machines")
        fail("num_machines", several, "1: machines that cannot add up their losses would choose different base classes")
    if any(given.get("monotone_constraints") or ()):
        fail(
            "monotone_constraints",
            given["monotone_constraints"],
            "unset: what a tree adds to one class it takes from the base, so that one of the two must fall",
        )
    if options.leaf_values == "sequential":
        for name, reason in (("linear_tree", "has no leaf constants"), ("path_smooth", "ties leaves to their parents")):
            if given.get(name):
                fail("leaf_values", "sequential", f"'paper' with {name}={given[name]!r}, which {reason}")
