"""The objects of a cluster, read once. Nothing is written, and nothing is concluded here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from mooring.kube.client import Client, Listing
from mooring.kube.errors import NotFound
from mooring.kube.objects import (
    CSIDriver,
    CSINode,
    Event,
    Namespace,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from mooring.kube.objects.fencing import NodeFence
from mooring.volumes import claims
from mooring.volumes.attachability import Attachability
from mooring.volumes.errors import VolumeError
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.names import is_about
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

T = TypeVar("T", bound=Object)


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


async def read(client: Client, plugins: PluginManager) -> Snapshot:
    """Reads everything that an explanation may need, with concurrent lists. Raises `KubeError`."""
    list_of = client.list
    pods, pvcs, pvs, classes, namespaces = await asyncio.gather(
        list_of(Pod),
        list_of(PersistentVolumeClaim),
        list_of(PersistentVolume),
        list_of(StorageClass),
        list_of(Namespace),
    )
    nodes, records, drivers, csi_nodes, events = await asyncio.gather(
        list_of(Node), list_of(VolumeAttachment), list_of(CSIDriver), list_of(CSINode), list_of(Event)
    )
    return Snapshot(
        plugins,
        pods=_by_key(pods),
        claims=_by_key(pvcs),
        volumes=_by_key(pvs),
        classes=_by_key(classes),
        nodes=_by_key(nodes),
        namespaces=_by_key(namespaces),
        attachments=_by_key(records),
        drivers=_by_key(drivers),
        csi_nodes=_by_key(csi_nodes),
        fences=await _fences(client),
        events=_by_subject(events.items),
    )


async def _fences(client: Client) -> dict[str, NodeFence]:
    try:
        return _by_key(await client.list(NodeFence))
    except NotFound:
        return {}


def _by_key(listing: Listing[T]) -> dict[str, T]:
    return {each.key: each for each in listing.items}


def _by_subject(events: Iterable[Event]) -> dict[str, tuple[Event, ...]]:
    found: dict[str, list[Event]] = {}
    for event in sorted(
        events, key=lambda each: each.last_timestamp or each.metadata.creation_timestamp or ""
    ):
        found.setdefault(event.involved_object.uid or event.involved_object.name, []).append(event)
    return {uid: tuple(found_events) for uid, found_events in found.items()}
