"""What must hold in the end of snapshots and of what is copied (L24): what users ask for is there and can be
used, what they have deleted is gone, the storage has nothing that nothing names, and no claim is held for a
copy that is not being made.

Read from what the store holds and what the storage has, as the trace tells it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotContent
from mooring.simulation.checks.invariants.kept_objects import (
    KeptObjects,
    claim_of,
    copied_from,
    handle_of,
    restored_from,
)
from mooring.simulation.checks.invariants.objects import StoredObject
from mooring.simulation.checks.liveness import Complaint
from mooring.simulation.cluster.cluster import SimulatedCluster

SOURCE = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
CLONED = "provisioner.storage.kubernetes.io/cloning-protection"


async def complaints(cluster: SimulatedCluster) -> AsyncIterator[Complaint]:
    """Yields what is not so."""
    for what in left(KeptObjects.of(cluster.trace)):
        yield "L24", what


def left(objects: KeptObjects) -> Iterator[str]:
    """All that is wrong."""
    for snapshot in objects.snapshots.values():
        yield from _of_snapshot(snapshot, objects)
    for content in objects.contents.values():
        yield from _of_content(content, objects)
    named = {handle_of(each) for each in objects.contents.values()}
    if leaked := sorted(objects.alive - named - objects.retained - objects.late):
        yield f"snapshots that no VolumeSnapshotContent names: {', '.join(leaked)}"
    yield from _of_claims(objects)


def _of_snapshot(snapshot: VolumeSnapshot, objects: KeptObjects) -> Iterator[str]:
    """One that is being deleted stays only as long as a claim waits to be made of it. One that is not ready
    has had no claim that it could be taken of, or that went just when its content was made."""
    content = next(objects.contents_of(snapshot.uid), None)
    if snapshot.deleting:
        if not any(snapshot.key == restored_from(claim, key) for key, claim in _pending(objects)):
            yield f"VolumeSnapshot {snapshot.name} is still being deleted"
    elif not snapshot.status.ready_to_use:
        claim = objects.claims.get(claim_of(snapshot))
        if content is None:
            if claim is not None and not claim.going and claim.status.phase == "Bound":
                yield f"VolumeSnapshot {snapshot.name} of claim {claim.metadata.name} has no content"
        elif content.spec.source.snapshot_handle in objects.alive and not content.deleting:
            yield f"VolumeSnapshot {snapshot.name} has what the storage keeps, and is not ready ({_error(content)})"
        elif not _has_lost_its_disk(content, objects):
            yield f"VolumeSnapshot {snapshot.name} is not ready ({_error(content)})"


def _pending(objects: KeptObjects) -> Iterator[tuple[str, StoredObject]]:
    """Claims of which a copy may still be made, with their keys."""
    return (each for each in objects.claims.items() if each[1].status.phase in ("", "Pending"))


def _has_lost_its_disk(content: VolumeSnapshotContent, objects: KeptObjects) -> bool:
    unheld = content.spec.volume_snapshot_ref.uid in objects.unheld
    return unheld and objects.source_of(content) not in objects.disks


def _error(content: VolumeSnapshotContent) -> str:
    error = content.status.error
    return error.message if error is not None else "no error"


def _of_content(content: VolumeSnapshotContent, objects: KeptObjects) -> Iterator[str]:
    """It goes with its VolumeSnapshot, unless the policy keeps it; and it names what is there."""
    uid, handle = content.spec.volume_snapshot_ref.uid, handle_of(content)
    if (
        uid
        and uid not in objects.snapshots
        and (content.deleting or content.spec.deletion_policy == "Delete")
    ):
        yield f"VolumeSnapshotContent {content.name} is left, and its VolumeSnapshot is gone"
    elif handle and handle not in objects.alive:
        yield f"VolumeSnapshotContent {content.name} names {handle}, which the storage does not have"


def _of_claims(objects: KeptObjects) -> Iterator[str]:
    """Nothing holds a claim of which nothing is being made."""
    taken = {claim_of(each) for each in objects.snapshots.values() if not each.status.ready_to_use}
    copied = {copied_from(claim, key) for key, claim in _pending(objects)}
    for key, claim in objects.claims.items():
        for finalizer, needed in ((SOURCE, taken), (CLONED, copied)):
            if finalizer in claim.metadata.finalizers and key not in needed:
                yield f"claim {claim.metadata.name} is still held by {finalizer}"
