"""Categorical columns: which they are, their levels in every table library, and the numbers of levels."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from abc_plugins.data.categories import MAX_LEVELS, check_categorical_features, learn_categories
from abc_plugins.data.tables import Features, read_features, read_known

WORDS = ["b", "a", None, "c", "a"]
CODES = [1, 0, np.nan, 2, 0]


def read(X: Any, categorical: Any = "from_dtype") -> Features:
    return read_features(X, categorical=categorical)


def levels_of(X: Any, categorical: Any = "from_dtype") -> list[Any]:
    return [None if levels is None else levels.tolist() for levels in read(X, categorical).levels or [None]]


def learn(X: Any, categorical: Any = "from_dtype", weights: Any = None) -> tuple[Any, Any]:
    """Categories of a table, and its numbers."""
    features = read(X, categorical)
    weights = np.ones(len(features.values)) if weights is None else np.asarray(weights, dtype=float)
    categories = learn_categories(features.values, features.levels, weights)
    categories.encode(features.values, features.levels, features.names, "X")
    return categories, features.values


TEXT_COLUMNS = {
    "pandas strings": lambda: pd.DataFrame({"c": pd.Series(WORDS, dtype="str")}),
    "pandas objects": lambda: pd.DataFrame({"c": pd.Series(WORDS, dtype=object)}),
    "pandas objects with NaN": lambda: pd.DataFrame({"c": pd.Series([w or np.nan for w in WORDS], dtype=object)}),
    "pandas nullable strings": lambda: pd.DataFrame({"c": pd.Series(WORDS, dtype="string")}),
    "pandas Arrow strings": lambda: pd.DataFrame({"c": pd.Series(WORDS, dtype=pd.ArrowDtype(pa.string()))}),
    "pandas categories": lambda: pd.DataFrame({"c": pd.Categorical(WORDS, categories=["z", "c", "b", "a"])}),
    "polars strings": lambda: pl.DataFrame({"c": WORDS}),
    "polars categories": lambda: pl.DataFrame({"c": WORDS}, schema={"c": pl.Categorical}),
    "polars enumeration": lambda: pl.DataFrame({"c": WORDS}, schema={"c": pl.Enum(["a", "b", "c", "d"])}),
    "Arrow strings": lambda: pa.table({"c": WORDS}),
    "Arrow large strings": lambda: pa.table({"c": pa.array(WORDS, type=pa.large_string())}),
    "Arrow dictionary": lambda: pa.table({"c": pa.array(WORDS).dictionary_encode()}),
    "Arrow dictionary in chunks": lambda: pa.table(
        {"c": pa.chunked_array([pa.array(WORDS[:2]).dictionary_encode(), pa.array(WORDS[2:]).dictionary_encode()])}
    ),
    "NumPy objects": lambda: np.array(WORDS, dtype=object)[:, None],
    "list": lambda: [[word] for word in WORDS],
}


@pytest.mark.parametrize("kind", TEXT_COLUMNS)
def test_columns_of_text_and_categories(kind: str) -> None:
    categories, values = learn(TEXT_COLUMNS[kind]())
    np.testing.assert_array_equal(values[:, 0], CODES)
    assert categories.levels[0].tolist() == ["a", "b", "c"]
    assert categories.is_categorical.tolist() == [True]
    assert categories.has_other.tolist() == [False]


NUMBER_COLUMNS = {
    "booleans": pd.DataFrame({"c": [True, False]}),
    "nullable booleans": pd.DataFrame({"c": pd.array([True, None], dtype="boolean")}),
    "objects that are numbers": pd.DataFrame({"c": np.array([1, None, 2.5], dtype=object)}),
    "objects that are missing": pd.DataFrame({"c": np.array([None, None], dtype=object)}),
    "integers": pl.DataFrame({"c": [1, None]}),
    "array": np.array([[1.0], [2.0]]),
    "objects": np.array([[1.0], [None]], dtype=object),
}


@pytest.mark.parametrize("kind", NUMBER_COLUMNS)
def test_numbers_and_booleans_are_no_categories(kind: str) -> None:
    features = read(NUMBER_COLUMNS[kind])
    assert features.levels is None
    assert features.values.dtype == np.float64


def test_a_list_may_have_numbers_beside_strings() -> None:
    features = read([["x", 1.5], ["y", 2.5]])
    np.testing.assert_array_equal(features.values, [[0, 1.5], [1, 2.5]])
    assert read(np.array([["x", "1"], ["y", "0"]])).values.tolist() == [[0, 1], [1, 0]]


def test_strings_beside_numbers_in_one_column() -> None:
    table = pd.DataFrame({"c": np.array([1, "x", None, 10, 2.5, "b", True], dtype=object)})
    with pytest.raises(ValueError, match=r"Column 'c' of X .*: row 1 has 'x', of type str.*categorical_features"):
        read(table)
    assert levels_of(table, ["c"]) == [[1, 2.5, 10, "b", "x"]]  # numbers first
    np.testing.assert_array_equal(read(table, [0]).values[:, 0], [0, 4, np.nan, 2, 1, 3, 0])


ORDERED = {
    "pandas": pd.DataFrame({"c": pd.Categorical(["m", "s", "l"], categories=["s", "m", "l", "xl"], ordered=True)}),
    "polars": pl.DataFrame({"c": ["m", "s", "l"]}, schema={"c": pl.Enum(["s", "m", "l", "xl"])}),
    "Arrow": pa.table(
        {"c": pa.DictionaryArray.from_arrays(pa.array([1, 0, 2]), pa.array(["s", "m", "l", "xl"]), ordered=True)}
    ),
}


@pytest.mark.parametrize("kind", ORDERED)
def test_ordered_categories_keep_their_order(kind: str) -> None:
    categories, values = learn(ORDERED[kind])
    assert values[:, 0].tolist() == [1, 0, 2]
    assert categories.levels[0].tolist() == ["s", "m", "l"]  # "xl" does not occur


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint64", "Int64", "bool"])
def test_numbers_may_be_levels(dtype: str) -> None:
    raw = [1, 0, 1] if dtype == "bool" else [10, 9, 10]
    table = pd.DataFrame({"x": [0.5, 0.25, 0.0], "c": pd.Series(raw).astype(dtype)})
    for chosen in (["c"], [1], [False, True], np.array([False, True]), pd.Index(["c"])):
        categories, values = learn(table, check_categorical_features(chosen))
        assert values.tolist() == [[0.5, 1], [0.25, 0], [0, 1]]
        assert categories.levels[0] is None
        assert categories.levels[1].tolist() == sorted(set(raw))
        assert categories.levels[1].dtype.kind in "biuf"


def test_integers_beside_nulls_stay_integers() -> None:
    large = 2**53
    for table in (
        pd.DataFrame({"c": pd.array([large + 1, None, large], dtype="Int64")}),
        pl.DataFrame({"c": [large + 1, None, large]}),
        pa.table({"c": [large + 1, None, large]}),
    ):
        features = read(table, ["c"])
        np.testing.assert_array_equal(features.values[:, 0], [1, np.nan, 0])
        assert levels_of(table, ["c"]) == [[large, large + 1]]


def test_an_array_of_numbers_is_not_changed() -> None:
    X = np.array([[5.0, 1.0], [np.nan, 2.0], [3.0, 3.0]])
    before = X.copy()
    categories, values = learn(X, [0])
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(values, [[1, 1], [np.nan, 2], [0, 3]])
    assert categories.levels[0].tolist() == [3.0, 5.0]


def test_features_that_were_read_before() -> None:
    features = read(pd.DataFrame({"c": ["v", "u", "v"], "x": [2.0, 1.0, 2.0]}))
    before = features.values.copy()
    assert learn(features)[1].tolist() == [[1, 2], [0, 1], [1, 2]]
    assert learn(features, ["c", "x"])[0].levels[1].tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(features.values, before)
    with pytest.raises(ValueError, match="Column 'c' of X has the dtype String"):
        read(features, ["x"])


def test_dates_and_intervals_are_levels_by_their_text() -> None:
    days = [datetime.date(2024, 1, 2), datetime.date(2023, 5, 6)]
    assert levels_of(pl.DataFrame({"c": days}), ["c"]) == [["2023-05-06", "2024-01-02"]]
    intervals = pd.DataFrame({"c": pd.cut([0.5, 5.0, 15.0], [0, 1, 10, 20])})
    assert levels_of(intervals) == [["(0, 1]", "(1, 10]", "(10, 20]"]]  # in their own order


# ------------------------------------------------------------------------------------------------ numbers of levels


def many(n_levels: int) -> list[str]:
    return [f"level {k:03d}" for k in range(n_levels)]


def test_up_to_254_levels_have_a_number_each() -> None:
    categories, values = learn(pd.DataFrame({"c": many(MAX_LEVELS)}))
    assert values[:, 0].tolist() == list(range(254))
    assert not categories.has_other[0]


def test_of_more_levels_the_rare_ones_share_the_last_number() -> None:
    words = many(300)
    rows = words + words[100:] + ["level 299"]  # the first hundred are rare; of those the last 47 are left out
    categories, values = learn(pd.DataFrame({"c": rows}))
    assert categories.levels[0].tolist() == words[:53] + words[100:]
    assert categories.has_other.tolist() == [True]
    assert values[:, 0].max() == 253
    np.testing.assert_array_equal(values[53:100, 0], 253)
    np.testing.assert_array_equal(values[:53, 0], np.arange(53))
    # what counts is the weight: a weight of 2 equals a row given twice
    again, _ = learn(pd.DataFrame({"c": words}), weights=[1] * 100 + [2] * 199 + [3])
    assert again.levels[0].tolist() == categories.levels[0].tolist()
    new = read_known(pd.DataFrame({"c": ["level 053", "unseen", None, "level 299"]}), categories, ["c"], "X", "model")
    np.testing.assert_array_equal(new[:, 0], [253, 253, np.nan, 252])


def test_unseen_levels_are_missing() -> None:
    categories, _ = learn(pd.DataFrame({"c": ["u", "v"], "n": [1, 2]}), ["c", "n"])
    known = {"categories": categories, "names": ["c", "n"], "input_name": "X", "owner": "the model"}
    np.testing.assert_array_equal(
        read_known(pd.DataFrame({"c": ["v", "w", None], "n": [2.0, 3.0, np.nan]}), **known),
        [[1, 1], [np.nan, np.nan], [np.nan, np.nan]],
    )
    # one row, and nothing in it is known
    np.testing.assert_array_equal(read_known(pl.DataFrame({"c": ["w"], "n": [7]}), **known), [[np.nan, np.nan]])
    # what is equal is the same level
    for n in ([1, 2], [1.0, 2.0], pd.Categorical([1, 2]), np.array([1, 2], dtype=object)):
        np.testing.assert_array_equal(read_known(pd.DataFrame({"c": ["u", "v"], "n": n}), **known), [[0, 0], [1, 1]])
    for table, message in (
        ({"c": [1, 2], "n": [1, 2]}, r"Column 'c' of X has numbers \(1, 2\), but .* strings \('u', 'v'\)"),
        ({"c": ["u", "v"], "n": ["1", "2"]}, r"Column 'n' of X has strings \('1', '2'\), but .* numbers \(1, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            read_known(pd.DataFrame(table), **known)


def test_only_rows_with_weight_have_levels() -> None:
    features = read(pd.DataFrame({"c": ["u", "v", "w"]}))
    kept = np.array([True, False, True])
    categories = learn_categories(features.values[kept], features.levels, np.ones(2))
    assert categories.levels[0].tolist() == ["u", "w"]


def test_a_column_without_any_value() -> None:
    categories, values = learn(pl.DataFrame({"c": [None, None]}, schema={"c": pl.String}))
    assert np.isnan(values).all()
    assert categories.levels[0].size == 0
    assert np.isnan(read_known(pl.DataFrame({"c": ["x"]}), categories, ["c"], "X", "the model")).all()


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    "value", ["color", 3, 2.5, True, {"a": 1}, ["a", 1], [1.0], [None], [[0, 1]], [["a"], ["b", "c"]], b"a"]
)
def test_bad_values_of_the_parameter(value: Any) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=r"categorical_features must be .*None, or a list of column names"
    ):
        check_categorical_features(value)


def test_columns_that_are_not_there() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]})
    for chosen, message in (
        (["c"], "names of columns of X .*'a', 'b'.*; got 'c'"),
        ([2], "column indices from 0 to 1; got 2"),
        ([-1], "column indices from 0 to 1; got -1"),
        ([True], "a boolean for each of the 2 columns"),
    ):
        with pytest.raises(ValueError, match=f"categorical_features must be .*{message}"):
            read(table, chosen)
    with pytest.raises(ValueError, match="indices or booleans if X has no column names; got 'a'"):
        read(table.to_numpy(), ["a"])
    assert read(table, []).levels is None


def test_what_is_no_level() -> None:
    for column in ([1.0, np.inf], np.array([1, np.inf], dtype=object)):
        with pytest.raises(ValueError, match="column 'c' of X contains infinity"):
            read(pd.DataFrame({"c": column}), ["c"])
    for value in ((1, 2), object(), 1j):
        column = np.empty(1, dtype=object)
        column[0] = value
        with pytest.raises(TypeError, match="column 'c' of X: categories must be strings, numbers or booleans"):
            read(pd.DataFrame({"c": column}), ["c"])
    with pytest.raises(TypeError, match="column 'c' of X: categories must be strings, numbers or booleans"):
        read(pl.DataFrame({"c": [[1], [2]]}), ["c"])


def test_a_column_that_was_a_number() -> None:
    categories, _ = learn(pd.DataFrame({"c": ["u", "v"], "x": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="Column 'x' of X has the dtype String"):
        read_known(pd.DataFrame({"c": ["u"], "x": ["v"]}), categories, ["c", "x"], "X", "the model")
    with pytest.raises(ValueError, match="X has 3 features, but the model is expecting 2 features"):
        read_known(np.array([["u", 1, 2]], dtype=object), categories, None, "X", "the model")
