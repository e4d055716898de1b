"""Ctrl-C in a study: at once, but not in the middle of a write to its storage."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """Context manager in which SIGINT ends the running fits, and a second SIGINT ends the process.

    In a fit the first SIGINT raises KeyboardInterrupt at once. Elsewhere, as in a write to the storage, and where fits
    run in threads, it is noted, and `check` raises KeyboardInterrupt. A handler of the caller's own is left alone.
    """

    def __init__(self) -> None:
        self.requested = False
        self._in_fit = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        own_thread = threading.current_thread() is threading.main_thread()
        if own_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def check(self) -> None:
        """Raise KeyboardInterrupt if SIGINT has arrived."""
        if self.requested:
            raise KeyboardInterrupt

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """In here SIGINT may raise at any moment."""
        self.check()
        self._in_fit = True
        try:
            yield
        finally:
            self._in_fit = False
        self.check()  # whoever was called may have swallowed the KeyboardInterrupt

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A write to the storage within a fit."""
        before, self._in_fit = self._in_fit, False
        try:
            yield
        finally:
            self._in_fit = before
        self.check()

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.requested:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.requested = True
        if self._in_fit and threading.current_thread() is threading.main_thread():
            self._in_fit = False
            raise KeyboardInterrupt
