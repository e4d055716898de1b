"""Errors, warnings and interruptions of the commands are one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abc_plugins import ABCBoostClassifier, cli

from .conftest import Outcome

ERRORS = {
    "unknown command": (["train"], 2, "invalid choice: 'train'"),
    "misspelt command": (["predcit", "m.abc"], 2, "(did you mean predict?)"),
    "misspelt choice": (["export", "m.abc", "--to", "xgbost", "--out", "a.ubj"], 2, "(did you mean xgboost?)"),
    "misspelt target": (["fit", "a.csv", "--taget", "y", "--out", "b"], 2, "--target (did you mean --target?)"),
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
    "existing output": (["fit", "{train}", "--target", "species", "--out", "{test}"], 1, "use --force to replace it."),
    "output over the data": (
        ["fit", "{train}", "--target", "species", "--out", "{train}", "--force"],
        1,
        "--out must be another file than those that are read",
    ),
    "output over the evaluation data": (
        ["fit", "{train}", "--target", "species", "--eval-data", "{test}", "--out", "{test}", "--force"],
        1,
        "--out must be another file than those that are read",
    ),
    "output is the checkpoint": (
        ["fit", "{train}", "--target", "species", "--checkpoint", "{folder}/m.abc", "--out", "{folder}/m.abc"],
        1,
        "--out must be another file than those that are read",
    ),
    "checkpoint rounds": (
        ["fit", "{train}", "--target", "species", "--checkpoint", "c", "--checkpoint-rounds", "0", "--out", "m"],
        1,
        "--checkpoint-rounds must be a whole number of at least 1; got 0.",
    ),
    "target is weight": (
        ["fit", "{train}", "--target", "weight", "--weight", "weight", "--out", "{folder}/m.abc"],
        1,
        "both name 'weight'.",
    ),
    "target is dropped": (
        ["fit", "{train}", "--target", "species", "--drop", "id", "species", "--out", "{folder}/m.abc"],
        1,
        "both name 'species'.",
    ),
    "verbose": (
        ["fit", "{train}", "--target", "species", "--out", "{folder}/m.abc", "--verbose", "0"],
        1,
        "--verbose must be a whole number of at least 1; got 0.",
    ),
    "not a model": (["predict", "{train}", "{train}", "--out", "{folder}/o.csv"], 1, "is not a valid model file"),
    "inspect no model": (["inspect", "{train}"], 1, "is not a valid model file"),
    "inspect top": (["inspect", "{train}", "--top", "-1"], 1, "top must be a whole number of at least 0; got -1."),
    "unknown data set": (["compare", "cifar"], 1, "data must be a file or one of digits, "),
    "no such file": (["compare", "none.csv"], 1, "there is no file 'none.csv'"),
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
    outcome = run(
        *(argument.format(train=files / "train.csv", test=files / "test.csv", folder=files) for argument in arguments)
    )
    assert outcome.code == code
    assert outcome.out == ""
    assert message in outcome.err.splitlines()[-1]
    assert code == 2 or (outcome.err.startswith("abc-plugins: error: ") and outcome.err.count("\n") == 1)
    assert sorted(path.name for path in files.iterdir()) == before


def test_missing_columns_at_predict(files: Path, model: Path, run: Callable[..., Outcome]) -> None:
    (files / "short.csv").write_text("sl,sw\n1,2\n")
    outcome = run("predict", model, files / "short.csv", "--out", files / "o.csv")
    assert outcome.code == 1
    assert outcome.err.endswith("short.csv lacks 2 columns that the model needs: pl, pw.\n")


def test_columns_that_the_model_needs_cannot_be_dropped(files: Path, model: Path, run: Callable[..., Outcome]) -> None:
    outcome = run("predict", model, files / "test.csv", "--drop", "id", "pl")
    assert outcome.code == 1
    assert outcome.err.startswith("abc-plugins: error: features and drop must name different columns of ")
    assert outcome.err.endswith("both name 'pl'.\n")


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
    monkeypatch.setattr("abc_plugins.commands.predict.add_options", interrupt)  # while packages are imported
    outcome = run("predict", "m.abc", files / "train.csv")
    assert (outcome.code, outcome.err) == (130, "abc-plugins: interrupted\n")


def test_interruption_of_a_fit(files: Path) -> None:
    """By a signal: the program ends with its exit code, and writes no model."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
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


def test_warnings_are_one_line(run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: Any) -> None:
        import warnings

        warnings.warn("mind\nthis", stacklevel=1)

    monkeypatch.setitem(cli.COMMANDS, "inspect", cli.Command("", cli._add_inspect_options, warn))
    assert run("inspect", "x").err == "abc-plugins: warning: mind this\n"
