"""The round loop: no pair grown twice, draws that depend on the seed alone, the same bits whoever runs it."""

import hashlib
import multiprocessing
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import paper_settings

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.booster import Booster
from abc_plugins.core.model.ensemble import FlatTrees
from abc_plugins.core.rounds import draw_sample
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.trees.round_grower import RoundGrower

PAPER = {"method": "abcrobustlogit"}
QUICK = {"n_estimators": 6, "num_leaves": 5, "max_depth": 3, "min_samples_leaf": 3, "search": 3, "gap": 1, "warmup": 2}


def digest(model):
    """A hash of every bit of a model."""
    trees = model.model_.flat()
    state = hashlib.sha256(model.train_loss_.tobytes() + model.base_classes_.tobytes())
    for name in FlatTrees.__dataclass_fields__:
        state.update(np.ascontiguousarray(getattr(trees, name)).tobytes())
    return state.hexdigest()


def fit(data, **settings):
    return ABCBoostClassifier(**{**QUICK, **PAPER, "n_jobs": 1, **settings}).fit(data.X, data.y)


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
@pytest.mark.parametrize(("K", "search"), [(5, 3), (5, "all"), (4, 1)])
def test_a_search_never_grows_a_pair_twice(make_data, monkeypatch, K, search, leaf_values):
    calls = []
    grow = RoundGrower.grow

    def spy(self, probabilities, pairs, sample, round_index, **steps):
        calls.append(list(pairs))
        grow(self, probabilities, pairs, sample, round_index, **steps)

    monkeypatch.setattr(RoundGrower, "grow", spy)
    model = fit(make_data(K, 80), search=search, leaf_values=leaf_values)
    s = K if search == "all" else search
    sizes = [K, K, s * (K - 1) - s * (s - 1) // 2, K - 1, s * (K - 1) - s * (s - 1) // 2, K - 1]
    assert [len(pairs) for pairs in calls] == sizes
    assert all(len({frozenset(pair) for pair in pairs}) == len(pairs) for pairs in calls)
    assert model.trees_grown_ == sum(sizes)
    assert model.model_.n_trees == 2 * K + 4 * (K - 1)
    for base, trees in zip(model.base_classes_, model.model_.rounds(), strict=True):
        minus = {tree.minus for tree in trees}
        assert minus == {base}
        assert [tree.plus for tree in trees] == [k for k in range(K) if k != base]


def test_two_classes_have_one_tree_a_round(make_data):
    data = make_data(2, 80)
    plain, adaptive = fit(data, method="robustlogit"), fit(data, method="abcrobustlogit")
    assert digest(plain) == digest(adaptive)
    assert plain.model_.n_trees == plain.trees_grown_ == QUICK["n_estimators"]
    assert plain.base_classes_.tolist() == [CLASSIC] * QUICK["n_estimators"]
    (tree,) = next(plain.model_.rounds())
    assert (tree.plus, tree.minus) == (1, 0)


def test_scores_of_the_booster_are_those_of_its_trees(make_data):
    data = make_data(4, 90, missing=0.1)
    settings = paper_settings(**QUICK, subsample=0.6, colsample=0.5, seed=3)
    with Workers(2) as workers:
        labels, weights = data.y.astype(np.int32), np.ones(90)
        booster = Booster(make_training_data(data.X, labels, weights, 4, 255, workers), settings, workers)
        for m in range(6):
            booster.run_round()
            assert booster.model.n_rounds == len(booster.train_loss) == len(booster.schedule.bases) == m + 1
        raw = booster.model.raw_scores(data.X, workers)
    losses = np.log(np.exp(raw).sum(axis=1)) - raw[np.arange(90), data.y]
    assert booster.train_loss[-1] == pytest.approx(losses.sum(), rel=1e-12)


@pytest.mark.parametrize("option", ["subsample", "colsample"])
def test_draws_depend_on_the_seed_alone(make_data, option):
    data = make_data(4, 120, 8)
    drawn = {seed: digest(fit(data, random_state=seed, **{option: 0.5})) for seed in (0, 1)}
    assert digest(fit(data, random_state=0, n_jobs=2, **{option: 0.5})) == drawn[0] != drawn[1]
    assert digest(fit(data, random_state=0)) == digest(fit(data, random_state=1)) not in drawn.values()


def test_every_round_draws_its_share_of_the_samples(make_data, monkeypatch):
    samples = []
    grow = RoundGrower.grow

    def spy(self, probabilities, pairs, sample, round_index, **steps):
        samples.append(sample.copy())
        grow(self, probabilities, pairs, sample, round_index, **steps)

    monkeypatch.setattr(RoundGrower, "grow", spy)
    fit(make_data(4, 100), subsample=0.3)
    assert [np.unique(sample).size for sample in samples] == [30] * 6
    assert all(np.all(np.diff(sample.astype(int)) > 0) for sample in samples)
    assert len({sample.tobytes() for sample in samples}) == 6
    samples.clear()
    fit(make_data(4, 100), subsample=1e-9)
    assert {sample.size for sample in samples} == {1}


def test_every_tree_draws_its_share_of_the_features(make_data):
    model = fit(make_data(4, 200, 10), colsample=0.2, num_leaves=20, min_samples_leaf=1)
    used = [set(tree.feature) - {-1} for tree in model.model_.trees()]
    assert max(len(features) for features in used) == 2
    assert len({frozenset(features) for features in used}) > 5
    assert fit(make_data(4, 100, 3), colsample=1e-9).feature_importance("count").sum() > 0


SAMPLED = {"subsample": 0.8, "colsample": 0.7, "random_state": 5}


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_any_number_of_threads_gives_the_same_bits(make_data, leaf_values):
    data = make_data(5, 2500, missing=0.1)
    digests = {digest(fit(data, n_jobs=n, leaf_values=leaf_values, **SAMPLED)) for n in (1, 2, 3)}
    assert len(digests) == 1


PROBED = {"n_estimators": 32, "search": 1, "gap": 0, "warmup": 0, "leaf_values": "sequential"}


def test_probes_give_the_same_bits_in_any_number_of_threads(make_data):
    data = make_data(4, 2500, missing=0.1)
    assert len({digest(fit(data, n_jobs=n, **PROBED)) for n in (1, 2, 3)}) == 1


def training_data(data):
    return make_training_data(data.X, data.y.astype(np.int32), np.ones(data.y.size), 4, 255, Workers(1))


def boosted(data, n_rounds, **settings):
    booster = Booster(training_data(data), paper_settings(**PROBED | settings), Workers(1))
    for _ in range(n_rounds):
        booster.run_round()
    return booster


def test_noise_is_trusted_less(make_data):
    data = make_data(4, 1500)
    rule = replace(data, y=2 * (data.X[:, 0] > 0) + (data.X[:, 1] > 0))
    noise = replace(data, y=np.random.default_rng(0).permutation(data.y))
    assert boosted(rule, 20).schedule.trust > 0.8
    assert boosted(noise, 20).schedule.trust < 0.1


@pytest.mark.parametrize("options", [{}, {"subsample": 0.5, "seed": 1}], ids=str)
def test_a_probe_grows_trees_without_a_part_and_uses_all_samples_for_leaf_values(make_data, monkeypatch, options):
    data = make_data(4, 300)
    booster = boosted(data, 9, **options)
    settings = paper_settings(**PROBED | options)
    sample = draw_sample(300, settings.subsample, settings.seed, 9)
    parts, grown_from = training_data(data).parts(5), []
    grow = RoundGrower.grow

    def spy(grower, probabilities, pairs, sample, *others, **more):
        grown_from.append(sample.copy())
        grow(grower, probabilities, pairs, sample, *others, **more)

    monkeypatch.setattr(RoundGrower, "grow", spy)
    scores = booster.get_state()["scores"].copy()
    trees = booster.run_round()
    np.testing.assert_array_equal(grown_from[0], sample[parts[sample] != 0])
    assert len(booster.schedule.probes) == 1
    # Newton steps of the first tree, by hand: from all samples drawn.
    p = np.exp(scores) / np.exp(scores).sum(axis=0)
    plus, minus = trees.classes[:2]
    z = ((data.y == plus) - p[plus]) - ((data.y == minus) - p[minus])
    h = (p[plus] + p[minus]) - (p[plus] - p[minus]) ** 2
    z[~np.isin(np.arange(z.size), sample)] = h[~np.isin(np.arange(z.size), sample)] = 0.0
    leaf = booster._grower.leaf_ids[0]
    expected = [0.1 * z[leaf == node].sum() / h[leaf == node].sum() for node in np.unique(leaf)]
    np.testing.assert_allclose(trees.values[: trees.value_start[1] : 2], expected)


def test_a_part_of_most_samples_is_no_probe(make_data):
    """Rows that are alike are in one part; no tree is grown from the few others alone."""
    data = make_data(4, 400)
    X = np.where(np.arange(400)[:, None] % 4, 0.0, data.X)
    data = replace(data, X=X)
    booster = boosted(data, 50)
    shares = np.bincount(training_data(data).parts(5), minlength=5) / 400
    assert len(booster.schedule.probes) == np.sum(shares <= 0.5) == 4


def test_samples_that_are_solved_count_as_samples(make_data):
    """A sample without derivatives still is one of those that a leaf must have, drawn or not."""
    data = make_data(4, 120)
    training = make_training_data(data.X, data.y.astype(np.int32), np.ones(120), 4, 255, Workers(1))
    grower = RoundGrower(training, paper_settings(min_samples_leaf=20), Workers(1))
    solved = np.eye(4)[data.y].T.copy()
    sample = np.arange(0, 120, 2, dtype=np.uint32)
    probabilities = np.where(np.arange(120) % 4 == 0, solved, 0.25)
    grower.grow(probabilities, [(0, 1), (2, 1)], sample, 0)
    leaves = [np.bincount(grower.leaf_ids[t][sample]) for t in range(2)]
    assert all(counts[counts > 0].min() >= 20 for counts in leaves)
    assert any(counts.size > 1 for counts in leaves)


def test_a_part_without_samples_is_no_probe(make_data):
    """All samples alike but for one: they are in one part or two."""
    data = make_data(4, 60)
    X = np.zeros_like(data.X)
    X[0] = 1.0
    booster = boosted(replace(data, X=X), 50, min_samples_leaf=1)
    assert len(booster.schedule.probes) < 5
    assert np.isfinite(booster.train_loss).all()


class TestParts:
    def parts(self, X):
        labels = np.zeros(len(X), dtype=np.int32)
        return make_training_data(X, labels, np.ones(len(X)), 2, 255, Workers(1)).parts(5)

    def test_about_the_same_size(self, make_data):
        counts = np.bincount(self.parts(make_data(4, 5000, missing=0.1).X), minlength=5)
        np.testing.assert_allclose(counts, 1000, atol=150)

    @pytest.mark.parametrize("n_features", [1, 2, 40])
    def test_few_values_are_dealt_out_as_well(self, n_features):
        X = np.random.default_rng(0).integers(0, 2 if n_features == 40 else 200, (4000, n_features)).astype(float)
        assert np.bincount(self.parts(X), minlength=5).min() > 400

    def test_samples_that_are_alike_are_together(self, make_data):
        X = make_data(4, 200, missing=0.1).X
        parts = self.parts(X)
        rows = np.random.default_rng(0).integers(0, 200, 500)
        rows[:200] = np.arange(200)[::-1]
        np.testing.assert_array_equal(self.parts(X[rows]), parts[rows])


def test_separate_processes_give_the_same_bits(make_data):
    code = (
        "import sys; sys.path.append('..');"
        "from conftest import make_data; from test_booster import SAMPLED, digest, fit;"
        "print(digest(fit(make_data(4, 300), n_jobs=int(sys.argv[1]), **SAMPLED)))"
    )
    here = digest(fit(make_data(4, 300), **SAMPLED))
    for n_jobs in (1, 2):
        done = subprocess.run(
            [sys.executable, "-c", code, str(n_jobs)],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == here


def test_fits_and_predictions_side_by_side(make_data):
    data = make_data(4, 300)
    expected = fit(data)
    found = [None] * 4

    def work(i):
        model = fit(data, n_jobs=2)
        found[i] = digest(model), model.predict_proba(data.X_test), expected.predict_proba(data.X_test)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proba = expected.predict_proba(data.X_test)
    for same, mine, theirs in found:
        assert same == digest(expected)
        np.testing.assert_array_equal(mine, proba)
        np.testing.assert_array_equal(theirs, proba)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_can_fit(make_data):
    data = make_data(3, 100)
    expected = digest(fit(data, n_jobs=2))
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=lambda: answers.put(digest(fit(data, n_jobs=2))))
    process.start()
    assert answers.get(timeout=120) == expected
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("options", [{}, {"subsample": 0.6}, {"warmup": 2, "gap": 2}], ids=str)
def test_leaf_values_set_while_trees_grow_are_those_set_afterwards(make_data, monkeypatch, options, n_jobs):
    data = make_data(5, 300)
    settings = {"leaf_values": "sequential", "search": 1, "random_state": 0, "n_jobs": n_jobs, **options}
    meanwhile = fit(data, **settings)
    monkeypatch.setattr(
        "abc_plugins.core.pair_rounds.PairRounds._one_thread_can_renew", lambda _rounds, _n_trees: False
    )
    afterwards = fit(data, **settings)
    np.testing.assert_array_equal(meanwhile.model_.flat().values, afterwards.model_.flat().values)
    np.testing.assert_array_equal(meanwhile.train_loss_, afterwards.train_loss_)


@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
@pytest.mark.parametrize(
    ("K", "method"), [(4, "abcrobustlogit"), (4, "robustlogit"), (2, "robustlogit"), (3, "abcmart")]
)
def test_rounds_after_the_loss_is_gone_add_nothing(make_data, caplog, K, method, leaf_values):
    """Trees would be grown from what rounding leaves of the derivatives, and their Newton steps are of any size."""
    data = make_data(K, 200)
    fit_long = {"method": method, "leaf_values": leaf_values, "search": 1, "gap": 0, "learning_rate": 0.6,
                "max_depth": None}  # fmt: skip
    with caplog.at_level("INFO", "abc_plugins"):
        model = fit(data, **fit_long, n_estimators=500, num_leaves=8)
    rounds = list(model.model_.rounds())
    last = int(np.argmax(model.train_loss_ <= 1e-14 * K * 200)) + 1
    assert 10 < last < 400
    assert caplog.text.count(f"The training loss is gone after {last} rounds") == 1
    assert all(
        tree.feature.size == 1 and not tree.values.any() and tree.weight == 200 for t in rounds[last:] for tree in t
    )
    assert {len(trees) for trees in rounds[last:]} == {len(rounds[last - 1])}
    assert model.trees_grown_ <= sum(map(len, rounds[:last])) + K * model.guarded_rounds_
    np.testing.assert_array_equal(
        model.decision_function(data.X),
        fit(data, **fit_long, n_estimators=last, num_leaves=8).decision_function(data.X),
    )
