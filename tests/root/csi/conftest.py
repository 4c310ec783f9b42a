"""`disk.mooring.dev` on an array of its own, called in this process, with real devices and mounts."""

from __future__ import annotations

import os
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mooring.csi.client import Client
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.driver.services import AccessMode
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi_disk.driver import disk_driver
from mooring.mounts import loop, syscalls
from mooring.mounts.host import HostMounts
from mooring.mounts.table import mounts_below, read_mount_table
from mooring.volumes.plugins.disk_array import DiskArray

SIZE = 16 * 1024 * 1024
TIMEOUT_S = 60


def mounted(
    fs_type: str = "", flags: tuple[str, ...] = (), mode: int = AccessMode.SINGLE_NODE_MULTI_WRITER
) -> Any:
    return csi.VolumeCapability(
        mount=csi.VolumeCapability.MountVolume(fs_type=fs_type, mount_flags=flags),
        access_mode=csi.VolumeCapability.AccessMode(mode=mode),
    )


def raw(mode: int = AccessMode.SINGLE_NODE_MULTI_WRITER) -> Any:
    return csi.VolumeCapability(
        block=csi.VolumeCapability.BlockVolume(), access_mode=csi.VolumeCapability.AccessMode(mode=mode)
    )


class Disks:
    """The driver, and what a container orchestrator does with it. A volume's name is its id here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kubelet = root / "kubelet"
        self.kubelet.mkdir()
        self.array = DiskArray(root / "array")
        driver = disk_driver(
            root / "array",
            self.array,
            HostMounts(),
            version="1",
            node_id="n1",
            machine="m1",
            now=lambda: datetime(2030, 1, 1, tzinfo=UTC),
        )
        self.dispatcher = Dispatcher(driver, [self.kubelet])
        self.client = Client(LocalChannel(self.dispatcher))
        self.controller = self.client.controller
        self.node = self.client.node

    async def create(self, name: str = "v1", capability: Any = None, **more: Any) -> csi.Volume:
        size = csi.CapacityRange(required_bytes=more.pop("size", SIZE))
        request = csi.CreateVolumeRequest(
            name=name, capacity_range=size, volume_capabilities=[capability or mounted()], **more
        )
        return (await self.controller.create_volume(request, timeout_s=TIMEOUT_S)).volume

    async def attach(self, volume: str = "v1", node: str = "n1", capability: Any = None) -> dict[str, str]:
        if node == "n1":
            await self.node.node_get_info(csi.NodeGetInfoRequest(), timeout_s=TIMEOUT_S)
        request = csi.ControllerPublishVolumeRequest(
            volume_id=volume, node_id=node, volume_capability=capability or mounted()
        )
        reply = await self.controller.controller_publish_volume(request, timeout_s=TIMEOUT_S)
        return dict(reply.publish_context)

    async def detach(self, volume: str = "v1", node: str = "n1") -> None:
        request = csi.ControllerUnpublishVolumeRequest(volume_id=volume, node_id=node)
        await self.controller.controller_unpublish_volume(request, timeout_s=TIMEOUT_S)

    async def delete(self, volume: str = "v1") -> None:
        await self.controller.delete_volume(csi.DeleteVolumeRequest(volume_id=volume), timeout_s=TIMEOUT_S)

    def staging(self, volume: str = "v1") -> Path:
        path = self.kubelet / "plugins" / volume
        path.mkdir(parents=True, exist_ok=True)
        return path

    def target(self, name: str = "mount") -> Path:
        (self.kubelet / "pods").mkdir(exist_ok=True)
        return self.kubelet / "pods" / name

    async def stage(self, volume: str = "v1", capability: Any = None) -> Path:
        request = csi.NodeStageVolumeRequest(
            volume_id=volume,
            staging_target_path=str(self.staging(volume)),
            volume_capability=capability or mounted(),
        )
        await self.node.node_stage_volume(request, timeout_s=TIMEOUT_S)
        return self.staging(volume)

    async def publish(
        self, volume: str = "v1", target: str = "mount", capability: Any = None, readonly: bool = False
    ) -> Path:
        request = csi.NodePublishVolumeRequest(
            volume_id=volume,
            staging_target_path=str(self.staging(volume)),
            target_path=str(self.target(target)),
            volume_capability=capability or mounted(),
            readonly=readonly,
        )
        await self.node.node_publish_volume(request, timeout_s=TIMEOUT_S)
        return self.target(target)

    async def unpublish(self, volume: str = "v1", target: str = "mount") -> None:
        request = csi.NodeUnpublishVolumeRequest(volume_id=volume, target_path=str(self.target(target)))
        await self.node.node_unpublish_volume(request, timeout_s=TIMEOUT_S)

    async def unstage(self, volume: str = "v1") -> None:
        request = csi.NodeUnstageVolumeRequest(
            volume_id=volume, staging_target_path=str(self.staging(volume))
        )
        await self.node.node_unstage_volume(request, timeout_s=TIMEOUT_S)

    async def mount(self, volume: str = "v1", capability: Any = None) -> Path:
        """From created to used by a workload."""
        await self.attach(volume, capability=capability)
        await self.stage(volume, capability)
        return await self.publish(volume, capability=capability)

    async def unmount(self, volume: str = "v1") -> None:
        await self.unpublish(volume)
        await self.unstage(volume)
        await self.detach(volume)

    def clean_up(self) -> None:
        for mount in mounts_below(read_mount_table(), str(self.root)):
            syscalls.unmount(mount.mount_point)
        disks = self.root / "array" / "disks"
        for disk in os.listdir(disks) if disks.is_dir() else []:
            medium = str(disks / disk / "disk.img")
            for device in loop.devices_of(medium):
                loop.remove(device, medium)


@pytest.fixture
def disks(tmp_path: Path) -> Generator[Disks]:
    made = Disks(tmp_path)
    yield made
    made.clean_up()
