"""A copy is whole, or there is none."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from mooring.mounts import copies


def no_room(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def half_a_tree(_: Path, target: Path, **__: Any) -> None:
    target.mkdir()
    (target / "file").write_bytes(b"da")
    no_room()


@pytest.mark.parametrize("directory", [False, True])
def test_a_copy_for_which_there_is_no_room_leaves_nothing(
    directory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    if directory:
        source.mkdir()
        monkeypatch.setattr(shutil, "copytree", half_a_tree)
    else:
        source.write_bytes(b"data")
        monkeypatch.setattr(copies, "_cloned", no_room)
    with pytest.raises(OSError):
        copies.copy_medium(source, tmp_path / "copy")
    assert [each.name for each in tmp_path.iterdir()] == ["source"]
