"""Checkpoints: a training that goes on from one ends as if it had never stopped."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from checkpoints import PAPER, VARIANTS, assert_identical, change_header, interrupted, model

from abc_plugins import ABCBoostClassifier, ModelFormatError
from abc_plugins.callbacks import Callback, checkpoint, early_stopping, record_evaluation
from abc_plugins.cli import main
from abc_plugins.core.model import checkpoint as checkpoint_file


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
