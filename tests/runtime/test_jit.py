"""The cache of compiled kernels: it may be missing, it is used, and it knows when any kernel has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from abc_plugins.core.runtime import jit

PACKAGE = Path(__file__).parents[2] / "abc_plugins"

INNER = """
from abc_plugins.core.runtime.jit import kernel

@kernel
def inner(x):
    return x + {number}
"""
OUTER = """
from abc_plugins.core.trees.inner import inner
from abc_plugins.core.runtime.jit import kernel

@kernel
def outer(x):
    return 10 * inner(x)
"""
CALL = """
from abc_plugins.core.outer import outer
print(outer(1), sum(outer.stats.cache_hits.values()))
"""

COMPILE_ALL = """
import importlib, pkgutil, sys
sys.modules["lightgbm"] = sys.modules["xgboost"] = None
from abc_plugins import core
from abc_plugins.compiling import compile_kernels
compile_kernels()
kernels = {}
for module in pkgutil.walk_packages(core.__path__, "abc_plugins.core."):
    for name, kernel in vars(importlib.import_module(module.name)).items():
        of_adapters = module.name.endswith(".additions") or name == "_gradient_row"
        if hasattr(kernel, "signatures") and not of_adapters:
            kernels[kernel.py_func.__module__, name] = kernel
called_by_kernels = {name for kernel in kernels.values() for name in kernel.py_func.__code__.co_names}
for (module, name), kernel in kernels.items():
    if name not in called_by_kernels:
        print(module, name, len(kernel.signatures))
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the core with two kernels that can be changed: one calls the other, which is in another folder."""
    shutil.copytree(PACKAGE, tmp_path / "abc_plugins", ignore=shutil.ignore_patterns("__pycache__", "lgbm", "xgb"))
    write(tmp_path, 1)
    (tmp_path / "abc_plugins" / "core" / "outer.py").write_text(OUTER)
    return tmp_path


def write(folder, number):
    (folder / "abc_plugins" / "core" / "trees" / "inner.py").write_text(INNER.format(number=number))


def run(folder, **environment):
    return [int(number) for number in start(folder, CALL, **environment).stdout.split()]


def start(folder, program, **environment):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_cache_is_used_until_a_kernel_that_is_called_changes(package):
    cache = package / "cache"
    assert run(package, NUMBA_CACHE_DIR=str(cache)) == [20, 0]
    assert list(cache.rglob("*.nbi"))
    assert run(package, NUMBA_CACHE_DIR=str(cache)) == [20, 1]
    write(package, 2)
    assert run(package, NUMBA_CACHE_DIR=str(cache)) == [30, 0]


def test_a_first_kernel_for_another_type_is_not_taken_for_an_empty_cache(package):
    cache = str(package / "cache")
    assert "Compiling the kernels that are needed first" in start(package, CALL, NUMBA_CACHE_DIR=cache).stderr
    other = CALL.replace("outer(1)", "outer(1.5)")
    assert "Compiling kernels that were not needed before" in start(package, other, NUMBA_CACHE_DIR=cache).stderr
    write(package, 2)  # all that is in the cache is stale
    assert "Compiling the kernels that are needed first" in start(package, CALL, NUMBA_CACHE_DIR=cache).stderr


def test_without_any_folder_for_the_cache_kernels_still_run(package):
    """Neither the named folder, nor the one next to the source, nor the user's can be made: a file is in the way."""
    blocked = package / "file"
    blocked.write_text("")
    for folder in ("core", "core/trees"):
        (package / "abc_plugins" / folder / "__pycache__").write_text("")
    nowhere = str(blocked / "below")
    home = {"HOME": nowhere, "USERPROFILE": nowhere, "LOCALAPPDATA": nowhere, "XDG_CACHE_HOME": nowhere}
    assert run(package, NUMBA_CACHE_DIR=nowhere, **home) == [20, 0]
    assert run(package, NUMBA_CACHE_DIR=nowhere, **home) == [20, 0]
    assert not list(package.rglob("*.nbi"))


def test_all_kernels_are_compiled_ahead():
    """Without LightGBM and XGBoost all but those of the adapters."""
    done = subprocess.run([sys.executable, "-c", COMPILE_ALL], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) > 15
    assert [line for line in lines if line.endswith(" 0")] == []


def test_the_message_says_what_is_compiled_and_where_it_is_kept(tmp_path):
    assert "about half a minute" in jit.compile_message(False, tmp_path)
    assert f"kept in {tmp_path}" in jit.compile_message(False, tmp_path)
    assert "were not needed before, which takes up to half a minute" in jit.compile_message(True, tmp_path)
    assert "in every process, as there is no folder" in jit.compile_message(False, None)
