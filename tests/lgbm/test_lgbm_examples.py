"""The examples run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lightgbm_swap", "abc_plugins.lgbm.train"),
        ("lightgbm_sklearn", "best schedule"),
        ("lightgbm_deploy", "another process, LightGBM alone"),
        ("lightgbm_own_loop", "test error"),
    ],
)
def test_example(name, expected, tmp_path):
    path = os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
