"""The objects of a cluster, read once. Nothing is written, and nothing is concluded here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

from mooring.kube.client import Client
from mooring.kube.errors import Forbidden, NotFound
from mooring.kube.objects import (
    CSIDriver,
    CSINode,
    Deployment,
    Event,
    Namespace,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.volumes import claims
from mooring.volumes.attachability import Attachability
from mooring.volumes.errors import VolumeError
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.names import is_about
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

T = TypeVar("T", bound=Object)

KINDS: tuple[type[Object], ...] = (
    Pod,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    Namespace,
    Node,
    VolumeAttachment,
    CSIDriver,
    CSINode,
    Event,
)
"""Without these nothing can be explained."""
OPTIONAL: tuple[type[Object], ...] = (
    StatefulSet,
    Deployment,
    ReplicaSet,
    NodeFence,
    VolumeSnapshot,
    VolumeSnapshotContent,
    VolumeSnapshotClass,
)
"""Of these there are none in a cluster that does not know them, or does not show them to this user."""


@dataclass(frozen=True)
class Snapshot:
    """Objects by key. `plugins` are this program's: they know which volumes are attached,
    and under which name."""

    plugins: PluginManager
    pods: Mapping[str, Pod]
    claims: Mapping[str, PersistentVolumeClaim]
    volumes: Mapping[str, PersistentVolume]
    classes: Mapping[str, StorageClass]
    nodes: Mapping[str, Node]
    namespaces: Mapping[str, Namespace]
    attachments: Mapping[str, VolumeAttachment]
    drivers: Mapping[str, CSIDriver]
    csi_nodes: Mapping[str, CSINode]
    fences: Mapping[str, NodeFence]
    """Empty in a cluster that does not know them."""
    events: Mapping[str, tuple[Event, ...]]
    """By the uid of the object that they are about, the latest last."""
    stateful_sets: Mapping[str, StatefulSet] = field(default_factory=dict[str, StatefulSet])
    deployments: Mapping[str, Deployment] = field(default_factory=dict[str, Deployment])
    replica_sets: Mapping[str, ReplicaSet] = field(default_factory=dict[str, ReplicaSet])
    snapshots: Mapping[str, VolumeSnapshot] = field(default_factory=dict[str, VolumeSnapshot])
    snapshot_contents: Mapping[str, VolumeSnapshotContent] = field(
        default_factory=dict[str, VolumeSnapshotContent]
    )
    snapshot_classes: Mapping[str, VolumeSnapshotClass] = field(
        default_factory=dict[str, VolumeSnapshotClass]
    )

    @cached_property
    def free(self) -> FreeVolumes:
        """The volumes that claims could get."""
        return FreeVolumes(self.volumes.values())

    def warning(self, obj: Object, *reasons: str) -> Event | None:
        """Returns the latest Warning about the object, of one of the reasons if any are given."""
        found_events = self.events.get(obj.uid, ()) or self.events.get(obj.name, ())
        fitting = (
            e for e in reversed(found_events) if e.type == "Warning" and (not reasons or e.reason in reasons)
        )
        return next(fitting, None)

    def spec_of(self, pod: Pod, volume_name: str) -> VolumeSpec:
        """Returns the spec of a pod's volume. Raises `ClaimError` as `volume_spec` does."""
        volume = next(each for each in pod.spec.volumes if each.name == volume_name)
        return claims.volume_spec(
            pod, volume, lambda ns, name: self.claims.get(f"{ns}/{name}"), self.volumes.get
        )

    @cached_property
    def attachability(self) -> Attachability:
        """Which volumes are attached, and what their storage guarantees."""
        return Attachability(self.plugins, self.drivers.get)

    def knows_driver(self, name: str) -> bool:
        """Whether there is a plugin or a registered CSI driver of that name."""
        try:
            self.plugins.find_plugin_by_name(name)
        except VolumeError:
            return name in self.drivers
        return True

    def unique_name(self, spec: VolumeSpec) -> str:
        """The unique name of a volume that is attached, else ""."""
        return self.attachability.attached_name(spec) or ""

    def users(self, volume: str) -> Iterator[Pod]:
        """Pods that use the volume of that unique name."""
        for pod in self.pods.values():
            if volume in self._unique_names(pod):
                yield pod

    def _unique_names(self, pod: Pod) -> Iterator[str]:
        for volume in pod.spec.volumes:
            try:
                yield self.unique_name(self.spec_of(pod, volume.name))
            except VolumeError:
                continue

    def attachments_of(self, volume: str) -> list[VolumeAttachment]:
        """Returns all VolumeAttachments of the volume of that unique name."""
        return [each for each in self.attachments.values() if is_about(each, volume)]

    def held_by(self, node: str) -> tuple[list[VolumeAttachment], list[Pod]]:
        """The node's VolumeAttachments, and all pods that are bound to it."""
        return (
            [each for each in self.attachments.values() if each.spec.node_name == node],
            [pod for pod in self.pods.values() if pod.spec.node_name == node],
        )

    def pods_on(self, node: str) -> list[Pod]:
        """Pods that are bound to the node and have not ended."""
        return [pod for pod in self.pods.values() if pod.spec.node_name == node and not pod.finished]

    def users_of_claim(self, claim: PersistentVolumeClaim) -> list[Pod]:
        """Pods that name the claim and have not ended."""
        return [pod for pod in self.pods.values() if claim.key in claims.claims_of(pod) and not pod.finished]


class Source(Protocol):
    """Where the objects of a kind come from."""

    def __call__(self, kind: type[T], /) -> Iterable[T]: ...


async def read(client: Client, plugins: PluginManager) -> Snapshot:
    """Reads everything that an explanation may need, with concurrent lists. Raises `KubeError`."""
    found: dict[type[Object], Sequence[Any]] = {}
    half = len(KINDS) // 2
    for kinds in (KINDS[:half], KINDS[half:], OPTIONAL):
        found |= zip(kinds, await asyncio.gather(*(_list(client, kind) for kind in kinds)), strict=True)
    return assemble(plugins, lambda kind: found[kind])


async def _list(client: Client, kind: type[Object]) -> Sequence[Object]:
    try:
        return (await client.list(kind)).items
    except (NotFound, Forbidden):
        if kind in OPTIONAL:
            return ()
        raise


def assemble(plugins: PluginManager, of: Source) -> Snapshot:
    """Puts together what is known of `KINDS` and `OPTIONAL`."""
    return Snapshot(
        plugins,
        pods=_by_key(of(Pod)),
        claims=_by_key(of(PersistentVolumeClaim)),
        volumes=_by_key(of(PersistentVolume)),
        classes=_by_key(of(StorageClass)),
        nodes=_by_key(of(Node)),
        namespaces=_by_key(of(Namespace)),
        attachments=_by_key(of(VolumeAttachment)),
        drivers=_by_key(of(CSIDriver)),
        csi_nodes=_by_key(of(CSINode)),
        fences=_by_key(of(NodeFence)),
        events=_by_subject(of(Event)),
        stateful_sets=_by_key(of(StatefulSet)),
        deployments=_by_key(of(Deployment)),
        replica_sets=_by_key(of(ReplicaSet)),
        snapshots=_by_key(of(VolumeSnapshot)),
        snapshot_contents=_by_key(of(VolumeSnapshotContent)),
        snapshot_classes=_by_key(of(VolumeSnapshotClass)),
    )


def _by_key(objects: Iterable[T]) -> dict[str, T]:
    return {each.key: each for each in objects}


def _by_subject(events: Iterable[Event]) -> dict[str, tuple[Event, ...]]:
    found: dict[str, list[Event]] = {}
    for event in sorted(
        events, key=lambda each: each.last_timestamp or each.metadata.creation_timestamp or ""
    ):
        found.setdefault(event.involved_object.uid or event.involved_object.name, []).append(event)
    return {uid: tuple(found_events) for uid, found_events in found.items()}
