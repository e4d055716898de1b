"""ABCBoostClassifier as its users see it: scikit-learn's checks, labels and tables of any kind."""

import warnings

import numpy as np
import pandas
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from abc_plugins import ABCBoostClassifier

from .conftest import NAMES, TABLES, assert_same_models, quick


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


@pytest.mark.parametrize("predict", ["predict", "predict_proba", "decision_function", "apply", "score"])
def test_warnings_name_the_line_of_the_caller(make_data, predict):
    data = make_data(3, 60)
    model = quick().fit(pandas.DataFrame(data.X, columns=list("abcd")), data.y)
    with pytest.warns(UserWarning, match="does not have valid feature names") as caught:
        getattr(model, predict)(data.X, *([data.y] if predict == "score" else []))
    expected = "base.py" if predict == "score" else "test_labels_and_tables.py"  # scikit-learn's mixin calls predict
    assert {warning.filename.rpartition("/")[2] for warning in caught} == {expected}


def test_strings_that_are_amounts_are_warned_about(make_data):
    data = make_data(3, 60)
    table = pandas.DataFrame({"a": data.X[:, 0].astype(str), "zip": (np.arange(60) + 10000).astype(str)})
    with pytest.warns(UserWarning, match="Column a of X has strings that are all numbers, such as") as caught:
        quick(num_leaves=None).fit(table, data.y)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quick(num_leaves=None, categorical_features=["a", "zip"]).fit(table, data.y).is_categorical_.all()
        assert not quick(num_leaves=None).fit(table.astype(float), data.y).is_categorical_.any()


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "int64[pyarrow]", "bool[pyarrow]"])
def test_labels_in_arrays_of_pandas_keep_their_type(data, dtype):
    y = pandas.Series(data.y % 2).astype(dtype)
    expected = bool if "bool" in dtype else np.int64
    model, of_array = quick().fit(data.X, y), quick().fit(data.X, y.values)
    assert of_array.classes_.dtype == model.classes_.dtype == expected
    assert_same_models(of_array, model, data.X_test)


def test_numbers_among_strings_are_no_labels_without_a_word(data):
    y = [1 if label == 0 else f"{label}" for label in data.y.tolist()]
    with pytest.warns(UserWarning, match="y has labels of the types int beside strings: all are taken for strings"):
        assert quick().fit(data.X, y).classes_.tolist() == ["1", "2", "3"]
