"""The README: every Python block runs as it stands, and every relative link leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)
LINKS = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", TEXT) if "://" not in link]
NEEDS = ("lightgbm", "xgboost")


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_blocks_run_as_they_stand(number, tmp_path, monkeypatch):
    block = BLOCKS[number]
    for package in NEEDS:
        if f"import {package}" in block:
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, f"README.md, Python block {number}", "exec"), {})
    assert {path.name for path in tmp_path.iterdir()} == set(re.findall(r'save_model\("([^"]+)"\)', block))


def test_there_is_a_block_for_each_engine():
    assert [name in "".join(BLOCKS) for name in ("ABCBoostClassifier", *NEEDS)] == [True] * 3


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_links(link):
    assert (ROOT / link).exists()


def test_parameters_in_the_table_are_the_defaults():
    from abc_plugins import ABCBoostClassifier
    from abc_plugins.core.settings import Settings

    defaults, given = vars(Settings()), ABCBoostClassifier().get_params()
    text = (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]+?) \|", text, flags=re.MULTILINE)
    assert len(rows) >= 8
    for name, shown in rows:
        allowed = {str(defaults.get(name)), str(given[name])}
        assert allowed & {shown.strip('`"'), f"{shown}.0"}, name


def test_the_gains_by_number_of_classes_are_those_of_the_league():
    league = (ROOT / "docs" / "head-to-head.md").read_text(encoding="utf-8")
    table = league.partition("<!-- league: practice -->")[2].partition("<!-- /league -->")[0]
    rows = re.findall(r"^\| \w+ \((\d+)\) *\|[^|]*/ ([\d.]+)[^|]*\|[^|]*/ ([\d.]+)", table, flags=re.MULTILINE)
    assert len(rows) >= 10
    few, many = [], []
    for n_classes, ours, lightgbm in rows:
        if min(float(ours), float(lightgbm)) >= 0.005:
            (many if int(n_classes) >= 10 else few).append(round(100 * (1 - float(ours) / float(lightgbm))))
    said = re.search(r"lower by (\d+) to (\d+)% on the sets with ten classes or more, and by (\d+) to (\d+)%", TEXT)
    assert [int(number) for number in said.groups()] == [min(many), max(many), min(few), max(few)]
