"""Iris as files, and commands run in this process."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from abc_plugins import ABCBoostClassifier, cli

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
