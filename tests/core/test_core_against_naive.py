"""The native core against the oracle: trees, leaf values, base classes, losses, trees grown and predictions.

The core adds up fixed-point integers, and has fewer bits for hessians if weights have a fraction. So its gains agree
with the oracle's to about 1e-6 only; features are drawn from continuous distributions to keep two different splits
from being that close. Where two splits of a node are tied exactly, as they often are with few samples or distinct
values, both must take the first one in the documented order.
"""

from dataclasses import dataclass

import naive
import numpy as np
import pytest
from conftest import Data, make_data, paper_settings

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.bins.binning import find_bins
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.booster import Booster
from abc_plugins.core.model.ensemble import FlatTrees
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers
from abc_plugins.core.schedule import PROBE_PARTS
from abc_plugins.core.settings import MAX_BINS, PAPER_METHODS
from abc_plugins.data.weights import combine_weights

METHODS = PAPER_METHODS
GAIN_RTOL = 1e-6
RTOL = 1e-9  # of leaf values, losses and predictions


@dataclass(frozen=True)
class Case:
    n_classes: int
    weights: str | None
    missing: float
    seed: int
    settings: dict

    def __str__(self):
        s = self.settings
        schedule = f"s{s['search']}-g{s['gap']}-w{s['warmup']}" if s["method"].startswith("abc") else "classic"
        return f"K{self.n_classes}-{s['method']}-{schedule}-{self.weights or 'equal'}-missing{self.missing}"

    def data(self, **changes):
        return make_data(self.n_classes, 70, weights=self.weights, missing=self.missing, seed=self.seed, **changes)


def draw_case(number):
    """Every K from 2 to 8 with every method and both choices of the base, and the other options drawn."""
    rng = np.random.default_rng(number)
    n_classes = 2 + number % 7
    settings = {
        "method": METHODS[number // 7 % 4],
        "n_estimators": 5,
        "learning_rate": float(rng.choice([0.1, 0.3])),
        "num_leaves": int(rng.integers(2, 9)),
        "search": [1, 2, min(3, n_classes), "all"][rng.integers(4)],
        "gap": int(rng.integers(0, 4)),
        "warmup": int(rng.integers(0, 3)),
        "min_samples_leaf": int(rng.choice([1, 3, 8])),
        "pair_samples_per_leaf": float(np.random.default_rng([number]).choice([0.0, 0.0, 4.0, 8.3])),
        "min_child_weight": float(rng.choice([0.0, 0.0, 0.7])),
        "reg_lambda": float(rng.choice([0.0, 0.0, 0.9])),
        "leaf_clip": [None, 50.0, 1.5][rng.integers(3)],
        "leaf_values": str(rng.choice(["paper", "paper", "sequential"])),
        "base_choice": ["worst", "drawn"][number // 28],
    }
    weights = [None, "real", "integer", "zeros"][rng.integers(4)]
    return Case(n_classes, weights, float(rng.choice([0.0, 0.15])), number, settings)


CASES = [draw_case(number) for number in range(56)]


PAPER = {"search": 2, "gap": 10, "warmup": 10, "base_choice": "worst", "leaf_values": "paper"}
PAPER |= {"method": "abcrobustlogit", "pair_samples_per_leaf": 0.0}
"""What the oracle does unless it is told otherwise."""


def fit_native(data, n_jobs=1, **settings):
    classifier = ABCBoostClassifier(**PAPER | settings, n_jobs=n_jobs)
    return classifier.fit(data.X, data.y, sample_weight=data.weights)


def weights_of(data):
    """Weights in units of samples, as the classifier takes them."""
    return combine_weights(data.weights, None, np.unique(data.y), data.y)


def fit_oracle(data, thresholds=None, parts=None, **settings):
    settings = naive.Settings(**settings)
    return naive.fit(data.X, data.y, weights_of(data), thresholds=thresholds, settings=settings, parts=parts)


def oracle_arrays(tree):
    """The oracle's tree as the arrays of a model tree."""
    inner = [not node.is_leaf for node in tree.nodes]
    splits = [node.split for node in tree.nodes]

    def of_splits(name, otherwise):
        return np.array([getattr(s, name) if i else otherwise for s, i in zip(splits, inner, strict=True)])

    return {
        "feature": of_splits("feature", naive.LEAF),
        "threshold": of_splits("threshold", 0.0),
        "missing_left": of_splits("missing_left", False),
        "left": np.array([node.left for node in tree.nodes]),
        "right": np.array([node.right for node in tree.nodes]),
        "value": np.array([node.value for node in tree.nodes]),
        "gain": of_splits("gain", 0.0),
        "weight": np.array([node.weight for node in tree.nodes]),
    }


def assert_same_tree(oracle_tree, native_tree, where):
    expected = oracle_arrays(oracle_tree)
    assert (native_tree.plus, native_tree.minus) == (oracle_tree.plus, oracle_tree.minus), where
    leaf = native_tree.feature == naive.LEAF
    np.testing.assert_array_equal(native_tree.left[leaf], np.arange(leaf.sum()), f"leaves {where}")
    for name in ("feature", "threshold", "missing_left", "left", "right"):
        found = np.where(leaf, 0, native_tree.left) if name == "left" else getattr(native_tree, name)
        np.testing.assert_array_equal(found, expected[name], f"{name} {where}")
    scale = np.max(expected["gain"], initial=0.0)
    np.testing.assert_allclose(
        native_tree.gain, expected["gain"], GAIN_RTOL, GAIN_RTOL * scale, err_msg=f"gain {where}"
    )
    np.testing.assert_allclose(native_tree.weight, expected["weight"], GAIN_RTOL, err_msg=f"weight {where}")
    np.testing.assert_allclose(native_tree.value, expected["value"], RTOL, 1e-12, err_msg=f"value {where}")
    if native_tree.minus != naive.CLASSIC:
        np.testing.assert_array_equal(native_tree.values[:, 1], -native_tree.values[:, 0], f"values {where}")


def assert_same_model(oracle, native, X_test):
    assert native.base_classes_.tolist() == oracle.base_classes
    for m, (expected, trees) in enumerate(zip(oracle.rounds, native.model_.rounds(), strict=True)):
        for oracle_tree, native_tree in zip(expected, trees, strict=True):
            assert_same_tree(oracle_tree, native_tree, f"of the tree of class {oracle_tree.plus} in round {m}")
    np.testing.assert_allclose(native.train_loss_, oracle.train_loss, RTOL)
    assert native.trees_grown_ == oracle.trees_grown
    scores = oracle.predict_scores(X_test)
    expected = scores[:, 1] - scores[:, 0] if oracle.n_classes == 2 else scores
    np.testing.assert_allclose(native.decision_function(X_test), expected, RTOL, 1e-10)
    np.testing.assert_allclose(native.predict_proba(X_test), naive.softmax(scores), RTOL, 1e-12)
    for m, proba in enumerate(native.staged_predict_proba(X_test)):
        expected = naive.softmax(oracle.predict_scores(X_test, m + 1))
        np.testing.assert_allclose(proba, expected, RTOL, 1e-12)


def assert_identical(one, other):
    """Bit for bit."""
    for name in ("base_classes_", "train_loss_", "trees_grown_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in FlatTrees.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(one.model_.flat(), name), getattr(other.model_.flat(), name))


def with_odd_rows(X_test):
    """Rows to predict: also all missing, and beyond all that was seen."""
    n_features = X_test.shape[1]
    return np.vstack(
        [X_test, np.full((1, n_features), np.nan), np.full((1, n_features), 1e9), -np.eye(n_features) * 1e9]
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_random_cases(case):
    data = case.data()
    assert_same_model(fit_oracle(data, **case.settings), fit_native(data, **case.settings), with_odd_rows(data.X_test))


@pytest.mark.parametrize("leaf_values", ["sequential", "paper"])
@pytest.mark.parametrize(
    ("schedule", "weights"),
    [({"search": 1, "gap": 0, "warmup": 0}, "real"), ({"search": 2, "gap": 2, "warmup": 3}, None)],
)
def test_probes(leaf_values, schedule, weights):
    """Long enough for three probes; the labels of half of the samples are noise, so that draws change."""
    data = make_data(4, 90, weights=weights, missing=0.1, seed=3)
    noisy = np.random.default_rng(0).integers(0, 4, data.y.size)
    data = Data(data.X, np.where(np.arange(data.y.size) % 2, data.y, noisy), data.weights, data.X_test)
    settings = {"n_estimators": 34, "num_leaves": 5, "leaf_values": leaf_values, "base_choice": "drawn", **schedule}
    settings |= {"method": "abcrobustlogit", "learning_rate": 0.3, "min_samples_leaf": 4}
    native = fit_native(data, **settings)
    made = make_training_data(data.X, data.y.astype(np.int32), weights_of(data), 4, MAX_BINS, Workers(1))
    oracle = fit_oracle(data, parts=made.parts(PROBE_PARTS), **settings)
    assert naive.trust(oracle.probes) < 0.5
    assert_same_model(oracle, native, with_odd_rows(data.X_test))
    booster = Booster(made, paper_settings(**PAPER | settings), Workers(1))
    for _ in range(settings["n_estimators"]):
        booster.run_round()
    assert len(oracle.probes) == 3
    np.testing.assert_allclose(booster.schedule.probes, oracle.probes, RTOL)


def test_the_cases_cover_what_they_should():
    """Drawn options are no promise; this is."""
    assert {(case.n_classes, case.settings["method"]) for case in CASES} == {
        (K, m) for K in range(2, 9) for m in METHODS
    }
    adaptive = [case for case in CASES if case.settings["method"].startswith("abc") and case.n_classes > 2]
    for option, values in {"search": {1, 2, 3, "all"}, "gap": {0, 1, 2, 3}, "warmup": {0, 1, 2}}.items():
        assert {case.settings[option] for case in adaptive} == values
    for method in METHODS:
        chosen = [case for case in CASES if case.settings["method"] == method]
        assert {case.weights for case in chosen} == {None, "real", "integer", "zeros"}
        assert {case.missing for case in chosen} == {0.0, 0.15}
        options = ("min_child_weight", "reg_lambda", "leaf_clip", "min_samples_leaf", "leaf_values")
        for option in (*options, "pair_samples_per_leaf"):
            assert len({case.settings[option] for case in chosen}) > 1


@pytest.mark.parametrize("method", METHODS)
def test_fewer_bins_than_values(method):
    """The oracle is given the core's thresholds."""
    data = make_data(4, 150, missing=0.1, weights="real")
    settings = {"method": method, "n_estimators": 4, "num_leaves": 6, "warmup": 1, "gap": 1}
    thresholds = [find_bins(np.ascontiguousarray(x), weights_of(data), 12).edges for x in data.X.T]
    assert {edges.size for edges in thresholds} == {11}
    native = fit_native(data, max_bins=12, **settings)
    assert_same_model(fit_oracle(data, thresholds, **settings), native, with_odd_rows(data.X_test))


@pytest.mark.parametrize("method", ["robustlogit", "abcrobustlogit"])
def test_late_rounds_with_vanishing_hessians(method):
    """Far into training a separable problem, where sums of hessians are tiny and the clip acts."""
    data = make_data(3, 60)
    X = data.X + 6.0 * data.y[:, None]
    data = Data(X, data.y, None, X)
    settings = {"method": method, "n_estimators": 60, "learning_rate": 0.5, "num_leaves": 4, "min_samples_leaf": 5}
    oracle, native = fit_oracle(data, **settings), fit_native(data, **settings)
    assert native.base_classes_.tolist() == oracle.base_classes
    np.testing.assert_allclose(native.train_loss_, oracle.train_loss, rtol=1e-6, atol=1e-11)
    assert native.train_loss_[-1] < 1e-6 * native.train_loss_[0]


LONG_STEPS = {"n_estimators": 5, "learning_rate": 1.0, "num_leaves": 6, "min_samples_leaf": 4, "leaf_clip": 5.0}
LONG_STEPS |= {"search": 1, "gap": 0, "warmup": 0}


@pytest.mark.parametrize("guard", [True, False])
def test_no_shrinkage(guard):
    """With the worst class as base and no shrinkage the loss rises, unless the guard halves the steps."""
    data = make_data(6, 60, seed=1)
    native = fit_native(data, **LONG_STEPS, guard=guard)
    rises = np.diff([60 * np.log(6), *native.train_loss_]) > 0
    assert rises.any() != guard
    assert (native.guarded_rounds_ > 0) == guard
    assert_same_model(fit_oracle(data, **LONG_STEPS, guard=guard), native, data.X_test)


def test_no_shrinkage_but_leaf_values_in_sequence():
    """The same steps computed one after the other do not overshoot."""
    data = make_data(6, 60, seed=1)
    native = fit_native(data, **LONG_STEPS, leaf_values="sequential")
    assert native.guarded_rounds_ == 0
    assert_same_model(fit_oracle(data, **LONG_STEPS, leaf_values="sequential"), native, data.X_test)


@pytest.mark.parametrize(
    ("seed", "learning_rate", "bases"), [(1, 300.0, [0, -1, 0, -1]), (1, 1000.0, [-1] * 4), (2, 100.0, [1, -1, -1, -1])]
)
def test_hopeless_steps(seed, learning_rate, bases):
    """So long that 8 halvings do not help: classic rounds instead, and rounds that add nothing."""
    data = make_data(6, 60, seed=seed)
    settings = {"n_estimators": 4, "learning_rate": learning_rate, "num_leaves": 3, "min_samples_leaf": 8}
    settings |= {"search": 1, "gap": 2, "warmup": 0, "leaf_clip": None}
    native = fit_native(data, **settings)
    assert native.base_classes_.tolist() == bases
    assert_same_model(fit_oracle(data, **settings), native, data.X_test)


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("method", METHODS)
def test_a_whole_weight_is_a_number_of_rows(method, missing):
    data = make_data(4, 80, weights="zeros", missing=missing, seed=1)
    repeats = data.weights.astype(int)
    repeated = Data(data.X.repeat(repeats, axis=0), data.y.repeat(repeats), None, data.X_test)
    settings = {"method": method, "n_estimators": 6, "num_leaves": 5, "min_samples_leaf": 1, "warmup": 1, "gap": 1}
    assert_equivalent(fit_native(data, **settings), fit_native(repeated, **settings), data.X_test)


def assert_equivalent(one, other, X_test):
    """Same splits, and the same numbers but for rounding.

    Missing values where training had none go with more rows, which are not those of more weight.
    """
    X_test = X_test[~np.isnan(X_test).any(axis=1)]
    np.testing.assert_array_equal(one.base_classes_, other.base_classes_)
    for name in ("classes", "node_start", "feature", "threshold", "left", "right"):
        np.testing.assert_array_equal(getattr(one.model_.flat(), name), getattr(other.model_.flat(), name), name)
    np.testing.assert_allclose(one.train_loss_, other.train_loss_, rtol=1e-11)
    np.testing.assert_allclose(one.predict_proba(X_test), other.predict_proba(X_test), rtol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_exact_ties_do_not_hang_on_rounding(seed):
    """Few distinct values, few samples: many splits are tied, and weights still equal repeated rows."""
    data = make_data(6, 60, weights="zeros", missing=0.2 * (seed % 2), seed=seed)
    repeats = data.weights.astype(int)
    X = np.round(data.X)
    data = Data(X, data.y, data.weights, X)
    repeated = Data(X.repeat(repeats, axis=0), data.y.repeat(repeats), None, X)
    settings = {"n_estimators": 2, "num_leaves": 6, "min_samples_leaf": 1, "warmup": 1}
    native = fit_native(data, **settings)
    assert_equivalent(native, fit_native(repeated, **settings), X)
    assert_same_model(fit_oracle(data, **settings), native, X)


def sparse_features(y, seed):
    """Columns most of whose samples share one value: the least, the largest, one in between, or none at all."""
    rng = np.random.default_rng(seed)
    noisy = np.where(rng.random(y.size) < 0.4, y, rng.integers(0, y.max() + 1, y.size))
    value = noisy + rng.normal(size=y.size)

    def rarely(share):
        return rng.random(y.size) < share

    one_hot = noisy[:, None] == np.arange(y.max() + 1)
    columns = [
        np.where(rarely(0.3), np.exp(value), 0.0),
        np.where(rarely(0.3), -np.exp(value), 0.0),
        np.where(rarely(0.3), value - value.mean(), 0.0),
        np.where(rarely(0.3), value, np.nan),
        np.where(rarely(0.2), np.nan, np.where(rarely(0.2), value - value.mean(), 0.0)),
        np.where(rarely(0.2), np.nan, 5.0),
        value + rng.normal(size=y.size),
    ]
    return np.column_stack([one_hot, *columns])


@pytest.mark.parametrize("weights", [None, "real", "integer"])
@pytest.mark.parametrize("method", METHODS)
def test_sparse_columns(method, weights):
    data = make_data(4, 90, weights=weights, seed=9)
    X = sparse_features(data.y, seed=METHODS.index(method))
    data = Data(X, data.y, data.weights, with_odd_rows(X))
    settings = {"method": method, "n_estimators": 4, "num_leaves": 8, "min_samples_leaf": 3, "warmup": 1, "gap": 1}
    native = fit_native(data, **settings)
    used = set(native.model_.flat().feature) - {naive.LEAF}
    assert used & set(range(4))  # one-hot columns
    assert len(used & set(range(4, 11))) >= 4
    assert_same_model(fit_oracle(data, **settings), native, data.X_test)


def test_more_features_than_one_group_of_histogram_cells():
    """150 features of 250 values each."""
    rng = np.random.default_rng(0)
    y = np.arange(250) % 3
    X = rng.normal(size=(250, 150))
    X[:, 145] += y
    X[:, 3] -= y
    data = Data(X, y, None, X)
    settings = {"n_estimators": 2, "num_leaves": 3, "search": 1, "warmup": 1}
    native = fit_native(data, **settings)
    assert {3, 145} <= set(native.model_.flat().feature)
    assert_same_model(fit_oracle(data, **settings), native, X)


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_threads_does_not_matter(method):
    data = make_data(5, 3 * ROWS_PER_BLOCK + 100, 6, weights="real", missing=0.1)
    settings = {"method": method, "n_estimators": 5, "warmup": 1, "gap": 1, "search": 3}
    settings |= {"subsample": 0.7, "colsample": 0.5, "random_state": 3}
    one = fit_native(data, n_jobs=1, **settings)
    for n_jobs in (2, 3):
        several = fit_native(data, n_jobs=n_jobs, **settings)
        assert_identical(one, several)
        np.testing.assert_array_equal(one.predict_proba(data.X_test), several.predict_proba(data.X_test))


@pytest.mark.parametrize("method", METHODS)
def test_all_weights_times_a_constant(method):
    """Gains, counts and losses scale; nothing else changes."""
    data = make_data(4, 80, weights="integer", missing=0.1)
    settings = {"method": method, "n_estimators": 5, "num_leaves": 5, "warmup": 1, "gap": 1}
    least = 24 if method.endswith("mart") else 6  # in weight, or in rows
    plain = fit_native(data, min_samples_leaf=6, **settings)
    scaled_data = Data(data.X, data.y, 4 * data.weights, data.X_test)
    scaled = fit_native(scaled_data, min_samples_leaf=least, **settings)
    np.testing.assert_array_equal(plain.model_.flat().threshold, scaled.model_.flat().threshold)
    np.testing.assert_array_equal(plain.model_.flat().feature, scaled.model_.flat().feature)
    np.testing.assert_allclose(4 * plain.train_loss_, scaled.train_loss_, rtol=1e-12)
    np.testing.assert_allclose(plain.predict_proba(data.X_test), scaled.predict_proba(data.X_test), rtol=1e-10)


def test_useless_columns_are_never_split_on():
    """A second copy loses every tie; constant and all-missing columns cannot be split."""
    data = make_data(3, 80, 2)
    X = np.column_stack([np.full(80, 7.0), np.full(80, np.nan), data.X[:, 0], data.X[:, 0], data.X[:, 1]])
    data = Data(X, data.y, None, X)
    settings = {"n_estimators": 5, "num_leaves": 6, "min_samples_leaf": 3, "warmup": 1}
    native = fit_native(data, **settings)
    assert set(native.model_.flat().feature) == {naive.LEAF, 2, 4}
    assert_same_model(fit_oracle(data, **settings), native, with_odd_rows(X))


def test_a_column_that_is_only_there_or_missing():
    """One value or missing: the only split parts them, and unseen values go with the value."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    X = np.where(rng.random((90, 2)) < np.array([0.1, 0.5, 0.9])[y][:, None], np.nan, [[1.0, -2.0]])
    data = Data(X, y, None, np.array([[1.0, np.nan], [-50.0, 50.0], [np.nan, np.nan]]))
    settings = {"n_estimators": 3, "num_leaves": 4, "min_samples_leaf": 3, "warmup": 1}
    native = fit_native(data, **settings)
    inner = native.model_.flat().feature != naive.LEAF
    assert inner.any()
    assert np.all(native.model_.flat().threshold[inner] == np.inf)
    assert_same_model(fit_oracle(data, **settings), native, data.X_test)


def test_a_round_without_any_split_still_steps():
    """Trees of one leaf: the class frequencies are learnt."""
    data = make_data(4, 60, weights="integer")
    data = Data(np.zeros((60, 2)), data.y, data.weights, np.zeros((3, 2)))
    settings = {"n_estimators": 4, "warmup": 1, "gap": 0}
    native = fit_native(data, **settings)
    assert native.model_.flat().feature.tolist() == [naive.LEAF] * native.model_.n_trees
    assert_same_model(fit_oracle(data, **settings), native, data.X_test)


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.bool_])
def test_other_number_types_are_the_same_numbers(dtype):
    data = make_data(3, 80)
    X = (3 * data.X).astype(dtype)
    settings = {"method": "abcrobustlogit", "n_estimators": 4, "num_leaves": 5, "min_samples_leaf": 3, "warmup": 1}
    native = ABCBoostClassifier(**settings).fit(X, data.y)
    assert_identical(native, ABCBoostClassifier(**settings).fit(X.astype(np.float64), data.y))


@pytest.mark.parametrize(("n_classes", "search"), [(4, 2), (4, "all"), (7, 3)])
def test_trees_grown(n_classes, search):
    """No pair of classes is grown twice in a search."""
    K, s = n_classes, n_classes if search == "all" else search
    settings = {"n_estimators": 7, "num_leaves": 3, "search": search, "gap": 2, "warmup": 2}
    native = fit_native(make_data(K, 60), **settings)
    pairs = s * (K - 1) - s * (s - 1) // 2
    assert native.trees_grown_ == 2 * K + 2 * pairs + 3 * (K - 1)
