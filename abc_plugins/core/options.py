"""What the adapters add to the parameters of LightGBM and XGBoost: one set of options, checked and documented once.

And what they know of a model that is continued.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, Self

from abc_plugins.core.directional.schedule import DirectionSchedule
from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.core.runtime.checks import check_choice, check_flag, check_integer, check_real
from abc_plugins.core.schedule import BASE_CHOICES, BaseClassSchedule, check_search
from abc_plugins.core.settings import DIRECTIONAL, LEAF_VALUES, MAX_TREES_PER_ROUND

PAIRS = "abcrobustlogit"
METHODS = (DIRECTIONAL, PAIRS)
LEAF_CLIP = 4.0
"""Default of the largest leaf value before shrinkage. Without one, scores of a base class run away on many classes."""

_SCHEDULES: dict[str, dict[str, int]] = {
    DIRECTIONAL: {"search": 1, "gap": 0, "warmup": 0},
    PAIRS: {"search": 2, "gap": 10, "warmup": 10},
}
_CLASSES_PER_TREE = 3
"""A round with one directional tree per three classes learns about as much as a classic round."""


@dataclass(frozen=True)
class BoostOptions:
    """Arguments that LightGBM and XGBoost do not have.

    Parameters
    ----------
    method : {"directional", "abcrobustlogit"}, default="directional"
        "directional": every tree is grown along a direction of class space and changes all classes. "abcrobustlogit":
        Fast ABC-Boost, trees of pairs of a class and the base class.
    trees_per_round : int or None, default=None
        Directional trees of a round; None is a third of the number of classes, rounded up.
    search : int, "all" or None, default=None
        s: candidates of a search. Pairs (default 2): classes tried as base, those with the largest training loss
        first. Directional trees (default 1): directions tried for each tree.
    gap : int or None, default=None
        g: rounds that keep the outcome of a search. 10 for pairs, 0 for directional trees.
    warmup : int or None, default=None
        w: classic rounds, of one tree for each class, at the start. 10 for pairs, 0 for directional trees.
    base_choice : {"worst", "drawn"}, default="worst"
        Pairs only: which classes come first in a search, those with the largest training loss, or classes drawn in
        proportion to a power of it. The power is lower the less of what is learnt holds for held-out samples. To
        measure that, every tenth round is a probe, whose trees are grown without a fifth of the samples.
    pair_samples_per_leaf : float, default=0
        Pairs only: a tree of two classes has at most one leaf per this many samples of the two, by weight; 0 is no
        limit.
    leaf_reg_lambda : float or None, default=None
        Directional trees only: added to the sums of hessians that leaf vectors are made of. None is 0.1 on LightGBM and
        1 on XGBoost.
    leaf_clip : float or None, default=4
        Largest leaf value before shrinkage, None for no limit; `max_delta_step` has precedence where it is given.
    leaf_values : {"paper", "sequential"}, default="paper"
        Pairs only. "paper": all trees of a round take their leaf values from the scores before it. "sequential": each
        tree's leaf values are computed again from the scores that the trees before it left, as those of directional
        trees always are.
    guard : bool, default=True
        Halve the step of a round that would raise the training loss. If that does not help, pairs are replaced by a
        classic round, and directional trees add nothing.
    """

    method: str = DIRECTIONAL
    trees_per_round: int | None = None
    search: int | str | None = None
    gap: int | None = None
    warmup: int | None = None
    base_choice: str = "worst"
    pair_samples_per_leaf: float = 0.0
    leaf_reg_lambda: float | None = None
    leaf_clip: float | None = LEAF_CLIP
    leaf_values: str = "paper"
    guard: bool = True

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        for name, value in _SCHEDULES[self.method].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        check_search(self.search, None)  # type: ignore[arg-type]
        check_integer("gap", self.gap, minimum=0)
        check_integer("warmup", self.warmup, minimum=0)
        if self.trees_per_round is not None:
            check_integer("trees_per_round", self.trees_per_round, minimum=1, maximum=MAX_TREES_PER_ROUND)
        check_choice("base_choice", self.base_choice, BASE_CHOICES)
        check_real("pair_samples_per_leaf", self.pair_samples_per_leaf, minimum=0.0)
        if self.leaf_reg_lambda is not None:
            check_real("leaf_reg_lambda", self.leaf_reg_lambda, minimum=0.0)
        if self.leaf_clip is not None:
            check_real("leaf_clip", self.leaf_clip, above=0.0, allowed="a number larger than 0, or None for no clip")
        check_choice("leaf_values", self.leaf_values, LEAF_VALUES)
        check_flag("guard", self.guard)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """List the names of all options."""
        return tuple(one.name for one in fields(cls))

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Check options given by name.

        Raises
        ------
        TypeError
            For a name that is none of them.
        """
        for name in options:
            if name not in cls.names():
                raise TypeError(
                    f"got an unexpected keyword argument {name!r}; it must be one of {', '.join(cls.names())}."
                )
        return cls(**options)

    @property
    def is_directional(self) -> bool:
        """Whether trees are grown along directions of class space."""
        return self.method == DIRECTIONAL

    def base_schedule(self, n_classes: int) -> BaseClassSchedule:
        """Start a schedule of base classes; `search` may not exceed the number of classes."""
        assert self.search is not None
        assert self.gap is not None
        assert self.warmup is not None
        return BaseClassSchedule(
            n_classes, search=self.search, gap=self.gap, warmup=self.warmup, base_choice=self.base_choice
        )

    def direction_schedule(self, n_classes: int, seed: int) -> DirectionSchedule:
        """Start a schedule of directions."""
        assert self.search is not None
        assert self.gap is not None
        assert self.warmup is not None
        return DirectionSchedule(
            n_classes,
            trees_per_round=self.count_trees(n_classes),
            search=self.search,
            gap=self.gap,
            warmup=self.warmup,
            seed=seed,
        )

    def count_trees(self, n_classes: int) -> int:
        """Count the directional trees of a round."""
        return self.trees_per_round or -(-n_classes // _CLASSES_PER_TREE)


@dataclass(frozen=True)
class Past:
    """What is known of the rounds of a model that is continued.

    Attributes
    ----------
    bases : tuple of int
        The base of every round.
    guarded_rounds : int
        Rounds whose step the guard shortened or replaced.
    importances : tuple of arrays of shape (n_features,), or None
        Splits and gains with every tree counted once; None if they are to be counted.
    directions : dict
        The state of the schedule of directions; empty if there is none to go on from.
    """

    bases: tuple[int, ...] = ()
    guarded_rounds: int = 0
    importances: tuple[Floats, Floats] | None = None
    directions: Mapping[str, Any] = field(default_factory=dict)


NO_PAST = Past()


def takes(options: type[BoostOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let the `__init__` of an estimator take options by name: they are in its signature, and become attributes.

    scikit-learn reads the parameters of an estimator from the signature, and expects them as attributes, unchecked.
    """
    defaults = {one.name: one.default for one in fields(options)}

    def decorate(init: Callable[..., None]) -> Callable[..., None]:
        @wraps(init)
        def __init__(self: Any, **kwargs: Any) -> None:
            given = {name: kwargs.pop(name, default) for name, default in defaults.items()}
            init(self, **kwargs)
            for name, value in given.items():
                setattr(self, name, value)

        signature = inspect.signature(init)
        *own, rest = signature.parameters.values()  # the last one is **kwargs
        named = [inspect.Parameter(name, rest.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
        __init__.__signature__ = signature.replace(parameters=[*own, *named, rest])  # type: ignore[attr-defined]
        return __init__

    return decorate
