"""The base-class schedule, alone and against the naive one."""

import doctest
import json
import math
from dataclasses import dataclass

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abc_plugins.core import schedule as schedule_module
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan

# Few distinct values make ties common.
LOSSES = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 5e-324, 1e200, math.inf, math.nan]) | st.floats(0, 1e6)


@dataclass(frozen=True)
class Drive:
    """A schedule's settings, what happens in every round, and the round after which it is saved and loaded."""

    n_classes: int
    search: int | str
    gap: int
    warmup: int
    base_choice: str
    adaptive: bool
    class_losses: list
    trial_losses: list
    given_up: list  # rounds that an engine makes classic after all
    saved_after: int

    def schedule(self):
        return BaseClassSchedule(
            self.n_classes,
            search=self.search,
            gap=self.gap,
            warmup=self.warmup,
            base_choice=self.base_choice,
            adaptive=self.adaptive,
        )

    def of_round(self, m):
        return self.class_losses[m], self.trial_losses[m], self.given_up[m]


@st.composite
def drives(draw):
    n_classes = draw(st.integers(2, 7))
    n_rounds = draw(st.integers(1, 14))
    per_class = st.lists(LOSSES, min_size=n_classes, max_size=n_classes)
    per_round = st.lists(per_class, min_size=n_rounds, max_size=n_rounds)
    return Drive(
        n_classes,
        search=draw(st.integers(1, n_classes) | st.just("all")),
        gap=draw(st.integers(0, 5)),
        warmup=draw(st.integers(0, 5)),
        base_choice=draw(st.sampled_from(["worst", "drawn"])),
        adaptive=draw(st.booleans()),
        class_losses=draw(per_round),
        trial_losses=draw(per_round),
        given_up=draw(st.lists(st.sampled_from([False, False, True]), min_size=n_rounds, max_size=n_rounds)),
        saved_after=draw(st.integers(0, n_rounds)),
    )


def naive_bases(drive):
    """Candidates and base of every round, by the oracle."""
    settings = naive.Settings(
        "abcmart" if drive.adaptive else "mart",
        search=drive.search,
        gap=drive.gap,
        warmup=drive.warmup,
        base_choice=drive.base_choice,
    )
    base, history = None, []
    for m, losses in enumerate(drive.class_losses):
        candidates = naive.round_candidates(m, losses, base, settings)
        has_base = bool(candidates) and not drive.given_up[m]
        if has_base:
            base = naive.lowest(candidates, drive.trial_losses[m][: len(candidates)])
        history.append((tuple(candidates), base if has_base else naive.CLASSIC))
    return history


def advance(schedule, class_losses, trial_losses, given_up=False):
    """One round as an engine drives it; returns the plan and the base."""
    plan = schedule.plan(class_losses)
    is_classic = plan.is_classic or given_up
    base = CLASSIC if is_classic else schedule.choose(plan, trial_losses[: len(plan.candidates)])
    schedule.record(base)
    return plan, base


@given(drives())
def test_same_candidates_and_bases_as_the_oracle(drive):
    schedule = drive.schedule()
    for m, (candidates, base) in enumerate(naive_bases(drive)):
        plan, chosen = advance(schedule, *drive.of_round(m))
        assert (plan.candidates, chosen) == (candidates, base)
    assert schedule.bases == tuple(base for _, base in naive_bases(drive))


@pytest.mark.parametrize("scale", [1.0, 1e-170, 1e300])
def test_classes_are_drawn_in_proportion_to_squared_losses(scale):
    losses = [scale, 2 * scale, 0.0, 3 * scale]
    schedule = BaseClassSchedule(4, search=2, gap=0, warmup=0, base_choice="drawn")
    n_rounds = 4000
    firsts, seconds = np.zeros((2, 4))
    for _ in range(n_rounds):
        first, second = schedule.plan(losses).candidates
        firsts[first] += 1
        seconds[second] += 1
        schedule.record(first)
    shares = np.array([1, 4, 0, 9]) / 14
    assert firsts[2] == 0
    np.testing.assert_allclose(firsts / n_rounds, shares, atol=4 * np.sqrt(0.25 / n_rounds))
    # Drawn without replacement: second is k with the share of j times that of k among the others, for every j first.
    others = [sum(shares[j] * shares[k] / (1 - shares[j]) for j in range(4) if j != k) for k in range(4)]
    np.testing.assert_allclose(seconds / n_rounds, others, atol=4 * np.sqrt(0.25 / n_rounds))


@pytest.mark.parametrize(
    ("probes", "trust"),
    [
        ([], 1.0),
        ([(2.0, 1.0)], 0.5),
        ([(9.0, 9.0), (2.0, 1.0), (2.0, 0.5)], 0.375),  # the last two
        ([(2.0, -1.0)], 0.0),
        ([(2.0, 3.0)], 1.0),
        ([(0.0, 0.0)], 0.0),
        ([(-1.0, -1.0)], 0.0),
        ([(2.0, 1.0), (math.nan, 1.0), (math.inf, math.inf)], 0.0),  # nothing that can be trusted
        ([(2.0, 1.0), (1.0, math.nan)], 0.5),
    ],
)
def test_trust_is_the_share_of_the_gain_that_holds_for_samples_not_seen(probes, trust):
    schedule = BaseClassSchedule(3, base_choice="drawn")
    for seen, unseen in probes:
        schedule.report_probe(seen, unseen)
    assert schedule.trust == trust
    assert BaseClassSchedule.from_state(schedule.to_state()).trust == trust


@pytest.mark.parametrize(("trust", "shares"), [(0.0, [1, 1, 0, 1]), (0.25, [1, 2, 0, 3]), (0.8, [1, 4, 0, 9])])
def test_draws_follow_the_losses_less_where_they_are_not_to_be_trusted(trust, shares):
    schedule = BaseClassSchedule(4, search=1, gap=0, warmup=0, base_choice="drawn")
    schedule.report_probe(1.0, trust)
    n_rounds = 4000
    counts = np.zeros(4)
    for _ in range(n_rounds):
        (base,) = schedule.plan([1.0, 2.0, 0.0, 3.0]).candidates
        counts[base] += 1
        schedule.record(base)
    np.testing.assert_allclose(counts / n_rounds, np.array(shares) / sum(shares), atol=4 * np.sqrt(0.25 / n_rounds))


def test_a_class_without_a_number_for_its_loss_is_the_base_whatever_the_trust():
    schedule = BaseClassSchedule(3, search=1, gap=0, warmup=0, base_choice="drawn")
    schedule.report_probe(1.0, 0.0)
    for _ in range(20):
        assert schedule.plan([1.0, math.nan, 1.0]).candidates == (1,)
        schedule.record(1)


def test_every_tenth_round_with_a_base_is_a_probe_of_the_next_part():
    schedule = BaseClassSchedule(3, search=1, gap=3, warmup=4, base_choice="drawn")
    probes = []
    for m in range(70):
        probe = schedule.plan([1.0, 1.0, 1.0]).probe
        if probe is not None:
            probes.append((m, probe))
        schedule.record(CLASSIC if m < 4 else 0)
    assert probes == [(13, 0), (23, 1), (33, 2), (43, 3), (53, 4), (63, 0)]


@pytest.mark.parametrize(
    "options",
    [{"base_choice": "worst"}, {"adaptive": False}, {"search": 3}, {"search": "all"}],
)
def test_others_do_not_probe(options):
    schedule = BaseClassSchedule(3, **{"search": 1, "warmup": 0, "base_choice": "drawn"} | options)
    for _ in range(30):
        assert schedule.plan([1.0, 1.0, 1.0]).probe is None
        schedule.record(0)


def test_draws_are_those_of_the_round():
    """Not of what was asked before, nor of the process: written down, as models depend on them."""
    schedule = BaseClassSchedule(5, search=1, gap=0, warmup=0, base_choice="drawn")
    bases = []
    for _ in range(12):
        schedule.plan([1.0, 1.0, 1.0, 1.0, 1.0])
        bases += schedule.plan([1.0, 1.0, 1.0, 1.0, 1.0]).candidates
        schedule.record(bases[-1])
    assert bases == [3, 0, 2, 0, 4, 0, 4, 3, 4, 4, 3, 0]


@given(drives())
def test_a_saved_schedule_goes_on_as_if_nothing_happened(drive):
    schedule = drive.schedule()
    for m in range(drive.saved_after):
        advance(schedule, *drive.of_round(m))
    resumed = BaseClassSchedule.from_state(json.loads(json.dumps(schedule.to_state())))
    assert resumed.to_state() == schedule.to_state()
    assert resumed.bases == schedule.bases
    for m in range(drive.saved_after, len(drive.class_losses)):
        assert advance(resumed, *drive.of_round(m)) == advance(schedule, *drive.of_round(m))


@given(drives())
def test_scores_are_centred_once_right_before_the_first_base(drive):
    schedule = drive.schedule()
    for m in range(len(drive.class_losses)):
        before = schedule.bases
        plan, _ = advance(schedule, *drive.of_round(m))
        assert plan.centre == (not plan.is_classic and set(before) <= {CLASSIC})


@given(drives())
def test_asking_changes_nothing(drive):
    schedule = drive.schedule()
    for m, losses in enumerate(drive.class_losses):
        state = schedule.to_state()
        assert schedule.plan(losses) == schedule.plan(losses)
        assert schedule.to_state() == state
        advance(schedule, *drive.of_round(m))


@given(drives())
def test_a_search_tries_distinct_classes_and_the_worst_unless_drawn(drive):
    schedule = drive.schedule()
    for m, losses in enumerate(drive.class_losses):
        plan, base = advance(schedule, *drive.of_round(m))
        if len(plan.candidates) <= 1:
            continue
        assert base in (*plan.candidates, CLASSIC)
        assert len(set(plan.candidates)) == len(plan.candidates) == schedule.n_candidates
        as_numbers = np.nan_to_num(losses, nan=math.inf, posinf=math.inf)
        others = set(range(drive.n_classes)) - set(plan.candidates)
        worst = as_numbers[list(plan.candidates)].min()
        assert drive.base_choice == "drawn" or all(as_numbers[k] <= worst for k in others)
        assert worst > 0.0 or all(as_numbers[k] < 1e-300 for k in others)  # without loss only when there is no other


def test_the_example_of_the_documentation_runs():
    results = doctest.testmod(schedule_module)
    assert results.attempted > 0
    assert results.failed == 0


def test_warm_up_search_and_gap():
    schedule = BaseClassSchedule(4, search=2, gap=2, warmup=2)
    losses = [1.0, 4.0, 2.0, 3.0]
    plans = [advance(schedule, losses, [8.0, 7.0])[0].candidates for _ in range(9)]
    assert plans == [(), (), (1, 3), (3,), (3,), (1, 3), (3,), (3,), (1, 3)]
    assert schedule.bases == (-1, -1, 3, 3, 3, 3, 3, 3, 3)


def test_the_base_is_kept_even_if_another_class_becomes_worst():
    schedule = BaseClassSchedule(3, search=1, gap=3, warmup=0)
    plans = [advance(schedule, losses, [1.0])[0] for losses in ([9.0, 1, 1], [1.0, 9, 1], [1.0, 1, 9])]
    assert [plan.candidates for plan in plans] == [(0,), (0,), (0,)]


def test_ties_go_to_the_smaller_class_and_to_the_earlier_candidate():
    schedule = BaseClassSchedule(5, search=3, gap=0, warmup=0)
    plan = schedule.plan([2.0, 7.0, 2.0, 7.0, 2.0])
    assert plan.candidates == (1, 3, 0)
    assert schedule.choose(plan, [5.0, 5.0, 5.0]) == 1
    assert schedule.choose(plan, [6.0, 5.0, 5.0]) == 3


def test_losses_that_are_not_numbers():
    schedule = BaseClassSchedule(4, search=2, gap=0, warmup=0)
    plan = schedule.plan([1.0, math.nan, 9.0, math.nan])
    assert plan.candidates == (1, 3)
    assert schedule.choose(plan, [math.nan, 1e300]) == 3
    assert schedule.choose(plan, [math.nan, math.nan]) == 1
    assert schedule.choose(plan, [math.inf, math.inf]) == 1


@pytest.mark.parametrize("arguments", [{"n_classes": 2}, {"n_classes": 5, "adaptive": False}])
def test_without_a_base_every_round_is_classic(arguments):
    schedule = BaseClassSchedule(**arguments, search=3, gap=0, warmup=0)
    for _ in range(4):
        plan, base = advance(schedule, [1.0] * arguments["n_classes"], [])
        assert plan == RoundPlan((), centre=False)
        assert base == CLASSIC


@pytest.mark.parametrize(("search", "expected"), [(1, 1), (4, 4), ("all", 4), (np.int64(3), 3)])
def test_number_of_candidates(search, expected):
    schedule = BaseClassSchedule(4, search=search, gap=0, warmup=0)
    assert schedule.n_candidates == expected
    assert len(schedule.plan([1.0, 2.0, 3.0, 4.0]).candidates) == expected


def test_numpy_numbers_become_plain_ones():
    schedule = BaseClassSchedule(np.int64(3), search=np.int32(2), gap=np.int8(0), warmup=np.uint8(0))
    plan = schedule.plan(np.array([1.0, 3.0, 2.0]))
    schedule.record(np.int32(schedule.choose(plan, np.array([2.0, 1.0]))))
    state = schedule.to_state()
    assert json.loads(json.dumps(state)) == state
    assert state == {
        "n_classes": 3,
        "search": 2,
        "gap": 0,
        "warmup": 0,
        "base_choice": "worst",
        "adaptive": True,
        "bases": [2],
        "probes": [],
    }


def test_the_state_is_a_copy():
    schedule = BaseClassSchedule(3, warmup=0)
    state = schedule.to_state()
    state["bases"].append(1)
    assert schedule.bases == ()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"n_classes": 1}, ValueError, r"n_classes must be a whole number of at least 2; got 1\."),
        ({"n_classes": 2.0}, TypeError, r"n_classes must be a whole number of at least 2; got 2\.0\."),
        ({"n_classes": True}, TypeError, r"n_classes must be a whole number of at least 2; got True\."),
        ({"search": 0}, ValueError, r'search must be a whole number from 1 up to .*\(4\), or "all"; got 0\.'),
        ({"search": 5}, ValueError, r'search must be a whole number from 1 up to .*\(4\), or "all"; got 5\.'),
        ({"search": 1.5}, TypeError, r"search must be .* got 1\.5\."),
        ({"search": None}, TypeError, r"search must be .* got None\."),
        ({"search": True}, TypeError, r"search must be .* got True\."),
        ({"search": "every"}, ValueError, r"search must be .*or \"all\"; got 'every'\."),
        ({"search": 0, "adaptive": False}, ValueError, r'search must be a whole number from 1, or "all"; got 0\.'),
        ({"gap": -1}, ValueError, r"gap must be a whole number of at least 0; got -1\."),
        ({"gap": 2.5}, TypeError, r"gap must be a whole number of at least 0; got 2\.5\."),
        ({"warmup": -1}, ValueError, r"warmup must be a whole number of at least 0; got -1\."),
        ({"warmup": "10"}, TypeError, r"warmup must be a whole number of at least 0; got '10'\."),
    ],
)
def test_bad_settings(arguments, kind, message):
    with pytest.raises(kind, match=message):
        BaseClassSchedule(**{"n_classes": 4} | arguments)


@pytest.mark.parametrize("losses", [[], [1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
def test_class_losses_must_be_one_a_class(losses):
    with pytest.raises(ValueError, match=rf"class_losses must be one value for each of the 3 .* got {len(losses)} v"):
        BaseClassSchedule(3).plan(losses)


def test_trial_losses_must_be_one_a_candidate():
    schedule = BaseClassSchedule(3, search=2, warmup=0)
    plan = schedule.plan([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="trial_losses must be one for each of 2 candidates; got 3 values"):
        schedule.choose(plan, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(("base", "kind"), [(-2, ValueError), (3, ValueError), (1.0, TypeError), (None, TypeError)])
def test_a_recorded_base_must_be_a_class(base, kind):
    schedule = BaseClassSchedule(3)
    with pytest.raises(kind, match=r"base must be a whole number from -1 to 2; got"):
        schedule.record(base)
    assert schedule.bases == ()


def test_a_state_with_an_impossible_base_is_refused():
    state = BaseClassSchedule(3, warmup=0).to_state() | {"bases": [0, 5]}
    with pytest.raises(ValueError, match="base must be a whole number from -1 to 2; got 5"):
        BaseClassSchedule.from_state(state)


@pytest.mark.parametrize("probes", [[1.0], [[1.0]], [[1.0, 2.0, 3.0]]])
def test_a_state_with_impossible_probes_is_refused(probes):
    state = BaseClassSchedule(3, warmup=0).to_state() | {"probes": probes}
    with pytest.raises(ValueError, match="probes must be pairs of gains on samples seen and held out"):
        BaseClassSchedule.from_state(state)


def test_choosing_in_a_classic_round_is_an_error():
    schedule = BaseClassSchedule(3, warmup=1)
    plan = schedule.plan([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="plan must be one of a round with candidates; got a classic round"):
        schedule.choose(plan, [])


@pytest.mark.parametrize("state", [{}, {"n_classes": 3}, {**BaseClassSchedule(3).to_state(), "more": 1}, [1, 2]])
def test_a_state_with_other_keys_is_an_error(state):
    with pytest.raises(ValueError, match="state must be a mapping with the keys"):
        BaseClassSchedule.from_state(state)
