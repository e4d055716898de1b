"""The command `export`: a model file in the format of another library, checked on rows that the user gives.

What was written is read again by the other library, and its probabilities are compared with those of the model.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from abc_plugins.commands.predict import read_rows
from abc_plugins.commands.shared import add_table_options, check_output
from abc_plugins.core.runtime.checks import check_integer, check_real
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.values import softmax

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.core.runtime.arrays import Floats


EXAMPLES = """examples:
  abc-plugins export model.abc --to onnx --out model.onnx --check rows.csv
  abc-plugins export model.abc --to xgboost --out model.ubj
"""


@dataclass(frozen=True)
class Format:
    """A format to export to.

    Attributes
    ----------
    module : str
        Its `export(model, path, ...)` writes the file.
    runtime : str
        The package that predicts with it.
    predict : function
        (path, rows as numbers) -> probabilities, by the other library alone.
    tolerance : float
        Largest difference of a probability.
    suffixes : tuple of str
        How the name of the file must end; no rule if there are none.
    as_float32 : bool
        Whether the other library rounds features to float32.
    takes_infinity : bool
        Whether it takes numbers that are too large for float32.
    hint : str
        What to do where rounding to float32 changes predictions.
    """

    module: str
    runtime: str
    predict: Callable[[str, Floats], Floats]
    tolerance: float
    suffixes: tuple[str, ...] = ()
    as_float32: bool = False
    takes_infinity: bool = True
    hint: str = ""


def _predict_onnx(path: str, X: Floats) -> Floats:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    dtype = np.float32 if session.get_inputs()[0].type == "tensor(float)" else np.float64
    with np.errstate(over="ignore"):  # beyond float32 is infinity, on the same side of every threshold
        return np.asarray(session.run(["probabilities"], {"X": X.astype(dtype)})[0])


def _predict_treelite(path: str, X: Floats) -> Floats:
    import treelite

    return np.asarray(treelite.gtil.predict(treelite.Model.deserialize(path), X)[:, 0])


def _predict_lightgbm(path: str, X: Floats) -> Floats:
    import lightgbm

    return np.asarray(lightgbm.Booster(model_file=path).predict(X))


def _predict_xgboost(path: str, X: Floats) -> Floats:
    import xgboost

    booster = xgboost.Booster(model_file=path)
    return np.asarray(booster.predict(xgboost.DMatrix(X, feature_names=booster.feature_names)))


FORMATS = {
    "onnx": Format(
        "abc_plugins.onnx",
        "onnxruntime",
        _predict_onnx,
        1e-5,
        as_float32=True,
        hint="--input-type double does not round",
    ),
    "lightgbm": Format("abc_plugins.lgbm", "lightgbm", _predict_lightgbm, 1e-10),
    "xgboost": Format(
        "abc_plugins.xgb",
        "xgboost",
        _predict_xgboost,
        1e-5,
        (".json", ".ubj"),
        True,
        False,
        "XGBoost compares in float32 and knows no other way: train the model on features rounded to float32",
    ),
    "treelite": Format("abc_plugins.treelite", "treelite", _predict_treelite, 1e-6),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("model", help="model file")
    parser.add_argument("--to", required=True, choices=list(FORMATS), help="format to write")
    parser.add_argument("--out", required=True, help="file to write; for xgboost one that ends in .json or .ubj")
    parser.add_argument("--check", metavar="FILE", help="CSV or Parquet file of rows that must be predicted alike")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="largest difference of a probability (default: "
        + ", ".join(f"{one.tolerance:g} for {name}" for name, one in FORMATS.items())
        + ")",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds to export (default: those of predictions)")
    parser.add_argument("--input-type", choices=["float", "double"], help="of the features, for onnx (default float)")
    add_table_options(parser)
    parser.add_argument("--force", action="store_true", help="replace the output file if it exists")


def run(options: argparse.Namespace) -> None:
    """Export, and check what was written if there are rows to check it on."""
    from abc_plugins.classifier import ABCBoostClassifier

    check_output(options.out, options.force, options.model, options.check)
    target = FORMATS[options.to]
    _check_options(options, target)
    export = importlib.import_module(target.module).export
    if options.check is not None and importlib.util.find_spec(target.runtime) is None:
        raise ModuleNotFoundError(
            f"--check with --to {options.to} needs {target.runtime}; install it, or do not check."
        )
    model = ABCBoostClassifier.load_model(options.model)
    model.n_jobs = 1
    if options.rounds is not None:
        check_integer("--rounds", options.rounds, minimum=1, maximum=model.model_.n_rounds or None)
    rows = None if options.check is None else _rows_to_check(options, target, model)
    more = {} if options.input_type is None else {"input_type": options.input_type}
    export(model, options.out, n_rounds=options.rounds, **more)
    size = Path(options.out).stat().st_size
    print(f"{options.out}: {options.to}, {model.n_classes_} classes, {model.n_features_in_} features, {size:,} bytes")
    if rows is not None:
        _check(options, target, model, rows)


def _check_options(options: argparse.Namespace, target: Format) -> None:
    if options.tolerance is not None:
        check_real("--tolerance", options.tolerance, minimum=0.0)
    if target.suffixes and Path(options.out).suffix not in target.suffixes:
        allowed = " or ".join(target.suffixes)
        raise ValueError(f"--out must end in {allowed} for {options.to}; got {options.out}.")
    if options.input_type is not None and options.to != "onnx":
        raise ValueError(f"--input-type is for onnx only; got it with --to {options.to}.")


def _rows_to_check(options: argparse.Namespace, target: Format, model: ABCBoostClassifier) -> Floats:
    """The rows of the file as exported models take them: categories by number."""
    rows = np.concatenate([model._read(features) for features, _ in read_rows(model, options.check, options)])
    values = np.ascontiguousarray(rows, dtype=np.float64)
    too_large = (np.abs(values) > np.finfo(np.float32).max).any(axis=1)
    if too_large.any() and not target.takes_infinity:
        row = int(np.argmax(too_large))
        raise ValueError(
            f"row {row} of {options.check} has a number too large for float32, which {options.to} refuses."
        )
    return values


def _check(options: argparse.Namespace, target: Format, model: ABCBoostClassifier, values: Floats) -> None:
    """Compare the probabilities of the file with those of the model; raise if they are too far apart."""
    tolerance = target.tolerance if options.tolerance is None else options.tolerance
    found = target.predict(options.out, values)
    n_rounds = model.best_iteration_ if options.rounds is None else options.rounds
    with Workers(1) as workers, np.errstate(over="ignore"):
        expected = softmax(model.model_.raw_scores(values, workers, n_rounds))
        rounded = softmax(model.model_.raw_scores(values.astype(np.float32), workers, n_rounds))
    differences = np.abs(found - expected).max(axis=1)
    n_different, worst = int((differences > tolerance).sum()), float(differences.max())
    if n_different == 0:
        print(f"{options.check}: {len(values)} rows predicted alike, largest difference {worst:.2g}")
        return
    message = (
        f"{n_different} of {len(values)} rows of {options.check} differ by more than {tolerance:g}, up to {worst:.2g}"
    )
    if target.as_float32 and options.input_type != "double" and np.abs(found - rounded).max() <= tolerance:
        message += f": features are rounded to float32, and these lie next to a threshold; {target.hint}"
    raise ValueError(f"{options.out} was written, but {message}.")
