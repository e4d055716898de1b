"""Checkpoints: a training that goes on from one ends as if it had never stopped, and from a wrong one it does not."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier, ModelFormatError
from abc_plugins.callbacks import Callback, checkpoint, early_stopping, record_evaluation
from abc_plugins.cli import main
from abc_plugins.core.model import checkpoint as checkpoint_file
from abc_plugins.core.settings import Settings

OPTIONS = {
    "n_estimators": 12,
    "num_leaves": 5,
    "max_depth": 2,
    "min_samples_leaf": 3,
    "search": 2,
    "gap": 1,
    "warmup": 2,
    "n_jobs": 1,
    "random_state": 3,
}
PAPER = {"method": "abcrobustlogit", "leaf_values": "paper"}
VARIANTS = {
    "directional": {},
    "best-first": {"tree_shape": "best-first", "trees_per_round": 3},
    "kept directions": {"gap": 3, "warmup": 0},
    "long steps": {"learning_rate": 5.0},
    "sampling": {"subsample": 0.6, "colsample": 0.5},
    "unguarded": {"guard": False, "learning_rate": 1.0},
    "early stopping": {"early_stopping_rounds": 5, "n_estimators": 60, "learning_rate": 0.7},
    "threads": {"n_jobs": 3},
    "paper": PAPER,
    "paper, sequential": {**PAPER, "leaf_values": "sequential"},
    "paper, worst class": {**PAPER, "base_choice": "worst", "search": 1, "gap": 0, "warmup": 0},
    "paper, drawn": {**PAPER, "base_choice": "drawn", "search": 1, "gap": 0},
    "paper, classic": {**PAPER, "method": "mart"},
    "paper, sampling": {**PAPER, "subsample": 0.6, "colsample": 0.5},
    "paper, unguarded": {**PAPER, "guard": False, "learning_rate": 1.0},
    "paper, early stopping": {**PAPER, "early_stopping_rounds": 5, "n_estimators": 60, "learning_rate": 0.5},
    "paper, threads": {**PAPER, "n_jobs": 3},
}


class Killed(Exception):
    pass


class KillAfter(Callback):
    """Ends the training as abruptly as an error can, after the checkpoint of that round was written."""

    order = 99

    def __init__(self, n_rounds: int) -> None:
        self.n_rounds = n_rounds

    def after_round(self, context):
        if context.round_index + 1 == self.n_rounds:
            raise Killed


def model(**changes) -> ABCBoostClassifier:
    return ABCBoostClassifier(**{**OPTIONS, **changes})


def interrupted(path: Path, data, n_rounds: int, *, every_rounds: int = 1, callbacks=(), options=None, **fit) -> None:
    with pytest.raises(Killed):
        model(**(options or {})).fit(
            data.X,
            data.y,
            data.weights,
            callbacks=[checkpoint(path, every_rounds=every_rounds), *callbacks, KillAfter(n_rounds)],
            **fit,
        )


def assert_identical(one: ABCBoostClassifier, other: ABCBoostClassifier) -> None:
    mine, yours = one.model_.flat(), other.model_.flat()
    for name in mine.__dataclass_fields__:
        assert getattr(mine, name).tobytes() == getattr(yours, name).tobytes(), name
    assert one.base_classes_.tolist() == other.base_classes_.tolist()
    assert one.train_loss_.tolist() == other.train_loss_.tolist()
    for name in ("evals_result_", "best_iteration_", "trees_grown_", "guarded_rounds_"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.fixture
def data(make_data):
    return make_data(n_classes=4, n_samples=80, weights="real", missing=0.1)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n_rounds", [1, 2, 7])
def test_a_resumed_training_is_the_uninterrupted_one(data, tmp_path, variant, n_rounds):
    options, path = VARIANTS[variant], tmp_path / "run.checkpoint"
    interrupted(path, data, n_rounds, options=options)
    resumed = model(**options).fit(data.X, data.y, data.weights, resume_from=path)
    assert_identical(resumed, model(**options).fit(data.X, data.y, data.weights))


def test_a_training_resumed_between_two_probes(data, tmp_path):
    """What the first one told decides the draws that follow it."""
    data = replace(data, y=np.random.default_rng(0).permutation(data.y))
    path, options = tmp_path / "run.checkpoint", {**PAPER, "search": 1, "gap": 0, "warmup": 0, "n_estimators": 40}
    interrupted(path, data, 15, options=options)
    resumed = model(**options).fit(data.X, data.y, data.weights, resume_from=path)
    assert_identical(resumed, model(**options).fit(data.X, data.y, data.weights))
    change_header(path, probes=np.ones((1, 2)))
    other = model(**options).fit(data.X, data.y, data.weights, resume_from=path)
    assert other.base_classes_.tolist() != resumed.base_classes_.tolist()


def test_without_a_seed_the_checkpoint_keeps_the_one_it_drew(data, tmp_path):
    """The straight run and the resumed one share the checkpoint of their second round."""
    options, path = {"random_state": None, "subsample": 0.5}, tmp_path / "run"

    class SaveOnce(Callback):
        def after_round(self, context):
            if context.round_index == 1:
                context.save_checkpoint(path)

    straight = model(**options).fit(data.X, data.y, callbacks=[SaveOnce()])
    assert_identical(straight, model(**options).fit(data.X, data.y, resume_from=path))


def test_resuming_twice_with_other_threads_and_more_rounds(data, tmp_path):
    path = tmp_path / "run"
    interrupted(path, data, 3, options={"n_estimators": 4})
    interrupted(path, data, 7, options={"n_jobs": 2, "verbose": 0}, resume_from=path)
    resumed = model(n_estimators=15).fit(data.X, data.y, data.weights, resume_from=str(path))
    assert_identical(resumed, model(n_estimators=15).fit(data.X, data.y, data.weights))


def test_evaluation_sets_metrics_and_recorded_values(data, tmp_path):
    def accuracy(y_true, y_proba):
        return "accuracy", float((y_proba.argmax(axis=1) == y_true).mean()), True

    eval_set = [(data.X_test, np.arange(len(data.X_test)) % 4), (data.X, data.y, data.weights)]
    options = {"eval_metric": ["logloss", "error", accuracy], "learning_rate": 0.9, "n_estimators": 40}

    def fit(resume_from=None):
        recorded = {}
        watchers = [record_evaluation(recorded), early_stopping(4, min_delta=1e-3)]
        fitted = model(**options).fit(
            data.X, data.y, data.weights, eval_set, callbacks=watchers, resume_from=resume_from
        )
        return fitted, recorded

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the function cannot be stored with the model
        interrupted(tmp_path / "run", data, 3, callbacks=[early_stopping(4)], options=options, eval_set=eval_set)
    straight, recorded = fit()
    resumed, recorded_again = fit(tmp_path / "run")
    assert straight.best_iteration_ < len(straight.base_classes_) < 40  # it did stop early
    assert_identical(resumed, straight)
    assert recorded_again == recorded == straight.evals_result_


@pytest.mark.parametrize("state", [[["valid_0", "logloss", 1.0, 4]], [["valid_0", "logloss", 1.0, 0]], [[1]], 3])
def test_a_state_of_early_stopping_that_cannot_be_right(data, tmp_path, state):
    path, options = tmp_path / "run", {"early_stopping_rounds": 5}
    interrupted(path, data, 3, options=options)
    change_header(path, callbacks=[["EarlyStopping", state]])
    with pytest.raises(ModelFormatError, match="run is not a valid checkpoint: the state of EarlyStopping is wrong"):
        model(**options).fit(data.X, data.y, data.weights, resume_from=path)


@pytest.mark.parametrize("n_estimators", [None, 60])
def test_a_checkpoint_of_the_very_round_that_stops(data, tmp_path, n_estimators):
    """Also if that was the last one of a shorter training, in which nothing had to be stopped."""
    options = VARIANTS["early stopping"] | {"refit": False}
    straight = model(**options).fit(data.X, data.y)
    last = len(straight.base_classes_)
    assert last < 60
    first = options | {"n_estimators": n_estimators or last}
    finished = model(**first).fit(data.X, data.y, callbacks=[checkpoint(tmp_path / "run", every_rounds=1)])
    assert len(finished.base_classes_) == last
    assert_identical(model(**options).fit(data.X, data.y, resume_from=tmp_path / "run"), straight)


def test_a_finished_training_is_resumed_to_itself(data, tmp_path):
    path = tmp_path / "run"
    finished = model().fit(data.X, data.y, callbacks=[checkpoint(path, every_rounds=100)])
    assert_identical(model().fit(data.X, data.y, resume_from=path), finished)
    assert_identical(ABCBoostClassifier.load_model(path), finished)


def test_the_model_of_a_checkpoint_can_be_used(data, tmp_path):
    interrupted(tmp_path / "run", data, 7, every_rounds=5)
    loaded = ABCBoostClassifier.load_model(tmp_path / "run")
    assert_identical(loaded, model(n_estimators=5).fit(data.X, data.y, data.weights))
    assert loaded.n_estimators == 12


class Counter(Callback):
    """A callback of the user's with a state of its own."""

    def __init__(self):
        self.losses = []

    def after_round(self, context):
        self.losses.append(context.train_loss)

    def get_state(self):
        return self.losses

    def set_state(self, state, context):
        assert len(state) == context.round_index + 1
        self.losses = list(state)


def test_callbacks_of_the_user_keep_their_state(data, tmp_path):
    interrupted(tmp_path / "run", data, 5, callbacks=[Counter()])
    counter = Counter()
    fitted = model().fit(data.X, data.y, data.weights, callbacks=[counter], resume_from=tmp_path / "run")
    assert counter.losses == fitted.train_loss_.tolist()
    with pytest.raises(ValueError, match=r"callbacks must be those of .* which had \['Counter'\].*got \[\]"):
        model().fit(data.X, data.y, data.weights, resume_from=tmp_path / "run")


def test_every_so_many_rounds_or_seconds(data, tmp_path, monkeypatch):
    written = []

    def fit(**when):
        written.clear()
        saved = checkpoint_file.save_checkpoint
        monkeypatch.setattr(
            "abc_plugins.training.resuming.save_checkpoint",
            lambda path, state: (written.append(len(state.model_header["base_classes"])), saved(path, state)),
        )
        model().fit(data.X, data.y, callbacks=[checkpoint(tmp_path / "run", **when)])
        return list(written)

    assert fit(every_rounds=5) == [5, 10, 12]
    assert fit() == [10, 12]
    assert fit(every_seconds=0) == list(range(1, 13))
    assert fit(every_seconds=1e9) == [12]
    assert fit(every_rounds=7, every_seconds=1e9) == [7, 12]


def test_the_command_line_goes_on_where_it_was_killed(data, tmp_path):
    rows = [",".join([*map(repr, row), f"c{label}"]) for row, label in zip(data.X.tolist(), data.y, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,c,d,y", *rows]))
    arguments = ["fit", str(tmp_path / "data.csv"), "--target", "y", "--quiet", "--n-estimators", "8", "--search", "1"]
    arguments += ["--subsample", "0.5", "--random-state", "1", "--checkpoint", str(tmp_path / "run")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ABCBoostClassifier, "save_model", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        assert main([*arguments, "--out", str(tmp_path / "model")]) == 1
    assert len(ABCBoostClassifier.load_model(tmp_path / "run").base_classes_) == 8
    assert main([*arguments, "--out", str(tmp_path / "model"), "--gap", "3"]) == 1  # another training
    assert main([*arguments, "--out", str(tmp_path / "model")]) == 0
    assert not (tmp_path / "run").exists()
    assert main([*arguments, "--out", str(tmp_path / "straight")]) == 0
    assert (tmp_path / "model").read_bytes() == (tmp_path / "straight").read_bytes()


# ---------------------------------------------------------------------------------------------- refused


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


def change_header(path: Path, **changes) -> None:
    stored = checkpoint_file.load_checkpoint(path)
    arrays = {name: changes.pop(name, array) for name, array in stored.arrays.items()}
    model_header = {**stored.model_header, **changes.pop("model_header", {})}
    checkpoint_file.save_checkpoint(
        path, checkpoint_file.Checkpoint({**stored.header, **changes}, model_header, stored.trees, arrays)
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
        ({"kept_directions": np.zeros((2, 4))}, r"kept_directions must be finite numbers of shape \(1, 4\)"),
        ({"kept_directions": np.full((1, 4), math.inf)}, r"kept_directions must be finite numbers of shape \(1, 4\)"),
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
