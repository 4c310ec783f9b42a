"""Trims objects for the caches of the attach/detach controller: only the fields that it reads are kept. Pure.

With tens of thousands of volumes the caches are nearly all of its memory. Values that many objects have in
common, or that another cached object has already, are kept once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from sys import intern
from typing import TypeVar

from msgspec.structs import replace

from mooring.kube.objects import (
    Node,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    Pod,
    PodSpec,
    PodStatus,
    Volume,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from mooring.volumes.names import NODE_MACHINE, NODE_UID, PLUGIN

T = TypeVar("T")

NOTHING: dict[str, str] = {}


@lru_cache(maxsize=1024)
def _shared(value: T) -> T:
    """Returns the first of equal values. For values of which few different ones exist."""
    return value


@lru_cache(maxsize=16)
def _claim_status(phase: str) -> PersistentVolumeClaimStatus:
    return PersistentVolumeClaimStatus(phase=phase)


def _same(text: str, known: str) -> str:
    """Returns `known` if it is equal to `text`: one string in memory instead of two."""
    return known if known == text else text


def trimmed_pod(
    pod: Pod, volumes: Iterable[Volume], get_claim: Callable[[str], PersistentVolumeClaim | None]
) -> Pod:
    """Returns a pod with these of its volumes, its node and its phase."""

    def trimmed(volume: Volume) -> Volume:
        source = volume.persistent_volume_claim
        claim = get_claim(f"{pod.namespace}/{source.claim_name}") if source is not None else None
        if source is None or claim is None:
            return volume
        return Volume(
            name=_shared(volume.name), persistent_volume_claim=replace(source, claim_name=claim.name)
        )

    spec = PodSpec(node_name=intern(pod.spec.node_name), volumes=tuple(map(trimmed, volumes)))
    metadata = _metadata(pod.metadata, created=True)
    return Pod(metadata=metadata, spec=spec, status=_shared(PodStatus(phase=pod.status.phase)))


def trimmed_claim(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Returns a claim with its owners, its phase and the volume that it is bound to."""
    metadata = replace(_metadata(claim.metadata), owner_references=claim.metadata.owner_references)
    spec = PersistentVolumeClaimSpec(volume_name=_same(claim.spec.volume_name, claim.name))
    return PersistentVolumeClaim(metadata=metadata, spec=spec, status=_claim_status(claim.status.phase))


def trimmed_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> PersistentVolume:
    """Returns a PersistentVolume without its attributes, capacity and topology. `claim`: the
    one that it names."""
    csi, reference = volume.spec.csi, volume.spec.claim_ref
    if csi is not None:
        handle = _same(csi.volume_handle, volume.name)
        csi = replace(csi, driver=intern(csi.driver), volume_handle=handle, volume_attributes=NOTHING)
    if reference is not None:
        name = claim.name if claim is not None else reference.name
        uid = _same(reference.uid, claim.uid if claim is not None else "")
        reference = ObjectReference(namespace=intern(reference.namespace), name=name, uid=uid)
    modes = _shared(volume.spec.access_modes)
    spec = replace(
        volume.spec, csi=csi, claim_ref=reference, access_modes=modes, capacity=NOTHING, node_affinity=None
    )
    labels = (
        volume.metadata.labels if volume.spec.gce_persistent_disk is not None else NOTHING
    )  # a GCE disk's zone
    annotations = volume.metadata.annotations or NOTHING
    metadata = replace(_metadata(volume.metadata), annotations=annotations, labels=labels)
    return replace(volume, metadata=metadata, spec=spec, status=_shared(volume.status))


def trimmed_record(
    record: VolumeAttachment, node: Node | None, volume: PersistentVolume | None
) -> VolumeAttachment:
    """Returns a VolumeAttachment without labels and owners. `node` and `volume`: those that it names."""
    annotations = dict(record.metadata.annotations)
    if PLUGIN in annotations:
        annotations[PLUGIN] = intern(annotations[PLUGIN])
    if NODE_UID in annotations and node is not None:
        annotations[NODE_UID] = _same(annotations[NODE_UID], node.uid)
    if NODE_MACHINE in annotations:
        annotations[NODE_MACHINE] = intern(annotations[NODE_MACHINE])
    source = record.spec.source
    if volume is not None:
        source = VolumeAttachmentSource(persistent_volume_name=volume.name)
    spec = VolumeAttachmentSpec(
        attacher=intern(record.spec.attacher), node_name=intern(record.spec.node_name), source=source
    )
    finalizers = _shared(record.metadata.finalizers)
    metadata = replace(
        _metadata(record.metadata, created=True), annotations=annotations, finalizers=finalizers
    )
    status = replace(record.status, attachment_metadata=record.status.attachment_metadata or NOTHING)
    return replace(record, metadata=metadata, spec=spec, status=status)


def _metadata(of: ObjectMeta, *, created: bool = False) -> ObjectMeta:
    return ObjectMeta(
        name=of.name,
        namespace=intern(of.namespace),
        uid=of.uid,
        resource_version=of.resource_version,
        creation_timestamp=of.creation_timestamp if created else None,
        deletion_timestamp=of.deletion_timestamp,
        labels=NOTHING,
        annotations=NOTHING,
    )
