"""The studies: which cells they have, that they go on where they stopped, and how their data are made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "paper"))

import common
import head_to_head
import paper
import paper_data
import upstream_tests


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


def test_tuning_draws_are_the_same_for_all_and_start_with_the_defaults() -> None:
    first, *others = head_to_head.draws(10, 0, 3)
    assert first.num_leaves is None
    assert first.search is None
    assert len(others) == head_to_head.TRIALS - 1
    assert head_to_head.draws(10, 0, 3) == [first, *others]
    assert head_to_head.draws(10, 1, 3) != [first, *others]


def test_held_out_rows_leave_every_class_to_train_on() -> None:
    y = np.repeat([0, 1, 2], [90, 9, 1])
    part, held_out = head_to_head._hold_out(y, 0)
    assert set(y[part]) == {0, 1, 2}
    assert held_out.size == 25
    assert sorted([*part, *held_out]) == list(range(100))


def test_head_to_head_on_a_small_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("abc_plugins.data.datasets.load", lambda _, load=_iris: load())
    head_to_head.split_data.cache_clear()
    engines = list(head_to_head.TITLES.values())
    assert [cell["contender"] for cell in head_to_head.cells("tuned", ["vowel"], 1, 3, ["native"])] == [
        "robustlogit",
        "abcrobustlogit",
    ]
    results = [head_to_head.run_tuned(cell) for cell in head_to_head.cells("tuned", ["vowel"], 1, 3, engines)]
    assert [one["contender"] for one in results] == [key for pair in head_to_head.PAIRS for key in pair]
    assert all(one["errors"] < 20 and one["n_test"] == 75 and one["used_rounds"] <= 3 for one in results)
    head_to_head.report("tuned", results)
    out = capsys.readouterr().out
    assert f"{100 * results[0]['errors'] / 75:.2f} → {100 * results[1]['errors'] / 75:.2f}" in out
    head_to_head.split_data.cache_clear()


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
