"""The caches of the attach/detach controller keep what it decides by: an object is trimmed, and not changed.

What is kept is all that rules of attaching and detaching name (docs/protocol.md); memory is why the rest
goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mooring.controllers.attachdetach import index
from mooring.kube.objects import (
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Pod,
    Volume,
    VolumeAttachment,
)
from mooring.simulation.checks.second_opinions.question import Question


def pod(
    answer: Pod, whole: Pod, volumes: Iterable[Volume], get_claim: Callable[[str], object]
) -> Iterator[str]:
    """Who it is, since when, where it runs, whether it has ended, and those volumes that are attached."""
    kept, now = _of_pod(whole), _of_pod(answer)
    if kept != now or answer.spec.volumes != tuple(volumes) or _else(answer.metadata):
        yield f"Pod {whole.key}, {kept} with {volumes}, is cached as {answer}"


def _of_pod(pod: Pod) -> tuple[object, ...]:
    return *_identity(pod.metadata), pod.metadata.creation_timestamp, pod.spec.node_name, pod.status.phase


def claim(answer: PersistentVolumeClaim, whole: PersistentVolumeClaim) -> Iterator[str]:
    """Whose it is, and what it is bound to."""
    kept, now = _of_claim(whole), _of_claim(answer)
    if kept != now or _else(answer.metadata):
        yield f"PersistentVolumeClaim {whole.key}, {kept}, is cached as {answer}"


def _of_claim(claim: PersistentVolumeClaim) -> tuple[object, ...]:
    bound = (claim.spec.volume_name, claim.status.phase)
    return *_identity(claim.metadata), claim.metadata.owner_references, *bound


def volume(
    answer: PersistentVolume, whole: PersistentVolume, of: PersistentVolumeClaim | None
) -> Iterator[str]:
    """Its source, its claim, by whom it may be used, and its lock; of a GCE disk its zone."""
    kept, now = _of_volume(whole), _of_volume(answer)
    zoned = whole.spec.gce_persistent_disk is not None
    labels = whole.metadata.labels if zoned else {}
    if kept != now or answer.metadata.labels != labels or answer.spec.capacity or answer.metadata.finalizers:
        yield f"PersistentVolume {whole.name}, {kept}, is cached as {answer}"


def _of_volume(volume: PersistentVolume) -> tuple[object, ...]:
    spec, metadata = volume.spec, volume.metadata
    csi, claim = spec.csi, spec.claim_ref
    return (
        *_identity(metadata),
        metadata.annotations,
        volume.status.phase,
        (csi.driver, csi.volume_handle) if csi is not None else None,
        (claim.namespace, claim.name, claim.uid) if claim is not None else None,
        *(getattr(spec, name) for name in SOURCES),
    )


SOURCES = tuple(
    name
    for name in PersistentVolumeSpec.__struct_fields__
    if name not in ("capacity", "node_affinity", "csi", "claim_ref")
)


def record(
    answer: VolumeAttachment, whole: VolumeAttachment, node: Node | None, of: PersistentVolume | None
) -> Iterator[str]:
    """All but labels and owners: each annotation says something of its attachment."""
    kept, now = _of_record(whole), _of_record(answer)
    if kept != now or answer.metadata.labels or answer.metadata.owner_references:
        yield f"VolumeAttachment {whole.name}, {kept}, is cached as {answer}"


def _of_record(record: VolumeAttachment) -> tuple[object, ...]:
    metadata = record.metadata
    noted = (metadata.creation_timestamp, metadata.annotations, metadata.finalizers)
    return *_identity(metadata), *noted, record.spec, record.status


def _identity(metadata: ObjectMeta) -> tuple[object, ...]:
    ends = metadata.deletion_timestamp
    return metadata.name, metadata.namespace, metadata.uid, metadata.resource_version, ends


def _else(metadata: ObjectMeta) -> bool:
    return bool(metadata.labels or metadata.annotations or metadata.finalizers)


QUESTIONS = (
    Question(index, "trimmed_pod", pod),
    Question(index, "trimmed_claim", claim),
    Question(index, "trimmed_volume", volume),
    Question(index, "trimmed_record", record),
)
