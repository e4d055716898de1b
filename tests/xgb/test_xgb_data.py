"""Every kind of data that XGBoost takes gives the same ABC model."""

from __future__ import annotations

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

from abc_plugins.xgb import base_classes, train  # noqa: E402

PARAMS = {"num_class": 3, "max_depth": 3, "nthread": 1}
SCHEDULE = {"warmup": 2, "gap": 1}


def make_data(n=300):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, size=(n, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 8).astype(int) + (X[:, 2] > 5)
    return X, y


def model_of(matrix, n_rounds=6, **params):
    return train(PARAMS | params, matrix, n_rounds, verbose_eval=False, **SCHEDULE)


def as_scipy(X):
    return pytest.importorskip("scipy.sparse").csr_matrix(X + 1)  # no zeros: absent entries are missing values


def as_pandas(X):
    return pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))


def as_polars(X):
    return pytest.importorskip("polars").DataFrame(X, schema=list("abcd"))


def as_arrow(X):
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({name: X[:, j] for j, name in enumerate("abcd")})


@pytest.mark.parametrize("convert", [as_scipy, as_pandas, as_polars, as_arrow])
@pytest.mark.parametrize("kind", ["DMatrix", "QuantileDMatrix"])
def test_tables(convert, kind):
    X, y = make_data()
    expected = model_of(xgboost.DMatrix(X, y))
    table = convert(X)
    booster = model_of(getattr(xgboost, kind)(table, y))
    assert base_classes(booster) == base_classes(expected)
    assert np.abs(booster.predict(xgboost.DMatrix(table)) - expected.predict(xgboost.DMatrix(X))).max() < 1e-6
    assert booster.feature_names == (None if convert is as_scipy else list("abcd"))


def test_quantile_matrix_and_its_evaluation_set():
    X, y = make_data()
    matrix = xgboost.QuantileDMatrix(X[:200], y[:200], max_bin=8)
    other = xgboost.QuantileDMatrix(X[200:], y[200:], ref=matrix, max_bin=8)
    history = {}
    booster = train(
        PARAMS | {"max_bin": 8},
        matrix,
        6,
        evals=[(other, "t")],
        evals_result=history,
        verbose_eval=False,
        **SCHEDULE,
    )
    losses = -np.log(booster.predict(xgboost.DMatrix(X[200:]))[np.arange(100), y[200:]])
    assert history["t"]["mlogloss"][-1] == pytest.approx(losses.mean(), abs=1e-5)


@pytest.mark.parametrize("missing", [np.nan, 3.0])
def test_missing_values(missing):
    X, y = make_data()
    X[X == 3.0] = missing
    booster = model_of(xgboost.DMatrix(X, y, missing=missing))
    with_nan = np.where(missing == X, np.nan, X)
    expected = model_of(xgboost.DMatrix(with_nan, y))
    assert booster.save_raw() == expected.save_raw()
    unseen = np.full((1, 4), np.nan)
    assert np.isfinite(booster.predict(xgboost.DMatrix(unseen))).all()


@pytest.mark.parametrize("max_cat_to_onehot", [1, 20])
def test_categories(max_cat_to_onehot):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    letters = rng.choice(list("abcdefgh"), 400)
    frame = pandas.DataFrame({"letter": pandas.Categorical(letters), "x": rng.normal(size=400)})
    y = np.array([{"a": 0, "d": 0, "f": 1, "b": 1}.get(letter, 2) for letter in letters])
    matrix = xgboost.DMatrix(frame[:300], y[:300], enable_categorical=True)
    other = xgboost.DMatrix(frame[300:], y[300:], enable_categorical=True)
    seen = []

    def metric(predictions, _matrix):
        seen.append(predictions.copy())
        return "zero", 0.0

    booster = train(
        PARAMS | {"max_cat_to_onehot": max_cat_to_onehot},
        matrix,
        8,
        evals=[(other, "t")],
        custom_metric=metric,
        verbose_eval=False,
        **SCHEDULE,
    )
    assert booster.feature_types == ["c", "float"]
    assert np.abs(booster.predict(other) - seen[-1]).max() < 1e-5
    assert (booster.predict(other).argmax(axis=1) == y[300:]).mean() > 0.95
    # categories are kept in the model: a table that codes them differently is understood
    recoded = frame[300:].assign(letter=pandas.Categorical(letters[300:], categories=list("hgfedcba")))
    assert np.array_equal(booster.inplace_predict(recoded), booster.inplace_predict(frame[300:]))
    longer = train(PARAMS, matrix, 2, xgb_model=booster, verbose_eval=False, **SCHEDULE)
    assert np.array_equal(longer.predict(other, iteration_range=(0, 8)), booster.predict(other))
    assert np.array_equal(longer.inplace_predict(recoded), longer.inplace_predict(frame[300:]))


def test_external_memory():
    X, y = make_data()

    class Batches(xgboost.DataIter):
        def __init__(self):
            self.at = 0
            super().__init__()

        def next(self, input_data):
            if self.at == 3:
                return False
            rows = slice(100 * self.at, 100 * self.at + 100)
            input_data(data=X[rows], label=y[rows])
            self.at += 1
            return True

        def reset(self):
            self.at = 0

    booster = model_of(xgboost.QuantileDMatrix(Batches()))
    matrix = xgboost.DMatrix(X, y)
    assert np.abs(booster.predict(matrix) - model_of(matrix).predict(matrix)).max() < 1e-6


def test_feature_weights_take_effect():
    X, y = make_data()
    matrix = xgboost.DMatrix(X, y)
    matrix.set_info(feature_weights=np.array([0.0, 0.0, 1.0, 1.0]))
    booster = model_of(matrix, colsample_bynode=0.5)
    assert set(booster.get_score()) <= {"f2", "f3"}
