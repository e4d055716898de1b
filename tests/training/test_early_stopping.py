"""Early stopping by default, and the second training on all rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import Callback, checkpoint, record_evaluation
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.boosters import settle
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import Settings
from abc_plugins.training.stopping import ENOUGH_ROWS, Stopping, choose_stopping

OPTIONS = {"early_stopping_rounds": 4, "n_estimators": 60, "learning_rate": 0.5, "num_leaves": 4, "max_depth": 2,
           "n_jobs": 1, "random_state": 0}  # fmt: skip


def model(**changes):
    return ABCBoostClassifier(**{**OPTIONS, **changes})


@pytest.fixture
def data(make_data):
    return make_data(3, 150, weights="integer")


def assert_same_trees(one, other):
    mine, yours = one.model_.flat(), other.model_.flat()
    for name in mine.__dataclass_fields__:
        assert getattr(mine, name).tobytes() == getattr(yours, name).tobytes(), name


@pytest.mark.parametrize(
    ("parameters", "n_samples", "has_eval_sets", "expected"),
    [
        ({}, ENOUGH_ROWS, False, Stopping(100, 0.1, True)),
        ({}, ENOUGH_ROWS - 1, False, Stopping()),
        ({}, 10, True, Stopping(100)),
        ({"n_estimators": 50}, 10**6, False, Stopping()),
        ({"n_estimators": 50}, 10**6, True, Stopping()),
        ({"n_estimators": 50, "early_stopping": True}, 10, False, Stopping(100, 0.1, True)),
        ({"early_stopping": False}, 10**6, True, Stopping()),
        ({"n_estimators": 50, "early_stopping_rounds": 7}, 10, False, Stopping(7, 0.1, True)),
        ({"n_estimators": 50, "early_stopping_rounds": 7}, 10, True, Stopping(7)),
        ({"refit": False}, ENOUGH_ROWS, False, Stopping(100, 0.1, False)),
    ],
    ids=str,
)
def test_when_a_training_stops_early(parameters, n_samples, has_eval_sets, expected):
    given = {"early_stopping": "auto", "early_stopping_rounds": None, "n_estimators": None, "validation_fraction": 0.1,
             "refit": True, **parameters}  # fmt: skip
    assert choose_stopping(**given, n_samples=n_samples, has_eval_sets=has_eval_sets) == expected


def test_a_fit_without_arguments_stops_early(make_data):
    data = make_data(3, 400)
    fitted = ABCBoostClassifier(n_jobs=1, random_state=0).fit(data.X, data.y)
    losses = fitted.evals_result_["validation"]["logloss"]
    best = int(np.argmin(losses)) + 1
    assert len(losses) == best + 100  # patience
    assert fitted.n_iter_ == fitted.best_iteration_ == fitted.model_.n_rounds == best
    assert list(fitted.best_score_) == ["validation"]
    assert list(fitted.best_score_["validation"]) == ["logloss", "error"]
    assert fitted.best_score_["validation"]["logloss"] == min(losses)
    assert fitted.stopped_because_ == (
        f"validation logloss was best, {min(losses):.6g}, after round {best}, and did not improve for 100 more; "
        f"refitted on all rows for {best} rounds"
    )
    assert next(fitted.model_.trees()).weight[0] == 400


@pytest.mark.parametrize("begun", ["", "init_score", "init_model", "both"])
def test_held_out_rows_have_a_log_loss_and_an_error(data, begun):
    given = {"init_score": np.random.default_rng(0).normal(size=(150, 3))} if begun in ("init_score", "both") else {}
    if begun in ("init_model", "both"):
        given["init_model"] = model().fit(data.X, data.y)
    one, all_of_them = (
        model(refit=False, n_estimators=20, early_stopping_rounds=20, eval_metric=metrics).fit(
            data.X, data.y, data.weights, **given
        )
        for metrics in ("brier", ["brier", "error", "logloss"])
    )
    found, rounds = one.best_score_["validation"], all_of_them.evals_result_["validation"]
    assert set(found) == {"logloss", "error", "brier"}
    best = int(np.argmin(rounds["brier"]))
    assert found["brier"] == rounds["brier"][best]
    assert found["logloss"] == pytest.approx(rounds["logloss"][best], rel=1e-9)
    assert found["error"] == rounds["error"][best]


def test_few_rows_are_all_trained_on():
    X, y = load_iris(return_X_y=True)
    fitted = ABCBoostClassifier(n_jobs=1, random_state=0).fit(X, y)
    assert (fitted.n_iter_, fitted.evals_result_, fitted.best_score_) == (300, {}, {})
    assert fitted.stopped_because_ == "all rounds, 300, were done"


def test_a_refit_is_a_fit_on_all_rows_for_the_best_number_of_rounds(data):
    stopped = model(refit=False).fit(data.X, data.y, data.weights)
    assert stopped.n_iter_ == stopped.best_iteration_ + 4 < 60
    refitted = model().fit(data.X, data.y, data.weights)
    plain = model(early_stopping_rounds=None, n_estimators=stopped.best_iteration_)
    assert_same_trees(refitted, plain.fit(data.X, data.y, data.weights))
    assert refitted.evals_result_ == stopped.evals_result_
    assert refitted.best_score_ == stopped.best_score_
    assert (
        refitted.evals_result_["validation"]["logloss"][refitted.n_iter_ - 1]
        == stopped.best_score_["validation"]["logloss"]
    )


def test_categories_of_a_refit_are_those_of_all_rows(data):
    X = np.column_stack([data.X.astype(object), [f"level {i}" for i in range(150)]])  # every level but once
    stopped, refitted = (model(refit=refit).fit(X, data.y) for refit in (False, True))
    assert (len(stopped.categories_[4]), len(refitted.categories_[4])) == (135, 150)


def test_both_trainings_grow_the_same_kind_of_trees():
    """One row more than where rounds begin to have several trees: the validation part must not change that."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(7500, 2)), np.arange(7500) % 12
    with Workers(1) as workers:
        most = make_training_data(X, y.astype(np.int32), np.ones(7500), 12, 64, workers)
    chosen = settle(most, Settings(), n_samples=8300)
    assert (chosen.trees_per_round, chosen.max_depth) == (3, 7)
    assert settle(most, Settings()).trees_per_round == 1


class StopIn(Callback):
    """Stops one of the two trainings after its third round, by an answer or by Ctrl-C."""

    def __init__(self, is_refit, *, interrupts):
        self.is_refit, self.interrupts = is_refit, interrupts

    def after_round(self, context):
        if context.is_refit == self.is_refit and context.round_index == 2:
            if self.interrupts:
                raise KeyboardInterrupt
            return True
        return None


@pytest.mark.parametrize("interrupts", [False, True])
def test_a_stop_of_the_first_training_is_the_end(data, interrupts):
    fitted = model(on_interrupt="keep").fit(data.X, data.y, callbacks=[StopIn(False, interrupts=interrupts)])
    assert fitted.n_iter_ == len(fitted.evals_result_["validation"]["logloss"]) == 3
    assert fitted.stopped_because_ == ("it was interrupted" if interrupts else "a callback stopped it")


@pytest.mark.parametrize("interrupts", [False, True])
def test_a_stop_of_the_second_training_leaves_the_first_model(data, interrupts):
    stopped = model(refit=False).fit(data.X, data.y)
    fitted = model(on_interrupt="keep").fit(data.X, data.y, callbacks=[StopIn(True, interrupts=interrupts)])
    assert stopped.best_iteration_ > 3
    assert_same_trees(fitted, stopped)
    assert fitted.best_iteration_ == stopped.best_iteration_


def test_recorded_metrics_are_those_of_the_first_training(data):
    recorded = {}
    fitted = model().fit(data.X, data.y, callbacks=[record_evaluation(recorded)])
    assert recorded == fitted.evals_result_ != {}


@pytest.mark.parametrize("killed_in_refit", [False, True])
def test_a_resumed_fit_is_the_uninterrupted_one(data, tmp_path, killed_in_refit):
    straight = model().fit(data.X, data.y, data.weights)
    assert straight.n_iter_ > 3
    stop = StopIn(killed_in_refit, interrupts=True)
    with pytest.raises(KeyboardInterrupt):
        model().fit(data.X, data.y, data.weights, callbacks=[checkpoint(tmp_path / "run", every_rounds=1), stop])
    resumed = model().fit(data.X, data.y, data.weights, resume_from=tmp_path / "run")
    assert_same_trees(resumed, straight)
    for name in ("evals_result_", "best_iteration_", "best_score_", "stopped_because_", "n_iter_"):
        assert getattr(resumed, name) == getattr(straight, name), name


def test_why_it_stopped_is_saved(data, tmp_path):
    fitted = model().fit(data.X, data.y)
    fitted.save_model(tmp_path / "model")
    loaded = ABCBoostClassifier.load_model(tmp_path / "model")
    for name in ("best_score_", "stopped_because_", "n_iter_"):
        assert getattr(loaded, name) == getattr(fitted, name) != {}, name


@pytest.mark.parametrize("stops", [np.True_, np.False_])
def test_truth_values_of_numpy_are_truth_values(data, stops, tmp_path):
    options = {"early_stopping_rounds": None}
    fitted = model(early_stopping=stops, verbose=np.False_, **options).fit(data.X, data.y)
    plain = model(early_stopping=bool(stops), verbose=False, **options).fit(data.X, data.y)
    assert_same_trees(fitted, plain)
    assert fitted.stopped_because_ == plain.stopped_because_
    fitted.save_model(tmp_path / "model")
    assert bool(ABCBoostClassifier.load_model(tmp_path / "model").early_stopping) == bool(stops)
    with pytest.raises(ValueError, match="early_stopping_rounds must be None with early_stopping=False"):
        model(early_stopping=np.False_).fit(data.X, data.y)
