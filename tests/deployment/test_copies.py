"""Native models as LightGBM and XGBoost models, over all kinds of models."""

import importlib
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

from .conftest import KINDS, draw, with_labels


def test_lightgbm(case):
    booster = abc_plugins.lgbm.export(case.model)
    np.testing.assert_allclose(booster.predict(case.X), case.model.predict_proba(case.table), rtol=0, atol=1e-10)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_xgboost(case, suffix, tmp_path):
    path = tmp_path / f"model.{suffix}"
    exported = abc_plugins.xgb.export(case.model, path)
    for booster in (exported, xgboost.Booster(model_file=path), pickle.loads(pickle.dumps(exported))):
        predicted = booster.predict(xgboost.DMatrix(case.X))
        np.testing.assert_allclose(predicted, case.model.predict_proba(case.table), rtol=0, atol=1e-5)
        assert json.loads(booster.attr("classes")) == case.model.classes_.tolist()


def test_xgboost_saves_no_categories_with_vector_leaves(case):
    all_rounds = case.model.model_.n_rounds
    assert (case.model.model_.flat().left_set >= 0).any()
    with pytest.raises(ValueError, match="vector_leaves must be False for a model that splits on categories"):
        abc_plugins.xgb.export(case.model, vector_leaves=True, n_rounds=all_rounds)


@pytest.mark.parametrize("n_classes", [2, 3, 26, 99])
@pytest.mark.parametrize("kind", KINDS)
def test_xgboost_without_categories(n_classes, kind, tmp_path):
    """Vector leaves where trees move more than two classes; missing values and weights."""
    X, y = draw(n_classes, 300 + 3 * n_classes, seed=0)
    weights = np.random.default_rng(0).uniform(0.3, 2.0, y.size)
    model = ABCBoostClassifier(**KINDS[kind], n_estimators=4, learning_rate=0.3, n_jobs=1, random_state=0)
    model.fit(X, y, weights)
    expected = model.predict_proba(X)
    for vector_leaves in (None, True, False):
        path = tmp_path / "model.ubj"
        exported = abc_plugins.xgb.export(model, path, vector_leaves=vector_leaves)
        for booster in (exported, xgboost.Booster(model_file=path)):
            predicted = booster.predict(xgboost.DMatrix(X))
            np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-5)


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


@pytest.mark.parametrize("model", [None, object()])
def test_what_is_no_classifier_is_refused(model):
    with pytest.raises(TypeError, match="model must be a fitted ABCBoostClassifier"):
        abc_plugins.lgbm.export_classifier(model)
    with pytest.raises(TypeError, match="model must be a fitted ABCBoostClassifier"):
        abc_plugins.lgbm.export(model)


@pytest.mark.parametrize("module", ["lgbm", "onnx", "treelite", "xgb"])
def test_files_that_cannot_be_written_are_refused_before_the_work(small, tmp_path, monkeypatch, module):
    exporting = importlib.import_module(f"abc_plugins.{module}.exporting")
    monkeypatch.setattr(exporting, "first_rounds", lambda *_: pytest.fail("the work began"))
    folder = tmp_path / "folder.ubj"
    folder.mkdir()
    for path, error, message in (
        (tmp_path / "nowhere" / "model.ubj", FileNotFoundError, "The folder does not exist.*nowhere"),
        (folder, IsADirectoryError, "folder.ubj"),
        ("", ValueError, "path must be a path; got ''"),
        (3, TypeError, "path must be a path; got 3"),
        (b"model.ubj", TypeError, "path must be a path; got b'model.ubj'"),
    ):
        with pytest.raises(error, match=message):
            exporting.export(small.model, path)


def test_the_name_of_an_xgboost_file_tells_its_format(small, tmp_path):
    for wrong in ("model", "model.bin", "json"):
        with pytest.raises(ValueError, match=r"path must be the name of a file that ends in \.json or \.ubj"):
            abc_plugins.xgb.export(small.model, tmp_path / wrong)
    expected = small.model.predict_proba(small.table)
    for name in ("model.json", "model.ubj"):
        abc_plugins.xgb.export(small.model, tmp_path / name)
        predicted = xgboost.Booster(model_file=tmp_path / name).predict(xgboost.DMatrix(small.X))
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-5)
    assert (tmp_path / "model.json").read_bytes().startswith(b'{"learner"')
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in (".json", ".ubj")] == []
