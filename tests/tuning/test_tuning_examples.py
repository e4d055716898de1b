"""The examples of tuning run as they are."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("tuning_quickstart.py", ["--trials", "4", "--max-rounds", "5"], "report: "),
        ("tuning_own_study.py", ["--trials", "2", "--rounds", "5"], "log loss "),
    ],
)
def test_example(name, arguments, expected, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert expected in capsys.readouterr().out
