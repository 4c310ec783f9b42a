"""The part of a volume that a subPath names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.node.supervisor.sub_path import LeadsOut, open_sub_path


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "volume").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path / "volume"


@pytest.fixture(autouse=True)
def masked() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def opened(volume: Path, path: str) -> str:
    """Where the subPath leads."""
    descriptor = open_sub_path(str(volume), path)
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("mode", [0o777, 0o2770, 0o1777, 0o755])
def test_what_is_made_has_the_mode_of_the_volume(volume: Path, mode: int):
    volume.chmod(mode)
    assert opened(volume, "a/b") == str(volume / "a" / "b")
    for made in (volume / "a", volume / "a" / "b"):
        assert stat.S_IMODE(made.stat().st_mode) == mode


def test_what_is_there_keeps_its_mode(volume: Path):
    (volume / "a").mkdir(mode=0o700)
    volume.chmod(0o777)
    opened(volume, "a")
    assert stat.S_IMODE((volume / "a").stat().st_mode) == 0o700


def test_no_path_is_the_volume(volume: Path):
    assert opened(volume, "") == str(volume)


@pytest.mark.parametrize("path", ["..", "a/../..", "link", "link/x", "relative/new"])
def test_nothing_leads_out_of_the_volume_and_nothing_is_made_there(volume: Path, path: str):
    outside = volume.parent / "outside"
    (volume / "link").symlink_to(outside)
    (volume / "relative").symlink_to("../outside")
    with pytest.raises(LeadsOut):
        opened(volume, path)
    assert not list(outside.iterdir())


def test_a_link_within_the_volume_is_followed(volume: Path):
    (volume / "there").mkdir()
    (volume / "link").symlink_to("there")
    assert opened(volume, "link/new") == str(volume / "there" / "new")


def test_what_is_below_a_file_cannot_be_made(volume: Path):
    (volume / "file").touch()
    with pytest.raises(NotADirectoryError):
        opened(volume, "file/x")
