"""What a study returns: an estimator of the user's own tables and labels, with every engine; and its test set."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from abc_plugins.tuning.splits import make_folds
from tuning import WeightedEnsemble, tune

FAST = {"cv": 2, "repeats": 1, "max_rounds": 12, "n_trials": 2, "confirm": 0, "progress": False}
LIBRARIES = {"native": "numba", "lgbm": "lightgbm", "xgb": "xgboost"}
LABELS = {"numbers from 1": np.array([1, 2, 3]), "text": np.array(["ant", "bee", "cat"])}


@pytest.fixture(name="table", scope="module")
def _table():
    """Two columns of text, of which one is ordered against the alphabet; and numbers."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 150)
    size = np.array(["small", "middle", "large"])
    colour = np.array(["red", "green", "blue"], dtype=object)[codes]
    colour[:9] = None
    X = pd.DataFrame({"x": rng.normal(size=150), "colour": colour, "z": rng.normal(size=150) + codes})
    X["size"] = pd.Categorical(size[(codes + rng.integers(0, 2, 150)) % 3], categories=size, ordered=True)
    return X, codes


@pytest.mark.parametrize("engine", LIBRARIES)
@pytest.mark.parametrize("labels", LABELS)
def test_the_estimator_takes_the_table_and_predicts_the_labels_of_the_study(table, engine, labels):
    pytest.importorskip(LIBRARIES[engine])
    X, y = table[0], LABELS[labels][table[1]]
    result = tune(X, y, engine=engine, **FAST)
    model = result.best_estimator
    assert model.classes_.tolist() == LABELS[labels].tolist()
    assert model.predict(X).dtype.kind == y.dtype.kind
    assert model.score(X, y) > 0.9
    assert model.n_estimators == result.best_params["n_estimators"]
    again = pickle.loads(pickle.dumps(model))
    assert np.allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-12)
    assert np.allclose(clone(model).fit(X, y).predict_proba(X), model.predict_proba(X), atol=1e-6)
    unknown = X.head(20).assign(colour="violet")
    assert np.array_equal(model.predict_proba(unknown), model.predict_proba(X.head(20).assign(colour=None)))
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(X[X.columns[::-1]])


@pytest.mark.parametrize("engine", ["lgbm", "xgb"])
def test_the_estimator_of_the_library_is_at_hand(table, engine):
    library = pytest.importorskip(LIBRARIES[engine])
    X, y = table[0][["x", "z"]].to_numpy(), LABELS["text"][table[1]]
    model = tune(X, y, engine=engine, **FAST).best_estimator
    booster = model.booster_ if engine == "lgbm" else model.get_booster()
    assert isinstance(booster, library.Booster)
    assert np.array_equal(model.estimator_.predict(X), np.searchsorted(LABELS["text"], model.predict(X)))
    assert len(model.feature_importances_) == 2
    assert not hasattr(model, "no_such_thing")


@pytest.mark.parametrize("engine", LIBRARIES)
def test_ensembles_predict_labels_and_take_tables_before_and_after_they_are_saved(table, tmp_path, engine):
    pytest.importorskip(LIBRARIES[engine])
    X, y = table[0], LABELS["text"][table[1]]
    members = [tune(X, y, engine=engine, seed=seed, **FAST).best_estimator for seed in (0, 1)]
    ensemble = WeightedEnsemble(members, [0.25, 0.75])
    assert ensemble.score(X, y) > 0.9
    ensemble.save_model(tmp_path / "model.zip")
    again = WeightedEnsemble.load_model(tmp_path / "model.zip")
    assert np.allclose(again.predict_proba(X), ensemble.predict_proba(X))
    assert np.array_equal(again.predict(X), ensemble.predict(X))


@pytest.mark.parametrize("engine", LIBRARIES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[X.columns[::-1]], "same order as they were in fit"),
        (lambda X: X.rename(columns={"x": "w"}), "unseen at fit time:\n- w"),
        (lambda X: X.drop(columns="x"), "X of test must have the columns of X.*\n.*now missing:\n- x"),
        (lambda X: X.assign(x="text"), "Column 'x' of X of test"),
    ],
)
def test_a_test_set_of_other_columns_is_refused_before_the_first_trial(table, engine, change, message):
    pytest.importorskip(LIBRARIES[engine])
    X, y = table
    with pytest.raises(ValueError, match=message):
        tune(X, y, engine=engine, test=(change(X), y), callbacks=[lambda *_: pytest.fail("a trial ran")], **FAST)


def test_few_rows_are_refused_before_the_first_trial(table):
    X, y = table[0][["x"]].head(6), [0, 1, 2, 0, 1, 2]
    with pytest.raises(ValueError, match="a fold of cv has 2 rows of 2 classes to train and 0 rows of these classes"):
        tune(X, y, **FAST)
    with pytest.raises(
        ValueError, match=r"fixed must be given by names .* of the lgbm engine's estimator; got 'leafs'"
    ):
        tune(*table, engine="lgbm", fixed={"leafs": 3}, **FAST)


def test_the_result_is_kept_if_the_test_set_cannot_be_predicted(table, monkeypatch):
    X, y = table[0][["x", "z"]], table[1]

    def broken(self, X):  # noqa: ARG001
        raise MemoryError("too many rows")

    monkeypatch.setattr("abc_plugins.tuning.engines.library.TableClassifier.predict_proba", broken)
    with pytest.warns(UserWarning, match="the test set could not be scored: too many rows"):
        result = tune(X, y, engine="lgbm", test=(X, y), **FAST)
    assert result.test_score is None
    assert "test set" not in result.summary()
    assert result.best_estimator is not None


@pytest.mark.parametrize("engine", LIBRARIES)
def test_the_final_fit_has_more_rounds_as_it_has_more_rows(table, engine):
    """Rows without weight do not count."""
    pytest.importorskip(LIBRARIES[engine])
    X, y, weights = table[0][["x", "z"]], table[1], np.ones(150)
    weights[:30] = 0.0
    rows = np.arange(150)
    options = {**FAST, "cv": [(rows[:90], rows[90:])], "validation_fraction": 1 / 3, "early_stopping_rounds": 2}
    options |= {"max_rounds": 400, "repeats": None, "sample_weight": weights}
    result = tune(X, y, engine=engine, **options)
    [rounds] = result.best_trial.user_attrs["outcome"]["rounds"]
    n_grown = np.count_nonzero(weights[make_folds(options["cv"], y, None, 1 / 3, 0)[0].train])
    assert result.best_params["n_estimators"] == round(rounds * np.sqrt(120 / n_grown)) > rounds
    assert result.best_estimator.n_estimators == result.best_params["n_estimators"]
    few = tune(X, y, engine=engine, **{**options, "max_rounds": rounds})
    assert few.best_params["n_estimators"] == rounds
