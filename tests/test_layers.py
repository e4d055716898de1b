"""Imports go only downwards, so that each room can be read without those above it; and no room is crowded."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = [
    ["abc_plugins.core.runtime"],
    # the terms of a round, which trees and models are made of, too
    [f"abc_plugins.core.{name}" for name in ("schedule", "settings", "rounds", "pairs", "losses", "leaves")],
    ["abc_plugins.core.model"],
    ["abc_plugins.core.bins"],
    ["abc_plugins.core.trees"],
    ["abc_plugins.core.directional"],
    ["abc_plugins.core"],
    ["abc_plugins.data"],
    ["abc_plugins.serving"],
    ["abc_plugins.training", "abc_plugins.callbacks"],
    ["abc_plugins.classifier", "abc_plugins.fitted"],
    ["abc_plugins.plot", "abc_plugins.summary", "abc_plugins.machine", "abc_plugins.html_page"],
    ["abc_plugins.lgbm", "abc_plugins.xgb", "abc_plugins.onnx", "abc_plugins.treelite", "abc_plugins.explaining"],
    ["abc_plugins.commands"],
    ["abc_plugins.compare", "abc_plugins.compiling", "abc_plugins.tuning"],
    ["abc_plugins.cli", "abc_plugins.__main__", "abc_plugins.tuning.cli", "tuning"],
]
ALLOWED: dict[tuple[str, str], str] = {}
"""(module, what it imports) -> why that goes upwards all the same."""

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("abc_plugins", "tuning")
    for path in sorted((ROOT / package).rglob("*.py"))
}


def layer(module):
    """The number of the layer with the longest name that the module is, or is in."""
    found = [(len(name), n) for n, names in enumerate(LAYERS) for name in names if f"{module}.".startswith(f"{name}.")]
    return max(found)[1]


def imports(path):
    """Modules of the project that a file imports, in functions as well; not what only the type checker reads."""
    tree = ast.parse(path.read_text())
    for_types = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    skipped = {inner for node in for_types for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in skipped:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in FILES else node.module for name in names)
        elif isinstance(node, ast.Import) and node not in skipped:
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("module", FILES)
def test_imports_go_downwards(module):
    if module == "abc_plugins":
        assert not [name for name in imports(FILES[module]) if name in FILES]  # it loads its names when they are used
        return
    below = {name for name in imports(FILES[module]) if name in FILES and name != "abc_plugins"}
    assert [name for name in below if layer(name) > layer(module) and (module, name) not in ALLOWED] == []


@pytest.mark.parametrize("folder", ["abc_plugins", "tuning", "tests", "benchmarks", "examples"])
def test_no_room_is_crowded(folder):
    for inside in [ROOT / folder, *(ROOT / folder).rglob("*/")]:
        assert len(list(inside.glob("*.py"))) <= 14, inside


@pytest.mark.parametrize("folder", ["abc_plugins", "tuning", "tests", "benchmarks", "examples", "docs"])
def test_no_file_is_long(folder):
    lines = {path: len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py")}
    assert {path: n for path, n in lines.items() if n > 450} == {}


LONG_ON_PURPOSE = {
    "abc_plugins.compare.budgets.contenders.contenders": "one contender after the other",
}
"""Function -> why it may have more than 60 lines."""


def lines_of_body(function):
    """Lines of a function without its arguments and its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("module", FILES)
def test_no_function_is_long(module):
    functions = [node for node in ast.walk(ast.parse(FILES[module].read_text())) if isinstance(node, ast.FunctionDef)]
    lines = {f"{module}.{function.name}": lines_of_body(function) for function in functions}
    assert {name: n for name, n in lines.items() if n > 60 and name not in LONG_ON_PURPOSE} == {}


MANY_ARGUMENTS = {
    "abc_plugins.classifier.__init__": "the parameters of the estimator",
    "abc_plugins.classifier.fit": "what users of LightGBM and scikit-learn give to fit",
    "abc_plugins.lgbm.estimator.__init__": "LGBMClassifier's, and the options of the adapter",
    "abc_plugins.lgbm.crossval.cv": "lightgbm.cv's",
    "abc_plugins.xgb.training.train": "xgboost.train's",
    "abc_plugins.xgb.training.cv": "xgboost.cv's",
    "abc_plugins.xgb.dask.train": "xgboost.dask.train's",
    "abc_plugins.tuning.tuner.tune": "the parameters of a study",
    "abc_plugins.tuning.plan.make_plan": "those of `tune` that trials depend on",
    "abc_plugins.core.runtime.vectors.add_newton_terms": "an intrinsic, which gets arrays and places one by one",
    "abc_plugins.core.runtime.vectors.set_derivatives": "an intrinsic, which gets arrays and places one by one",
}
"""Function -> why it has many arguments: nearly always because users know them by name."""


@pytest.mark.parametrize("module", FILES)
def test_no_function_has_many_arguments(module):
    """More than ten, without self, are a named tuple."""
    functions = [node for node in ast.walk(ast.parse(FILES[module].read_text())) if isinstance(node, ast.FunctionDef)]
    many = {}
    for function in functions:
        names = [one.arg for one in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]]
        if len([name for name in names if name not in ("self", "cls")]) > 10:
            many[f"{module}.{function.name}"] = names
    assert {name: names for name, names in many.items() if name not in MANY_ARGUMENTS} == {}


def test_no_two_classes_have_the_same_name():
    names = {}
    for module, path in FILES.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                names.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in names.items() if len(modules) > 1} == {}
