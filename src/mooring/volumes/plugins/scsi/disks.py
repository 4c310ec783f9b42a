"""SCSI disks as the kernel has them in sysfs, with the multipath devices that are made of them.

udev's links (/dev/disk/by-path, by-id) are not asked: they say the same a moment later, need udev, and one of
an earlier disk can still be there. A disk is known by the identity that it tells (`wwid`), not by its name or
number. Blocking. Everything read is bounded; what has gone while it was looked at is left out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mooring.mounts.holders import in_exclusive_use
from mooring.volumes.plugins.sysfs import entries, line

SYS, DEV = Path("/sys"), Path("/dev")
SECTOR = 512  # bytes, in sysfs whatever the disk's own
RUNNING = "running"
_GONE = (errno.ENXIO, errno.ENODEV, errno.ENOENT)

HOST = re.compile(r"host[0-9]{1,10}", re.ASCII)
_UNIT = re.compile(r"[0-9]{1,10}:[0-9]{1,10}:[0-9]{1,10}:([0-9]{1,20})", re.ASCII)
_BLOCK = re.compile(r"[a-z]{2,20}", re.ASCII)
_MAP = re.compile(r"dm-[0-9]{1,10}", re.ASCII)
_NUMBER = re.compile(r"([0-9]{1,10}):([0-9]{1,10})", re.ASCII)


@dataclass(frozen=True)
class Unit:
    """One path to a disk. `directory` is its SCSI device's, `size` in bytes."""

    name: str
    lun: int
    wwid: str
    size: int
    number: tuple[int, int]
    directory: Path
    map: str = ""
    """The multipath device that is made of it and other paths."""
    state: str = RUNNING


class ScsiDisks:
    """What `sys` and `dev` show."""

    def __init__(self, sys: Path = SYS, dev: Path = DEV) -> None:
        self._sys = sys
        self._dev = dev

    def units_at(self, places: Iterable[Path], lun: int | None = None) -> list[Unit]:
        """The disks among these directories of SCSI devices, or those of one LUN."""
        found = [self._unit(place) for place in places if _UNIT.fullmatch(place.name)]
        return [each for each in found if each is not None and lun in (None, each.lun)]

    def _unit(self, directory: Path) -> Unit | None:
        lun = _UNIT.fullmatch(directory.name)
        blocks = entries(directory / "block", _BLOCK)
        if lun is None or not blocks:
            return None
        number, sectors = _number(blocks[0]), line(blocks[0] / "size")
        if number is None or not sectors.isdecimal():
            return None
        return Unit(
            name=blocks[0].name,
            lun=int(lun[1]),
            wwid=line(directory / "wwid"),
            size=int(sectors) * SECTOR,
            number=number,
            directory=directory,
            map=self._multipath(blocks[0]),
            state=line(directory / "state") or RUNNING,
        )

    def _multipath(self, block: Path) -> str:
        holders = entries(block / "holders", _MAP)
        uuids = {each.name: line(self._sys / "block" / each.name / "dm/uuid") for each in holders}
        return next((name for name, uuid in uuids.items() if uuid.startswith("mpath-")), "")

    def slaves(self, multipath: str) -> list[Unit]:
        """The paths of which the multipath device is made."""
        blocks = entries(self._sys / "block" / multipath / "slaves", _BLOCK)
        return self.units_at(Path(os.path.realpath(each / "device")) for each in blocks)

    def path(self, unit: Unit) -> str | None:
        """The device to be used: the multipath device, or else the disk's; None while its node in /dev is not
        there, or is another device's."""
        number = _number(self._sys / "block" / unit.map) if unit.map else unit.number
        path = self._dev / (unit.map or unit.name)
        return str(path) if number is not None and _shows(path, number) else None

    def rescan(self, unit: Unit) -> None:
        """Has the kernel ask the disk anew for its size and identity. Raises OSError."""
        (unit.directory / "rescan").write_text("1")

    def forget(self, unit: Unit) -> None:
        """Has the kernel drop the disk, so that what has its LUN next is not taken for it. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            (unit.directory / "delete").write_text("1")

    def in_use(self, path: str) -> bool:
        """Whether the device is mounted anywhere, or claimed; one that cannot be opened any more is not."""
        try:
            return in_exclusive_use(path)
        except OSError as error:
            if error.errno in _GONE:
                return False
            raise

    def flush(self, path: str) -> None:
        """Has all that was written to the device on the storage. Raises OSError."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def multipathd_runs(proc: Path = Path("/proc")) -> bool:
    """Whether something on this node makes multipath devices: its daemon's socket is there."""
    with contextlib.suppress(OSError):
        return "multipathd" in (proc / "net/unix").read_text(errors="replace")
    return False


def _number(block: Path) -> tuple[int, int] | None:
    found = _NUMBER.fullmatch(line(block / "dev"))
    return (int(found[1]), int(found[2])) if found else None


def _shows(path: Path, number: tuple[int, int]) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISBLK(status.st_mode) and (os.major(status.st_rdev), os.minor(status.st_rdev)) == number
