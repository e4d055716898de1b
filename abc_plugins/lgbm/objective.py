"""An objective for a lightgbm.train call of one's own."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np

from abc_plugins.core.additions import FoundLeaves, LeafFinder
from abc_plugins.core.leaves import Update, make_update
from abc_plugins.core.options import PAIRS, Past
from abc_plugins.core.pair_rounds import PairRounds
from abc_plugins.core.pairs import Pair, classic_pairs
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan
from abc_plugins.core.scores import PairScores
from abc_plugins.lgbm.exporting import finish
from abc_plugins.lgbm.internals import get_predictor
from abc_plugins.lgbm.lightgbm_grower import LightGBMGrower, class_labels
from abc_plugins.lgbm.params import ABCOptions, TrainingParams, main_names, whole_number
from abc_plugins.lgbm.text import TaggedTree, TreeText, is_stump, leaf_values, read_model, scaled
from abc_plugins.lgbm.trainer import TrainedModel


class _Round(NamedTuple):
    """A round that was seen to its end; factor 0 means that nothing of it stays in the model."""

    base: int
    stalled: bool
    factor: float


class ABCObjective:
    """Gradients with an adaptive base class, for `params["objective"]` of a `lightgbm.train` call.

    `abc_plugins.lgbm.train` does more (metrics, early stopping, the leaf clip, continued training) and is what most
    want. This is for code that must own the training loop. LightGBM's booster then holds the trees, but not what they
    take from the base class: its predictions and metrics are wrong until `finalise` has turned it into a stock
    multiclass model. Set `max_delta_step` (4 is a good value) in your parameters.

    Parameters
    ----------
    params : dict
        The parameters of the `lightgbm.train` call, without the objective. Needed for `num_class`, and to grow the
        candidates of a search in a private booster on the same Dataset.
    search, gap, warmup, guard
        As in `abc_plugins.lgbm.train`. With search=1 there is no private booster. The guard cannot replace a round by
        a classic one here; a round that does not help at all is left out of the finished model.

    Attributes
    ----------
    base_classes : tuple of int
        The base of every round so far, -1 for a classic one.
    n_scout_trees : int
        Trees grown in the private booster.

    Examples
    --------
    >>> objective = ABCObjective(params)                                          # doctest: +SKIP
    >>> booster = lgb.train({**params, "objective": objective}, train_set, 200)   # doctest: +SKIP
    >>> model = objective.finalise(booster)                                       # doctest: +SKIP
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        *,
        search: int | str = 2,
        gap: int = 10,
        warmup: int = 10,
        guard: bool = True,
    ) -> None:
        options = ABCOptions(PAIRS, search=search, gap=gap, warmup=warmup, leaf_clip=None, guard=guard)
        given = main_names({name: value for name, value in params.items() if not callable(value)}, ("num_class",))
        n_classes = whole_number("num_class", given.get("num_class"), minimum=3, allowed="at least 3, in params")
        self._params = TrainingParams.check(given, options, n_classes)
        self._slots: list[Pair | None] | None
        self._retired: list[weakref.ref[AnyArray]] = []
        self._forget()

    def __deepcopy__(self, memo: dict[int, Any]) -> ABCObjective:
        """Stay the same object: lightgbm.train copies its parameters, and the state must not split in two."""
        return self

    @property
    def base_classes(self) -> tuple[int, ...]:
        """The base of every round so far, -1 for a classic one; a round that is going on is included."""
        done = tuple(round_.base for round_ in self._rounds)
        return done if self._slots is None else (*done, self._base)

    def __call__(self, sums: Floats, train_data: lgb.Dataset) -> tuple[AnyArray, AnyArray]:
        """Return gradients and hessians of shape (n_samples, n_classes)."""
        if self._state is None or sums.base is not self._buffer:
            self._start(sums, train_data)
        else:
            self._complete(sums.T)
        assert self._state is not None
        self._base = self._choose(self._state.plan(self._schedule), train_data)
        n_classes = self._params.n_classes
        if self._base == CLASSIC:
            self._slots = list(classic_pairs(n_classes))
        else:
            self._slots = [None if k == self._base else (k, self._base) for k in range(n_classes)]
        everything = np.arange(self._state.labels.size)
        self._state.gradients(self._slots, everything, self._gradients, self._hessians)
        return self._gradients.T, self._hessians.T

    @property
    def n_scout_trees(self) -> int:
        """Trees grown in the private booster."""
        return 0 if self._scout is None else self._scout.trees_grown

    def finalise(self, booster: lgb.Booster, *, layout: str = "compact") -> lgb.Booster:
        """Turn the booster that was trained with this objective into a stock multiclass model.

        The last round is taken as it is: its effect on the training loss was never seen.
        """
        if self._state is None:
            fail("booster", booster, "one that was trained with this objective")
        frame, trees = read_model(booster.model_to_string(num_iteration=-1))
        n_classes = self._params.n_classes
        iterations = [trees[i : i + n_classes] for i in range(0, len(trees), n_classes)]
        rounds = list(self._rounds)
        grown = sum(not round_.stalled for round_ in rounds)
        stalled_start = self._n_initial < len(iterations) and all(map(_is_nothing, iterations[self._n_initial]))
        new = iterations[self._n_initial + stalled_start :]
        if self._slots is not None:
            rounds.append(_Round(self._base, stalled=len(new) == grown, factor=1.0))
        if sum(not round_.stalled for round_ in rounds) != len(new):
            fail("booster", f"one with {len(new)} new iterations", f"the one trained last, with {grown} or one more")
        remaining = iter(new)
        model = TrainedModel(
            params=self._params,
            frame=frame,
            initial_trees=[tree for iteration in iterations[: self._n_initial] for tree in iteration],
            rounds=[() if round_.stalled else _tagged(next(remaining), round_) for round_ in rounds],
            bases=[CLASSIC] * self._n_initial + [round_.base for round_ in rounds],
            past=Past((CLASSIC,) * self._n_initial),
            guarded_rounds=sum(not round_.stalled and round_.factor < 1.0 for round_ in rounds),
        )
        return finish(model, best_round=max(booster.best_iteration, 0), layout=layout)

    def _forget(self) -> None:
        self._state: PairScores | None = None
        self._buffer: AnyArray | None = None
        self._rounds: list[_Round] = []
        self._slots = None
        self._base = CLASSIC
        self._scout: PairRounds | None = None
        self._n_initial = 0

    def _start(self, sums: Floats, train_data: lgb.Dataset) -> None:
        """Begin a new training; LightGBM hands out one buffer of sums for each booster."""
        if any(reference() is sums.base for reference in self._retired):
            fail("objective", "one shared by several boosters", "one for each booster; see abc_plugins.lgbm.cv")
        if self._buffer is not None:
            self._retired = [r for r in self._retired if r() is not None] + [weakref.ref(self._buffer)]
        self._forget()
        if sums.shape[1] != self._params.n_classes:
            fail("num_class", self._params.n_classes, f"the booster's number of classes, {sums.shape[1]}")
        self._buffer = sums.base
        self._sums = np.array(sums.T)
        predictor = get_predictor(train_data)
        self._n_initial = 0 if predictor is None else predictor.current_iteration()
        self._schedule: BaseClassSchedule = self._params.options.base_schedule(self._params.n_classes)
        for _ in range(self._n_initial):
            self._schedule.record(CLASSIC)
        labels, weights = class_labels(train_data, self._params.n_classes), train_data.get_field("weight")
        self._state = PairScores(labels, weights, self._sums, Workers(1))
        self._gradients = np.empty(self._sums.shape, dtype=np.float32)
        self._hessians = np.empty_like(self._gradients)

    def _complete(self, sums: Floats) -> None:
        """See what the trees of the round before have added, and take it over as far as the guard allows."""
        assert self._state is not None
        assert self._slots is not None
        additions = sums - self._sums
        self._sums[:] = sums
        stalled = not additions.any()
        factor = 0.0
        if not stalled:
            update, leaf_ids = _step_of(self._slots, additions)
            factor = self._state.take(update, leaf_ids, guard=self._params.options.guard)
        self._schedule.record(self._base)
        self._rounds.append(_Round(self._base, stalled, factor))

    def _choose(self, plan: RoundPlan, train_data: lgb.Dataset) -> int:
        """The base of a planned round; trees of several candidates are grown in a booster of our own."""
        if len(plan.candidates) < 2:
            return CLASSIC if plan.is_classic else plan.candidates[0]
        if self._scout is None:
            assert self._state is not None
            booster = lgb.Booster(self._params.grower, train_data)
            options, rules = self._params.options, self._params.leaf_rules(booster.params)
            engine = LightGBMGrower(self._params, booster)
            self._scout = PairRounds(
                self._state, self._schedule, rules, engine, leaf_values=options.leaf_values, guard=options.guard
            )
        return self._scout.propose(plan)[0]


def _step_of(slots: list[Pair | None], additions: Floats) -> tuple[Update, AnyArray]:
    """A step of trees that are known by what they add to the samples, and the leaves that tells."""
    rows = [row for row, slot in enumerate(slots) if slot is not None]
    pairs = [slot for slot in slots if slot is not None]
    leaves = FoundLeaves([LeafFinder(additions[row]) for row in rows], [additions[row] for row in rows])
    return make_update(pairs, pairs, leaves.values()), leaves.ids(range(len(rows)))


def _is_nothing(tree: TreeText) -> bool:
    return is_stump(tree) and not leaf_values(tree).any()


def _tagged(trees: list[TreeText], round_: _Round) -> list[TaggedTree]:
    """Tag an iteration's trees; the base's own tree is a stump of 0 and is left out, like all others."""
    if round_.factor == 0.0:
        return []
    return [
        TaggedTree(k, round_.base, tree if round_.factor == 1.0 else scaled(tree, round_.factor))
        for k, tree in enumerate(trees)
        if not is_stump(tree)
    ]
