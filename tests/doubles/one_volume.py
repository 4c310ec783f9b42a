"""One volume of a node and the operations on it, over a plugin that does as a test wants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from mooring.kube.objects import (
    FlexVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
)
from mooring.mounts.interface import Mounts
from mooring.node.volumes.decide import Presence
from mooring.node.volumes.handshake import Permission
from mooring.node.volumes.operations import Operations
from mooring.node.volumes.records import DeviceRecord, PodRecord, Records, VolumeRecord
from mooring.node.volumes.volume import Want, WantedVolume
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import DEVICE_PATH, AttachCapabilities
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

DISK, UNIQUE = "example.com/disk", "example.com/disk/d1"
PERMISSION = Permission({DEVICE_PATH: "/dev/d1"}, "attachment", "node", epoch=3)
RECORDED = DeviceRecord("/m", "attachment", "node")
PRESENT, UNCERTAIN, ABSENT = Presence.PRESENT, Presence.UNCERTAIN, Presence.ABSENT


class Host(VolumeHost):  # type: ignore[misc]
    """The places of volumes, and nothing else."""

    def get_pod_volume_dir(self, pod_uid: str, plugin: str, name: str) -> Path:
        return Path(f"/pods/{pod_uid}/volumes/{plugin.replace('/', '~')}/{name}")

    def get_plugin_dir(self, plugin: str) -> Path:
        return Path("/plugins")


def disk(**spec: Any) -> VolumeSpec:
    source = FlexVolumeSource(driver=DISK, options={"disk": "d1"})
    whole = PersistentVolumeSpec(flex_volume=source, access_modes=("ReadWriteOnce",))
    return VolumeSpec.of_persistent_volume(
        PersistentVolume(metadata=ObjectMeta(name="pv"), spec=replace(whole, **spec))
    )


def pod(uid: str, **spec: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name=uid, namespace="default", uid=uid), spec=PodSpec(**spec))


class OneVolume:
    """A volume, its records, and a plugin that does as a test wants: `done` has what it was asked for, and
    what was recorded then. What `failures` names, fails."""

    def __init__(self, root: Path, played: Any) -> None:
        self.records = Records(root)
        self.records.load()
        self.done: list[str] = []
        self.recorded: list[VolumeRecord] = []
        self.failures: dict[str, Exception] = {}
        self.references: Sequence[str] = ()
        self.capabilities = AttachCapabilities(refuses=True, revokes=False, multi_attach=False)
        self.plugin = self._plugin(played)
        self.plugins = PluginManager([self.plugin], Host())  # type: ignore[abstract]
        self.operations = Operations(self.plugins, self.records, cast(Mounts, None))
        self.volume = WantedVolume(self.operations.empty_record(UNIQUE, disk()))

    def act(self, what: str) -> None:
        verb = what.partition(" ")[0]
        self.done.append(what)
        self.recorded += self.records.load()
        if verb in self.failures:
            raise self.failures[verb]

    def want(self, uid: str, spec: VolumeSpec | None = None, **of_pod: Any) -> Want:
        made = Want(pod(uid, **of_pod), ("data",), spec or disk(), 0.0)
        self.volume.wants[uid] = made
        return made

    def has_record(self, **changes: Any) -> None:
        self.volume.record = replace(self.volume.record, **changes)
        self.records.save(self.volume.record)

    def is_mounted(self, *uids: str) -> None:
        """The device is mounted, and so is the volume for these pods."""
        pods = {uid: PodRecord("pv", f"/pods/{uid}") for uid in uids}
        self.has_record(device=RECORDED, pods=pods)
        self.volume.device, self.volume.pods = PRESENT, dict.fromkeys(uids, PRESENT)

    def plugin_is_gone(self) -> None:
        self.volume.record = replace(self.volume.record, plugin="example.com/gone")

    def _plugin(self, played: Any) -> Any:
        stage = self

        class Mounter(played.PlayedMounter):  # type: ignore[misc]
            async def can_mount(self) -> None:
                stage.act("can-mount")

            async def set_up(self, fs_group: int | None = None) -> None:
                stage.act(f"set-up {fs_group}")

            async def limit_exceeded(self) -> str | None:
                return "too much"

        class Unmounter(played.PlayedUnmounter):  # type: ignore[misc]
            async def tear_down(self) -> None:
                stage.act(f"tear-down {self.get_path()}")

        class Attacher(played.PlayedAttacher):  # type: ignore[misc]
            async def attach(self, spec: VolumeSpec, node_name: str) -> Any:
                stage.act(f"attach {spec.name} {node_name}")
                return {DEVICE_PATH: "/dev/d1"}

            async def detach(self, volume_name: str, node_name: str) -> None:
                stage.act(f"detach {volume_name} {node_name}")

            async def wait_for_attach(self, spec: VolumeSpec, attachment: Any, timeout_s: float) -> str:
                stage.act(f"wait {timeout_s:.0f}")
                return attachment[DEVICE_PATH]

            async def verify_device(self, spec: VolumeSpec, device_path: str) -> None:
                stage.act(f"verify {device_path} {spec.epoch}")

            async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
                stage.act(f"mount {device_path} {device_mount_path} {' '.join(spec.mount_options)}".strip())

            async def unmount_device(self, device_mount_path: str) -> None:
                stage.act(f"unmount {device_mount_path}")

        class Disk(played.PlayedDisk):  # type: ignore[misc]
            mount_options = True
            attaches = True

            def can_attach(self, spec: VolumeSpec) -> bool:
                return self.attaches

            def supports_mount_option(self) -> bool:
                return self.mount_options

            def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
                return stage.capabilities

            def new_mounter(self, spec: VolumeSpec, pod: Pod) -> Mounter:
                return Mounter(self.machine, self.host.get_pod_volume_dir(pod.uid, DISK, spec.name))

            def new_unmounter(self, spec_name: str, pod_uid: str) -> Unmounter:
                return Unmounter(self.machine, self.host.get_pod_volume_dir(pod_uid, DISK, spec_name))

            def new_attacher(self) -> Attacher:
                return Attacher(self)

            def new_detacher(self) -> Attacher:
                return Attacher(self)

            async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
                return stage.references

        return Disk(played.JournalledMachine())
