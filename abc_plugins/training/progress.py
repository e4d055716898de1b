"""How far work has come, shown on a terminal or in a log file."""

from __future__ import annotations

import math
import time
from importlib.util import find_spec
from typing import Protocol, TextIO


class Display(Protocol):
    """Shows how far work has come."""

    def update(self, done: int, text: str, seconds_left: float) -> None:
        """Show what is done; `seconds_left` is NaN if it cannot be told."""

    def close(self) -> None:
        """End the display."""


def make_display(total: int, file: TextIO, unit: str = "round") -> Display:
    """Choose how to show progress: by rich or tqdm on a terminal if installed, else in plain lines."""
    if file.isatty() and find_spec("rich"):
        return _RichDisplay(total, file)
    if file.isatty() and find_spec("tqdm"):
        return _TqdmDisplay(total, file)
    return _PlainDisplay(total, file, unit)


class _RichDisplay:
    def __init__(self, total: int, file: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.progress = Progress(*columns, console=Console(file=file))
        self.task = self.progress.add_task("", total=total, left="")
        self.progress.start()

    def update(self, done: int, text: str, seconds_left: float) -> None:
        self.progress.update(self.task, completed=done, description=text, left=_time_left(seconds_left))

    def close(self) -> None:
        self.progress.stop()


class _TqdmDisplay:
    def __init__(self, total: int, file: TextIO) -> None:
        from tqdm import tqdm

        self.bar = tqdm(total=total, file=file)

    def update(self, done: int, text: str, seconds_left: float) -> None:  # noqa: ARG002  (tqdm has its own estimate)
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.update(done - self.bar.n)

    def close(self) -> None:
        self.bar.close()


class _PlainDisplay:
    """A line that is written over on a terminal; in a log file a line every few seconds."""

    def __init__(self, total: int, file: TextIO, unit: str) -> None:
        self.total = total
        self.unit = unit
        self.file = file
        self.overwrite = file.isatty()
        self.pause = 0.1 if self.overwrite else 5.0
        self.last = -math.inf
        self.width = 0

    def update(self, done: int, text: str, seconds_left: float) -> None:
        now = time.monotonic()
        if now - self.last < self.pause and done < self.total:
            return
        self.last = now
        line = ", ".join(filter(None, [f"{self.unit} {done}/{self.total}: {text}", _time_left(seconds_left)]))
        padded = "\r" + line.ljust(self.width) if self.overwrite else line + "\n"
        self.width = len(line)
        self.file.write(padded)
        self.file.flush()

    def close(self) -> None:
        if self.overwrite and self.width:
            self.file.write("\n")
            self.file.flush()


def _time_left(seconds: float) -> str:
    if math.isnan(seconds):
        return ""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}") + " left"
