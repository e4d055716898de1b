"""The practice protocol: splits, what contenders are given, figures, verdicts, resuming, the page."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from abc_plugins import cli
from abc_plugins.compare import Contender, PracticePlan, contenders, run, select, summarise
from abc_plugins.compare.chance import corrected_t_test
from abc_plugins.compare.practice.fitting import CALIBRATION_EDGES, calibration, fit_and_score
from abc_plugins.compare.practice.table import Sample, make_sample, make_table, split_rows
from abc_plugins.compare.practice.training import Trained
from abc_plugins.compare.practice.views import as_few_codes, as_one_hot, as_text
from abc_plugins.compare.practice.warming import _compiled_beside, warm_up
from abc_plugins.data.datasets import Dataset

INSTALLED = [contender for contender in contenders() if contender.is_installed]
QUICK = ["directional", "forest"]


def make_dataset(n: int = 300, seed: int = 0) -> Dataset:
    """Two numbers and a category of five levels, some of them missing."""
    random = np.random.default_rng(seed)
    X = np.column_stack([random.normal(size=(n, 2)), random.integers(0, 5, n)])
    y = (X[:, 0] + random.normal(scale=0.3, size=n) > 0).astype(int) + (X[:, 2] % 2 == 0)
    X[random.random(X.shape) < 0.03] = np.nan
    return Dataset("made", X, np.array(["red", "green", "blue"])[y], ["a", "b", "c"], categorical=("c",))


def make_small_sample(rounds: int = 5) -> tuple[Sample, Any, Any]:
    table = make_table(make_dataset())
    return make_sample(table, split_rows(table, 0), seed=0, n_jobs=1, rounds=rounds)


# ------------------------------------------------------------------------------------------------ splits


def test_splits_are_stratified_halves_with_a_fifth_to_stop_by() -> None:
    random = np.random.default_rng(0)
    y = random.choice(["1", "10", "2"], 40_000, p=[0.6, 0.3, 0.1])
    table = make_table(Dataset("made", random.normal(size=(y.size, 1)), y, ["a"]))
    parts = split_rows(table, 7)
    codes = np.unique(y, return_inverse=True)[1]
    train, test = train_test_split(np.arange(y.size), test_size=0.5, stratify=codes, random_state=7)
    train = train_test_split(train, train_size=8000, stratify=codes[train], random_state=7)[0]
    fit, valid = train_test_split(train, test_size=0.2, stratify=codes[train], random_state=7)
    for found, expected in zip((parts.fit, parts.valid, parts.test), (fit, valid, test[:20000]), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert table.classes == ["1", "10", "2"]  # sorted as text


def test_small_classes_are_named_and_left_out() -> None:
    data = make_dataset()
    y = data.y.astype(object)
    y[:4] = "rare"
    table = make_table(Dataset("made", data.X, y, data.feature_names))
    assert table.left_out == ("classes of fewer than 10 rows: rare (4)",)
    assert "rare" not in table.classes
    assert table.rows.min() == 4
    many = np.repeat(["a", "b", "c"], [3000, 3000, 20])
    table = make_table(Dataset("made", np.zeros((many.size, 1)), many, ["x"]))
    parts = split_rows(table, 0, max_train=300)  # of which the small class has one
    assert parts.left_out == ("classes of fewer than 5 training rows: c",)
    assert set(table.y[parts.test]) == {0, 1}
    with pytest.raises(ValueError, match=r"at least two classes of 10 rows or more; the largest have 'a': 12"):
        make_table(Dataset("made", np.zeros((14, 1)), np.array(["a"] * 12 + ["b"] * 2), ["x"]))


def test_a_test_part_that_is_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match="a split needs a row of each of the 3 classes"):
        split_rows(make_table(make_dataset(60)), 0, test_size=0.01)


# ------------------------------------------------------------------------------------------------ views


def test_categories_as_text_and_as_columns() -> None:
    pytest.importorskip("pandas")
    sample, _, _ = make_small_sample()
    X = np.array([[1.0, np.nan, 2.0], [3.0, 4.0, np.nan]])
    text = as_text(sample)(X)
    assert text[2].tolist() == ["2.0", "missing"]
    columns = as_one_hot(sample)(X)
    np.testing.assert_array_equal(columns, [[1, np.nan, 0, 0, 1, 0, 0], [3, 4, 0, 0, 0, 0, 0]])


def test_rare_levels_share_the_last_code() -> None:
    sample, _, _ = make_small_sample()
    counts = np.bincount(sample.X[~np.isnan(sample.X[:, 2]), 2].astype(int))
    view = as_few_codes(sample, 3)
    codes = view(np.array([[0.0, 0.0, level] for level in np.argsort(-counts, kind="stable")] + [[0, 0, np.nan]]))[:, 2]
    np.testing.assert_array_equal(codes, [0, 1, 2, 2, 2, np.nan])
    assert as_few_codes(sample, 5)(sample.X) is sample.X


# ------------------------------------------------------------------------------------------------ fits


@pytest.mark.parametrize("contender", INSTALLED, ids=lambda contender: contender.key)
def test_every_contender_takes_categories_and_missing_values(contender: Contender) -> None:
    sample, X_test, y_test = make_small_sample(rounds=30)
    fit = fit_and_score(contender, sample, X_test, y_test)
    trained = contender.train(sample, {})
    p = trained.predict_proba(X_test)
    assert p.shape == (y_test.size, 3)
    assert fit["errors"] == int((p.argmax(axis=1) != y_test).sum())
    assert fit["errors"] < 0.6 * y_test.size  # better than guessing
    assert fit["log_loss"] == pytest.approx(log_loss(y_test, np.clip(p, 1e-15, 1), labels=[0, 1, 2]), rel=1e-5)
    assert fit["bytes"] > 1000
    if contender.key != "forest":
        assert 1 <= fit["rounds"] <= 30
        assert fit["curve"][-1][0] >= fit["rounds"]
    if contender.key not in ("forest", "chimeraboost"):  # the latter adjusts its probabilities after training
        valid = trained.predict_proba(sample.X_valid)
        assert fit["valid_loss"] == pytest.approx(log_loss(sample.y_valid, valid, labels=[0, 1, 2]), rel=1e-3)
    json.dumps(fit, allow_nan=False)


def test_columns_that_are_empty_in_training_do_no_harm() -> None:
    sample, X_test, y_test = make_small_sample(rounds=3)
    X, X_valid = sample.X.copy(), sample.X_valid.copy()
    for column in (0, 2):  # numbers, and a category
        X[:, column] = X_valid[:, column] = np.nan
    empty = Sample(**{**vars(sample), "X": X, "X_valid": X_valid})
    for contender in INSTALLED:
        p = contender.train(empty, {}).predict_proba(X_test)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-5, err_msg=contender.key)
        assert p.shape == (y_test.size, 3)


def test_unseen_levels_do_no_harm() -> None:
    sample, X_test, _ = make_small_sample(rounds=3)
    X_test = X_test.copy()
    X_test[:5, 2] = 4.0
    few = Sample(**{**vars(sample), "X": np.where(sample.X == 4.0, 0.0, sample.X)})
    for contender in INSTALLED:
        p = contender.train(few, {}).predict_proba(X_test)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-5, err_msg=contender.key)


class Oracle:
    """Predicts the same for all rows."""

    def predict_proba(self, X: Any) -> Any:
        return np.tile([0.7, 0.3, 0.0], (len(X), 1))

    def get_params(self) -> dict[str, Any]:
        return {}


def test_figures_of_a_known_prediction() -> None:
    sample, _, _ = make_small_sample()
    oracle = Contender("o", "o", "sklearn", None, False, lambda *_: Trained(Oracle(), lambda X: X, 2, [0.9, 0.5]), "")
    fit = fit_and_score(oracle, sample, np.zeros((4, 1)), np.array([0, 0, 1, 2]))
    assert fit["errors"] == 2
    assert fit["log_loss"] == pytest.approx(-(2 * np.log(0.7) + np.log(0.3) + np.log(1e-15)) / 4)
    assert (fit["no_chance"], fit["no_chance_loss"]) == (1, pytest.approx(-np.log(1e-15) / 4))
    assert fit["valid_loss"] == 0.5
    assert fit["curve"] == [[1, 0.9], [2, 0.5]]


def test_what_a_first_prediction_sets_up_is_not_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    class Compiling(Oracle):
        """The first prediction takes three seconds, the others a millisecond for each row."""

        is_compiled = False

        def predict_proba(self, X: Any) -> Any:
            clock[0] += 0.001 * len(X) if self.is_compiled else 3.0
            self.is_compiled = True
            return super().predict_proba(X)

    monkeypatch.setattr("abc_plugins.compare.practice.fitting.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(sys.modules[__name__], "Compiling", Compiling, raising=False)  # for pickle
    Compiling.__qualname__ = "Compiling"
    sample, _, _ = make_small_sample()
    late = Contender("o", "o", "sklearn", None, False, lambda *_: Trained(Compiling(), lambda X: X, 2, [0.9, 0.5]), "")
    assert fit_and_score(late, sample, np.zeros((1100, 1)), np.zeros(1100, int))["predict_ms"] == pytest.approx(1000)
    assert clock[0] == pytest.approx(3.2)  # a slow prediction is repeated with 200 rows


AFTER_WARM_UP = """
from abc_plugins.compare.practice.plan import PracticePlan
from abc_plugins.compare.practice.contenders import select
from abc_plugins.core.runtime.jit import compiled_kernels, loaded_kernels
from abc_plugins.data.datasets import load

wine = PracticePlan(load("wine"), select(["directional", "pairs"]), rounds=60)
wine.warm_up(wine.contenders)
before = len(compiled_kernels) + len(loaded_kernels)
assert before
for contender in wine.contenders:
    wine.fit(contender, 0)
print((compiled_kernels + loaded_kernels)[before:])
"""


def test_no_kernel_is_met_for_the_first_time_while_the_clock_runs() -> None:
    done = subprocess.run([sys.executable, "-c", AFTER_WARM_UP], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_second_process_compiles_what_the_first_would_have_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contenders are replaced by ones that leave a trace, so that nothing is compiled."""
    sample, X_test, _ = make_small_sample(rounds=2)
    used: list[str] = []
    started: list[list[str]] = []

    class Process(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, command: list[str], **options: Any) -> None:
            started.append(command[1:])
            keys, there, _ = pickle.load(options["stdin"])
            assert keys == ["pairs"]
            np.testing.assert_array_equal(there.X, sample.X)
            super().__init__([sys.executable, "-c", ""], **options)

    def trace(key: str) -> Contender:
        def train(*_: Any) -> Trained:
            used.append(key)
            return Trained(Oracle(), lambda X: X, 1, [])

        return Contender(key, key, "sklearn", None, False, train, "")

    monkeypatch.setattr("abc_plugins.compare.practice.warming.subprocess.Popen", Process)
    monkeypatch.setattr("abc_plugins.compare.practice.warming.available_cores", lambda: 2)
    for is_kept, processes in ((True, 0), (False, 1)):
        monkeypatch.setattr("abc_plugins.compare.practice.warming._is_kept", lambda _, found=is_kept: found)
        warm_up([trace("directional"), trace("pairs"), trace("forest")], sample, X_test)
        assert len(started) == processes
    assert used == ["directional", "forest", "pairs"] * 2
    assert started == [["-P", "-m", "abc_plugins.compare.practice.warming"]]


def test_the_second_process_imports_the_modules_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a copy in the working folder, such as a clone: its kernels would go to another cache."""
    (tmp_path / "abc_plugins").mkdir()
    (tmp_path / "abc_plugins" / "__init__.py").write_text("raise RuntimeError('a copy was imported')")
    monkeypatch.chdir(tmp_path)
    ended: list[int] = []

    class Process(subprocess.Popen):  # type: ignore[type-arg]
        def __exit__(self, *raised: object) -> None:
            super().__exit__(*raised)  # type: ignore[arg-type]
            ended.append(self.returncode)

    monkeypatch.setattr("abc_plugins.compare.practice.warming.subprocess.Popen", Process)
    with _compiled_beside(["forest"], *make_small_sample(rounds=2)[:2]):
        pass
    assert ended == [0]


@pytest.mark.parametrize("where", ["warm_up", "fit"])
def test_an_error_names_the_contender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Without what XGBoost appends to its messages."""

    def train(*_: Any) -> Any:
        raise ValueError("no memory left\n\nStack trace:\n  [bt] (0) libxgboost.so")

    if where == "fit":
        monkeypatch.setattr(PracticePlan, "warm_up", lambda *_: None)
    contender = Contender("broken", "A broken one", "numpy", None, False, train, "")
    with pytest.raises(RuntimeError, match=r"^A broken one \(broken\) has failed: no memory left$"):
        run(PracticePlan(make_dataset(), [contender], splits=1), tmp_path)


def test_infinite_values_are_refused_by_the_name_of_their_column() -> None:
    data = make_dataset()
    data.X[3, 1] = -np.inf
    with pytest.raises(ValueError, match=r"feature 'b' of made must be within \+-3.4e\+38, or NaN; got inf"):
        PracticePlan(data, select(QUICK))


def test_calibration_counts_probabilities_and_hits() -> None:
    found = calibration(np.array([[0.95, 0.05], [0.95, 0.05], [0.001, 0.999]]), np.array([0, 1, 1]))
    high = int(np.digitize(0.95, CALIBRATION_EDGES))
    assert found["counts"][high] == 2
    assert found["sums"][high] == pytest.approx(1.9)
    assert found["hits"][high] == 1
    assert found["counts"][0] == found["counts"][-1] == 1
    assert sum(found["counts"]) == 6


# ------------------------------------------------------------------------------------------------ standings


def make_run(key: str, split: int, loss: float, errors: int, **more: Any) -> dict[str, Any]:
    return {
        **{"contender": key, "split": split, "seed": split, "n_fit": 800, "n_valid": 200, "n_test": 1000},
        **{"rounds": 10, "at_limit": False, "errors": errors, "log_loss": loss, "valid_loss": loss, "seconds": 1.0},
        **{"predict_ms": 1.0, "bytes": 1000, "no_chance": 0, "no_chance_loss": 0.0, **more},
    }


def summary_of(own: list[float], other: list[float], **more: Any) -> dict[str, Any]:
    runs = [make_run("directional", split, loss, int(1000 * loss)) for split, loss in enumerate(own)]
    runs += [make_run("forest", split, loss, int(1000 * loss), **more) for split, loss in enumerate(other)]
    return summarise(runs, select(QUICK))


def test_a_lead_beyond_chance() -> None:
    own, other = [0.10, 0.11, 0.12, 0.10, 0.11], [0.20, 0.22, 0.21, 0.20, 0.22]
    summary = summary_of(own, other)
    p_value = corrected_t_test(np.array(own) - np.array(other), 1.0)
    assert p_value is not None
    assert p_value < 0.001
    assert summary["verdict"] == [
        "On these 5 splits ABCBoostClassifier has 49% less log loss than random forest, the best of the others; this "
        "is beyond chance (p < 0.001).",
        "On these 5 splits ABCBoostClassifier has 49% less error than random forest, the best of the others; this is "
        "beyond chance (p < 0.001).",
    ]
    first, second = summary["table"]
    assert (first["contender"], first["log_loss_rank"], second["log_loss_rank"]) == ("directional", 1.0, 2.0)
    assert first["log_loss_se"] == pytest.approx(np.std(own, ddof=1) / np.sqrt(5))
    (duel,) = summary["duels"]
    assert duel["log_loss"]["p_value"] == p_value
    assert (duel["error"]["better"], duel["error"]["worse"]) == (5, 0)


def test_a_loss_and_what_is_too_close_to_call() -> None:
    assert "has 90% more log loss than random forest" in summary_of([0.19, 0.2], [0.1, 0.105])["verdict"][0]
    close = summary_of([0.10, 0.14, 0.12], [0.13, 0.11, 0.11])["verdict"][0]
    assert close.startswith(
        "On these 3 splits log loss is too close to call between ABCBoostClassifier and random forest, the best of the "
        "others (ours has 2.9% more, p = "
    )
    one = summary_of([0.1], [0.2])["verdict"][0]
    assert one.endswith("whether that is chance cannot be told.")
    same = summary_of([0.1, 0.2], [0.1, 0.2])["verdict"][0]
    assert (
        same == "On these 2 splits ABCBoostClassifier has the same log loss as random forest, the best of the others."
    )


def test_what_makes_figures_rough_is_said() -> None:
    rough = summary_of([0.1], [0.2], n_test=100, n_valid=20, no_chance=2, no_chance_loss=0.05, at_limit=True)
    assert rough["warnings"] == [
        "Only 100 test rows: one more wrong is 1.0 percentage points of error.",
        "Only 20 validation rows: when to stop is mostly chance.",
        "random forest gives 2% of the test rows next to no chance of being what they are; these make 25% of its log "
        "loss.",
        "random forest was stopped by the limit of rounds once; a higher --rounds may help it.",
    ]
    assert summary_of([0.1], [0.2])["warnings"] == []


def test_a_difference_without_spread_is_not_tested() -> None:
    assert corrected_t_test(np.array([0.1 + 0.2, 0.3]), 1.0) is None  # equal but for rounding
    assert corrected_t_test(np.zeros(3), 1.0) == 1.0


# ------------------------------------------------------------------------------------------------ the command


def test_contenders_that_are_missing_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    installed = property(lambda self: self.key in QUICK)
    monkeypatch.setattr("abc_plugins.compare.practice.contenders.Contender.is_installed", installed)
    assert cli.main(["compare", "iris", "--splits", "1", "--rounds", "3", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "not installed: CatBoost: pip install 'abc-plugins[peers]'" in out
    assert "not installed: LightGBM: pip install 'abc-plugins[lgbm]'" in out


def test_a_run_that_was_killed_goes_on_and_ends_with_the_same_table(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    pytest.importorskip("xgboost")
    data, keys, splits = make_dataset(), ["lightgbm", "xgboost"], 20
    whole = PracticePlan(data, select(keys), splits=splits, rounds=5)
    expected = summarise(run(whole, tmp_path / "whole"), whole.contenders)
    np.savez(tmp_path / "data.npz", X=data.X, y=data.y.astype(str))
    script = (
        "import sys, numpy as np\n"
        "from abc_plugins.compare import PracticePlan, run, select\n"
        "from abc_plugins.data.datasets import Dataset\n"
        f"d = np.load({str(tmp_path / 'data.npz')!r})\n"
        "data = Dataset('made', d['X'], d['y'], ['a', 'b', 'c'], categorical=('c',))\n"
        f"run(PracticePlan(data, select({keys!r}), splits={splits}, rounds=5), {str(tmp_path / 'killed')!r})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    kept = tmp_path / "killed" / "runs.jsonl"
    try:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and process.poll() is None:
            if kept.exists() and kept.read_text().count("\n") >= 3:  # what it is of, and two fits
                break
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    done = kept.read_text().count("\n") - 1
    assert 2 <= done < 2 * splits
    found = summarise(run(whole, tmp_path / "killed"), whole.contenders)
    timed = {"seconds", "predict_ms"}
    for name in ("table", "points"):
        strip = [[{k: v for k, v in row.items() if k not in timed} for row in one[name]] for one in (found, expected)]
        assert strip[0] == strip[1]
    assert found["verdict"] == expected["verdict"]
    assert found["duels"] == expected["duels"]
