"""The command `fit`: train on a file and write the model."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abc_plugins.commands.shared import add_table_options, check_output, read, text_columns, text_target, warn_of_index
from abc_plugins.core.runtime.checks import check_integer, fail
from abc_plugins.data.csvfiles import TRUTH_VALUES

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier

EXAMPLES = """examples:
  abc-plugins fit train.csv --target species --out model.abc
  abc-plugins fit train.csv.gz --target y --drop id --eval-data valid.csv --n-estimators 2000 --out model.abc
  abc-plugins fit europe.csv --target y --delimiter ";" --decimal , --missing ? -999 --out model.abc
"""

_CONSTANTS = {"none": None, "true": True, "false": False}
_METAVARS = {"int": "N", "float": "NUMBER", "bool": "true|false", "str": "NAME"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.usage = "%(prog)s DATA --target COLUMN --out FILE [options]"  # all of them would fill a page
    parser.add_argument("data", metavar="DATA", help="CSV or Parquet file to train on")
    parser.add_argument("--target", required=True, metavar="COLUMN", help="column of the labels")
    parser.add_argument("--out", required=True, metavar="FILE", help="model file to write")
    parser.add_argument("--weight", metavar="COLUMN", help="column of the sample weights")
    parser.add_argument("--eval-data", metavar="FILE", help="CSV or Parquet file to evaluate on after every round")
    add_table_options(parser)
    parser.add_argument("--force", action="store_true", help="replace the model file if it exists")
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="keep the state of the training in this file; if it is there, go on from it. Removed at the end",
    )
    parser.add_argument("--checkpoint-rounds", type=int, default=10, metavar="N", help="how often (default 10 rounds)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--quiet", action="store_true", help="show no progress")
    shown.add_argument("--verbose", type=int, metavar="N", help="print the losses every N rounds, not a progress bar")
    group = parser.add_argument_group("parameters of ABCBoostClassifier")
    for name, parameter in _model_parameters().items():
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=_columns if name == "categorical_features" else _literal,
            default=parameter.default,
            metavar=parameter.metavar,
            help=parameter.help,
        )


def run(options: argparse.Namespace) -> None:
    """Train on a file and write the model."""
    from abc_plugins.callbacks import checkpoint, log_evaluation, progress_bar
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.data.categories import check_categorical_features

    check_output(options.out, options.force, options.data, options.eval_data, options.checkpoint)
    parameters = {name: getattr(options, name) for name in _model_parameters()}
    ABCBoostClassifier(**parameters)._check_all_parameters()
    callbacks = [] if options.quiet else [progress_bar()]
    if options.verbose is not None:
        callbacks = [log_evaluation(check_integer("--verbose", options.verbose, minimum=1), file=sys.stderr)]
    resume_from = None
    if options.checkpoint is not None:
        every = check_integer("--checkpoint-rounds", options.checkpoint_rounds, minimum=1)
        callbacks.append(checkpoint(options.checkpoint, every_rounds=every))
        resume_from = options.checkpoint if Path(options.checkpoint).exists() else None
    categorical = check_categorical_features(options.categorical_features)
    roles = {"target": options.target, "weight": options.weight, "categorical": categorical}
    data = read(options, options.data, **roles)
    warn_of_index(data.features.names, options.data)
    parameters["class_weight"] = _label_keys(parameters["class_weight"], data.labels)
    eval_set = None
    if options.eval_data is not None:
        names, levels = data.features.names or [], data.features.levels or []
        text = [*text_columns(names, levels), *text_target(options.target, data.labels)]
        extra = read(options, options.eval_data, **roles, columns=names, text=text)
        eval_set = [(extra.features, extra.labels, extra.weights)]
    start = time.perf_counter()
    model = ABCBoostClassifier(**parameters)
    model.fit(
        data.features,
        data.labels,
        sample_weight=data.weights,
        eval_set=eval_set,
        callbacks=callbacks,
        resume_from=resume_from,
    )
    seconds = time.perf_counter() - start
    model.save_model(options.out)
    if options.checkpoint is not None:
        Path(options.checkpoint).unlink(missing_ok=True)  # a short training writes none
    print(f"{options.out}: {_headline(model)}, fitted in {seconds:.1f} s")
    print(_validation(model, None if eval_set is None else eval_set[0]))


def _validation(model: ABCBoostClassifier, given: tuple[Any, Any, Any] | None) -> str:
    """What the model is worth on rows that it was not trained on, if there are such."""
    if given is None:
        from abc_plugins.training.eval_sets import VALIDATION_NAME

        held_out = model.best_score_.get(VALIDATION_NAME)
        if held_out is None:
            return "no rows were held out; --eval-data FILE or --early-stopping true tells the error on new rows"
        return f"held-out rows, after round {model.best_iteration_}: {_metrics(held_out)}"
    from abc_plugins.core.losses import mean_loss
    from abc_plugins.data.labels import encode_labels

    features, labels, weights = given
    proba = model.predict_proba(features)
    codes = encode_labels(labels, model.classes_)
    weights = np.ones(codes.size) if weights is None else weights
    error = float(np.average(proba.argmax(axis=1) != codes, weights=weights))
    loss = float(mean_loss(np.log(np.maximum(proba, np.finfo(float).tiny)), codes, weights))
    return f"evaluation data: {_metrics({'logloss': loss, 'error': error})}"


def _metrics(values: Mapping[str, float]) -> str:
    """The log loss and the error first, then the metrics that the user asked for."""
    others = [f"{name} {value:.6g}" for name, value in values.items() if name not in ("logloss", "error")]
    return ", ".join([f"log loss {values['logloss']:.6g}", f"error {values['error']:.2%}", *others])


@dataclass(frozen=True)
class _Parameter:
    default: Any
    help: str
    metavar: str


def _model_parameters() -> dict[str, _Parameter]:
    """Parameters of ABCBoostClassifier with their defaults and their descriptions from its documentation."""
    from abc_plugins.classifier import ABCBoostClassifier

    documentation = inspect.getdoc(ABCBoostClassifier) or ""
    section = documentation.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    texts: dict[str, list[str]] = {}
    name = ""
    for line in section.splitlines():
        if not line.startswith(" "):
            name = line.partition(" : ")[0]
            texts[name] = [f"{line.partition(' : ')[2]}."]
        else:
            texts[name].append(line.strip())
    signature = inspect.signature(ABCBoostClassifier)
    return {
        name: _Parameter(parameter.default, " ".join(texts[name]).replace("%", "%%"), _metavar(name, texts[name][0]))
        for name, parameter in signature.parameters.items()
        if name != "verbose"  # the command line has its own
    }


def _metavar(name: str, kind: str) -> str:
    """What a value is called in the help: the choices, or N for a number."""
    if name == "categorical_features":
        return "COLUMN,..."
    if kind.startswith("{"):
        return kind[: kind.index("}") + 1].replace('"', "").replace(" ", "")
    return next((shown for word, shown in _METAVARS.items() if kind.startswith(word)), "VALUE")


def _literal(text: str) -> Any:
    """Read a value as Python would write it or as JSON, else take it as text."""
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _columns(text: str) -> Any:
    """Read names of columns, separated by commas, or a list as JSON writes it."""
    value = _literal(text)
    return value if value is None or value == "from_dtype" or isinstance(value, list) else text.split(",")


def _label_keys(class_weight: Any, labels: Any) -> Any:
    """Turn the keys of a JSON object, which are text, into the labels they stand for."""
    if not isinstance(class_weight, dict):
        return class_weight
    known = {str(label): label for label in dict.fromkeys(labels.tolist())}
    spelled = {cell: bool(truth) for cell, truth in TRUTH_VALUES.items()} if labels.dtype == np.bool_ else known
    keys = {key: str(spelled.get(key, key)) for key in class_weight}  # "true" in the file is True
    unknown = sorted(key for key, label in keys.items() if label not in known)
    if unknown:
        shown = ", ".join(map(repr, sorted(known)[:10])) + (", ..." if len(known) > 10 else "")
        fail("class_weight", unknown[0], f"an object with labels of the training data as keys ({shown})")
    if len(set(keys.values())) < len(keys):
        fail("class_weight", class_weight, "an object that names every label once")
    return {known[keys[key]]: weight for key, weight in class_weight.items()}


def _headline(model: ABCBoostClassifier) -> str:
    return f"{model.n_classes_} classes, {model.n_features_in_} features, {model.n_iter_} rounds"
