"""The mounts of one node of a server, as `mount`, `umount`, `sync` and `stat` tell and change them."""

from __future__ import annotations

import os

from mooring.mounts.interface import Mount
from mooring.volumes.plugins.programs import Ended


class PlayedKernel:
    """Mounts of one node, and a server. `gone`: it answers nothing; `refusal`: what it says to a mount."""

    def __init__(self) -> None:
        self.mounts: dict[str, str] = {}
        self.devices: dict[str, tuple[int, int]] = {}
        self.calls: list[tuple[str, ...]] = []
        self.gone = False
        self.refusal = ""
        self.mounts_late = False
        self.busy = 0
        self.slow = self.lies = False

    async def run(self, *words: str, deadline_s: float) -> Ended:
        self.calls.append(words)
        program, directory = words[0], words[-1]
        if program == "mount":
            return self._mount(words[-2], directory)
        if program == "umount" and self.busy:
            self.busy -= 1
            return Ended(32, errors="target is busy")
        if program == "sync" and self.slow:
            return Ended(None)
        if program == "umount" and (not self.gone or "-f" in words or self._shared(directory)):
            self.mounts.pop(directory, None)
            return Ended(0)
        if self.gone:
            return Ended(None)
        return Ended(0, "4096 100 60 50 10 4" if program == "stat" else "")

    def _shared(self, directory: str) -> bool:
        device = self.devices.get(directory)
        return device is not None and [self.devices.get(each) for each in self.mounts].count(device) > 1

    def _mount(self, source: str, directory: str) -> Ended:
        if self.lies:
            return Ended(0)
        if self.refusal:
            return Ended(32, errors=f"mount.nfs: {self.refusal}")
        if not self.gone or self.mounts_late:
            self.mounts[directory] = source
        return Ended(None if self.gone else 0)

    async def is_mount_point(self, path: str) -> bool:
        return path in self.mounts

    async def mount_table(self, pid: int | None = None) -> tuple[Mount, ...]:
        return tuple(
            Mount(
                index + 10, 1, self.devices.get(path, (0, index + 50)), "/", path, frozenset(), "nfs4", source
            )
            for index, (path, source) in enumerate(self.mounts.items())
        )

    async def remove_mount_point(self, target: str) -> None:
        assert target not in self.mounts
        os.rmdir(target)
