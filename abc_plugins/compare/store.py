"""Fits kept as they arrive, so that a comparison that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from abc_plugins.core.runtime.atomic import replace_file

FILE = "runs.jsonl"


class RunStore:
    """Finished fits in a file, one per line, behind a line that says what they are fits of.

    A line is written to the disk before the next fit begins. If the process is killed while it writes, the last
    line is not whole; it is left out when the file is read, and written over.

    Parameters
    ----------
    folder : path
        Made if it does not exist.
    subject : dict
        What the fits are of: data, settings, versions, machine. A folder with fits of something else is refused.
    fresh : bool, default=False
        Drop the fits that are there.

    Attributes
    ----------
    runs : dict
        (contender, split) -> the fit.
    """

    def __init__(self, folder: str | os.PathLike[str], subject: dict[str, Any], *, fresh: bool = False) -> None:
        self.path = Path(folder) / FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.runs: dict[tuple[str, int], dict[str, Any]] = {}
        subject = json.loads(json.dumps(subject))
        lines = [] if fresh or not self.path.exists() else _whole_lines(self.path)
        if lines:
            _check_subject(self.path, lines[0], subject)
        with replace_file(self.path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines or [subject])
        for run in lines[1:]:
            self.runs[run["contender"], run["split"]] = run

    def add(self, run: dict[str, Any]) -> None:
        """Keep a fit; it has the keys contender and split."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.runs[run["contender"], run["split"]] = json.loads(json.dumps(run))


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")[:-1]  # what follows the last line break was not written to its end
    try:
        found = [json.loads(line) for line in lines]
    except ValueError as error:
        raise _not_kept_results(path, str(error)) from error
    is_fit = [isinstance(line, dict) and {"contender", "split"} <= set(line) for line in found[1:]]
    if not all(isinstance(line, dict) for line in found[:1]) or not all(is_fit):
        raise _not_kept_results(path, "a line is no such object")
    return found


def _not_kept_results(path: Path, why: str) -> ValueError:
    return ValueError(f"{path} is not a file of kept results ({why}); use --force to start anew.")


def _check_subject(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse results of something else, and name the first thing that differs."""
    flat_found, flat_wanted = _flat(found), _flat(wanted)
    for name in [*flat_wanted, *flat_found]:
        there, here = flat_found.get(name), flat_wanted.get(name)
        if there != here:
            raise ValueError(
                f"{path.parent} has results of another comparison: {name} is {there!r} there and {here!r} here. Name "
                "another folder with --out, or use --force to start anew."
            )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
