"""Importing the package is cheap: optional libraries and Numba are loaded when they are needed."""

import subprocess
import sys

import pytest

OPTIONAL = ("lightgbm", "xgboost", "optuna", "matplotlib", "dask")


def modules_after(statement):
    code = f"import sys\n{statement}\nprint(*sorted(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    loaded = modules_after("import abc_plugins")
    assert "abc_plugins" in loaded
    assert not loaded & {*OPTIONAL, "numba", "numpy", "sklearn"}


def test_the_native_classifier_needs_no_optional_library():
    loaded = modules_after("from abc_plugins import ABCBoostClassifier")
    assert {"numba", "sklearn"} <= loaded
    assert not loaded & set(OPTIONAL)


def test_public_names():
    import abc_plugins

    assert set(abc_plugins.__all__) <= set(dir(abc_plugins))
    for name in abc_plugins.__all__:
        assert getattr(abc_plugins, name) is not None
    with pytest.raises(AttributeError, match="module 'abc_plugins' has no attribute 'ABCBoostRegressor'"):
        abc_plugins.ABCBoostRegressor  # noqa: B018
