"""The commands fit, predict and inspect: the same as in Python."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

from abc_plugins import ABCBoostClassifier
from abc_plugins.data import tablefiles
from abc_plugins.data.tables import Features

from .conftest import FAST, LABELS, Outcome, fit_by_hand


def test_fit_predict_is_the_same_as_in_python(
    files: Path, model: Path, run: Callable[..., Outcome], method: str
) -> None:
    X, _ = load_iris(return_X_y=True)
    expected = fit_by_hand(method=method)
    outcome = run("predict", model, files / "test.csv", "--out", files / "out.csv")
    assert (outcome.code, outcome.out) == (0, f"{files / 'out.csv'}: 75 rows\n")
    heading, *labels = (files / "out.csv").read_text().splitlines()
    assert heading == "prediction"
    assert labels == expected.predict(X[1::2]).tolist()
    outcome = run("predict", model, files / "test.csv")
    assert (outcome.code, outcome.out) == (0, (files / "out.csv").read_text().replace("\r", ""))

    assert run("predict", model, files / "test.csv", "--out", files / "out.parquet", "--proba").code == 0
    table = parquet.read_table(files / "out.parquet")
    assert table.column_names == ["proba_setosa", "proba_versicolor", "proba_virginica"]
    probabilities = np.column_stack([column.to_numpy() for column in table.columns])
    np.testing.assert_array_equal(probabilities, expected.predict_proba(X[1::2]))


def test_fit_says_what_it_did(files: Path, run: Callable[..., Outcome]) -> None:
    command = ["fit", files / "train.csv", "--target", "species", "--drop", "id", "weight", "--out", files / "m.abc"]
    outcome = run(*command, "--n-estimators", 2, "--eval-data", files / "test.csv")
    assert outcome.code == 0
    assert outcome.out.startswith(f"{files / 'm.abc'}: 3 classes, 4 features, 2 rounds, fitted in ")
    assert "round 2/2: train logloss" in outcome.err
    assert "valid_0 logloss" in outcome.err
    outcome = run(*command, "--n-estimators", 4, "--verbose", 2, "--force")
    assert outcome.err.splitlines()[0].startswith("[2] train logloss ")
    assert len(outcome.err.splitlines()) == 3  # two of rounds, and why it ended


def test_every_parameter_is_an_option(files: Path, run: Callable[..., Outcome]) -> None:
    given = {
        "method": "abcmart", "n_estimators": 5, "learning_rate": 0.2, "num_leaves": 4, "search": "all", "gap": 2,
        "warmup": 1, "min_samples_leaf": 3, "pair_samples_per_leaf": 2.5,
        "min_child_weight": 0.01, "reg_lambda": 0.5, "leaf_clip": None, "tree_shape": "best-first", "max_depth": 3,
        "trees_per_round": 2, "leaf_reg_lambda": 0.2, "start_scores": "priors",
        "leaf_values": "paper", "base_choice": "worst",
        "max_bins": 16, "subsample": 0.9, "colsample": 0.8, "class_weight": "balanced", "early_stopping_rounds": 50,
        "validation_fraction": 0.2, "eval_metric": ["error", "logloss"], "n_jobs": 1, "random_state": 7,
        "categorical_features": None, "on_interrupt": "keep", "early_stopping": True, "min_split_gain": 0.01,
        "reg_alpha": 0.01, "max_features": 0.9, "interaction_constraints": "pairwise", "calibration": "temperature",
    }  # fmt: skip
    parameters = ABCBoostClassifier().get_params()
    given |= {name: not value for name, value in parameters.items() if isinstance(value, bool)}
    assert set(given) == set(parameters) - {"verbose"}
    arguments = []
    for name, value in given.items():
        assert value != parameters[name]
        text = json.dumps(value) if isinstance(value, list) else str(value)
        arguments += [f"--{name.replace('_', '-')}", text]
    outcome = run(
        "fit",
        files / "train.csv",
        "--target",
        "species",
        "--drop",
        "id",
        "weight",
        "--out",
        files / "m.abc",
        "--quiet",
        *arguments,
    )
    assert outcome.code == 0, outcome.err
    stored = ABCBoostClassifier.load_model(files / "m.abc").get_params()
    assert {name: stored[name] for name in given} == given


def test_options_are_described(run: Callable[..., Outcome]) -> None:
    outcome = run("fit", "--help")
    assert outcome.code == 0
    text = " ".join(outcome.out.split())
    assert "--n-estimators N int or None, default=None. Number of boosting rounds, M" in text
    assert text.count("default=") == len(ABCBoostClassifier().get_params()) - 1


def test_sample_weights_and_class_weights(files: Path, run: Callable[..., Outcome]) -> None:
    X, y = load_iris(return_X_y=True)
    weights = 1 + np.arange(0, 150, 2) % 2
    expected = ABCBoostClassifier(
        n_estimators=6, warmup=2, gap=1, random_state=0, class_weight={"setosa": 2, "versicolor": 1, "virginica": 1}
    )
    expected.fit(X[::2], LABELS[y[::2]], sample_weight=weights)
    class_weight = '{"setosa": 2, "versicolor": 1, "virginica": 1}'
    outcome = run(
        *["fit", files / "train.csv", "--target", "species", "--weight", "weight", "--drop", "id"],
        *["--out", files / "w.abc", "--class-weight", class_weight, *FAST],
    )
    assert outcome.code == 0, outcome.err
    loaded = ABCBoostClassifier.load_model(files / "w.abc")
    np.testing.assert_array_equal(
        loaded.predict_proba(Features(X, ["sl", "sw", "pl", "pw"])), expected.predict_proba(X)
    )


def test_class_weights_of_labels_that_are_numbers(tmp_path: Path, run: Callable[..., Outcome]) -> None:
    (tmp_path / "d.csv").write_text("x,y\n" + "".join(f"{row},{row % 2}\n" for row in range(40)))
    command = ["fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path / "m.abc", "--n-estimators", 1, "--quiet"]
    assert run(*command, "--class-weight", '{"0": 1, "1": 3}').code == 0
    assert ABCBoostClassifier.load_model(tmp_path / "m.abc").class_weight == {0: 1, 1: 3}
    outcome = run(*command, "--class-weight", '{"0": 1, "2": 3}', "--force")
    assert outcome.err == (
        "abc-plugins: error: class_weight must be an object with labels of the training data as keys ('0', '1'); "
        "got '2'.\n"
    )


def test_class_weights_of_labels_that_are_truth_values(tmp_path: Path, run: Callable[..., Outcome]) -> None:
    rows = "".join(f"{row},{'true' if row % 2 else 'false'}\n" for row in range(40))
    (tmp_path / "d.csv").write_text(f"x,y\n{rows}")
    command = ["fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path / "m.abc", "--n-estimators", 1, "--quiet"]
    assert run(*command, "--class-weight", '{"true": 2, "False": 1}').code == 0
    assert ABCBoostClassifier.load_model(tmp_path / "m.abc").class_weight == {True: 2, False: 1}
    outcome = run(*command, "--force", "--class-weight", '{"yes": 2}')
    assert (
        "class_weight must be an object with labels of the training data as keys ('False', 'True'); got" in outcome.err
    )
    outcome = run(*command, "--force", "--class-weight", '{"true": 2, "True": 1}')
    assert "class_weight must be an object that names every label once" in outcome.err


def test_a_training_that_ends_before_its_first_checkpoint(files: Path, run: Callable[..., Outcome]) -> None:
    outcome = run(
        *["fit", files / "train.csv", "--target", "species", "--drop", "id", "weight", "--out", files / "m.abc"],
        *["--eval-data", files / "test.csv", "--early-stopping-rounds", 1, "--learning-rate", 5, "--quiet"],
        *["--checkpoint", files / "c", "--checkpoint-rounds", 1000],
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert (files / "m.abc").exists()
    assert not (files / "c").exists()


@pytest.mark.parametrize("with_pyarrow", [True, False])
def test_blanks_after_commas(
    with_pyarrow: bool, tmp_path: Path, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_pyarrow:
        monkeypatch.setattr(tablefiles, "find_spec", lambda _: None)
    rows = "".join(
        f"{row}, {'NA ' if row % 3 else row}, {'red' if row % 2 else 'blue'} , {row % 2}\n" for row in range(40)
    )
    (tmp_path / "pad.csv").write_text(f"a, b, colour , y\n{rows}")
    (tmp_path / "plain.csv").write_text(f"a, b, colour , y\n{rows}".replace(" ", ""))
    for name, target in (("pad", " y"), ("plain", "y")):
        fit = ["fit", tmp_path / f"{name}.csv", "--target", target, "--out", tmp_path / f"{name}.abc", *FAST]
        assert run(*fit).code == 0
        outcome = run("predict", tmp_path / f"{name}.abc", tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}.out")
        assert (outcome.code, outcome.err) == (0, "")
    assert (tmp_path / "pad.out").read_bytes() == (tmp_path / "plain.out").read_bytes()
    padded, plain = (ABCBoostClassifier.load_model(tmp_path / f"{name}.abc") for name in ("pad", "plain"))
    assert padded.feature_names_in_.tolist() == plain.feature_names_in_.tolist() == ["a", "b", "colour"]
    assert padded.categories_[2].tolist() == ["blue", "red"]


def test_predict_takes_the_columns_of_the_model_by_name(files: Path, model: Path, run: Callable[..., Outcome]) -> None:
    run("predict", model, files / "test.csv", "--out", files / "a.csv")
    rows = [line.split(",") for line in (files / "test.csv").read_text().splitlines()]
    shuffled = [",".join([row[4], row[0], row[2], row[1], row[3]]) for row in rows]
    (files / "shuffled.csv").write_text("\n".join(shuffled))
    assert run("predict", model, files / "shuffled.csv", "--out", files / "b.csv").code == 0
    assert (files / "a.csv").read_text() == (files / "b.csv").read_text()


def test_predict_with_a_model_without_names(files: Path, run: Callable[..., Outcome]) -> None:
    expected = fit_by_hand()
    expected.save_model(files / "plain.abc")
    command = ["predict", files / "plain.abc", files / "test.csv", "--out", files / "out.csv"]
    outcome = run(*command, "--drop", "id", "species", "weight")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    outcome = run(*command, "--drop", "id", "species", "--force")
    assert outcome.err == (
        "abc-plugins: error: X has 5 features, but ABCBoostClassifier is expecting 4 features as input.\n"
    )


def test_inspect_as_text(model: Path, run: Callable[..., Outcome], method: str) -> None:
    outcome = run("inspect", model, "--top", 2)
    assert outcome.code == 0
    lines = dict(line.split(maxsplit=1) for line in outcome.out.splitlines()[:4])
    assert lines["classes"] == "3: 'setosa', 'versicolor', 'virginica'"
    assert lines["features"] == "4"
    assert lines["rounds"] == "6 (prediction uses 6)"
    assert "classic rounds  2\n" in outcome.out
    assert f"directional     {4 if method == 'directional' else 0}\n" in outcome.out
    assert "n_estimators=6" in outcome.out
    assert "training loss   mean logloss 0." in outcome.out or "training loss   mean logloss 1." in outcome.out
    assert [line.split()[0] for line in outcome.out.splitlines()[-2:]] == ["pl", "pw"]


def test_inspect_as_json(model: Path, run: Callable[..., Outcome], method: str) -> None:
    expected, is_directional = fit_by_hand(method=method), method == "directional"
    summary = json.loads(run("inspect", model, "--json").out)
    assert summary["classes"] == LABELS.tolist()
    assert summary["n_rounds"] == 6
    assert summary["classic_rounds"] == 2
    assert summary["directional_rounds"] == (4 if is_directional else 0)
    assert sum(entry["rounds"] for entry in summary["base_class_rounds"]) == (0 if is_directional else 4)
    assert summary["train_loss"] == expected.train_loss_.tolist()
    n_rows = round(expected.train_loss_[0] / summary["mean_train_loss"][0], 6)
    assert summary["mean_train_loss"] == (expected.train_loss_ / n_rows).tolist()
    assert summary["file_bytes"] == model.stat().st_size
    assert summary["n_trees"] == 2 * 3 + 4 * (1 if is_directional else 2)
    assert summary["params"]["gap"] == 1
    gains = {entry["name"]: entry["gain"] for entry in summary["importances"]}
    np.testing.assert_allclose([gains[name] for name in ("sl", "sw", "pl", "pw")], expected.feature_importances_)


def test_label_probabilities_and_ids_together(
    files: Path, model: Path, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the file is read some rows at a time, with pyarrow and without."""
    command = ["predict", model, files / "test.csv", "--id", "id", "weight", "--label", "--proba"]
    assert run(*command, "--out", files / "all.csv").code == 0
    expected = (files / "all.csv").read_text()
    heading, first = expected.splitlines()[:2]
    assert heading == "id,weight,prediction,proba_setosa,proba_versicolor,proba_virginica"
    assert first.startswith("row 1,2,setosa,0.")
    monkeypatch.setattr(tablefiles, "_BATCH_BYTES", 700)
    assert run(*command, "--out", files / "few.csv.gz").code == 0
    assert gzip.decompress((files / "few.csv.gz").read_bytes()).decode() == expected.replace("\n", "\r\n")
    monkeypatch.setattr(tablefiles, "find_spec", lambda _: None)
    monkeypatch.setattr(tablefiles, "_BATCH_ROWS", 20)
    assert run(*command, "--out", files / "plain.csv").code == 0
    assert (files / "plain.csv").read_text() == expected


def test_parquet_is_predicted_in_batches(
    files: Path, model: Path, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    pd.read_csv(files / "test.csv").to_parquet(files / "test.parquet")
    monkeypatch.setattr(tablefiles, "_BATCH_ROWS", 20)
    command = ["predict", model, files / "test.parquet", "--id", "id", "--out"]
    assert run(*command, files / "out.parquet").out.endswith("75 rows\n")
    assert run("predict", model, files / "test.csv", "--id", "id", "--out", files / "out.csv").code == 0
    expected = pd.read_csv(files / "out.csv")
    pd.testing.assert_frame_equal(pd.read_parquet(files / "out.parquet"), expected)


def test_an_index_column_is_warned_about(files: Path, run: Callable[..., Outcome]) -> None:
    pd.read_csv(files / "train.csv").drop(columns=["id", "weight"]).to_csv(files / "indexed.csv")
    command = ["fit", files / "indexed.csv", "--target", "species", "--out", files / "i.abc", *FAST]
    outcome = run(*command)
    assert "has a column without a name, which looks like a row index" in outcome.err
    assert run(*command, "--force", "--drop", "").err == ""


def test_fit_ends_with_validation_figures(files: Path, run: Callable[..., Outcome]) -> None:
    command = ["fit", files / "train.csv", "--target", "species", "--drop", "id", "weight", "--out", files / "m.abc"]
    outcome = run(*command, *FAST, "--eval-data", files / "test.csv")
    found = re.fullmatch(r"evaluation data: log loss (\S+), error (\S+)%", outcome.out.splitlines()[-1])
    assert found is not None, outcome.out
    X, y = load_iris(return_X_y=True)
    model = ABCBoostClassifier.load_model(files / "m.abc")
    assert float(found[1]) == pytest.approx(log_loss(LABELS[y[1::2]], model.predict_proba(X[1::2])), rel=1e-5)
    assert float(found[2]) == pytest.approx(100 * (1 - model.score(X[1::2], LABELS[y[1::2]])), abs=0.01)
    outcome = run(*command, *FAST, "--force", "--early-stopping-rounds", "3")
    found = re.fullmatch(r"held-out rows, after round \d+: log loss (\S+), error (\S+)%", outcome.out.splitlines()[-1])
    assert found is not None, outcome.out
    held_out = ABCBoostClassifier.load_model(files / "m.abc").best_score_["validation"]
    assert (float(found[1]), float(found[2])) == pytest.approx((held_out["logloss"], 100 * held_out["error"]), abs=0.01)
    outcome = run(*command, *FAST, "--force", "--early-stopping-rounds", "3", "--eval-metric", '["brier", "error"]')
    assert re.search(r": log loss \S+, error \S+%, brier \S+$", outcome.out)
    assert run(*command, *FAST, "--force").out.splitlines()[-1].startswith("no rows were held out; --eval-data FILE")


def test_help_has_examples_and_metavars(run: Callable[..., Outcome]) -> None:
    text = run("fit", "--help").out
    assert "abc-plugins fit train.csv --target species --out model.abc" in text
    assert "--target COLUMN" in text
    assert "--method {directional,abcrobustlogit" in text
    assert "abc-plugins predict model.abc" in run("predict", "--help").out


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_as_a_module(arguments: list[str]) -> None:
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "abc_plugins", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "abc-plugins" in done.stdout


@pytest.mark.parametrize("with_pyarrow", [True, False])
def test_zeros_in_front_of_labels_and_categories(
    with_pyarrow: bool, tmp_path: Path, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_pyarrow:
        monkeypatch.setattr(tablefiles, "find_spec", lambda _: None)
    codes = ["001", "01", "1", "10"]
    rows = [f"{code},{place},{code}" for code in codes for place in range(20)]
    (tmp_path / "d.csv").write_text("\n".join(["zip,x,y", *rows]) + "\n")
    (tmp_path / "one.csv").write_text("\n".join(["zip,x,y", *rows[40:]]) + "\n")  # without zeros in front
    command = ["fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path / "m.abc", *FAST]
    outcome = run(*command, "--categorical-features", "zip", "--eval-data", tmp_path / "one.csv")
    assert outcome.code == 0, outcome.err
    model = ABCBoostClassifier.load_model(tmp_path / "m.abc")
    assert (model.classes_.tolist(), model.categories_[0].tolist()) == (codes, codes)
    assert run("predict", tmp_path / "m.abc", tmp_path / "d.csv", "--out", tmp_path / "p.csv").code == 0
    assert (tmp_path / "p.csv").read_text().split() == ["prediction", *np.repeat(codes, 20)]
