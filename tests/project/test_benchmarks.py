"""The studies: which cells they have, that they go on where they stopped, and how their data are made."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "paper"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "upstream"))

import common
import paper
import paper_data
import upstream_tests
from leagues import practice, report, sizes, tuned


def run_one(cell: dict[str, Any]) -> dict[str, Any]:
    return {**cell, "square": cell["x"] ** 2, "summary": "done"}


def test_cells_that_are_kept_are_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results" / "study.jsonl"
    cells = [{"x": x} for x in (1, 2, 2, 3)]
    common.run_cells(cells[:2], run_one, path, ("x",), 1)
    with path.open("a") as file:
        file.write('{"x": 3, "squ')  # stopped while it wrote
    common.run_cells(cells, run_one, path, ("x",), 1)
    assert [(one["x"], one["square"]) for one in common.read_results(path)] == [(1, 1), (2, 4), (3, 9)]
    assert capsys.readouterr().out.splitlines() == ["1/2 [1]: done", "2/2 [2]: done", "1/1 [3]: done"]


def test_the_studies_have_the_cells_of_the_paper() -> None:
    def found(study: str, size: str = "full") -> list[dict[str, Any]]:
        return [cell["params"] for cell in paper.cells(study, size, ["letter10k"])]

    assert [cell["method"] for cell in found("methods", "reduced")] == [
        "mart",
        "robustlogit",
        "abcmart",
        "abcrobustlogit",
    ]
    assert {(cell["num_leaves"], cell["learning_rate"]) for cell in found("methods")} == {
        (20, 0.1), (20, 0.06), (10, 0.1), (10, 0.06)
    }  # fmt: skip
    assert {cell["search"] for cell in found("search")} == {1, 2, 3, 4, "all"}
    assert {(cell["search"], cell["gap"]) for cell in found("gap")} == {
        (s, g) for s in (1, 2, 3, 4, "all") for g in (0, 5, 10, 20, 100, 200, 500)
    }
    assert {cell["warmup"] for cell in found("warmup")} == {0, 10, 100}
    for study in paper.STUDIES:
        full = [str(cell) for cell in found(study)]
        assert all(str(cell) in full for cell in found(study, "reduced"))


def test_fits_of_the_paper_have_the_papers_leaf_values() -> None:
    assert paper.PAPER["leaf_values"] == "paper"
    assert paper.PAPER["guard"] is False


@pytest.mark.parametrize("gamma", [0.0, 0.6])
def test_backgrounds_are_uniform_and_correlated_as_they_should(gamma: float) -> None:
    images = paper_data.background(3000, gamma, np.random.default_rng(0))
    assert images.shape == (3000, 784)
    assert images.dtype == np.uint8
    shares = np.bincount(images[:, ::40].ravel() // 64, minlength=4) / images[:, ::40].size
    np.testing.assert_allclose(shares, 0.25, atol=0.02)
    neighbours = np.corrcoef(images[:, 400].astype(float), images[:, 401].astype(float))[0, 1]
    far = np.corrcoef(images[:, 0].astype(float), images[:, 783].astype(float))[0, 1]
    assert abs(far) < 0.1
    # Of a Gaussian pair with correlation r the uniform marginals have 6/pi asin(r/2).
    expected = 6 / np.pi * np.arcsin(gamma * np.exp(-1 / 72) / 2)
    assert neighbours == pytest.approx(expected, abs=0.06)


FEW = ["directional", "lightgbm"]


@pytest.fixture
def iris_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abc_plugins.data.datasets.load", lambda _, load=_iris: load())
    for cached in (practice.table_of, sizes._cut_classes):
        cached.cache_clear()
    yield
    for cached in (practice.table_of, sizes._cut_classes):
        cached.cache_clear()


@pytest.mark.usefixtures("iris_for_all")
def test_the_league_fits_and_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    pytest.importorskip("optuna")
    monkeypatch.setattr(practice, "ROUNDS", 5)
    monkeypatch.setattr(tuned, "ROUNDS", 5)
    cells = list(practice.cells(["vowel"], [0, 1], FEW))
    assert [(cell["seed"], cell["which"]) for cell in cells] == [(0, FEW[0]), (0, FEW[1]), (1, FEW[0]), (1, FEW[1])]
    rows = [practice.run_cell(cell) for cell in cells]
    assert all(row["n"] == 60 and row["K"] == 3 and row["it"] <= 5 and row["err"] < 0.3 for row in rows)
    searched = [tuned.run_cell(cell) for cell in tuned.cells(["vowel"], [0], FEW, 3, 1000.0)]
    assert all(row["done"] == 3 and set(row) >= {"ll", "default_ll", "search_cpu"} for row in searched)
    blocks = report.make_blocks([*rows, *searched])
    out = "\n".join(blocks.values())
    report.draw_practice(rows, tmp_path / "league.svg")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- league: tuned -->\nold\n<!-- /league -->\nafter\n<!-- league: none -->\n")
    report.put_into(page, blocks)
    marked = f"<!-- league: tuned -->\n{blocks['tuned']}\n<!-- /league -->"
    assert page.read_text() == f"before\n{marked}\nafter\n<!-- league: none -->\n"
    own, other = (np.mean([row["ll"] for row in rows if row["which"] == key]) for key in FEW)
    assert f"/ {own:.4f}" in out
    assert f"| LightGBM     | **{own / other:.2f}** |" in out
    assert f"{searched[0]['default_ll']:.4f} → " in out
    assert (tmp_path / "league.svg").exists()


@pytest.mark.usefixtures("iris_for_all")
@pytest.mark.parametrize("which", tuned.CONTENDERS)
def test_every_space_is_accepted_and_searched(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    pytest.importorskip("optuna")
    if which != "directional":
        pytest.importorskip(which)
    monkeypatch.setattr(tuned, "ROUNDS", 3)
    row = tuned.run_cell(next(tuned.cells(["vowel"], [0], [which], 8, 1000.0)))
    assert row["done"] == 8
    assert "learning_rate" in row["params"]  # three rounds of any other shrinkage are better than of the default


def test_a_contender_of_fewer_seeds_is_compared_on_these() -> None:
    fits = [
        *(("directional", 0, 0.1), ("directional", 1, 0.5), ("catboost", 1, 0.4)),
        *(("lightgbm", 0, 0.2), ("lightgbm", 1, 0.5)),
    ]
    rows = [
        {"data": "letter", "K": 26, "seed": seed, "which": which, "err": 0.1, "ll": loss} for which, seed, loss in fits
    ]
    blocks = report.make_blocks(rows)
    assert "| 10.00 / 0.3000     | 10.00 / 0.3500 | **10.00 / 0.4000**‡ |" in blocks["practice"]
    assert "fewer seeds than ours" in blocks["practice"]
    assert "| CatBoost     | **1.25** |" in blocks["means"]
    assert "fewer seeds" not in report.make_blocks(rows[:2] + rows[3:])["practice"]


def test_sizes_are_reported_by_rows_per_class() -> None:
    cut = {"data": "letter", "K": 26, "rows": 520, "classes": None, "err": 0.1}
    rows = [{**cut, "which": "directional", "seed": seed, "ll": 0.1} for seed in (0, 1)]
    rows += [{**cut, "which": "lightgbm", "seed": seed, "ll": 0.1 * 2 ** (1 + 2 * seed)} for seed in (0, 1)]
    assert "| letter | 26      | 520           | 20             | 0.25 (2) |" in report.make_blocks(rows)["sizes"]


@pytest.mark.usefixtures("iris_for_all")
def test_a_search_keeps_the_trial_with_the_lowest_validation_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightgbm")
    pytest.importorskip("optuna")
    losses = iter([0.5, 0.2, 0.3])
    tried: list[dict[str, Any]] = []

    def train(contender: Any, sample: Any, params: dict[str, Any]) -> Any:
        tried.append(params)
        return contender.train(sample, params | {"n_estimators": 2}), 0.0

    monkeypatch.setattr("abc_plugins.compare.practice.fitting.timed_training", train)
    monkeypatch.setattr("abc_plugins.compare.practice.fitting.valid_loss", lambda _: next(losses, 0.9))
    row = tuned.run_cell(next(tuned.cells(["vowel"], [0], ["lightgbm"], 3, 1000.0)))
    assert tried[0] == {}  # its own settings
    assert row["params"] == tried[1] != {}


@pytest.mark.usefixtures("iris_for_all")
def test_cut_sets_have_the_rows_and_classes_asked_for() -> None:
    pytest.importorskip("lightgbm")
    cell = {"data": "vowel", "seed": 0, "which": "lightgbm", "rows": 40, "classes": 2}
    fit = sizes.run_cell(cell)
    assert (fit["n"], fit["K"]) == (32, 2)
    rows = [cell["rows"] for cell in sizes.cells([0], ["lightgbm"])]
    assert rows == sorted(rows)
    assert [cell["rows"] for cell in sizes.cells([0], ["lightgbm"], 500)] == [size for size in rows if size <= 500]


def test_earlier_figures_are_taken_marked_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "earlier.jsonl"
    found = [
        {"data": "gas_drift_8batches", "seed": 0, "which": "catboost", "K": 6, "err": 0.01, "ll": 0.04, "it": 999},
        {"data": "letter", "seed": 0, "which": "lightgbm", "K": 26, "err": 0.07, "ll": 0.24, "s": 1.0, "it": 80},
        {"data": "letter", "seed": 0, "which": "abc-plugins 0.1.0", "K": 26, "err": 0.06, "ll": 0.2, "it": 80},
        {"data": "letter", "seed": 0, "which": "prototype", "K": 26, "err": 0.05, "ll": 0.16, "s": 1.0, "it": 80},
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    rows = practice.earlier_results(path)
    assert [(row["data"], row["which"], row["at_limit"]) for row in rows] == [
        ("gas_drift", "catboost", True),
        ("letter", "lightgbm", False),
        ("letter", "abc-plugins 0.1.0", False),
    ]
    own = [{**rows[1], "ll": 0.2400001, "versions": {}}, {**rows[0], "ll": 0.05, "versions": {}}]
    lines = practice.check_earlier(own, rows)
    assert [line.split()[0] for line in lines] == ["DIFFERENT", "equal"]


def _iris() -> Any:
    from sklearn.datasets import load_iris

    from abc_plugins.data.datasets import Dataset

    X, y = load_iris(return_X_y=True)
    return Dataset("iris", X, y, ["a", "b", "c", "d"])


def test_tests_of_other_libraries_are_judged_by_what_the_library_itself_passes() -> None:
    def found(outcome: str, multiclass: bool = True) -> dict[str, Any]:
        return {"outcome": outcome, "multiclass": multiclass, "message": "because"}

    adapter = {
        "a.py::test_fine": found("passed"),
        "a.py::test_other": found("passed", multiclass=False),
        "a.py::test_broken": found("failed"),
        "a.py::test_dart[1]": found("failed", multiclass=False),
        "a.py::test_of_another_version": found("failed"),
        "a.py::test_regression": found("failed", multiclass=False),
    }
    stock = {
        "a.py::test_broken": found("passed"),
        "a.py::test_dart[1]": found("passed"),
        "a.py::test_of_another_version": found("failed"),
        "a.py::test_regression": found("passed", multiclass=False),
    }
    verdict = upstream_tests.judge(adapter, stock, {"test_dart": "refused"})
    assert verdict.passed == ["a.py::test_fine"]
    assert verdict.by_design == {"a.py::test_dart[1]": "refused"}
    assert verdict.failed == {"a.py::test_broken": "because"}
