"""Features, labels and weights of every kind of table, and the errors for those that cannot be read."""

from __future__ import annotations

import enum
import re
import warnings
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from abc_plugins.data.labels import encode_labels, read_labels
from abc_plugins.data.tables import read_features, read_weights

COLUMNS = {"a": [1, 2, 3, 4], "b": [0.5, None, 2.5, 3.5], "c": [True, False, None, True]}
EXPECTED = np.array([[1, 0.5, 1], [2, np.nan, 0], [3, 2.5, np.nan], [4, 3.5, 1]])


def nullable_pandas() -> pd.DataFrame:
    return pd.DataFrame(COLUMNS).astype({"a": "Int64", "b": "Float64", "c": "boolean"})


TABLES = {
    "pandas nullable": nullable_pandas,
    "pandas arrow": lambda: nullable_pandas().convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "arrow": lambda: pa.table(COLUMNS),
    "arrow chunked": lambda: pa.concat_tables([pa.table(COLUMNS)[:2], pa.table(COLUMNS)[2:]]),
    "arrow batch": lambda: pa.table(COLUMNS).to_batches()[0],
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_every_library_give_the_same_array(kind: str) -> None:
    features = read_features(TABLES[kind]())
    assert features.names == ["a", "b", "c"]
    assert features.values.dtype == np.float64
    assert features.values.flags.f_contiguous
    np.testing.assert_array_equal(features.values, EXPECTED)


def test_float32_tables_stay_float32() -> None:
    for table in (pd.DataFrame(EXPECTED, dtype=np.float32), pl.DataFrame(EXPECTED.astype(np.float32))):
        features = read_features(table)
        assert features.values.dtype == np.float32
        np.testing.assert_array_equal(features.values, EXPECTED.astype(np.float32))


def test_one_wider_column_makes_a_table_float64() -> None:
    table = pd.DataFrame({"a": np.array([1.5, 2.5], np.float32), "b": np.array([2**31, 1], np.int64)})
    assert read_features(table).values.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_float_arrays_are_not_copied(dtype: type, order: Any) -> None:
    array = np.asarray(np.arange(6).reshape(3, 2), dtype=dtype, order=order)
    array.flags.writeable = False
    features = read_features(array)
    assert features.values is array
    assert features.names is None


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">f8", "f2", "g"])
def test_other_numbers_become_floats_exactly(dtype: str) -> None:
    array = np.array([[0, 1], [1, 0]]).astype(dtype)
    values = read_features(array).values
    assert values.dtype == (np.float32 if dtype == "f2" else np.float64)
    assert values.dtype.isnative
    np.testing.assert_array_equal(values, [[0, 1], [1, 0]])


def test_strided_arrays_become_contiguous() -> None:
    array = np.arange(24.0).reshape(4, 6)[::2, ::2]
    values = read_features(array).values
    assert values.flags.c_contiguous
    np.testing.assert_array_equal(values, array)


def test_huge_integers_keep_their_order() -> None:
    numbers = np.array([2**53 - 1, 2**53, 2**53 + 1, 2**60, 2**60 + 1000])
    for table in (numbers[:, None], pl.DataFrame({"a": numbers}), pd.DataFrame({"a": numbers})):
        values = read_features(table).values[:, 0]
        assert (np.diff(values) >= 0).all()
        np.testing.assert_array_equal(values, numbers.astype(np.float64))


def test_lists_with_none_and_object_arrays() -> None:
    np.testing.assert_array_equal(read_features([[1, None], [2, 3.5]]).values, [[1, np.nan], [2, 3.5]])
    np.testing.assert_array_equal(read_features(np.array([[1, 2]], dtype=object)).values, [[1, 2]])


def test_masked_values_are_missing() -> None:
    masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(read_features(masked).values, [[1, np.nan], [3, 4]])
    np.testing.assert_array_equal(read_features(np.ma.masked_array([[1, 2]])).values, [[1, 2]])
    row = np.ma.masked_array([1, 2], mask=[True, False])
    with pytest.raises(ValueError, match="y contains masked values"):
        read_labels(row)
    with pytest.raises(ValueError, match="sample_weight contains masked values"):
        read_weights(row, 2)


def test_columns_without_values_are_missing() -> None:
    for table in (pl.DataFrame({"a": [None, None]}), pa.table({"a": pa.nulls(2)})):
        assert np.isnan(read_features(table).values).all()


def test_unusual_columns() -> None:
    table = pd.DataFrame(
        {
            "sparse": pd.arrays.SparseArray([0.0, 1.0]),
            "long": np.array([1, 2], np.longdouble),
            "half": np.zeros(2, "f2"),
        }
    )
    np.testing.assert_array_equal(read_features(table).values, [[0, 1, 0], [1, 2, 0]])
    decimals = pa.table({"a": pa.array([1, 2], pa.decimal128(5, 2))})
    np.testing.assert_array_equal(read_features(decimals).values, [[1], [2]])


def test_names_that_are_no_strings_are_no_names() -> None:
    assert read_features(pd.DataFrame(np.ones((2, 2)))).names is None
    with pytest.raises(TypeError, match="Feature names are only supported if all input features have string names"):
        read_features(pd.DataFrame(np.ones((2, 2)), columns=["a", 1]))


BAD_COLUMNS = {
    "string": (pd.DataFrame({"n": [1], "s": ["x"]}), "'s'", "str"),
    "object": (pd.DataFrame({"s": np.array(["y", "x"], dtype=object)}), "'s'", "string"),
    "category": (pd.DataFrame({"s": pd.Categorical(["u", "v"])}), "'s'", "categorical"),
    "date": (pd.DataFrame({"s": pd.to_datetime(["2020-01-01"])}), "'s'", "datetime"),
    "duration": (pd.DataFrame({"s": pd.to_timedelta([1], unit="s")}), "'s'", "duration"),
    "polars string": (pl.DataFrame({"n": [1], "s": ["x"]}), "'s'", "string"),
    "polars enum": (pl.DataFrame({"s": ["x"]}, schema={"s": pl.Enum(["x"])}), "'s'", "enum"),
    "polars list": (pl.DataFrame({"s": [[1, 2]]}), "'s'", "list"),
    "arrow dictionary": (pa.table({"s": pa.array(["x", "y"]).dictionary_encode()}), "'s'", "categorical"),
}


@pytest.mark.parametrize("kind", BAD_COLUMNS)
def test_a_column_that_is_no_number_is_named(kind: str) -> None:
    table, column, dtype = BAD_COLUMNS[kind]
    with pytest.raises(ValueError, match=f"(?i)^Column {column} of X has the dtype {dtype}.*encode") as caught:
        read_features(table)
    assert "it is not among the categorical features" in str(caught.value)


def test_objects_that_are_all_numbers_are_numbers() -> None:
    table = pd.DataFrame({"s": np.array([1, None, 2.5, True, np.nan, np.float32(3), Decimal("0.5")], dtype=object)})
    np.testing.assert_array_equal(read_features(table).values[:, 0], [1, np.nan, 2.5, 1, np.nan, 3, 0.5])


@pytest.mark.parametrize("value", ["x", date(2020, 1, 1), (1, 2)], ids=["text", "date", "tuple"])
def test_the_first_object_that_is_no_number_is_named(value: Any) -> None:
    column = np.empty(3, dtype=object)
    column[:] = [1, None, 0]
    column[2] = value
    kind = type(value).__name__
    with pytest.raises(ValueError, match=rf"Column 's' of X has Python objects .*: row 2 has .*, of type {kind}\."):
        read_features(pd.DataFrame({"s": column}))


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        ([1.0, 2.0], ValueError, "Reshape your data"),
        (np.array(3.0), ValueError, "Reshape your data"),
        (pd.Series([1.0]), ValueError, "got a Series instead. Reshape your data"),
        (np.zeros((2, 2, 2)), ValueError, "Found array with dim 3"),
        (np.zeros((0, 3)), ValueError, r"0 sample\(s\)"),
        (np.zeros((3, 0)), ValueError, r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required."),
        (pd.DataFrame({"a": []}), ValueError, r"0 sample\(s\) \(shape=\(0, 1\)\) while a minimum of 1 is required."),
        (pd.DataFrame(index=[1, 2]), ValueError, r"0 feature\(s\)"),
        ([[1.0], [1.0, 2.0]], ValueError, "X must be a table whose rows all have the same length"),
        ([["a"], ["b"]], ValueError, "X has the dtype <U1, but features must be numbers or booleans"),
        (np.array([["1"]], dtype="S1"), ValueError, "X has the dtype |S1"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), ValueError, "X has the dtype datetime64"),
        (np.array([[{}]], dtype=object), TypeError, "argument must be .* string.* number"),
        (np.array([["a"]], dtype=object), ValueError, "could not convert string to float: 'a'"),
        (np.array([[1j]]), ValueError, "Complex data not supported"),
        (pd.DataFrame({"z": [1j]}), ValueError, "Complex data not supported: column 'z' of X"),
        (pl.DataFrame({"a": [1.0]}).lazy(), TypeError, "X is a lazy table"),
        (pd.DataFrame(np.ones((1, 2)), columns=["a", "a"]), ValueError, "X must have unique column names.*'a' 2 times"),
        (pa.table([pa.array([1])] * 2, names=["a", "a"]), ValueError, "X must have unique column names.*'a' 2 times"),
        (None, ValueError, "Reshape your data"),
        ("text", ValueError, "X has the dtype <U4"),
    ],
)
def test_bad_features(X: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.compile(message, re.DOTALL)):
        read_features(X)


def test_features_with_missing_values_only_are_fine() -> None:
    assert np.isnan(read_features(np.full((2, 2), np.nan)).values).all()


def test_columns_are_checked_against_the_training_data() -> None:
    table = pd.DataFrame(np.ones((2, 3)), columns=["a", "b", "c"])
    known = {"names": ["a", "b", "c"], "n_features": 3, "owner": "ABCBoostClassifier"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_features(table, **known)
        read_features(np.ones((2, 3)), n_features=3)
    message = "The feature names should match those that were passed during fit.\n"
    for columns, more in [
        (["c", "b", "a"], "Feature names must be in the same order as they were in fit.\n"),
        (["a", "b"], "Feature names seen at fit time, yet now missing:\n- c\n"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message + more)):
            read_features(table[columns], **known)
    many = pd.DataFrame(np.ones((2, 9)), columns=[f"x{i}" for i in range(9)])
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- x0\n(- x\d\n){4}- \.\.\.\nFeature names seen"):
        read_features(many, **known)
    with pytest.raises(ValueError, match="X has 2 features, but ABCBoostClassifier is expecting 3 features as input"):
        read_features(np.ones((2, 2)), n_features=3, owner="ABCBoostClassifier")


def test_names_on_one_side_only_warn() -> None:
    table = pd.DataFrame(np.ones((2, 1)), columns=["a"])
    with pytest.warns(UserWarning, match="X has feature names, but the model was fitted without feature names"):
        read_features(table, n_features=1)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but the model was fitted with feature"):
        read_features(np.ones((2, 1)), names=["a"], n_features=1)


def test_errors_use_the_name_of_the_input() -> None:
    with pytest.raises(ValueError, match=r"Column 's' of eval_set\[0\]"):
        read_features(pd.DataFrame({"s": ["x"]}), input_name="eval_set[0]")


# ------------------------------------------------------------------------------------------------ labels

TUPLES = np.empty(3, dtype=object)
TUPLES[:] = [(1, "b"), (1, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        ([3, 1, 3], [1, 3], [1, 0, 1]),
        (np.array([3, 1, 3], np.int8), [1, 3], [1, 0, 1]),
        (["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        ([True, False, True], [False, True], [1, 0, 1]),
        ([2.0, -1.0, 2.0], [-1.0, 2.0], [1, 0, 1]),
        (np.array(["b", "a", "b"], dtype=object), ["a", "b"], [1, 0, 1]),
        (np.array([2, 1, 2], dtype=object), [1, 2], [1, 0, 1]),
        (pd.Series(["b", "a", "b"]), ["a", "b"], [1, 0, 1]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"], [1, 0, 1]),
        (pd.Series([5, 4, 5], dtype="Int64"), [4, 5], [1, 0, 1]),
        (pl.Series(["b", "a", "b"]), ["a", "b"], [1, 0, 1]),
        (pl.Series([True, False, True]), [False, True], [1, 0, 1]),
        (pa.chunked_array([["b", "a"], ["b"]]), ["a", "b"], [1, 0, 1]),
        (pa.array([7, 6, 7]), [6, 7], [1, 0, 1]),
        (TUPLES, [(1, "a"), (1, "b")], [1, 0, 1]),
        (TUPLES.tolist(), [(1, "a"), (1, "b")], [1, 0, 1]),
    ],
)
def test_labels_of_every_kind(y: Any, classes: list[Any], codes: list[int]) -> None:
    found, indices = read_labels(y)
    assert found.tolist() == classes
    assert indices.dtype == np.int32
    assert indices.tolist() == codes
    assert encode_labels(y, found).tolist() == codes


def test_classes_keep_the_dtype_of_the_labels() -> None:
    for dtype in (np.int8, np.uint64, np.bool_, np.float32, "U3"):
        assert read_labels(np.array([0, 1, 0]).astype(dtype))[0].dtype == np.dtype(dtype)


def test_a_column_vector_warns() -> None:
    for y in (np.array([[0], [1]]), pd.DataFrame({"y": [0, 1]}), pl.DataFrame({"y": [0, 1]})):
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
            assert read_labels(y)[1].tolist() == [0, 1]


class Unordered(enum.Enum):
    ONE = 1
    TWO = 2


MISSING_NA = np.array(["a", pd.NA, "b"], dtype=object)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        ([], r"y must have at least one label; got 0 sample"),
        ([1, 1, 1], "y must have at least two classes; got one class: .*1"),
        (["a", "a"], "y must have at least two classes; got one class: .*a"),
        ([[0, 1], [1, 0]], r"y should be a 1d array, got an array of shape \(2, 2\)"),
        ([0.5, 1.0], "Unknown label type: continuous"),
        (np.array([0.5, 1.5], dtype=object), "Unknown label type: continuous"),
        ([0.0, np.nan], "y contains NaN"),
        ([0.0, np.inf], "y contains infinity"),
        (np.array(["2020-01-01", "NaT"], dtype="M8[D]"), "y contains NaT"),
        ([1 + 2j, 3], "Complex data not supported"),
        (np.array(["a", None], dtype=object), r"y contains a missing label \(None\)"),
        (np.array(["a", np.nan], dtype=object), r"y contains a missing label \(nan\)"),
        (MISSING_NA, r"y contains a missing label \(<NA>\)"),
        (pl.Series([True, None]), r"y contains a missing label \(None\)"),
        (pl.Series([1, None]), "y contains NaN"),
        (pd.Series([1, None], dtype="Int64"), "y contains NaN"),
        (np.array(["a", 1], dtype=object), "labels in y cannot be sorted .* found int, str. Convert them to one kind"),
        (np.array([Unordered.ONE, Unordered.TWO], dtype=object), "labels in y cannot be sorted .* found Unordered"),
        (np.array([{}, {"a": 1}], dtype=object), "labels in y must be hashable"),
        (np.zeros(2, dtype="i4,f8"), "Unknown label type: y has the dtype"),
    ],
)
def test_bad_labels(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        read_labels(y)


def test_labels_of_another_dtype_are_found_by_value() -> None:
    assert encode_labels([1.0, 2.0], np.array([1, 2])).tolist() == [0, 1]
    assert encode_labels(np.array(["a", "b"], dtype=object), np.array(["a", "b"])).tolist() == [0, 1]
    assert encode_labels(["b", "b"], np.array(["a", "b"])).tolist() == [1, 1]


def test_unknown_labels_are_named() -> None:
    message = r"eval_set\[0\]\[1\] has labels .*: 'x', 'y'. The classes are 'a', 'b'."
    with pytest.raises(ValueError, match=message):
        encode_labels(["a", "y", "x"], np.array(["a", "b"]), input_name="eval_set[0][1]")
    with pytest.raises(ValueError, match=r"data: 2, 3, 4, 5, 6, \.\.\.\. The classes are 0, 1"):
        encode_labels(range(9), np.array([0, 1]))
    with pytest.raises(ValueError, match="training data: 'a'"):
        encode_labels(["a"], np.array([0, 1]))


# ------------------------------------------------------------------------------------------------ weights


@pytest.mark.parametrize(
    "weights", [[0, 1, 2.5], np.array([0, 1, 2.5], np.float32), pd.Series([0, 1, 2.5]), pl.Series([0.0, 1.0, 2.5])]
)
def test_weights_become_doubles(weights: Any) -> None:
    values = read_weights(weights, 3)
    assert values is not None
    assert values.dtype == np.float64
    assert values.tolist() == [0, 1, 2.5]


def test_no_weights() -> None:
    assert read_weights(None, 3) is None


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"sample_weight must have one weight for each of the 3 samples, shape \(3,\); got shape \(2,\)"),
        (1.0, r"got shape \(\)"),
        ([[1], [1], [1]], r"got shape \(3, 1\)"),
        ([1, -2, 3], r"sample_weight\[1\] must be 0 or larger \(a weight must not be negative\); got -2.0"),
        ([0, 0, 0], "sample_weight must have at least one weight that is not zero"),
        ([1, np.nan, 1], "sample_weight contains NaN"),
        ([1, np.inf, 1], "sample_weight contains infinity"),
        (["a", "b", "c"], "could not convert string to float"),
        (pl.Series([1, None, 1]), "sample_weight contains NaN"),
    ],
)
def test_bad_weights(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_weights(weights, 3)


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i2", "u2"])
def test_training_keeps_small_integers(dtype):
    array = np.array([[1, 0], [0, 1], [1, 1]], dtype=dtype)
    values = read_features(array, keep_integers=True).values
    assert values.dtype == (np.uint8 if dtype == "bool" else dtype)
    assert np.shares_memory(values, array) == (dtype != "bool")
    np.testing.assert_array_equal(values, array)
    assert read_features(array).values.dtype == np.float64


@pytest.mark.parametrize("dtype", ["i4", "i8", ">i2", "f4", "f8", "O"])
def test_other_numbers_become_floats_all_the_same(dtype):
    values = read_features(np.array([[1, 0], [0, 1]], dtype=dtype), keep_integers=True).values
    assert values.dtype == (np.float32 if dtype == "f4" else np.float64)


def test_booleans_of_other_bytes_are_booleans():
    """Masks of 0 and 255 are seen as booleans at times."""
    mask = np.array([[0, 255], [255, 0]], dtype=np.uint8).view(bool)
    np.testing.assert_array_equal(read_features(mask, keep_integers=True).values, [[0, 1], [1, 0]])


INTEGER_LABELS = [
    (labels, dtype)
    for labels in ([3, 1, 3, 0], [100, 7, 7, 99], [70000, 3, 70000, 5], [-2, 5, -2, 0])
    for dtype in ("u1", "i1", "u2", ">i4", "i8", "u8")
    if np.iinfo(dtype).min <= min(labels) <= max(labels) <= np.iinfo(dtype).max
]


@pytest.mark.parametrize(("labels", "dtype"), INTEGER_LABELS, ids=str)
def test_integer_labels_of_any_size(labels, dtype):
    y = np.array(labels, dtype=dtype)
    classes, codes = read_labels(y)
    expected, inverse = np.unique(y, return_inverse=True)
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(codes, inverse)
    assert (classes.dtype, codes.dtype) == (expected.dtype, np.int32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sparse.csr_array, pd.DataFrame])
def test_infinite_values_are_the_largest_numbers(make, dtype):
    values = np.array([[np.inf, 1.0], [-np.inf, 2.0], [np.nan, 0.0]], dtype)
    found = read_features(make(values)).values
    if not isinstance(found, np.ndarray):
        found = np.column_stack([found.column(f) for f in range(2)])
    largest = np.finfo(np.float64).max
    expected = np.array([[largest, 1.0], [-largest, 2.0], [np.nan, 0.0]])
    np.testing.assert_array_equal(np.asarray(found, dtype=np.float64), expected)
    assert np.isinf(values).sum() == 2  # the caller's own are left alone
