"""Native models as LightGBM and XGBoost models, over all kinds of models."""

import json
import pickle

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost

import abc_plugins.lgbm
import abc_plugins.xgb
from abc_plugins import ABCBoostClassifier

from .conftest import with_labels


def test_lightgbm(case):
    booster = abc_plugins.lgbm.export(case.model)
    np.testing.assert_allclose(booster.predict(case.X), case.model.predict_proba(case.table), rtol=0, atol=1e-10)


@pytest.mark.parametrize("vector_leaves", [False, True, None])
def test_xgboost(case, vector_leaves):
    booster = abc_plugins.xgb.export(case.model, vector_leaves=vector_leaves)
    predicted = booster.predict(xgboost.DMatrix(case.X))
    np.testing.assert_allclose(predicted, case.model.predict_proba(case.table), rtol=0, atol=1e-5)
    assert json.loads(booster.attr("classes")) == case.model.classes_.tolist()


def test_a_lightgbm_classifier_predicts_the_labels(case):
    if case.model.n_classes_ == 2:
        with pytest.raises(ValueError, match="model must be one of 3 classes or more"):
            abc_plugins.lgbm.export_classifier(case.model)
        return
    classifier = pickle.loads(pickle.dumps(abc_plugins.lgbm.export_classifier(case.model)))
    assert type(classifier) is lgb.LGBMClassifier
    assert classifier.classes_.tolist() == case.model.classes_.tolist()
    np.testing.assert_allclose(classifier.predict_proba(case.X), case.model.predict_proba(case.table), atol=1e-10)
    assert (classifier.predict(case.X) == case.model.predict(case.table)).mean() > 0.99


def test_the_text_model_names_the_labels(tmp_path, capfd):
    model, X = with_labels(["a: b", "[c]", 'd"\n'])
    path = tmp_path / "model.txt"
    abc_plugins.lgbm.export(model, path)
    again = lgb.Booster(model_file=path)
    np.testing.assert_allclose(again.predict(X), model.predict_proba(X), rtol=0, atol=1e-10)
    line = next(line for line in path.read_text().splitlines() if line.startswith("abc_classes:"))
    assert json.loads(line.removeprefix("abc_classes:")) == model.classes_.tolist()
    assert "Warning" not in "".join(capfd.readouterr())  # LightGBM takes the file as one of its own


def test_lightgbm_takes_tables_with_categories():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"colour": rng.choice(["red", "green", "blue"], 200), "size": rng.normal(size=200)})
    y = (table["colour"] == "red").astype(int) + (table["size"] > 0)
    model = ABCBoostClassifier(n_estimators=5, n_jobs=1, random_state=0).fit(table, y)
    new = table.assign(colour=table["colour"].where(np.arange(200) % 5 > 0, "violet").astype("category"))
    booster = abc_plugins.lgbm.export(model)
    np.testing.assert_allclose(booster.predict(new), model.predict_proba(new), rtol=0, atol=1e-10)


@pytest.mark.parametrize("model", [None, ABCBoostClassifier(), object()])
def test_what_is_no_classifier_is_refused(model):
    with pytest.raises(TypeError, match="model must be a fitted ABCBoostClassifier"):
        abc_plugins.lgbm.export_classifier(model)
    with pytest.raises(TypeError, match="model must be a fitted ABCBoostClassifier"):
        abc_plugins.lgbm.export(model)
