"""Attaches a driver's volumes, and mounts their devices once for a node.

What a driver does not support is done as upstream does it: an attach that is no attach at all, a device that
is mounted by the node itself. Unlike upstream, a device is never formatted unless it is provably blank.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mooring.mounts.blocking import blocking
from mooring.volumes.errors import DeviceNotAttached, InvalidSpec, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import DEVICE_PATH, Attacher, Attachment, Detacher
from mooring.volumes.plugins.flexvolume.driver import Driver, DriverLate
from mooring.volumes.plugins.flexvolume.options import is_read_only, options, source_of
from mooring.volumes.spec import VolumeSpec

DEFAULT_FS_TYPE = "ext4"


class FlexAttacher(Attacher, Detacher):
    """One object for both directions."""

    def __init__(self, host: VolumeHost, driver: Driver) -> None:
        self._host = host
        self._driver = driver

    # --- on a controller, or on a node that attaches for itself

    async def attach(self, spec: VolumeSpec, node_name: str) -> Attachment:
        answer = await self._driver.call("attach", options(spec), node_name)
        return {DEVICE_PATH: answer.device} if answer is not None and answer.device else {}

    async def detach(self, volume_name: str, node_name: str) -> None:
        await self._driver.call("detach", volume_name, node_name)

    async def volumes_are_attached(
        self, specs: Sequence[VolumeSpec], node_name: str
    ) -> Mapping[VolumeSpec, bool]:
        """Nothing is said of volumes of a driver that cannot tell."""
        found: dict[VolumeSpec, bool] = {}
        for spec in specs:
            answer = await self._driver.call("isattached", options(spec), node_name)
            if answer is not None:
                found[spec] = answer.attached
        return found

    # --- on a node

    async def wait_for_attach(self, spec: VolumeSpec, attachment: Attachment, timeout_s: float) -> str:
        """The path that the driver names, or else the one that `attach` named; "" if neither did."""
        device = attachment.get(DEVICE_PATH, "")
        if device.startswith("-") or not device.isprintable():
            raise VolumeError(f"{device[:100]!a} of volume {spec.name} is not the path of a device")
        try:
            answer = await self._driver.call("waitforattach", device, options(spec), timeout_s=timeout_s)
        except DriverLate as error:
            raise DeviceNotAttached(str(error)) from None
        return (answer.device if answer is not None else "") or device

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        source_of(spec)
        return str(self._host.get_plugin_dir(self._driver.name) / "mounts" / spec.name)

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        if await self._host.mounts.is_mount_point(device_mount_path):
            return
        given = options(spec)
        await blocking(os.makedirs, device_mount_path, 0o750, exist_ok=True)
        answer = await self._driver.call("mountdevice", device_mount_path, device_path, given)
        if answer is None and device_path:
            await self._mount_itself(spec, device_path, device_mount_path)

    async def _mount_itself(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        """A volume without a device is left to the driver's `mount`."""
        if not Path(device_path).is_absolute():
            raise InvalidSpec(
                f"FlexVolume driver {self._driver.name} does not support mountdevice, and names {device_path!a} as the "
                f"device of volume {spec.name}: it must name a path, or mount the device itself"
            )
        mode = "ro" if is_read_only(spec) else "rw"
        fs_type = source_of(spec).fs_type or DEFAULT_FS_TYPE
        await self._host.mounts.format_and_mount(device_path, device_mount_path, fs_type, [mode])

    async def unmount_device(self, device_mount_path: str) -> None:
        if await self._host.mounts.is_mount_point(device_mount_path):
            answer = await self._driver.call("unmountdevice", device_mount_path)
            if answer is not None:
                await must_be_unmounted(self._host, self._driver, "unmountdevice", device_mount_path)
        await self._host.mounts.remove_mount_point(device_mount_path)


async def must_be_unmounted(host: VolumeHost, driver: Driver, call: str, path: str) -> None:
    """Raises VolumeError if the driver has not done what it says."""
    if await host.mounts.is_mount_point(path):
        raise VolumeError(
            f"FlexVolume driver {driver.name} answered Success to {call}, and {path} is still mounted: it is called "
            f"again; unmount {path} by hand if the driver cannot"
        )
