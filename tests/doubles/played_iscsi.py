"""A node's open-iscsi and kernel, played: an `iscsiadm` of the test's, and a sysfs as Linux's iscsi_tcp has
it, in which the numbers of hosts and sessions, and the names of disks, count up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from played_reservations import PlayedDisk

from mooring.volumes.plugins.iscsi.devices import Devices, Session
from mooring.volumes.plugins.iscsi.source import Portal, portal
from mooring.volumes.plugins.programs import Ended
from mooring.volumes.plugins.scsi.disks import Unit

RECORD = "# BEGIN RECORD 2.1.8\nnode.startup = automatic\nnode.session.auth.authmethod = None\n# END RECORD\n"


class PlayedKernel(Devices):
    """Its sessions, below `root`; a scan finds the LUNs that the target has."""

    def __init__(self, root: Path) -> None:
        super().__init__(root / "sys", root / "dev")
        self.root = root
        self.luns: dict[int, str] = {1: "naa.01", 2: "naa.02"}
        """What the target maps to the node: identities by LUN."""
        self.used: set[str] = set()
        self.flushed: list[str] = []
        self.count = 0
        self.disks = 0

    def session(self, target: str, at: Portal, interface: str = "default", state: str = "LOGGED_IN") -> Path:
        self.count += 1
        name = f"session{self.count}"
        directory = self.root / f"sys/devices/platform/host{self.count}/{name}"
        connection = f"connection{self.count}:0"
        (directory / connection).mkdir(parents=True)
        shown = self.root / "sys/class/iscsi_session" / name
        shown.mkdir(parents=True)
        (shown / "device").symlink_to(directory)
        for attribute, value in (("targetname", target), ("ifacename", interface), ("state", state)):
            (shown / attribute).write_text(value + "\n")
        at_class = self.root / "sys/class/iscsi_connection" / connection
        at_class.mkdir(parents=True)
        (at_class / "persistent_address").write_text(at.address + "\n")
        (at_class / "persistent_port").write_text(f"{at.port}\n")
        return directory

    def disk(self, directory: Path, lun: int, wwid: str) -> str:
        """The session shows a disk; its name, which was never there before."""
        name = f"sd{chr(ord('a') + self.disks)}"
        host = directory.parent.name.removeprefix("host")
        unit = directory / f"target{host}:0:0" / f"{host}:0:0:{lun}"
        block = unit / "block" / name
        block.mkdir(parents=True)
        (block / "dev").write_text(f"8:{16 * self.disks}\n")
        (block / "size").write_text("131072\n")
        (unit / "wwid").write_text(wwid + "\n")
        self.disks += 1
        return name

    def end(self, target: str, at: Portal, interface: str) -> bool:
        """The session ends."""
        for each in self.sessions(target):
            if (each.portal, each.interface) == (at, interface):
                shutil.rmtree(each.directory)
                shutil.rmtree(self.root / "sys/class/iscsi_session" / each.name)
                return True
        return False

    def scan(self, session: Session, lun: int) -> None:
        if lun in self.luns and not self.units([session], lun):
            self.disk(session.directory, lun, self.luns[lun])

    def rescan(self, unit: Unit) -> None:
        if unit.lun in self.luns:
            (unit.directory / "wwid").write_text(self.luns[unit.lun] + "\n")

    def forget(self, unit: Unit) -> None:
        shutil.rmtree(unit.directory)

    def path(self, unit: Unit) -> str | None:
        return f"/dev/{unit.map or unit.name}"

    def in_use(self, path: str) -> bool:
        return path in self.used

    def flush(self, path: str) -> None:
        self.flushed.append(path)


class PlayedIscsiadm:
    """What `iscsiadm` and other programs are asked, and their answers. `fails`: words of an order, and how it
    ends; the answer alone: an order that is named in `late` has been carried out before."""

    def __init__(self, kernel: PlayedKernel, target: str) -> None:
        self.kernel = kernel
        self.target = target
        self.records = kernel.root / "etc"
        self.calls: list[tuple[str, ...]] = []
        self.fails: dict[tuple[str, ...], Ended] = {}
        self.late: set[tuple[str, ...]] = set()
        self.disk = PlayedDisk()
        """What sg_persist changes, for all LUNs."""

    async def __call__(self, *words: str, deadline_s: float) -> Ended:
        assert deadline_s > 0
        self.calls.append(words)
        failing = next((each for each in self.fails if set(each) <= {*words, _host(words)}), None)
        if failing is not None and failing not in self.late:
            return self.fails[failing]
        answer = self._carried_out(words)
        return self.fails[failing] if failing is not None else answer

    def _carried_out(self, words: Sequence[str]) -> Ended:
        value = {flag: words[words.index(flag) + 1] for flag in ("-T", "-p", "-I", "-o") if flag in words}
        if words[0] == "sg_persist":
            return Ended(*self.disk.asked("node", tuple(words)))
        if words[0] != "iscsiadm" or "iface" in words:
            return Ended(0)
        if "discoverydb" in words and value["-o"] != "nonpersistent":
            at = portal(value["-p"], "x")
            return self._record(self.records / f"send_targets/{at.address},{at.port}/st_config", value["-o"])
        if "sendtargets" in words:
            return Ended(0, f"{value['-p']},1 {self.target}\n10.9.9.9:3260,1 iqn.2026-01.dev.mooring:other\n")
        text, _, group = value["-p"].partition(",")
        at = portal(text, "x")
        if "-o" in value:
            place = f"nodes/{value['-T']}/{at.address},{at.port},{group or 1}/{value['-I']}"
            return self._record(self.records / place, value["-o"])
        there = [
            each
            for each in self.kernel.sessions(value["-T"])
            if (each.portal, each.interface) == (at, value["-I"])
        ]
        if "--login" in words:
            if there:
                return Ended(15, errors="session exists")
            self.kernel.session(value["-T"], at, value["-I"])
            return Ended(0)
        return Ended(0 if self.kernel.end(value["-T"], at, value["-I"]) else 21)

    def _record(self, path: Path, operation: str) -> Ended:
        if operation == "delete":
            status = 0 if path.exists() else 21
            path.unlink(missing_ok=True)
            return Ended(status)
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "w") as file:
            file.write(RECORD)
        return Ended(0)

    def asked(self, *words: str) -> int:
        """How many orders had these words."""
        return sum(set(words) <= set(call) for call in self.calls)


def _host(words: Sequence[str]) -> str:
    """The portal of an order, without group, as tests name it."""
    return words[words.index("-p") + 1].partition(",")[0] if "-p" in words else ""
