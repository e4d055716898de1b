"""The site: Python blocks of the guide run as they stand, tables name parameters that exist, examples have a title."""

import ast
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from abc_plugins.cli import main

ROOT = Path(__file__).parents[2]
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "README.md"]
BLOCKS = {
    page.stem: re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for page in GUIDE
}


@pytest.mark.parametrize("page", [name for name, blocks in BLOCKS.items() if blocks])
def test_blocks_of_the_guide_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(BLOCKS[page]), f"docs/guide/{page}.md", "exec"), {})


OTHER_BLOCKS = {"index": 1, "lightgbm": 2, "xgboost": 1, "reliability": 1, "tuning": 2}
"""Page -> how many of its first Python blocks are run; the others need a cluster or files that are not there."""

SHORTER = {", 200": ", 20", "n_trials=50": "n_trials=2, cv=3, repeats=1", "n_estimators=5000": "n_estimators=40"}
"""So that the blocks take less time."""


@pytest.mark.parametrize("page", OTHER_BLOCKS)
def test_blocks_of_other_pages_run(page, tmp_path, monkeypatch):
    """On data that the pages take for granted."""
    from sklearn.datasets import load_iris

    from abc_plugins import ABCBoostClassifier

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    X, y = load_iris(return_X_y=True)
    parts = {"X": X[::2], "y": y[::2], "X_valid": X[1::4], "y_valid": y[1::4], "X_test": X[3::4], "y_test": y[3::4]}
    names = {**parts, "params": {"objective": "multi:softprob" if page == "xgboost" else "multiclass", "num_class": 3}}
    names["ABCBoostClassifier"] = ABCBoostClassifier
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)[: OTHER_BLOCKS[page]]
    assert len(blocks) == OTHER_BLOCKS[page]
    code = "\n".join(blocks)
    for given, shorter in SHORTER.items():
        code = code.replace(given, shorter)
    exec(compile(code, f"docs/{page}.md", "exec"), names)


def test_blocks_of_the_page_on_deployment_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    """Python, and what is typed in a shell."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|bash)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert {kind for kind, _ in blocks} == {"python", "bash"}
    names = {}
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, "docs/deployment.md", "exec"), names)
        else:
            for program, *arguments in map(shlex.split, block.splitlines()):
                assert program == "abc-plugins"
                assert main(arguments) == 0, capsys.readouterr().err


def parameter_rows(page):
    """Cells of the table under "## Parameters"."""
    text = (ROOT / "docs" / "guide" / f"{page}.md").read_text(encoding="utf-8")
    section = text.split("## Parameters")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return rows[2:]


@pytest.mark.parametrize(("page", "library", "estimator"), [
    ("from-lightgbm", "lightgbm", "LGBMClassifier"),
    ("from-xgboost", "xgboost", "XGBClassifier"),
])  # fmt: skip
def test_tables_name_parameters_that_exist(page, library, estimator):
    from abc_plugins import ABCBoostClassifier

    theirs = getattr(pytest.importorskip(library), estimator)().get_params()
    ours = ABCBoostClassifier().get_params()
    rows = parameter_rows(page)
    assert len(rows) > 12
    for left, right, _ in rows:
        assert set(re.findall(r"`(\w+)`", right)) <= set(ours), right
        assert re.findall(r"`(\w+)`", left), left
    named = {name for left, _, _ in rows for name in re.findall(r"`(\w+)`", left)}
    assert len(named & set(theirs)) > 10


def test_names_of_metrics_in_the_tables_are_understood():
    from abc_plugins.training.metrics import ALIASES

    assert {"multi_logloss", "multi_error", "mlogloss", "merror"} <= set(ALIASES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_pages_name_exist(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`(?:python )?((?:examples|benchmarks|tests|abc_plugins|docs)/[\w/.-]+\.(?:py|md|png))", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("plot_*.py")), ids=lambda path: path.name)
def test_examples_of_the_gallery_have_a_title(path):
    lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()
    assert len(lines) > 2
    assert lines[1] == "=" * len(lines[0])


def test_what_the_guide_says_is_missing_is_missing():
    from abc_plugins import ABCBoostClassifier

    for page in ("from-lightgbm", "from-xgboost"):
        text = (ROOT / "docs" / "guide" / f"{page}.md").read_text(encoding="utf-8")
        sentence = re.search(r"There is nothing for (.*?)\.", text, flags=re.DOTALL).group(1)
        missing = set(re.findall(r"`(\w+)`", re.sub(r"\(use .*?\)", "", sentence)))
        assert missing
        assert not missing & set(ABCBoostClassifier().get_params())


def test_numbers_of_early_stopping():
    from abc_plugins.training.stopping import ENOUGH_ROWS, PATIENCE

    pages = {
        name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("guide/stopping", "parameters")
    }
    assert f"with {ENOUGH_ROWS} rows or more" in pages["guide/stopping"]
    assert f"stops after {PATIENCE} rounds without improvement" in pages["guide/stopping"]
    assert f"rounds without improvement that end a training: {PATIENCE} |" in pages["parameters"]
    given = vars(settings_of_the_classifier())
    assert f"at most {given['n_estimators']:,} with early stopping" in pages["parameters"]
    assert f"{given['learning_rate']:g} with directional trees and early stopping" in pages["parameters"]


def settings_of_the_classifier():
    """What the parameters of a classifier as it comes stand for when it stops early."""
    from abc_plugins import ABCBoostClassifier
    from abc_plugins.core.settings import Settings, check_settings

    given = ABCBoostClassifier().get_params()
    names = [field.name for field in fields(Settings) if field.name != "seed"]
    return check_settings(stops_early=True, seed=0, **{name: given[name] for name in names})


@pytest.mark.parametrize(
    "module", ["abc_plugins", "abc_plugins.lgbm", "abc_plugins.xgb", "abc_plugins.compare", "tuning"]
)
def test_the_reference_lists_all_public_names(module):
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set()
    for section in text.split(".. currentmodule:: ")[1:]:
        if section.split("\n", 1)[0].strip() == module:
            listed |= set(re.findall(r"^   ([\w.]+)$", section.split("```")[0], flags=re.MULTILINE))
    public = set(pytest.importorskip(module).__all__) - {"__version__", "SKOPS_TRUSTED_TYPES"}
    assert {name for name in listed if "." not in name} == public


def anchors(page):
    """Anchors of the headings of a page, as GitHub and myst make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = [line.lstrip("#").strip().lower() for line in text.splitlines() if re.match(r"#{1,3} ", line)]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_to_a_heading(page):
    links = re.findall(r"\]\(((?:[\w./-]+\.md)?)#([\w-]+)\)", page.read_text(encoding="utf-8"))
    for target, anchor in links:
        where = (page.parent / target).resolve() if target else page
        assert where.exists(), target
        assert anchor in anchors(where), f"{target}#{anchor}"
