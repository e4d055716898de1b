"""The public name `tuning`, and users who have a file or a folder of that name."""

from __future__ import annotations

import subprocess
import sys

import pytest

import abc_plugins.tuning
import tuning
from abc_plugins.data.tablewriting import write_table


def test_the_top_level_package_has_the_public_names():
    assert tuning.__all__ == abc_plugins.tuning.__all__
    for name in tuning.__all__:
        assert getattr(tuning, name) is getattr(abc_plugins.tuning, name)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_users_own_tuning_does_not_break_the_command(tmp_path, kind):
    """`python -m` puts the folder that it is started in before all installed packages."""
    import numpy as np

    if kind == "file":
        (tmp_path / "tuning.py").write_text("raise RuntimeError('the user runs this by hand')\n")
    else:
        (tmp_path / "tuning").mkdir()
        (tmp_path / "tuning" / "__init__.py").write_text("")
    rng = np.random.default_rng(0)
    write_table(tmp_path / "data.csv", {"x": rng.normal(size=60), "y": np.tile(np.arange(3), 20)})
    command = ["-m", "abc_plugins", "tune", "data.csv", "--target", "y", "--trials", "1", "--folds", "2", "--quiet"]
    command += ["--repeats", "1", "--max-rounds", "4", "--storage", "study.log", "--out", "model.abc"]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = ["-m", "abc_plugins", "tune", "report", "--storage", "study.log", "--out", "report.html"]
    done = subprocess.run([sys.executable, *report], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
