"""Columns of text and categorical features on the command line."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from abc_plugins import ABCBoostClassifier

from .conftest import FAST, LABELS, Outcome


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


def test_help_names_the_default_method(run: Callable[..., Outcome]) -> None:
    assert "directional trees, the default" in " ".join(run("--help").out.split())
