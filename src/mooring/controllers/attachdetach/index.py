"""From objects to volumes and back: which volumes a change touches, which pods use a volume, what defines it.

Reads the controller's caches, and keeps nothing itself but the names of adopted VolumeAttachments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mooring.controllers.attachdetach.adoption import Adoption
from mooring.controllers.attachdetach.trimming import (
    trimmed_claim,
    trimmed_pod,
    trimmed_record,
    trimmed_volume,
)
from mooring.kube.controller import Controller
from mooring.kube.informer import Informer
from mooring.kube.objects import (
    CSIDriver,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Volume,
    VolumeAttachment,
)
from mooring.volumes import claims
from mooring.volumes.attachability import Attachability, driver_of
from mooring.volumes.errors import VolumeError
from mooring.volumes.names import AWAITED, CONTROLLER_MANAGED, RECONSTRUCTED, volume_of
from mooring.volumes.out_of_service import SEEN, spent
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec
from mooring.volumes.statements import last_report


class VolumeIndex:
    """The caches of the attach/detach controller. A change marks the unique names of the
    volumes that it touches."""

    def __init__(self, controller: Controller[Any], plugins: PluginManager, **options: object) -> None:
        watch = controller.watch
        self.drivers: Informer[CSIDriver] = watch(CSIDriver, self._of_driver, matters=_of_driver_matters)
        self.attachability = Attachability(plugins, self.drivers.get, **options)  # type: ignore[arg-type]
        self.pods = watch(
            Pod,
            self.of_pod,
            matters=_of_pod_matters,
            indexers={"use": self._uses_of_pod, "node": lambda pod: [pod.spec.node_name]},
            keep=self._trimmed_pod,
        )
        self.claims = watch(PersistentVolumeClaim, self._of_claim, keep=trimmed_claim)
        self.persistent_volumes = watch(
            PersistentVolume,
            self._of_persistent_volume,
            keep=self._trimmed_volume,
            indexers={"volume": self._names_of, "driver": lambda pv: map(driver_of, self._names_of(pv))},
        )
        self.nodes = watch(Node, self._of_node, matters=_of_node_matters, differ=_differing)
        self.adoption = Adoption(self.attachability, self.persistent_volumes.get, self.nodes.get)
        self.records = watch(
            VolumeAttachment,
            self._of_record,
            matters=_of_record_matters,
            keep=self._trimmed_record,
            indexers={
                "node": lambda record: [record.spec.node_name],
                "volume": lambda record: [volume_of(record)],
                "source": lambda record: filter(None, [record.spec.source.persistent_volume_name]),
            },
        )
        self.records.add_handler(lambda old, new: self.adoption.forget(old) if old and new is None else None)

    def _trimmed_pod(self, pod: Pod) -> Pod:
        volumes = [volume for volume in pod.spec.volumes if self._use_of_pod(pod, volume)]
        return trimmed_pod(pod, volumes, self.claims.get)

    def _trimmed_volume(self, volume: PersistentVolume) -> PersistentVolume:
        reference = volume.spec.claim_ref
        claim = self.claims.get(f"{reference.namespace}/{reference.name}") if reference is not None else None
        return trimmed_volume(volume, claim)

    def _trimmed_record(self, record: VolumeAttachment) -> VolumeAttachment:
        source = record.spec.source.persistent_volume_name
        volume = self.persistent_volumes.get(source) if source else None
        return trimmed_record(record, self.nodes.get(record.spec.node_name), volume)

    # --- from changes to volumes

    def _spec(self, pod: Pod, volume: Volume) -> VolumeSpec | None:
        try:
            return claims.volume_spec(
                pod, volume, lambda ns, name: self.claims.get(f"{ns}/{name}"), self.persistent_volumes.get
            )
        except VolumeError:
            return None  # its claim is not bound yet: the change of the claim marks the volume

    def _uses_of_pod(self, pod: Pod) -> Iterator[str]:
        """Yields the index keys of a pod's volumes: a claim's key, or the unique name of a
        volume that the pod defines."""
        for volume in pod.spec.volumes:
            if name := self._use_of_pod(pod, volume):
                yield name

    def _use_of_pod(self, pod: Pod, volume: Volume) -> str | None:
        claim = claims.claim_name(pod, volume)
        return f"{pod.namespace}/{claim}" if claim else self.attachability.name(VolumeSpec.of_volume(volume))

    def of_pod(self, pod: Pod) -> Iterator[str]:
        """Yields the unique names of the attachable volumes of a pod that has a node."""
        for volume in pod.spec.volumes if pod.spec.node_name else ():
            spec = self._spec(pod, volume)
            name = self.attachability.name(spec) if spec else None
            if name:
                yield name

    def _of_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        bound = self.persistent_volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        return self._names_of(bound) if bound else ()

    def _names_of(self, persistent_volume: PersistentVolume) -> list[str]:
        name = self.attachability.name(VolumeSpec.of_persistent_volume(persistent_volume))
        return [name] if name else []

    def _of_persistent_volume(self, persistent_volume: PersistentVolume) -> Iterator[str]:
        yield from self._names_of(persistent_volume)
        for record in self.records.by_index("source", persistent_volume.name):
            yield from self._of_record(record)

    def _of_driver(self, driver: CSIDriver) -> Iterator[str]:
        for persistent_volume in self.persistent_volumes.by_index("driver", driver.name):
            yield from self._names_of(persistent_volume)

    def _of_record(self, record: VolumeAttachment) -> list[str]:
        name = self.adoption.volume(record)
        return [name] if name else []

    def _of_node(self, node: Node) -> Iterator[str]:
        for record in self.records.by_index("node", node.name):
            yield from self._of_record(record)
        for pod in self.pods.by_index("node", node.name):
            yield from self.of_pod(pod)

    # --- from volumes to objects

    def records_of(self, volume: str) -> list[VolumeAttachment]:
        """Returns all VolumeAttachments of the volume: this controller's, and adopted ones."""
        adopted = (self.records.get(name) for name in self.adoption.names(volume))
        return [*self.records.by_index("volume", volume), *(each for each in adopted if each is not None)]

    def persistent_volume_of(self, volume: str) -> PersistentVolume | None:
        """Returns the PersistentVolume that defines the volume: of several for one disk, the bound one. One
        that was released names its former claim still; it comes after that, as nothing uses it."""

        def rank(each: PersistentVolume) -> tuple[bool, bool]:
            return each.status.phase != "Bound", each.spec.claim_ref is None

        return min(self.persistent_volumes.by_index("volume", volume), key=rank, default=None)

    def spec_of(self, volume: str) -> VolumeSpec | None:
        """Returns the definition of the volume: in its PersistentVolume, else in a pod."""
        persistent_volume = self.persistent_volume_of(volume)
        if persistent_volume is not None:
            return VolumeSpec.of_persistent_volume(persistent_volume)
        for pod in self.pods.by_index("use", volume):
            inline = (VolumeSpec.of_volume(each) for each in pod.spec.volumes)
            return next(spec for spec in inline if self.attachability.name(spec) == volume)
        return None

    def users(self, volume: str) -> Iterator[Pod]:
        """Yields the pods that use the volume through a claim bound to it, or define it themselves; none if
        the volume needs no attach."""
        if not self.attachability.attach_required(volume):
            return
        for persistent_volume in self.persistent_volumes.by_index("volume", volume):
            reference = persistent_volume.spec.claim_ref
            if reference is not None:
                users = self.pods.by_index("use", f"{reference.namespace}/{reference.name}")
                yield from (pod for pod in users if volume in set(self.of_pod(pod)))
        yield from self.pods.by_index("use", volume)


def _of_driver_matters(driver: CSIDriver) -> tuple[object, ...]:
    """The part of a CSIDriver that a decision may depend on."""
    return driver.spec, driver.metadata.annotations


def _of_pod_matters(pod: Pod) -> tuple[object, ...]:
    """The part of a Pod that a decision may depend on."""
    return pod.uid, pod.spec.node_name, pod.finished, pod.deleting, pod.spec.volumes


def _of_record_matters(record: VolumeAttachment) -> tuple[object, ...]:
    """The part of a VolumeAttachment that a decision may depend on: not its finalizers."""
    return record.uid, record.deleting, record.metadata.annotations, record.status


def _of_node_matters(node: Node) -> tuple[object, ...]:
    """The part of a Node that a decision may depend on; a heartbeat changes none of it."""
    return *_of_all_its_volumes(node), node.status.volumes_attached, node.status.volumes_in_use


def _of_all_its_volumes(node: Node) -> tuple[object, ...]:
    """The part of a Node that the decisions about all its volumes may depend on."""
    annotations = node.metadata.annotations
    silent = node.ready == "Unknown"
    return (
        node.uid,
        node.ready,
        node.spec.taints,
        spent(node),
        annotations.get(CONTROLLER_MANAGED),
        annotations.get(RECONSTRUCTED),
        annotations.get(SEEN),
        annotations.get(AWAITED),
        node.status.node_info.boot_id,
        last_report(node) if silent else "",
    )


def _differing(old: Node, new: Node) -> list[str] | None:
    """Returns, sorted, the volumes that were added to or removed from a Node's lists; None if something has
    changed that concerns all its volumes."""
    if _of_all_its_volumes(old) != _of_all_its_volumes(new):
        return None
    attached = set(old.status.volumes_attached) ^ set(new.status.volumes_attached)
    in_use = set(old.status.volumes_in_use) ^ set(new.status.volumes_in_use)
    return sorted(in_use.union(entry.name for entry in attached))
