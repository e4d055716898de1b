"""The search space: names and ranges that depend on the number of classes, and the trials to start with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from abc_plugins.core.runtime.checks import check_integer, fail

Space = dict[str, BaseDistribution]
"""Name of a parameter -> its range."""

PLUS_ONE = "_plus_1"
"""Ending of a parameter that is drawn one larger than it is: a logarithmic range cannot begin at 0."""

MAX_SEARCH = 8
SCHEDULE = ("search", "gap", "warmup")


def default_space(n_classes: int, *, exhaustive: bool = False, regularisation: bool = False) -> Space:
    """Ranges of s, g, w, J and nu for a number of classes.

    Parameters
    ----------
    n_classes : int
        K. With two classes there is no base class to choose, and s, g and w are left out.
    exhaustive : bool, default=False
        Let `search` be "all" as well where K is larger than 8. An exhaustive search grows K(K-1)/2 trees.
    regularisation : bool, default=False
        Add the smallest leaf, the L2 penalty (up to 1: sums of hessians are small here), and the shares
        of samples and features.

    Returns
    -------
    dict of str to optuna distribution
        `gap_plus_1` stands for the gap, g, which is drawn on a logarithmic scale from 0 on.
    """
    check_integer("n_classes", n_classes, minimum=2)
    space: Space = {}
    if n_classes > 2:
        sizes = range(1, min(n_classes, MAX_SEARCH) + 1)
        space["search"] = IntDistribution(1, sizes[-1])
        if exhaustive and n_classes > MAX_SEARCH:
            space["search"] = CategoricalDistribution([*sizes, "all"])
        space["gap" + PLUS_ONE] = IntDistribution(1, 201, log=True)
        space["warmup"] = IntDistribution(0, 100)
    space["num_leaves"] = IntDistribution(4, 64, log=True)
    space["learning_rate"] = FloatDistribution(0.02, 0.3, log=True)
    if regularisation:
        space["min_samples_leaf"] = IntDistribution(1, 50, log=True)
        space["reg_lambda"] = FloatDistribution(1e-5, 1.0, log=True)
        space["subsample"] = FloatDistribution(0.5, 1.0)
        space["colsample"] = FloatDistribution(0.5, 1.0)
    return space


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
        changed = {known: value for known, value in changed.items() if plain_name(known) != plain_name(name)}
        if distribution is not None:
            changed[name] = distribution
    return changed


def plain_name(name: str) -> str:
    """Name of the parameter that the drawn one stands for."""
    return name.removesuffix(PLUS_ONE)


def draw(trial: Any, space: Space) -> dict[str, Any]:
    """Let an Optuna trial choose a value for every parameter of the space."""
    drawn = {}
    for name, distribution in space.items():
        drawn[name] = _suggest(trial, name, distribution)
    return to_parameters(drawn)


def to_parameters(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Turn what Optuna has drawn into parameters of the estimators."""
    return {plain_name(name): value - 1 if name.endswith(PLUS_ONE) else value for name, value in drawn.items()}


def to_drawn(parameters: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Turn parameters into what Optuna must draw for them: moved into the ranges, and only names of the space."""
    drawn = {}
    for name, distribution in space.items():
        if plain_name(name) in parameters:
            value = parameters[plain_name(name)]
            drawn[name] = _nearest(value + 1 if name.endswith(PLUS_ONE) else value, distribution)
    return drawn


def has_value(space: Space, name: str, value: Any) -> bool:
    """Whether a parameter of the space can have this value."""
    return all(to_parameters({own: drawn}) == {name: value} for own, drawn in to_drawn({name: value}, space).items())


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
