"""Giving a volume's content to a pod's group."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.objects import ObjectMeta, Pod
from mooring.kube.objects.pods import PodSecurityContext, PodSpec
from mooring.volumes.ownership import give_to_group, mode_for_group, on_root_mismatch


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


@pytest.mark.parametrize(("policy", "asked"), [("OnRootMismatch", True), ("Always", False), ("", False)])
def test_only_a_pod_that_says_so_looks_at_the_root_alone(policy: str, asked: bool):
    context = PodSecurityContext(fs_group=1, fs_group_change_policy=policy)
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(security_context=context))
    assert on_root_mismatch(pod) is asked


def _volume(path: Path) -> Path:
    (path / "volume").mkdir()
    (path / "volume" / "file").touch(mode=0o600)
    return path / "volume"


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_root_that_is_given_already_is_left_with_all_below_it(tmp_path: Path):
    volume = _volume(tmp_path)
    volume.chmod(0o2770)
    give_to_group(str(volume), os.getgid(), on_root_mismatch=True)
    assert _mode(volume / "file") == 0o600
    give_to_group(str(volume), os.getgid())
    assert _mode(volume / "file") == 0o660


@pytest.mark.parametrize("mode", [0o770, 0o2750, 0o2760])
def test_a_root_without_the_groups_rights_or_setgid_is_given_with_all_below_it(tmp_path: Path, mode: int):
    volume = _volume(tmp_path)
    volume.chmod(mode)
    give_to_group(str(volume), os.getgid(), on_root_mismatch=True)
    assert _mode(volume) == mode | 0o2770
    assert _mode(volume / "file") == 0o660


def test_the_root_is_given_last_so_that_a_walk_that_failed_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    volume = _volume(tmp_path)
    volume.chmod(0o700)
    changed: list[str] = []
    monkeypatch.setattr(os, "chmod", lambda path, mode: changed.append(os.path.basename(path)))
    give_to_group(str(volume), os.getgid())
    assert changed == ["file", "volume"]


def test_what_another_pod_removes_meanwhile_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    volume, lstat = _volume(tmp_path), os.lstat
    (volume / "busy").mkdir()
    (volume / "busy" / "one").touch(mode=0o600)

    def meanwhile(path: str) -> os.stat_result:
        if os.path.basename(path) in ("file", "one"):
            os.unlink(path)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", meanwhile)
    give_to_group(str(volume), os.getgid())
    assert [_mode(path) & 0o2070 for path in (volume, volume / "busy")] == [0o2070, 0o2070]


def test_a_directory_that_goes_before_it_is_listed_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    volume, scandir = _volume(tmp_path), os.scandir
    (volume / "gone").mkdir()

    def meanwhile(path: str) -> object:
        if os.path.basename(path) == "gone":
            os.rmdir(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", meanwhile)
    give_to_group(str(volume), os.getgid())
    assert _mode(volume / "file") == 0o660


def test_a_directory_that_cannot_be_listed_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    volume, scandir = _volume(tmp_path), os.scandir
    (volume / "broken").mkdir()

    def broken(path: str) -> object:
        if os.path.basename(path) == "broken":
            raise OSError(5, "Input/output error", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", broken)
    with pytest.raises(OSError, match="Input/output error"):
        give_to_group(str(volume), os.getgid())
    assert not _mode(volume) & stat.S_ISGID, "the root says that it is to be done again"


def test_a_volume_that_is_gone_is_a_failure(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        give_to_group(str(tmp_path / "none"), os.getgid())
