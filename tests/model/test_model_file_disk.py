"""Writing model files: in one step, with the permissions of `open`, or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from model_files import random_model

from abc_plugins.core.model.file import save, to_bytes
from abc_plugins.core.runtime.atomic import replace_file


def test_saving_replaces_in_one_step_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "model.abc"
    header, trees = random_model(0)
    path.write_bytes(b"old")
    with pytest.raises(TypeError, match="params cannot be stored"):
        save(path, header | {"params": object()}, trees)
    assert path.read_bytes() == b"old"
    save(path, header, trees)
    assert path.read_bytes() == to_bytes(header, trees)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.abc"]


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_old_file(failure: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write() -> None:
        with replace_file(path) as file:
            file.write(b"new")
            raise failure

    with pytest.raises(type(failure), match=r"No space left|^$"):
        write()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_permissions_are_those_of_open(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with replace_file(tmp_path / "new"):
            pass
        (tmp_path / "plain").touch()
    finally:
        os.umask(before)
    mode = stat.S_IMODE((tmp_path / "new").stat().st_mode)
    assert mode == stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o640
    (tmp_path / "plain").chmod(0o604)
    with replace_file(tmp_path / "plain"):
        pass
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o604


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    with replace_file(tmp_path / "link", "w", encoding="utf-8") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    header, trees = random_model(0)
    with pytest.raises(FileNotFoundError, match=r"The folder does not exist: .*missing"):
        save(tmp_path / "missing" / "model.abc", header, trees)
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        save(tmp_path, header, trees)
    with pytest.raises(OSError, match="Not a regular file"):
        save("/dev/null", header, trees)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match=r"model\.abc'$"):
            save(tmp_path / "model.abc", *random_model(0))
    finally:
        tmp_path.chmod(0o700)
