"""A node's Fibre Channel, played: a sysfs as Linux's fc transport and SCSI have it, in which names of disks
count up and a host adapter that is told to look finds what the storage shows at its ports."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from mooring.volumes.plugins.fc.devices import EVERYTHING, Devices, Scan
from mooring.volumes.plugins.programs import Ended
from mooring.volumes.plugins.scsi.disks import Unit

A, B = "50060e801049cfd1", "50060e801049cfd2"
ONE, TWO = "3600508b400105e210000900000490001", "3600508b400105e210000900000490002"


class PlayedFabric(Devices):
    """Host adapters, remote ports and disks below `root`. `luns`: the storage's, names of disks by LUN."""

    def __init__(self, root: Path, hosts: int = 1) -> None:
        super().__init__(root / "sys", root / "dev")
        self.root = root
        self.luns: dict[int, str] = {0: ONE, 1: TWO}
        self.used: set[str] = set()
        self.flushed: list[str] = []
        self.scanned: list[Scan] = []
        self.disks = 0
        self._scanning = threading.Lock()
        self.hooks: dict[str, Callable[[], None]] = {}
        """What happens before an order is carried out, by its name."""
        for number in range(1, hosts + 1):
            for kind in ("fc_host", "scsi_host"):
                (root / f"sys/class/{kind}/host{number}").mkdir(parents=True)

    def port(self, wwn: str, host: int = 1, number: int = 0, state: str = "Online", target: str = "") -> Path:
        """A remote port; its directory."""
        name = f"rport-{host}:0-{number}"
        directory = self.root / f"sys/devices/pci0000:00/host{host}/{name}"
        directory.mkdir(parents=True)
        shown = self.root / "sys/class/fc_remote_ports" / name
        shown.mkdir(parents=True)
        (shown / "device").symlink_to(directory)
        values = {"port_name": f"0x{wwn}", "port_state": state, "scsi_target_id": target or str(number)}
        for attribute, value in values.items():
            (shown / attribute).write_text(value + "\n")
        return directory

    def disk(self, port: Path, lun: int, wwid: str, size: int = 64 << 20) -> str:
        """The port shows a disk; its name, which was never there before."""
        name = f"sd{chr(ord('a') + self.disks)}"
        host, number = port.parent.name.removeprefix("host"), port.name.rpartition("-")[2]
        address = f"{host}:0:{number}:{lun}"
        unit = port / f"target{host}:0:{number}" / address
        block = unit / "block" / name
        block.mkdir(parents=True)
        (block / "dev").write_text(f"8:{16 * self.disks}\n")
        (block / "size").write_text(f"{size // 512}\n")
        (block / "device").symlink_to(unit)
        (unit / "wwid").write_text(kernels(wwid) + "\n")
        (unit / "state").write_text("running\n")
        listed = self.root / "sys/class/scsi_device" / address
        listed.mkdir(parents=True)
        (listed / "device").symlink_to(unit)
        self.disks += 1
        return name

    def multipath(self, name: str, *disks: str) -> None:
        """A multipath device is made of them."""
        at = self.root / "sys/block" / name
        (at / "dm").mkdir(parents=True)
        (at / "dm/uuid").write_text("mpath-x\n")
        (at / "slaves").mkdir()
        for disk in disks:
            (block,) = self.root.glob(f"sys/devices/**/block/{disk}")
            (block / "holders" / name).mkdir(parents=True)
            (at / "slaves" / disk).symlink_to(block)

    def names(self) -> list[str]:
        """The disks that there are."""
        return sorted(each.name for each in self.root.glob("sys/devices/**/block/*"))

    def lose(self, name: str) -> None:
        """The disk goes by itself, as with its port."""
        (block,) = self.root.glob(f"sys/devices/**/block/{name}")
        self._remove(block.parent.parent)

    def _remove(self, unit: Path) -> None:
        (self.root / "sys/class/scsi_device" / unit.name / "device").unlink(missing_ok=True)
        shutil.rmtree(self.root / "sys/class/scsi_device" / unit.name, ignore_errors=True)
        shutil.rmtree(unit, ignore_errors=True)

    # --- what the kernel is asked and told

    def _before(self, what: str) -> None:
        self.hooks.get(what, lambda: None)()

    def scan(self, scan: Scan) -> None:
        self._before("scan")
        with self._scanning:
            self._find(scan)

    def _find(self, scan: Scan) -> None:
        self.scanned.append(scan)
        for port in sorted(self.root.glob(f"sys/devices/pci0000:00/{scan.host}/rport-*")):
            target = port.name.rpartition("-")[2]
            for lun, wwid in self.luns.items():
                if scan.what in (EVERYTHING, f"0 {target} {lun}") and not list(port.glob(f"target*/*:{lun}")):
                    self.disk(port, lun, wwid)

    def rescan(self, unit: Unit) -> None:
        self._before(f"rescan {unit.name}")
        if unit.lun in self.luns:
            (unit.directory / "wwid").write_text(kernels(self.luns[unit.lun]) + "\n")

    def forget(self, unit: Unit) -> None:
        self._before("forget")
        self._remove(unit.directory)

    def path(self, unit: Unit) -> str | None:
        return f"/dev/{unit.map or unit.name}"

    def in_use(self, path: str) -> bool:
        self._before("in_use")
        return path in self.used

    def flush(self, path: str) -> None:
        self._before("flush")
        self.flushed.append(path)


class PlayedPrograms:
    """Multipath tools; what they were asked. `fails`: they do not do it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.fails = False

    async def __call__(self, *words: str, deadline_s: float) -> Ended:
        assert deadline_s > 0
        self.calls.append(words)
        return Ended(1, errors="map in use") if self.fails else Ended(0)


def kernels(wwid: str) -> str:
    """The kernel's way to write such a name."""
    return f"naa.{wwid[1:]}" if wwid.startswith("3") else wwid
