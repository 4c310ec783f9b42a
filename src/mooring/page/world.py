"""A cluster's objects as the API last showed them, indexed so that one change costs what it concerns.

`Known` is the snapshot on which `mooring why` explains, kept current instead of read once: the explanations
are the same functions, and so are their answers. `apply` returns what a change may concern, as references: a
kind by its short name ("node", "pv", "pvc", "pod", "ns", or "own": a volume that a pod defines) and a key.

Pure; it must not know of the API, of time, or of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

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
from mooring.page.events import Events, Ref
from mooring.page.indices import Index, node_of, unique_names, volumes_of
from mooring.page.known import Known
from mooring.page.node_changes import moved, standing
from mooring.page.own_volumes import own_volumes, split_own
from mooring.volumes.attachability import Attachability
from mooring.volumes.claims import claim_name, claims_of
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.names import CSI_PLUGIN, split_volume_name
from mooring.volumes.names import volume_attachment_name as record_name
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

KINDS: tuple[type[Object], ...] = (
    Node,
    Pod,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
    Event,
    StorageClass,
    CSIDriver,
    CSINode,
    Namespace,
    NodeFence,
)
"""What is read. Secrets are not."""


class World:
    """All objects by kind and key, and who belongs to whom."""

    def __init__(self, plugins: PluginManager) -> None:
        self._objects: dict[type[Any], dict[str, Any]] = {kind: {} for kind in KINDS}
        self.nodes: dict[str, Node] = self._objects[Node]
        self.pods: dict[str, Pod] = self._objects[Pod]
        self.volumes: dict[str, PersistentVolume] = self._objects[PersistentVolume]
        self.claims: dict[str, PersistentVolumeClaim] = self._objects[PersistentVolumeClaim]
        self.attachments: dict[str, VolumeAttachment] = self._objects[VolumeAttachment]
        self._events = Events()
        self.events: Mapping[str, tuple[Event, ...]] = self._events.held
        self.free = FreeVolumes()
        self.pods_by_claim, self._pods_by_node = Index(), Index()
        self._inline_users: dict[str, tuple[str, ...]] = {}
        self._users_of_inline, self._volumes_by_unique = Index(), Index()
        self._records_by_name, self._records_by_volume, self._records_by_node = Index(), Index(), Index()
        self._unique: dict[str, str] = {}
        self.known = Known(
            plugins,
            pods=self.pods,
            claims=self.claims,
            volumes=self.volumes,
            classes=self._objects[StorageClass],
            nodes=self.nodes,
            namespaces=self._objects[Namespace],
            attachments=self.attachments,
            drivers=self._objects[CSIDriver],
            csi_nodes=self._objects[CSINode],
            fences=self._objects[NodeFence],
            events=self.events,
        )
        object.__setattr__(self.known, "world", self)  # the snapshot's class is frozen

    @property
    def attachability(self) -> Attachability:
        """Which volumes are attached."""
        return self.known.attachability

    # --- looking

    def bound_to(self, node: str) -> list[Pod]:
        """The pods of a node, also those that have ended."""
        return [self.pods[key] for key in self._pods_by_node.of(node)]

    def records_on(self, node: str) -> list[VolumeAttachment]:
        """The VolumeAttachments of a node."""
        return [self.attachments[key] for key in self._records_by_node.of(node)]

    def records_of(self, pv: str) -> list[VolumeAttachment]:
        """The VolumeAttachments that name a PersistentVolume."""
        return [self.attachments[key] for key in self._records_by_volume.of(pv)]

    def unique_name(self, pv: str) -> str:
        """The unique name of a PersistentVolume that can be attached, else ""."""
        return self._unique.get(pv, "")

    def own_unique(self, key: str) -> str:
        """The unique name of a volume that a pod defines, if it can be attached, else ""."""
        pod_key, name = split_own(key)
        pod = self.pods.get(pod_key)
        volume = next((each for each in pod.spec.volumes if each.name == name), None) if pod else None
        return (self.attachability.name(VolumeSpec.of_volume(volume)) or "") if volume is not None else ""

    def volumes_on(self, node: str) -> Iterator[Ref]:
        """The volumes that have a VolumeAttachment for the node, and those that its pods define."""
        for record in self.records_on(node):
            yield from (("pv", pv) for pv in volumes_of(record))
        for pod in self.bound_to(node):
            yield from (("own", key) for key in own_volumes(pod))

    def own_attachable(self) -> Iterator[tuple[str, str]]:
        """Keys of the volumes that pods define and that can be attached, with their unique names."""
        for pod in self._inline_users:
            for key in own_volumes(self.pods[pod]):
                if unique := self.own_unique(key):
                    yield key, unique

    def called(self, unique: str) -> Iterable[str]:
        """The PersistentVolumes of a unique name."""
        return self._volumes_by_unique.of(unique)

    def may_use(self, unique: str) -> list[str]:
        """Keys of the pods that may use the volume of that unique name."""
        found = set(self._users_of_inline.of(unique))
        for pv in self._volumes_by_unique.of(unique):
            if (claim := self.claim_key(pv)) is not None:
                found.update(self.pods_by_claim.of(claim))
        return sorted(found)

    def may_be_about(self, unique: str) -> list[str]:
        """Names of the VolumeAttachments that may be about the volume of that unique name."""
        found = set(self._records_by_name.of(unique))
        for pv in self._volumes_by_unique.of(unique):
            found.update(self._records_by_volume.of(pv))
        plugin, volume = split_volume_name(unique)
        if plugin == CSI_PLUGIN:
            nodes = {self.pods[key].spec.node_name for key in self.may_use(unique)}
            names = (record_name(plugin, volume, node) for node in nodes if node)
            found.update(name for name in names if name in self.attachments)
        return sorted(found)

    def claim_key(self, pv: str) -> str | None:
        """The claim that a PersistentVolume names."""
        volume = self.volumes.get(pv)
        reference = volume.spec.claim_ref if volume is not None else None
        return f"{reference.namespace}/{reference.name}" if reference is not None else None

    # --- changing

    def apply(self, old: Object | None, new: Object | None) -> set[Ref]:
        """Replaces `old` with `new`, either of which may be None; returns what that may concern."""
        obj = new if new is not None else old
        if obj is None:
            return set()
        if isinstance(obj, Event):
            return self._events.apply(obj, gone=new is None)
        held: dict[str, Any] = self._objects[type(obj)]
        old = held.pop(obj.key, None) if new is None else held.get(obj.key)
        if new is not None:
            held[new.key] = new
        match obj:
            case Pod():
                return self._pod(obj.key, old, new)  # type: ignore[arg-type]
            case PersistentVolume():
                return self._volume(obj.key, old, new)  # type: ignore[arg-type]
            case PersistentVolumeClaim():
                return self._claim(obj, old)  # type: ignore[arg-type]
            case VolumeAttachment():
                return self._record(obj.key, old, new)  # type: ignore[arg-type]
            case Node():
                return self._node(obj.key, old, new)  # type: ignore[arg-type]
            case NodeFence():
                return {("node", obj.spec.node_name)}
            case Namespace():
                return {("ns", obj.key)}
            case _:
                return set()

    def _pod(self, key: str, old: Pod | None, new: Pod | None) -> set[Ref]:
        both = [pod for pod in (old, new) if pod is not None]
        self._pods_by_node.move(key, node_of(old), node_of(new))
        self.pods_by_claim.move(key, claims_of(old) if old else (), claims_of(new) if new else ())
        before = self._inline_users.pop(key, ())
        after = tuple(self._inline(new)) if new is not None else ()
        self._users_of_inline.move(key, before, after)
        if after:
            self._inline_users[key] = after
        refs: set[Ref] = {("pod", key)}
        for pod in both:
            refs.update(("node", node) for node in node_of(pod))
            refs.update(("own", volume) for volume in own_volumes(pod))
            for claim in claims_of(pod):
                refs.update(self._with_volume(claim))
        return refs

    def _inline(self, pod: Pod) -> Iterator[str]:
        for volume in pod.spec.volumes:
            if claim_name(pod, volume) is None:
                unique = self.attachability.name(VolumeSpec.of_volume(volume))
                if unique:
                    yield unique

    def _volume(self, key: str, old: PersistentVolume | None, new: PersistentVolume | None) -> set[Ref]:
        self.free.update(old, new)
        before = self._unique.pop(key, "")
        after = (self.attachability.name(VolumeSpec.of_persistent_volume(new)) or "") if new else ""
        self._volumes_by_unique.move(key, [before] * bool(before), [after] * bool(after))
        if after:
            self._unique[key] = after
        refs: set[Ref] = {("pv", key)}
        for pv in (old, new):
            reference = pv.spec.claim_ref if pv is not None else None
            if reference is not None:
                refs.update(self._with_pods(f"{reference.namespace}/{reference.name}"))
        return refs

    def _claim(self, claim: PersistentVolumeClaim, old: PersistentVolumeClaim | None) -> set[Ref]:
        refs = self._with_pods(claim.key)
        names = {each.spec.volume_name for each in (claim, old) if each is not None}
        return refs | {("pv", name) for name in names if name}

    def _record(self, key: str, old: VolumeAttachment | None, new: VolumeAttachment | None) -> set[Ref]:
        both = [record for record in (old, new) if record is not None]
        self._records_by_name.move(key, unique_names(old), unique_names(new))
        self._records_by_volume.move(key, volumes_of(old), volumes_of(new))
        self._records_by_node.move(
            key, [old.spec.node_name] if old else (), [new.spec.node_name] if new else ()
        )
        refs: set[Ref] = set()
        for record in both:
            refs.add(("node", record.spec.node_name))
            for pv in volumes_of(record):
                refs.add(("pv", pv))
                if (claim := self.claim_key(pv)) is not None:
                    refs.update(self._with_pods(claim))
            for unique in unique_names(record):
                refs.update(self._with_own(unique))
        return refs

    def _node(self, key: str, old: Node | None, new: Node | None) -> set[Ref]:
        refs: set[Ref] = {("node", key)}
        if standing(old) != standing(new):
            refs.update(("pod", each) for each in self._pods_by_node.of(key))
            for record in self.records_on(key):
                refs.update(("pv", pv) for pv in volumes_of(record))
        for unique in moved(old, new):
            refs.update(("pv", pv) for pv in self._volumes_by_unique.of(unique))
            refs.update(self._with_own(unique))
        return refs

    def _with_own(self, unique: str) -> set[Ref]:
        """The pods that define the volume of that unique name, and their volumes."""
        pods = [self.pods[key] for key in self._users_of_inline.of(unique)]
        return {
            *(("pod", pod.key) for pod in pods),
            *(("own", each) for pod in pods for each in own_volumes(pod)),
        }

    def _with_volume(self, claim: str) -> set[Ref]:
        held = self.claims.get(claim)
        name = held.spec.volume_name if held is not None else ""
        return {("pvc", claim), *([("pv", name)] if name else [])}

    def _with_pods(self, claim: str) -> set[Ref]:
        return {("pvc", claim), *(("pod", pod) for pod in self.pods_by_claim.of(claim))}
