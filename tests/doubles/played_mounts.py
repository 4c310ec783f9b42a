"""Mounts of disks, played: what is mounted where, from which device."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.mounts.errors import FilesystemMismatch


class PlayedMounts:
    """Devices by mount point; `holds`: what every device has on it."""

    def __init__(self) -> None:
        self.points: dict[str, tuple[str, str, tuple[str, ...]]] = {}
        self.holds = "ext4"
        self.grown: list[tuple[str, str]] = []

    async def is_mount_point(self, path: str) -> bool:
        return path in self.points

    async def format_and_mount(
        self, device: str, target: str, fs_type: str, options: Sequence[str] = ()
    ) -> None:
        if fs_type != self.holds:
            raise FilesystemMismatch(device, fs_type, f"a file system of type {self.holds}")
        self.points[target] = (device, fs_type, tuple(options))

    async def bind_mount(self, source: str, target: str, read_only: bool = False) -> None:
        self.points[target] = (self.points[source][0], "bind", ("ro",) if read_only else ())

    async def remove_mount_point(self, target: str) -> None:
        self.points.pop(target, None)

    async def get_device_mount_refs(self, path: str) -> list[str]:
        return [
            other
            for other, mount in self.points.items()
            if other != path and mount[0] in (path, self.points[path][0])
        ]

    async def resize(self, device: str, mount_path: str) -> None:
        self.grown.append((device, mount_path))
