"""Trainings that end otherwise than expected: metrics that are NaN, Ctrl-C, callbacks that stop them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier, plot, summary
from abc_plugins.callbacks import Callback, checkpoint, early_stopping

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = np.clip((X[:, 0] + RNG.normal(size=300)).round() + 1, 0, 2).astype(int)
OPTIONS = {"n_estimators": 60, "early_stopping_rounds": 4, "learning_rate": 0.5, "max_depth": 2, "n_jobs": 1,
           "random_state": 0}  # fmt: skip


def model(**changes):
    return ABCBoostClassifier(**{**OPTIONS, **changes})


class At(Callback):
    """Does something in one of the two trainings of a fit, before or after a round."""

    def __init__(self, n_rounds, act, *, is_refit=False, before=False, order=0):
        self.n_rounds, self.act, self.is_refit, self.before, self.order = n_rounds, act, is_refit, before, order

    def before_round(self, context):
        return self._act(context, context.round_index) if self.before else None

    def after_round(self, context):
        return None if self.before else self._act(context, context.round_index + 1)

    def _act(self, context, n_rounds):
        return self.act(context) if (n_rounds, context.is_refit) == (self.n_rounds, self.is_refit) else None


def interrupt(_):
    raise KeyboardInterrupt


def time_is_up(context):
    context.stopped_because = "time is up"
    return True


# ------------------------------------------------------------------------------------------------ NaN


def test_an_area_without_two_classes_is_refused_after_the_first_round():
    seen = []
    sets = {"eval_set": [(X[:50], np.zeros(50, int))], "callbacks": [lambda context: seen.append(context.round_index)]}
    with pytest.raises(ValueError, match=r"needs a metric that is a number: valid_0 auc is NaN\. Give another eval_m"):
        model(eval_metric="auc").fit(X, Y > 0, **sets)
    assert seen == [0]
    fitted = model(eval_metric="auc", early_stopping_rounds=None).fit(X, Y > 0, **sets)  # no more than a metric
    assert np.isnan(fitted.evals_result_["valid_0"]["auc"]).all()


def test_held_out_rows_of_one_class_are_refused_by_their_name():
    y = np.zeros(300, int)
    y[7] = 1
    with pytest.raises(ValueError, match="validation auc is NaN"):
        model(eval_metric="auc").fit(X, y)


@pytest.mark.parametrize("n_estimators", [60, 3])
def test_a_metric_that_never_is_a_number_is_refused(n_estimators):
    def mine(y_true, y_proba):  # noqa: ARG001
        return "mine", np.nan, False

    with (
        pytest.warns(UserWarning, match="valid_0 mine is NaN, and will not stop the training unless that changes"),
        pytest.raises(ValueError, match="needs a metric that is a number: valid_0 mine is NaN"),
    ):
        model(eval_metric=mine, n_estimators=n_estimators).fit(X, Y, eval_set=[(X, Y)])


def test_a_metric_that_is_not_a_number_does_not_stop_the_others():
    sets = [(X[:50], np.zeros(50, int)), (X[100:], Y[100:] > 0)]
    plain = model(eval_metric="auc").fit(X[:100], Y[:100] > 0, eval_set=sets[1:])
    with pytest.warns(UserWarning, match="valid_0 auc is NaN") as caught:
        fitted = model(eval_metric="auc").fit(X[:100], Y[:100] > 0, eval_set=sets)
    assert caught[0].filename == __file__
    assert fitted.n_iter_ == plain.n_iter_
    assert fitted.best_iteration_ == plain.best_iteration_
    assert fitted.stopped_because_.startswith("valid_1 auc was best")


def test_a_metric_may_become_a_number():
    def late(y_true, y_proba):  # noqa: ARG001
        calls.append(1)
        return "late", np.nan if len(calls) < 3 else 1.0, False

    calls = []
    with pytest.warns(UserWarning, match="valid_0 late is NaN"):
        fitted = model(eval_metric=late).fit(X, Y, eval_set=[(X, Y)])
    assert (fitted.best_iteration_, fitted.n_iter_) == (3, 7)


def test_sets_called_training_do_not_count():
    with pytest.raises(ValueError, match='besides the training data; a set called "training" does not count'):
        model().fit(X, Y, eval_set=[(X, Y)], eval_names=["training"])


# ------------------------------------------------------------------------------------------------ who ended it


@pytest.mark.parametrize("n_rounds", [0, 2])
def test_an_interrupted_refit_leaves_the_first_model(n_rounds):
    first = model(refit=False).fit(X, Y)
    hooks = [At(n_rounds, interrupt, is_refit=True, before=True)]
    fitted = model(on_interrupt="keep").fit(X, Y, callbacks=hooks)
    np.testing.assert_array_equal(fitted.predict_proba(X), first.predict_proba(X))
    assert fitted.stopped_because_ == (
        f"{first.stopped_because_}; the refit on all rows was cut short: it was interrupted"
    )
    with pytest.raises(KeyboardInterrupt):
        model().fit(X, Y, callbacks=hooks)


def test_a_refit_that_was_resumed_and_stopped_says_so(tmp_path):
    hooks = [checkpoint(tmp_path / "run", every_rounds=1)]
    with pytest.raises(KeyboardInterrupt):
        model().fit(X, Y, callbacks=[*hooks, At(1, interrupt, is_refit=True, order=99)])
    fitted = model().fit(X, Y, callbacks=[At(2, time_is_up, is_refit=True)], resume_from=tmp_path / "run")
    assert fitted.n_iter_ == fitted.best_iteration_ == 2
    assert fitted.stopped_because_.endswith("; the refit on all rows was cut short after 2 rounds: time is up")


@pytest.mark.parametrize("before", [False, True])
def test_a_callback_that_says_why_it_stops_ends_the_fit(before):
    fitted = model().fit(X, Y, callbacks=[At(2, time_is_up, before=before)])
    assert (fitted.n_iter_, fitted.stopped_because_) == (2, "time is up")


def test_early_stopping_given_as_a_callback_leads_to_a_refit():
    fitted = model(early_stopping_rounds=50).fit(X, Y, callbacks=[early_stopping(4)])
    assert fitted.stopped_because_ == model().fit(X, Y).stopped_because_
    assert "refitted on all rows" in fitted.stopped_because_


# ------------------------------------------------------------------------------------------------ after a warm start


def warm(**changes):
    first = model(n_estimators=6, early_stopping_rounds=None, warm_start=True).fit(X[:200], Y[:200])
    return first.set_params(**{**OPTIONS, **changes})


def test_metrics_after_an_interrupted_warm_start_have_the_same_length():
    def slow(y_true, y_proba):  # noqa: ARG001
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return "slow", 0.0, False

    calls = []
    fitted = warm(on_interrupt="keep", eval_metric=["logloss", slow]).fit(X[:200], Y[:200], eval_set=[(X, Y)])
    assert {len(values) for values in fitted.evals_result_["valid_0"].values()} == {2}
    assert (fitted.n_iter_, fitted.rounds_before_) == (8, 6)


@pytest.mark.parametrize("refits", [False, True])
def test_summaries_and_plots_count_the_rounds_before(tmp_path, refits):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    started = warm()
    fitted = started.fit(X, Y) if refits else started.fit(X[:200], Y[:200], eval_set=[(X[200:], Y[200:])])
    (name,) = fitted.evals_result_
    losses = fitted.evals_result_[name]["logloss"]
    best = int(np.argmin(losses)) + 1
    fitted.save_model(tmp_path / "model")
    loaded = ABCBoostClassifier.load_model(tmp_path / "model")
    assert loaded.rounds_before_ == fitted.rounds_before_ == 6
    text = summary.as_text(summary.summarise(loaded, tmp_path / "model"), 3)
    assert f"logloss {min(losses):.6g} after round {6 + best}\n" in text
    curve = plot.learning_curves(loaded).get_lines()[0]
    assert curve.get_xdata().tolist() == list(range(7, 7 + len(losses)))


@pytest.mark.parametrize("how", ["warm_start", "init_model"])
def test_rows_held_out_of_a_training_that_goes_on_are_warned_of(how):
    def go_on(**given):
        started = warm()
        if how == "init_model":
            return model().fit(X, Y, init_model=started, **given)
        return started.fit(X, Y, **given)

    message = r"A share of 0\.1 of the rows is held out .* may have been trained on them.* Give an eval_set of rows"
    with pytest.warns(UserWarning, match=message) as caught:
        go_on()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        go_on(eval_set=[(X, Y)])
        model().fit(X, Y)


# ------------------------------------------------------------------------------------------------ checkpoints


@pytest.mark.parametrize("stop", ["early stopping", "after", "before"])
def test_the_last_round_is_in_the_checkpoint(tmp_path, stop):
    hooks = [checkpoint(tmp_path / "run", every_rounds=1000)]
    if stop != "early stopping":
        hooks.append(At(5, lambda _: True, before=stop == "before", order=99))
    fitted = model(refit=False).fit(X, Y, callbacks=hooks)
    stored = ABCBoostClassifier.load_model(tmp_path / "run")
    assert stored.n_iter_ == fitted.n_iter_ == (fitted.best_iteration_ + 4 if stop == "early stopping" else 5)
    assert stored.stopped_because_ == fitted.stopped_because_
    straight = model(refit=False).fit(X, Y)
    resumed = model(refit=False).fit(X, Y, callbacks=hooks[:1], resume_from=tmp_path / "run")
    np.testing.assert_array_equal(resumed.predict_proba(X), straight.predict_proba(X))
    assert resumed.evals_result_ == straight.evals_result_


@pytest.mark.parametrize("keep", [False, True])
def test_a_round_that_was_not_finished_is_in_no_checkpoint(tmp_path, keep):
    hooks = [checkpoint(tmp_path / "run", every_rounds=3), At(5, interrupt, order=99)]
    if keep:
        assert model(on_interrupt="keep").fit(X, Y, callbacks=hooks).n_iter_ == 5
    else:
        with pytest.raises(KeyboardInterrupt):
            model().fit(X, Y, callbacks=hooks)
    assert ABCBoostClassifier.load_model(tmp_path / "run").n_iter_ == 3


# ------------------------------------------------------------------------------------------------ what is told


@pytest.mark.parametrize("n_rounds", [0, 2])
def test_an_interrupted_refit_is_told_with_the_model_that_is_kept(n_rounds, caplog):
    hooks = [At(n_rounds, interrupt, is_refit=True, before=True)]
    fitted = model(on_interrupt="keep").fit(X, Y, callbacks=hooks)
    assert [record.message for record in caplog.records] == [
        "The refit on all rows was interrupted: the model is that of the training before, whose best round was "
        f"{fitted.best_iteration_}."
    ]


def test_an_interrupted_refit_that_was_resumed_tells_its_own_rounds(tmp_path, caplog):
    hooks = [checkpoint(tmp_path / "run", every_rounds=1)]
    with pytest.raises(KeyboardInterrupt):
        model().fit(X, Y, callbacks=[*hooks, At(1, interrupt, is_refit=True, order=99)])
    stop = [At(2, interrupt, is_refit=True)]
    fitted = model(on_interrupt="keep").fit(X, Y, callbacks=stop, resume_from=tmp_path / "run")
    assert f"the model has the {fitted.n_iter_} rounds done so far" in caplog.text


def test_early_stopping_that_did_not_come_to_it_is_told(capsys):
    options = {"n_estimators": 5, "early_stopping_rounds": 50, "learning_rate": 0.01}
    fitted = model(**options, refit=False, verbose=5).fit(X, Y)
    expected = "all rounds, 5, were done before early stopping ended it (best was round 5)"
    assert fitted.stopped_because_ == expected
    assert capsys.readouterr().out.rstrip().endswith(f"{expected}.")
    assert model(n_estimators=5, early_stopping_rounds=None).fit(X, Y).stopped_because_ == "all rounds, 5, were done"


def test_mean_losses_of_a_summary_are_those_of_the_fit(tmp_path):
    (tmp_path / "model").touch()
    weights = np.linspace(0.1, 3.0, 300)
    options = {"n_estimators": 2, "early_stopping_rounds": None}
    seen = []
    hooks = [lambda context: seen.append(context.train_loss / context.total_weight)]
    first = model(**options).fit(X, Y, weights, callbacks=hooks)
    more = model(**options).fit(X[:99], Y[:99], init_model=first, callbacks=hooks)
    described = summary.summarise(more, tmp_path / "model")
    assert described["mean_train_loss"] == pytest.approx(seen)
    assert f"mean logloss {seen[-1]:.6g} after round 4" in summary.as_text(described, 3)
    described["mean_train_loss"] = None
    assert "total logloss" in summary.as_text(described, 3)
