"""What must be at the paths of a node service, and what must not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mooring.csi.driver.targets import (
    check_mounted_target,
    check_no_file,
    check_staging_path,
    make_file,
    remove_file,
)
from mooring.csi.driver.usage import device_size, volume_usage
from mooring.csi.errors import Code, CsiError


def test_a_file_is_made_once_and_removed_once(tmp_path: Path) -> None:
    path = tmp_path / "target"
    for _ in range(2):
        make_file(str(path))
        assert path.stat().st_size == 0
    for _ in range(2):
        assert remove_file(str(path))
        assert not path.exists()


def test_a_file_is_never_made_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        make_file(str(tmp_path / "target"))
    assert not (tmp_path / "elsewhere").exists()


def test_what_was_there_is_kept_when_a_file_is_made(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("somebody's")
    make_file(str(tmp_path / "target"))
    assert (tmp_path / "target").read_text() == "somebody's"


def test_a_file_is_not_made_where_a_directory_is_nor_a_directory_taken_where_a_file_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    check_no_file(str(tmp_path))
    check_no_file(str(tmp_path / "nothing"))
    for refused, path in ((make_file, tmp_path), (check_no_file, tmp_path / "file")):
        with pytest.raises(CsiError, match="unpublish that first") as caught:
            refused(str(path))
        assert caught.value.code is Code.FAILED_PRECONDITION


def test_a_directory_is_left_to_whoever_unmounts(tmp_path: Path) -> None:
    assert not remove_file(str(tmp_path))
    assert tmp_path.is_dir()


def test_what_holds_something_or_is_no_file_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "full").write_text("x")
    (tmp_path / "link").symlink_to("full")
    os.mkfifo(tmp_path / "pipe")
    for name in ("full", "link", "pipe"):
        with pytest.raises(CsiError, match="no empty file") as caught:
            remove_file(str(tmp_path / name))
        assert caught.value.code is Code.FAILED_PRECONDITION
        assert os.path.lexists(tmp_path / name)


def check(is_the_volume: bool, is_read_only: bool, wanted: bool) -> Code | None:
    try:
        check_mounted_target(
            "/t",
            "/dev/loop7",
            is_the_volume=is_the_volume,
            is_read_only=is_read_only,
            wanted_read_only=wanted,
        )
    except CsiError as error:
        return error.code
    return None


@pytest.mark.parametrize("read_only", [False, True])
def test_a_target_that_shows_the_volume_as_asked_is_left_as_it_is(read_only: bool) -> None:
    assert check(True, read_only, read_only) is None
    assert check(True, read_only, not read_only) is Code.ALREADY_EXISTS
    assert check(False, read_only, read_only) is Code.FAILED_PRECONDITION


def test_a_request_without_a_staging_path_is_refused() -> None:
    check_staging_path("/staging")
    with pytest.raises(CsiError) as caught:
        check_staging_path("")
    assert caught.value.code is Code.FAILED_PRECONDITION


def test_of_a_device_the_size_is_what_is_told(tmp_path: Path) -> None:
    (tmp_path / "device").write_bytes(bytes(4096))
    assert device_size(str(tmp_path / "device")) == 4096
    [usage] = volume_usage(str(tmp_path / "device"))
    assert (usage.total, usage.available) == (4096, 0)
