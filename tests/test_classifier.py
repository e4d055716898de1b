"""ABCBoostClassifier as its users see it."""

import copy
import pickle
from collections import Counter

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from abc_plugins import ABCBoostClassifier, ModelFormatError
from abc_plugins.callbacks import Callback
from abc_plugins.core.settings import Settings

QUICK = {"n_estimators": 6, "num_leaves": 4, "max_depth": 2, "min_samples_leaf": 3, "warmup": 1, "gap": 1, "n_jobs": 1,
         "random_state": 0}  # fmt: skip


def quick(**settings):
    return ABCBoostClassifier(**{**QUICK, **settings})


@pytest.fixture(params=["directional", "abcrobustlogit"], autouse=True)
def default_method(request, monkeypatch):
    """Every test is of both kinds of trees."""
    monkeypatch.setitem(QUICK, "method", request.param)
    return request.param


@pytest.fixture
def data(make_data):
    return make_data(4, 80, missing=0.05)


def assert_same_models(one, other, X):
    np.testing.assert_array_equal(one.train_loss_, other.train_loss_)
    np.testing.assert_array_equal(one.base_classes_, other.base_classes_)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def assert_equivalent_models(one, other, X):
    """The same splits, and numbers that differ in rounding only.

    Missing values where training had none go with more rows, which are not those of more weight.
    """
    X = X[~np.isnan(X).any(axis=1)]
    np.testing.assert_array_equal(one.model_.flat().threshold, other.model_.flat().threshold)
    np.testing.assert_allclose(one.train_loss_, other.train_loss_, rtol=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_check_estimator(default_method):
    """No check is expected to fail, but where leaves must have ten rows: repeated rows are more of them."""
    equivalence = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    why = "min_samples_leaf of the paper's methods is 10, and counts rows"
    expected = {} if default_method == "directional" else dict.fromkeys(equivalence, why)
    check_estimator(
        ABCBoostClassifier(method=default_method, n_estimators=15, n_jobs=1), expected_failed_checks=expected
    )


def test_it_learns(make_data):
    data = make_data(4, 300)
    larger = quick(n_estimators=30, num_leaves=10, max_depth=5, learning_rate=0.3)
    assert larger.fit(data.X, data.y).score(data.X, data.y) > 0.9
    assert cross_val_score(quick(n_estimators=30), data.X, data.y, cv=3).mean() > 0.4  # chance is 0.25


# ------------------------------------------------------------------------------------------------ labels


@pytest.mark.parametrize(
    "labels",
    [
        ["ant", "bee", "cat", "dog"],
        np.array(["1", "2", "10", "20"]),
        [-7, 0, 3, 10**12],
        [-2.0, 1.0, 3.0, 1e6],
        [("a", 1), ("a", 2), ("b", 0), ("b", 1)],
        [False, True, False, True],
    ],
    ids=["strings", "numbers as strings", "integers", "floats", "tuples", "booleans"],
)
def test_labels_of_any_kind(data, labels):
    y = [labels[k] for k in data.y]
    codes = [sorted(set(labels)).index(label) for label in y]
    expected = quick().fit(data.X, codes)
    model = quick().fit(data.X, y)
    assert model.classes_.tolist() == sorted(set(labels))
    assert model.n_classes_ == len(set(labels))
    np.testing.assert_array_equal(model.predict_proba(data.X_test), expected.predict_proba(data.X_test))
    predicted = model.predict(data.X)
    assert predicted.tolist() == [model.classes_[k] for k in expected.predict(data.X)]
    assert model.score(data.X, predicted) == 1.0
    assert model.score(data.X, y) == expected.score(data.X, codes)


def test_one_class_is_an_error(data):
    with pytest.raises(ValueError, match="y must have at least two classes; got one class: 5"):
        quick().fit(data.X, np.full(80, 5))


def test_one_sample_a_class():
    X = np.random.default_rng(0).normal(size=(100, 3))
    model = quick(n_estimators=2, min_samples_leaf=1).fit(X, np.arange(100))
    assert model.predict_proba(X).shape == (100, 100)
    assert model.score(X, np.arange(100)) > 0.5


# ------------------------------------------------------------------------------------------------ tables

NAMES = ["width", "height", "depth", "mass"]
TABLES = {
    "pandas": lambda X: pandas.DataFrame(X, columns=NAMES),
    "polars": lambda X: polars.DataFrame(X, schema=NAMES),
    "arrow": lambda X: pyarrow.table(dict(zip(NAMES, X.T, strict=True))),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables(data, kind):
    make = TABLES[kind]
    model = quick().fit(make(data.X), data.y)
    assert model.feature_names_in_.tolist() == NAMES
    expected = quick().fit(data.X, data.y)
    assert not hasattr(expected, "feature_names_in_")
    np.testing.assert_array_equal(model.predict_proba(make(data.X_test)), expected.predict_proba(data.X_test))
    shuffled = make(data.X)
    shuffled = shuffled.select(NAMES[::-1]) if kind != "pandas" else shuffled[NAMES[::-1]]
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        model.predict(shuffled)
    with pytest.raises(ValueError, match="same order as they were in fit"):
        quick().fit(make(data.X), data.y, eval_set=[(shuffled, data.y)])
    renamed = pandas.DataFrame(data.X, columns=["colour", *NAMES[1:]])
    with pytest.raises(ValueError, match="unseen at fit time:\n- colour\nFeature names seen at fit time, yet now miss"):
        model.predict(renamed)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but ABCBoostClassifier was fitted with"):
        model.predict(data.X_test)


def test_a_new_fit_forgets_the_names(data):
    model = quick().fit(TABLES["pandas"](data.X), data.y)
    assert not hasattr(model.fit(data.X, data.y), "feature_names_in_")


def test_a_column_of_strings_is_an_error_if_it_is_no_category(data):
    table = TABLES["pandas"](data.X).assign(colour="red")
    with pytest.raises(ValueError, match="Column 'colour' of X has the dtype String, but features must be numbers"):
        quick(categorical_features=None).fit(table, data.y)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_read_only_arrays_of_any_order(data, order, dtype):
    X, weights = np.array(data.X, dtype=dtype, order=order), np.ones(80)
    expected = quick().fit(X.astype(float), data.y)
    for array in (X, data.y, weights):
        array.setflags(write=False)
    model = quick().fit(X, data.y, sample_weight=weights)
    assert_same_models(model, expected, X)


@pytest.mark.parametrize(
    "X",
    [
        np.ones((80, 3)),
        np.full((80, 2), np.nan),
        np.arange(80.0)[:, None],
        np.arange(80.0)[:, None] * 5e-324,
        np.arange(-40.0, 40.0)[:, None] * 4e306,
    ],
    ids=["constant", "missing", "one feature", "subnormal", "huge"],
)
def test_odd_features(data, X):
    model = quick().fit(X, data.y)
    proba = model.predict_proba(np.vstack([X, X[:1] * np.nan]))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.all(np.diff(model.train_loss_) <= 0)
    assert (model.feature_importances_.sum() > 0) == (np.unique(X).size > 2)


# ------------------------------------------------------------------------------------------------ weights


@pytest.mark.parametrize("early_stopping_rounds", [None, 3])
def test_a_weight_of_zero_is_a_row_left_out(data, early_stopping_rounds):
    weights = (np.arange(80) % 3 > 0).astype(float)
    kept = weights > 0
    settings = {"random_state": 0, "early_stopping_rounds": early_stopping_rounds, "class_weight": "balanced"}
    one = quick(**settings).fit(data.X, data.y, sample_weight=weights)
    other = quick(**settings).fit(data.X[kept], data.y[kept])
    assert_equivalent_models(one, other, data.X_test)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 2: 0.0}])
def test_a_weight_of_two_is_a_row_given_twice(data, class_weight):
    """But for the number of rows that a leaf must have."""
    repeats = 1 + np.arange(80) % 2
    one = quick(class_weight=class_weight, min_samples_leaf=1).fit(data.X, data.y, sample_weight=repeats)
    other = quick(class_weight=class_weight, min_samples_leaf=1).fit(
        data.X.repeat(repeats, axis=0), data.y.repeat(repeats)
    )
    assert_equivalent_models(one, other, data.X_test)


def test_a_weight_of_two_is_a_row_given_twice_in_probes(data):
    """Where noise makes the base depend on them."""
    y = np.random.default_rng(0).permutation(data.y)
    repeats = 1 + np.arange(80) % 2
    settings = {"n_estimators": 30, "search": 1, "gap": 0, "warmup": 0, "num_leaves": 3, "min_samples_leaf": 1}
    one = quick(**settings).fit(data.X, y, sample_weight=repeats)
    other = quick(**settings).fit(data.X.repeat(repeats, axis=0), y.repeat(repeats))
    assert_equivalent_models(one, other, data.X_test)


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], ["0", "1", "2", "3"], [(0,), (1,), (2,), (3,)]], ids=str)
def test_class_weights_are_weights_of_samples(data, labels):
    y = [labels[k] for k in data.y]
    factors = np.array([2.0, 0.5, 1.0, 1.0])
    one = quick(class_weight=dict(zip(labels[:2], factors, strict=False))).fit(data.X, y)
    other = quick().fit(data.X, y, sample_weight=factors[data.y])
    assert_same_models(one, other, data.X_test)
    counts = np.bincount(data.y)
    balanced = quick(class_weight="balanced").fit(data.X, y)
    assert_equivalent_models(balanced, quick().fit(data.X, y, sample_weight=20.0 / counts[data.y]), data.X_test)


@pytest.mark.parametrize("exponent", [-90, -20, 20, 90])
def test_weights_of_any_size(data, exponent):
    """Only their ratios matter."""
    limits = {"min_samples_leaf": 6, "pair_samples_per_leaf": 4, "reg_lambda": 1.0, "leaf_reg_lambda": 0.1}
    for weights in (1 + np.arange(80) % 3, 1 + np.arange(80) % 3 / 7):
        one = quick(**limits).fit(data.X, data.y, sample_weight=weights)
        for scale in (2.0**exponent, 0.01 * 2.0**exponent):
            other = quick(**limits).fit(data.X, data.y, sample_weight=weights * scale)
            np.testing.assert_allclose(one.predict_proba(data.X_test), other.predict_proba(data.X_test), rtol=1e-6)


@pytest.mark.parametrize("exponent", [-20, -1, 20])
def test_class_weights_of_any_size(data, exponent):
    for factors in ([3.0, 1.0, 2.0, 1.0], [0.3, 0.7, 1.1, 0.9]):
        one = quick(class_weight=dict(enumerate(factors))).fit(data.X, data.y)
        scaled = {label: factor * 10.0**exponent for label, factor in enumerate(factors)}
        other = quick(class_weight=scaled).fit(data.X, data.y)
        np.testing.assert_allclose(one.predict_proba(data.X_test), other.predict_proba(data.X_test), rtol=1e-6)


def test_adaboost_of_models():
    """Its weights add up to 1."""
    X, y = load_digits(return_X_y=True)
    booster = AdaBoostClassifier(ABCBoostClassifier(n_estimators=5), n_estimators=3, random_state=0)
    booster.fit(X[:400], y[:400])
    assert all((model.model_.flat().feature >= 0).any() for model in booster.estimators_)
    assert booster.score(X[400:800], y[400:800]) > 0.5


@pytest.mark.parametrize(
    ("sample_weight", "class_weight", "message"),
    [
        (np.zeros(80), None, "sample_weight must have at least one weight that is not zero"),
        (np.full(80, -1.0), None, r"sample_weight\[0\] must be 0 or larger"),
        (np.full(80, np.nan), None, "sample_weight contains NaN"),
        (np.ones(79), None, "sample_weight must have one weight for each of the 80 samples"),
        (np.full(80, 1e308), None, "The weights of all samples must add up to a number from 1e-100 to 1e.100; got inf"),
        (np.full(80, 1e-200), None, "must add up to a number from 1e-100 to 1e.100; got 8e-199"),
        (None, dict.fromkeys(range(4), 0), "Sample weights times class weights must add up to .* got 0"),
        (None, {1: -2}, r"class_weight\[1\] must be a number at least 0; got -2"),
        (None, {1: np.nan}, r"class_weight\[1\] must be a number at least 0; got nan"),
        (None, {7: 1.0}, r"class_weight must be a dict whose keys are among the labels in y, \[0, 1, 2, 3\]; got 7"),
        (None, "heavy", "class_weight must be a dict of labels and weights, \"balanced\" or None; got 'heavy'"),
    ],
)
def test_impossible_weights(data, sample_weight, class_weight, message):
    with pytest.raises(ValueError, match=message):
        quick(class_weight=class_weight).fit(data.X, data.y, sample_weight=sample_weight)


# ------------------------------------------------------------------------------------------------ evaluation


def own_log_loss(y_true, y_proba, weight):
    codes = np.searchsorted([0, 1, 2, 3], y_true)
    return "own", np.average(-np.log(y_proba[np.arange(y_true.size), codes]), weights=weight), False


def accuracy(y_true, y_proba, *, tolerance=0.0):
    return "accuracy", np.mean(y_proba.argmax(axis=1) == y_true) + tolerance, True


def test_several_sets_and_metrics(data):
    weights = 1.0 + np.arange(80) % 3
    model = quick(eval_metric=["logloss", "error", own_log_loss, accuracy]).fit(
        data.X, data.y, sample_weight=weights, eval_set=[(data.X, data.y, weights), (data.X[:40], data.y[:40])]
    )
    assert {name: set(metrics) for name, metrics in model.evals_result_.items()} == {
        name: {"logloss", "error", "own", "accuracy"} for name in ("valid_0", "valid_1")
    }
    first, second = model.evals_result_["valid_0"], model.evals_result_["valid_1"]
    np.testing.assert_allclose(first["logloss"], model.train_loss_ / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(first["own"], first["logloss"], rtol=1e-12)
    for m, predicted in enumerate(model.staged_predict(data.X)):
        assert first["error"][m] == pytest.approx(np.average(predicted != data.y, weights=weights))
        assert second["accuracy"][m] == pytest.approx(np.mean(predicted[:40] == data.y[:40]))
        assert second["error"][m] == pytest.approx(1 - second["accuracy"][m])


@pytest.mark.parametrize("name", ["logloss", "multi_logloss", "mlogloss", ["log_loss", "mlogloss"]], ids=str)
def test_a_metric_under_other_names_is_counted_once(data, name):
    model = quick(eval_metric=name).fit(data.X, data.y, eval_set=(data.X, data.y))
    given = name if isinstance(name, str) else name[0]
    assert {metric: len(values) for metric, values in model.evals_result_["valid_0"].items()} == {given: 6}


def test_early_stopping_with_an_evaluation_set(data):
    rng = np.random.default_rng(0)
    valid = (data.X_test, rng.integers(0, 4, data.X_test.shape[0]))
    model = quick(n_estimators=200, early_stopping_rounds=3).fit(data.X, data.y, eval_set=[valid])
    losses = model.evals_result_["valid_0"]["logloss"]
    assert model.best_iteration_ == np.argmin(losses) + 1
    assert len(losses) == model.model_.n_rounds == model.best_iteration_ + 3
    staged = list(model.staged_predict_proba(data.X_test))
    np.testing.assert_array_equal(model.predict_proba(data.X_test), staged[model.best_iteration_ - 1])


def test_early_stopping_without_an_evaluation_set(make_data):
    data = make_data(3, 200)
    options = {"n_estimators": 200, "learning_rate": 0.5, "early_stopping_rounds": 2, "validation_fraction": 0.25,
               "refit": False}  # fmt: skip
    model = quick(**options, random_state=1).fit(data.X, data.y)
    losses = model.evals_result_["validation"]["logloss"]
    assert model.best_iteration_ == np.argmin(losses) + 1 < model.model_.n_rounds < 200
    root = next(model.model_.trees())
    assert root.weight[0] == 150
    assert_same_models(model, quick(**options, random_state=1).fit(data.X, data.y), data.X_test)
    assert quick(**options, random_state=2).fit(data.X, data.y).train_loss_[0] != model.train_loss_[0]


@pytest.mark.parametrize(
    ("eval_set", "error", "message"),
    [
        ("valid", TypeError, r"eval_set must be a list of \(X, y\) or \(X, y, sample_weight\) tuples; got 'str'"),
        ([np.ones(3)], TypeError, r"eval_set\[0\] must be a list of .* tuples; got 'ndarray'"),
        ([(np.ones((2, 4)), [0])], ValueError, r"X and y in eval_set\[0\] must have the same number of samples"),
        ([(np.ones((2, 3)), [0, 1])], ValueError, r"X of eval_set\[0\] has 3 features, but .* expecting 4"),
        ([(np.ones((2, 4)), [0, 9])], ValueError, r"y of eval_set\[0\] has labels that are not among the classes"),
        ([(np.ones((2, 4)), [0, 1], [1, -1])], ValueError, r"sample_weight\[1\] must be 0 or larger"),
    ],
)
def test_impossible_evaluation_sets(data, eval_set, error, message):
    with pytest.raises(error, match=message):
        quick().fit(data.X, data.y, eval_set=eval_set)


@pytest.mark.parametrize(
    ("eval_metric", "error", "message"),
    [
        ("rmse", ValueError, "eval_metric must be 'logloss', 'error', 'accuracy', .* a function .*; got 'rmse'"),
        ("top_0", ValueError, "eval_metric must be 'logloss', .* 'top_3', .* a function .*; got 'top_0'"),
        (3, TypeError, "eval_metric must be 'logloss', 'error', 'accuracy', .* a function .*; got 3"),
        ([], ValueError, "eval_metric must be at least one metric"),
        (lambda y, p: y[0] + p[0, 0], TypeError, r"a function that returns \(name, value, higher_is_better\); got"),
        ([accuracy, lambda y, p: accuracy(y, p)], ValueError, "metrics with different names; got two .* 'accuracy'"),
    ],
)
def test_impossible_metrics(data, eval_metric, error, message):
    with pytest.raises(error, match=message):
        quick(eval_metric=eval_metric).fit(data.X, data.y, eval_set=[(data.X, data.y)])


# ------------------------------------------------------------------------------------------------ callbacks


class Watch(Callback):
    def __init__(self):
        self.calls = Counter()

    def before_training(self, context):  # noqa: ARG002
        self.calls["before_training"] += 1

    def before_round(self, context):
        self.calls["before_round"] += 1
        assert context.round_index == context.booster.model.n_rounds

    def after_round(self, context):
        self.calls["after_round"] += 1
        assert context.round_index + 1 == context.booster.model.n_rounds
        assert context.train_loss == context.booster.train_loss[-1]

    def after_training(self, context):  # noqa: ARG002
        self.calls["after_training"] += 1


class StopBefore(Callback):
    def __init__(self, round_index):
        self.round_index = round_index

    def before_round(self, context):
        return context.round_index == self.round_index


def assert_is_prefix(model, full, n_rounds, X):
    assert model.model_.n_rounds == model.best_iteration_ == n_rounds
    np.testing.assert_array_equal(model.train_loss_, full.train_loss_[:n_rounds])
    np.testing.assert_array_equal(model.base_classes_, full.base_classes_[:n_rounds])
    np.testing.assert_array_equal(model.predict_proba(X), list(full.staged_predict_proba(X))[n_rounds - 1])


def test_hooks(data):
    watch = Watch()
    quick().fit(data.X, data.y, callbacks=[watch])
    assert watch.calls == {"before_training": 1, "before_round": 6, "after_round": 6, "after_training": 1}


@pytest.mark.parametrize("stop", [lambda context: context.round_index == 2, StopBefore(3)], ids=["after", "before"])
def test_callbacks_can_stop(data, stop):
    model = quick().fit(data.X, data.y, callbacks=[stop])
    assert_is_prefix(model, quick().fit(data.X, data.y), 3, data.X_test)


def test_stopped_before_the_first_round(data, tmp_path, default_method):
    """A model of no rounds knows no more than the sizes of the classes, but works."""
    expected = np.bincount(data.y) / 80 if default_method == "directional" else 0.25
    model = quick().fit(data.X, data.y, callbacks=[StopBefore(0)])
    assert (model.best_iteration_, model.model_.n_rounds, model.trees_grown_) == (0, 0, 0)
    np.testing.assert_allclose(model.predict_proba(data.X_test), np.broadcast_to(expected, (40, 4)), rtol=1e-14)
    assert not model.feature_importances_.any()
    model.save_model(tmp_path / "model")
    loaded = ABCBoostClassifier.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data.X_test), model.predict_proba(data.X_test))


@pytest.mark.parametrize("callbacks", [3, "bar", {"a": 1}])
def test_callbacks_must_be_a_list(data, callbacks):
    with pytest.raises(TypeError, match="callbacks must be a list of callbacks; got"):
        quick().fit(data.X, data.y, callbacks=callbacks)


def interrupt(where, round_index):
    """Ctrl-C at some point of a round."""

    class Interrupt(Callback):
        def before_round(self, context):
            if where == "before" and context.round_index == round_index:
                raise KeyboardInterrupt

        def after_round(self, context):
            if where == "after" and context.round_index == round_index:
                raise KeyboardInterrupt

    return Interrupt()


@pytest.mark.parametrize(("where", "round_index"), [("before", 3), ("after", 2)])
def test_ctrl_c_leaves_a_usable_model(data, tmp_path, caplog, where, round_index):
    watch = Watch()
    model = quick(on_interrupt="keep").fit(data.X, data.y, callbacks=[watch, interrupt(where, round_index)])
    assert "Training was interrupted: the model has the 3 rounds done so far" in caplog.text
    assert watch.calls["after_training"] == 1
    assert_is_prefix(model, quick().fit(data.X, data.y), 3, data.X_test)
    model.save_model(tmp_path / "model")
    assert_same_models(ABCBoostClassifier.load_model(tmp_path / "model"), model, data.X_test)


@pytest.mark.parametrize("metric_number", [0, 1])
def test_ctrl_c_amid_a_round_drops_it(data, metric_number):
    """The third round is in the model, but not evaluated on all sets with all metrics."""
    calls = []

    def interrupted(y_true, y_proba):  # noqa: ARG001
        calls.append(1)
        if len(calls) == 2 * 2 + metric_number + 1:
            raise KeyboardInterrupt
        return "mine", 0.0, False

    sets = [(data.X, data.y), (data.X_test[:9], data.y[:9])]
    model = quick(eval_metric=["logloss", interrupted], on_interrupt="keep").fit(data.X, data.y, eval_set=sets)
    assert_is_prefix(model, quick().fit(data.X, data.y), 2, data.X_test)
    assert {len(values) for metrics in model.evals_result_.values() for values in metrics.values()} == {2}


def test_ctrl_c_before_the_first_round_is_over(data):
    model = quick(on_interrupt="keep")
    with pytest.raises(KeyboardInterrupt):
        model.fit(data.X, data.y, callbacks=[interrupt("before", 0)])
    assert not hasattr(model, "classes_")


def test_ctrl_c_is_raised(data):
    watch, model = Watch(), quick()
    with pytest.raises(KeyboardInterrupt):
        model.fit(data.X, data.y, callbacks=[watch, interrupt("after", 2)])
    assert watch.calls["after_training"] == 1
    assert not hasattr(model, "classes_")


def test_verbose(data, capsys):
    quick(verbose=2).fit(data.X, data.y, eval_set=[(data.X, data.y)])
    lines = capsys.readouterr().out.strip().splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["[2]", "[4]", "[6]", "Training"]
    losses = [float(line.split()[3].strip(",")) for line in lines[:3]]  # the training data is the evaluation set
    assert losses == [float(line.split()[6].strip(",")) for line in lines[:3]]
    assert lines[-1].startswith("Training ended after 6 rounds and ")
    assert lines[-1].endswith(" s: all rounds, 6, were done.")
    quick(verbose=0).fit(data.X, data.y)
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------------------------------------ predictions


@pytest.mark.parametrize("n_classes", [2, 4])
def test_staged_predictions_are_those_of_shorter_models(make_data, n_classes):
    data = make_data(n_classes, 80)
    model = quick().fit(data.X, data.y)
    probas, labels = list(model.staged_predict_proba(data.X_test)), list(model.staged_predict(data.X_test))
    assert len(probas) == len(labels) == 6
    for n_rounds in (1, 3, 6):
        shorter = quick(n_estimators=n_rounds).fit(data.X, data.y)
        np.testing.assert_array_equal(probas[n_rounds - 1], shorter.predict_proba(data.X_test))
        np.testing.assert_array_equal(labels[n_rounds - 1], shorter.predict(data.X_test))


def test_decision_function(data):
    model = quick().fit(data.X, data.y)
    scores = model.decision_function(data.X_test)
    assert scores.shape == (data.X_test.shape[0], 4)
    np.testing.assert_allclose(scores.sum(axis=1), 0.0, atol=1e-12)
    proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(data.X_test), proba, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(data.X_test), scores.argmax(axis=1))


def test_two_classes(make_data):
    data = make_data(2, 80)
    model = quick(search=5).fit(data.X, data.y)  # there is nothing to search
    log_odds = model.decision_function(data.X_test)
    proba = model.predict_proba(data.X_test)
    assert log_odds.shape == (data.X_test.shape[0],)
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-log_odds)), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(data.X_test), log_odds > 0)


def test_predictions_check_their_input(data):
    with pytest.raises(ValueError, match="This ABCBoostClassifier instance is not fitted yet"):
        quick().predict(data.X)
    model = quick().fit(data.X, data.y)
    with pytest.raises(ValueError, match="X has 3 features, but ABCBoostClassifier is expecting 4 features as input"):
        model.predict(data.X[:, :3])


def test_importances(data):
    X = np.column_stack([np.ones(80), data.X])
    model = quick().fit(X, data.y)
    gains, counts = np.zeros(5), np.zeros(5)
    for tree in model.model_.trees():
        inner = tree.feature >= 0
        np.add.at(gains, tree.feature[inner], tree.gain[inner])
        np.add.at(counts, tree.feature[inner], 1)
    np.testing.assert_allclose(model.feature_importance("gain"), gains)
    np.testing.assert_array_equal(model.feature_importance("count"), counts)
    np.testing.assert_array_equal(model.feature_importance("split"), counts)
    np.testing.assert_allclose(model.feature_importances_, gains / gains.sum())
    assert counts[0] == 0 < counts[1:].min()
    with pytest.raises(ValueError, match="importance_type must be one of 'gain', 'count', 'split'; got 'cover'"):
        model.feature_importance("cover")


# ------------------------------------------------------------------------------------------------ persistence


def save_and_load(model, tmp_path):
    model.save_model(tmp_path / "model.abc")
    return ABCBoostClassifier.load_model(tmp_path / "model.abc")


COPIES = {
    "file": save_and_load,
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, _: copy.deepcopy(model),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("labels", [["a", "b", "c", "d"], [1, 2, 3, 4], [1.0, 2.0, 4.0, 8.0]], ids=str)
def test_copies_are_the_same_model(data, tmp_path, way, labels):
    table = TABLES["pandas"](data.X)
    y = [labels[k] for k in data.y]
    settings = {"early_stopping_rounds": 4, "class_weight": {labels[0]: 2.0}, "eval_metric": ["logloss", "error"]}
    model = quick(**settings).fit(table, y, eval_set=[(table, y)])
    other = COPIES[way](model, tmp_path)
    assert type(other) is ABCBoostClassifier
    assert other.get_params() == model.get_params()
    for name in ("n_classes_", "n_features_in_", "trees_grown_", "guarded_rounds_", "evals_result_", "best_iteration_"):
        assert getattr(other, name) == getattr(model, name), name
    for name in ("classes_", "feature_names_in_", "feature_importances_", "base_classes_", "train_loss_"):
        np.testing.assert_array_equal(getattr(other, name), getattr(model, name), name)
    assert other.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(other.predict_proba(table), model.predict_proba(table))
    assert_same_models(clone(other).fit(table, y, eval_set=[(table, y)]), model, table)


def test_a_clone_is_not_fitted(data):
    model = quick(num_leaves=7).fit(data.X, data.y)
    other = clone(model)
    assert other.get_params() == model.get_params()
    assert not hasattr(other, "classes_")


def test_live_objects_do_not_go_into_a_file(data, tmp_path):
    model = quick(eval_metric=accuracy, random_state=np.random.RandomState(0)).fit(data.X, data.y)
    with (
        pytest.warns(UserWarning, match="eval_metric=.* cannot be stored in a model file"),
        pytest.warns(UserWarning, match="random_state=.* cannot be stored in a model file"),
    ):
        other = save_and_load(model, tmp_path)
    assert (other.eval_metric, other.random_state) == ("logloss", None)
    assert_same_models(other, model, data.X_test)


def test_only_a_fitted_model_is_saved_and_only_a_model_is_loaded(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        quick().save_model(tmp_path / "model")
    (tmp_path / "model").write_bytes(b"something else")
    with pytest.raises(ModelFormatError, match="is not"):
        ABCBoostClassifier.load_model(tmp_path / "model")


# ------------------------------------------------------------------------------------------------ parameters


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("method", "gbm", ValueError, "one of 'directional', 'mart', 'robustlogit', 'abcmart', 'abcrobustlogit'; got"),
        ("method", None, TypeError, "one of 'directional', .*; got None"),
        ("n_estimators", 0, ValueError, "a whole number of at least 1; got 0"),
        ("n_estimators", 2.5, TypeError, "a whole number of at least 1; got 2.5"),
        ("n_estimators", True, TypeError, "a whole number of at least 1; got True"),
        ("learning_rate", 0.0, ValueError, "a number larger than 0; got 0.0"),
        ("learning_rate", np.inf, ValueError, "a number larger than 0; got inf"),
        ("learning_rate", "fast", TypeError, "a number larger than 0; got 'fast'"),
        ("num_leaves", 1, ValueError, "a whole number from 2 to 32767; got 1"),
        ("num_leaves", 32768, ValueError, "a whole number from 2 to 32767; got 32768"),
        ("search", 0, ValueError, r"a whole number from 1, or \"all\"; got 0"),
        ("search", "some", ValueError, r"a whole number of at least 1, or \"all\"; got 'some'"),
        ("search", 1.5, TypeError, "a whole number from 1"),
        ("gap", -1, ValueError, "a whole number of at least 0; got -1"),
        ("warmup", -1, ValueError, "a whole number of at least 0; got -1"),
        ("tree_shape", "oblivious", ValueError, "one of 'auto', 'best-first', 'symmetric'; got 'oblivious'"),
        ("max_depth", 0, ValueError, "a whole number from 1 to (14|32767); got 0"),
        ("min_split_gain", -1, ValueError, "a number at least 0; got -1"),
        ("reg_alpha", -1, ValueError, "a number at least 0; got -1"),
        ("max_features", 0, ValueError, "a number larger than 0 and at most 1; got 0"),
        ("interaction_constraints", "some", ValueError, "None, \"pairwise\", .*; got 'some'"),
        ("interaction_constraints", 3, TypeError, 'None, "pairwise", .*; got 3'),
        ("interaction_constraints", [0, 1], TypeError, 'None, "pairwise", .*; got'),
        ("interaction_constraints", [[0.5]], TypeError, 'None, "pairwise", .*; got'),
        ("calibration", "isotonic", ValueError, "one of 'temperature'; got 'isotonic'"),
        ("warm_start", 1, TypeError, "True or False; got 1"),
        ("max_depth", 32768, ValueError, "a whole number from 1 to (14|32767); got 32768"),
        ("trees_per_round", 0, ValueError, "a whole number from 1 to 1024; got 0"),
        ("min_samples_leaf", 0, ValueError, "a whole number of at least 1; got 0"),
        ("min_samples_leaf", 2.5, TypeError, "a whole number of at least 1; got 2.5"),
        ("pair_samples_per_leaf", -1.0, ValueError, "a number at least 0; got -1"),
        ("min_child_weight", -0.1, ValueError, "a number at least 0; got -0.1"),
        ("reg_lambda", -1, ValueError, "a number at least 0; got -1"),
        ("reg_lambda", np.nan, ValueError, "a number at least 0; got nan"),
        ("leaf_reg_lambda", -1, ValueError, "a number at least 0; got -1"),
        ("start_scores", "mean", ValueError, "one of 'priors', 'zero'; got 'mean'"),
        ("leaf_clip", 0, ValueError, "a number larger than 0, or None; got 0"),
        ("leaf_values", "newton", ValueError, "one of 'paper', 'sequential'; got 'newton'"),
        ("guard", 1, TypeError, "True or False; got 1"),
        ("base_choice", "best", ValueError, "one of 'worst', 'drawn'; got 'best'"),
        ("max_bins", 1, ValueError, "a whole number from 2 to 255; got 1"),
        ("max_bins", 256, ValueError, "a whole number from 2 to 255; got 256"),
        ("subsample", 0, ValueError, "a number larger than 0 and at most 1; got 0"),
        ("subsample", 1.1, ValueError, "a number larger than 0 and at most 1; got 1.1"),
        ("colsample", 0, ValueError, "a number larger than 0 and at most 1; got 0"),
        ("colsample", 2, ValueError, "a number larger than 0 and at most 1; got 2"),
        ("class_weight", 3, TypeError, "a dict of labels and weights"),
        ("early_stopping", "yes", ValueError, "\"auto\", True or False; got 'yes'"),
        ("early_stopping", None, TypeError, '"auto", True or False; got None'),
        ("early_stopping_rounds", 0, ValueError, "a whole number of at least 1; got 0"),
        ("refit", 1, TypeError, "True or False; got 1"),
        ("validation_fraction", 0, ValueError, "a number larger than 0 and at most 0.9; got 0"),
        ("validation_fraction", 1, ValueError, "a number larger than 0 and at most 0.9; got 1"),
        ("n_jobs", 0, ValueError, "a whole number other than 0, or None; got 0"),
        ("n_jobs", 1.5, TypeError, "a whole number of at most 4096; got 1.5"),
        ("random_state", "seed", ValueError, "None, a whole number from 0 to .*; got 'seed'"),
        ("random_state", -1, ValueError, "None, a whole number from 0 to .*; got -1"),
        ("random_state", True, TypeError, "None, a whole number from 0 to .*; got True"),
        ("categorical_features", "x", ValueError, "\"from_dtype\", None, or a list of column names.*; got 'x'"),
        ("categorical_features", 1, TypeError, '"from_dtype", None, or a list of column names.*; got 1'),
        ("on_interrupt", "stop", ValueError, "one of 'raise', 'keep'; got 'stop'"),
        ("on_interrupt", None, TypeError, "one of 'raise', 'keep'; got None"),
        ("verbose", -1, ValueError, "a whole number of at least 0; got -1"),
    ],
)
def test_parameters_out_of_range(data, name, value, error, message):
    with pytest.raises(error, match=f"{name} must be {message}"):
        quick(**{name: value}).fit(data.X, data.y)


def test_rounds_without_improvement_but_no_early_stopping(data):
    with pytest.raises(ValueError, match="early_stopping_rounds must be None with early_stopping=False; got 5"):
        quick(early_stopping=False, early_stopping_rounds=5).fit(data.X, data.y)


def test_more_candidates_than_classes(data, default_method):
    """There are only so many base classes, but any number of directions."""
    if default_method == "directional":
        assert quick(search=5).fit(data.X, data.y).train_loss_[-1] > 0
        return
    with pytest.raises(ValueError, match=r"search must be .* up to the number of classes \(4\), or \"all\"; got 5"):
        quick(search=5).fit(data.X, data.y)


def test_symmetric_trees_are_of_one_method(data, default_method):
    if default_method == "directional":
        assert quick(tree_shape="symmetric").fit(data.X, data.y).train_loss_[-1] > 0
        return
    with pytest.raises(ValueError, match='tree_shape must be "auto" or "best-first" with method=\'abcrobustlogit\''):
        quick(tree_shape="symmetric").fit(data.X, data.y)


def test_every_parameter_has_a_test_out_of_range():
    (mark,) = [m for m in test_parameters_out_of_range.pytestmark if m.name == "parametrize"]
    assert {case[0] for case in mark.args[1]} | {"eval_metric"} == set(quick().get_params())


@pytest.mark.parametrize("n_jobs", [None, -1, -100, 1, 50, np.int64(2)])
def test_any_number_of_jobs(data, n_jobs):
    assert_same_models(quick(n_jobs=n_jobs).fit(data.X, data.y), quick().fit(data.X, data.y), data.X_test)


def test_samples_and_labels_must_match(data):
    with pytest.raises(ValueError, match="X and y must have the same number of samples; got 80 rows and 79 labels"):
        quick().fit(data.X, data.y[:-1])


def test_settings_have_the_defaults_of_the_classifier():
    assert ABCBoostClassifier()._check_parameters(seed=0) == Settings()


def test_none_stands_for_the_default_of_the_method():
    """Those of the paper's methods are the paper's."""
    names = (
        "learning_rate",
        "num_leaves",
        "min_samples_leaf",
        "reg_lambda",
        "leaf_reg_lambda",
        "start_scores",
        "max_bins",
    )
    paper = ABCBoostClassifier(method="abcmart")._check_parameters(seed=0)
    assert [getattr(paper, name) for name in names] == [0.1, 20, 10, 0.0, 0.0, "zero", 255]
    assert all(getattr(ABCBoostClassifier(), name) is None for name in names)
    assert ABCBoostClassifier(method="mart", reg_lambda=3.0)._check_parameters(seed=0).leaf_reg_lambda == 3.0


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i2", "u2", "i8", "f4"])
def test_the_dtype_of_integers_does_not_matter(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2 if dtype == "bool" else 100, (300, 4))
    y = (X[:, 0] + X[:, 1] > X[:, 2]) + 2 * (X[:, 3] > X[:, :3].mean(axis=1))
    settings = {"n_estimators": 5, "early_stopping_rounds": 3, "random_state": 0}
    one = quick(**settings).fit(X.astype(float), y)
    other = quick(**settings).fit(X.astype(dtype), y)
    assert_same_models(one, other, X.astype(float))
    assert one.evals_result_ == other.evals_result_
    np.testing.assert_array_equal(other.predict_proba(X.astype(dtype)), one.predict_proba(X))
