"""A CSI volume on a node, once for all of its pods: NodeStageVolume and NodeUnstageVolume.

Layout, as the kubelet's below its own directory: `<plugins>/<driver>/<hash of the handle>/globalmount`,
with `vol_data.json` beside it; for raw devices `<plugins>/volumeDevices/staging/<hash>`. For a driver that
stages nothing there is only the file. Guarantee: the file is written before the driver is called, and
removed after the driver has unstaged.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Node
from mooring.volumes.errors import VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import DEVICE_PATH, Attacher, Attachment, Detacher
from mooring.volumes.names import CSI_PLUGIN, volume_attachment_name
from mooring.volumes.plugins.csi import vol_data
from mooring.volumes.plugins.csi.drivers import Driver, Drivers, NodeAbility
from mooring.volumes.plugins.csi.source import capability_of, persistent, read_secret
from mooring.volumes.plugins.csi.vol_data import VolumeData
from mooring.volumes.spec import VolumeSpec

GLOBAL_MOUNT = "globalmount"


def staging_path(host: VolumeHost, spec: VolumeSpec) -> str:
    """Where the volume is staged on this node."""
    source = persistent(spec)
    unique = hashlib.sha256(source.volume_handle.encode()).hexdigest()
    plugin = host.get_plugin_dir(CSI_PLUGIN)
    if spec.block:
        return str(plugin / "volumeDevices" / "staging" / source.driver / unique / GLOBAL_MOUNT)
    return str(plugin / source.driver / unique / GLOBAL_MOUNT)


class CSIStager(Attacher, Detacher):
    """The node's part of an attacher: it attaches nothing, and the driver itself waits for the device."""

    def __init__(self, drivers: Drivers, host: VolumeHost) -> None:
        self._drivers = drivers
        self._host = host

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return staging_path(self._host, spec)

    async def wait_for_attach(self, spec: VolumeSpec, attachment: Attachment, timeout_s: float) -> str:
        """Stores the publish context of ControllerPublishVolume, and returns the device's
        path if the driver gave one."""
        self._remember(spec, {key: value for key, value in attachment.items() if value or key != DEVICE_PATH})
        return attachment.get(DEVICE_PATH, "")

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        source = persistent(spec)
        driver = self._drivers.find(source.driver)
        data = vol_data.load(os.path.dirname(device_mount_path)) or self._remember(spec, {})
        if not await driver.node_can(NodeAbility.STAGE_UNSTAGE_VOLUME):
            return
        os.makedirs(device_mount_path, 0o750, exist_ok=True)
        several = await driver.node_can(NodeAbility.SINGLE_NODE_MULTI_WRITER)
        request = csi.NodeStageVolumeRequest(
            volume_id=source.volume_handle,
            publish_context=data.publish_context,
            staging_target_path=device_mount_path,
            volume_capability=capability_of(spec, several_writers=several),
            secrets=await read_secret(self._host, source.node_stage_secret_ref),
            volume_context=source.volume_attributes,
        )
        await driver.call(Node.node_stage_volume, request)

    async def unmount_device(self, device_mount_path: str) -> None:
        directory = os.path.dirname(device_mount_path)
        data = vol_data.load(directory)
        if data is not None:
            await self._unstage(self._drivers.find(data.driver_name), data.volume_handle, device_mount_path)
        elif await self._host.mounts.is_mount_point(device_mount_path):
            raise VolumeError(
                f"{directory} has no {vol_data.NAME}: which driver has mounted a volume there is not known. Unmount it"
            )
        await self._host.mounts.remove_mount_point(device_mount_path)
        vol_data.remove(directory)

    async def _unstage(self, driver: Driver, handle: str, path: str) -> None:
        if await driver.node_can(NodeAbility.STAGE_UNSTAGE_VOLUME):
            request = csi.NodeUnstageVolumeRequest(volume_id=handle, staging_target_path=path)
            await driver.call(Node.node_unstage_volume, request)

    def _remember(self, spec: VolumeSpec, publish_context: dict[str, str]) -> VolumeData:
        source, node = persistent(spec), self._host.node_name
        data = VolumeData(
            spec_vol_id=spec.name,
            volume_handle=source.volume_handle,
            driver_name=source.driver,
            node_name=node,
            attachment_id=volume_attachment_name(CSI_PLUGIN, f"{source.driver}^{source.volume_handle}", node),
            publish_context=publish_context,
        )
        vol_data.save(os.path.dirname(staging_path(self._host, spec)), data)
        return data

    # --- on a controller: not here

    async def attach(self, spec: VolumeSpec, node_name: str) -> Attachment:
        raise _by_the_attacher()

    async def detach(self, volume_name: str, node_name: str) -> None:
        raise _by_the_attacher()

    async def volumes_are_attached(self, specs: object, node_name: str) -> dict[VolumeSpec, bool]:
        raise _by_the_attacher()


def volume_staged_at(path: Path) -> str | None:
    """Returns the volume name of what is staged at `path`, from its file; None if there is none."""
    data = vol_data.load(str(path.parent)) if path.name == GLOBAL_MOUNT else None
    return f"{data.driver_name}^{data.volume_handle}" if data else None


def _by_the_attacher() -> VolumeError:
    return VolumeError(
        "CSI volumes are attached by their driver's attacher: this node cannot attach them for itself"
    )
