"""LightGBM's and XGBoost's own Python tests, their multi-class models trained by the adapter.

    python benchmarks/upstream/upstream_tests.py lightgbm PATH     a checkout of github.com/microsoft/LightGBM
    python benchmarks/upstream/upstream_tests.py xgboost PATH      a checkout of github.com/dmlc/xgboost

Every softmax model of more than two classes that a test trains comes from abc_plugins, all else from the library. Tests
that fail are run once more with the library alone: what fails there, too, does not count. The summary lists what
passed, what failed by design, with the reason, and what failed otherwise. Needs pytest, pytest-xdist and what the tests
themselves need (psutil, hypothesis, pandas, ...). The checkout should be of the version that is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from upstream_reasons import BY_DESIGN

HERE = Path(__file__).parent
TESTS = {
    "lightgbm": [
        *("tests/python_package_test/test_engine.py", "tests/python_package_test/test_sklearn.py"),
        *("tests/python_package_test/test_basic.py", "tests/python_package_test/test_callback.py"),
        *("tests/python_package_test/test_consistency.py", "tests/python_package_test/test_arrow.py"),
        *("tests/python_package_test/test_plotting.py", "tests/python_package_test/test_utilities.py"),
    ],
    "xgboost": [
        *("tests/python/test_with_sklearn.py", "tests/python/test_basic_models.py", "tests/python/test_callback.py"),
        *("tests/python/test_early_stopping.py", "tests/python/test_eval_metrics.py", "tests/python/test_model_io.py"),
        *("tests/python/test_training_continuation.py", "tests/python/test_shap.py", "tests/python/test_predict.py"),
        *("tests/python/test_basic.py", "tests/python/test_dmatrix.py", "tests/python/test_with_polars.py"),
        *("tests/python/test_pickling.py", "tests/python/test_intercept.py", "tests/python/test_interpret.py"),
    ],
}
"""The files with multi-class models, but for Dask: LightGBM's has no counterpart here, XGBoost's is in tests/xgb."""

Outcomes = dict[str, dict[str, Any]]


class Verdict(NamedTuple):
    """Tests that the library passes: passed, failed by design with the reason, failed with the message."""

    passed: list[str]
    by_design: dict[str, str]
    failed: dict[str, str]


def run(library: str, mode: str, checkout: Path, tests: Sequence[str], options: Sequence[str]) -> Outcomes:
    """Run tests in a process of their own; one that crashes is started again behind the test that crashed it."""
    with tempfile.TemporaryDirectory() as folder:
        report, listed = Path(folder, "report.json"), Path(folder, "tests.txt")
        listed.write_text("\n".join(tests))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
            "ABC_UPSTREAM": f"{library}:{mode}",
            "ABC_UPSTREAM_REPORT": str(report),
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "upstream_plugin",
            "-p",
            "no:cacheprovider",
            "-q",
            "--tb=short",
        ]
        # Names of tests are relative to this folder, so that those that failed are found again.
        command += ["--rootdir", str(checkout)]
        command += ["-n", "1", "--max-worker-restart", "50", *options, f"@{listed}"]
        subprocess.run(command, cwd=checkout, env=environment, check=False, stdout=sys.stderr)
        return json.loads(report.read_text())


def judge(adapter: Outcomes, stock: Outcomes, reasons: Mapping[str, str]) -> Verdict:
    """Sort the tests that train a multi-class model and pass with the library itself."""
    verdict = Verdict([], {}, {})
    for test, found in adapter.items():
        alone = stock[test] if found["outcome"] == "failed" else found
        if alone["outcome"] != "passed" or not (found["multiclass"] or alone["multiclass"]):
            continue
        reason = next((text for pattern, text in reasons.items() if re.search(pattern, test)), None)
        if found["outcome"] == "passed":
            verdict.passed.append(test)
        elif reason is not None:
            verdict.by_design[test] = reason
        else:
            verdict.failed[test] = found["message"]
    return verdict


def print_verdict(library: str, verdict: Verdict) -> None:
    """Print the summary, tests with the same reason together."""
    n_tests = sum(map(len, verdict))
    print(f"\n{library}: {n_tests} tests train a multi-class model and pass with {library} itself")
    print(f"passed: {len(verdict.passed)}")
    print(f"failed by design: {len(verdict.by_design)}")
    for reason in dict.fromkeys(verdict.by_design.values()):
        tests = [test for test, given in verdict.by_design.items() if given == reason]
        print(f"  {reason}")
        for test in tests:
            print(f"    {test}")
    print(f"failed: {len(verdict.failed)}")
    for test, message in verdict.failed.items():
        print(f"  {test}\n    {' '.join(message.split())[:200]}")


def main() -> int:
    """Run both, print the summary; the exit code tells whether anything failed that should not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=sorted(TESTS))
    parser.add_argument("checkout", type=Path)
    parser.add_argument("-k", dest="expression", help="only tests that match, as in pytest")
    parser.add_argument("--tests", nargs="+", help="files or tests of the checkout, in place of all that concern it")
    arguments = parser.parse_args()
    library, checkout = arguments.library, arguments.checkout.resolve()
    options = ["-k", arguments.expression] if arguments.expression else []
    adapter = run(library, "adapter", checkout, arguments.tests or TESTS[library], options)
    failed = [test for test, found in adapter.items() if found["outcome"] == "failed"]
    stock = run(library, "stock", checkout, failed, []) if failed else {}
    verdict = judge(adapter, stock, BY_DESIGN[library])
    print_verdict(library, verdict)
    return 1 if verdict.failed else 0


if __name__ == "__main__":
    sys.exit(main())
