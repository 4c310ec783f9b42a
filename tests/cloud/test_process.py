"""The process that is a cloud: what it leaves when it cannot start."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mooring.cloud import process
from mooring.cloud.cloud import Cloud
from mooring.cloud.data_directory import DataDirectory
from mooring.cloud.devices import LoopDevices


async def test_a_cloud_that_cannot_attach_again_all_that_was_attached_leaves_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    released: list[LoopDevices] = []

    async def full(self: Cloud) -> None:
        raise OSError(28, "no loop device is left")

    monkeypatch.setattr(Cloud, "restore", full)

    def release(self: LoopDevices) -> None:
        released.append(self)

    monkeypatch.setattr(LoopDevices, "release", release)
    with pytest.raises(OSError, match="no loop device"):
        async with process.running(DataDirectory(tmp_path), 0, 0, True, Random(1), {}):
            pass
    assert len(released) == 1
