"""The volume manager of a node by itself: with plugins, mounts and a Node that are only played, and
without an API server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mooring.kube.errors import NotFound
from mooring.kube.objects import (
    AttachedVolume,
    EmptyDirVolumeSource,
    FlexVolumeSource,
    Node,
    NodeStatus,
    NodeSystemInfo,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Volume,
    VolumeAttachment,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
)
from mooring.node.volumes.handshake import attachment_name
from mooring.node.volumes.manager import VolumeManager
from mooring.volumes.attachment_lock import ATTACHED_TO
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import DEVICE_PATH
from mooring.volumes.names import VOLUMES_ATTACHED_WRITE
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

NODE, BOOT = "node-1", "boot-1"
DISK, LOCAL = "example.com/disk", "example.com/local"
D1 = f"{DISK}/d1"
MOUNTED = ["verify /dev/d1", "mount-device /dev/d1", "set-up d1"]
"""What a machine does for a pod that has it."""


def pod(uid: str, **metadata: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name=uid, namespace="default", uid=uid, **metadata))


def disk(name: str = "d1", closed_for: str = "", **spec: Any) -> VolumeSpec:
    """`closed_for`: the node from which it was taken by force, since epoch 4."""
    source = FlexVolumeSource(driver=DISK, options={"disk": name})
    whole = replace(PersistentVolumeSpec(flex_volume=source, access_modes=("ReadWriteOnce",)), **spec)
    lock = f'{{"epoch": 4, "closed": {{"{closed_for}": {{"epoch": 4}}}}}}'
    metadata = ObjectMeta(name=name, annotations={ATTACHED_TO: lock} if closed_for else {})
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=metadata, spec=whole))


CACHE = VolumeSpec.of_volume(Volume(name="cache", empty_dir=EmptyDirVolumeSource()))


class Host(VolumeHost):  # type: ignore[misc]
    """The places of volumes, and nothing else."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get_pod_volume_dir(self, pod_uid: str, plugin: str, name: str) -> Path:
        return self._root / "pods" / pod_uid / "volumes" / plugin.replace("/", "~") / name

    def get_plugin_dir(self, plugin: str) -> Path:
        return self._root / "plugins" / plugin.replace("/", "~")


class Content:
    """Notes what is followed."""

    def __init__(self) -> None:
        self.followed: list[tuple[str, str, bool]] = []

    def follow(self, pod: Pod, spec: VolumeSpec, unique_name: str, grows: bool) -> None:
        self.followed.append((pod.uid, unique_name, grows))

    def unfollow(self, pod_uid: str, unique_name: str) -> None:
        self.followed = [each for each in self.followed if each[:2] != (pod_uid, unique_name)]


class ManagedVolumes:
    """`events`: what pods are told; `changed`: the pods whose state may have changed; `published`: what the
    Node was said to use, each time. Disks are attached, and reported, from the beginning."""

    uid, boot_id = "node-uid", BOOT

    def __init__(self, root: Path, played: Any, **how: bool) -> None:
        self.machine = played.JournalledMachine()
        self.disk, self.local = self._disk(played), played.PlayedLocal(self.machine)
        self.plugins = PluginManager([self.disk, self.local], Host(root))  # type: ignore[abstract]
        self.events: list[tuple[str, str, str]] = []
        self.changed: list[str] = []
        self.published_so_far: list[tuple[str, ...]] = []
        self.content = Content()
        self.attached: tuple[str, ...] = ("d1", "d2")
        self.attachments = self.attached
        self.attachment_uid, self.attachment_node = "attachment", NODE
        self.write = ""
        self.failure: Exception | None = None
        """What the API server answers."""
        self.looks: list[str] = []
        self.delays: list[float] = []
        """How long the next answers about attachments are under way."""
        self.writes = 0
        self.refusal: Exception | None = None
        """How often the Node was to be written, and why it is not."""
        self.manager = VolumeManager(
            self,  # type: ignore[arg-type]
            NODE,
            root,
            self.plugins,
            played.PlayedMounts(self.machine),
            report=lambda pod, kind, reason, message: self.events.append((pod.name, reason, message)),
            pod_changed=self.changed.append,
            content=self.content,  # type: ignore[arg-type]
            **{"attaches": False, "alone": False} | how,
        )

    def _disk(self, played: Any) -> Any:
        stage = self

        class Attacher(played.PlayedAttacher):  # type: ignore[misc]
            async def attach(self, spec: VolumeSpec, node_name: str) -> Any:
                stage.machine.act(f"attach {spec.name}")
                return {DEVICE_PATH: "/dev/d1"}

            async def detach(self, volume_name: str, node_name: str) -> None:
                stage.machine.act(f"detach {volume_name}")

        class Disk(played.PlayedDisk):  # type: ignore[misc]
            def new_attacher(self) -> Attacher:
                return Attacher(self)

            def new_detacher(self) -> Attacher:
                return Attacher(self)

        return Disk(self.machine)

    async def start(self) -> asyncio.Task[None]:
        await self.manager.reconstruct()
        return asyncio.create_task(self.manager.run(self))

    async def mounted(self, *uids: str, spec: VolumeSpec | None = None) -> None:
        """These pods have the volume, by the name "data"."""
        await self.start()
        for uid in uids:
            self.manager.want(pod(uid), {"data": spec or disk()})
        await asyncio.sleep(5)
        assert all(self.manager.state(uid).mounted for uid in uids)

    # --- the Node, and how it is written

    @property
    def node(self) -> Node:
        names = [f"{DISK}/{each}" for each in self.attached]
        return Node(
            metadata=ObjectMeta(name=NODE, uid=self.uid, annotations={VOLUMES_ATTACHED_WRITE: self.write}),
            status=NodeStatus(
                node_info=NodeSystemInfo(boot_id=BOOT),
                volumes_in_use=self.manager.volumes_in_use(),
                volumes_attached=tuple(AttachedVolume(name, f"/dev/{name[-2:]}") for name in names),
            ),
        )

    def published(self, volume: str) -> bool:
        return bool(self.published_so_far) and volume in self.published_so_far[-1]

    async def publish(self) -> None:
        self.writes += 1
        if self.refusal is not None:
            raise self.refusal
        self.published_so_far.append(self.manager.volumes_in_use())

    def change(self, **changes: Any) -> None:
        """The Node changes, and the manager is told."""
        old = self.node
        for name, value in changes.items():
            setattr(self, name, value)
        self.manager.node_changed(old, self.node)

    # --- what is read live

    async def get(self, kind: type[Any], name: str) -> Any:
        self.looks.append(kind.__name__)
        if self.failure is not None:
            raise self.failure
        if kind is Node:
            return self.node
        for each in self.attachments:
            if name == attachment_name(f"{DISK}/{each}", NODE):
                found = VolumeAttachment(
                    metadata=ObjectMeta(name=name, uid=self.attachment_uid),
                    spec=VolumeAttachmentSpec(node_name=self.attachment_node),
                    status=VolumeAttachmentStatus(attached=True),
                )
                if self.delays:
                    await asyncio.sleep(self.delays.pop(0))
                return found
        raise NotFound(name, status=404)

    async def find(self, kind: type[Any], name: str, namespace: str = "") -> Any:
        try:
            return await self.get(kind, name)
        except NotFound:
            return None


def names(volumes: Sequence[tuple[str, ...]]) -> list[str]:
    """The disks that were said to be in use, each time."""
    return [" ".join(name.rpartition("/")[2] for name in each) for each in volumes]
