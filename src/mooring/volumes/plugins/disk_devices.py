"""How a disk of the array becomes a device: a loop device, or (rootless) a plain directory; and how a machine
with a kernel of its own sees what was plugged in.

Blocking. Knows paths only: what is a disk's medium, and what device shows it.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Protocol

from mooring.mounts import loop
from mooring.mounts.errors import DeviceBusy
from mooring.mounts.freeze import freeze, thaw
from mooring.mounts.holders import describe_process, open_files, processes, who_mounts
from mooring.mounts.interface import Mount
from mooring.volumes.errors import InvalidSpec, PluginError


class DiskDevices(Protocol):
    """Makes media, and shows them to machines as devices."""

    medium: str
    """Name of the medium in the disk's directory."""

    def make_medium(self, path: Path, size: int) -> None:
        """Makes an empty medium of `size` bytes, in place of any left-over."""
        ...

    def grow_medium(self, path: Path, size: int) -> None:
        """Raises InvalidSpec if no medium here can ever have so many bytes; nothing has changed then."""
        ...

    def create(self, medium: Path) -> str:
        """A new device that shows the medium; its path."""
        ...

    def of(self, medium: Path) -> list[str]:
        """All devices that show the medium now."""
        ...

    def shows(self, device: str, medium: Path) -> bool:
        """Whether the device at this path (links are followed) shows this very medium."""
        ...

    def grown(self, device: str) -> None:
        """The device takes on the medium's new size."""
        ...

    def freeze(self, device: str) -> None:
        """Flushes what was written to the medium; further writes wait until `thaw`, also if
        this process ends."""
        ...

    def thaw(self, device: str) -> None:
        """Idempotent."""
        ...

    def remove(self, device: str, medium: Path) -> None:
        """Removes the device of the medium. Raises DeviceBusy while it is in use, and then leaves it as it
        was. Idempotent."""
        ...


class LoopDevices(DiskDevices):
    """Real block devices: sparse files behind loop devices. Needs root."""

    medium = "disk.img"

    def make_medium(self, path: Path, size: int) -> None:
        path.unlink(missing_ok=True)  # never truncated in place: an old device may still show the old file
        self.grow_medium(path, size)

    def grow_medium(self, path: Path, size: int) -> None:
        with open(path, "ab") as file:
            try:
                os.ftruncate(file.fileno(), size)
            except (OSError, OverflowError) as error:
                if isinstance(error, OSError) and error.errno != errno.EFBIG:
                    raise
                raise InvalidSpec(
                    f"a disk of {size} bytes would be larger than a file can be where this array is: ask for less"
                ) from error
            os.fsync(file.fileno())

    def create(self, medium: Path) -> str:
        return loop.create(str(medium))

    def of(self, medium: Path) -> list[str]:
        return loop.devices_of(str(medium))

    def shows(self, device: str, medium: Path) -> bool:
        return loop.is_device_of(device, str(medium))

    def grown(self, device: str) -> None:
        loop.set_capacity(device)

    def freeze(self, device: str) -> None:
        if not freeze(device):  # used as a raw device, or not at all
            with open(device, "rb") as file:
                os.fsync(file.fileno())

    def thaw(self, device: str) -> None:
        thaw(device)

    def remove(self, device: str, medium: Path) -> None:
        loop.remove(device, str(medium))


class DirectoryDevices(DiskDevices):
    """Directories instead of devices: no privileges, but no sizes either, and a power
    failure loses nothing."""

    medium = "data"

    def make_medium(self, path: Path, size: int) -> None:
        path.mkdir(exist_ok=True)

    def grow_medium(self, path: Path, size: int) -> None:
        return

    def create(self, medium: Path) -> str:
        return str(medium)

    def of(self, medium: Path) -> list[str]:
        return []

    def shows(self, device: str, medium: Path) -> bool:
        return os.path.realpath(device) == os.path.realpath(medium)

    def grown(self, device: str) -> None:
        return

    def freeze(self, device: str) -> None:
        return

    def thaw(self, device: str) -> None:
        return

    def remove(self, device: str, medium: Path) -> None:
        if not os.path.isdir(device):
            return
        status = os.stat(device)
        number = (os.major(status.st_dev), os.minor(status.st_dev))
        holders = [*who_mounts(lambda table: _showing(table, device, number)), *_working_in(device)]
        if holders:
            raise DeviceBusy(device, holders)


def _showing(table: tuple[Mount, ...], directory: str, device: tuple[int, int]) -> list[Mount]:
    """The bind mounts of the directory. Their root is its path inside its file system: a tail of
    its full path."""
    return [
        mount
        for mount in table
        if mount.device == device and mount.root != "/" and os.path.realpath(directory).endswith(mount.root)
    ]


def _working_in(directory: str) -> list[str]:
    prefix = os.path.realpath(directory)
    return [
        f"held open by {describe_process(pid)}"
        for pid in processes()
        if any(_link_is_below(link, prefix) for link in (f"/proc/{pid}/cwd", *open_files(pid)))
    ]


def _link_is_below(link: str, directory: str) -> bool:
    try:
        target = os.readlink(link)
    except OSError:
        return False
    return target == directory or target.startswith(directory + "/")


class PluggedDevices(DiskDevices):
    """What a node agent sees inside a machine with a kernel of its own: disks that are plugged in from
    outside. The array itself is not reachable from there."""

    medium = "disk.img"
    known = Path("/run/machine-disks")
    """Has a file for each device, with the name of its disk; the machine's first process keeps it."""

    def shows(self, device: str, medium: Path) -> bool:
        name = os.path.basename(os.path.realpath(device))
        try:
            disk = (self.known / name).read_text()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return disk == medium.parent.name and os.path.exists(device)

    def make_medium(self, path: Path, size: int) -> None:
        raise self._elsewhere()

    def grow_medium(self, path: Path, size: int) -> None:
        raise self._elsewhere()

    def create(self, medium: Path) -> str:
        raise self._elsewhere()

    def of(self, medium: Path) -> list[str]:
        raise self._elsewhere()

    def grown(self, device: str) -> None:
        raise self._elsewhere()

    def freeze(self, device: str) -> None:
        raise self._elsewhere()

    def thaw(self, device: str) -> None:
        raise self._elsewhere()

    def remove(self, device: str, medium: Path) -> None:
        raise self._elsewhere()

    @staticmethod
    def _elsewhere() -> PluginError:
        return PluginError("the disk array is outside of this machine: its operations are the controllers'")
