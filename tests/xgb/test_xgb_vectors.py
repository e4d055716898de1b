"""Models of copies as models of trees with vectors in their leaves."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import xgboost

from abc_plugins.xgb import train, with_vector_leaves

from .conftest import PARAMS, SCHEDULE, K, make_data

TREES = 2  # of a directional round of four classes


@pytest.mark.parametrize(
    ("options", "n_trees"),
    [
        ({}, 6 * TREES),
        ({"trees_per_round": 1}, 6),
        ({"warmup": 2}, 2 * K + 4 * TREES),
        (SCHEDULE, 2 * K + 4 * (K - 1)),
    ],
)
def test_predictions_are_those_of_the_copies(data, options, n_trees):
    matrix, other = data
    booster = train(PARAMS, matrix, 6, **options)
    joined = with_vector_leaves(booster)
    assert len(joined.get_dump()) == n_trees < len(booster.get_dump())
    assert joined.num_boosted_rounds() == 6
    assert joined.attributes() == booster.attributes()
    for rounds in ((0, 0), (0, 3), (2, 5)):
        margins, expected = (
            one.predict(other, iteration_range=rounds, output_margin=True) for one in (joined, booster)
        )
        np.testing.assert_allclose(margins, expected, atol=1e-5)
    again = pickle.loads(pickle.dumps(joined))
    np.testing.assert_array_equal(again.predict(other), joined.predict(other))


def test_the_file_needs_xgboost_alone(data, tmp_path):
    matrix, other = data
    booster = train(PARAMS, matrix, 4)
    joined = with_vector_leaves(booster)
    joined.save_model(tmp_path / "model.ubj")
    np.save(tmp_path / "X.npy", make_data()[0][400:])
    code = (
        "import sys, numpy as np, xgboost\n"
        "booster = xgboost.Booster(model_file='model.ubj')\n"
        "np.save('p.npy', booster.inplace_predict(np.load('X.npy')))\n"
        "assert not any(name.startswith('abc_plugins') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), booster.predict(other), atol=1e-6)


def test_names_missing_values_and_single_leaves():
    X, y = make_data()
    X[::5, 0] = np.nan
    matrix = xgboost.DMatrix(X, y, feature_names=list("abcde"), feature_types=["float"] * 5)
    for params in (PARAMS, {**PARAMS, "gamma": 1e9}):  # the latter lets no node split
        booster = train(params, matrix, 4)
        joined = with_vector_leaves(booster)
        assert joined.feature_names == list("abcde")
        assert joined.feature_types == ["float"] * 5
        np.testing.assert_allclose(joined.predict(matrix), booster.predict(matrix), atol=1e-6)


def test_stock_models_are_joined_where_trees_split_alike(data):
    matrix, other = data
    stock = xgboost.train({**PARAMS, "objective": "multi:softprob"}, matrix, 3)
    joined = with_vector_leaves(stock)
    assert len(joined.get_dump()) == 3 * K
    np.testing.assert_allclose(joined.predict(other), stock.predict(other), atol=1e-6)


def test_what_cannot_be_joined_is_refused(data):
    matrix, _ = data
    X, y = make_data()
    with pytest.raises(TypeError, match=r"booster must be an xgboost\.Booster"):
        with_vector_leaves("model.ubj")
    binary = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, y > 1), 2)
    with pytest.raises(ValueError, match="booster must be a gbtree model of three classes or more"):
        with_vector_leaves(binary)
    of_vectors = with_vector_leaves(train(PARAMS, matrix, 2))
    with pytest.raises(ValueError, match="vector leaves"):
        with_vector_leaves(of_vectors)
    with_categories = xgboost.DMatrix(X, y, feature_types=["c", *["float"] * 4], enable_categorical=True)
    with pytest.raises(ValueError, match="booster must be one without"):
        with_vector_leaves(train({**PARAMS, "max_depth": 6}, with_categories, 3))


def test_an_estimator_is_no_booster():
    with pytest.raises(
        TypeError, match=r"booster must be an xgboost\.Booster \(of an estimator: get_booster\(\)\); got"
    ):
        with_vector_leaves(xgboost.XGBClassifier())
