"""Volumes as files, and attached volumes as block devices of their instances: loop devices under the names
that an instance would show.

    <root>/volumes/vol-….img                a volume's data (a sparse file)
    <root>/snapshots/snap-….img             a snapshot's data
    <root>/instances/i-…/dev/xvdba          -> /dev/loop7: the requested device name
    <root>/instances/i-…/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol…
                                            -> /dev/loop7: udev's link for an NVMe device's serial number

Guarantees: a device that any process of this machine has open or mounted is not taken away (VolumeBusy). A
link exists only while the device behind it is this volume's. Files are written under another name and then
renamed, so a file of that name is always complete. Needs root.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mooring.cloud.errors import VolumeBusy
from mooring.cloud.interface import Devices
from mooring.mounts import loop, machine_ports
from mooring.mounts.blocking import blocking
from mooring.mounts.copies import copy_medium
from mooring.mounts.errors import DeviceBusy
from mooring.mounts.freeze import freeze, thaw
from mooring.mounts.holders import device_number, mounts_everywhere
from mooring.mounts.power_loss import shutdown_filesystem
from mooring.mounts.table import mounts_of_device

GIB = 1024**3
BY_ID = "nvme-Amazon_Elastic_Block_Store_"


class LoopDevices(Devices):
    """Volumes as files below `root`, attached ones as loop devices."""

    def __init__(self, root: Path) -> None:
        self._volumes = root / "volumes"
        self._snapshots = root / "snapshots"
        self._instances = root / "instances"

    def device_directory(self, instance_id: str) -> Path:
        """The directory that serves the instance as /dev."""
        return self._instances / instance_id / "dev"

    def link_to(self, volume_id: str, instance_id: str) -> Path:
        """The path of the link by serial number to the volume's device on the instance, which may not
        exist."""
        return self.device_directory(instance_id) / "disk" / "by-id" / _serial(volume_id)

    def release(self) -> tuple[list[str], list[str]]:
        """Removes all devices that are not in use, but keeps the records of attachments, by which `attach`
        makes them again. Returns the removed devices and those in use. Blocks."""
        gone: list[str] = []
        busy: list[str] = []
        for medium in sorted(self._volumes.glob("*.img")):
            for device in loop.devices_of(str(medium)):
                try:
                    loop.remove(device, str(medium))
                    gone.append(device)
                except DeviceBusy:
                    busy.append(device)
        return gone, busy

    async def create(self, volume_id: str, size: int, source: str = "") -> None:
        await blocking(self._create, volume_id, size, source)

    async def delete(self, volume_id: str) -> None:
        await blocking(self._medium(volume_id).unlink, missing_ok=True)

    async def resize(self, volume_id: str, size: int) -> None:
        await blocking(self._resize, volume_id, size)

    async def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        await blocking(self._attach, volume_id, instance_id, device)

    async def detach(self, volume_id: str, instance_id: str, force: bool = False) -> None:
        await blocking(self._detach, volume_id, instance_id, force)

    async def snapshot(self, volume_id: str, snapshot_id: str) -> None:
        await blocking(self._keep, volume_id, snapshot_id)

    async def delete_snapshot(self, snapshot_id: str) -> None:
        await blocking((self._snapshots / f"{snapshot_id}.img").unlink, missing_ok=True)

    # --- media

    def _medium(self, volume_id: str) -> Path:
        return self._volumes / f"{volume_id}.img"

    def _create(self, volume_id: str, size: int, source: str) -> None:
        medium = self._medium(volume_id)
        if medium.exists():
            return
        with _made_beside(medium) as half:
            if source.startswith("snap-"):
                copy_medium(self._snapshots / f"{source}.img", half)
            elif source:
                self._copy_still(source, half)
            _grow(half, size)

    def _keep(self, volume_id: str, snapshot_id: str) -> None:
        kept = self._snapshots / f"{snapshot_id}.img"
        if not kept.exists():
            with _made_beside(kept) as half:
                self._copy_still(volume_id, half)

    def _copy_still(self, volume_id: str, target: Path) -> None:
        """Copies the volume's data as of one moment: its file system is frozen meanwhile."""
        medium = self._medium(volume_id)
        devices = loop.devices_of(str(medium))
        try:
            for device in devices:
                if not freeze(device):
                    _flush(device)
            copy_medium(medium, target)
        finally:
            for device in devices:
                thaw(device)

    def _resize(self, volume_id: str, size: int) -> None:
        medium = self._medium(volume_id)
        _grow(medium, size)
        for device in loop.devices_of(str(medium)):
            loop.set_capacity(device)

    # --- devices

    def _links(self, volume_id: str, instance_id: str, device: str = "") -> list[Path]:
        """The instance's links to the volume: those that exist, or with `device` those to be made."""
        there = self.device_directory(instance_id)
        by_id = self.link_to(volume_id, instance_id)
        if device:
            return [there / Path(device).name, by_id]
        medium = str(self._medium(volume_id))
        names = [
            path for path in there.glob("*") if path.is_symlink() and loop.is_device_of(str(path), medium)
        ]
        return [*names, by_id]

    def _attach(self, volume_id: str, instance_id: str, device: str) -> None:
        medium = str(self._medium(volume_id))
        links = self._links(volume_id, instance_id, device)
        if not all(loop.is_device_of(str(link), medium) for link in links):
            shown = self._left_over(volume_id) or loop.create(medium)
            for link in links:
                _point(link, shown)
        by_id = self.link_to(volume_id, instance_id)
        machine_ports.plug(self.device_directory(instance_id), volume_id, os.path.realpath(by_id), str(by_id))

    def _left_over(self, volume_id: str) -> str | None:
        """A device of the volume without a link: the process that made it ended before it made the link."""
        links = self._instances.glob(f"*/dev/disk/by-id/{_serial(volume_id)}")
        shown = {os.path.realpath(link) for link in links}
        return next(
            (each for each in loop.devices_of(str(self._medium(volume_id))) if each not in shown), None
        )

    def _detach(self, volume_id: str, instance_id: str, force: bool) -> None:
        medium = str(self._medium(volume_id))
        links = self._links(volume_id, instance_id)
        try:
            machine_ports.unplug(self.device_directory(instance_id), volume_id)
        except DeviceBusy as error:
            raise VolumeBusy(volume_id, error.holders) from error
        for shown in {os.path.realpath(link) for link in links if loop.is_device_of(str(link), medium)}:
            if force:
                _cut_off(shown)
            try:
                loop.remove(shown, medium)
            except DeviceBusy as error:
                raise VolumeBusy(volume_id, error.holders) from error
        for link in links:
            link.unlink(missing_ok=True)


def _serial(volume_id: str) -> str:
    return BY_ID + volume_id.replace("-", "")


def _grow(medium: Path, size: int) -> None:
    medium.parent.mkdir(parents=True, exist_ok=True)
    with open(medium, "ab") as file:
        file.truncate(max(size * GIB, os.fstat(file.fileno()).st_size))
        os.fsync(file.fileno())


@contextmanager
def _made_beside(path: Path) -> Generator[Path]:
    half = path.with_name(f".half-{path.name}")
    half.parent.mkdir(parents=True, exist_ok=True)
    half.unlink(missing_ok=True)
    yield half
    os.rename(half, path)


def _point(link: Path, device: str) -> None:
    """Makes or replaces a link atomically, so that it never leads to a wrong device."""
    link.parent.mkdir(parents=True, exist_ok=True)
    half = link.with_name(f".half-{link.name}")
    half.unlink(missing_ok=True)
    half.symlink_to(device)
    os.rename(half, link)


def _flush(device: str) -> None:
    with open(device, "rb") as file:
        os.fsync(file.fileno())


def _cut_off(device: str) -> None:
    """Shuts the device's file systems down as a power failure would: data that is not on the device now never
    reaches it."""
    number = device_number(device)
    for pid, mount in mounts_everywhere(lambda table: mounts_of_device(table, number))[:1]:
        shutdown_filesystem(f"/proc/{pid}/root{mount.mount_point}")
