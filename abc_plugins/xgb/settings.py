"""What a user's XGBoost parameters mean for ABC-Boost: what passes through, what is refused and why."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from xgboost import Booster

from abc_plugins.core.leaves import UNLIMITED, LeafRules
from abc_plugins.core.options import BoostOptions
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.parallel import resolve_n_jobs

_REFUSED_BOOSTERS = {
    "gblinear": "a linear model has no trees to share between a class and the base class",
    "dart": "dropout rescales old trees, and with them scores that later base classes were chosen from",
}


_STOCK_CHILD_WEIGHT = 1.0
"""XGBoost's default of min_child_weight."""

_LEAF_SAMPLES, _LEAVES_AT_LEAST = 10.0, 30
"""Directional trees: the smallest leaf has the curvature of ten average samples; of fewer where a tree could not have
30 such leaves. A fixed min_child_weight would end the growth as samples become certain."""

_TWO_CLASSES = 2

_MOST_LEAVES = 65535
"""Leaf numbers fit into 16 bits."""


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
    leaf_rules : LeafRules
        How leaf values are made, for a tree with a base class.
    max_leaves : int
        No tree has more leaves.
    seed : int
    n_threads : int
    chooses_child_weight : bool
        Whether `min_child_weight` is ours to choose for each round.
    """

    n_classes: int
    tree_params: dict[str, Any]
    metric_params: dict[str, Any]
    leaf_rules: LeafRules
    max_leaves: int
    seed: int
    n_threads: int
    chooses_child_weight: bool = False

    def directional_params(self, total_curvature: float, n_samples: float) -> dict[str, Any]:
        """Parameters of the growth of directional trees, for samples of this curvature along an average direction."""
        if not self.chooses_child_weight:
            return self.tree_params
        share = min(_LEAF_SAMPLES / n_samples, 1.0 / _LEAVES_AT_LEAST) if n_samples else 0.0
        return self.tree_params | {"min_child_weight": share * total_curvature}

    @classmethod
    def of(cls, booster: Booster, options: BoostOptions, named: Container[str] = ()) -> RoundSettings:
        """Read the settings of a booster as XGBoost itself understood them; refuse what cannot be right.

        `named` are the parameters that the user has set, as far as that is known: those are not ours to change.
        """
        learner = json.loads(booster.save_config())["learner"]
        _refuse(learner)
        generic, gradient_booster = learner["generic_param"], learner["gradient_booster"]
        common = {name: generic[name] for name in ("device", "nthread") if name in generic}
        n_classes = int(learner["learner_model_param"]["num_class"])
        tree = gradient_booster["tree_train_param"]
        clip = float(tree["max_delta_step"])  # 0 is no limit
        if clip == 0.0 and "max_delta_step" not in named:
            clip = options.leaf_clip or 0.0
        keeps_values = not options.is_directional and options.leaf_values == "paper"
        tree = tree | {"max_delta_step": clip if keeps_values else 0.0}  # otherwise the clip is for our leaf values
        is_stock = "min_child_weight" not in named and float(tree["min_child_weight"]) == _STOCK_CHILD_WEIGHT
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
        _check_parallel_trees(int(tree_params["num_parallel_tree"]), options)
        return cls(
            n_classes,
            tree_params,
            metric_params,
            LeafRules(1.0, float(tree["lambda"]), clip or UNLIMITED, float(tree["eta"]), float(tree["alpha"])),
            _max_leaves(tree, _ignores_max_leaves(learner)),
            int(generic["seed"]),
            resolve_n_jobs(threads if threads > 0 else None),
            options.is_directional and is_stock,
        )


def _check_parallel_trees(n_trees: int, options: BoostOptions) -> None:
    if n_trees > 1 and options.is_directional:
        fail("num_parallel_tree", n_trees, "1 with method='directional'; trees_per_round grows trees side by side")
    if n_trees > 1 and options.leaf_values == "sequential":
        fail("leaf_values", "sequential", "'paper' with num_parallel_tree > 1: trees of a class grow side by side")


def _ignores_max_leaves(learner: Mapping[str, Any]) -> bool:
    """Whether trees are grown exactly, by depth alone."""
    return any(updater.get("name") == "grow_colmaker" for updater in learner["gradient_booster"].get("updater", []))


def _max_leaves(tree: Mapping[str, Any], by_depth_alone: bool) -> int:
    """Bound of the leaves of a tree; a parameter of 0 is no limit."""
    depth, leaves = int(tree["max_depth"]), 0 if by_depth_alone else int(tree["max_leaves"])
    by_depth = _MOST_LEAVES if depth == 0 or depth >= _MOST_LEAVES.bit_length() else 2**depth
    return min(by_depth, leaves or _MOST_LEAVES)


def check_params(params: Any) -> dict[str, Any]:
    """Return a copy of the user's parameters; refuse what XGBoost's own view of them does not show."""
    if not isinstance(params, Mapping):
        fail("params", type(params).__name__, "a dict", TypeError)
    if params.get("process_type", "default") != "default":
        fail("process_type", params["process_type"], "'default': trees of other rounds cannot be changed on their own")
    return dict(params)


def check_obj(obj: Any, params: Mapping[str, Any]) -> None:
    """Refuse an objective of the user's own unless XGBoost trains itself: for two classes it does."""
    if obj is None:
        return
    if not callable(obj):
        fail("obj", obj, "a function, or None", TypeError)
    if str(params.get("objective", "")).startswith("multi:") and int(params.get("num_class", 0)) > _TWO_CLASSES:
        reason = "directional trees and base classes belong to the softmax loss"
        fail("obj", "a function", f"left out for more than two classes: {reason}")


def has_several_classes(booster: Booster) -> bool:
    """Whether the objective is softmax over more than two classes; objectives that are no classification fail."""
    learner = json.loads(booster.save_config())["learner"]
    objective = learner["objective"]["name"]
    if objective.startswith("binary:"):
        return False
    if objective not in ("multi:softprob", "multi:softmax"):
        fail("objective", objective, "'multi:softprob' or 'multi:softmax' (or one of binary: for two classes)")
    return int(learner["learner_model_param"]["num_class"]) > _TWO_CLASSES


def _refuse(learner: Mapping[str, Any]) -> None:
    """Fail on settings under which an ABC model would be wrong, with the reason."""
    booster = learner["gradient_booster"]["name"]
    if booster in _REFUSED_BOOSTERS:
        fail("booster", booster, f"'gbtree': {_REFUSED_BOOSTERS[booster]}")
    strategy = learner["learner_train_param"]["multi_strategy"]
    if strategy != "one_output_per_tree":
        fail("multi_strategy", strategy, "'one_output_per_tree': models have a tree for each class that a tree changes")
    updater = learner["gradient_booster"]["gbtree_train_param"].get("updater", "")
    if updater and not any(name.startswith("grow_") for name in updater.split(",")):
        fail("updater", updater, "one that grows trees: those of other rounds cannot be changed on their own")
    constraints = learner["gradient_booster"]["tree_train_param"].get("monotone_constraints", "()")
    if any(sign.strip() not in ("", "0") for sign in constraints.strip("()").split(",")):
        fail(
            "monotone_constraints",
            constraints,
            "left out for more than two classes: what a tree adds to one class it takes from others",
        )
