"""What the caller's LightGBM parameters mean for a run, checked before any work."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lightgbm as lgb
import numpy as np

from abc_plugins.core.leaves import UNLIMITED, LeafRules
from abc_plugins.core.options import BoostOptions
from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.core.runtime.checks import check_choice, check_integer, fail
from abc_plugins.core.runtime.parallel import available_cores
from abc_plugins.lgbm.internals import aliases, is_constructed, log_warning
from abc_plugins.lgbm.metrics import Metric, parse_metrics

LAYOUTS = ("compact", "rounds")
_OBJECTIVES = (None, "multiclass", "softmax")
_MAIN_NAMES = (
    *("objective", "metric", "num_class", "boosting", "num_iterations", "early_stopping_round", "max_delta_step"),
    *("num_machines", "machines", "tree_learner", "monotone_constraints", "linear_tree", "path_smooth", "num_threads"),
    *("multi_error_top_k", "auc_mu_weights", "first_metric_only", "early_stopping_min_delta", "verbosity"),
    "data_sample_strategy",
    *("min_data_in_leaf", "feature_pre_filter", "boost_from_average", "num_leaves", "seed"),
    *("cat_smooth", "cat_l2", "min_data_per_group", "learning_rate", "lambda_l1", "lambda_l2", "max_cat_to_onehot"),
)
_NO_OBJECTIVE = {"objective": "none", "metric": "None"}
_OF_ALL_CLASSES = ("auc_mu_weights",)
"""Parameters with a size that depends on the number of classes: boosters of other outputs fail on them."""

_DIRECTIONAL_DEFAULTS = {"lambda_l2": 1.0, "min_data_in_leaf": 3}
"""What directional trees need other defaults for than LightGBM's: most of their leaves are of few classes."""

_DEFAULT_MIN_DATA = 20
"""LightGBM's min_data_in_leaf."""

DEFAULT_LEAVES = 31
"""LightGBM's num_leaves."""

_RENAMED = ("objective", "num_iterations", "early_stopping_round")  # by lightgbm.train itself


@dataclass(frozen=True)
class ABCOptions(BoostOptions):
    """The options of all adapters, and one of this.

    Parameters
    ----------
    layout : {"compact", "rounds"}, default="compact"
        How the trees are arranged in the Booster, see `abc_plugins.lgbm.export`.
    """

    layout: str = "compact"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("layout", self.layout, LAYOUTS)


def _is_on(value: Any, *, default: bool) -> bool:
    """Whether a parameter is true, given as a boolean or as the text that LightGBM reads as one; None is not given."""
    return default if value is None else str(value).lower() not in ("false", "-", "0")


def objective_name(given: Mapping[str, Any]) -> Any:
    """Return the objective, of which LightGBM takes capital letters for small ones; a function stays one."""
    objective = given.get("objective")
    return objective.lower() if isinstance(objective, str) else objective


def _real_number(name: str, value: Any) -> float:
    """Return a parameter as a float; LightGBM takes numbers as text, too."""
    try:
        return float(value)
    except (TypeError, ValueError):
        fail(name, value, "a number")


def main_names(params: Mapping[str, Any] | None, names: Sequence[str] = _MAIN_NAMES) -> dict[str, Any]:
    """Copy the parameters, with the main name in place of an alias for those in `names`.

    Of several names for one parameter the one counts that counts in LightGBM: the main one, else the shortest.
    """
    if params is not None and not isinstance(params, Mapping):
        fail("params", type(params).__name__, "a dict, or None", TypeError)
    # Arrays become lists, which can be compared.
    named = {name: _listed(value) for name, value in (params or {}).items()}
    for main in names:
        values = [named.pop(alias) for alias in aliases(main) if alias in named]
        if values:
            named[main] = copy.deepcopy(values[0])
    return named


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def whole_number(name: str, value: Any, minimum: int | None = None, allowed: str | None = None) -> int:
    """Return a parameter as an int; LightGBM takes numbers as text, too, as they stand in its .conf files."""
    if isinstance(value, str) and value.strip().lstrip("+-").isdigit():
        value = int(value)
    return check_integer(name, value, minimum=minimum, allowed=allowed)


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
        """Refuse what cannot be right, by name and with the reason."""
        given = main_names(params)
        if not options.is_directional:
            options.base_schedule(n_classes)  # refuses a search over more classes than there are
        named = main_names(params, _RENAMED)
        given["num_iterations"] = named["num_iterations"] = n_rounds
        checked = cls(given, named, n_classes, options, _metrics(given, n_classes))
        checked._refuse()
        return checked

    def _refuse(self) -> None:
        given, options = self.given, self.options
        if objective_name(given) not in _OBJECTIVES:
            allowed = "'multiclass': directional trees and base classes belong to the softmax loss"
            fail("objective", given["objective"], allowed)
        boosting = given.get("boosting", "gbdt")
        if boosting in ("dart", "rf", "random_forest"):
            fail("boosting", boosting, "'gbdt' or 'goss': DART and random forests rescale the trees of earlier rounds")
        if whole_number("num_machines", given.get("num_machines", 1), minimum=1) > 1 or given.get("machines"):
            several = given.get("machines") or given.get("num_machines")
            allowed = "1: machines that cannot add up their losses would choose different base classes"
            fail("num_machines", several, allowed)
        if _numbers("monotone_constraints", given.get("monotone_constraints")).any():
            reason = "what a tree adds to one class it takes from other classes, so that one of them must fall"
            fail("monotone_constraints", given["monotone_constraints"], f"unset: {reason}")
        if options.is_directional and self.is_linear:
            fail("linear_tree", given["linear_tree"], "False with method='directional': leaves have constants")
        if options.leaf_values == "sequential":
            for name, is_given, reason in (
                ("linear_tree", self.is_linear, "has no leaf constants"),
                ("path_smooth", self.has_path_smooth, "ties leaves to their parents"),
            ):
                if is_given:
                    fail("leaf_values", "sequential", f"'paper' with {name}={given[name]!r}, which {reason}")
        self.leaf_rules(given)  # numbers that are none

    @property
    def grower(self) -> dict[str, Any]:
        """Parameters of the booster that grows the trees: gradients from outside, no metric of its own."""
        clip = self.options.leaf_clip or 0.0
        if self.options.leaf_values == "sequential":
            clip = 0.0  # the clip is for the renewed values
        own = {**_NO_OBJECTIVE, "num_class": self.n_classes}
        if self.given.get("max_delta_step") is None:
            own["max_delta_step"] = clip
        return {**_without(self.named, own), **own}

    def for_data(self, train_set: lgb.Dataset) -> TrainingParams:
        """The parameters for a Dataset: one that is not binned yet need not drop features for large leaves."""
        if is_constructed(train_set) or not self.options.is_directional or "feature_pre_filter" in self.given:
            return self
        return replace(self, named={**self.named, "feature_pre_filter": False})

    def directional_grower(self, n_outputs: int, of_data: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of the booster that grows directional trees, from gradients and with leaf values of no meaning.

        `of_data` are the parameters that the Dataset was binned with: if it has dropped the features that large leaves
        cannot use, LightGBM refuses smaller ones.
        """
        rate = (
            self.given.get("learning_rate") or 0.1 if self._has_goss else 1.0
        )  # GOSS starts after 1 / rate iterations
        own = {**_NO_OBJECTIVE, "num_class": n_outputs, "max_delta_step": 0.0, "learning_rate": rate}
        defaults = {name: value for name, value in _DIRECTIONAL_DEFAULTS.items() if name not in self.given}
        if "min_data_in_leaf" in defaults and _is_on(of_data.get("feature_pre_filter"), default=True):
            smallest = int(of_data.get("min_data_in_leaf", _DEFAULT_MIN_DATA))
            defaults["min_data_in_leaf"] = max(defaults["min_data_in_leaf"], smallest)
        return {**defaults, **_without(self.named, (*own, *_OF_ALL_CLASSES)), **own}

    @property
    def _has_goss(self) -> bool:
        return "goss" in (self.given.get("boosting"), self.given.get("data_sample_strategy"))

    @property
    def is_linear(self) -> bool:
        """Whether leaves have linear models."""
        return _is_on(self.given.get("linear_tree"), default=False)

    @property
    def has_path_smooth(self) -> bool:
        """Whether leaf values depend on those of the nodes above them."""
        return _real_number("path_smooth", self.given.get("path_smooth") or 0.0) > 0.0

    @staticmethod
    def growth_names(params: Mapping[str, Any]) -> set[str]:
        """Names of those parameters that are about growth, and not about leaf values, which are ours."""
        return set(_without(params, ("learning_rate", "max_delta_step")))

    @property
    def seed(self) -> int:
        """Seed of the directions."""
        return abs(int(self.given.get("seed") or 0))

    @property
    def starts_from_priors(self) -> bool:
        """Whether scores start at the class frequencies; directional trees do so unless they are told not to."""
        return self.options.is_directional and _is_on(self.given.get("boost_from_average"), default=True)

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

    def leaf_rules(self, current: Mapping[str, Any]) -> LeafRules:
        """How leaf values are made; `current` are the booster's parameters, which a callback may change."""
        now = main_names(current)
        given = self.given.get("max_delta_step")
        clip = self.options.leaf_clip if given is None else _real_number("max_delta_step", given)
        return LeafRules(
            factor=1.0,
            reg_lambda=float(now.get("lambda_l2", 0.0)),
            clip=clip if clip is not None and clip > 0.0 else UNLIMITED,  # from 0 down there is no limit in LightGBM
            learning_rate=float(now.get("learning_rate", 0.1)),
            reg_alpha=float(now.get("lambda_l1", 0.0)),
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


def _numbers(name: str, value: Any) -> Floats:
    """Return the numbers of a parameter that has several, as a sequence or as LightGBM's text; none for None."""
    parts = value.split(",") if isinstance(value, str) else () if value is None else value
    try:
        return np.array([part for part in parts if part != ""], dtype=np.float64)
    except (TypeError, ValueError):
        fail(name, value, "numbers")


def _metrics(given: Mapping[str, Any], n_classes: int) -> list[Metric]:
    return parse_metrics(
        given.get("metric"),
        top_k=whole_number("multi_error_top_k", given.get("multi_error_top_k", 1), minimum=1),
        auc_mu_weights=_numbers("auc_mu_weights", given.get("auc_mu_weights")),
        n_classes=n_classes,
    )
