"""Whether the best trial is believed, and what an ensemble gains: against sums done by hand."""

from __future__ import annotations

import math
import statistics

import numpy as np
import optuna
import pytest
from sklearn.model_selection import StratifiedKFold

from abc_plugins.tuning.ensemble import build_ensemble
from abc_plugins.tuning.study.confirmation import fresh_scores, keep_fresh_scores, unconfirmed_trials
from abc_plugins.tuning.verdict import TEST_SHARE, judge
from tuning import tune


def study_of(*fold_scores, direction="minimize"):
    """A study whose first trial are the defaults."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction=direction)
    study.set_user_attr(TEST_SHARE, 0.25)
    for index, scores in enumerate(fold_scores):
        attributes = {"outcome": {"fold_scores": scores, "cost": 10}, **({"start": "defaults"} if index == 0 else {})}
        study.add_trial(optuna.trial.create_trial(value=statistics.fmean(scores), user_attrs=attributes))
    return study


DEFAULTS = [0.50, 0.52, 0.48, 0.51, 0.49]


def test_a_gain_beyond_its_spread_is_believed():
    better = [0.46, 0.47, 0.45, 0.46, 0.45]
    verdict = judge(study_of(DEFAULTS, better))
    gains = [a - b for a, b in zip(DEFAULTS, better, strict=True)]
    assert verdict.chosen.number == verdict.leader.number == 1
    assert verdict.gain == pytest.approx(statistics.fmean(gains))
    assert verdict.margin == pytest.approx(statistics.stdev(gains) * math.sqrt(1 / 5 + 0.25))
    assert (verdict.n_better, verdict.n_folds, verdict.keeps_defaults) == (5, 5, False)


def test_a_gain_within_its_spread_keeps_the_defaults():
    """Better by 0.02 in the mean, but by one lucky fold."""
    lucky = [0.51, 0.53, 0.36, 0.51, 0.49]
    verdict = judge(study_of(DEFAULTS, lucky))
    assert verdict.leader.number == 1
    assert verdict.gain > 0
    assert verdict.keeps_defaults
    assert verdict.chosen.number == 0


def fresh(study, *fold_scores):
    """Add scores on fresh folds, of the first trials."""
    for number, scores in enumerate(fold_scores):
        keep_fresh_scores(study, study.trials[number], scores)
    return study


def test_a_lucky_leader_is_found_out_by_fresh_folds():
    study = study_of(DEFAULTS, [0.40, 0.41, 0.40, 0.42, 0.39])
    assert judge(study).chosen.number == 1
    verdict = judge(fresh(study, [0.50, 0.49, 0.51], [0.51, 0.50, 0.49]))
    assert (verdict.leader.number, verdict.is_confirmed, verdict.keeps_defaults) == (1, True, True)
    assert (verdict.n_better, verdict.n_folds) == (1, 3)
    assert verdict.gain == pytest.approx(0.0, abs=1e-12)


def test_of_the_confirmed_the_best_over_all_folds_leads_and_its_gain_is_that_of_the_fresh_ones():
    """Trial 1 led, but trial 2 is better when all eight folds count; trial 3 was not scored again."""
    study = study_of(DEFAULTS, [0.40] * 5, [0.41] * 5, [0.42] * 5)
    verdict = judge(fresh(study, [0.50, 0.52, 0.48], [0.47, 0.48, 0.46], [0.44, 0.45, 0.43]))
    assert verdict.chosen.number == verdict.leader.number == 2
    assert verdict.gain == pytest.approx(0.06)
    assert (verdict.leader_score, verdict.defaults_score) == (pytest.approx(0.44), pytest.approx(0.5))


def test_the_best_trials_and_the_defaults_are_scored_again():
    study = study_of(DEFAULTS, [0.45] * 5, [0.60] * 5, [0.41] * 5, [0.43] * 5)
    assert [trial.number for trial in unconfirmed_trials(study, 2)] == [0, 3, 4]
    assert [trial.number for trial in unconfirmed_trials(fresh(study, [0.5] * 3), 9)] == [3, 4, 1]
    assert unconfirmed_trials(study, 0) == []
    assert unconfirmed_trials(study_of(DEFAULTS, [0.60] * 5), 3) == []


def test_fresh_folds_differ_from_those_of_the_study_and_are_scored_once(tmp_path):
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(3), 40)
    X = rng.normal(size=(3, 4))[y] + 2.0 * rng.normal(size=(120, 4))
    options = {"n_trials": 5, "cv": 3, "repeats": 1, "max_rounds": 30, "refit": False, "progress": False}
    study = tune(X, y, storage=tmp_path / "s.log", confirm=0, **options).study
    assert all(fresh_scores(study, trial) is None for trial in study.trials)
    result = tune(X, y, storage=tmp_path / "s.log", confirm=2, **options)
    scores = {trial.number: fresh_scores(result.study, trial) for trial in result.study.trials}
    scored = {number: own for number, own in scores.items() if own is not None}
    assert len(scored) == 3
    assert result.verdict.is_confirmed
    assert "fresh folds" in result.summary()
    for number, own in scored.items():
        assert len(own) == 3
        assert not set(own) & set(result.study.trials[number].user_attrs["outcome"]["fold_scores"])
    assert tune(X, y, confirm=2, **options).verdict.gain == result.verdict.gain  # in one go
    folds = list(StratifiedKFold(3).split(X, y))
    assert not tune(X, y, **{**options, "cv": folds, "repeats": None}).verdict.is_confirmed


def test_higher_may_be_better():
    verdict = judge(study_of(DEFAULTS, [score + 0.1 for score in DEFAULTS], direction="maximize"))
    assert verdict.chosen.number == 1
    assert verdict.gain == pytest.approx(0.1)


def test_trials_that_the_folds_do_not_tell_apart_are_counted():
    alike = [0.30, 0.40, 0.35, 0.31, 0.39]
    other = [0.31, 0.39, 0.36, 0.30, 0.40]
    verdict = judge(study_of(DEFAULTS, alike, other))
    assert (verdict.n_alike, verdict.n_complete) == (1, 3)


def test_the_final_fit_is_that_of_the_defaults_if_they_are_kept():
    """Labels are noise: whatever leads, leads by luck."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)), rng.integers(0, 3, 90)
    result = tune(X, y, n_trials=4, cv=3, repeats=1, max_rounds=20, progress=False)
    verdict = result.verdict
    if verdict.keeps_defaults:
        assert result.best_trial.number == 0
        assert "The defaults are kept" in result.summary()
    assert result.best_trial.number == verdict.chosen.number


# ------------------------------------------------------------------------------------------------ ensembles


def folds_of(probabilities, codes):
    """Cut arrays into two folds."""
    half = codes.size // 2
    return {number: [p[:half], p[half:]] for number, p in probabilities.items()}, [codes[:half], codes[half:]]


def test_two_models_that_err_on_different_rows_are_averaged():
    codes = np.tile([0, 1], 20).astype(np.int32)
    good, bad = np.eye(2)[codes] * 0.8 + 0.1, np.full((40, 2), 0.5)
    rows = np.arange(40) % 4 < 2
    first, second = np.where(rows[:, None], good, bad), np.where(rows[:, None], bad, good)
    probabilities, parts = folds_of({3: first, 5: second, 8: np.full((40, 2), 0.5)}, codes)
    report = build_ensemble(probabilities, parts, [None, None], single=3)
    assert set(report.weights) == {3, 5}
    assert sum(report.weights.values()) == pytest.approx(1.0)
    assert report.weights[3] == pytest.approx(0.5, abs=0.03)
    right = {n: p[np.arange(40), codes] for n, p in {3: first, 5: second}.items()}
    assert report.single_loss == pytest.approx(-np.log(right[3]).mean())
    assert report.ensemble_loss == pytest.approx(-np.log((right[3] + right[5]) / 2).mean(), abs=0.005)
    assert report.is_used


def test_an_ensemble_that_gains_nothing_is_not_used():
    codes = np.tile([0, 1], 20).astype(np.int32)
    good = np.eye(2)[codes] * 0.8 + 0.1
    probabilities, parts = folds_of({0: good, 1: np.full((40, 2), 0.5)}, codes)
    report = build_ensemble(probabilities, parts, [None, None], single=0)
    assert report.weights == {0: 1.0}
    assert not report.is_used


def test_members_of_a_resumed_study_are_fitted_again(tmp_path):
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(3), 40)
    X = rng.normal(size=(3, 4))[y] + 2.0 * rng.normal(size=(120, 4))
    options = {"n_trials": 5, "cv": 3, "repeats": 1, "max_rounds": 30, "ensemble": 4, "progress": False}
    whole = tune(X, y, **options)
    tune(X, y, storage=tmp_path / "s.log", **{**options, "ensemble": 0, "refit": False})
    resumed = tune(X, y, storage=tmp_path / "s.log", **options)
    assert resumed.ensemble == whole.ensemble
    assert np.array_equal(resumed.best_estimator.predict_proba(X), whole.best_estimator.predict_proba(X))
    assert "ensemble  " in whole.summary()
