"""Ports and disks of Fibre Channel as the kernel has them in sysfs: remote ports (`fc_remote_ports`) and the
disks below them, and for a disk that is known by its own name, all SCSI disks. Blocking.

Where the kernel is to look for a disk that it has not seen yet (`Scan`) is decided here; that it looks, and
for how long that is waited for, is not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring.volumes.plugins.fc.identity import names
from mooring.volumes.plugins.fc.source import Disk
from mooring.volumes.plugins.scsi.disks import HOST, ScsiDisks, Unit
from mooring.volumes.plugins.sysfs import content, entries, line

ONLINE = "Online"
EVERYTHING = "- - -"
_PORT = re.compile(r"rport-([0-9]{1,10}):([0-9]{1,10})-[0-9]{1,10}", re.ASCII)
_ADDRESS = re.compile(r"[0-9]{1,10}:[0-9]{1,10}:[0-9]{1,10}:[0-9]{1,20}", re.ASCII)
_WWN = re.compile(r"0x([0-9a-f]{16})", re.ASCII)


@dataclass(frozen=True)
class Port:
    """A port of the fabric as one host adapter of this node sees it. `target` is None for one that is no
    target of SCSI."""

    host: str
    channel: int
    target: int | None
    wwn: str
    state: str
    directory: Path


@dataclass(frozen=True)
class Scan:
    """What a host adapter is told to look for: `CHANNEL TARGET LUN`."""

    host: str
    what: str


class Devices(ScsiDisks):
    """What `sys` and `dev` show."""

    def ports(self, wwns: Sequence[str]) -> list[Port]:
        """Those of these names, by all host adapters."""
        found = [self._port(path) for path in entries(self._sys / "class/fc_remote_ports", _PORT)]
        return [each for each in found if each is not None and each.wwn in wwns]

    def _port(self, path: Path) -> Port | None:
        place, wwn = _PORT.fullmatch(path.name), _WWN.fullmatch(line(path / "port_name").lower())
        if place is None or wwn is None:
            return None
        target = line(path / "scsi_target_id")
        return Port(
            host=f"host{place[1]}",
            channel=int(place[2]),
            target=int(target) if target.isdecimal() else None,
            wwn=wwn[1],
            state=line(path / "port_state"),
            directory=Path(os.path.realpath(path / "device")),
        )

    def units(self, disk: Disk) -> list[Unit]:
        """The paths by which this node sees the disk."""
        if disk.wwns:
            ports = self.ports(disk.wwns)
            places = [place for each in ports for place in sorted(each.directory.glob("target*/*"))]
            return self.units_at(places, disk.lun)
        every = entries(self._sys / "class/scsi_device", _ADDRESS)
        units = self.units_at(Path(os.path.realpath(each / "device")) for each in every)
        return [each for each in units if not names_of(each).isdisjoint(disk.wwids)]

    def scans(self, disk: Disk) -> list[Scan]:
        """Where the disk has to be looked for: at each port of it that is there and does not show it; a disk
        that is known by its name alone, everywhere, unless it is there."""
        if not disk.wwns:
            return [] if self.units(disk) else [Scan(host, EVERYTHING) for host in self._hosts()]
        return [
            Scan(each.host, f"{each.channel} {each.target} {disk.lun}")
            for each in self.ports(disk.wwns)
            if each.state == ONLINE
            and each.target is not None
            and not self.units_at(sorted(each.directory.glob("target*/*")), disk.lun)
        ]

    def _hosts(self) -> list[str]:
        """The host adapters of Fibre Channel. A node without one has its disks another way, as from a
        hypervisor: all of SCSI, save iSCSI's, which show what their own plugin asked for."""
        fc = [each.name for each in entries(self._sys / "class/fc_host", HOST)]
        iscsi = {each.name for each in entries(self._sys / "class/iscsi_host", HOST)}
        every = (each.name for each in entries(self._sys / "class/scsi_host", HOST))
        return fc or [each for each in every if each not in iscsi]

    def scan(self, scan: Scan) -> None:
        """Has the kernel look. Raises OSError."""
        (self._sys / "class/scsi_host" / scan.host / "scan").write_text(scan.what)

    def why_unreachable(self, disk: Disk) -> str:
        """What keeps this node from the ports of the disk; "" if one is there."""
        if not disk.wwns:
            return ""
        if not entries(self._sys / "class/fc_host", HOST):
            return "this node has no Fibre Channel host adapter (/sys/class/fc_host is empty)"
        ports = self.ports(disk.wwns)
        if any(each.state == ONLINE for each in ports):
            return ""
        seen = ", ".join(sorted({f"{each.wwn} ({each.state or 'of no state'})" for each in ports}))
        if seen:
            return f"no port of the storage is online: {seen}. Look at its links"
        return "this node sees none of these ports: look at targetWWNs, cables, and the zones of the fabric"


def names_of(unit: Unit) -> frozenset[str]:
    """All names by which the disk of that path is known."""
    return names(unit.wwid, content(unit.directory / "vpd_pg83"))
