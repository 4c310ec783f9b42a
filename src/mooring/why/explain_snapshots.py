"""Why a VolumeSnapshot is not ready, or is not gone: the snapshot controller's own decision about it."""

from __future__ import annotations

from mooring.controllers.snapshots.decide import Action, class_of, content_name, decide, restored_from
from mooring.kube.objects import PersistentVolumeClaim
from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotContent
from mooring.kube.reason import Reason
from mooring.volumes.errors import VolumeError
from mooring.volumes.spec import VolumeSpec
from mooring.why.cause import Cause, about, fine
from mooring.why.explain_claims import explain_claim
from mooring.why.snapshot import Snapshot

_STEPS = {
    "ClaimNotFound": "create the claim, or delete the snapshot",
    "SnapshotContentMissing": "what the storage kept is not known any more: delete the snapshot, and take another",
    "SnapshotContentMismatch": "name another VolumeSnapshotContent, or correct its spec.volumeSnapshotRef",
    "SnapshotCreationFailed": "it is tried again by itself, with growing pauses; mend what the storage says",
}
"""What a person can do, by the code of a reason."""
_SOON = "this lasts moments; if not, see whether the controller snapshots runs"


def explain_snapshot(snapshot: VolumeSnapshot, known: Snapshot) -> Cause:
    """Explains a VolumeSnapshot: its deletion, or what it waits for until it is ready to use."""
    content = known.snapshot_contents.get(content_name(snapshot))
    source = snapshot.spec.source.persistent_volume_claim_name
    claim = known.claims.get(f"{snapshot.namespace}/{source}") if source else None
    restored = [each.key for each in known.claims.values() if snapshot.key in restored_from(each)]
    decision = decide(snapshot, content, claim, restored)
    if snapshot.deleting:
        return _vanishing(snapshot, content, decision.reason)
    if snapshot.status.ready_to_use and decision.action is not Action.WAIT:
        of = f" of claim {snapshot.namespace}/{source}" if source else ""
        return fine(snapshot, f"snapshot {snapshot.key}{of} is ready to use", "Ready")
    if decision.action is Action.CREATE_CONTENT and claim is not None:
        return _not_begun(snapshot, claim, decision.reason, known)
    since = snapshot.metadata.creation_timestamp or ""
    if decision.action is Action.WAIT:
        error = content.status.error if content is not None else None
        since, step = (error.time if error else None) or since, _STEPS.get(decision.reason.code, "")
        cause = Cause(about(snapshot), decision.reason, since=since, next_step=step)
        return cause.because(explain_claim(claim, known) if claim is not None and content is None else None)
    driver = content.spec.driver if content is not None else ""
    return _at_the_storage(snapshot, driver, known)


def _not_begun(
    snapshot: VolumeSnapshot, claim: PersistentVolumeClaim, reason: Reason, known: Snapshot
) -> Cause:
    """Its claim is bound and it has no content yet: a class may be missing, or its driver."""
    since = snapshot.metadata.creation_timestamp or ""
    driver = _driver(claim, known)
    if isinstance(driver, Reason):
        return Cause(about(snapshot), driver, since=since)
    of_driver = [each for each in known.snapshot_classes.values() if each.driver == driver]
    if isinstance(found := class_of(snapshot, known.snapshot_classes.values(), driver), Reason):
        there = ", ".join(sorted(each.name for each in of_driver)) or "none"
        step = f"name a VolumeSnapshotClass of driver {driver}; there are: {there}"
        return Cause(about(snapshot), found, since=since, next_step=step)
    failed = known.warning(snapshot)
    if failed is not None:
        told = Reason(failed.reason, failed.message)
        return Cause(about(snapshot), told, since=failed.last_timestamp or "")
    return Cause(about(snapshot), reason, since=since, next_step=_SOON)


def _driver(claim: PersistentVolumeClaim, known: Snapshot) -> str | Reason:
    """The driver or plugin that would take the snapshot; or why none would."""
    volume = known.volumes.get(claim.spec.volume_name or "")
    if volume is None:
        return Reason("VolumeMissing", f"volume {claim.spec.volume_name} of claim {claim.key} does not exist")
    if volume.spec.csi is not None:
        return volume.spec.csi.driver
    try:
        spec = VolumeSpec.of_persistent_volume(volume)
        return known.plugins.find_snapshottable_plugin_by_spec(spec).get_plugin_name()
    except VolumeError as error:
        return Reason("SnapshotNotSupported", str(error))


def _at_the_storage(snapshot: VolumeSnapshot, driver: str, known: Snapshot) -> Cause:
    since = snapshot.metadata.creation_timestamp or ""
    message = f"snapshot {snapshot.key}: driver {driver} has not said yet that it is ready to use"
    cause = Cause(about(snapshot), Reason("TakingSnapshot", message), since=since)
    if driver and not known.knows_driver(driver):
        missing = Reason("DriverMissing", f"there is no plugin and no CSIDriver named {driver}")
        return cause.because(Cause(f"csidriver/{driver}", missing, next_step=f"install the driver {driver}"))
    failed = known.warning(snapshot)
    if failed is None:
        return cause
    told = Reason(failed.reason, failed.message)
    return cause.because(Cause(about(snapshot), told, since=failed.last_timestamp or ""))


def _vanishing(snapshot: VolumeSnapshot, content: VolumeSnapshotContent | None, reason: Reason) -> Cause:
    since = snapshot.metadata.deletion_timestamp or ""
    held = ", ".join(snapshot.metadata.finalizers) or "nothing"
    message = f"snapshot {snapshot.key} is being deleted, and held by {held}: {reason.message}"
    cause = Cause(about(snapshot), Reason("HeldByFinalizer", message), since=since)
    if content is None or content.status.error is None:
        return cause
    error = content.status.error
    told = Reason("DeletionFailed", error.message)
    return cause.because(
        Cause(about(content), told, since=error.time or "", next_step=_STEPS["SnapshotCreationFailed"])
    )
