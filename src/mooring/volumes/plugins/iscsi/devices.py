"""Sessions of iSCSI as the kernel has them: its own tables in sysfs, which say of each disk by which session,
of which target and LUN, it came. The disks themselves are `plugins.scsi`'s to read.

Blocking. Everything read is bounded; what has gone while it was looked at is left out.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mooring.volumes.errors import InvalidSpec
from mooring.volumes.plugins.iscsi.source import Disk, Portal, portal
from mooring.volumes.plugins.scsi.disks import HOST, ScsiDisks, Unit
from mooring.volumes.plugins.sysfs import entries, line

LOGGED_IN = "LOGGED_IN"

_SESSION = re.compile(r"session[0-9]{1,10}", re.ASCII)


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
        return next((part for part in reversed(self.directory.parts) if HOST.fullmatch(part)), "")


class Devices(ScsiDisks):
    """What `sys` and `dev` show."""

    def sessions(self, target: str) -> list[Session]:
        """Those with the target."""
        found = [self._session(path) for path in entries(self._sys / "class/iscsi_session", _SESSION)]
        return [each for each in found if each is not None and each.target == target]

    def sessions_of(self, disk: Disk) -> list[Session]:
        """Those by which the disk is used: at one of its portals, over its interface."""
        sessions = self.sessions(disk.target)
        return [each for each in sessions if each.interface == disk.interface and each.portal in disk.portals]

    def _session(self, path: Path) -> Session | None:
        target = line(path / "targetname")
        if not target:
            return None
        directory = Path(os.path.realpath(path / "device"))
        portals = (self._portal(each.name) for each in sorted(directory.glob("connection*:*")))
        at = next((each for each in portals if each is not None), None)
        return Session(path.name, target, line(path / "ifacename"), at, line(path / "state"), directory)

    def _portal(self, connection: str) -> Portal | None:
        at = self._sys / "class/iscsi_connection" / connection
        address, port = line(at / "persistent_address").strip("[]"), line(at / "persistent_port")
        with contextlib.suppress(InvalidSpec):
            return portal(f"[{address}]:{port}", "sysfs")
        return None

    def units(self, sessions: Iterable[Session], lun: int | None = None) -> list[Unit]:
        """The disks of these sessions, or those of one LUN."""
        places = [place for each in sessions for place in sorted(each.directory.glob("target*/*"))]
        return self.units_at(places, lun)

    def scan(self, session: Session, lun: int) -> None:
        """Has the kernel look for that LUN alone. Raises OSError."""
        if session.host:
            (self._sys / "class/scsi_host" / session.host / "scan").write_text(f"- - {lun}")
