"""Mutants of the node agent: what it mounts and unmounts when, and what it says of it."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from mooring.controllers.scheduling import decide as scheduling
from mooring.kube.objects import Pod, VolumeAttachment
from mooring.node.pods import worker
from mooring.node.pods.facts import Do, Plan
from mooring.node.pods.worker import PodWorker
from mooring.node.volumes import handshake, manager, operations
from mooring.node.volumes.decide import Presence
from mooring.node.volumes.handshake import NotAttachedYet, Permission
from mooring.node.volumes.manager import VolumeManager
from mooring.node.volumes.operations import Operations
from mooring.node.volumes.volume import WantedVolume
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch, always
from mooring.volumes.interfaces import DEVICE_PATH


def _trust_the_cache(original: Any) -> Any:
    async def permission(self: Any, volume: Any) -> Permission | None:
        name, node = volume.record.unique_name, self._publisher.node
        if not volume.record.attachable:
            return None
        listed = {entry.name: entry.device_path for entry in node.status.volumes_attached} if node else {}
        if name not in listed:
            raise NotAttachedYet("not in volumesAttached")
        found = await self._client.find(VolumeAttachment, handshake.attachment_name(name, self._node_name))
        return Permission({DEVICE_PATH: listed[name]}, found.uid if found else "", node.uid)

    return permission


def _no_word_before(original: Any) -> Any:
    """What is wanted, and not mounted yet, is not said to be in use."""

    def state(self: Any, *, published: bool, **known: Any) -> Any:
        return original(self, published=True, **known)

    return state


def _in_use_when_mounted(original: Any) -> Any:
    return property(lambda self: self.record.attachable and not self.record.empty)


def _forget_devices(original: Any) -> Any:
    async def reconstruct(*args: Any) -> Any:
        found = await original(*args)
        return {name: msgspec.structs.replace(record, device=None) for name, record in found.items()}

    return reconstruct


def _found(**changes: Any) -> Any:
    """What is found after a restart is changed so."""

    def make(original: Any) -> Any:
        def found(cls: Any, record: Any, mount_points: set[str]) -> Any:
            volume = original.__func__(cls, record, mount_points)
            for name, change in changes.items():
                setattr(volume, name, change(getattr(volume, name)))
            return volume

        return classmethod(found)

    return make


def _believe_records(original: Any) -> Any:
    def found(cls: Any, record: Any, mount_points: set[str]) -> Any:
        recorded = {pod.path for pod in record.pods.values()} | (
            {record.device.mount_path} if record.device else set()
        )
        volume = original.__func__(cls, record, recorded)
        volume.unverified = False
        return volume

    return classmethod(found)


def _let_go_of_ending(original: Any) -> Any:
    def mark_all(self: Any) -> None:
        for pod in self._pods.items():
            if pod.deleting and not self._shutting_down:
                self._volumes.release(pod.uid)
        original(self)

    return mark_all


def _release_at_once(original: Any) -> Any:
    def decide_pod(facts: Any, memory: Any, now: float) -> Plan:
        if facts.pod is None and facts.volumes.wanted:
            return Plan(((Do.RELEASE_VOLUMES, ""),), memory, now + 1)
        return original(facts, memory, now)

    return decide_pod


def _not_of_the_adopted(original: Any) -> Any:
    def drop(self: Any, pod_uid: str) -> bool:
        return original(self, pod_uid) if pod_uid in self.wants else False

    return drop


def _failed_means_absent(original: Any) -> Any:
    async def mount_device(self: Any, volume: Any, permission: Any) -> None:
        try:
            await original(self, volume, permission)
        except Exception:
            self._save(volume, device=None)
            volume.device = Presence.ABSENT
            raise

    return mount_device


def _any_device(original: Any) -> Any:
    async def attached_device(self: Any, plugin: Any, spec: Any, permission: Any) -> str:
        return await plugin.new_attacher().wait_for_attach(spec, permission.attachment, 1.0)

    return attached_device


def _old_path(original: Any) -> Any:
    # By client, so that no run knows what another one has seen.
    paths: WeakKeyDictionary[Any, dict[tuple[str, str], str]] = WeakKeyDictionary()

    async def look(client: Any, node_name: str, node_uid: str, boot_id: str, unique_name: str) -> Any:
        found = await original(client, node_name, node_uid, boot_id, unique_name)
        path = paths.setdefault(client, {}).setdefault((node_uid, unique_name), found.attachment[DEVICE_PATH])
        return replace(found, attachment={DEVICE_PATH: path})

    return look


def _remove_at_once(original: Any) -> Any:
    def gone(facts: Any, memory: Any, now: float) -> Any:
        pod: Pod | None = facts.pod
        if pod is not None and pod.deleting and not memory.deleted and facts.running:
            return Plan(((Do.DELETE, ""),), replace(memory, deleted=True), now + 1)
        return original(facts, memory, now)

    return gone


def _any_status(original: Any) -> Any:
    async def write_status(self: Any, *args: Any) -> None:
        whole = self._client.revise
        self._client.revise = lambda *given, **named: whole(*given, **(named | {"any_version": True}))
        try:
            await original(self, *args)
        finally:
            del self._client.revise

    return write_status


MUTANTS: dict[str, Mutant] = {
    "B02a": Mutant(
        "a node mounts what its cache says is attached, before it has said that it uses it",
        "kubernetes/kubernetes#27836 (first phase)",
        ("S7", "S6"),
        scenarios.LAGGING,
        (
            Patch(VolumeManager, "_permission", _trust_the_cache),
            Patch(WantedVolume, "state", _no_word_before),
            Patch(WantedVolume, "in_use", _in_use_when_mounted),
        ),
    ),
    "B03": Mutant(
        "the device is not looked at: whatever is at its path is mounted",
        "kubernetes/kubernetes#29324",
        ("S10", "S16"),
        scenarios.DEVICES,
        (Patch(Operations, "_attached_device", _any_device), Patch(handshake, "look", _old_path)),
    ),
    "B25": Mutant(
        "after a restart of the agent the device's mount is forgotten",
        "kubernetes/kubernetes#101791",
        ("S7",),
        scenarios.RESTARTS,
        (Patch(manager, "reconstruct", _forget_devices),),
    ),
    "B26": Mutant(
        "after a restart of the agent a pod that ends has no volumes: they are unmounted under it",
        "kubernetes/kubernetes#113979",
        ("S7'",),
        scenarios.ENDINGS,
        (Patch(PodWorker, "mark_all", _let_go_of_ending),),
    ),
    "B27": Mutant(
        "after a restart of the agent a volume of which no pod has spoken yet is unmounted",
        "kubernetes/kubernetes#120150",
        ("S7'",),
        scenarios.RESTARTS,
        (Patch(WantedVolume, "found", _found(adopted=lambda pods: set[str]())),),
    ),
    "B28": Mutant(
        "the volumes of a pod that was removed by force are unmounted before its processes have ended",
        "kubernetes/kubernetes#27691",
        ("S7'",),
        scenarios.RESTARTS,
        (Patch(worker, "decide", _release_at_once),),
    ),
    "B30": Mutant(
        "after a restart of the agent the volumes of pods that are gone are never unmounted",
        "kubernetes/kubernetes#75345, #70044",
        ("L3", "L4"),
        scenarios.RESTARTS,
        (Patch(WantedVolume, "drop", _not_of_the_adopted),),
        omits="the disk stays mounted where it is attached, for ever",
    ),
    "B31": Mutant(
        "a mount that failed is taken for none",
        "kubernetes/kubernetes#82492, #113563",
        ("S7",),
        scenarios.MOUNTS,
        (Patch(Operations, "mount_device", _failed_means_absent),),
    ),
    "B67": Mutant(
        "after a reboot what is recorded is taken for mounted",
        "kubernetes/kubernetes#117513, #119921",
        ("S4'",),
        scenarios.POWER,
        (Patch(WantedVolume, "found", _believe_records),),
    ),
    "B72": Mutant(
        "a volume that comes back under another device path is looked for at the old one",
        "kubernetes/kubernetes#89330",
        ("L1",),
        scenarios.DEVICES,
        (Patch(handshake, "look", _old_path),),
        omits="the device's identity is looked at, so the wrong one is refused again and again (B03: not even that)",
    ),
    "P4": Mutant(
        "a ReadWriteOncePod volume is for all pods of a node",
        "KEP-2485: ReadWriteOncePod; scheduler and agent each look",
        ("S5",),
        scenarios.RIVALS,
        (
            Patch(operations, "is_one_pod_only", always(False)),
            Patch(scheduling, "_obstacle", always(None)),
        ),
    ),
    "P5": Mutant(
        "a pod starts beside one that was removed by force and still runs on its node with its volume",
        "pod safety; PostgreSQL lost rows by it (tests/machines/stateful)",
        ("S1'",),
        scenarios.RESTARTS,
        (Patch(VolumeManager, "sharers", always(set[str]())),),
    ),
    "P2": Mutant(
        "a pod's status is written whatever was written to it meanwhile",
        "in our own code until the simulation found it",
        ("S3",),
        scenarios.LATE_STATUSES,
        (Patch(PodWorker, "_write_status", _any_status),),
    ),
    "P3": Mutant(
        "a pod leaves the API while its processes run",
        "the pod-safety document: a pod object goes after its processes",
        ("S1",),
        scenarios.PLAIN,
        (Patch(worker, "decide", _remove_at_once),),
    ),
}
