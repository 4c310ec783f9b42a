"""Sessions and disks of iSCSI as the kernel has them: its own tables in sysfs, which say of each disk by
which session, of which target and LUN, it came.

udev's links (/dev/disk/by-path) are not asked: they say the same a moment later, need udev, and one of an
earlier session can still be there. A disk is known by the identity that it tells (`wwid`), not by its name or
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
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.plugins.iscsi.source import Disk, Portal, portal

SYS, DEV = Path("/sys"), Path("/dev")
SECTOR = 512  # bytes, in sysfs whatever the disk's own
LOGGED_IN = "LOGGED_IN"
LONGEST_LINE = 4096
_GONE = (errno.ENXIO, errno.ENODEV, errno.ENOENT)

_SESSION = re.compile(r"session[0-9]{1,10}", re.ASCII)
_UNIT = re.compile(r"[0-9]{1,10}:[0-9]{1,10}:[0-9]{1,10}:([0-9]{1,20})", re.ASCII)
_HOST = re.compile(r"host[0-9]{1,10}", re.ASCII)
_BLOCK = re.compile(r"[a-z]{2,20}", re.ASCII)
_MAP = re.compile(r"dm-[0-9]{1,10}", re.ASCII)
_NUMBER = re.compile(r"([0-9]{1,10}):([0-9]{1,10})", re.ASCII)


@dataclass(frozen=True)
class Session:
    """A session of this node with a target at one portal. `portal` is None where the kernel does not say
    it."""

    name: str
    target: str
    interface: str
    portal: Portal | None
    state: str
    directory: Path

    @property
    def host(self) -> str:
        """The SCSI host that it is below."""
        return next((part for part in reversed(self.directory.parts) if _HOST.fullmatch(part)), "")


@dataclass(frozen=True)
class Unit:
    """A disk that a session shows, one path to it. `directory` is its SCSI device's."""

    name: str
    lun: int
    wwid: str
    size: int
    number: tuple[int, int]
    directory: Path
    map: str = ""
    """The multipath device that is made of it and other paths."""


class Devices:
    """What `sys` and `dev` show."""

    def __init__(self, sys: Path = SYS, dev: Path = DEV) -> None:
        self._sys = sys
        self._dev = dev

    def sessions(self, target: str) -> list[Session]:
        """Those with the target."""
        found = [self._session(path) for path in _entries(self._sys / "class/iscsi_session", _SESSION)]
        return [each for each in found if each is not None and each.target == target]

    def sessions_of(self, disk: Disk) -> list[Session]:
        """Those by which the disk is used: at one of its portals, over its interface."""
        sessions = self.sessions(disk.target)
        return [each for each in sessions if each.interface == disk.interface and each.portal in disk.portals]

    def _session(self, path: Path) -> Session | None:
        target = _line(path / "targetname")
        if not target:
            return None
        directory = Path(os.path.realpath(path / "device"))
        portals = (self._portal(each.name) for each in sorted(directory.glob("connection*:*")))
        at = next((each for each in portals if each is not None), None)
        return Session(path.name, target, _line(path / "ifacename"), at, _line(path / "state"), directory)

    def _portal(self, connection: str) -> Portal | None:
        at = self._sys / "class/iscsi_connection" / connection
        address, port = _line(at / "persistent_address").strip("[]"), _line(at / "persistent_port")
        with contextlib.suppress(InvalidSpec):
            return portal(f"[{address}]:{port}", "sysfs")
        return None

    def units(self, sessions: Iterable[Session], lun: int | None = None) -> list[Unit]:
        """The disks of these sessions, or those of one LUN."""
        places = [place for each in sessions for place in sorted(each.directory.glob("target*/*"))]
        found = [self._unit(place) for place in places if _UNIT.fullmatch(place.name)]
        return [each for each in found if each is not None and lun in (None, each.lun)]

    def _unit(self, directory: Path) -> Unit | None:
        lun = _UNIT.fullmatch(directory.name)
        blocks = _entries(directory / "block", _BLOCK)
        if lun is None or not blocks:
            return None
        number, sectors = _NUMBER.fullmatch(_line(blocks[0] / "dev")), _line(blocks[0] / "size")
        if number is None or not sectors.isdecimal():
            return None
        wwid, multipath = _line(directory / "wwid"), self._multipath(blocks[0])
        of = (int(number[1]), int(number[2]))
        return Unit(blocks[0].name, int(lun[1]), wwid, int(sectors) * SECTOR, of, directory, multipath)

    def _multipath(self, block: Path) -> str:
        holders = _entries(block / "holders", _MAP)
        uuids = {each.name: _line(self._sys / "block" / each.name / "dm/uuid") for each in holders}
        return next((name for name, uuid in uuids.items() if uuid.startswith("mpath-")), "")

    def path(self, unit: Unit) -> str | None:
        """The device to be used: the multipath device, or else the disk's; None while its node in /dev is not
        there, or is another device's."""
        if unit.map:
            found = _NUMBER.fullmatch(_line(self._sys / "block" / unit.map / "dev"))
            number = (int(found[1]), int(found[2])) if found else None
        else:
            number = unit.number
        path = self._dev / (unit.map or unit.name)
        return str(path) if number is not None and _shows(path, number) else None

    def scan(self, session: Session, lun: int) -> None:
        """Has the kernel look for that LUN alone. Raises OSError."""
        if session.host:
            (self._sys / "class/scsi_host" / session.host / "scan").write_text(f"- - {lun}")

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


def _shows(path: Path, number: tuple[int, int]) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISBLK(status.st_mode) and (os.major(status.st_rdev), os.minor(status.st_rdev)) == number


def _entries(directory: Path, form: re.Pattern[str]) -> list[Path]:
    try:
        return [directory / name for name in sorted(os.listdir(directory)) if form.fullmatch(name)]
    except OSError:
        return []


def _line(path: Path) -> str:
    """What the attribute says; "" if there is none."""
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_LINE).decode(errors="replace").strip()
    except OSError:
        return ""
