"""Checkpoints of another training, damaged ones, and a full disk."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from checkpoints import PAPER, assert_identical, change_header, interrupted, model

from abc_plugins import ModelFormatError
from abc_plugins.callbacks import checkpoint
from abc_plugins.core.settings import Settings

# ---------------------------------------------------------------------------------------------- refused


@pytest.fixture
def data(make_data):
    return make_data(n_classes=4, n_samples=80, weights="real", missing=0.1)


@pytest.fixture
def path(data, tmp_path):
    interrupted(tmp_path / "run", data, 3, eval_set=[(data.X_test, np.arange(len(data.X_test)) % 4)])
    return tmp_path / "run"


def resume(path, data, X=None, y=None, weights=None, eval_set=None, **options):
    eval_set = [(data.X_test, np.arange(len(data.X_test)) % 4)] if eval_set is None else eval_set
    weights = data.weights if weights is None else weights
    return model(**options).fit(
        data.X if X is None else X, data.y if y is None else y, weights, eval_set, resume_from=path
    )


OTHER = {
    "X": (lambda data: {"X": np.where(np.arange(data.X.size).reshape(data.X.shape) == 5, 9.0, data.X)}, "X is not the"),
    "y": (lambda data: {"y": np.roll(data.y, 1)}, "y is not the same"),
    "labels": (lambda data: {"y": data.y + 1, "eval_set": []}, "y is not the same"),
    "rows": (lambda data: {"X": data.X[1:], "y": data.y[1:], "weights": data.weights[1:]}, "X is not the same"),
    "weights": (lambda data: {"weights": data.weights**2}, r"the sample weights \(with class_weight\) is not the"),
    "class_weight": (lambda _: {"class_weight": "balanced"}, r"the sample weights \(with class_weight\) is not the"),
    "no eval_set": (lambda _: {"eval_set": []}, "the names of the evaluation sets was"),
    "eval_set": (lambda data: {"eval_set": [(data.X_test, np.zeros(len(data.X_test), int))]}, r"eval_set\[0\] is not"),
    "learning_rate": (lambda _: {"learning_rate": 0.2}, f"learning_rate was {Settings().learning_rate} and is now 0.2"),
    "method": (lambda _: {"method": "abcmart"}, "method was 'directional' and is now 'abcmart'"),
    "tree_shape": (lambda _: {"tree_shape": "symmetric"}, "tree_shape was 'auto' and is now 'symmetric'"),
    "search": (lambda _: {"search": 3}, "search was 2 and is now 3"),
    "gap": (lambda _: {"gap": 3}, "gap was 1 and is now 3"),
    "random_state": (lambda _: {"random_state": 4}, r"the seed \(random_state\) was"),
    "early stopping": (lambda _: {"early_stopping_rounds": 5}, "early_stopping_rounds was None and is now 5"),
    "eval_metric": (lambda _: {"eval_metric": "error"}, "eval_metric was 'logloss' and is now 'error'"),
}


@pytest.mark.parametrize("what", OTHER)
def test_another_training_is_refused(data, path, what):
    change, message = OTHER[what]
    with pytest.raises(ValueError, match=f"resume_from must be a checkpoint of a training with the same.*{message}"):
        resume(path, data, **change(data))


def test_names_versions_and_rounds(data, path, monkeypatch):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(data.X, columns=list("abcd"))
    with pytest.raises(ValueError, match=r"the feature names was None and is now \['a', 'b', 'c', 'd'\]"):
        resume(path, data, X=table, eval_set=[(pd.DataFrame(data.X_test, columns=list("abcd")), data.y[:40])])
    with pytest.raises(ValueError, match=r"n_estimators must be at least the 3 rounds that .* has done; got 2"):
        resume(path, data, n_estimators=2)
    monkeypatch.setattr("abc_plugins.__version__", "99.0")
    with pytest.raises(ValueError, match=r"the version of abc-plugins was '.*' and is now '99\.0'"):
        resume(path, data)


def test_the_layout_of_the_data_does_not_matter(data, path):
    straight = resume(path, data)
    assert_identical(resume(path, data, X=np.asfortranarray(data.X)), straight)


def test_paths_that_are_no_checkpoints(data, path, tmp_path):
    with pytest.raises(TypeError, match="resume_from must be the path of a checkpoint, or None; got 3"):
        resume(3, data)
    with pytest.raises(FileNotFoundError, match="nothing"):
        resume(tmp_path / "nothing", data)
    (tmp_path / "csv").write_text("a,b\n1,2\n" * 9)
    with pytest.raises(ModelFormatError, match="csv is not a valid checkpoint: it is another kind of file"):
        resume(tmp_path / "csv", data)
    model(n_estimators=1).fit(data.X, data.y).save_model(tmp_path / "model")
    with pytest.raises(ModelFormatError, match="model is not a valid checkpoint: it is another kind of file"):
        resume(tmp_path / "model", data)
    whole = path.read_bytes()
    for length in (0, 10, 24, 200, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFormatError, match="is not a valid checkpoint: it"):
            resume(path, data)
    path.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
    with pytest.raises(ModelFormatError, match="it is damaged"):
        resume(path, data)


def test_a_default_that_is_given_is_the_same_training(data, path):
    assert_identical(
        resume(path, data, learning_rate=Settings().learning_rate, start_scores="priors"), resume(path, data)
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": "1"}, "seed is missing, or not what it must be"),
        ({"seed": -1}, "seed is missing, or not what it must be"),
        ({"seconds": None}, "seconds is missing, or not what it must be"),
        ({"best_iteration": 4}, "best_iteration is missing, or not what it must be"),
        ({"callbacks": [1]}, "callbacks must be pairs of a name and a state"),
        ({"probabilities": np.full((79, 4), 0.25)}, r"probabilities must be positive numbers of shape \(80, 4\)"),
        ({"probabilities": np.full((80, 4), math.nan)}, r"probabilities must be positive numbers of shape \(80, 4\)"),
        ({"probabilities": np.zeros((80, 4))}, r"probabilities must be positive numbers of shape \(80, 4\)"),
        ({"probabilities": np.full((80, 4), 0.3)}, "probabilities must not sum to more than 1"),
        ({"kept_directions": np.zeros((2, 4))}, r"kept_directions must be numbers of shape \(1, 4\)"),
        ({"kept_directions": np.full((1, 4), math.inf)}, r"kept_directions must be numbers of shape \(1, 4\)"),
        ({"eval_scores_0": np.zeros((3, 3))}, "the scores of valid_0 are missing or of the wrong shape"),
        ({"model_header": {"evals_result": {"valid_0": {"auc": [1.0] * 3}}}}, "evals_result must have the metrics"),
        ({"model_header": {"kind": "Other"}}, "it holds a 'Other', not a ABCBoostClassifier"),
        (
            {"model_header": {"evals_result": {"valid_0": {"logloss": [1.0]}}}},
            "evals_result must have a value for each of 3 rounds",
        ),
    ],
)
def test_a_state_that_cannot_be_right(data, path, changes, message):
    change_header(path, **changes)
    with pytest.raises(ModelFormatError, match=f"run is not a valid checkpoint: {message}"):
        resume(path, data)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": np.zeros((4, 79))}, r"scores must be finite numbers of shape \(4, 80\)"),
        ({"scores": np.full((4, 80), math.nan)}, r"scores must be finite numbers of shape \(4, 80\)"),
        ({"class_losses": np.zeros(3)}, r"class_losses must be finite numbers of shape \(4,\)"),
        ({"probes": np.zeros((1, 2))}, r"probes must be finite numbers of shape \(0, 2\)"),  # there are 3 rounds
        ({"probes": np.zeros((0, 3))}, r"probes must be finite numbers of shape \(0, 2\)"),
    ],
)
def test_a_state_of_the_papers_methods_that_cannot_be_right(data, tmp_path, changes, message):
    interrupted(tmp_path / "run", data, 3, options=PAPER)
    change_header(tmp_path / "run", **changes)
    with pytest.raises(ModelFormatError, match=f"run is not a valid checkpoint: {message}"):
        model(**PAPER).fit(data.X, data.y, data.weights, resume_from=tmp_path / "run")


def test_wrong_arguments(data, tmp_path):
    for when, message in (
        ({"every_rounds": 0}, "every_rounds must be a whole number of at least 1; got 0"),
        ({"every_seconds": -1}, "every_seconds must be a number at least 0; got -1"),
    ):
        with pytest.raises(ValueError, match=message):
            checkpoint(tmp_path / "run", **when)
    with pytest.raises(TypeError, match="path must be the path of a file; got 3"):
        checkpoint(3)
    fit_with = lambda callback, y=data.y: model().fit(data.X, y, callbacks=[callback])  # noqa: E731
    with pytest.raises(FileNotFoundError, match="The folder does not exist"):
        fit_with(checkpoint(tmp_path / "no" / "run"))
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        fit_with(checkpoint(tmp_path))
    with pytest.raises(TypeError, match=r"a model file cannot hold the label \(0,\)"):
        fit_with(checkpoint(tmp_path / "run"), [(label,) for label in data.y.tolist()])
    assert list(tmp_path.iterdir()) == []


# ----------------------------------------------------------------------------------------------- faults


def test_a_full_disk_does_not_end_the_training(data, tmp_path, monkeypatch):
    straight = model().fit(data.X, data.y, callbacks=[checkpoint(tmp_path / "run", every_rounds=5)])
    before = (tmp_path / "run").read_bytes()

    def no_space(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.warns(UserWarning, match="The checkpoint .*run could not be written: .*No space left"):
        fitted = model().fit(data.X, data.y, callbacks=[checkpoint(tmp_path / "run", every_rounds=4)])
    assert_identical(fitted, straight)
    assert (tmp_path / "run").read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_what_a_killed_process_left_is_removed(data, tmp_path):
    path = tmp_path / "run"
    program = textwrap.dedent(f"""
        import os, signal
        from abc_plugins.core.runtime.atomic import replace_file
        with replace_file({str(path)!r}) as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    (tmp_path / "run2").write_text("of another training")
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    model().fit(data.X, data.y, callbacks=[checkpoint(path)])
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run", "run2"]
