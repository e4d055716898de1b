"""Write a file whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str], mode: str = "wb", **options: Any) -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; when the block ends well, it takes the place of `path` in one step.

    Whatever happens, `path` is either the old file or the whole new one. The new file has the permissions that
    `open` would give it, or those of the file it replaces; symbolic links are followed.

    Parameters
    ----------
    path : path
    mode, **options
        As for `open`.
    """
    target = Path(os.path.realpath(path))
    _check_target(target)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:  # name the file the user asked for
        raise type(error)(error.errno, error.strerror, str(path)) from error
    try:
        with open(descriptor, mode, **options) as file:
            yield file
            file.flush()
            _copy_permissions(target, file.fileno())
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _check_target(target: Path) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "The folder does not exist", str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "Not a regular file", str(target))


def _copy_permissions(target: Path, descriptor: int) -> None:
    if hasattr(os, "fchmod"):
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power failure, where folders can be synced."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
