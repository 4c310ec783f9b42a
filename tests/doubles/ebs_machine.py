"""An instance with loop devices for EBS volumes, under the names that an instance has, and the driver's node
service.

Real devices, file systems and mounts: needs root. EC2 is not played: a test attaches by itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.csi.client import Client
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.driver.services import AccessMode
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.driver import ebs_driver
from mooring.ebs.node_service.devices import DeviceFinder
from mooring.ebs.node_service.metadata import Configured, Instance
from mooring.ebs.node_service.node import EbsNode
from mooring.mounts import loop, syscalls
from mooring.mounts.host import HostMounts
from mooring.mounts.interface import Mounts
from mooring.mounts.table import mounts_below, read_mount_table

VOLUME = "vol-0123456789abcdef0"
OTHER = "vol-0fedcba9876543210"
SIZE = 32 * 1024 * 1024
XFS_SIZE = 320 * 1024 * 1024
TIMEOUT_S = 60


def mounted(
    fs_type: str = "", flags: Sequence[str] = (), mode: AccessMode = AccessMode.SINGLE_NODE_WRITER
) -> csi.VolumeCapability:
    return csi.VolumeCapability(
        mount=csi.VolumeCapability.MountVolume(fs_type=fs_type, mount_flags=flags),
        access_mode=csi.VolumeCapability.AccessMode(mode=mode),
    )


def raw(mode: AccessMode = AccessMode.SINGLE_NODE_WRITER) -> csi.VolumeCapability:
    return csi.VolumeCapability(
        block=csi.VolumeCapability.BlockVolume(), access_mode=csi.VolumeCapability.AccessMode(mode=mode)
    )


class EbsMachine:
    """One instance. A volume is attached as /dev/xvdba if nothing else is said."""

    def __init__(self, root: Path, mounts: Mounts | None = None) -> None:
        self.root = root
        self.dev = root / "dev"
        self.by_id = self.dev / "disk/by-id"
        self.by_id.mkdir(parents=True)
        self.kubelet = root / "kubelet"
        self.kubelet.mkdir()
        self.devices = DeviceFinder(self.dev)
        self.images: list[Path] = []
        self.restart(mounts or HostMounts())

    def restart(self, mounts: Mounts, *, device_wait_s: float = 0, **options: Any) -> None:
        """A new process of the driver."""
        metadata = Configured(Instance("i-0123", "m5.large", "us-east-1a"), None)
        self.service = EbsNode(mounts, self.devices, metadata, device_wait_s=device_wait_s, **options)
        self.dispatcher = Dispatcher(ebs_driver("1", None, self.service), [self.kubelet])
        self.client = Client(LocalChannel(self.dispatcher))
        self.node = self.client.node

    # --- devices

    def attach(self, volume: str = VOLUME, name: str = "xvdba", size: int = SIZE, image: str = "") -> str:
        """The device. `image` is the name of its file if that is not to tell which volume it is."""
        path = self.root / (image or f"{volume}.img")
        self.images.append(path)
        if not path.exists():
            with open(path, "wb") as file:
                file.truncate(size)
        device = loop.create(str(path))
        (self.dev / name).symlink_to(device)
        self.link(volume).symlink_to(device)
        return device

    def link(self, volume: str = VOLUME, end: str = "") -> Path:
        return self.by_id / f"nvme-Amazon_Elastic_Block_Store_{volume.replace('-', '')}{end}"

    def detach(self, volume: str = VOLUME, name: str = "xvdba") -> None:
        device = os.path.realpath(self.link(volume))
        loop.remove(device, loop.backing_file(device) or "")
        (self.dev / name).unlink()
        self.link(volume).unlink()

    def grow(self, size: int, volume: str = VOLUME) -> None:
        os.truncate(self.root / f"{volume}.img", size)
        loop.set_capacity(os.path.realpath(self.link(volume)))

    def mounts(self) -> list[str]:
        return sorted(mount.mount_point for mount in mounts_below(read_mount_table(), str(self.root)))

    def clean_up(self) -> None:
        for mount in mounts_below(read_mount_table(), str(self.root)):
            syscalls.unmount(mount.mount_point)
        for image in self.images:
            for device in loop.devices_of(str(image)):
                loop.remove(device, str(image))

    # --- requests

    def staging(self, volume: str = VOLUME) -> Path:
        path = self.kubelet / "plugins" / volume
        path.mkdir(parents=True, exist_ok=True)
        return path

    def target(self, name: str = "mount") -> Path:
        (self.kubelet / "pods").mkdir(exist_ok=True)
        return self.kubelet / "pods" / name

    async def stage(
        self,
        capability: csi.VolumeCapability | None = None,
        volume: str = VOLUME,
        attached_as: str = "/dev/xvdba",
        context: Mapping[str, str] | None = None,
    ) -> Path:
        request = csi.NodeStageVolumeRequest(
            volume_id=volume,
            staging_target_path=str(self.staging(volume)),
            volume_capability=capability or mounted(),
            publish_context={"devicePath": attached_as} if attached_as else {},
            volume_context=context or {},
        )
        await self.node.node_stage_volume(request, timeout_s=TIMEOUT_S)
        return self.staging(volume)

    async def publish(
        self,
        capability: csi.VolumeCapability | None = None,
        target: str = "mount",
        readonly: bool = False,
        volume: str = VOLUME,
        attached_as: str = "/dev/xvdba",
    ) -> Path:
        request = csi.NodePublishVolumeRequest(
            volume_id=volume,
            staging_target_path=str(self.staging(volume)),
            target_path=str(self.target(target)),
            volume_capability=capability or mounted(),
            publish_context={"devicePath": attached_as},
            readonly=readonly,
        )
        await self.node.node_publish_volume(request, timeout_s=TIMEOUT_S)
        return self.target(target)

    async def unpublish(self, target: str = "mount", volume: str = VOLUME) -> None:
        request = csi.NodeUnpublishVolumeRequest(volume_id=volume, target_path=str(self.target(target)))
        await self.node.node_unpublish_volume(request, timeout_s=TIMEOUT_S)

    async def unstage(self, volume: str = VOLUME) -> None:
        request = csi.NodeUnstageVolumeRequest(
            volume_id=volume, staging_target_path=str(self.staging(volume))
        )
        await self.node.node_unstage_volume(request, timeout_s=TIMEOUT_S)

    async def stats(self, path: str | Path, volume: str = VOLUME) -> list[csi.VolumeUsage]:
        request = csi.NodeGetVolumeStatsRequest(volume_id=volume, volume_path=str(path))
        return list((await self.node.node_get_volume_stats(request, timeout_s=TIMEOUT_S)).usage)

    async def expand(self, path: str | Path, size: int, volume: str = VOLUME) -> int:
        request = csi.NodeExpandVolumeRequest(
            volume_id=volume, volume_path=str(path), capacity_range=csi.CapacityRange(required_bytes=size)
        )
        return (await self.node.node_expand_volume(request, timeout_s=TIMEOUT_S)).capacity_bytes
