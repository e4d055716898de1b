"""Everything of Numba that is used here and is not part of its public interface: its cache, and its LLVM builder.

Numba may change these in any release. This is the only module that names them, and importing it fails, with the
versions that are supported, where the version is another or one of them is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, cgutils, types

from abc_plugins.core.runtime.checks import check_supported

__all__ = ["cache_folder", "cgutils", "check_version", "has_cached", "stamp_cache", "types", "watch_compilation"]

SUPPORTED = "0.61 to 0.68"

_NAMES = {
    caching.FunctionCache: ("load_overload", "cache_path"),
    caching.IndexDataCacheFile: ("_load_index",),
    cgutils: ("unpack_tuple",),
    types: ("void", "uint64", "int64"),
}


def check_version(version: str = numba.__version__, names: Mapping[Any, tuple[str, ...]] = _NAMES) -> None:
    """Fail if the version is not supported, or something that is needed is not there."""
    check_supported("Numba", version, SUPPORTED, names, (0, 61), (0, 69))


check_version()


def cache_folder(dispatcher: Any) -> Path | None:
    """Folder that a kernel's machine code is kept in; None if there is none."""
    folder = dispatcher._cache.cache_path
    return Path(folder) if folder else None


def has_cached(dispatcher: Any) -> bool:
    """Whether the cache has a kernel for arguments of some types; one of another version or stamp does not count."""
    return bool(dispatcher._cache._cache_file._load_index())


def watch_compilation(dispatcher: Any, tell: Callable[[bool], None]) -> None:
    """Call `tell` whenever a kernel is looked for, with whether the cache has it: else it is about to be compiled."""
    cache = dispatcher._cache
    load_overload = cache.load_overload

    def load_or_tell(signature: Any, target_context: Any) -> Any:
        found = load_overload(signature, target_context)
        tell(found is not None)
        return found

    cache.load_overload = load_or_tell


def stamp_cache(dispatcher: Any, stamp: Any) -> None:
    """Take the cache of a kernel for stale unless it was written under the same stamp.

    By itself Numba notices a change of the kernel's own file, but not of the kernels it calls from other files. And its
    index cannot be read at all once a class has gone that an argument of the older version was of.
    """
    cache_file = dispatcher._cache._cache_file
    cache_file._source_stamp = (cache_file._source_stamp, stamp)
    load_index = cache_file._load_index

    def load_index_if_readable() -> Any:
        try:
            return load_index()
        except Exception:  # whatever is wrong with it: compile, and write a new one
            return {}

    cache_file._load_index = load_index_if_readable
