"""The search space: parameters and ranges by engine, and which parameters matter for which method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from abc_plugins.core.runtime.checks import check_choice, check_integer, fail

Space = dict[str, BaseDistribution]
"""Name of a parameter -> its range."""

PLUS_ONE = "_plus_1"
"""Ending of a parameter that is drawn one larger than it is: a logarithmic range cannot begin at 0."""

SCHEDULE = ("search", "gap", "warmup")
_MAX_SEARCH, _MAX_WARMUP = 8, 100
_LEAST_LARGEST_LEAF, _LEAVES_AT_LEAST = 3, 30
"""The range of the smallest leaf ends where a tree could have 30 such leaves, but not below 3."""

_MOST_CLASSES_OF_PAIRS = 12
"""With more classes the paper's methods, which grow a tree for every class and round, are left out: on none of the 13
data sets of docs/directional.md do they have the lower log loss, and a trial of theirs would take most of the time."""


def default_space(
    n_classes: int, *, engine: str = "native", max_rounds: int = 4000, n_samples: int | None = None
) -> Space:
    """Ranges that a study draws from, under the names of the engine's estimator.

    Parameters
    ----------
    n_classes : int
        K. With two classes there is no base class to choose, and s, g and w are left out.
    engine : {"native", "lgbm", "xgb"}, default="native"
    max_rounds : int, default=4000
        At most half of them are warm-up.
    n_samples : int, optional
        Rows that are tuned on: with few of them leaves cannot be large.

    Returns
    -------
    dict of str to optuna distribution
        `gap_plus_1` stands for the gap, g, which is drawn on a logarithmic scale from 0 on. Not every parameter is
        drawn in every trial: only those that matter for the method and the shape of trees that were drawn before.
    """
    check_integer("n_classes", n_classes, minimum=2)
    check_choice("engine", engine, tuple(_ENGINE_SPACES))
    space = _ENGINE_SPACES[engine](n_classes)
    for name in ("min_samples_leaf", "min_child_samples"):
        if name in space and n_samples is not None:
            most = max(_LEAST_LARGEST_LEAF, min(n_samples // _LEAVES_AT_LEAST, space[name].high))
            space[name] = IntDistribution(1, most, log=True)
    if n_classes > 2:
        space["search"] = IntDistribution(1, min(n_classes, _MAX_SEARCH))
        space["gap" + PLUS_ONE] = IntDistribution(1, 201, log=True)
        space["warmup"] = IntDistribution(0, min(_MAX_WARMUP, max_rounds // 2))
    return space


def _methods(n_classes: int, classic: bool) -> CategoricalDistribution:
    methods = ["directional"]
    if n_classes <= _MOST_CLASSES_OF_PAIRS:
        methods += ["abcrobustlogit"] if n_classes > 2 else []  # pairs of two classes are the classic method
        methods += ["robustlogit"] if classic else []
    return CategoricalDistribution(methods)


def _native_space(n_classes: int) -> Space:
    return {
        "method": _methods(n_classes, classic=True),
        "tree_shape": CategoricalDistribution(("symmetric", "best-first")),
        "max_depth": IntDistribution(3, 9),
        "num_leaves": IntDistribution(4, 128, log=True),
        "learning_rate": FloatDistribution(0.02, 0.2, log=True),
        "min_samples_leaf": IntDistribution(1, 30, log=True),
        "reg_lambda": FloatDistribution(0.01, 30.0, log=True),
        "leaf_reg_lambda": FloatDistribution(0.01, 10.0, log=True),
        "subsample": FloatDistribution(0.5, 1.0),
        "colsample": FloatDistribution(0.3, 1.0),
    }


def _lightgbm_space(n_classes: int) -> Space:
    return {
        "method": _methods(n_classes, classic=False),
        "num_leaves": IntDistribution(4, 128, log=True),
        "learning_rate": FloatDistribution(0.02, 0.3, log=True),
        "min_child_samples": IntDistribution(1, 50, log=True),
        "reg_lambda": FloatDistribution(1e-3, 10.0, log=True),
        "leaf_reg_lambda": FloatDistribution(0.01, 10.0, log=True),
        "subsample": FloatDistribution(0.5, 1.0),
        "colsample_bytree": FloatDistribution(0.3, 1.0),
    }


def _xgboost_space(n_classes: int) -> Space:
    return {
        "method": _methods(n_classes, classic=False),
        "max_depth": IntDistribution(3, 10),
        "learning_rate": FloatDistribution(0.02, 0.3, log=True),
        # A sum of hessians, not a number of samples: below 0.25 for a sample and class.
        "min_child_weight": FloatDistribution(1e-3, 10.0, log=True),
        "reg_lambda": FloatDistribution(1e-3, 10.0, log=True),
        "leaf_reg_lambda": FloatDistribution(0.01, 10.0, log=True),
        "subsample": FloatDistribution(0.5, 1.0),
        "colsample_bytree": FloatDistribution(0.3, 1.0),
    }


_ENGINE_SPACES: dict[str, Callable[[int], Space]] = {
    "native": _native_space,
    "lgbm": _lightgbm_space,
    "xgb": _xgboost_space,
}


# ------------------------------------------------------------------------------------------------ conditions


def _is_directional(values: Mapping[str, Any]) -> bool:
    return values.get("method") == "directional"


def _has_base_class(values: Mapping[str, Any]) -> bool:
    return str(values.get("method")).startswith("abc")


def _is_symmetric(values: Mapping[str, Any]) -> bool:
    return _is_directional(values) and values.get("tree_shape") == "symmetric"


_APPLIES: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "tree_shape": _is_directional,
    "leaf_reg_lambda": _is_directional,
    "num_leaves": lambda values: not _is_symmetric(values),
    **dict.fromkeys(SCHEDULE, _has_base_class),
}
"""When a parameter matters, from those that were drawn before it, fixed, or left to the estimator."""


def applies(name: str, values: Mapping[str, Any]) -> bool:
    """Whether a parameter matters where the others have these values."""
    plain = plain_name(name)
    if plain == "max_depth" and "tree_shape" in values:  # the native engine: best-first trees have leaves instead
        return _is_directional(values) and values["tree_shape"] != "best-first"
    return plain not in _APPLIES or _APPLIES[plain](values)


def draw(trial: Any, space: Space, given: Mapping[str, Any]) -> dict[str, Any]:
    """Let an Optuna trial choose a value for every parameter that matters.

    Parameters
    ----------
    trial : optuna.Trial
    space : dict
    given : dict
        Parameters that are not drawn.
    """
    values = dict(given)
    drawn = {}
    for name, distribution in space.items():
        if applies(name, values):
            drawn[name] = _suggest(trial, name, distribution)
            values |= to_parameters({name: drawn[name]})
    return to_parameters(drawn)


# ------------------------------------------------------------------------------------------------ names and ranges


def change_space(
    space: Space, changes: Mapping[str, BaseDistribution | None] | None, fixed: Mapping[str, Any] | None = None
) -> Space:
    """Replace ranges, add parameters, and take out those that are None or `fixed`."""
    if changes is not None and not isinstance(changes, Mapping):
        fail("space", type(changes).__name__, "a dict of parameter names to optuna distributions, or None", TypeError)
    changed = dict(space)
    for name, distribution in {**(changes or {}), **dict.fromkeys(fixed or {})}.items():
        if distribution is not None and not isinstance(distribution, BaseDistribution):
            fail(f"space[{name!r}]", distribution, "an optuna distribution, or None to leave it out", TypeError)
        same = next((known for known in changed if plain_name(known) == plain_name(name)), None)
        if distribution is None:
            changed.pop(same or name, None)
        else:  # in the same place: conditions look at what was drawn before
            items = [(name, distribution) if known == same else (known, value) for known, value in changed.items()]
            changed = dict(items if same else [*items, (name, distribution)])
    return changed


def plain_name(name: str) -> str:
    """Name of the parameter that the drawn one stands for."""
    return name.removesuffix(PLUS_ONE)


def to_parameters(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Turn what Optuna has drawn into parameters of the estimators."""
    return {plain_name(name): value - 1 if name.endswith(PLUS_ONE) else value for name, value in drawn.items()}


def to_drawn(parameters: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Turn parameters into what Optuna must draw for them: moved into the ranges, and only names of the space.

    None, which stands for a value that depends on the data, has no place in a range of numbers and is left out.
    """
    drawn = {}
    for name, distribution in space.items():
        if plain_name(name) not in parameters:
            continue
        value = parameters[plain_name(name)]
        if value is not None or isinstance(distribution, CategoricalDistribution):
            drawn[name] = _nearest(value + 1 if name.endswith(PLUS_ONE) else value, distribution)
    return drawn


def _suggest(trial: Any, name: str, distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    if isinstance(distribution, IntDistribution):
        return trial.suggest_int(
            name, distribution.low, distribution.high, step=distribution.step, log=distribution.log
        )
    if isinstance(distribution, FloatDistribution):
        return trial.suggest_float(
            name, distribution.low, distribution.high, step=distribution.step, log=distribution.log
        )
    raise TypeError(f"space[{name!r}] must be an Int, Float or CategoricalDistribution; got {distribution!r}.")


def _nearest(value: Any, distribution: BaseDistribution) -> Any:
    """Return the value that is in the range and closest to the one given."""
    if isinstance(distribution, CategoricalDistribution):
        return value if value in distribution.choices else distribution.choices[0]
    if isinstance(value, str):
        return distribution.high
    value = min(max(value, distribution.low), distribution.high)
    if distribution.step:
        value = distribution.low + round((value - distribution.low) / distribution.step) * distribution.step
    return value
