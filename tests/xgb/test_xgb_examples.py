"""The examples that need a cluster run as they stand; those of the gallery run when the site is built."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xgboost")

ROOT = Path(__file__).resolve().parents[2]


def run(name):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_dask():
    pytest.importorskip("distributed")
    assert "base classes: [-1, -1" in run("xgboost_dask.py")


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None or shutil.which("java") is None, reason="needs pyspark and Java"
)
def test_spark():
    assert "base classes: [-1, -1, -1, -1, -1, " in run("xgboost_spark.py")
