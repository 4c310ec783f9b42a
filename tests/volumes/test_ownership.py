"""Giving a volume's content to a pod's group."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mooring.volumes.ownership import give_to_group, mode_for_group


@given(st.integers(0, 0o7777), st.booleans())
def test_no_permission_is_ever_taken_away_and_the_group_can_read(mode: int, read_only: bool):
    for kind in (stat.S_IFREG, stat.S_IFDIR):
        granted = mode_for_group(kind | mode, read_only)
        assert granted & mode == mode
        assert granted & stat.S_IRGRP


def test_a_group_may_write_unless_the_volume_is_read_only():
    assert mode_for_group(stat.S_IFREG | 0o600, read_only=False) == 0o660
    assert mode_for_group(stat.S_IFREG | 0o600, read_only=True) == 0o640


def test_directories_pass_their_group_on():
    assert mode_for_group(stat.S_IFDIR | 0o700, read_only=False) == 0o2770


def test_everything_below_is_given_but_links_are_not_followed(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.touch(mode=0o600)
    volume = tmp_path / "volume"
    (volume / "sub").mkdir(parents=True, mode=0o700)
    (volume / "sub" / "file").touch(mode=0o600)
    (volume / "link").symlink_to(outside)
    give_to_group(str(volume), os.getgid())
    assert (volume / "sub" / "file").stat().st_mode & 0o7777 == 0o660
    assert (volume / "sub").stat().st_mode & stat.S_ISGID
    assert outside.stat().st_mode & 0o7777 == 0o600
