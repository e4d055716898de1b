"""The site: Python blocks of the guide run as they stand, tables name parameters that exist, examples have a title."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = sorted((ROOT / "docs").rglob("*.md"))
BLOCKS = {
    page.stem: re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for page in GUIDE
}


@pytest.mark.parametrize("page", [name for name, blocks in BLOCKS.items() if blocks])
def test_blocks_of_the_guide_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(BLOCKS[page]), f"docs/guide/{page}.md", "exec"), {})


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
