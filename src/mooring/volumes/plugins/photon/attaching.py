"""How a disk of Photon Controller comes to a node and goes: `Attacher` and `Detacher`.

On the node a disk is known by the name that it tells of itself, in the kernel's own tables (`fc.devices`),
and never by udev's links. Orders to the kernel are bounded (`orders`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial

from mooring.mounts.blocking import blocking
from mooring.volumes.errors import DeviceNotAttached, OutcomeUnknown, WrongDevice
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attacher, Attachment, Detacher
from mooring.volumes.plugins.fc.devices import Devices
from mooring.volumes.plugins.orders import ordered
from mooring.volumes.plugins.photon.controller import Controller
from mooring.volumes.plugins.photon.source import Disk, disk, global_path
from mooring.volumes.spec import VolumeSpec

POLL_S, SCAN_S = 0.5, 10.0


class PhotonAttacher(Attacher, Detacher):
    """One object for both directions. Controllers call attach, detach and the check; nodes call the rest."""

    def __init__(self, host: VolumeHost, controller: Controller, devices: Devices) -> None:
        self._host, self._controller, self._devices = host, controller, devices

    # --- on a controller

    async def attach(self, spec: VolumeSpec, node_name: str) -> Attachment:
        await self._controller.attach(disk(spec).id, node_name)
        return {}

    async def detach(self, volume_name: str, node_name: str) -> None:
        await self._controller.detach(volume_name, node_name)

    async def volumes_are_attached(
        self, specs: Sequence[VolumeSpec], node_name: str
    ) -> Mapping[VolumeSpec, bool]:
        return {spec: await self._controller.is_attached(disk(spec).id, node_name) for spec in specs}

    # --- on a node

    async def wait_for_attach(self, spec: VolumeSpec, attachment: Attachment, timeout_s: float) -> str:
        wanted, problem = disk(spec), ""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    if (path := await blocking(self._path, wanted)) is not None:
                        return path
                    problem = await self._look(wanted)
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise DeviceNotAttached(
                f"disk {wanted.id} of volume {spec.name} did not appear on node {self._host.node_name} within "
                f"{timeout_s:g} s{problem}"
            ) from None

    def _path(self, wanted: Disk) -> str | None:
        found = map(self._devices.path, self._devices.units(wanted.named))
        return next((path for path in found if path is not None), None)

    async def _look(self, wanted: Disk) -> str:
        """Has the kernel look for it; what is in the way."""
        for scan in await blocking(self._devices.scans, wanted.named):
            try:
                await ordered(f"scan {scan.host} for {scan.what}", partial(self._devices.scan, scan), SCAN_S)
            except (OSError, OutcomeUnknown) as error:
                return f" ({error})"
        return ""

    async def verify_device(self, spec: VolumeSpec, device_path: str) -> None:
        wanted = disk(spec)
        units = await blocking(self._devices.units, wanted.named)
        if os.path.realpath(device_path) not in [self._devices.path(each) for each in units]:
            raise WrongDevice(
                f"{device_path} is not disk {wanted.id}, volume {spec.name}. It must not be mounted"
            )

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(global_path(self._host, disk(spec)))

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        wanted = disk(spec)
        await self.verify_device(spec, device_path)
        options = (*spec.mount_options, *(("ro",) if wanted.read_only else ()))
        await self._host.mounts.format_and_mount(device_path, device_mount_path, wanted.fs_type, options)

    async def unmount_device(self, device_mount_path: str) -> None:
        await self._host.mounts.remove_mount_point(device_mount_path)
