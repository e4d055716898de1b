"""The base-class schedule of Fast ABC-Boost: which class, if any, is the base of the next round.

A state machine without numba and without any boosting engine in it. An engine asks `plan` what the next round
does, tries the candidates it is given, reports their losses to `choose`, and tells `record` what it did. The
native booster and the LightGBM and XGBoost adapters all drive the same object.

A base that is drawn (`base_choice="drawn"`) needs to know how far what is learnt can be trusted. A large class as base
learns fast, and memorises noise fast. So every tenth round is a probe: its trees are grown without a fifth of the
samples, and `report_probe` is told how much the round would gain on its own samples and on those held out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from abc_plugins.core.runtime.checks import check_choice, check_integer, fail

BASE_CHOICES = ("worst", "drawn")

CLASSIC = -1
"""Recorded as the base of a round without a base class: every class grew a tree of its own."""

PROBE_EVERY = 10
"""Among this many rounds with a base class one is a probe."""

PROBE_PARTS = 5
"""The samples are cut into this many parts; each probe leaves out the next of them."""

_PROBES_TRUSTED = 2
"""Trust is the mean over this many of the last probes: on small data one alone is too noisy."""

_LARGEST_POWER = 2.0
_POWER_PER_TRUST = 4.0
"""Classes are drawn by the square of their loss if at least half of what is gained holds for held-out samples."""


@dataclass(frozen=True)
class RoundPlan:
    """What the next round does.

    Attributes
    ----------
    candidates : tuple of int
        Empty: a classic round, K trees. One class: an ABC round with that base. Several: an ABC round whose base
        is the candidate with the lowest training loss, see `BaseClassSchedule.choose`.
    centre : bool
        Subtract each sample's mean score first. True before the first ABC round: classic rounds do not keep the
        sum of the scores at zero, and the base's score is defined as minus the sum of the others.
    probe : int or None
        The part of the samples, from 0 to PROBE_PARTS - 1, that the trees are to be grown without, and then
        `BaseClassSchedule.report_probe` to be told; None if the round is no probe. An engine that does not probe may
        ignore it: all is trusted then.
    """

    candidates: tuple[int, ...]
    centre: bool
    probe: int | None = None

    @property
    def is_classic(self) -> bool:
        """Whether every class grows a tree of its own."""
        return not self.candidates


class BaseClassSchedule:
    """Decide the base class of every round.

    Parameters
    ----------
    n_classes : int
        K, at least 2.
    search : int or "all", default=2
        s: how many classes to try as base in a search, those that come first by `base_choice`.
    gap : int, default=10
        g: after a search, keep its base for this many rounds.
    warmup : int, default=10
        w: classic rounds before the first search.
    base_choice : {"worst", "drawn"}, default="worst"
        "worst", the paper's rule: classes with the largest training loss first. "drawn": classes drawn at random, with
        a probability in proportion to a power of their training loss: 4 times the `trust`, at most 2. A draw depends on
        nothing but the losses, the probes and the number of the round: the same ones make the same schedule.
    adaptive : bool, default=True
        False makes every round classic (MART and robust LogitBoost). Two classes have only one free score, so
        that the base makes no difference: every round is classic then, too.

    Examples
    --------
    >>> schedule = BaseClassSchedule(3, search=2, gap=1, warmup=0)
    >>> plan = schedule.plan([4.0, 9.0, 6.0])
    >>> plan.candidates
    (1, 2)
    >>> base = schedule.choose(plan, [10.0, 8.5])
    >>> schedule.record(base)
    >>> schedule.plan([1.0, 2.0, 3.0]).candidates
    (2,)
    """

    def __init__(
        self,
        n_classes: int,
        *,
        search: int | str = 2,
        gap: int = 10,
        warmup: int = 10,
        base_choice: str = "worst",
        adaptive: bool = True,
    ) -> None:
        self.n_classes = check_integer("n_classes", n_classes, minimum=2)
        self.adaptive = bool(adaptive) and self.n_classes > 2
        self.search = check_search(search, self.n_classes if self.adaptive else None)
        self.gap = check_integer("gap", gap, minimum=0)
        self.warmup = check_integer("warmup", warmup, minimum=0)
        self.base_choice = check_choice("base_choice", base_choice, BASE_CHOICES)
        self._bases: list[int] = []
        self._probes: list[tuple[float, float]] = []

    @property
    def bases(self) -> tuple[int, ...]:
        """The base class of every round so far, `CLASSIC` for a round without one."""
        return tuple(self._bases)

    @property
    def n_candidates(self) -> int:
        """How many classes a search tries."""
        return self.n_classes if self.search == "all" else int(self.search)

    @property
    def probes(self) -> tuple[tuple[float, float], ...]:
        """What the probes have reported: gains on samples seen and held out."""
        return tuple(self._probes)

    @property
    def trust(self) -> float:
        """The share of a round's gain that holds for held-out samples, from 0 to 1; 1 before the first probe."""
        if not self._probes:
            return 1.0
        seen, unseen = (sum(gains) for gains in zip(*self._probes[-_PROBES_TRUSTED:], strict=True))
        return min(max(unseen / seen, 0.0), 1.0) if seen > 0.0 else 0.0

    def plan(self, class_losses: Sequence[float]) -> RoundPlan:
        """Say what the next round does; asking changes nothing.

        Parameters
        ----------
        class_losses : sequence of float of length K
            For every class the summed training loss of its own samples. Before any round all samples have the
            same loss, and the sums are proportional to the class counts.
        """
        if len(class_losses) != self.n_classes:
            fail("class_losses", f"{len(class_losses)} values", f"one value for each of the {self.n_classes} classes")
        this_round = len(self._bases)
        if not self.adaptive or this_round < self.warmup:
            return RoundPlan((), centre=False)
        last_base = next((base for base in reversed(self._bases) if base != CLASSIC), None)
        searching = last_base is None or (this_round - self.warmup) % (self.gap + 1) == 0
        candidates = self._first_classes(class_losses) if searching else (last_base,)
        return RoundPlan(candidates, last_base is None, self._next_probe())  # type: ignore[arg-type]

    def choose(self, plan: RoundPlan, trial_losses: Sequence[float]) -> int:
        """Pick the candidate with the lowest total training loss; the earlier candidate wins a tie.

        A loss that is not a number never wins.
        """
        if plan.is_classic:
            fail("plan", "a classic round", "one of a round with candidates")
        if len(trial_losses) != len(plan.candidates):
            fail("trial_losses", f"{len(trial_losses)} values", f"one for each of {len(plan.candidates)} candidates")
        best, lowest = plan.candidates[0], math.inf
        for candidate, loss in zip(plan.candidates, trial_losses, strict=True):
            if loss < lowest:
                best, lowest = candidate, loss
        return best

    def report_probe(self, seen: float, unseen: float) -> None:
        """Note how much a probe lowered the training loss, by unit of weight.

        Parameters
        ----------
        seen : float
            Gain on the samples that its trees and leaf values were made from.
        unseen : float
            Gain on the part that was left out, with the same leaf values.
        """
        if not (math.isfinite(seen) and math.isfinite(unseen)):
            seen, unseen = 0.0, 0.0  # such a step is not to be trusted, and must not poison the sums
        self._probes.append((float(seen), float(unseen)))

    def record(self, base: int) -> None:
        """Note that a round was added to the model with this base, or `CLASSIC`."""
        self._bases.append(check_integer("base", base, minimum=CLASSIC, maximum=self.n_classes - 1))

    def to_state(self) -> dict[str, Any]:
        """Return the whole state as plain JSON values."""
        return {
            "n_classes": self.n_classes,
            "search": self.search,
            "gap": self.gap,
            "warmup": self.warmup,
            "base_choice": self.base_choice,
            "adaptive": self.adaptive,
            "bases": list(self._bases),
            "probes": [list(gains) for gains in self._probes],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> BaseClassSchedule:
        """Rebuild the schedule from what `to_state` returned."""
        expected = set(cls(2).to_state())
        if not isinstance(state, Mapping) or set(state) != expected:
            found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            fail("state", f"{found}", f"a mapping with the keys {sorted(expected)}")
        settings = dict(state)
        bases, probes = settings.pop("bases"), settings.pop("probes")
        if not all(isinstance(gains, list | tuple) and len(gains) == 2 for gains in probes):
            fail("probes", probes, "pairs of gains on samples seen and held out")
        schedule = cls(settings.pop("n_classes"), **settings)
        for base in bases:
            schedule.record(base)
        for seen, unseen in probes:
            schedule.report_probe(seen, unseen)
        return schedule

    def _next_probe(self) -> int | None:
        """The part of the samples that the next round is grown without, if it is a probe."""
        if self.base_choice != "drawn" or self.n_candidates == self.n_classes:
            return None  # nothing is drawn
        number, place = divmod(len(self._bases) - self.warmup, PROBE_EVERY)
        return number % PROBE_PARTS if place == PROBE_EVERY - 1 else None

    def _first_classes(self, class_losses: Sequence[float]) -> tuple[int, ...]:
        """The s classes that are first in line to be the base; ties go to the smaller class index."""
        losses = [_comparable(loss) for loss in class_losses]
        places = self._arrivals(losses) if self.base_choice == "drawn" else [-loss for loss in losses]
        order = sorted(range(self.n_classes), key=lambda k: (places[k], k))
        return tuple(order[: self.n_candidates])

    def _arrivals(self, losses: Sequence[float]) -> list[float]:
        """Arrival times in a race: who comes first is drawn in proportion to speeds, and so is who comes next.

        Exponential waiting times do that. The generator is Python's own, whose numbers no release changes.
        """
        random = Random(len(self._bases))
        waits = [-math.log(1.0 - random.random()) for _ in losses]
        largest = max((loss for loss in losses if 0.0 < loss < math.inf), default=1.0)
        power = min(_POWER_PER_TRUST * self.trust, _LARGEST_POWER)
        # Speeds are powers of losses in units of the largest, so that they stay within the range of a float.
        speeds = [(loss / largest) ** power if 0.0 < loss < math.inf else loss for loss in losses]
        return [wait / speed if speed > 0.0 else math.inf for wait, speed in zip(waits, speeds, strict=True)]


def check_search(search: int | str, n_classes: int | None) -> int | str:
    """Return `search` if it is "all" or a whole number from 1 to the number of classes."""
    if isinstance(search, str):
        if search != "all":
            fail("search", search, 'a whole number of at least 1, or "all"')
        return search
    limit = "" if n_classes is None else f" up to the number of classes ({n_classes})"
    allowed = f'a whole number from 1{limit}, or "all"'
    return check_integer("search", search, minimum=1, maximum=n_classes, allowed=allowed)


def _comparable(loss: float) -> float:
    """Sort a loss that is not a number as the worst there is."""
    return math.inf if math.isnan(loss) else loss
