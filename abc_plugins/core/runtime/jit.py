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

from abc_plugins.core.runtime.numba_internals import cache_folder, has_cached, stamp_cache, watch_compilation

Kernel = Callable[..., Any]

compiled_kernels: list[str] = []
"""Names of the kernels that this process had to compile because they were not in the cache."""

loaded_kernels: list[str] = []
"""Names of those that the cache had."""

_dispatchers_with_cache: list[Any] = []

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
        stamp_cache(dispatcher, _STAMP)  # Numba itself does not look at the kernels that a kernel calls
        _dispatchers_with_cache.append(dispatcher)
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


def compile_message(has_some: bool, folder: Path | None) -> str:
    """What to tell before the first kernel is compiled; `has_some`: the cache has had others."""
    what = (
        "Compiling kernels that were not needed before, which takes up to half a minute"
        if has_some
        else "Compiling the kernels that are needed first, which takes about half a minute; other kinds of trees, data "
        "and predictions take some more when they come up"
    )
    where = (
        f"They are kept in {folder}; `abc-plugins compile` compiles all of them ahead."
        if folder
        else "That is so in every process, as there is no folder to keep them in (set NUMBA_CACHE_DIR)."
    )
    return f"{what}. {where}"


def _tell_of_compilation(dispatcher: Any) -> None:
    """Say so once if kernels are not in the cache: the user is about to wait."""
    folder = cache_folder(dispatcher)

    def tell(is_in_cache: bool) -> None:
        name = dispatcher.py_func.__name__
        if is_in_cache:
            loaded_kernels.append(name)
            return
        if not compiled_kernels:
            # The first kernel of a process may be the one that is not there, as for data of another type.
            has_some = bool(loaded_kernels) or any(map(has_cached, _dispatchers_with_cache))
            _logger.warning(compile_message(has_some, folder))
        compiled_kernels.append(name)

    watch_compilation(dispatcher, tell)
