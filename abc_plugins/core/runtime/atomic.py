"""Write a file whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

_SUFFIX = ".tmp"


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
    target = check_target(path)
    temporary = target.with_name(_temporary_prefix(target) + secrets.token_hex(8) + _SUFFIX)
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


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove temporary files of `path` that processes left behind when they were killed.

    Nobody else may be writing to `path`.
    """
    target = Path(os.path.realpath(path))
    for entry in target.parent.glob(f"{glob.escape(_temporary_prefix(target))}*{_SUFFIX}"):
        entry.unlink(missing_ok=True)


def _temporary_prefix(target: Path) -> str:
    """How all temporary files of a target begin: short, whatever its name, and no other target's begin like that."""
    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    return f".{target.name[:30]}.{digest}."


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the file that `path` leads to; refuse what cannot be replaced by a file."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "The folder does not exist", str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "Not a regular file", str(target))
    return target


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
