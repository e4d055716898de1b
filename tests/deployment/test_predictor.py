"""The predictor for serving: the same predictions, few imports, and no wrong input that goes unnoticed."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import scipy.sparse

from abc_plugins import ABCBoostClassifier, ModelFormatError
from abc_plugins.serving import Predictor

from .conftest import with_labels


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.abc"


@pytest.fixture
def named(path):
    """A model of a table with a text category, its predictor, and the table."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"colour": rng.choice(["red", "green", "blue"], 200), "size": rng.normal(size=200)})
    y = np.array(["a", "b", "c"])[(table["colour"] == "red").astype(int) + (table["size"] > 0)]
    model = ABCBoostClassifier(n_estimators=5, n_jobs=1, random_state=0).fit(table, y)
    model.save_model(path)
    return model, Predictor(path), table


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_predictions_are_those_of_the_classifier_bit_for_bit(case, path, n_jobs):
    case.model.save_model(path)
    predictor = Predictor(path, n_jobs=n_jobs)
    predictor.warm_up()
    assert np.array_equal(predictor.predict_proba(case.table), case.model.predict_proba(case.table))
    assert np.array_equal(predictor.predict(case.table), case.model.predict(case.table))
    for n_rows in (1, 7, 8, 63, 64):  # the smaller ones by NumPy alone
        some = predictor.predict_proba(case.table[:n_rows])
        assert np.array_equal(some, case.model.predict_proba(case.table[:n_rows]))


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.bool_, object])
def test_arrays_of_any_kind(path, dtype):
    model, X = with_labels([3, 5, 8])
    model.save_model(path)
    given = X.astype(dtype) if dtype is not object else np.where(X > 1.5, None, X.astype(object))
    expected = model.predict_proba(given.astype(float))
    assert np.array_equal(Predictor(path).predict_proba(given), expected)
    assert np.array_equal(Predictor(path).predict_proba(given.tolist()), expected)


def test_columns_and_rows_by_name(named):
    model, predictor, table = named
    new = table.assign(colour=table["colour"].where(np.arange(200) % 5 > 0, "violet"), more=1.0)
    new.loc[::7, "colour"] = None
    new.loc[::9, "size"] = np.nan
    expected = model.predict_proba(new[["colour", "size"]])
    columns = {name: new[name].to_numpy() for name in ("more", "size", "colour")}
    rows = [
        {"size": None if np.isnan(size) else size, "colour": colour if isinstance(colour, str) else None, "more": 1}
        for size, colour in zip(new["size"], new["colour"], strict=True)
    ]
    assert np.array_equal(predictor.predict_proba(columns), expected)
    assert np.array_equal(predictor.predict_proba(rows), expected)
    assert np.array_equal(predictor.predict_proba(new[["colour", "size"]].to_numpy()), expected)
    assert predictor.feature_names == ["colour", "size"]


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([{"colour": "red"}], ValueError, r"X\[0\] must have a value for every feature.*lacks 'size'"),
        ({"size": [1.0]}, ValueError, r"X must have a value for every feature.*lacks 'colour'"),
        ([{"colour": "red", "size": "1"}], TypeError, r"X\['size'\] must be numbers and missing values"),
        ([{"colour": ["red"], "size": 1}], TypeError, r"X\['colour'\] must be strings, numbers or booleans"),
        ([{"colour": object, "size": 1}], TypeError, r"X\['colour'\] must be strings, numbers or booleans"),
        ([{"colour": 3, "size": 1}], ValueError, "has numbers.*categories that the model knows are strings"),
        ([{"colour": float("inf"), "size": 1}], ValueError, r"X\['colour'\] must be strings.*; got 'infinity'"),
        ({"colour": ["red"], "size": np.array(["2020"], "M8[ns]")}, TypeError, r"X\['size'\] .* dtype datetime64"),
        ({"colour": np.array([b"red"]), "size": [1.0]}, TypeError, r"X\['colour'\] .* the dtype"),
        ({"colour": ["red"], "size": np.zeros((1, 1))}, ValueError, r"X\['size'\] must be one column"),
        (pd.DataFrame({"colour": ["red"]}), ValueError, "X must have a value for every feature.*lacks 'size'"),
        (pd.DataFrame({"colour": ["red"], "size": ["1"]}), TypeError, r"X\['size'\] must be numbers"),
        (scipy.sparse.csr_array((1, 2)), ValueError, "X must be an array .* got an object of the type csr_array"),
        ((row for row in [["red", 1.0]]), ValueError, "X must be an array .* got an object of the type generator"),
        (np.zeros((1, 2), "V8"), TypeError, "X must be numbers, booleans, and strings"),
        ([[b"red", b"1"]], TypeError, "X must be numbers, booleans, and strings"),
        ([["red", object]], TypeError, r"X\['size'\] must be numbers"),
        (np.zeros((0, 2)), ValueError, "X must be at least one row"),
        ([{"colour": "red", "size": 10**400}], ValueError, r"X\['size'\] must be numbers of float64 only"),
        ([{"colour": "red", "size": 1}, [1, 2]], TypeError, r"X\[1\] must be a dict"),
        ({"colour": ["red"], "size": [1.0, 2.0]}, ValueError, r"X\['size'\] must be as long as the other columns"),
        ({"colour": "red", "size": [1.0]}, TypeError, r"X\['colour'\] must be a column of values"),
        ({"colour": [], "size": []}, ValueError, "X must be at least one row"),
        ([], ValueError, "X must be an array of shape"),
        ([["red", 1.0, 2.0]], ValueError, "X must be of 2 columns"),
        ([["red", 1.0], ["red"]], ValueError, "got rows of different lengths"),
        ("red", ValueError, "X must be an array of shape"),
        (None, ValueError, "X must be an array of shape"),
        (np.zeros((2, 2), dtype=complex), TypeError, "X must be numbers, booleans, and strings"),
        (np.zeros((1, 2, 2)), ValueError, "X must be an array of shape"),
    ],
)
def test_wrong_rows_are_refused(named, X, error, message):
    with pytest.raises(error, match=message):
        named[1].predict_proba(X)


def test_tables_are_read_by_name(named):
    """Whatever the order of their columns; by position they would be mistaken without a word."""
    model, predictor, table = named
    turned = table[["size", "colour"]].assign(more=1)
    for frame in (turned, polars.from_pandas(turned), pa.Table.from_pandas(turned)):
        assert np.array_equal(predictor.predict_proba(frame), model.predict_proba(table))
        assert np.array_equal(predictor.predict_proba(frame[:3]), model.predict_proba(table[:3]))


def test_a_table_for_a_model_without_names(path):
    model, X = with_labels([0, 1, 2])
    model.save_model(path)
    for columns in ("abc", [0, 1, 2]):
        frame = pd.DataFrame(X, columns=list(columns))
        assert np.array_equal(Predictor(path).predict_proba(frame), model.predict_proba(X))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, object])
def test_masked_values_are_missing(path, dtype):
    model, X = with_labels([3, 5, 8])
    model.save_model(path)
    X = X.astype(np.float32).astype(dtype)
    mask = np.random.default_rng(0).random(X.shape) < 0.3
    expected = model.predict_proba(np.where(mask, np.nan, X.astype(float)))
    assert np.array_equal(Predictor(path).predict_proba(np.ma.masked_array(X, mask)), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinity_goes_where_the_classifier_sends_it(path, dtype):
    model, X = with_labels([3, 5, 8])
    model.save_model(path)
    X = X.astype(dtype)
    X[::3, 0], X[1::3, 1] = np.inf, -np.inf
    for n_rows in (3, 120):
        assert np.array_equal(Predictor(path).predict_proba(X[:n_rows]), model.predict_proba(X[:n_rows]))


def test_names_are_refused_if_the_model_has_none(path):
    model, _ = with_labels([0, 1, 2])
    model.save_model(path)
    with pytest.raises(ValueError, match="the model has no names of features"):
        Predictor(path).predict([{"x": 1.0}])


def test_wrong_files_and_arguments_are_refused(path, tmp_path):
    model, _ = with_labels([0, 1, 2])
    model.save_model(path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-100] ^= 1
    for wrong, message in (
        (b"no model", "another kind of file|too short"),
        (b"", "it is empty"),
        (whole[:-100], "cut off, or damaged"),
        (flipped, "the checksum does not match"),
        (whole[:8] + (99).to_bytes(4, "little") + whole[12:], "format version 99, but this version .* upgrade"),
        (pickle.dumps({"a": list(range(50))}), "another kind of file"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(ModelFormatError, match=f"model.abc is not a valid model file: .*({message})"):
            Predictor(path)
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        Predictor(tmp_path)
    with pytest.raises(FileNotFoundError):
        Predictor(tmp_path / "nothing.abc")
    for wrong in (None, 3, b"model.abc"):
        with pytest.raises(TypeError, match="path must be a path"):
            Predictor(wrong)
    with pytest.raises(ValueError, match="n_jobs must be"):
        Predictor(path, n_jobs=0)


def test_few_rows_are_predicted_without_numba_scipy_and_scikit_learn(path):
    model, X = with_labels(["a", "b", "c"])
    model.save_model(path)
    code = (
        "import sys; from abc_plugins.serving import Predictor;"
        f"print(Predictor({str(path)!r}).predict([{X[0].tolist()}])[0]);"
        "print(*{'numba', 'llvmlite', 'scipy', 'joblib', 'sklearn', 'narwhals', 'pandas'} & set(sys.modules))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [model.predict(X[:1])[0], ""]


def test_many_rows_are_predicted_without_scikit_learn(path):
    model, X = with_labels(["a", "b", "c"])
    model.save_model(path)
    code = (
        "import sys; from abc_plugins.serving import Predictor;"
        f"print(*Predictor({str(path)!r}).predict({X.tolist()}));"
        "print(*{'numba', 'sklearn', 'narwhals', 'pandas', 'pyarrow', 'polars', 'lightgbm'} & set(sys.modules))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [" ".join(model.predict(X)), "numba"]


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), np.float64("nan"), pd.NA, pd.NaT])
def test_every_missing_value_is_missing(path, missing):
    """In a category with more levels than have a number of their own, too, where what is unknown is another level."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"code": rng.integers(0, 300, 2000).astype(object), "size": rng.normal(size=2000)})
    table.loc[::3, "code"] = None
    y = np.where(table["code"].isna(), 2, rng.integers(0, 2, 2000))
    model = ABCBoostClassifier(n_estimators=5, n_jobs=1, random_state=0, categorical_features=["code"]).fit(table, y)
    model.save_model(path)
    expected = model.predict_proba(pd.DataFrame({"code": [None, 7], "size": [0.5, np.nan]}))
    unknown = model.predict_proba(pd.DataFrame({"code": [1000, 7], "size": [0.5, np.nan]}))
    assert not np.array_equal(expected, unknown)
    rows = [{"code": missing, "size": 0.5}, {"code": np.float32(7), "size": missing}]
    assert np.array_equal(Predictor(path).predict_proba(rows), expected)
    with pytest.raises(ValueError, match="got 'infinity'"):
        Predictor(path).predict_proba([{"code": np.float32("inf"), "size": 1.0}])


def test_nullable_columns_of_pandas(path):
    table = pd.DataFrame(
        {
            "flag": pd.array([True, False, None] * 50, dtype="boolean"),
            "count": pd.array([1, None, 3] * 50, dtype="Int64"),
            "text": pd.array(["u", "v", None] * 50, dtype="string"),
        }
    )
    model = ABCBoostClassifier(n_estimators=5, n_jobs=1, random_state=0).fit(table, np.arange(150) % 3)
    model.save_model(path)
    for n_rows in (3, 150):
        some = table[:n_rows]
        assert np.array_equal(Predictor(path).predict_proba(some), model.predict_proba(some))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_predicts(path):
    """After its parent has predicted with several threads, which the child does not have."""
    model, X = with_labels(["a", "b", "c"])
    model.save_model(path)
    code = (
        "import os, signal, sys, numpy; from abc_plugins.serving import Predictor;"
        f"predictor = Predictor({str(path)!r}, n_jobs=2); X = numpy.zeros((5000, {X.shape[1]})); predictor.predict(X);"
        "child = os.fork(); child or signal.alarm(60); predictor.predict(X); child or os._exit(0);"
        "sys.exit(os.waitpid(child, 0)[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
