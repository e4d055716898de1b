"""The benchmarks that change the code: what they change is there, and only that changes."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "reliability"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "kernels"))

import ablation
import mutants

ROOT = Path(__file__).parents[2]
SOURCE = '''
"""Text stays: 1 < 2."""
LIMIT: int = 3

@kernel
def compiled(x):
    return x + 1

def plain(x, more=True):
    """More text."""
    if x < LIMIT and more:
        raise ValueError(f"{x} is below {LIMIT + 1}")
    return -x
'''


def test_mutants_of_a_module():
    found = [change for _, change, _ in mutants.mutants(SOURCE)]
    assert sorted(found) == sorted([
        "3  ->  4",
        "True  ->  False",
        "if x < LIMIT and more:  ->  if True:",
        "if x < LIMIT and more:  ->  if False:",
        "x < LIMIT and more  ->  x < LIMIT or more",
        "x < LIMIT  ->  x <= LIMIT",
        "return -x  ->  return None",
        "-x  ->  x",
    ])  # fmt: skip


def test_a_mutant_is_what_its_description_says():
    codes = {change: code for _, change, code in mutants.mutants(SOURCE)}
    names = {"kernel": lambda function: function}
    exec(codes["x < LIMIT  ->  x <= LIMIT"], names)
    assert names["compiled"](1) == 2
    assert names["plain"](4) == -4
    with pytest.raises(ValueError, match="3 is below 4"):
        names["plain"](3)


@pytest.mark.parametrize("name", mutants.TESTS)
def test_modules_and_their_tests_exist(name):
    assert (ROOT / "abc_plugins" / Path(*name.split("."))).with_suffix(".py").exists()
    assert all((ROOT / test).exists() for test in mutants.TESTS[name])


@pytest.mark.parametrize("name", ablation.VARIANTS)
def test_what_is_ablated_is_in_the_code(name):
    for file, text, _ in ablation.VARIANTS[name]:
        assert text in (ROOT / "abc_plugins" / file).read_text(encoding="utf-8")
