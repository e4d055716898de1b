"""What contenders import and compile, before the clock runs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

from abc_plugins.compare.practice.contenders import Contender, select
from abc_plugins.compare.practice.table import Sample
from abc_plugins.compare.running import naming
from abc_plugins.core.runtime.arrays import Floats
from abc_plugins.core.runtime.numba_internals import cache_folder
from abc_plugins.core.runtime.parallel import available_cores
from abc_plugins.core.trees.best_first import grow_trees

ROUNDS = 20
"""Of a fit that warms up: models of few trees predict by other kernels than those of many."""

_NEEDS_KERNELS = ("directional", "pairs", "abc-lightgbm", "abc-xgboost")


def warm_up(contenders: Sequence[Contender], sample: Sample, X_test: Floats) -> None:
    """Train every contender for a few rounds, and let it predict as many rows as it will later.

    Parameters
    ----------
    contenders : sequence of Contender
    sample : Sample
        Its limit of rounds is ROUNDS.
    X_test : array
    """
    ours = [contender.key for contender in contenders if contender.key in _NEEDS_KERNELS]
    is_cold = len(ours) > 1 and not _is_kept(grow_trees)
    with _compiled_beside(ours[1:] if is_cold and available_cores() > 1 else [], sample, X_test):
        _use([contender for contender in contenders if contender.key not in ours[1:]], sample, X_test)
    _use([contender for contender in contenders if contender.key in ours[1:]], sample, X_test)


@contextmanager
def _compiled_beside(keys: Sequence[str], sample: Sample, X_test: Floats) -> Iterator[None]:
    """Have a second process compile what some contenders need: Numba compiles one kernel at a time in a process.

    The kernels reach this process through the cache on disk, which lies beside the modules: the second process must
    import the same ones, and not a copy that happens to be in the working folder. Whatever goes wrong in it comes up
    here when these contenders are used.
    """
    if not keys or not sys.executable:
        yield
        return
    command = [sys.executable, "-P", "-m", "abc_plugins.compare.practice.warming"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    with TemporaryFile() as file:
        pickle.dump((keys, sample, X_test), file)
        file.seek(0)
        with subprocess.Popen(command, stdin=file, stderr=subprocess.DEVNULL, env=environment) as process:
            try:
                yield
            except BaseException:
                process.kill()
                raise


def _is_kept(kernel: Any) -> bool:
    """Whether the cache on disk has machine code of a kernel, or there is no cache that could have it."""
    folder = cache_folder(kernel)
    return folder is None or any(folder.glob(f"*.{kernel.py_func.__name__}-*.nbi"))


def _use(contenders: Sequence[Contender], sample: Sample, X_test: Floats) -> None:
    for contender in contenders:
        with naming(contender):
            contender.train(sample, {}).predict_proba(X_test)


if __name__ == "__main__":
    keys, sample, X_test = pickle.load(sys.stdin.buffer)
    _use(select(keys), sample, X_test)
