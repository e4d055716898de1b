"""Sparse matrices in the estimator: the same models and predictions as from dense arrays, bit for bit."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import checkpoint
from abc_plugins.core.runtime.sparse_table import SparseTable
from abc_plugins.data.tables import read_features

N = 500
FEATURES = 30
METHODS = {
    "symmetric": {"tree_shape": "symmetric"},
    "best-first": {"tree_shape": "best-first", "subsample": 0.7},
    "several trees": {"tree_shape": "best-first", "trees_per_round": 3, "colsample": 0.5, "n_jobs": 2},
    "pairs": {"method": "abcrobustlogit", "search": 2},
}


def draw(missing=0.0, seed=0):
    random = np.random.default_rng(seed)
    X = np.where(random.random((N, FEATURES)) < 0.08, np.round(random.normal(size=(N, FEATURES)), 1), 0.0)
    X[:, :2] = random.normal(size=(N, 2))
    y = (X[:, 0] > 0).astype(int) + (X[:, 3:20].sum(axis=1) > 0)
    X[random.random(X.shape) < missing] = np.nan
    return X, y


def fit(X, y, *, eval_set=None, sample_weight=None, callbacks=None, resume_from=None, **parameters):
    settings = {"n_estimators": 12, "n_jobs": 1, "random_state": 0} | parameters
    return ABCBoostClassifier(**settings).fit(
        X, y, sample_weight=sample_weight, eval_set=eval_set, callbacks=callbacks, resume_from=resume_from
    )


def check_same(dense, other):
    mine, others = dense.model_.flat(), other.model_.flat()
    for name in mine.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(mine, name), getattr(others, name), err_msg=name)
    assert np.any(mine.feature >= 0)


@pytest.mark.parametrize("missing", [0.0, 0.03])
@pytest.mark.parametrize("method", METHODS)
def test_the_same_model_as_dense(method, missing):
    X, y = draw(missing)
    assert isinstance(read_features(sparse.csr_matrix(X)).values, SparseTable)
    dense = fit(X, y, **METHODS[method])
    listed = fit(sparse.csr_matrix(X), y, **METHODS[method])
    check_same(dense, listed)
    np.testing.assert_array_equal(dense.predict_proba(X), listed.predict_proba(sparse.csc_array(X)))
    np.testing.assert_array_equal(dense.predict_proba(X[:3]), listed.predict_proba(sparse.csr_array(X)[:3]))
    assert listed.n_features_in_ == FEATURES


@pytest.mark.parametrize("options", [{"class_weight": "balanced", "max_bins": 5}, {"categorical_features": [4, 6]}])
def test_weights_and_categories(options):
    X, y = draw()
    X[:, 4] = np.random.default_rng(1).choice([0.0, 3.0, 5.0, -2.0], N, p=[0.7, 0.1, 0.1, 0.1])
    weights = np.random.default_rng(2).integers(0, 4, N) / 3
    dense = fit(X, y, sample_weight=weights, **options)
    listed = fit(sparse.csr_matrix(X), y, sample_weight=weights, **options)
    check_same(dense, listed)
    X[5, 4] = 99.0  # a category that is not known
    np.testing.assert_array_equal(dense.predict_proba(X), listed.predict_proba(sparse.csr_matrix(X)))


def odd(X, kind):
    """The same values in a matrix that is not in order."""
    matrix = sparse.csc_matrix(X)
    if kind == "float32":
        return matrix.astype(np.float32)
    if kind == "int64 indices":
        matrix = sparse.csr_matrix(X)
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    elif kind == "explicit zeros":
        rows, columns = np.nonzero(np.ones_like(X[:, 3:5]))
        matrix = sparse.csc_matrix(
            (np.concatenate([matrix.data, np.zeros(rows.size)]),
             (np.concatenate([matrix.tocoo().row, rows]), np.concatenate([matrix.tocoo().col, columns + 3]))),
            shape=X.shape,
        )  # fmt: skip
        assert np.count_nonzero(matrix.data == 0.0) > N
    elif kind == "unsorted and duplicated":
        coo = matrix.tocoo()
        order = np.random.default_rng(0).permutation(2 * coo.nnz)
        data, row, col = (np.concatenate([part, part])[order] for part in (coo.data / 2, coo.row, coo.col))
        matrix = sparse.csc_matrix(X.shape)
        by_column = np.argsort(col, kind="stable")
        matrix.data, matrix.indices = data[by_column], row[by_column].astype(np.int32)
        matrix.indptr = np.concatenate(([0], np.cumsum(np.bincount(col, minlength=X.shape[1])))).astype(np.int32)
        matrix.has_sorted_indices = matrix.has_canonical_format = False
    return matrix


@pytest.mark.parametrize("kind", ["float32", "int64 indices", "explicit zeros", "unsorted and duplicated"])
def test_matrices_of_any_kind(kind):
    X, y = draw()
    X = X.astype(np.float32).astype(float)
    matrix = odd(X, kind)
    before = matrix.copy()
    listed = fit(matrix, y)
    check_same(fit(X, y), listed)
    assert isinstance(read_features(matrix).values, SparseTable)
    np.testing.assert_array_equal(listed.predict_proba(matrix), listed.predict_proba(X))
    np.testing.assert_array_equal(matrix.data, before.data)  # the caller's matrix is as it was
    np.testing.assert_array_equal(matrix.indices, before.indices)


def test_evaluation_sets_and_staged_predictions():
    X, y = draw()
    names = {"early_stopping_rounds": 3, "n_estimators": 15}
    given = [fit(T, y, eval_set=[(T[:200], y[:200])], **names) for T in (X, sparse.csr_matrix(X))]
    held_out = [fit(T, y, **names) for T in (X, sparse.csr_matrix(X))]
    for dense, listed in (given, held_out):
        check_same(dense, listed)
        assert dense.evals_result_ == listed.evals_result_
    stages = zip(given[0].staged_predict_proba(X), given[1].staged_predict_proba(sparse.coo_matrix(X)), strict=True)
    for mine, other in stages:
        np.testing.assert_array_equal(mine, other)


def test_more_trees_than_are_walked_down_one_by_one():
    X, y = draw()
    model = fit(X, y, n_estimators=40)
    np.testing.assert_array_equal(model.decision_function(X), model.decision_function(sparse.csr_matrix(X)))
    np.testing.assert_array_equal(model.apply(X), model.apply(sparse.csr_matrix(X)))


def test_pandas_sparse_columns():
    X, y = draw(missing=0.02)
    X[:, 7] = np.where(X[:, 7] == 0.0, np.nan, X[:, 7])
    dense = pd.DataFrame(X).add_prefix("x").assign(letter=np.array(list("abcde"))[np.arange(N) % 5])
    table = dense.copy()
    for name in dense.columns[2:-1]:
        table[name] = pd.arrays.SparseArray(dense[name], fill_value=np.nan if name == "x7" else 0.0)
    assert isinstance(read_features(table, categorical="from_dtype").values, SparseTable)
    models = [fit(dense, y), fit(table, y)]
    check_same(*models)
    np.testing.assert_array_equal(models[0].predict_proba(dense), models[1].predict_proba(table))
    assert models[1].feature_names_in_.tolist() == list(dense.columns)


def test_a_checkpoint_goes_on_with_either(tmp_path):
    X, y = draw()
    fit(X, y, n_estimators=5, callbacks=[checkpoint(tmp_path / "state", every_rounds=5)])
    check_same(fit(X, y), fit(sparse.csr_matrix(X), y, resume_from=tmp_path / "state"))
    changed = sparse.csr_matrix(X)
    changed.data[3] += 1.0
    with pytest.raises(ValueError, match="X"):
        fit(changed, y, resume_from=tmp_path / "state")


def test_a_matrix_that_is_smaller_made_dense_is():
    X = np.random.default_rng(0).normal(size=(50, 4))
    assert isinstance(read_features(sparse.csr_matrix(X)).values, np.ndarray)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda m: m.astype(complex), ValueError, "Complex data not supported"),
        (lambda m: m[:, :5], ValueError, "X has 5 features, but ABCBoostClassifier is expecting 30"),
        (lambda m: sparse.coo_array(m.toarray()[:, 0]), ValueError, "2-dimensional matrix for X, got 1 dim"),
        (lambda m: m[:0], ValueError, r"0 sample\(s\)"),
    ],
)
def test_errors(make, error, match):
    X, y = draw()
    model = fit(X, y, n_estimators=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        changed = make(sparse.csr_matrix(X))
    with pytest.raises(error, match=match):
        model.predict(changed)
