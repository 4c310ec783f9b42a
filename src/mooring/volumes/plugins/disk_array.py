"""The disk array on this machine: what would be hardware elsewhere. It knows disks and
machines, and no Kubernetes.

    <root>/disks/<disk>/disk.json      size, lock mode, delays, and to which nodes it is attached
    <root>/disks/<disk>/disk.img       the medium (`data/` in directory mode)
    <root>/nodes/<node>/power          "on" or "off"; a node that the array has never heard of is on
    <root>/nodes/<node>/by-id/mooring-<disk>    link to the device: the node's device folder

Guarantees, also between several processes and after `kill -9` or a power failure at any point:
- An exclusive disk is attached to one node. The array refuses a second one, so that no caller has to check.
- A device is never taken from a node that uses it: the array looks for mounts in every mount namespace and
  for open files of every process. (The kernel would accept, and let the node go on writing.)
- `disk.json` is the truth. Devices and links follow from it (`_converge`), so whatever a crash leaves undone,
  the next call on that disk completes.
- A node without power has no devices; what is attached to it stays so.

Everything here blocks; one lock per disk orders it. Nothing waits for anything but that lock.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from mooring.mounts import machine_ports
from mooring.mounts.errors import DeviceBusy
from mooring.volumes.errors import (
    DeletedVolumeInUse,
    DeviceStillInUse,
    InvalidSpec,
    VolumeInUse,
    VolumeNotFound,
)
from mooring.volumes.plugins.disk_devices import (
    DirectoryDevices,
    DiskDevices,
    LoopDevices,
    PluggedDevices,
)
from mooring.volumes.plugins.disk_files import (
    link_durably,
    lock,
    sync_directory,
    unlink_durably,
    write_durably,
)

MODES: Mapping[str, type[DiskDevices]] = {
    "loop": LoopDevices,
    "directory": DirectoryDevices,
    "machine": PluggedDevices,
}


class Delays(msgspec.Struct, frozen=True, rename="camel"):
    """Seconds that an operation on the disk takes: until its effect, and from its effect to the answer."""

    attach: float = 0
    attach_reply: float = 0
    detach: float = 0
    detach_reply: float = 0


NO_DELAYS = Delays()


class Trouble(msgspec.Struct, frozen=True, rename="camel"):
    """Operations (attach, detach, expand, delete) that fail without effect, and that have neither effect nor
    end until they are taken out again: what a storage does on a bad day."""

    fail: tuple[str, ...] = ()
    stick: tuple[str, ...] = ()


NO_TROUBLE = Trouble()


class Disk(msgspec.Struct, frozen=True, rename="camel"):
    """The record of one disk. `size` is in bytes; `nodes` are those that it is attached to,
    with or without power."""

    size: int
    exclusive: bool = True
    delays: Delays = NO_DELAYS
    trouble: Trouble = NO_TROUBLE
    nodes: tuple[str, ...] = ()


class DiskArray:
    """The array in the directory `root`. Several processes may have their own object for the
    same directory."""

    def __init__(self, root: Path, devices: str | DiskDevices = "loop") -> None:
        """`devices` is the name of a mode, or how else disks become devices. Raises
        InvalidSpec for an unknown mode."""
        if isinstance(devices, str) and devices not in MODES:
            raise InvalidSpec(f"disk array mode {devices!r} is not known: choose one of {', '.join(MODES)}")
        self._disks = root / "disks"
        self._nodes = root / "nodes"
        self._devices = MODES[devices]() if isinstance(devices, str) else devices

    # --- disks

    def create(
        self,
        disk: str,
        size: int,
        exclusive: bool = True,
        delays: Delays = NO_DELAYS,
        fill: Callable[[Path], None] | None = None,
    ) -> Disk:
        """Makes an empty disk of `size` bytes, or one that `fill` fills. Idempotent: an existing
        disk of at least that size is returned as it is. Raises InvalidSpec if a smaller one, or one
        of the other kind, has that name, or if no disk can be so large; nothing is made then."""
        self._directory(disk).mkdir(parents=True, exist_ok=True)
        with self._locked(disk):
            record = self._read(disk)
            if record is None:
                record = Disk(size, exclusive, delays)
                self._make(disk, size, fill)
                self._write(disk, record)
                sync_directory(self._disks)
        if record.size < size or record.exclusive != exclusive:
            raise InvalidSpec(
                f"there is another disk {disk} already: {_describe(record)}. Delete it or take another name"
            )
        return record

    def _make(self, disk: str, size: int, fill: Callable[[Path], None] | None) -> None:
        medium = self._medium(disk)
        try:
            if fill is None:
                self._devices.make_medium(medium, size)
            else:
                fill(medium)
                self._devices.grow_medium(medium, size)
        except InvalidSpec:
            self._tidy_up(disk)
            raise

    @contextmanager
    def still(self, disk: str) -> Generator[Path]:
        """The disk's medium while its file systems are frozen, so that nothing changes it. The
        freeze is recorded before it is made, so that the next operation on the disk thaws it after
        a crash. Raises VolumeNotFound."""
        with self._locked(disk):
            devices = self._devices.of(self._medium(disk))
            self.get(disk)
            write_durably(self._frozen(disk), b"")
            try:
                for device in devices:
                    self._devices.freeze(device)
                yield self._medium(disk)
            finally:
                self._thaw(disk)

    def _thaw(self, disk: str) -> None:
        for device in self._devices.of(self._medium(disk)):
            self._devices.thaw(device)
        unlink_durably(self._frozen(disk))

    def get(self, disk: str) -> Disk:
        """Raises VolumeNotFound."""
        record = self._read(disk)
        if record is None:
            raise VolumeNotFound(disk)
        return record

    def list(self) -> dict[str, Disk]:
        """All disks by name."""
        names = sorted(name for name in _entries(self._disks) if not name.startswith("."))
        records = {name: self._read(name) for name in names}
        return {name: record for name, record in records.items() if record is not None}

    def delete(self, disk: str) -> None:
        """Destroys the disk and its data. Idempotent. Raises DeletedVolumeInUse while it is attached."""
        with suppress(VolumeNotFound), self._locked(disk):
            record = self._read(disk)
            if record is not None and record.nodes:
                raise DeletedVolumeInUse(disk, record.nodes)
            self._remove_devices(disk, keep=())
            unlink_durably(self._record(disk))  # from here on the disk does not exist
            self._tidy_up(disk)

    def _tidy_up(self, disk: str) -> None:
        """Removes what is left of a disk without a record."""
        waste = self._disks / f".deleted-{disk}"
        shutil.rmtree(waste, ignore_errors=True)
        os.rename(self._directory(disk), waste)
        shutil.rmtree(waste)

    def expand(self, disk: str, size: int) -> Disk:
        """Grows the disk to at least `size` bytes, and its devices with it. Never shrinks.
        Raises VolumeNotFound, and InvalidSpec if no disk can be so large."""
        with self._locked(disk):
            record = self.get(disk)
            if size > record.size:
                self._devices.grow_medium(self._medium(disk), size)
                record = msgspec.structs.replace(record, size=size)
                self._write(disk, record)
            for node in record.nodes:
                if (device := self.device(disk, node)) is not None:
                    self._devices.grown(device)
            return record

    def set_delays(self, disk: str, delays: Delays) -> None:
        """Changes how long operations on the disk take. Raises VolumeNotFound."""
        with self._locked(disk):
            self._write(disk, msgspec.structs.replace(self.get(disk), delays=delays))

    def set_trouble(self, disk: str, trouble: Trouble) -> None:
        """Changes which operations on the disk fail or stick, also those that are waiting.
        Raises VolumeNotFound."""
        with self._locked(disk):
            self._write(disk, msgspec.structs.replace(self.get(disk), trouble=trouble))

    # --- attachments

    def check_attach(self, disk: str, node: str) -> Disk:
        """Whether `attach` would be accepted now. Raises VolumeNotFound, VolumeInUse."""
        record = self.get(disk)
        _checked("node", node)
        if record.exclusive and (others := [other for other in record.nodes if other != node]):
            raise VolumeInUse(disk, node, others)
        return record

    def attach(self, disk: str, node: str) -> str:
        """Attaches the disk and returns the path that its device has on the node. Idempotent.
        Raises VolumeNotFound, VolumeInUse."""
        with self._locked(disk):
            record = self.check_attach(disk, node)
            if node not in record.nodes:
                record = msgspec.structs.replace(record, nodes=(*record.nodes, node))
                self._write(
                    disk, record
                )  # before the device: what a crash leaves is an attachment without device
            self._converge(disk, record)
        return str(self._link(disk, node))

    def detach(self, disk: str, node: str) -> None:
        """Detaches the disk. Idempotent, also for a disk that does not exist. Raises DeviceStillInUse, naming
        who uses the device; then it is still attached."""
        with suppress(VolumeNotFound), self._locked(disk):
            record = self._read(disk)
            if record is None or node not in record.nodes:
                return
            remaining = msgspec.structs.replace(
                record, nodes=tuple(other for other in record.nodes if other != node)
            )
            self._remove_devices(disk, keep=self._powered(remaining))
            self._write(disk, remaining)  # after the device is gone: what a crash leaves is an attachment

    def attachments(self) -> dict[str, tuple[str, ...]]:
        """The truth: for each disk the nodes it is attached to."""
        return {name: record.nodes for name, record in self.list().items()}

    def device(self, disk: str, node: str) -> str | None:
        """The device of the disk on the node, resolved; None if the node has none, or the
        link leads elsewhere."""
        link = self._link(disk, node)
        shown = link.is_symlink() and self._devices.shows(str(link), self._medium(disk))
        return os.path.realpath(link) if shown else None

    def device_path(self, disk: str, node: str) -> str:
        """Where the disk's device is on the node if it is there."""
        return str(self._link(disk, node))

    def shows(self, device: str, disk: str) -> bool:
        """Whether the device at this path is one of the disk's as the disk is now."""
        return self._devices.shows(device, self._medium(disk))

    # --- power

    def powered(self, node: str) -> bool:
        """Whether the node has power."""
        try:
            return (self._nodes / node / "power").read_text() != "off"
        except FileNotFoundError:
            return True

    def devices(self, node: str) -> dict[str, str]:
        """The devices of a node by disk, resolved."""
        found = {
            disk: self.device(disk, node) for disk, record in self.list().items() if node in record.nodes
        }
        return {disk: device for disk, device in found.items() if device is not None}

    def power_off(self, node: str) -> None:
        """Removes the node's devices; attachments stay. To be called when nothing runs on the node any more.
        Idempotent. Raises DeviceStillInUse for a device in use, after all others are gone: call it again."""
        self._set_power(node, "off")

    def power_on(self, node: str) -> None:
        """Makes the devices of what is attached to the node. Idempotent."""
        self._set_power(node, "on")

    def recover(self) -> None:
        """Makes all devices and links what the records say. After a start of the machine,
        when all devices are gone."""
        self._converge_all(list(self.list()))

    def _set_power(self, node: str, power: str) -> None:
        path = self._nodes / _checked("node", node) / "power"
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = lock(path.with_name("lock"))
        try:
            write_durably(path, power.encode())
        finally:
            os.close(descriptor)
        self._converge_all([disk for disk, record in self.list().items() if node in record.nodes])

    # --- how records become devices

    def _converge_all(self, disks: list[str]) -> None:
        refused: list[DeviceStillInUse] = []
        for disk in disks:
            try:
                with suppress(VolumeNotFound), self._locked(disk):
                    self._converge(disk, self.get(disk))
            except DeviceStillInUse as error:
                refused.append(error)
        if refused:
            raise refused[0]

    def _converge(self, disk: str, record: Disk) -> None:
        """Makes the disk's devices and links what its record says. The disk is locked."""
        powered = self._powered(record)
        self._remove_devices(disk, keep=powered)
        for node in powered:
            if self.device(disk, node) is None:
                self._link(disk, node).parent.mkdir(parents=True, exist_ok=True)
                link_durably(self._link(disk, node), self._devices.create(self._medium(disk)))
            link = self._link(disk, node)
            machine_ports.plug(self._nodes / node, disk, os.path.realpath(link), str(link))

    def _remove_devices(self, disk: str, keep: tuple[str, ...]) -> None:
        """Removes all devices and links of the disk but those of the nodes in `keep`, also a device without a
        link, left by a crash. A link is removed after its device, so that a device in use keeps it. A reader
        of a link checks that it leads to the disk (`shows`)."""
        for node in self._linked_nodes(disk):
            if node not in keep:
                self._unplug(disk, node)
                self._remove_device(disk, node, self.device(disk, node))
                unlink_durably(self._link(disk, node))
        kept = {self.device(disk, node) for node in keep}
        for device in self._devices.of(self._medium(disk)):
            if device not in kept:
                self._remove_device(disk, "(not known)", device)

    def _unplug(self, disk: str, node: str) -> None:
        try:
            machine_ports.unplug(self._nodes / node, disk)
        except DeviceBusy as error:
            raise DeviceStillInUse(disk, node, error.holders) from error

    def _remove_device(self, disk: str, node: str, device: str | None) -> None:
        try:
            if device is not None:
                self._devices.remove(device, self._medium(disk))
        except DeviceBusy as error:
            raise DeviceStillInUse(disk, node, error.holders) from error

    def _linked_nodes(self, disk: str) -> list[str]:
        return [name for name in sorted(_entries(self._nodes)) if self._link(disk, name).is_symlink()]

    def _powered(self, record: Disk) -> tuple[str, ...]:
        return tuple(node for node in record.nodes if self.powered(node))

    # --- files

    def _directory(self, disk: str) -> Path:
        return self._disks / _checked("disk", disk)

    def _record(self, disk: str) -> Path:
        return self._directory(disk) / "disk.json"

    def _frozen(self, disk: str) -> Path:
        return self._directory(disk) / "frozen"

    def _medium(self, disk: str) -> Path:
        return self._directory(disk) / self._devices.medium

    def _link(self, disk: str, node: str) -> Path:
        return self._nodes / _checked("node", node) / "by-id" / f"mooring-{disk}"

    @contextmanager
    def _locked(self, disk: str) -> Generator[None]:
        try:
            descriptor = lock(self._directory(disk) / "lock")
        except FileNotFoundError:
            raise VolumeNotFound(disk) from None
        try:
            if self._frozen(disk).exists():
                self._thaw(disk)
            yield
        finally:
            os.close(descriptor)

    def _read(self, disk: str) -> Disk | None:
        try:
            return msgspec.json.decode(self._record(disk).read_bytes(), type=Disk)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _write(self, disk: str, record: Disk) -> None:
        write_durably(self._record(disk), msgspec.json.format(msgspec.json.encode(record)))


def _entries(directory: Path) -> list[str]:
    return os.listdir(directory) if directory.is_dir() else []


def _describe(disk: Disk) -> str:
    return f"{disk.size} bytes, {'exclusive' if disk.exclusive else 'not exclusive'}"


def _checked(kind: str, name: str) -> str:
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise InvalidSpec(
            f"{name!r} is no name for a {kind}: it must not be empty, begin with a dot or hold a slash"
        )
    return name
