"""The command line: every command, its files, its errors and exit codes."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

from abc_plugins import ABCBoostClassifier, cli
from abc_plugins.data import tablefiles
from abc_plugins.data.tables import Features

LABELS = np.array(["setosa", "versicolor", "virginica"])
FAST = ["--n-estimators", "6", "--warmup", "2", "--gap", "1", "--random-state", "0", "--quiet"]


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def run_command(*arguments: Any) -> Outcome:
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Iris as train.csv and test.csv, with an id column and sample weights."""
    X, y = load_iris(return_X_y=True)
    for name, rows in (("train.csv", range(0, 150, 2)), ("test.csv", range(1, 150, 2))):
        with open(tmp_path / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "sl", "sw", "pl", "pw", "species", "weight"])
            writer.writerows([f"row {row}", *X[row], LABELS[y[row]], 1 + row % 2] for row in rows)
    return tmp_path


@pytest.fixture(params=["directional", "abcrobustlogit"])
def method(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(files: Path, run: Callable[..., Outcome], method: str) -> Path:
    outcome = run(
        *["fit", files / "train.csv", "--target", "species", "--drop", "id", "weight", "--out", files / "m.abc"],
        *["--method", method, *FAST],
    )
    assert outcome.code == 0, outcome.err
    return files / "m.abc"


def fit_by_hand(**options: Any) -> ABCBoostClassifier:
    X, y = load_iris(return_X_y=True)
    settings = {"n_estimators": 6, "warmup": 2, "gap": 1, "random_state": 0} | options
    return ABCBoostClassifier(**settings).fit(X[::2], LABELS[y[::2]])


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

    assert run("predict", model, files / "test.csv", "--out", files / "out.parquet", "--proba").code == 0
    table = parquet.read_table(files / "out.parquet")
    assert table.column_names == ["proba_setosa", "proba_versicolor", "proba_virginica"]
    probabilities = np.column_stack([column.to_numpy() for column in table.columns])
    np.testing.assert_array_equal(probabilities, expected.predict_proba(X[1::2]))


def test_fit_says_what_it_did(files: Path, run: Callable[..., Outcome]) -> None:
    command = ["fit", files / "train.csv", "--target", "species", "--drop", "id", "weight", "--out", files / "m.abc"]
    outcome = run(*command, "--n-estimators", 2, "--eval-data", files / "test.csv")
    assert outcome.code == 0
    assert outcome.out.startswith(f"{files / 'm.abc'}: 3 classes, 4 features, 2 rounds, training loss ")
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
    assert outcome.err == "abc-plugins: error: class_weight must have labels of the training data as keys; got '2'.\n"


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
    assert summary["file_bytes"] == model.stat().st_size
    assert summary["n_trees"] == 2 * 3 + 4 * (1 if is_directional else 2)
    assert summary["params"]["gap"] == 1
    gains = {entry["name"]: entry["gain"] for entry in summary["importances"]}
    np.testing.assert_allclose([gains[name] for name in ("sl", "sw", "pl", "pw")], expected.feature_importances_)


ERRORS = {
    "unknown command": (["train"], 2, "invalid choice: 'train'"),
    "no command": ([], 2, "the following arguments are required: command"),
    "no target": (["fit", "{train}", "--out", "m.abc"], 2, "the following arguments are required: --target"),
    "unknown option": (
        ["fit", "a.csv", "--target", "y", "--out", "b", "--depth", "3"],
        2,
        "unrecognized arguments: --depth 3 (did you mean --max-depth?)",
    ),
    "misspelt option": (
        ["predict", "m.abc", "a.csv", "--out", "b", "--probs"],
        2,
        "unrecognized arguments: --probs (did you mean --proba?)",
    ),
    "abbreviation": (["fit", "a.csv", "--target", "y", "--out", "b", "--learning", "3"], 2, "unrecognized arguments"),
    "no file": (["fit", "{folder}/none.csv", "--target", "y", "--out", "{folder}/m.abc"], 1, "none.csv: No such file"),
    "wrong target": (["fit", "{train}", "--target", "specie", "--out", "{folder}/m.abc"], 1, "Did you mean 'species'?"),
    "text column": (
        ["fit", "{train}", "--target", "species", "--out", "{folder}/m.abc", "--categorical-features", "none"],
        1,
        "Column 'id' of",
    ),
    "wrong value": (
        ["fit", "{train}", "--target", "species", "--drop", "id", "--out", "{folder}/m.abc", "--gap", "-1"],
        1,
        "gap must be a whole number of at least 0; got -1.",
    ),
    "wrong kind": (
        ["fit", "{train}", "--target", "species", "--drop", "id", "--out", "{folder}/m.abc", "--n-estimators", "many"],
        1,
        "n_estimators must be a whole number of at least 1; got 'many'.",
    ),
    "no folder": (["fit", "{train}", "--target", "species", "--out", "{folder}/no/m.abc"], 1, "does not exist."),
    "a folder": (["fit", "{train}", "--target", "species", "--out", "{folder}"], 1, "is a folder; name a file in it."),
    "existing output": (["fit", "{train}", "--target", "species", "--out", "{train}"], 1, "use --force to replace it."),
    "verbose": (
        ["fit", "{train}", "--target", "species", "--out", "{folder}/m.abc", "--verbose", "0"],
        1,
        "verbose must be a whole number of at least 1; got 0.",
    ),
    "not a model": (["predict", "{train}", "{train}", "--out", "{folder}/o.csv"], 1, "is not a valid model file"),
    "inspect no model": (["inspect", "{train}"], 1, "is not a valid model file"),
    "inspect top": (["inspect", "{train}", "--top", "-1"], 1, "top must be a whole number of at least 0; got -1."),
    "unknown data set": (["compare", "cifar"], 1, "data set must be one of digits, "),
    "compare without target": (["compare", "{train}"], 1, "--target must name the column of the labels"),
    "compare rounds": (["compare", "--rounds", "0"], 1, "rounds must be a whole number of at least 1; got 0."),
    "compare splits": (["compare", "--splits", "0"], 1, "splits must be a whole number of at least 1; got 0."),
    "compare engines": (["compare", "--engines", "gbdt"], 1, "must be some of directional, pairs, abc-lightgbm,"),
    "compare budget engines": (
        ["compare", "--budget", "equal-time", "--engines", "pairs"],
        1,
        "engines must be some of directional, mart,",
    ),
    "compare leaves": (["compare", "--leaves", "8"], 1, "--leaves needs a --budget"),
    "compare search": (
        ["compare", "iris", "--budget", "equal-time", "--search", "4"],
        1,
        "--search must be at most the number of classes (3)",
    ),
    "compare budget": (["compare", "--budget", "equal"], 2, "invalid choice: 'equal'"),
    "compare to a file": (["compare", "iris", "--out", "{train}"], 1, "is a file; name a folder with --out."),
    "compare to nowhere": (["compare", "iris", "--out", "{folder}/no/out"], 1, "does not exist."),
    "inspect to a folder": (["inspect", "{train}", "--plot", "{folder}"], 1, "is a folder; name a file in it."),
}  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_are_one_line(kind: str, files: Path, run: Callable[..., Outcome]) -> None:
    arguments, code, message = ERRORS[kind]
    before = sorted(path.name for path in files.iterdir())
    outcome = run(*(argument.format(train=files / "train.csv", folder=files) for argument in arguments))
    assert outcome.code == code
    assert outcome.out == ""
    assert message in outcome.err.splitlines()[-1]
    assert code == 2 or (outcome.err.startswith("abc-plugins: error: ") and outcome.err.count("\n") == 1)
    assert sorted(path.name for path in files.iterdir()) == before


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
    assert re.search(r"held-out rows, round \d+: logloss 0\.\d+$", outcome.out)


def test_help_has_examples_and_metavars(run: Callable[..., Outcome]) -> None:
    text = run("fit", "--help").out
    assert "abc-plugins fit train.csv --target species --out model.abc" in text
    assert "--target COLUMN" in text
    assert "--method {directional,abcrobustlogit" in text
    assert "abc-plugins predict model.abc" in run("predict", "--help").out


def test_missing_columns_at_predict(files: Path, model: Path, run: Callable[..., Outcome]) -> None:
    (files / "short.csv").write_text("sl,sw\n1,2\n")
    outcome = run("predict", model, files / "short.csv", "--out", files / "o.csv")
    assert outcome.code == 1
    assert outcome.err.endswith("short.csv lacks 2 columns that the model needs: pl, pw.\n")


def test_debug_shows_the_traceback(files: Path, run: Callable[..., Outcome]) -> None:
    outcome = run("inspect", "--debug", files / "train.csv")
    assert outcome.code == 1
    assert outcome.err.startswith("Traceback")


def test_unexpected_errors_name_their_kind(
    files: Path, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(ABCBoostClassifier, "load_model", fail)
    outcome = run("inspect", files / "train.csv")
    assert outcome.err == "abc-plugins: error: ZeroDivisionError: division by zero (--debug shows where)\n"


def test_interruption(files: Path, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ABCBoostClassifier, "load_model", interrupt)
    outcome = run("inspect", files / "train.csv")
    assert (outcome.code, outcome.err) == (130, "abc-plugins: interrupted\n")


def test_interruption_of_a_fit(files: Path) -> None:
    """By a signal: the program ends with its exit code, and writes no model."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "abc_plugins", "fit", "train.csv", "--target", "species", "--out", "m.abc",
               "--n-estimators", "1000000", "--verbose", "1"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=files) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("[1] train logloss"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        *_, last = process.stderr.read().splitlines()
    assert (process.returncode, last) == (130, "abc-plugins: interrupted")
    assert not (files / "m.abc").exists()


@pytest.fixture
def flowers(tmp_path: Path) -> Path:
    """Rows with text, of which that of the column `code` looks like numbers in all files but the first."""
    X, y = load_iris(return_X_y=True)
    for name, rows in (("train.csv", range(0, 150, 2)), ("test.csv", range(1, 150, 2))):
        with open(tmp_path / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["sl", "colour", "code", "area", "species"])
            for row in rows:
                colour = ["red", "blue", "", "NA"][(y[row] + row // 3) % 4]
                code = "x" if row % 10 == 0 and name == "train.csv" else str(y[row] * 10 + row % 3)
                writer.writerow([X[row, 0], colour, code, 7 + (y[row] + row // 5) % 3, LABELS[y[row]]])
    return tmp_path


@pytest.mark.parametrize("options", [[], ["--categorical-features", "colour,code,area"]], ids=["text", "named"])
@pytest.mark.parametrize("library", ["pyarrow", "standard library"])
def test_columns_of_text(
    flowers: Path, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, options: list[str], library: str
) -> None:
    if library == "standard library":
        monkeypatch.setattr("abc_plugins.data.tablefiles.find_spec", lambda _: None)
    out, evaluation = flowers / "m.abc", flowers / "test.csv"
    outcome = run("fit", flowers / "train.csv", "--target", "species", "--out", out, *FAST, *options, "--eval-data",
                  evaluation, "--random-state", 0)  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert run("predict", out, evaluation, "--out", flowers / "out.csv", "--proba").code == 0
    model = ABCBoostClassifier.load_model(out)
    colours, codes, areas = model.categories_[1:]
    assert colours.tolist() == ["blue", "red"]  # the others are missing
    assert codes.tolist()[-1] == "x"
    assert (areas is None) == (not options)
    train, test = (pd.read_csv(flowers / name, dtype={"code": str}) for name in ("train.csv", "test.csv"))
    y_train, y_test = train.pop("species"), test.pop("species")
    settings = {"categorical_features": ["colour", "code", "area"]} if options else {}
    by_hand = ABCBoostClassifier(n_estimators=6, warmup=2, gap=1, random_state=0, **settings)
    by_hand.fit(train, y_train, eval_set=[(test, y_test)])
    assert model.evals_result_ == by_hand.evals_result_
    found = np.loadtxt(flowers / "out.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(found, by_hand.predict_proba(test))


def test_categorical_features_on_the_command_line(flowers: Path, run: Callable[..., Outcome]) -> None:
    command = ["fit", flowers / "train.csv", "--target", "species", "--out", flowers / "m.abc", *FAST]
    for value, message in (
        ("none", "Column 'colour' of .* has the dtype String"),
        ("colour", "Column 'code' of .* has the dtype String"),
        ("colour,kind", "categorical_features must be a list of names of columns of X .*; got 'kind'"),
        ("[1.5]", "categorical_features must be"),
    ):
        outcome = run(*command, "--categorical-features", value)
        assert outcome.code == 1
        assert re.search(message, outcome.err), outcome.err
    for value in ('["colour", "code"]', "[1, 2]", "from_dtype"):
        assert run(*command, "--categorical-features", value, "--force").code == 0
        assert ABCBoostClassifier.load_model(flowers / "m.abc").is_categorical_.tolist() == [False, True, True, False]


def test_warnings_are_one_line(run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: Any) -> None:
        import warnings

        warnings.warn("mind\nthis", stacklevel=1)

    monkeypatch.setitem(cli.COMMANDS, "inspect", cli.Command("", cli._add_inspect_options, warn))
    assert run("inspect", "x").err == "abc-plugins: warning: mind this\n"


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_as_a_module(arguments: list[str]) -> None:
    root = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "abc_plugins", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "abc-plugins" in done.stdout
