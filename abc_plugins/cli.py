"""The command line: abc-plugins fit | predict | inspect | compare | tune | export | compile.

Results go to standard output, progress, warnings and errors to standard error. Exit codes: 0 done, 1 error, 2 wrong
usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.data.tablefiles import TableData

_PROGRAM = "abc-plugins"
_CONSTANTS = {"none": None, "true": True, "false": False}


@dataclass(frozen=True)
class Command:
    """A subcommand.

    Attributes
    ----------
    help : str
    add_options : function
        Adds its options to a parser. Called only if the command is used, since it may import a lot.
    run : function
        Does the work.
    """

    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser(arguments).parse_args(arguments)
    options.arguments = arguments
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            COMMANDS[options.command].run(options)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{_PROGRAM}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as in `abc-plugins inspect ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if options.debug:
            traceback.print_exc()
        print(f"{_PROGRAM}: error: {_one_line(error)}", file=sys.stderr)
        return 1
    return 0


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser; only the command that is used gets its options."""
    from abc_plugins import __version__

    parser = argparse.ArgumentParser(prog=_PROGRAM, description="Fast ABC-Boost for multi-class classification.")
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command")
    used = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, command in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=command.help, description=command.help, allow_abbrev=False)
        subparser.add_argument("--debug", action="store_true", help="show the traceback of an error")
        if name == used:
            command.add_options(subparser)
    return parser


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or "no message"
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    expected = isinstance(error, ValueError | TypeError | OSError | ImportError | MemoryError)
    return text if expected else f"{type(error).__name__}: {text} (--debug shows where)"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"{_PROGRAM}: warning: {' '.join(str(message).split())}", file=sys.stderr)


# ------------------------------------------------------------------------------------------------ fit


def _add_fit_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="CSV or Parquet file to train on")
    parser.add_argument("--target", required=True, help="column of the labels")
    parser.add_argument("--out", required=True, help="model file to write")
    parser.add_argument("--weight", help="column of the sample weights")
    parser.add_argument("--eval-data", metavar="FILE", help="CSV or Parquet file to evaluate on after every round")
    _add_table_options(parser)
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
            metavar="VALUE",
            help=parameter.help,
        )


def run_fit(options: argparse.Namespace) -> None:
    """Train on a file and write the model."""
    from abc_plugins.callbacks import checkpoint, log_evaluation, progress_bar
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.core.runtime.checks import check_integer
    from abc_plugins.data.categories import check_categorical_features

    check_output(options.out, options.force)
    parameters = {name: getattr(options, name) for name in _model_parameters()}
    callbacks = [] if options.quiet else [progress_bar()]
    if options.verbose is not None:
        callbacks = [log_evaluation(check_integer("verbose", options.verbose, minimum=1), file=sys.stderr)]
    resume_from = None
    if options.checkpoint is not None:
        callbacks.append(checkpoint(options.checkpoint, every_rounds=options.checkpoint_rounds))
        resume_from = options.checkpoint if Path(options.checkpoint).exists() else None
    categorical = check_categorical_features(options.categorical_features)
    roles = {"target": options.target, "weight": options.weight, "categorical": categorical}
    data = _read(options, options.data, **roles)
    parameters["class_weight"] = _label_keys(parameters["class_weight"], data.labels)
    eval_set = None
    if options.eval_data is not None:
        names, levels = data.features.names or [], data.features.levels or []
        extra = _read(options, options.eval_data, **roles, columns=names, text=_text_columns(names, levels))
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
        Path(options.checkpoint).unlink()
    print(f"{options.out}: {_headline(model)}, fitted in {seconds:.1f} s")


@dataclass(frozen=True)
class _Parameter:
    default: Any
    help: str


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
        name: _Parameter(parameter.default, " ".join(texts.get(name, [])).replace("%", "%%"))
        for name, parameter in signature.parameters.items()
        if name != "verbose"  # the command line has its own
    }


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


def _text_columns(names: Sequence[str], levels: Sequence[Any]) -> list[str]:
    """Columns whose levels are text; the same cells may look like numbers in another file."""
    found = zip(names, levels, strict=False)
    return [name for name, known in found if known is not None and any(isinstance(level, str) for level in known)]


def _label_keys(class_weight: Any, labels: Any) -> Any:
    """Turn the keys of a JSON object, which are text, into the labels they stand for."""
    if not isinstance(class_weight, dict):
        return class_weight
    known = {str(label): label for label in dict.fromkeys(labels.tolist())}
    unknown = sorted(set(class_weight) - set(known))
    if unknown:
        raise ValueError(f"class_weight must have labels of the training data as keys; got {unknown[0]!r}.")
    return {known[key]: weight for key, weight in class_weight.items()}


# ------------------------------------------------------------------------------------------------ predict


def _add_predict_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file")
    parser.add_argument("data", help="CSV or Parquet file; columns that the model does not know are left out")
    parser.add_argument("--out", required=True, help="CSV or Parquet file to write")
    parser.add_argument("--proba", action="store_true", help="write a column of probabilities for every class")
    _add_table_options(parser)
    parser.add_argument("--force", action="store_true", help="replace the output file if it exists")


def run_predict(options: argparse.Namespace) -> None:
    """Predict the rows of a file."""
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.data.tablefiles import write_table

    check_output(options.out, options.force)
    model = ABCBoostClassifier.load_model(options.model)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        mask = model.is_categorical_
        data = _read(options, options.data, categorical=mask.tolist() if mask.any() else None)
        features = replace(data.features, names=None)
    else:
        features = _read(
            options,
            options.data,
            columns=list(names),
            categorical=names[model.is_categorical_].tolist(),
            text=_text_columns(names, model.categories_),
        ).features
    if options.proba:
        columns = dict(zip(_probability_names(model.classes_), model.predict_proba(features).T, strict=True))
    else:
        columns = {"prediction": model.predict(features)}
    write_table(options.out, columns)
    print(f"{options.out}: {len(next(iter(columns.values())))} rows")


def _probability_names(classes: Any) -> list[str]:
    labels = classes.tolist()
    distinct = len({str(label) for label in labels}) == len(labels)
    return [f"proba_{label if distinct else repr(label)}" for label in labels]


# ------------------------------------------------------------------------------------------------ inspect


def _add_inspect_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="features to list by importance (default 10)")
    parser.add_argument(
        "--plot", metavar="FILE", help="draw learning curves, base classes and importances (PNG, SVG, PDF)"
    )
    parser.add_argument("--force", action="store_true", help="replace the picture if it exists")


def run_inspect(options: argparse.Namespace) -> None:
    """Describe a model file."""
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.core.runtime.checks import check_integer
    from abc_plugins.summary import as_text, summarise

    top = check_integer("top", options.top, minimum=0)
    if options.plot is not None:
        check_output(options.plot, options.force)
    model = ABCBoostClassifier.load_model(options.model)
    summary = summarise(model, Path(options.model))
    if options.plot is not None:
        _draw(model, options.plot, top)
    if options.json:
        print(json.dumps(summary, indent=2, allow_nan=False))
    else:
        print(as_text(summary, top))


def _draw(model: ABCBoostClassifier, path: str, top: int) -> None:
    """Draw the three plots of a model side by side."""
    from abc_plugins.core.runtime.atomic import replace_file
    from abc_plugins.plot import overview

    figure = overview(model, top=max(1, top))
    kind = Path(path).suffix.lower().removeprefix(".") or "png"
    allowed = sorted(figure.canvas.get_supported_filetypes())
    if kind not in allowed:
        raise ValueError(
            f"--plot must name a file of a kind that matplotlib writes ({', '.join(allowed)}); got {path}."
        )
    with replace_file(path) as file:
        figure.savefig(file, format=kind, dpi=130)


# ------------------------------------------------------------------------------------------------ compare


def _add_compare_options(parser: argparse.ArgumentParser) -> None:
    from abc_plugins.compare.command import add_options

    add_options(parser)


def _run_compare(options: argparse.Namespace) -> None:
    from abc_plugins.compare.command import run_command

    run_command(options, options.arguments)


# ------------------------------------------------------------------------------------------------ tune


def _add_tune_options(parser: argparse.ArgumentParser) -> None:
    from tuning.cli import add_tune_options

    add_tune_options(parser)


def _run_tune(options: argparse.Namespace) -> None:
    from tuning.cli import run_tune

    run_tune(options)


# ------------------------------------------------------------------------------------------------ export


def _add_export_options(parser: argparse.ArgumentParser) -> None:
    from abc_plugins.exporting import add_options

    add_options(parser)


def _run_export(options: argparse.Namespace) -> None:
    from abc_plugins.exporting import run_command

    check_output(options.out, options.force)
    run_command(options)


# ------------------------------------------------------------------------------------------------ compile


def _run_compile(_options: argparse.Namespace) -> None:
    from abc_plugins.compiling import compile_kernels

    report = compile_kernels()
    if report.folder is None:
        raise ValueError("there is no folder to keep compiled kernels in; set NUMBA_CACHE_DIR to one.")
    print(f"{report.n_compiled} kernels compiled in {report.seconds:.1f} s, kept in {report.folder}")


# ------------------------------------------------------------------------------------------------ shared


def _add_table_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    parser.add_argument("--delimiter", help="of CSV files (default: comma, or tab for .tsv)")
    parser.add_argument("--encoding", default="utf-8", help="of CSV files (default utf-8)")


def _read(options: argparse.Namespace, path: str, **roles: Any) -> TableData:
    from abc_plugins.data.tablefiles import read_table

    return read_table(path, drop=options.drop, delimiter=options.delimiter, encoding=options.encoding, **roles)


def check_output(path: str, force: bool) -> None:
    """Find out before the work whether its result can be written."""
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it.")
    if target.exists() and not force:
        raise ValueError(f"{path} exists; use --force to replace it.")
    if not target.parent.is_dir():
        raise ValueError(f"the folder {target.parent} does not exist.")
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"the folder {target.parent} cannot be written to.")


def _headline(model: ABCBoostClassifier) -> str:
    rounds, loss = len(model.base_classes_), model.train_loss_[-1]
    return f"{model.n_classes_} classes, {model.n_features_in_} features, {rounds} rounds, training loss {loss:.6g}"


COMMANDS = {
    "fit": Command("Train on a CSV or Parquet file and write a model file.", _add_fit_options, run_fit),
    "predict": Command("Predict labels or probabilities for a CSV or Parquet file.", _add_predict_options, run_predict),
    "inspect": Command("Describe a model file.", _add_inspect_options, run_inspect),
    "compare": Command("Compare with other boosters on your data.", _add_compare_options, _run_compare),
    "tune": Command("Tune with Optuna; status and report of a study.", _add_tune_options, _run_tune),
    "export": Command("Write a model file for ONNX, LightGBM, XGBoost or treelite.", _add_export_options, _run_export),
    "compile": Command("Compile the kernels ahead of the first fit.", lambda _: None, _run_compile),
}

if __name__ == "__main__":
    sys.exit(main())
