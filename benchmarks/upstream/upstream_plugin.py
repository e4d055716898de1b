"""Pytest plugin of `upstream_tests.py`: sends the multi-class calls of LightGBM's or XGBoost's tests to the adapter.

The environment variable ABC_UPSTREAM is "library:mode". Mode "stock" runs the library itself; mode "adapter" gives the
training of softmax models of more than two classes to abc_plugins and all else to the library. Both note which tests
train such a model. ABC_UPSTREAM_REPORT names the file for the outcome of every test.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import pkgutil
from typing import Any

LIBRARY, MODE = os.environ["ABC_UPSTREAM"].split(":")
_concerned: set[str] = set()  # filled while one test runs
_outcomes: dict[str, dict[str, Any]] = {}
_inside = False


def pytest_configure() -> None:
    """Exchange the library's functions before any test module imports them."""
    (_prepare_lightgbm if LIBRARY == "lightgbm" else _prepare_xgboost)()


def pytest_runtest_setup() -> None:
    """Forget the test before."""
    _concerned.clear()


def pytest_runtest_teardown(item: Any) -> None:
    """Send what was seen along with the report, also from a process of pytest-xdist."""
    item.user_properties.append(("multiclass", bool(_concerned)))


def pytest_runtest_logreport(report: Any) -> None:
    """Note the outcome of a test: its worst phase, and the end of the error message."""
    seen = _outcomes.setdefault(report.nodeid, {"outcome": "passed", "multiclass": False, "message": ""})
    seen["multiclass"] |= bool(dict(report.user_properties).get("multiclass"))
    if report.outcome != "passed":
        seen["outcome"] = "skipped" if report.outcome == "skipped" else "failed"
        crash = getattr(report.longrepr, "reprcrash", None)
        seen["message"] = str(crash.message if crash else report.longrepr)[:400]


def pytest_sessionfinish(session: Any) -> None:
    """Write the outcomes; processes of pytest-xdist leave that to the one that started them."""
    if not hasattr(session.config, "workerinput"):
        with open(os.environ["ABC_UPSTREAM_REPORT"], "w") as file:
            json.dump(_outcomes, file)


def _prepare_lightgbm() -> None:
    import lightgbm
    import lightgbm.compat
    import lightgbm.sklearn

    import abc_plugins.lgbm as adapter

    def is_multiclass(params: Any) -> bool:
        names = lightgbm.basic._ConfigAliases
        objective = [params[name] for name in names.get("objective") if name in params]
        classes = [params[name] for name in names.get("num_class") if name in params]
        return bool(objective and objective[0] in ("multiclass", "softmax")) and (not classes or int(classes[0]) > 2)

    # LightGBM 4.7 has fewer of these, and tests of a checkout that is a little older import them.
    for module in ("dask", "graphviz", "matplotlib", "pandas", "pyarrow"):
        if not hasattr(lightgbm.compat, flag := f"{module.upper()}_INSTALLED"):
            setattr(lightgbm.compat, flag, importlib.util.find_spec(module) is not None)
    if lightgbm.compat.PYARROW_INSTALLED:
        pyarrow = importlib.import_module("pyarrow")
        for name in ("array", "chunked_array", "Table", "Array", "ChunkedArray", "compute"):
            if not hasattr(lightgbm.compat, f"pa_{name}"):
                setattr(lightgbm.compat, f"pa_{name}", getattr(pyarrow, name, None))
    _exchange(lightgbm, "train", adapter.train, is_multiclass)
    _exchange(lightgbm, "cv", adapter.cv, is_multiclass)
    _exchange(lightgbm.sklearn, "train", None, is_multiclass)
    if MODE == "adapter":
        lightgbm.LGBMClassifier = adapter.ABCLGBMClassifier
        _exchange(adapter.estimator, "train", None, is_multiclass)


def _prepare_xgboost() -> None:
    import xgboost
    import xgboost.sklearn
    import xgboost.testing

    import abc_plugins.xgb as adapter

    def is_multiclass(params: Any) -> bool:
        objective = params.get("objective") if hasattr(params, "get") else None
        return str(objective).startswith("multi:") and int(params.get("num_class") or 0) > 2

    modules = [xgboost, xgboost.sklearn]
    for module in pkgutil.iter_modules(xgboost.testing.__path__, "xgboost.testing."):
        if not module.name.endswith(("dask", "federated")):
            modules.append(importlib.import_module(module.name))
    for module in modules:
        for name, exchanged in (("train", adapter.train), ("train_fn", adapter.train), ("cv", adapter.cv)):
            if callable(getattr(module, name, None)):
                _exchange(module, name, None if module is xgboost.sklearn else exchanged, is_multiclass)
        if MODE == "adapter" and module is not xgboost.sklearn and hasattr(module, "XGBClassifier"):
            module.XGBClassifier = adapter.ABCXGBClassifier


def _exchange(module: Any, name: str, adapter: Any, is_multiclass: Any) -> None:
    """Let calls of `module.name` that concern multi-class be noted and, in mode adapter, made by `adapter` if any."""
    stock = getattr(module, name)
    chosen = stock if MODE == "stock" or adapter is None else adapter

    @functools.wraps(stock)
    def call(params: Any, *args: Any, **kwargs: Any) -> Any:
        global _inside
        if _inside or not is_multiclass(params):
            return stock(params, *args, **kwargs)
        _concerned.add(name)
        _inside = True  # the adapter calls the library in turn
        try:
            return chosen(params, *args, **kwargs)
        finally:
            _inside = False

    setattr(module, name, call)
