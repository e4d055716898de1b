"""Threads for kernels: a small pool that runs GIL-free kernels over ranges of rows or over trees.

Work is cut into blocks whose size does not depend on the number of threads, and every block writes to its own
place, so that results are the same bit for bit whatever the thread count.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any

from abc_plugins.core.runtime.checks import check_integer, fail

_MAX_THREADS = 4096
ROWS_PER_BLOCK = 1024
"""Rows of one block; a block's partial sums are added in block order."""


def available_cores() -> int:
    """Count the cores this process may use: its affinity mask and the quota of its container, not the machine."""
    import joblib  # here, as few rows are predicted without it: it takes a while to import

    return max(1, int(joblib.cpu_count()))


def check_n_jobs(n_jobs: int | None) -> int | None:
    """Return `n_jobs` if it is None or a whole number other than 0."""
    if n_jobs is not None and check_integer("n_jobs", n_jobs, maximum=_MAX_THREADS) == 0:
        fail("n_jobs", 0, "a whole number other than 0, or None")
    return n_jobs


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Translate scikit-learn's `n_jobs` to a number of threads: -1 is every core, -2 all but one.

    None is what joblib's `parallel_config` says, else OMP_NUM_THREADS, which joblib sets for its worker processes, else
    one in a worker thread of joblib's, else every core.
    """
    if n_jobs is None:
        import joblib

        backend, wanted = joblib.parallel.get_active_backend()
        if backend.nesting_level == 0 and wanted is not None:
            return resolve_n_jobs(wanted)
        limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        if limit.isdecimal() and int(limit) > 0:
            return min(int(limit), available_cores())
        return 1 if backend.nesting_level else available_cores()
    if n_jobs < 0:
        return max(1, available_cores() + 1 + n_jobs)
    return n_jobs


def count_blocks(n_rows: int) -> int:
    """Count the row blocks that cover `n_rows` rows."""
    return (n_rows + ROWS_PER_BLOCK - 1) // ROWS_PER_BLOCK


class Workers:
    """A pool of `n_threads` threads; with one thread, work runs where it is called.

    Parameters
    ----------
    n_threads : int
        At least 1.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads - 1, "abc-plugins") if n_threads > 1 else None
        self._crews: list[Workers] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the threads once their work is done."""
        for crew in self._crews:
            crew.close()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def make_crew(self, n_threads: int) -> Workers:
        """Make threads that a thread of these has for itself; they end with these."""
        self._crews.append(Workers(n_threads))
        return self._crews[-1]

    def over_rows(self, n_rows: int, work: Callable[[int, int], Any]) -> None:
        """Call `work(first_block, last_block)` on contiguous shares of the row blocks, one share per thread."""
        n_blocks = count_blocks(n_rows)
        shares = min(self.n_threads, n_blocks)
        if shares == 1:
            work(0, n_blocks)
            return
        bounds = [n_blocks * share // max(shares, 1) for share in range(shares + 1)]
        self._run([partial(work, bounds[share], bounds[share + 1]) for share in range(shares)])

    def over_items(
        self,
        items: Sequence[Any],
        work: Callable[[Any, int], Any],
        max_threads: int | None = None,
        in_order: Callable[[Any], Any] | None = None,
    ) -> None:
        """Call `work(item, thread)` for every item; each thread takes the next item when it is free.

        `in_order(item)` is called for one item after the other in their order, each after its work is done, by a thread
        that has just done some while the others go on. It must not use these threads itself.
        """
        if self.n_threads == 1 or len(items) == 1:
            for item in items:
                work(item, 0)
                if in_order is not None:
                    in_order(item)
            return
        queue = iter(enumerate(items))
        is_done = [False] * len(items)
        behind = iter(range(len(items) if in_order is not None else 0))
        upcoming = next(behind, None)
        follower = threading.Lock()

        def follow() -> None:
            nonlocal upcoming
            while upcoming is not None and is_done[upcoming]:
                # After an error nothing follows any more.
                index, upcoming = upcoming, None
                in_order(items[index])  # type: ignore[misc]
                upcoming = next(behind, None)

        def drain(thread: int) -> None:
            for index, item in queue:
                work(item, thread)
                is_done[index] = True
                if follower.acquire(blocking=False):
                    try:
                        follow()
                    finally:
                        follower.release()

        threads = min(self.n_threads, len(items), self.n_threads if max_threads is None else max_threads)
        self._run([partial(drain, thread) for thread in range(threads)])
        follow()  # what was done while the last follower was about to leave

    def _run(self, tasks: Iterable[Callable[[], Any]]) -> None:
        tasks = list(tasks)
        if self._pool is None or len(tasks) < 2:
            for task in tasks:
                task()
            return
        # The calling thread takes the first share itself instead of sleeping.
        futures = [self._pool.submit(task) for task in tasks[1:]]
        try:
            tasks[0]()
        finally:
            # Buffers must not be touched by a worker after this returns, whatever happened here.
            for future in futures:
                future.exception()
        for future in futures:
            future.result()
