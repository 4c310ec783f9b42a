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
    metadata, is_same = answer.metadata, _is_same(answer.metadata, whole.metadata)
    created = metadata.creation_timestamp == whole.metadata.creation_timestamp
    placed = answer.spec.node_name == whole.spec.node_name and answer.status.phase == whole.status.phase
    if not (is_same and created and placed) or answer.spec.volumes != tuple(volumes) or _else(metadata):
        yield f"Pod {whole.key} with {volumes}, of {whole.spec.node_name}, is cached as {answer}"


def claim(answer: PersistentVolumeClaim, whole: PersistentVolumeClaim) -> Iterator[str]:
    """Whose it is, and what it is bound to."""
    bound = answer.spec.volume_name == whole.spec.volume_name and answer.status.phase == whole.status.phase
    owned = answer.metadata.owner_references == whole.metadata.owner_references
    if not (bound and owned and _is_same(answer.metadata, whole.metadata)) or _else(answer.metadata):
        yield f"PersistentVolumeClaim {whole.key} of {whole.spec.volume_name} is cached as {answer}"


def volume(
    answer: PersistentVolume, whole: PersistentVolume, of: PersistentVolumeClaim | None
) -> Iterator[str]:
    """Its source, its claim, by whom it may be used, and its lock; of a GCE disk its zone."""
    zoned = whole.spec.gce_persistent_disk is not None
    labels = whole.metadata.labels if zoned else {}
    is_same = _is_same(answer.metadata, whole.metadata) and _of_volume(answer) == _of_volume(whole)
    if not is_same or answer.metadata.labels != labels or answer.spec.capacity or answer.metadata.finalizers:
        yield f"PersistentVolume {whole.name}, {_of_volume(whole)}, is cached as {answer}"


def _of_volume(volume: PersistentVolume) -> tuple[object, ...]:
    spec, metadata = volume.spec, volume.metadata
    csi, claim = spec.csi, spec.claim_ref
    return (
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
    before, now = whole.metadata, answer.metadata
    noted = (before.creation_timestamp, before.annotations, before.finalizers)
    is_same = _is_same(now, before) and answer.spec == whole.spec and answer.status == whole.status
    if not is_same or noted != (now.creation_timestamp, now.annotations, now.finalizers):
        yield f"VolumeAttachment {whole.name}, {noted}, {whole.status}, is cached as {answer}"
    if now.labels or now.owner_references:
        yield f"VolumeAttachment {whole.name} is cached with labels or owners"


def _is_same(one: ObjectMeta, other: ObjectMeta) -> bool:
    """Name, uid, version, and whether it is being deleted."""
    named = one.name == other.name and one.namespace == other.namespace and one.uid == other.uid
    version = one.resource_version == other.resource_version
    return named and version and one.deletion_timestamp == other.deletion_timestamp


def _else(metadata: ObjectMeta) -> bool:
    return bool(metadata.labels or metadata.annotations or metadata.finalizers)


QUESTIONS = (
    Question(index, "trimmed_pod", pod),
    Question(index, "trimmed_claim", claim),
    Question(index, "trimmed_volume", volume),
    Question(index, "trimmed_record", record),
)
