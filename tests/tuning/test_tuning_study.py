"""Studies: honest scores, equal trials for equal seeds, fingerprints, objectives, engines, pruning."""

from __future__ import annotations

import math
import statistics

import numpy as np
import optuna
import pytest
from optuna.distributions import IntDistribution
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import TimeSeriesSplit

from abc_plugins import ABCBoostClassifier
from abc_plugins.tuning.objective import Objective
from abc_plugins.tuning.splits import make_folds
from abc_plugins.tuning.starts import transfer_table
from abc_plugins.tuning.study.storage import open_storage
from tuning import ABCPruningCallback, FoldPruner, StudyMismatchError, TuneResult, tune

FAST = {
    "cv": 3,
    "repeats": 1,
    "validation_fraction": 0.1,
    "max_rounds": 8,
    "early_stopping_rounds": 4,
    "fixed": {"min_samples_leaf": 2},
    "progress": False,
}


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


@pytest.fixture(name="data", scope="module")
def _data():
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(3), 50)
    X = rng.normal(size=(3, 4))[y] + rng.normal(size=(150, 4))
    return X, np.array(["ant", "bee", "cat"])[y]


@pytest.fixture(name="result", scope="module")
def _result(data):
    return tune(*data, n_trials=6, **FAST)


def finished(result: TuneResult) -> list[tuple]:
    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    return [(trial.params, trial.value) for trial in result.study.get_trials(states=states)]


def test_the_defaults_come_first_and_then_settings_of_other_data(result):
    names = [row["name"] for row in transfer_table()["native"]]
    assert [trial["start"] for trial in result.trials] == ["defaults", *names[:5]]
    assert {name for name in result.trials[0] if name.startswith("params_")} == {"params_learning_rate"}
    drawn = result.study.trials[0].params
    assert (drawn["method"], drawn["tree_shape"], drawn["max_depth"]) == ("directional", "symmetric", 6)
    row = transfer_table()["native"][0]["parameters"]
    assert result.study.trials[1].params == {name: row[name] for name in row if name != "min_samples_leaf"}


def test_every_setting_of_the_table_is_a_point_of_the_space(data):
    """With all trials of the table run, none was changed but for what is fixed."""
    result = tune(*data, n_trials=8, refit=False, **{**FAST, "max_rounds": 3, "cv": 2})
    for trial, row in zip(result.study.trials[1:], transfer_table()["native"], strict=True):
        expected = {name: value for name, value in row["parameters"].items() if name != "min_samples_leaf"}
        assert {**trial.params, "gap": trial.params.get("gap_plus_1", 0) - 1} == {
            **{name: value for name, value in expected.items() if name != "gap"},
            "gap": expected.get("gap", -1),
            **({"gap_plus_1": expected["gap"] + 1} if "gap" in expected else {}),
        }


def test_score_is_the_mean_of_the_outer_folds(data, result):
    """The defaults, folds, inner splits and scores once more by hand."""
    X, y = data
    codes = np.unique(y, return_inverse=True)[1]
    scores, rounds = [], []
    for fold in make_folds(3, codes, None, 0.1, 0):
        model = ABCBoostClassifier(
            n_estimators=8, min_samples_leaf=2, early_stopping_rounds=4, n_jobs=1, random_state=0
        )
        model.fit(X[fold.train], y[fold.train], eval_set=[(X[fold.valid], y[fold.valid])])
        scores.append(log_loss(y[fold.test], model.predict_proba(X[fold.test])))
        rounds.append(model.best_iteration_)
    assert result.study.trials[0].value == pytest.approx(np.mean(scores), abs=1e-12)
    assert result.study.trials[0].user_attrs["outcome"]["fold_scores"] == pytest.approx(scores, abs=1e-12)
    assert result.study.trials[0].user_attrs["outcome"]["rounds"] == rounds


def test_refit_uses_all_rows_and_as_many_more_rounds_as_their_square_root(data, result):
    X, y = data
    mean = statistics.fmean(result.best_trial.user_attrs["outcome"]["rounds"])
    assert mean > 4
    assert result.best_params["n_estimators"] == min(round(mean * math.sqrt(150 / 90)), 8)  # 90 of 100 grow trees
    by_hand = ABCBoostClassifier(**result.best_params, n_jobs=2).fit(X, y)
    assert np.array_equal(by_hand.predict_proba(X), result.best_estimator.predict_proba(X))
    assert result.best_estimator.classes_.tolist() == ["ant", "bee", "cat"]


def test_summary(result):
    text = result.summary()
    for part in ("native engine, 6 complete", "found  ", "the defaults", "over 3 folds", "trees grown"):
        assert part in text


def test_the_summary_tells_of_fits_that_were_cut_short(data):
    cut = tune(*data, n_trials=1, refit=False, **{**FAST, "max_rounds": 3})
    assert "3 of 3 fits of the chosen trial ran (nearly) to max_rounds (3)" in cut.summary()
    assert "max_rounds" not in tune(*data, n_trials=1, refit=False, **{**FAST, "max_rounds": 400}).summary()


def test_same_seed_same_trials_and_another_seed_others(data, result):
    again = tune(*data, n_trials=6, refit=False, **FAST)
    other = tune(*data, n_trials=6, refit=False, seed=1, **FAST)
    assert finished(again) == finished(result)
    assert finished(other) != finished(result)
    assert again.best_estimator is None


@pytest.mark.parametrize("name", ["study.db", "study.log"])
def test_only_missing_trials_are_run(data, result, tmp_path, name):
    storage = tmp_path / name
    tune(*data, n_trials=4, storage=storage, refit=False, **FAST)
    seen = []
    longer = tune(
        *data, n_trials=6, storage=storage, refit=False, callbacks=[lambda _, trial: seen.append(trial.number)], **FAST
    )
    assert seen == [4, 5]
    assert finished(longer) == finished(result)  # a study in two sittings is the one in one
    tune(*data, n_trials=6, storage=storage, refit=False, callbacks=[lambda *_: seen.append(None)], **FAST)
    assert seen == [4, 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": 1.0}, "Different: X"),
        ({"cv": 2}, "Different: splits"),
        ({"seed": 3}, "splits"),
        ({"sample_weight": np.full(150, 2.0)}, "Different: sample_weight"),
        ({"space": {"gap": IntDistribution(0, 5)}}, "space of gap"),
        ({"max_rounds": 9}, r"settings of max_rounds \(8 there, 9 here\)"),
        ({"metric": "error"}, "settings of metric"),
    ],
)
def test_a_study_of_something_else_is_not_continued(data, tmp_path, change, message):
    X, y = data
    options = {**FAST, "n_trials": 1, "storage": tmp_path / "s.log", "refit": False}
    tune(X, y, **options)
    X = X + change.pop("X", 0.0)
    with pytest.raises(StudyMismatchError, match=message):
        tune(X, y, **{**options, **change})


def test_another_version_is_refused(data, tmp_path, monkeypatch):
    options = {**FAST, "n_trials": 1, "storage": tmp_path / "s.log", "refit": False}
    tune(*data, **options)
    monkeypatch.setattr("abc_plugins.__version__", "99.0")
    with pytest.raises(StudyMismatchError, match=r"versions of abc-plugins \(.* there, '99.0' here\)"):
        tune(*data, **options)


def test_a_foreign_study_is_refused(data, tmp_path):
    storage = open_storage(tmp_path / "s.log")
    optuna.create_study(storage=storage, study_name="theirs").optimize(lambda _: 0.0, n_trials=1)
    with pytest.raises(StudyMismatchError, match="'theirs' is not"):
        tune(*data, storage=storage, study_name="theirs", **FAST)


def test_error_and_cost(data):
    result = tune(*data, n_trials=6, objectives=("error", "cost"), refit=False, **FAST)
    assert all(trial["state"] == "complete" for trial in result.trials)
    assert result.study.trials[0].values[1] == result.trials[0]["cost"]
    scores, costs = zip(*((trial["score"], trial["cost"]) for trial in result.front), strict=True)
    assert list(scores) == sorted(scores)
    assert list(costs) == sorted(costs, reverse=True)
    assert result.verdict.leader.values[0] == scores[0]


def test_a_metric_of_ones_own_is_maximised(data):
    def balanced(y_true, y_proba):
        labels = np.array(["ant", "bee", "cat"])[y_proba.argmax(axis=1)]
        return "balanced_accuracy", balanced_accuracy_score(y_true, labels), True

    result = tune(*data, n_trials=4, metric=balanced, refit=False, **FAST)
    assert result.study.direction == optuna.study.StudyDirection.MAXIMIZE
    assert result.verdict.leader.values[0] == max(trial["score"] for trial in result.trials) > 0.5
    assert "balanced_accuracy" in result.summary()


def test_weights_count_like_repeated_rows(data):
    """With the outer and inner splits given, a weight of 0 is a row left out and one of 2 a row given twice."""
    X, y = data
    weights = np.ones(150)
    weights[:30] = 0.0
    rows = np.arange(150)
    cv = [(rows[:100], rows[100:])]
    weighted = tune(X, y, n_trials=3, sample_weight=weights, refit=False, **{**FAST, "cv": cv})
    without = tune(X[30:], y[30:], n_trials=3, refit=False,
                   **{**FAST, "cv": [(rows[:70], rows[70:120])], "validation_fraction": 10 / 70})  # fmt: skip
    assert finished(weighted) == finished(without)


def test_time_ordered_splits_and_groups(data):
    ordered = tune(*data, n_trials=2, refit=False, **{**FAST, "cv": TimeSeriesSplit(3)})
    grouped = tune(*data, n_trials=2, groups=np.arange(150) // 5, refit=False, **FAST)
    assert len(finished(ordered)) == len(finished(grouped)) == 2


def test_the_test_set_is_scored_once_at_the_end(data, monkeypatch):
    X, y = data
    calls = []
    predict = ABCBoostClassifier.predict_proba

    def spy(self, rows):
        calls.append(len(rows))
        return predict(self, rows)

    monkeypatch.setattr(ABCBoostClassifier, "predict_proba", spy)
    result = tune(X[:120], y[:120], n_trials=3, test=(X[120:], y[120:]), confirm=0, **FAST)
    assert calls == [40] * 9 + [30]  # three trials of three folds, and the test set
    assert result.test_score == pytest.approx(log_loss(y[120:], predict(result.best_estimator, X[120:])))
    assert "test set" in result.summary()


def test_threads_share_a_study(data):
    result = tune(*data, n_trials=8, n_jobs=2, refit=False, **FAST)
    assert len(finished(result)) == 8


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_callback_may_stop_the_study(data, n_jobs):
    def stop(study, trial):  # noqa: ARG001
        if len(study.trials) >= 3:
            study.stop()

    result = tune(*data, n_trials=50, callbacks=[stop], n_jobs=n_jobs, refit=False, **FAST)
    assert 3 <= len(finished(result)) <= 5


def test_timeout_begins_no_further_trial(data):
    result = tune(*data, n_trials=10_000, timeout=0.5, refit=False, **FAST)
    assert 1 <= len(result.trials) < 10_000


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"engine": "catboost"}, ValueError, "engine must be one of 'native', 'lgbm', 'xgb'; got 'catboost'"),
        ({"n_trials": 0}, ValueError, "n_trials must be a whole number of at least 1; got 0"),
        ({"objectives": ("cost",)}, ValueError, "objectives must be"),
        ({"metric": "auc"}, ValueError, "metric must be 'error', 'logloss' or a function"),
        ({"fixed": {"n_estimators": 5}}, ValueError, "fixed must not have 'n_estimators': the study sets it"),
        (
            {"space": {"warmup": IntDistribution(0, 50)}},
            ValueError,
            r"space\['warmup'\] must be a range up to max_rounds",
        ),
        ({"fixed": {"warmup": 9}}, ValueError, r"fixed\['warmup'\] must be at most max_rounds \(8\)"),
        ({"ensemble": 3, "refit": False}, ValueError, "refit must be True with an ensemble"),
        ({"repeats": 2, "cv": TimeSeriesSplit(3)}, ValueError, "repeats must be 1, or None, unless cv is a number"),
        ({"storage": "study.txt"}, ValueError, r"storage must be a file ending with \.db"),
        ({"groups": [None] * 150}, ValueError, r"groups\[0\] must be a group, no missing value; got None"),
        ({"sampler": "tpe"}, TypeError, r"sampler must be None or an optuna sampler, .*; got 'tpe'"),
        ({"fixed": {"nonsense": 2}}, ValueError, "fixed must be given by names of parameters .*; got 'nonsense'"),
        ({"cv": 60}, ValueError, "cv must be at most 50, the rows of the largest class; got 60"),
        ({"groups": [1, 2]}, ValueError, r"groups must be an array of shape \(150,\)"),
        ({"test": (1, 2, 3, 4)}, TypeError, r"test must be a tuple .*; got 4 items"),
        ({"test": 3}, TypeError, r"test must be a tuple \(X, y\)"),
        (
            {"test": (np.zeros((2, 4)), ["ant", "bee"]), "refit": False},
            ValueError,
            "refit must be True with a test set",
        ),
        ({"validation_fraction": 1.0}, ValueError, "validation_fraction must be a number"),
        ({"timeout": -1}, ValueError, "timeout must be a number larger than 0"),
    ],
)
def test_wrong_arguments_are_refused_before_any_work(data, options, kind, message):
    with pytest.raises(kind, match=message):
        tune(*data, **{**FAST, **options})


def test_an_error_in_a_trial_is_raised_and_the_trial_can_be_repeated(data, tmp_path, monkeypatch):
    options = {**FAST, "n_trials": 4, "storage": tmp_path / "s.log", "refit": False}
    original = Objective.fit_fold

    def broken(self, trial, fold, parameters):
        if trial.number == 2:
            raise RuntimeError("disk full")
        return original(self, trial, fold, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(Objective, "fit_fold", broken)
        with pytest.raises(RuntimeError, match="disk full"):
            tune(*data, **options)
    assert len(finished(tune(*data, **options))) == 4


def test_a_score_that_is_not_finite_is_an_error_that_names_fold_and_trial(data, monkeypatch):
    def broken(_, y_proba):
        return "broken", float("nan") if len(y_proba) > 3 else 0.5, True

    with pytest.raises(ValueError, match="metric must give finite numbers; 'broken' is nan for fold 0 of trial 0"):
        tune(*data, n_trials=3, metric=broken, **FAST)
    monkeypatch.setattr(Objective, "__call__", lambda *_: float("nan"))
    with pytest.raises(RuntimeError, match="10 trials in a row failed without a score, the last one is 9"):
        tune(*data, n_trials=30, **FAST)


# ------------------------------------------------------------------------------------------------ pruning


def test_fold_pruner_compares_folds_with_the_median():
    study = optuna.create_study(pruner=FoldPruner(n_startup_trials=3))
    for value in (0.1, 0.2, 0.3):
        study.add_trial(optuna.trial.create_trial(value=value, intermediate_values={0: value}))
    for value, pruned in ((0.15, False), (0.25, True)):
        trial = study.ask()
        trial.report(value, 0)
        assert trial.should_prune() == pruned


class PruneAt(optuna.pruners.BasePruner):
    def __init__(self, step, first_trial=0):
        self.step, self.first_trial = step, first_trial

    def prune(self, study, trial):  # noqa: ARG002
        return trial.number >= self.first_trial and trial.last_step >= self.step


def fit_engine(engine, callback, X, codes):
    """Fit seven rounds with one evaluation set through each engine's own interface."""
    if engine == "native":
        ABCBoostClassifier(n_estimators=7, warmup=2, n_jobs=1).fit(
            X, codes, eval_set=[(X, codes)], callbacks=[callback]
        )
    elif engine == "lgbm":
        from abc_plugins.lgbm import ABCLGBMClassifier

        model = ABCLGBMClassifier(n_estimators=7, method="abcrobustlogit", warmup=2, n_jobs=1, verbosity=-1)
        model.fit(X, codes, eval_set=[(X, codes)], eval_names=["held_out"], callbacks=[callback])
    else:
        from abc_plugins.xgb import ABCXGBClassifier

        model = ABCXGBClassifier(n_estimators=7, method="abcrobustlogit", warmup=2, n_jobs=1, callbacks=[callback])
        model.fit(X, codes, eval_set=[(X, codes)], verbose=False)


@pytest.mark.parametrize("engine", ["native", "lgbm", "xgb"])
def test_one_pruning_callback_for_all_engines(data, engine):
    pytest.importorskip({"native": "numba", "lgbm": "lightgbm", "xgb": "xgboost"}[engine])
    X, codes = data[0], np.unique(data[1], return_inverse=True)[1]
    study = optuna.create_study(pruner=PruneAt(104))
    trial = study.ask()
    callback = ABCPruningCallback(trial, interval=2, fold_scores=[1.0], first_step=100)
    with pytest.raises(optuna.TrialPruned, match="Pruned in fold 1 after round 6"):
        fit_engine(engine, callback, X, codes)
    values = study.trials[0].intermediate_values
    assert list(values) == [101, 103, 105]
    assert values[105] < values[103] < values[101] < 1.0  # the log loss falls; the mean with the fold before is < 1


def test_pruning_callback_is_silent_with_two_objectives(data):
    trial = optuna.create_study(directions=["minimize", "minimize"]).ask()
    X, codes = data[0], np.unique(data[1], return_inverse=True)[1]
    fit_engine("native", ABCPruningCallback(trial), X, codes)
    assert not trial.study.trials[0].intermediate_values


def test_pruning_callback_names_a_metric_that_is_not_there(data):
    trial = optuna.create_study().ask()
    with pytest.raises(ValueError, match="which are valid_0 logloss; got any evaluation set auc"):
        fit_engine(
            "native", ABCPruningCallback(trial, metric="auc"), data[0], np.unique(data[1], return_inverse=True)[1]
        )


def test_pruned_trials_count_and_keep_the_folds_they_did(data):
    result = tune(*data, n_trials=6, refit=False, pruner=PruneAt(0, first_trial=4), **FAST)
    assert [trial["state"] for trial in result.trials] == ["complete"] * 4 + ["pruned"] * 2
    assert [trial["folds"] for trial in result.trials] == [3] * 4 + [1] * 2
    assert result.best_trial.number < 4


def test_the_defaults_are_never_pruned(data):
    result = tune(*data, n_trials=2, refit=False, pruner=PruneAt(0), **FAST)
    assert [trial["state"] for trial in result.trials] == ["complete", "pruned"]
    assert result.verdict.keeps_defaults


def test_a_setting_that_stops_after_a_few_rounds_is_pruned(data):
    """With steps this large the second round is the best at most."""
    from optuna.distributions import FloatDistribution

    options = {**FAST, "max_rounds": 60, "space": {"learning_rate": FloatDistribution(4.0, 5.0)}}
    result = tune(*data, n_trials=2, refit=False, pruner=optuna.pruners.NopPruner(), **options)
    assert [(trial["state"], trial["folds"]) for trial in result.trials] == [("complete", 3), ("pruned", 3)]
    assert result.trials[1]["rounds"] < 10


# ------------------------------------------------------------------------------------------------ other engines


@pytest.mark.parametrize("engine", ["lgbm", "xgb"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_other_engines(data, engine, n_classes):
    pytest.importorskip({"lgbm": "lightgbm", "xgb": "xgboost"}[engine])
    X, codes = data[0], np.unique(data[1], return_inverse=True)[1] % n_classes
    options = {**FAST, "fixed": {}, "metric": "error"}
    result = tune(X, codes, engine=engine, n_trials=3, test=(X, codes), **options)
    again = tune(X, codes, engine=engine, n_trials=3, refit=False, **options)
    assert finished(again) == finished(result)
    assert 0.0 <= result.test_score < 0.4
    assert result.best_estimator.n_estimators == result.best_params["n_estimators"]


@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
@pytest.mark.parametrize("engine", ["lgbm", "xgb"])
def test_folds_of_other_engines_are_fitted_as_their_estimators_fit(data, engine, method):
    """The score of a trial is that of the estimator with the same parameters, fitted on the fold's rows."""
    pytest.importorskip({"lgbm": "lightgbm", "xgb": "xgboost"}[engine])
    X, codes = data[0], np.unique(data[1], return_inverse=True)[1]
    options = {**FAST, "fixed": {"method": method}}
    result = tune(X, codes, engine=engine, n_trials=1, refit=False, metric="error", **options)
    trial = result.best_trial
    for index, fold in enumerate(make_folds(3, codes, None, 0.1, 0)):
        parameters = {
            **trial.user_attrs["params"],
            "n_estimators": trial.user_attrs["outcome"]["rounds"][index],
            "n_jobs": 1,
        }
        if engine == "lgbm":
            from abc_plugins.lgbm import ABCLGBMClassifier

            model = ABCLGBMClassifier(method=method, **parameters, random_state=0, verbosity=-1)
        else:
            from abc_plugins.xgb import ABCXGBClassifier

            model = ABCXGBClassifier(method=method, **parameters, random_state=0)
        model.fit(X[fold.train], codes[fold.train])
        error = np.mean(model.predict(X[fold.test]) != codes[fold.test])
        assert trial.user_attrs["outcome"]["fold_scores"][index] == pytest.approx(error, abs=1e-12)
