"""Categorical features in the estimator: what training and prediction make of them, files, checkpoints, errors."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import checkpoint
from abc_plugins.core.model.file import ModelFormatError
from abc_plugins.core.model.header import check_header, decode_header, encode_header
from abc_plugins.training.eval_sets import hold_out

N = 600
METHODS = {
    "symmetric": {"method": "directional", "tree_shape": "symmetric"},
    "best-first": {"method": "directional", "tree_shape": "best-first"},
    "abcrobustlogit": {"method": "abcrobustlogit"},
}


def make_table() -> tuple[pd.DataFrame, Any]:
    """A table whose labels depend on groups of levels that no order of theirs puts side by side."""
    random = np.random.default_rng(7)
    letters = random.choice(list("abcdefghij"), N)
    cities = random.choice([f"city {k}" for k in range(300)], 3 * N)[:N]
    x = random.normal(size=N)
    group = np.array([ord(letter) % 3 for letter in letters])
    labels = np.where(random.random(N) < 0.1, random.integers(0, 3, N), (group + (x > 0.5)) % 3)
    letter = pd.Series(letters, dtype=object)
    letter[::19] = None
    table = pd.DataFrame(
        {
            "letter": letter.astype("category"),
            "x": x,
            "city": pd.Series(cities, dtype="str"),
            "size": pd.Categorical(random.choice(["l", "m", "s"], N), categories=["s", "m", "l"], ordered=True),
            "code": random.integers(1000, 1009, N),
        }
    )
    return table, np.array(["u", "v", "w"])[labels]


TABLE, Y = make_table()
MASK = [True, False, True, True, False]


def small(**options: Any) -> ABCBoostClassifier:
    given = {"n_estimators": 12, "min_samples_leaf": 3, "n_jobs": 1, "random_state": 0}
    return ABCBoostClassifier(**{**given, **options})


@pytest.fixture(scope="module")
def model() -> ABCBoostClassifier:
    return small().fit(TABLE, Y)


@pytest.mark.parametrize("method", METHODS)
def test_prediction_follows_the_sets_of_training(method: str, tmp_path: Path) -> None:
    for options in ({}, {"categorical_features": ["code", "letter", "city", "size"]}):
        fitted = small(**METHODS[method], **options).fit(TABLE, Y)
        assert (fitted.model_.flat().left_set >= 0).any()
        expected = fitted.predict_proba(TABLE)
        codes = np.searchsorted(fitted.classes_, Y)
        loss = -np.log(expected[np.arange(N), codes]).sum()
        assert fitted.train_loss_[-1] == pytest.approx(loss, rel=1e-9)
        few = fitted.predict_proba(TABLE[:20])  # rows are walked down one by one
        np.testing.assert_allclose(few, expected[:20], rtol=1e-12)
        fitted.save_model(tmp_path / "model")
        loaded = ABCBoostClassifier.load_model(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict_proba(TABLE), expected)
        assert loaded.get_params() == fitted.get_params()


def test_sets_say_what_codes_cannot() -> None:
    codes = TABLE.assign(**{name: TABLE[name].astype("category").cat.codes for name in ("letter", "city", "size")})
    with_sets, without = (small(n_estimators=3).fit(X, Y).train_loss_[-1] for X in (TABLE, codes))
    assert with_sets < without


def test_fitted_attributes(model: ABCBoostClassifier) -> None:
    assert model.is_categorical_.tolist() == MASK
    assert model.n_features_in_ == 5
    assert model.feature_names_in_.tolist() == list(TABLE.columns)
    letters, x, cities, sizes, code = model.categories_
    assert (x, code) == (None, None)
    assert letters.tolist() == list("abcdefghij")
    assert sizes.tolist() == ["s", "m", "l"]
    assert cities.tolist() == sorted(cities.tolist())
    assert cities.size == min(253, TABLE["city"].nunique())
    numbers = small(n_estimators=2).fit(TABLE[["x", "code"]], Y)
    assert numbers.categories_ == [None, None]
    assert not numbers.is_categorical_.any()


def test_tables_of_other_libraries(model: ABCBoostClassifier) -> None:
    expected = model.predict_proba(TABLE)
    plain = TABLE.astype({"letter": object, "size": object, "city": object})
    others = {
        "objects": plain,
        "polars": pl.from_pandas(TABLE),
        "polars strings": pl.from_pandas(plain),
        "Arrow": pa.Table.from_pandas(TABLE),
        "other codes": TABLE.assign(letter=pd.Categorical(TABLE["letter"], categories=list("jihgfedcba")[:10])),
    }
    for name, table in others.items():
        np.testing.assert_array_equal(model.predict_proba(table), expected, err_msg=name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        np.testing.assert_array_equal(model.predict_proba(plain.to_numpy()), expected)
    again = small().fit(pl.from_pandas(TABLE), Y)
    np.testing.assert_array_equal(again.predict_proba(TABLE), expected)
    without_names = small().fit(plain.to_numpy(), Y)
    assert without_names.is_categorical_.tolist() == MASK


def test_the_parameter_names_the_same_columns() -> None:
    chosen = (["letter", "city", "size"], [0, 2, 3], MASK, np.array(MASK), pd.Index(["letter", "city", "size"]))
    expected = small(n_estimators=3).fit(TABLE, Y).predict_proba(TABLE)
    for categorical in chosen:
        fitted = clone(small(n_estimators=3, categorical_features=categorical)).fit(TABLE, Y)
        np.testing.assert_array_equal(fitted.predict_proba(TABLE), expected)


def test_unseen_levels_are_missing_values(model: ABCBoostClassifier) -> None:
    unseen = TABLE.assign(letter="unseen", size=pd.Categorical(["xxl"] * N))
    missing = TABLE.assign(letter=pd.Series([None] * N, dtype="str"), size=pd.Categorical([None] * N))
    np.testing.assert_array_equal(model.predict_proba(unseen), model.predict_proba(missing))
    np.testing.assert_array_equal(model.predict_proba(unseen[:1]), model.predict_proba(missing[:1]))


def test_other_columns_are_refused(model: ABCBoostClassifier) -> None:
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(TABLE.rename(columns={"letter": "character"}))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(TABLE.drop(columns="city"))
    with pytest.raises(ValueError, match="Column 'letter' of X has numbers"):
        model.predict(TABLE.assign(letter=1.0))
    with pytest.raises(ValueError, match="Column 'x' of X has the dtype String"):
        model.predict(TABLE.assign(x="1.0"))
    with pytest.raises(ValueError, match=r"Column 'size' of X of eval_set\[0\] has numbers"):
        small().fit(TABLE, Y, eval_set=[(TABLE.assign(size=3), Y)])


def test_other_columns_are_refused_at_the_fit() -> None:
    for categorical, message in (
        (None, "Column 'letter' of X has the dtype Categorical"),
        (["letter"], "Column 'city' of X has the dtype String"),
        (["letters"], "categorical_features must be a list of names of columns of X"),
        ("letter", "categorical_features must be"),
        (3, "categorical_features must be"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            small(categorical_features=categorical).fit(TABLE, Y)


@pytest.mark.parametrize("as_text", [False, True], ids=["numbers", "strings"])
def test_a_few_values_of_another_kind_are_refused(as_text: bool) -> None:
    numbers = np.arange(300) % 3
    known = numbers.astype(str) if as_text else numbers
    fitted = ABCBoostClassifier(n_estimators=3, n_jobs=1, categorical_features=["c"])
    fitted.fit(pd.DataFrame({"c": pd.Series(known, dtype=object)}), numbers)
    mixed = pd.Series(known, dtype=object)
    mixed[5] = 2 if as_text else "2"
    message = "Column 'c' of X has numbers \\(2\\), but .* are strings" if as_text else "has strings \\('2'\\), but"
    with pytest.raises(ValueError, match=message):
        fitted.predict(pd.DataFrame({"c": mixed}))
    # What a table of categories could have, but does not, is no matter.
    unused = pd.Series(known, dtype=object).astype(pd.CategoricalDtype([*dict.fromkeys(known.tolist()), mixed[5]]))
    assert (fitted.predict(pd.DataFrame({"c": unused})) == numbers).all()
    fitted.fit(pd.DataFrame({"c": mixed}), numbers)  # both kinds are known
    fitted.predict(pd.DataFrame({"c": mixed}))


def test_the_only_value_of_a_kind_may_be_held_out() -> None:
    labels = np.arange(300, dtype=np.int32) % 3
    _, held = hold_out(labels, 0.1, seed=np.random.RandomState(0).randint(2**31 - 1))
    column = pd.Series(labels, dtype=object)
    column[held[0]] = "other"
    options: dict[str, Any] = {"n_estimators": 2, "early_stopping": True, "refit": False, "n_jobs": 1}
    fitted = ABCBoostClassifier(**options, categorical_features=["c"], random_state=0)
    fitted.fit(pd.DataFrame({"c": column}), labels)
    assert fitted.categories_[0].tolist() == [0, 1, 2]


def test_weights_and_held_out_rows_of_levels() -> None:
    weights = np.where(TABLE["letter"] == "c", 0, 1 + (np.arange(N) % 3))
    expected = small(n_estimators=4).fit(TABLE.loc[TABLE.index.repeat(weights)], np.repeat(Y, weights))
    found = small(n_estimators=4).fit(TABLE, Y, sample_weight=weights)
    assert "c" not in found.categories_[0].tolist()
    np.testing.assert_allclose(found.predict_proba(TABLE), expected.predict_proba(TABLE), rtol=1e-6)
    rare = TABLE.assign(city=[f"{k:03d}" for k in range(N)])
    stopped = small(early_stopping_rounds=5, categorical_features=["letter", "city", "size"]).fit(rare, Y)
    assert stopped.categories_[2].size == 253  # levels of held out rows are among the others


def test_evaluation_sets_are_scored_as_predictions_are() -> None:
    fitted = small().fit(TABLE[:400], Y[:400], eval_set=[(pl.from_pandas(TABLE[400:]), Y[400:])])
    right = fitted.predict_proba(TABLE[400:])[np.arange(N - 400), np.searchsorted(fitted.classes_, Y[400:])]
    assert fitted.evals_result_["valid_0"]["logloss"][-1] == pytest.approx(-np.log(right).mean(), rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_resuming(method: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    eval_set = [(TABLE[:100], Y[:100])]
    options = {**METHODS[method], "categorical_features": np.array([0, 2, 3, 4])}
    whole = small(**options).fit(TABLE, Y, eval_set=eval_set)
    small(**{**options, "n_estimators": 5}).fit(TABLE, Y, eval_set=eval_set, callbacks=[checkpoint(path)])
    resumed = small(**options).fit(TABLE, Y, eval_set=eval_set, resume_from=path)
    np.testing.assert_array_equal(resumed.predict_proba(TABLE), whole.predict_proba(TABLE))
    assert resumed.evals_result_ == whole.evals_result_
    half = ABCBoostClassifier.load_model(path)
    assert half.is_categorical_.tolist() == [True, False, True, True, True]
    recoded = TABLE.assign(letter=TABLE["letter"].cat.rename_categories(str.upper))  # the same numbers
    with pytest.raises(ValueError, match=r"resume_from must .*the categories of X is not the same"):
        small(**options).fit(recoded, Y, eval_set=[(recoded[:100], Y[:100])], resume_from=path)


# ------------------------------------------------------------------------------------------------ model files


LEVELS = {
    "strings": np.array(["a", "ü", ""], dtype=object),
    "integers": np.array([-(2**63), 2**62]),
    "large integers": np.array([2**64 - 1], dtype=np.uint64),
    "floats": np.array([-1.5, 0.1, 1e300]),
    "single": np.array([0.1], dtype=np.float32),
    "booleans": np.array([False, True]),
    "mixed": np.array([1, 2.5, "x"], dtype=object),
    "none": np.empty(0, dtype=object),
}


def header_with(*categories: Any) -> dict[str, Any]:
    return {"classes": np.array([0, 1]), "n_features": 3, "base_classes": [], "categories": list(categories)}


@pytest.mark.parametrize("kind", LEVELS)
def test_levels_in_a_header(kind: str) -> None:
    header = decode_header(encode_header(header_with({"feature": 2, "levels": LEVELS[kind], "other": False})))
    check_header(header, 0)
    levels = header["categories"][0]["levels"]
    assert levels.dtype == LEVELS[kind].dtype
    assert levels.tolist() == LEVELS[kind].tolist()


def entry(feature: Any = 0, labels: Any = ("a",), other: Any = False, dtype: Any = "object") -> dict[str, Any]:
    return {"feature": feature, "levels": {"dtype": dtype, "labels": list(labels)}, "other": other}


HOSTILE = {
    "no list": {"0": entry()},
    "a number": 7,
    "null": None,
    "an entry that is no dict": [3],
    "an entry without levels": [{"feature": 0, "other": False}],
    "an entry with more": [{**entry(), "more": 1}],
    "levels without dtype": [{"feature": 0, "levels": ["a"], "other": False}],
    "a feature too many": [entry(3)],
    "a negative feature": [entry(-1)],
    "a feature that is true": [entry(True)],
    "a feature with a fraction": [entry(1.0)],
    "a feature that is text": [entry("0")],
    "a feature twice": [entry(1), entry(1)],
    "features in disorder": [entry(1), entry(0)],
    "other is no boolean": [entry(other=1)],
    "levels twice": [entry(labels=["a", "a"])],
    "levels that are equal": [entry(labels=[1, True])],
    "too many levels": [entry(labels=range(255))],
    "too many levels beside others": [entry(labels=range(254), other=True)],
    "levels that are lists": [entry(labels=[["a"]])],
    "levels that are null": [entry(labels=[None])],
    "levels of another dtype": [entry(labels=["a"], dtype="int64")],
    "an unknown dtype": [entry(dtype="V8")],
    "a large dtype": [entry(labels=["a"] * 200, dtype="<U9999999")],
    "NaN": [entry(labels=[{"$float": "nan"}], dtype="float64")],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_categories_are_refused(kind: str) -> None:
    import json

    plain = json.loads(encode_header(header_with()))
    text = json.dumps({**plain, "categories": HOSTILE[kind]}).encode()
    with pytest.raises(ModelFormatError):
        check_header(decode_header(text), 0)
