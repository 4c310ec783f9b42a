"""What is true of a volume, looked up where it is: at the storage, and in the kernel. For the demo and its
observer.

`ArrayTruth` looks at this machine's disk array, `CloudTruth` at the cloud of `mooring up --cloud`. A volume
is known by its handle: the name of its disk, or its id in the cloud.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Protocol

import aiohttp

from mooring.cloud.data_directory import DataDirectory
from mooring.cloud.devices import LoopDevices
from mooring.cluster.cloud import DRIVER
from mooring.cluster.layout import Layout
from mooring.mounts.holders import device_number
from mooring.mounts.interface import Mount
from mooring.volumes.names import escape_plugin_name
from mooring.volumes.plugins.disk_array import Delays, DiskArray

CSI_PLUGIN = "kubernetes.io/csi"


class Truth(Protocol):
    """The storage, seen from outside."""

    part: str
    """What carries attachments out, beside the controllers; empty if they do."""

    def holders(self, handle: str) -> tuple[str, ...]:
        """The nodes that have the volume now."""
        ...

    def device(self, handle: str, node: str) -> str | None:
        """The volume's device on a node."""
        ...

    def is_of(self, mount: Mount, handle: str, node: str) -> bool:
        """Whether a mount on the node is of the volume. Raises OSError if its device goes at this moment."""
        ...

    def staged_at(self, handle: str, node: str) -> Path:
        """Where the volume's file system is mounted on a node, as paths are there."""
        ...

    def medium(self, handle: str) -> Path:
        """The file that holds all of the volume."""
        ...

    async def slow_down(self, handle: str, seconds: float) -> None:
        """From now on attaching and detaching take so long, and so does the answer; 0: as always."""
        ...


class ArrayTruth(Truth):
    """The disk array."""

    part = ""

    def __init__(self, layout: Layout, array: DiskArray) -> None:
        self._layout = layout
        self._array = array

    def holders(self, handle: str) -> tuple[str, ...]:
        return tuple(self._array.attachments().get(handle, ()))

    def device(self, handle: str, node: str) -> str | None:
        return self._array.devices(node).get(handle)

    def is_of(self, mount: Mount, handle: str, node: str) -> bool:
        return mount.mount_point.endswith(f"/mounts/{handle}")

    def staged_at(self, handle: str, node: str) -> Path:
        return (
            self._layout.node(node) / "plugins" / escape_plugin_name("mooring.dev/disk") / "mounts" / handle
        )

    def medium(self, handle: str) -> Path:
        return self._layout.array / "disks" / handle / "disk.img"

    async def slow_down(self, handle: str, seconds: float) -> None:
        self._array.set_delays(handle, Delays(attach=seconds, attach_reply=seconds, detach=seconds))


class CloudTruth(Truth):
    """The cloud. Node k is its k-th instance."""

    part = "ebs-controller"

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._instances: dict[str, str] = {}

    async def learn(self) -> None:
        """Asks the cloud which instance is which node."""
        async with aiohttp.ClientSession() as session, session.get(self._control()) as reply:
            instances = (await reply.json())["instances"]
        self._instances = {f"node-{number}": each["instance_id"] for number, each in enumerate(instances, 1)}

    def holders(self, handle: str) -> tuple[str, ...]:
        return tuple(node for node in self._instances if self.device(handle, node))

    def device(self, handle: str, node: str) -> str | None:
        link = LoopDevices(self._layout.cloud).link_to(handle, self._instances[node])
        return os.path.realpath(link) if os.path.exists(link) else None

    def is_of(self, mount: Mount, handle: str, node: str) -> bool:
        device = self.device(handle, node)
        if device is None:
            return False
        if mount.source.startswith("/dev/loop"):
            return mount.device == device_number(device)
        # A kernel of its own numbers devices in its own way; the path names the volume.
        return mount.mount_point == str(self.staged_at(handle, node))

    def staged_at(self, handle: str, node: str) -> Path:
        unique = hashlib.sha256(handle.encode()).hexdigest()
        return (
            self._layout.node(node)
            / "plugins"
            / escape_plugin_name(CSI_PLUGIN)
            / DRIVER
            / unique
            / "globalmount"
        )

    def medium(self, handle: str) -> Path:
        return self._layout.cloud / "volumes" / f"{handle}.img"

    async def slow_down(self, handle: str, seconds: float) -> None:
        names = ("attaching_s", "detaching_s")
        changes = {name: [seconds, seconds] if seconds else [1.0, 4.0] for name in names}
        where = f"{self._control()}/settings"
        async with aiohttp.ClientSession() as session, session.patch(where, json=changes) as reply:
            reply.raise_for_status()

    def _control(self) -> str:
        endpoint = DataDirectory(self._layout.cloud).endpoint()
        assert endpoint is not None
        return f"http://127.0.0.1:{endpoint.port}/_cloud"
