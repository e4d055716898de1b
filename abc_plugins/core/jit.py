"""The one place that decides how kernels are compiled.

Every kernel releases the GIL, so that plain Python threads run them side by side (see `parallel`), and is
cached on disk. Numba's own `parallel=True` is not used: it takes several times longer to compile, and its
thread layers are either not safe to call from several threads or not safe to fork.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

Kernel = Callable[..., Any]


def kernel(function: Kernel) -> Kernel:
    """Compile `function` on first use, without the GIL, and keep the machine code on disk where possible."""
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:
        # No folder can be written to: neither next to the source, nor NUMBA_CACHE_DIR, nor the user's cache.
        return numba.njit(nogil=True, error_model="numpy")(function)
