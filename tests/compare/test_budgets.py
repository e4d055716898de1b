"""Comparisons under a budget: the same settings for all, curves that end where predictions do, resuming."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import Page
from sklearn.datasets import make_classification

from abc_plugins import cli
from abc_plugins.compare.budgets.contenders import BudgetContender, contenders, select
from abc_plugins.compare.budgets.engines import Stopwatch
from abc_plugins.compare.budgets.fitting import fit_and_score, unpack_wrong
from abc_plugins.compare.budgets.plan import BudgetPlan
from abc_plugins.compare.budgets.report import cells, pair_cells
from abc_plugins.compare.budgets.settings import CompareSettings
from abc_plugins.compare.running import run
from abc_plugins.compare.store import RunStore
from abc_plugins.data.datasets import Dataset, load

INSTALLED = [contender for contender in contenders() if contender.is_installed]
FEW = ["robustlogit", "abcrobustlogit"]
SMALL = CompareSettings(rounds=6, num_leaves=4, learning_rate=0.3, search=2, gap=1, warmup=1)


def make_dataset(n_classes: int = 3, seed: int = 0) -> Dataset:
    X, y = make_classification(
        240, 6, n_informative=5, n_redundant=0, n_classes=n_classes, class_sep=0.7, random_state=seed
    )
    return Dataset("made", X, y, [f"x{index}" for index in range(6)])


@pytest.fixture
def small_plan() -> BudgetPlan:
    return BudgetPlan(make_dataset(), SMALL, select(FEW), splits=2)


# ------------------------------------------------------------------------------------------------ contenders


@pytest.mark.parametrize("contender", INSTALLED, ids=lambda contender: contender.key)
def test_settings_are_the_same_for_all(contender: BudgetContender) -> None:
    settings = CompareSettings(
        rounds=7, num_leaves=5, learning_rate=0.3, max_bins=63, leaf_clip=2.5, search=2, gap=3, warmup=4, n_jobs=1
    )
    params = contender.make(settings).get_params()

    def found(*names: str) -> Any:
        return next(params[name] for name in names if params.get(name) is not None)

    assert found("n_estimators", "max_iter", "iterations") == 7
    assert found("num_leaves", "max_leaves", "max_leaf_nodes") == 5
    assert params["learning_rate"] == 0.3
    assert found("max_bins", "max_bin", "border_count") == (62 if contender.key == "catboost" else 63)
    if contender.key not in ("sklearn", "catboost"):
        assert found("max_delta_step", "leaf_clip") == 2.5
    if contender.is_adaptive:
        assert [params[name] for name in ("search", "gap", "warmup")] == [2, 3, 4]


@pytest.mark.parametrize("contender", INSTALLED, ids=lambda contender: contender.key)
def test_without_settings_defaults_stand(contender: BudgetContender) -> None:
    nothing = CompareSettings(rounds=7, num_leaves=None, learning_rate=None, max_bins=None, leaf_clip=None, n_jobs=1)
    made = contender.make(nothing)
    told = {
        *("method", "n_estimators", "tree_shape", "n_jobs", "random_state", "verbosity", "max_iter", "early_stopping"),
        *("iterations", "thread_count", "random_seed", "verbose", "allow_writing_files"),
    }
    defaults = type(made)().get_params()
    assert {name: value for name, value in made.get_params().items() if name not in told and value is not None} == {
        name: value for name, value in defaults.items() if name not in told and value is not None
    }


def test_every_adaptive_contender_has_a_rival_that_takes_part() -> None:
    keys = {contender.key for contender in contenders()}
    adaptive = [contender for contender in contenders() if contender.is_adaptive]
    assert {contender.key for contender in adaptive} == {"abcmart", "abcrobustlogit", "abc-lightgbm", "abc-xgboost"}
    assert all(contender.rival in keys for contender in adaptive)


def test_a_contender_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BudgetContender, "is_installed", property(lambda self: self.package != "lightgbm"))
    assert not {"lightgbm", "abc-lightgbm"} & {contender.key for contender in select(None)}
    with pytest.raises(ModuleNotFoundError, match=r"abc-lightgbm needs lightgbm: pip install 'abc-plugins\[lgbm\]'"):
        select(["mart", "abc-lightgbm"])


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("contender", INSTALLED, ids=lambda contender: contender.key)
def test_curves_end_with_the_prediction_of_the_model(contender: BudgetContender, n_classes: int) -> None:
    data = make_dataset(n_classes)
    settings = CompareSettings(rounds=5, num_leaves=6, learning_rate=0.2, search=2, gap=1, warmup=1)
    model, watch = contender.make(settings), Stopwatch()
    contender.engine.fit(model, data.X[::2], data.y[::2], watch)
    stages = list(contender.engine.staged_probabilities(model, data.X[1::2], watch))
    assert [index for _, index, _ in stages] == list(range(5)) == list(range(len(watch.rounds)))
    np.testing.assert_allclose(stages[-1][2], model.predict_proba(data.X[1::2]), atol=1e-6)
    shorter = contender.make(CompareSettings(rounds=3, num_leaves=6, learning_rate=0.2, search=2, gap=1, warmup=1))
    shorter.fit(data.X[::2], data.y[::2])
    np.testing.assert_allclose(stages[2][2], shorter.predict_proba(data.X[1::2]), atol=1e-6)


def test_curves_in_chunks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightgbm")
    data = make_dataset(4)
    (contender,) = select(["abc-lightgbm"])
    arguments = (contender, SMALL, data.X[::2], data.y[::2], data.X[1::2], data.y[1::2])
    whole = fit_and_score(*arguments)
    monkeypatch.setattr("abc_plugins.compare.budgets.engines._CELLS_PER_CHUNK", 1000)
    parts = fit_and_score(*arguments)
    assert whole["errors"] == parts["errors"]
    assert whole["wrong"] == parts["wrong"]
    np.testing.assert_allclose(whole["log_loss"], parts["log_loss"])


# ------------------------------------------------------------------------------------------------ one fit


class Oracle:
    """Predicts given probabilities."""

    def __init__(self, probabilities: Any) -> None:
        self.probabilities = np.array(probabilities, dtype=float)

    def predict_proba(self, X: Any) -> Any:
        return self.probabilities[X[:, 0].astype(int)]

    def get_params(self) -> dict[str, Any]:
        return {"kind": "oracle", "nothing": None}


class OracleEngine:
    def fit(self, _: Any, __: Any, y: Any, watch: Stopwatch) -> None:
        assert set(y) == {0, 1}
        watch.start()
        watch.begin_rounds()
        watch.end_round()
        watch.end_round()
        watch.end()

    def staged_probabilities(self, model: Any, X: Any, _: Stopwatch) -> Any:
        yield slice(None), 0, 1 - model.predict_proba(X)
        yield slice(None), 1, model.predict_proba(X)

    def trees(self, *_: Any) -> list[int]:
        return [2, 4]

    def bases(self, _: Any) -> None:
        return None


def test_errors_and_log_loss_are_those_of_the_test_rows() -> None:
    X = np.arange(6.0).reshape(6, 1)
    probabilities = [[1, 0], [0, 1], [0.75, 0.25], [0.6, 0.4], [0, 1], [0.5, 0.5]]
    entrant = BudgetContender(
        "oracle", "oracle", "abc_plugins", None, None, lambda _: Oracle(probabilities), OracleEngine()
    )
    y_test = np.array([0, 1, 0, -1])  # the last label was not seen in training
    fit = fit_and_score(entrant, CompareSettings(), X[:2], np.array([0, 1]), X[2:], y_test)
    assert fit["errors"] == [2, 3]  # the first round predicts the contrary
    assert fit["log_loss"][1] == pytest.approx(-(np.log(0.75) + np.log(0.4) + 2 * np.log(1e-15)) / 4)
    assert fit["trees"] == [2, 4]
    assert fit["parameters"] == {"kind": "oracle"}
    assert unpack_wrong(fit["wrong"], 4).tolist() == [False, True, True, True]
    assert set(fit["phases"]) == {"preparing", "rounds", "searching", "finishing", "predicting"}


def test_trees_and_bases_of_the_schedule() -> None:
    data = make_dataset(4)
    for contender in INSTALLED:
        fit = fit_and_score(contender, SMALL, data.X[::2], data.y[::2], data.X[1::2], data.y[1::2])
        if contender.key == "directional":
            assert fit["trees"] == [1, 2, 3, 4, 5, 6]
            assert fit["bases"] is None
        elif not contender.is_adaptive:
            assert fit["trees"] == [4, 8, 12, 16, 20, 24]
            assert fit["bases"] is None
            assert fit["phases"]["searching"] == 0.0
        else:  # a classic round, then a search over two of four classes (5 distinct trees) every second round
            assert fit["trees"] == [4, 9, 12, 17, 20, 25], contender.key
            assert fit["bases"][0] == -1
            assert min(fit["bases"][1:]) >= 0
            assert fit["bases"][1] == fit["bases"][2]
            assert fit["phases"]["searching"] > 0.0
        assert np.all(np.diff(fit["seconds"]) >= 0)


# ------------------------------------------------------------------------------------------------ splits, resuming


def test_splits_are_those_of_the_literature_only_if_there_is_one() -> None:
    data = make_dataset()
    fixed = Dataset("fixed", data.X, data.y, data.feature_names, np.arange(60), np.arange(60, 240))
    one, several = BudgetPlan(fixed, SMALL, [], splits=1), BudgetPlan(fixed, SMALL, [], splits=3)
    assert one.rows(0)[0].tolist() == list(range(60))
    assert several.rows(0)[0].tolist() != list(range(60))
    assert several.rows(0)[0].size == 60
    assert several.rows(0)[0].tolist() != several.rows(1)[0].tolist()
    assert BudgetPlan(data, SMALL, [], splits=1).rows(0)[0].size == 120
    with pytest.raises(ValueError, match=r"test_size must be a number at least 0.01 and at most 0.99; got 1.5"):
        BudgetPlan(data, SMALL, [], test_size=1.5)


def test_a_run_that_was_stopped_goes_on(
    small_plan: BudgetPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(small_plan, tmp_path / "a")
    real_fit, fitted, limit = BudgetPlan.fit, [], [3]

    def fit_or_stop(plan: BudgetPlan, contender: BudgetContender, split: int) -> dict[str, Any]:
        if len(fitted) == limit[0]:
            raise KeyboardInterrupt
        fitted.append((contender.key, split))
        return real_fit(plan, contender, split)

    monkeypatch.setattr(BudgetPlan, "fit", fit_or_stop)
    with pytest.raises(KeyboardInterrupt):
        run(small_plan, tmp_path / "b")
    with open(tmp_path / "b" / "runs.jsonl", "a") as file:
        file.write('{"contender": "abcrob')  # killed while it wrote
    fitted.clear()
    limit[0] = 4
    resumed = run(small_plan, tmp_path / "b")
    assert fitted == [("abcrobustlogit", 1)]
    assert [(fit["contender"], fit["split"], fit["errors"]) for fit in resumed] == [
        (fit["contender"], fit["split"], fit["errors"]) for fit in whole
    ]
    fitted.clear()
    assert run(small_plan, tmp_path / "b") == resumed
    assert fitted == []
    run(small_plan, tmp_path / "b", fresh=True)
    assert len(fitted) == 4


def test_results_of_another_comparison_are_refused(small_plan: BudgetPlan, tmp_path: Path) -> None:
    run(small_plan, tmp_path)
    other = BudgetPlan(small_plan.dataset, CompareSettings(rounds=7), small_plan.contenders, splits=2)
    message = "has results of another comparison: settings.rounds is 6 there and 7 here. Name another folder with --out"
    with pytest.raises(ValueError, match=message):
        run(other, tmp_path)
    with pytest.raises(ValueError, match=r"data.sha256 is '\w+' there"):
        run(BudgetPlan(make_dataset(seed=1), SMALL, small_plan.contenders), tmp_path)
    more = BudgetPlan(small_plan.dataset, SMALL, select(["mart", *FEW]), splits=3)
    assert len(run(more, tmp_path)) == 9


@pytest.mark.parametrize("text", ["hello\n", "3\n", "[1, 2]\n", '{"data": 1}\n{"contender": "mart"}\n'])
def test_a_file_that_is_no_store(tmp_path: Path, text: str) -> None:
    (tmp_path / "runs.jsonl").write_text(text)
    with pytest.raises(ValueError, match="is not a file of kept results"):
        RunStore(tmp_path, {"data": 1})


def test_progress_tells_the_time_left(small_plan: BudgetPlan, tmp_path: Path) -> None:
    told: list[Any] = []
    run(small_plan, tmp_path, progress=lambda *arguments: told.append(arguments))
    assert [(done, total) for done, total, _, _ in told] == [(0, 4), (0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert told[0][2] == "warming up"
    assert told[2][2] == "ABC: abcrobustlogit, split 1 of 2"
    assert np.isnan(told[1][3])
    assert told[2][3] > 0
    assert told[-1][2:] == ("done", 0.0)


# ------------------------------------------------------------------------------------------------ the command


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: Any) -> tuple[int, str, str]:
        budget = [] if "--budget" in arguments else ["--budget", "equal-rounds"]
        code = cli.main(["compare", *map(str, arguments), *budget])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


def test_the_command_with_all_contenders(command: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    options = ["iris", "--rounds", 4, "--leaves", 4, "--splits", 2, "--gap", 1, "--warmup", 1]
    code, out, err = command(*options)
    assert code == 0, err
    assert "fit 0/" in err
    folder = tmp_path / "compare-iris"
    results = json.loads((folder / "results.json").read_text())
    assert [row["contender"] for row in results["table"]] == [contender.key for contender in INSTALLED]
    assert (
        results["command"]
        == "abc-plugins compare iris --rounds 4 --leaves 4 --splits 2 --gap 1 --warmup 1 --budget equal-rounds"
    )
    assert results["settings"]["search"] is None
    assert (results["data"]["n_train"], results["data"]["seeds"]) == (75, [0, 1])
    lines = [re.split(r" {2,}", line.strip()) for line in out.splitlines()]
    for row in [*map(cells, results["table"]), *map(pair_cells, results["pairs"])]:
        assert list(filter(None, row)) in lines
    with open(folder / "results.csv", newline="") as file:
        points = list(csv.DictReader(file))
    assert len(points) == 2 * len(INSTALLED)
    assert {(p["contender"], float(p["error"])) for p in points} == {
        (p["contender"], p["error"]) for p in results["points"]
    }
    page = Page()
    page.feed((folder / "index.html").read_text())
    assert len(page.sources) == 10  # wide and narrow
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    for row in results["table"]:
        assert set(cells(row)) <= set(page.texts)
    for text in (results["command"], results["machine"]["processor"]):
        assert any(text in cell for cell in page.texts)
    assert len(list(folder.glob("*.svg"))) == 10


def test_the_numbers_printed_are_the_means_of_the_file(command: Run) -> None:
    code, out, err = command("iris", "--engines", *FEW, "--rounds", 3, "--splits", 3, "--out", "o", "--quiet")
    assert (code, err) == (0, "")
    points = json.loads(Path("o/results.json").read_text())["points"]
    own = [point for point in points if point["contender"] == "abcrobustlogit"]
    line = next(line for line in out.splitlines() if line.startswith("ABC: abcrobustlogit  "))
    errors = [100 * point["errors"] / point["n_test"] for point in own]
    assert f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1) / np.sqrt(3):.2f}" in line
    assert f"{np.mean([point['log_loss'] for point in own]):.4f} ±" in line
    assert f"  {np.mean([point['trees'] for point in own]):.0f}  " in line


def test_the_command_again_prints_the_same(command: Run) -> None:
    options = ["iris", "--engines", *FEW, "--rounds", 3, "--splits", 2]
    _, first, _ = command(*options)
    _, second, err = command(*options)
    assert first == second
    assert "warming up" not in err
    _, other, _ = command(*options, "--budget", "equal-trees")
    assert "; equal-trees" in other
    code, _, err = command(*options[:-3], 4)
    assert code == 1
    assert "settings.rounds is 3 there and 4 here" in err
    assert command(*options[:-3], 4, "--force")[0] == 0


def test_the_command_on_a_file(command: Run, tmp_path: Path) -> None:
    data = load("iris")
    lines = [
        f"{','.join(map(str, row))},class {label},{index}"
        for index, (row, label) in enumerate(zip(data.X, data.y, strict=True))
    ]
    (tmp_path / "flowers.csv").write_text("a,b,c,d,kind,id\n" + "\n".join(lines))
    options = ["--target", "kind", "--drop", "id", "--engines", *FEW, "--rounds", 2, "--test-size", 0.4, "--splits", 1]
    code, out, err = command("flowers.csv", *options)
    assert code == 0, err
    assert out.startswith("flowers.csv: 90 training and 60 test rows (1 random splits, seed 0), 4 features, 3 classes")
    assert "McNemar's exact test" in out
    assert (tmp_path / "compare-flowers" / "index.html").exists()


def test_without_matplotlib_there_is_a_page_without_pictures(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abc_plugins.compare.command.find_spec", lambda _: None)
    code, out, _ = command("iris", "--engines", "mart", "--rounds", 2, "--splits", 1, "--out", "o")
    assert code == 0
    assert "a page without pictures (matplotlib is missing)" in out
    assert sorted(path.name for path in Path("o").iterdir()) == [
        "index.html",
        "results.csv",
        "results.json",
        "runs.jsonl",
    ]
