"""Block devices that do not exist, and what the kernel would say of them: files below a folder for /dev that
stat shows as devices, and a folder for /sys. No root is needed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mooring.ebs.node_service.devices import DeviceFinder

LINK = "disk/by-id/nvme-Amazon_Elastic_Block_Store_"


class PlayedDisks:
    """The disks of one instance."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dev, self.sys = root / "dev", root / "sys"
        (self.dev / "disk/by-id").mkdir(parents=True)
        (self.sys / "block").mkdir(parents=True)
        (self.sys / "dev/block").mkdir(parents=True)
        self.finder = DeviceFinder(self.dev, self.sys)
        self.nodes: dict[str, tuple[int, int]] = {}
        """Major and minor numbers, by the paths of what stat shows as devices."""
        self._stat = os.stat
        monkeypatch.setattr(os, "stat", self._shown)

    def _shown(self, path: Any, **options: Any) -> os.stat_result:
        real = self._stat(path, **options)
        number = self.nodes.get(os.path.realpath(path)) if isinstance(path, (str, Path)) else None
        if number is None or stat.S_ISLNK(real.st_mode):
            return real
        mode = stat.S_IFBLK | stat.S_IMODE(real.st_mode)
        return os.stat_result((mode, *real[1:]), {"st_rdev": os.makedev(*number)})

    def node(self, path: Path, number: tuple[int, int], size: int = 0) -> None:
        """A device without a description in sysfs."""
        with open(path, "wb") as file:
            file.truncate(size)
        self.nodes[str(path)] = number

    def disk(self, name: str, serial: str = "", partitions: int = 0, backing: str = "", size: int = 0) -> str:
        """The path of a new disk; `serial`: as NVMe disks have it; `backing`: the file of a loop device."""
        described = self.sys / "block" / name
        self._described_node(name, described, size)
        (described / "device").mkdir()
        if serial:
            (described / "device/serial").write_text(serial + "     \n")
        if backing:
            (described / "loop").mkdir()
            (described / "loop/backing_file").write_text(f"{backing}\n")
        for number in range(1, partitions + 1):
            part = f"{name}{'p' if name[-1].isdigit() else ''}{number}"
            self._described_node(part, described / part, size)
            (described / part / "partition").write_text(f"{number}\n")
        return str(self.dev / name)

    def _described_node(self, name: str, described: Path, size: int) -> None:
        described.mkdir()
        number = 259, len(self.nodes) + 1
        self.node(self.dev / name, number, size)
        (self.sys / "dev/block" / f"259:{number[1]}").symlink_to(described)

    def gone(self, name: str) -> None:
        """The disk is not attached any more."""
        major, minor = self.nodes.pop(str(self.dev / name))
        (self.sys / "dev/block" / f"{major}:{minor}").unlink()
        (self.dev / name).unlink()

    def link(self, volume: str, name: str, end: str = "") -> None:
        """Udev's link of the volume to the disk."""
        (self.dev / (LINK + volume.replace("-", "") + end)).symlink_to(self.dev / name)

    def number(self, name: str) -> tuple[int, int]:
        return self.nodes[str(self.dev / name)]
