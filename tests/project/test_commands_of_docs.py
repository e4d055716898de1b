"""Every command that the documentation names is one that its program understands."""

import argparse
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
SHOWN = re.compile(r"(?:`|^    |^)((?:python benchmarks/|python examples/|abc-plugins )[^`\n]*)", flags=re.MULTILINE)
LEAST = {"fit": 2, "predict": 2, "export": 4, "tune": 2}
"""Words behind a subcommand that make it a whole command, and not just a name."""


class UnderstoodError(Exception):
    """The arguments have been read."""


def commands():
    """Words of all commands, those with three dots or without all that they need left out."""
    found = {}
    for page in PAGES:
        for text in SHOWN.findall(page.read_text(encoding="utf-8")):
            words = shlex.split(text, comments=True)
            if words[0] == "abc-plugins" and len(words) - 2 < LEAST.get(words[1], 0):
                continue
            if "..." not in words:
                found[" ".join(word for word in words if word != "&")] = None
    return list(found)


@pytest.mark.parametrize("command", commands())
def test_arguments_are_understood(command, monkeypatch):
    words = command.split()
    read = argparse.ArgumentParser.parse_known_args

    def read_and_stop(self, args=None, namespace=None):
        _, unknown = read(self, args, namespace)
        assert unknown == []
        raise UnderstoodError

    if words[0] == "abc-plugins":
        from abc_plugins import cli

        monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", read_and_stop)
        with pytest.raises(UnderstoodError):
            cli.main(words[1:])
        return
    path = ROOT / words[1]
    monkeypatch.setenv("ABC_PLUGINS_DATA", str(ROOT))
    monkeypatch.setattr(sys, "argv", [str(path), *words[2:]])
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.syspath_prepend(str(path.parent))
    if "argparse" not in path.read_text(encoding="utf-8"):
        assert len(words) <= 3  # a program of one argument, or none
        return
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", read_and_stop)
    try:
        with pytest.raises(UnderstoodError):
            runpy.run_path(str(path), run_name="__main__")
    except ModuleNotFoundError as error:
        pytest.skip(f"needs {error.name}")


def test_there_are_many():
    assert len(commands()) > 50
