"""The one place that decides how kernels are compiled.

Every kernel releases the GIL, so that plain Python threads run them side by side (see `parallel`), and is
cached on disk. Numba's own `parallel=True` is not used: it takes several times longer to compile, and its
thread layers are either not safe to call from several threads or not safe to fork.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

Kernel = Callable[..., Any]

compiled_kernels: list[str] = []
"""Names of the kernels that this process had to compile because they were not in the cache."""

_logger = logging.getLogger("abc_plugins")


def _stamp_of_kernels() -> tuple[tuple[str, int, int], ...]:
    """Path, time and size of every source file of `abc_plugins.core`, in all its folders: kernels may be in any."""
    core = Path(__file__).parent.parent
    files = sorted(core.rglob("*.py"))
    return tuple((file.relative_to(core).as_posix(), file.stat().st_mtime_ns, file.stat().st_size) for file in files)


_STAMP = _stamp_of_kernels()


def kernel(function: Kernel) -> Kernel:
    """Compile `function` on first use, without the GIL, and keep the machine code on disk where possible."""
    return _cached(numba.njit(nogil=True, error_model="numpy")(function))


def summing_kernel(function: Kernel) -> Kernel:
    """Compile `function` likewise, and let LLVM change the order of additions, so that sums over a row are vectorised.

    The order depends on the machine, but neither on the data nor on the number of threads.
    """
    return _cached(numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"})(function))


def _cached(dispatcher: Any) -> Kernel:
    # Without a folder that can be written to - next to the source, NUMBA_CACHE_DIR or the user's cache - there is none.
    with contextlib.suppress(RuntimeError):
        dispatcher.enable_caching()
        _invalidate_on_any_source_change(dispatcher._cache._cache_file)
    _tell_of_compilation(dispatcher)
    return dispatcher


def part_of_kernel(function: Kernel) -> Kernel:
    """Paste `function` into the kernels that call it.

    Each level of calls makes LLVM optimise everything below it once more: what has one caller is better a part of it.
    """
    return numba.njit(nogil=True, error_model="numpy", inline="always")(function)


def kernel_of(part: Kernel) -> Kernel:
    """Make a part of kernels a kernel by itself, too."""
    return kernel(part.py_func)  # type: ignore[attr-defined]


def _tell_of_compilation(dispatcher: Any) -> None:
    """Say so once if kernels are not in the cache: the user is about to wait."""
    cache = dispatcher._cache
    load_overload = cache.load_overload

    def load_or_tell(signature: Any, target_context: Any) -> Any:
        found = load_overload(signature, target_context)
        if found is None:
            if not compiled_kernels:
                _logger.warning(
                    "Compiling the kernels, which takes about half a minute: %s.",
                    f"once, they are kept in {cache.cache_path}"
                    if cache.cache_path
                    else "in every process, as there is no folder to keep them in (set NUMBA_CACHE_DIR)",
                )
            compiled_kernels.append(dispatcher.py_func.__name__)
        return found

    cache.load_overload = load_or_tell


def _invalidate_on_any_source_change(cache_file: Any) -> None:
    """Invalidate a cache file of Numba's when any source file of `abc_plugins.core` changes.

    By itself it notices a change of the kernel's own file, but not of the kernels it calls from other files. And its
    index cannot be read at all once a class has gone that an argument of the older version was of.
    """
    cache_file._source_stamp = (cache_file._source_stamp, _STAMP)
    load_index = cache_file._load_index

    def load_index_if_readable() -> Any:
        try:
            return load_index()
        except Exception:  # whatever is wrong with it: compile, and write a new one
            return {}

    cache_file._load_index = load_index_if_readable
