"""The command line: abc-plugins fit | predict | inspect | compare | tune | export | compile.

Results go to standard output, progress, warnings and errors to standard error. Exit codes: 0 done, 1 error, 2 wrong
usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier

_PROGRAM = "abc-plugins"
_DESCRIPTION = (
    "Multi-class gradient boosting: directional trees, the default, and the methods of the Fast ABC-Boost paper."
)


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


class _Parser(argparse.ArgumentParser):
    """A parser whose errors name what a misspelt option, command or choice looks like."""

    given: Sequence[str] = ()
    """All arguments."""

    def error(self, message: str) -> NoReturn:
        """End with code 2 and the message."""
        if message.startswith("the following arguments are required"):
            message += self.suggest([word for word in self.given if word.partition("=")[0] not in self._options])
        super().error(message)

    def suggest(self, unknown: Sequence[str]) -> str:
        """Name the option that the first unknown one looks like."""
        given = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
        inside = [name for name in self._options if given.startswith("--") and given.removeprefix("--") in name]
        return _did_you_mean(difflib.get_close_matches(given, self._options, n=1) or sorted(inside, key=len))

    @property
    def _options(self) -> list[str]:
        return [name for name in self._option_string_actions if name.startswith("--")]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += _did_you_mean(difflib.get_close_matches(str(value), map(str, action.choices or ()), n=1))
            raise


def _did_you_mean(names: Sequence[str]) -> str:
    return f" (did you mean {names[0]}?)" if names else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        print(f"{_PROGRAM}: interrupted", file=sys.stderr)
        return 130


def _run(arguments: Sequence[str]) -> int:
    parser, subparsers = _parsers(arguments)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        used = subparsers[options.command]
        used.error(f"unrecognized arguments: {' '.join(unknown)}{used.suggest(unknown)}")
    options.arguments = arguments
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            COMMANDS[options.command].run(options)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as in `abc-plugins inspect ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if options.debug:
            traceback.print_exc()
        print(f"{_PROGRAM}: error: {_one_line(error)}", file=sys.stderr)
        return 1
    return 0


def _parsers(arguments: Sequence[str]) -> tuple[_Parser, dict[str, _Parser]]:
    """The parser, and those of the commands; only the command that is used gets its options."""
    from abc_plugins import __version__

    parser = _Parser(prog=_PROGRAM, description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command")
    used = next((argument for argument in arguments if not argument.startswith("-")), None)
    of_commands = {}
    for name, command in COMMANDS.items():
        of_commands[name] = subparsers.add_parser(
            name,
            help=command.help,
            description=command.help,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        of_commands[name].given = arguments
        of_commands[name].add_argument("--debug", action="store_true", help="show the traceback of an error")
        if name == used:
            command.add_options(of_commands[name])
    return parser, of_commands


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or "no message"
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    expected = isinstance(error, ValueError | TypeError | OSError | ImportError | MemoryError)
    return text if expected else f"{type(error).__name__}: {text} (--debug shows where)"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"{_PROGRAM}: warning: {' '.join(str(message).split())}", file=sys.stderr)


# ------------------------------------------------------------------------------------------------ fit, predict


def _add_fit_options(parser: argparse.ArgumentParser) -> None:
    from abc_plugins.commands import fit

    parser.epilog = fit.EXAMPLES
    fit.add_options(parser)


def _run_fit(options: argparse.Namespace) -> None:
    from abc_plugins.commands import fit

    fit.run(options)


def _add_predict_options(parser: argparse.ArgumentParser) -> None:
    from abc_plugins.commands import predict

    parser.epilog = predict.EXAMPLES
    predict.add_options(parser)


def _run_predict(options: argparse.Namespace) -> None:
    from abc_plugins.commands import predict

    predict.run(options)


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
    from abc_plugins.commands.shared import check_output
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
    from abc_plugins.tuning.cli import add_tune_options

    add_tune_options(parser)


def _run_tune(options: argparse.Namespace) -> None:
    from abc_plugins.tuning.cli import run_tune

    run_tune(options)


# ------------------------------------------------------------------------------------------------ export


def _add_export_options(parser: argparse.ArgumentParser) -> None:
    from abc_plugins.commands import export

    parser.epilog = export.EXAMPLES
    export.add_options(parser)


def _run_export(options: argparse.Namespace) -> None:
    from abc_plugins.commands import export

    export.run(options)


# ------------------------------------------------------------------------------------------------ compile


def _run_compile(_options: argparse.Namespace) -> None:
    from abc_plugins.compiling import compile_kernels

    report = compile_kernels()
    if report.folder is None:
        raise ValueError("there is no folder to keep compiled kernels in; set NUMBA_CACHE_DIR to one.")
    print(f"{report.n_compiled} kernels compiled in {report.seconds:.1f} s, kept in {report.folder}")


COMMANDS = {
    "fit": Command("Train on a CSV or Parquet file and write a model file.", _add_fit_options, _run_fit),
    "predict": Command(
        "Predict labels and probabilities for a CSV or Parquet file.", _add_predict_options, _run_predict
    ),
    "inspect": Command("Describe a model file.", _add_inspect_options, run_inspect),
    "compare": Command("Compare with other boosters on your data.", _add_compare_options, _run_compare),
    "tune": Command("Tune with Optuna; status and report of a study.", _add_tune_options, _run_tune),
    "export": Command("Write a model file for ONNX, LightGBM, XGBoost or treelite.", _add_export_options, _run_export),
    "compile": Command("Compile the kernels ahead of the first fit.", lambda _: None, _run_compile),
}

if __name__ == "__main__":
    sys.exit(main())
