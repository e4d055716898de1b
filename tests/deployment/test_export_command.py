"""abc-plugins export: every format, the check on rows, and wrong usage."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import Callback
from abc_plugins.cli import main

from .conftest import with_labels

FILES = {"onnx": "model.onnx", "lightgbm": "model.txt", "xgboost": "model.ubj", "treelite": "model.tl"}


@pytest.fixture
def model_file(tmp_path):
    """A model with a text category and names, and a file of rows."""
    rng = np.random.default_rng(0)
    rows = [("colour", "size", "note")]
    rows += [(rng.choice(["red", "green", "blue"]), float(np.float32(rng.normal())), "x") for _ in range(200)]
    csv = tmp_path / "rows.csv"
    csv.write_text("\n".join(f"{colour},{size},{note}" for colour, size, note in rows) + "\n")
    table = np.array([row[:2] for row in rows[1:]], dtype=object)
    y = (table[:, 0] == "red").astype(int) + (table[:, 1].astype(float) > 0)
    frame = pd.DataFrame({"colour": table[:, 0].astype(str), "size": table[:, 1].astype(float)})
    path = tmp_path / "model.abc"
    ABCBoostClassifier(n_estimators=5, n_jobs=1, random_state=0).fit(frame, y).save_model(path)
    return path, csv


@pytest.mark.parametrize("to", FILES)
def test_every_format_is_written_and_checked(model_file, tmp_path, capsys, to):
    path, csv = model_file
    out = tmp_path / FILES[to]
    assert main(["export", str(path), "--to", to, "--out", str(out), "--check", str(csv), "--rounds", "3"]) == 0
    printed = capsys.readouterr().out
    assert f"{out}: {to}, 3 classes, 2 features, {out.stat().st_size:,} bytes" in printed
    assert f"{csv}: 200 rows predicted alike, largest difference " in printed


@pytest.mark.parametrize("to", ["onnx", "xgboost"])
def test_rows_that_rounding_sends_elsewhere_are_told(tmp_path, capsys, to):
    model, _ = with_labels([0, 1, 2])
    flat = model.model_.flat()
    threshold = flat.threshold[0]
    row = np.zeros(3)
    row[flat.feature[0]] = threshold if np.float32(threshold) > threshold else np.nextafter(threshold, np.inf)
    path, csv, out = tmp_path / "model.abc", tmp_path / "rows.csv", tmp_path / FILES[to]
    model.save_model(path)
    csv.write_text("a,b,c\n" + ",".join(map(repr, row.tolist())) + "\n")
    command = ["export", str(path), "--to", to, "--out", str(out), "--check", str(csv)]
    if np.float32(threshold) == threshold:
        pytest.fail("choose another seed: the threshold is a float32")
    assert main(command) == 1
    error = capsys.readouterr().err
    assert f"{out} was written, but 1 of 1 rows of {csv} differ by more than 1e-05" in error
    assert "features are rounded to float32" in error
    assert ("train the model on features rounded to float32" in error) == (to == "xgboost")
    if to == "onnx":
        assert main([*command, "--force", "--input-type", "double"]) == 0


def test_a_model_that_differs_is_told(model_file, tmp_path, capsys, monkeypatch):
    path, csv = model_file
    out = tmp_path / "model.txt"
    import abc_plugins.lgbm

    export = abc_plugins.lgbm.export
    monkeypatch.setattr("abc_plugins.lgbm.export", lambda model, path, **_: export(model, path, n_rounds=1))
    assert main(["export", str(path), "--to", "lightgbm", "--out", str(out), "--check", str(csv)]) == 1
    assert "200 of 200 rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "xgboost", "--out", "model.bin"], "--out must end in .json or .ubj for xgboost; got model.bin"),
        (["--to", "treelite", "--out", "m.tl", "--input-type", "double"], "--input-type is for onnx only"),
        (["--to", "onnx", "--out", "m.onnx", "--tolerance", "-1"], "--tolerance must be a number at least 0"),
        (["--to", "onnx", "--out", "m.onnx", "--rounds", "0"], "--rounds must be a whole number from 1 to 5; got 0"),
        (
            ["--to", "onnx", "--out", "m.onnx", "--rounds", "99"],
            ": --rounds must be a whole number from 1 to 5; got 99",
        ),
        (["--to", "onnx", "--out", "m.onnx", "--check", "nothing.csv"], "nothing.csv"),
        (["--to", "onnx", "--out", "nowhere/m.onnx"], "the folder nowhere does not exist"),
        (["--to", "onnx", "--out", ""], "--out must be the name of a file"),
        (["--to", "onnx", "--out", "."], ". is a folder; name a file in it"),
        (["--to", "onnx", "--out", "model.abc", "--force"], "--out must be another file than those that are read"),
        (["--to", "onnx", "--out", "m.onnx", "--tolerance", "nan"], "--tolerance must be a number at least 0"),
    ],
)
def test_wrong_usage_is_refused(model_file, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(model_file[0]), *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("m*.onnx"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour\nred\n", "check.csv lacks a column that the model needs: size"),
        ("colour,size\nred,large\n", "Column 'size' of check.csv"),
        ("colour,size\nred,1,2\n", "check.csv is not a valid CSV file"),
        ("colour,size\n", "check.csv has no rows"),
        ("", "check.csv is empty"),
        ("colour,size\nred,1\nred,1e300\n", "row 1 of check.csv has a number too large for float32"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_the_export(model_file, tmp_path, capsys, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    Path("check.csv").write_text(text)
    assert main(["export", str(model_file[0]), "--to", "xgboost", "--out", "m.json", "--check", "check.csv"]) == 1
    assert message in capsys.readouterr().err
    assert not Path("m.json").exists()


@pytest.mark.parametrize("to", ["onnx", "lightgbm", "treelite"])
def test_rows_with_infinity_are_checked(model_file, tmp_path, capsys, to):
    csv = tmp_path / "infinite.csv"
    csv.write_text("colour,size\nred,inf\nblue,-inf\ngreen,1e300\n")
    command = ["export", str(model_file[0]), "--to", to, "--out", str(tmp_path / FILES[to]), "--check", str(csv)]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert f"{csv}: 3 rows predicted alike" in printed.out
    assert printed.err == ""


def test_wrong_model_files_are_refused(model_file, tmp_path, capsys):
    whole, wrong, out = model_file[0].read_bytes(), tmp_path / "wrong.abc", tmp_path / "model.onnx"
    for content, message in (
        (whole[:-100], "cut off, or damaged"),
        (whole[:8] + (99).to_bytes(4, "little") + whole[12:], "upgrade abc-plugins"),
        (pickle.dumps([1.5] * 50), "another kind of file"),
    ):
        wrong.write_bytes(content)
        assert main(["export", str(wrong), "--to", "onnx", "--out", str(out)]) == 1
        error = capsys.readouterr().err
        assert "wrong.abc is not a valid model file" in error
        assert message in error
    for path, message in ((tmp_path, "Is a directory"), (tmp_path / "nothing.abc", "No such file")):
        assert main(["export", str(path), "--to", "onnx", "--out", str(out)]) == 1
        assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("package", "to", "message"),
    [
        ("onnx", "onnx", "abc_plugins.onnx needs onnx: pip install 'abc-plugins[onnx]'"),
        ("onnxruntime", "onnx", "--check with --to onnx needs onnxruntime"),
        ("treelite", "treelite", "abc_plugins.treelite needs treelite: pip install 'abc-plugins[integrations]'"),
        ("lightgbm", "lightgbm", "abc_plugins.lgbm needs LightGBM: pip install 'abc-plugins[lgbm]'"),
        ("xgboost", "xgboost", "abc_plugins.xgb needs XGBoost: pip install 'abc-plugins[xgb]'"),
    ],
)
def test_a_package_that_is_not_installed_is_named(model_file, tmp_path, package, to, message):
    out = tmp_path / FILES[to]
    code = (
        f"import sys; sys.modules[{package!r}] = None; from abc_plugins.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = ["export", model_file[0], "--to", to, "--out", out, "--check", model_file[1]]
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert not out.exists()


def test_an_unknown_format_is_refused(model_file, tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_code:
        main(["export", str(model_file[0]), "--to", "pmml", "--out", str(tmp_path / "m")])
    assert exit_code.value.code == 2
    assert "argument --to: invalid choice: 'pmml'" in capsys.readouterr().err


def test_an_existing_file_is_kept(model_file, tmp_path, capsys):
    out = tmp_path / "model.onnx"
    out.write_text("mine")
    assert main(["export", str(model_file[0]), "--to", "onnx", "--out", str(out)]) == 1
    assert "use --force to replace it" in capsys.readouterr().err
    assert out.read_text() == "mine"


def test_labels_stay(model_file, tmp_path):
    import xgboost

    out = tmp_path / "model.json"
    assert main(["export", str(model_file[0]), "--to", "xgboost", "--out", str(out)]) == 0
    assert json.loads(xgboost.Booster(model_file=out).attr("classes")) == [0, 1, 2]


@pytest.mark.parametrize("to", FILES)
def test_a_model_without_rounds(tmp_path, capsys, to):
    class Stop(Callback):
        def before_round(self, context):  # noqa: ARG002
            return True

    X = np.random.default_rng(0).normal(size=(60, 2))
    model = ABCBoostClassifier(n_estimators=5, n_jobs=1).fit(X, np.arange(60) % 3, callbacks=[Stop()])
    model.save_model(tmp_path / "model.abc")
    command = ["export", str(tmp_path / "model.abc"), "--to", to, "--out", str(tmp_path / FILES[to])]
    for more in ([], ["--rounds", "1"]):
        assert main([*command, *more]) == 1
        assert "model must be one of at least one round" in capsys.readouterr().err
