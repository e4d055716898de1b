"""abc-plugins tune with every engine: text columns, a model file, test data."""

from __future__ import annotations

import re

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier, cli
from abc_plugins.data.tablewriting import write_table
from abc_plugins.tuning.plan import make_plan
from tuning import WeightedEnsemble

FAST = ["--folds", "2", "--repeats", "1", "--max-rounds", "12", "--trials", "3", "--quiet"]


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory):
    """A table with a column of text that decides the class, and one with a level that training has not seen."""
    folder = tmp_path_factory.mktemp("engines")
    rng = np.random.default_rng(0)
    for name, n_rows in (("train", 150), ("test", 60)):
        y = rng.integers(0, 3, n_rows)
        colours = np.array(["red", "green", "blue"])[y]
        colours[:5] = "" if name == "train" else "violet"
        columns = {"x": rng.normal(size=n_rows), "colour": colours, "animal": np.array(["ant", "bee", "cat"])[y]}
        write_table(folder / f"{name}.csv", columns)
    return folder


@pytest.mark.parametrize("engine", ["native", "lgbm", "xgb"])
@pytest.mark.parametrize("metric", ["error", "logloss"])
def test_text_reaches_the_final_fit_and_the_test_score(files, tmp_path, capsys, engine, metric):
    out = tmp_path / {"native": "model.abc", "lgbm": "model.txt", "xgb": "model.ubj"}[engine]
    command = ["tune", str(files / "train.csv"), "--target", "animal", "--engine", engine, "--metric", metric]
    code = cli.main([*command, "--out", str(out), "--test-data", str(files / "test.csv"), *FAST])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    score = float(re.search(rf"test set +{metric} ([\d.e-]+)", captured.out)[1])
    assert score < (0.15 if metric == "error" else 0.8)  # five of the 60 rows have a colour that is not known
    assert out.stat().st_size > 0
    assert ("0 is ant, 1 is bee, 2 is cat" in captured.out) == (engine != "native")


def test_an_ensemble_is_written_as_one_file(files, tmp_path, capsys):
    out = tmp_path / "model.zip"
    command = ["tune", str(files / "train.csv"), "--target", "animal", "--out", str(out), "--ensemble", "3", *FAST]
    assert cli.main(command) == 0, capsys.readouterr().err
    assert "ensemble  " in capsys.readouterr().out


def test_a_native_model_predicts_from_the_command_line(files, tmp_path, capsys):
    out = tmp_path / "model.abc"
    assert cli.main(["tune", str(files / "train.csv"), "--target", "animal", "--out", str(out), *FAST]) == 0
    model = ABCBoostClassifier.load_model(out)
    assert model.is_categorical_.tolist() == [False, True]
    predicted = tmp_path / "predicted.csv"
    code = cli.main(["predict", str(out), str(files / "test.csv"), "--out", str(predicted)])
    assert code == 0, capsys.readouterr().err
    assert predicted.exists()


@pytest.mark.parametrize("engine", ["native", "lgbm", "xgb"])
def test_saved_ensembles_predict_as_before(tmp_path, engine):
    rng = np.random.default_rng(1)
    y = np.tile(np.arange(3), 30)
    X = rng.normal(size=(3, 4))[y] + rng.normal(size=(90, 4))
    if engine == "native":
        members = [ABCBoostClassifier(n_estimators=n, n_jobs=1) for n in (3, 6)]
    elif engine == "lgbm":
        from abc_plugins.lgbm import ABCLGBMClassifier

        members = [ABCLGBMClassifier(n_estimators=n, n_jobs=1, verbosity=-1) for n in (3, 6)]
    else:
        from abc_plugins.xgb import ABCXGBClassifier

        members = [ABCXGBClassifier(n_estimators=n, n_jobs=1) for n in (3, 6)]
    ensemble = WeightedEnsemble([member.fit(X, y) for member in members], [0.25, 0.75])
    by_hand = 0.25 * members[0].predict_proba(X) + 0.75 * members[1].predict_proba(X)
    assert np.allclose(ensemble.predict_proba(X), by_hand)
    ensemble.save_model(tmp_path / "model.zip")
    again = WeightedEnsemble.load_model(tmp_path / "model.zip")
    assert np.allclose(again.predict_proba(X), by_hand)
    assert np.array_equal(again.predict(X), by_hand.argmax(axis=1))


@pytest.mark.parametrize("engine", ["native", "lgbm", "xgb"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_how_a_file_is_written_down(tmp_path, capsys, monkeypatch, engine, suffix):
    """Codes that only categories can tell apart in one split, decimal commas and a cell that is missing."""
    seen = []

    def watched(X, *others, **more):
        seen.append(X)
        return make_plan(X, *others, **more)

    monkeypatch.setattr("abc_plugins.tuning.tuner.make_plan", watched)
    codes = np.arange(120) % 12
    columns = {"code": codes, "x": np.linspace(0, 1, 120), "animal": np.array(["ant", "bee", "cat"])[codes * 5 % 3]}
    path = tmp_path / f"train.{suffix}"
    options = ["--categorical-features", "code"]
    if suffix == "csv":
        rows = zip(*columns.values(), strict=True)
        lines = [f"0{code};{str(x).replace('.', ',') if x < 0.9 else '?'};{animal}" for code, x, animal in rows]
        path.write_text("\n".join(["code;x;animal", *lines]) + "\n")
        options += ["--decimal", ",", "--missing", "?"]
    else:
        write_table(path, columns)
    out = tmp_path / {"native": "model.abc", "lgbm": "model.txt", "xgb": "model.ubj"}[engine]
    command = ["tune", str(path), "--target", "animal", "--engine", engine, *options, "--out", str(out)]
    assert cli.main([*command, "--test-data", str(path), *FAST]) == 0, capsys.readouterr().err
    assert "test set " in capsys.readouterr().out
    [features] = seen
    expected = sorted(f"0{code}" for code in range(12)) if suffix == "csv" else list(range(12))
    assert [None if one is None else one.tolist() for one in features.levels] == [expected, None]
    assert np.isnan(features.array[:, 1]).sum() == (12 if suffix == "csv" else 0)


def test_a_category_that_is_no_column(files, capsys):
    command = ["tune", str(files / "train.csv"), "--target", "animal", "--categorical-features", "color", *FAST]
    assert cli.main(command) == 1
    assert "--categorical-features must be columns of" in capsys.readouterr().err
