"""Break the code on purpose, one small change at a time, and see whether a test fails.

    python benchmarks/reliability/mutants.py schedule pairs --out mutants.jsonl

A change (a mutant) is made while the module is imported; no file changes. Tools that write files would make the cache
of compiled kernels stale with every mutant, and each would be compiled for half a minute. Functions that Numba
compiles are left alone, and so are texts and annotations. Each mutant gets a forked process of its own, which runs the
tests of its module until the first one fails. Linux only.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_ROUNDS = ["tests/core/test_directional_rounds.py", "tests/core/test_directional.py"]
TESTS = {
    "core.schedule": ["tests/core/test_schedule.py", "tests/core/test_booster.py", "tests/core/test_pair_scores.py"],
    "core.settings": ["tests/classifier/test_parameters.py", "tests/bad_input/test_bad_input.py", *_ROUNDS],
    "core.rounds": ["tests/core/test_core_against_naive.py", *_ROUNDS],
    "core.pairs": ["tests/core/test_schedule.py", "tests/core/test_booster.py", "tests/core/test_pair_scores.py"],
    "core.pair_rounds": ["tests/core/test_pair_rounds.py"],
    "core.directional.schedule": _ROUNDS,
    "core.directional.shape": _ROUNDS,
    "core.directional.rounds": _ROUNDS,
    "core.runtime.checks": ["tests/runtime/test_checks.py"],
}
"""Module -> its tests, the quick ones first."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_COMPILED = ("kernel", "summing_kernel", "part_of_kernel")


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            changed = copy.copy(node)
            changed.ops = [_COMPARISONS[type(operator)]() if i == j else other for j, other in enumerate(node.ops)]
            yield changed
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS:
        changed = copy.copy(node)
        changed.op = _OPERATORS[type(node.op)]()
        yield changed
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)
    if isinstance(node, ast.If):
        yield ast.If(ast.Constant(True), node.body, node.orelse)
        yield ast.If(ast.Constant(False), node.body, node.orelse)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.AugAssign | ast.Break) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield ast.Pass()


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """All (parent, field, index) whose node may change: not texts, annotations, or what Numba compiles."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
                continue
            if isinstance(node, ast.FunctionDef) and {ast.unparse(item) for item in node.decorator_list} & {*_COMPILED}:
                continue
            yield tree, field, index
            yield from places(node)


def mutants(source: str) -> Iterator[tuple[int, str, CodeType]]:
    """Line, description and code of every mutant of a module."""
    tree = ast.parse(source)
    for parent, field, index in places(tree):
        node = getattr(parent, field) if index is None else getattr(parent, field)[index]
        for changed in variants(node):
            ast.copy_location(changed, node)
            _put(parent, field, index, changed)
            line = getattr(node, "lineno", getattr(parent, "lineno", 0))
            what = f"{_short(node)}  ->  {_short(changed)}"
            yield line, what, compile(ast.fix_missing_locations(copy.deepcopy(tree)), "<mutant>", "exec")
            _put(parent, field, index, node)


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _short(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split("\n")[0][:90]


class MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports one module from the code of a mutant."""

    def __init__(self, module: str, code: CodeType) -> None:
        self.module, self.code = module, code

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:  # noqa: ARG002
        """The module's own place, with this loader."""
        if fullname != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None
        spec.loader = self
        return spec

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """The mutant."""
        return self.code

    def get_source(self, fullname: str) -> None:
        """A mutant has no text."""


def outcome(module: str, code: CodeType, tests: Sequence[str], seconds: float) -> str:
    """Run the tests on a mutant in a process of its own: "killed", "survived" or "endless"."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            os.setsid()
            sys.meta_path.insert(0, MutantFinder(module, code))
            import pytest

            status = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "killed"
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "endless"


def preload() -> None:
    """Import what all mutants need, and nothing of the project."""
    for package in ("numba", "pandas", "pytest", "scipy.stats", "sklearn.datasets", "sklearn.utils.estimator_checks"):
        importlib.import_module(package)
    assert not [name for name in sys.modules if name.startswith("abc_plugins.")]


def run(name: str, out: Path, limit: float, more: Sequence[str], only: set[tuple[int, str]] | None) -> None:
    """Try the mutants of a module that the file does not have yet."""
    module = f"abc_plugins.{name}"
    path = ROOT / Path(*module.split(".")).with_suffix(".py")
    tests = [*TESTS[name], *more]
    kept = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(one["module"], one["line"], one["change"]) for one in kept}
    source = path.read_text(encoding="utf-8")
    if outcome(module, compile(source, str(path), "exec"), tests, 20 * limit) != "survived":
        raise SystemExit(f"{name}: the tests fail without any change")
    with out.open("a", encoding="utf-8") as file:
        for line, change, code in mutants(source):
            if (name, line, change) in done or (only is not None and (line, change) not in only):
                continue
            result = outcome(module, code, tests, limit)
            file.write(json.dumps({"module": name, "line": line, "change": change, "result": result}) + "\n")
            file.flush()
            if result == "survived":
                print(f"{path.relative_to(ROOT)}:{line}: {change}", flush=True)


def report(out: Path) -> None:
    """Count the outcomes by module."""
    kept = [json.loads(line) for line in out.read_text().splitlines()]
    print("| module | mutants | killed | survived |\n|---|---|---|---|")
    for name in dict.fromkeys(one["module"] for one in kept):
        results = [one["result"] for one in kept if one["module"] == name]
        survived = results.count("survived")
        print(f"| {name} | {len(results)} | {len(results) - survived} | {survived} |")


def main() -> None:
    """Try mutants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"some of {', '.join(TESTS)}; default: all")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"), help="what was tried is not tried again")
    parser.add_argument("--seconds", type=float, default=60.0, help="a mutant that takes longer is endless, so killed")
    parser.add_argument("--more", nargs="+", default=[], metavar="TEST", help="tests to run, too")
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="try only what survived in this file")
    arguments = parser.parse_args()
    for name in arguments.modules or TESTS:
        if name not in TESTS:
            parser.error(f"{name} is none of {', '.join(TESTS)}")
    out, survivors = arguments.out.resolve(), arguments.survivors and arguments.survivors.resolve()
    preload()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for name in arguments.modules or TESTS:
        only = None
        if survivors:
            lines = map(json.loads, survivors.read_text().splitlines())
            only = {(o["line"], o["change"]) for o in lines if o["module"] == name and o["result"] == "survived"}
        run(name, out, arguments.seconds, arguments.more, only)
    report(out)


if __name__ == "__main__":
    main()
