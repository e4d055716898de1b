"""Linear algebra on one thread: small matrices, and no threads of BLAS that spin beside our own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, which takes milliseconds


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use the calling thread alone.

    Its threads spin for a while after each call, which takes a core from ours; and sums must not depend on how many
    there are. The limit is that of the process: fits in several threads take turns, so that the last one restores what
    the first one found.
    """
    with _lock, _libraries().limit(limits=1, user_api="blas"):
        yield
