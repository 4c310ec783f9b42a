"""Which block device is seen at a mount point."""

from __future__ import annotations

from pathlib import Path

from mooring.mounts.mount_points import raw_device, shown_device


def test_at_a_mount_of_a_file_system_the_mount_table_says_which_device_is_seen(tmp_path: Path) -> None:
    assert raw_device(str(tmp_path)) is None
    assert raw_device(str(tmp_path / "gone")) is None
    assert raw_device("/dev/null") is None
    assert shown_device(str(tmp_path), (7, 3)) == (7, 3)
