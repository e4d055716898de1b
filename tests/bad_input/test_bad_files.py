"""Files, disks and packages that cannot be used are named."""

from __future__ import annotations

import errno
import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from estimators import X, Y, native

from abc_plugins import ABCBoostClassifier, ModelFormatError
from abc_plugins.cli import main

FIT_COMMAND = ["fit", "{csv}", "--target", "y", "--out", "{folder}/out.abc", "--quiet", "--n-estimators", "2"]
BYTES: dict[str, tuple[bytes, list[str], str]] = {
    "empty": (b"", FIT_COMMAND, r"data\.csv is empty"),
    "only names": (b"a,y\n", FIT_COMMAND, r"data\.csv has no rows"),
    "ragged": (b"a,y\n1,u\n1,2,v\n", FIT_COMMAND, r"data\.csv is not a valid CSV file"),
    "latin-1": (b"a,y\n1,\xe9\n2,u\n", FIT_COMMAND, r"data\.csv is not text in the encoding utf-8"),
    "UTF-16": ("a,y\n1,u\n2,v\n".encode("utf-16"), FIT_COMMAND, r"data\.csv is not a text file in utf-8"),
    "binary": (bytes(range(256)) * 9, FIT_COMMAND, r"data\.csv is not a text file"),
    "duplicate names": (b"a,a,y\n1,2,u\n", FIT_COMMAND, r"must have unique column names; 'a'"),
    "date column": (b"a,y\n2020-01-02,u\n2020-01-03,v\n", FIT_COMMAND, "Column 'a' of .* features must be numbers"),
    "empty label": (b"a,y\n1,u\n2,\n3,v\n", FIT_COMMAND, "target 'y' of .* is empty in row 2"),
    "one class": (b"a,y\n1,u\n2,u\n", FIT_COMMAND, "y must have at least two classes; got one class: 'u'"),
    "no such weight": (b"a,y\n1,u\n2,v\n", [*FIT_COMMAND, "--weight", "w"], "weight 'w' is not a column"),
    "negative weight": (b"a,w,y\n1,-1,u\n2,1,v\n", [*FIT_COMMAND, "--weight", "w"], r"sample_weight\[0\] must be 0 or"),
    "wrong parameter": (
        b"a,y\n1,u\n2,v\n",
        [*FIT_COMMAND, "--guard", "maybe"],
        "guard must be True or False; got 'may",
    ),
    "evaluation file": (
        b"a,y\n1,u\n2,v\n",
        [*FIT_COMMAND, "--eval-data", "{folder}/nothing.csv"],
        "nothing.csv: No such file",
    ),
    "output over the data": (
        b"a,y\n1,u\n2,v\n",
        ["fit", "{csv}", "--target", "y", "--out", "{csv}", "--force"],
        r"--out must be another file than those that are read; got .*data\.csv",
    ),
    "output in no folder": (
        b"a,y\n1,u\n2,v\n",
        ["fit", "{csv}", "--target", "y", "--out", "{folder}/no/out.abc"],
        "the folder .*no does not exist",
    ),
    "not a model": (b"a,y\n1,u\n2,v\n", ["predict", "{csv}", "{csv}", "--out", "{folder}/o.csv"], "not a valid model"),
    "tune storage": (
        b"a,y\n" + b"1,u\n2,v\n" * 9,
        ["tune", "{csv}", "--target", "y", "--storage", "{folder}/no/s.db", "--out", "{folder}/m.abc"],
        "storage must be a file in a folder that exists",
    ),
}


def run_command(arguments: list[str]) -> tuple[int, str]:
    err = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(err):
        return main(arguments), err.getvalue()


@pytest.mark.parametrize("kind", BYTES)
def test_bad_files_on_the_command_line(kind: str, tmp_path: Path) -> None:
    content, arguments, message = BYTES[kind]
    (tmp_path / "data.csv").write_bytes(content)
    code, err = run_command([part.format(csv=tmp_path / "data.csv", folder=tmp_path) for part in arguments])
    assert code == 1
    assert re.search(f"^abc-plugins: error: .*({message})", err.splitlines()[-1]), err
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
    assert (tmp_path / "data.csv").read_bytes() == content


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_cannot_be_written_to(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = native().fit(X, Y)
    model.save_model(tmp_path / "model.abc")
    before = (tmp_path / "model.abc").read_bytes()

    def refuse(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match=re.escape(os.strerror(code))):
        model.save_model(tmp_path / "model.abc")
    assert (tmp_path / "model.abc").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model.abc"]


@pytest.mark.parametrize(("name", "value"), [("n_jobs", 10**6), ("n_jobs", 0), ("num_leaves", 1), ("guard", 3)])
def test_parameters_of_a_model_file_are_checked(name: str, value: Any, tmp_path: Path) -> None:
    """When it is written as when it is read: what can be saved can be loaded."""
    model = native().fit(X, Y)
    with pytest.raises((ValueError, TypeError), match=f"{name} must be"):
        model.set_params(**{name: value}).save_model(tmp_path / "model.abc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ABCBoostClassifier, "_check_all_parameters", lambda _: None)
        model.save_model(tmp_path / "model.abc")
    with pytest.raises(ModelFormatError, match=rf"model\.abc is not a valid model file: {name} must be"):
        ABCBoostClassifier.load_model(tmp_path / "model.abc")


PACKAGES = {
    "lightgbm": ("import abc_plugins.lgbm", "abc_plugins.lgbm needs LightGBM: pip install 'abc-plugins[lgbm]'"),
    "xgboost": ("import abc_plugins.xgb", "abc_plugins.xgb needs XGBoost: pip install 'abc-plugins[xgb]'"),
    "distributed": ("import abc_plugins.xgb.dask", "abc_plugins.xgb.dask needs Dask: pip install 'abc-plugins[dask]'"),
    "optuna": ("import tuning", "tuning needs Optuna: pip install 'abc-plugins[tuning]'"),
}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_missing_package_is_named_with_its_extra(package: str) -> None:
    statement, message = PACKAGES[package]
    program = f"import sys; sys.modules[{package!r}] = None; {statement}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(f"ModuleNotFoundError: {message}")
