"""What a user's XGBoost parameters mean for ABC-Boost: what passes through, what is refused and why."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xgboost import Booster

from abc_plugins.core.driver import LeafStep
from abc_plugins.core.runtime.checks import check_choice, check_integer, check_real, fail
from abc_plugins.core.runtime.parallel import resolve_n_jobs
from abc_plugins.core.schedule import check_search

LEAF_CLIP = 4.0
"""Default bound of a leaf value before shrinkage. Without one, scores of the base class run away on many classes."""

LEAF_VALUES = ("paper", "sequential")

_REFUSED_BOOSTERS = {
    "gblinear": "a linear model has no trees to share between a class and the base class",
    "dart": "dropout rescales old trees, and with them scores that later base classes were chosen from",
}


@dataclass(frozen=True)
class ABCSettings:
    """The arguments that ABC-Boost adds to XGBoost's own, checked.

    Parameters
    ----------
    search : int or "all", default=2
        s: classes tried as base in a search, those with the largest training loss.
    gap : int, default=10
        g: rounds that keep the base after a search.
    warmup : int, default=10
        w: classic rounds at the start.
    leaf_clip : float or None, default=4.0
        Largest leaf value before shrinkage; None is no limit. It is XGBoost's `max_delta_step`, and that parameter
        stands where it is given.
    leaf_values : "paper" or "sequential", default="paper"
        "sequential" renews the leaf values of a round tree by tree, each from the scores that the trees before left.
    guard : bool, default=True
        Halve the step of a round until the training loss does not rise.
    """

    search: int | str = 2
    gap: int = 10
    warmup: int = 10
    leaf_clip: float | None = LEAF_CLIP
    leaf_values: str = "paper"
    guard: bool = True

    def __post_init__(self) -> None:
        check_search(self.search, None)
        check_integer("gap", self.gap, minimum=0)
        check_integer("warmup", self.warmup, minimum=0)
        if self.leaf_clip is not None:
            check_real("leaf_clip", self.leaf_clip, above=0.0, allowed="a number larger than 0, or None for no clip")
        check_choice("leaf_values", self.leaf_values, LEAF_VALUES)
        if not isinstance(self.guard, bool):
            fail("guard", self.guard, "True or False", TypeError)


@dataclass(frozen=True)
class RoundSettings:
    """What the boosters that grow single rounds need to know of the user's parameters.

    Attributes
    ----------
    n_classes : int
        K.
    tree_params : dict
        Parameters of tree growth and of the device.
    metric_params : dict
        Parameters of the evaluation metrics.
    leaf_step : LeafStep
        How leaf values are renewed.
    n_threads : int
    """

    n_classes: int
    tree_params: dict[str, Any]
    metric_params: dict[str, Any]
    leaf_step: LeafStep
    n_threads: int

    @classmethod
    def of(cls, booster: Booster, options: ABCSettings) -> RoundSettings:
        """Read the settings of a booster as XGBoost itself understood them; refuse what cannot be right."""
        learner = json.loads(booster.save_config())["learner"]
        _refuse(learner)
        generic, gradient_booster = learner["generic_param"], learner["gradient_booster"]
        common = {name: generic[name] for name in ("device", "nthread") if name in generic}
        n_classes = int(learner["learner_model_param"]["num_class"])
        tree = gradient_booster["tree_train_param"]
        clip = float(tree["max_delta_step"]) or options.leaf_clip or 0.0
        if options.leaf_values == "paper":  # otherwise the clip is for the renewed values
            tree = tree | {"max_delta_step": clip}
        growth = gradient_booster["gbtree_train_param"]
        names = ("tree_method", "updater") if gradient_booster.get("specified_updater") else ("tree_method",)
        updaters: dict[str, Any] = {}
        for updater in gradient_booster.get("updater", []):
            updaters |= updater.get("hist_train_param", {})
        tree_params = {
            **tree,
            **{name: growth[name] for name in names},
            **updaters,
            **common,
            "num_parallel_tree": gradient_booster["gbtree_model_param"]["num_parallel_tree"],
            "seed": generic["seed"],
            # Every booster reseeds XGBoost's one generator: with the round in the seed, rounds draw different rows.
            "seed_per_iteration": 1,
        }
        metric_params = {
            **common,
            "objective": learner["objective"]["name"],
            "eval_metric": [metric["name"] for metric in learner.get("metrics", [])],
            "disable_default_eval_metric": learner["learner_train_param"]["disable_default_eval_metric"],
        }
        threads = int(generic.get("nthread", 0))
        leaf_step = LeafStep(float(tree["eta"]), clip or math.inf, float(tree["alpha"]), float(tree["lambda"]))
        if options.leaf_values == "sequential" and int(tree_params["num_parallel_tree"]) > 1:
            fail("leaf_values", "sequential", "'paper' with num_parallel_tree > 1: trees of a class grow side by side")
        return cls(n_classes, tree_params, metric_params, leaf_step, resolve_n_jobs(threads if threads > 0 else None))


def check_params(params: Any) -> dict[str, Any]:
    """Return a copy of the user's parameters; refuse what XGBoost's own view of them does not show."""
    if not isinstance(params, Mapping):
        fail("params", type(params).__name__, "a dict", TypeError)
    if params.get("process_type", "default") != "default":
        fail("process_type", params["process_type"], "'default': trees of other rounds cannot be changed on their own")
    return dict(params)


def adaptive_base_makes_sense(booster: Booster) -> bool:
    """Whether the objective is softmax over more than two classes; objectives that are no classification fail."""
    learner = json.loads(booster.save_config())["learner"]
    objective = learner["objective"]["name"]
    if objective.startswith("binary:"):
        return False
    if objective not in ("multi:softprob", "multi:softmax"):
        fail("objective", objective, "'multi:softprob' or 'multi:softmax' (or one of binary: for two classes)")
    return int(learner["learner_model_param"]["num_class"]) > 2


def _refuse(learner: Mapping[str, Any]) -> None:
    """Fail on settings under which an ABC model would be wrong, with the reason."""
    booster = learner["gradient_booster"]["name"]
    if booster in _REFUSED_BOOSTERS:
        fail("booster", booster, f"'gbtree': {_REFUSED_BOOSTERS[booster]}")
    strategy = learner["learner_train_param"]["multi_strategy"]
    if strategy != "one_output_per_tree":
        fail("multi_strategy", strategy, "'one_output_per_tree': a tree of ABC-Boost belongs to one pair of classes")
    updater = learner["gradient_booster"]["gbtree_train_param"].get("updater", "")
    if updater and not any(name.startswith("grow_") for name in updater.split(",")):
        fail("updater", updater, "one that grows trees: those of other rounds cannot be changed on their own")
    constraints = learner["gradient_booster"]["tree_train_param"].get("monotone_constraints", "()")
    if any(sign.strip() not in ("", "0") for sign in constraints.strip("()").split(",")):
        fail(
            "monotone_constraints",
            constraints,
            "left out for more than two classes: what a tree adds to one class it takes from the base class",
        )
