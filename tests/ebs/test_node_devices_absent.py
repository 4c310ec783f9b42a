"""Which device is a volume's, on a machine that has none of it: no root is needed to find nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from ebs_machine import VOLUME

from mooring.csi.errors import Code, CsiError
from mooring.ebs.node_service.devices import DeviceFinder


@pytest.fixture
def finder(tmp_path: Path) -> DeviceFinder:
    (tmp_path / "dev/disk/by-id").mkdir(parents=True)
    (tmp_path / "sys/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    return DeviceFinder(tmp_path / "dev", tmp_path / "sys")


@pytest.mark.parametrize("attached_as", ["", "/dev/xvdba", "/dev/sdf"])
def test_names_at_which_no_device_is_are_passed_over(finder: DeviceFinder, attached_as: str):
    with pytest.raises(CsiError, match="has no device on this node") as raised:
        finder.find(VOLUME, attached_as)
    assert raised.value.code is Code.NOT_FOUND


@pytest.mark.parametrize("made", ["file", "dangling link"])
def test_what_is_no_device_is_passed_over(finder: DeviceFinder, made: str):
    path = finder.dev / "xvdba"
    path.touch() if made == "file" else path.symlink_to(finder.dev / "gone")
    with pytest.raises(CsiError) as raised:
        finder.find(VOLUME, "/dev/xvdba")
    assert raised.value.code is Code.NOT_FOUND


def test_a_name_that_no_device_has_is_refused(finder: DeviceFinder):
    with pytest.raises(CsiError) as raised:
        finder.find(VOLUME, "/dev/../etc/passwd")
    assert raised.value.code is Code.INVALID_ARGUMENT
