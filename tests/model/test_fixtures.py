"""Model files of every released version: this one must read them, and predict the same."""

from __future__ import annotations

import json
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.model.checkpoint import load_checkpoint
from abc_plugins.core.model.file import load, save
from abc_plugins.training.persistence import current_params

FOLDER = Path(__file__).parents[1] / "fixtures"
ROWS = [[0.0, 0.0, 0.0], [1.0, -1.0, 0.5], [np.nan, 2.0, -2.0], [-3.0, np.nan, np.nan], [0.25, 0.5, 0.75]]
EXPECTED = {
    (path.name.removesuffix("_expected.json"), name): values
    for path in sorted(FOLDER.glob("*_expected.json"))
    for name, values in json.loads(path.read_text()).items()
}


def test_there_are_fixtures() -> None:
    assert {("0.1.0", "three_classes"), ("0.2.0", "three_classes"), ("0.2.0", "sets")} <= set(EXPECTED)
    assert len(list(FOLDER.glob("*.abc"))) == len(EXPECTED)


@pytest.mark.parametrize(("version", "name"), EXPECTED)
def test_model_files_of_every_version(version: str, name: str, tmp_path: Path) -> None:
    expected = EXPECTED[version, name]
    model = ABCBoostClassifier.load_model(FOLDER / f"{version}_{name}.abc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # arrays have no column names
        probabilities = model.predict_proba(np.array(ROWS))
        model.save_model(tmp_path / "again")
    np.testing.assert_allclose(probabilities, expected["probabilities"], rtol=1e-12)
    assert model.classes_.tolist() == expected["classes"]
    assert model.base_classes_.tolist() == expected["base_classes"]
    again = ABCBoostClassifier.load_model(tmp_path / "again")
    assert again.model_.flat().values.tobytes() == model.model_.flat().values.tobytes()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.checkpoint")), ids=lambda path: path.name)
def test_checkpoints_of_every_version(path: Path) -> None:
    """They can be read, and their models used; only the version that wrote one goes on from it."""
    stored = load_checkpoint(path)
    is_old = path.name == "0.1.0.checkpoint"
    assert stored.arrays["scores" if is_old else "probabilities"].shape == ((3, 48) if is_old else (48, 3))
    model = ABCBoostClassifier.load_model(path)
    expected = EXPECTED[path.name.removesuffix(".checkpoint"), "three_classes"]
    np.testing.assert_allclose(model.predict_proba(np.array(ROWS)), expected["probabilities"], rtol=1e-12)


def test_checkpoints_of_0_1_0_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the versions had the same number."""
    path = FOLDER / "0.1.0.checkpoint"
    stored = load_checkpoint(path)
    model = ABCBoostClassifier(**current_params(stored.model_header["params"]))
    X, y = training_data(3)
    monkeypatch.setattr("abc_plugins.__version__", "0.2.0")
    with pytest.raises(ValueError, match=r"the version of abc-plugins was '0\.1\.0' and is now '0\.2\.0'"):
        model.fit(X, y, resume_from=path)
    monkeypatch.setattr("abc_plugins.__version__", "0.1.0")
    with pytest.raises(ValueError, match=r"0\.1\.0\.checkpoint, .* is new: an older version of abc-plugins wrote it"):
        model.fit(X, y, resume_from=path)


def training_data(n_classes: int) -> tuple[Any, Any]:
    """The data that the models were trained on."""
    spec = spec_from_file_location("make", FOLDER / "make.py")
    assert spec is not None
    make = module_from_spec(spec)
    spec.loader.exec_module(make)  # type: ignore[union-attr]
    return make.training_data(n_classes)


@pytest.mark.parametrize("retired", [{"trim": 0.0}, {"trim": 0.1}, {"base_choice": "overdue"}], ids=str)
def test_parameters_that_are_gone_are_dropped(retired: dict[str, Any], tmp_path: Path) -> None:
    header, trees = load(FOLDER / "0.1.0_three_classes.abc")
    save(tmp_path / "model", {**header, "params": {**header["params"], **retired}}, trees)
    model = ABCBoostClassifier.load_model(tmp_path / "model")
    expected = EXPECTED["0.1.0", "three_classes"]
    np.testing.assert_allclose(model.predict_proba(np.array(ROWS)), expected["probabilities"], rtol=1e-12)
    assert "trim" not in model.get_params()
    assert model.base_choice == ("drawn" if "base_choice" in retired else header["params"].get("base_choice", "drawn"))
