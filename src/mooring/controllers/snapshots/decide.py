"""What to do about a VolumeSnapshot. Pure; the flow and the names are those of the CSI
community's controller.

A VolumeSnapshot is a request; a VolumeSnapshotContent is what the storage keeps. The content
is deleted before its snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from mooring.controllers.snapshots.content_decisions import (
    UNKNOWN_POLICY,
    class_secret,
    handle_of,
    has_nothing,
    unknown_policy,
)
from mooring.controllers.snapshots.names import (
    CONTENT_FINALIZER,
    DEFAULT_CLASS,
    DELETION_SECRET_NAME,
    DELETION_SECRET_NAMESPACE,
    SNAPSHOT_FINALIZER,
    SOURCE_FINALIZER,
)
from mooring.kube.decision import Decision
from mooring.kube.objects import PersistentVolumeClaim
from mooring.kube.objects.snapshots import (
    BEING_DELETED,
    GROUP,
    SnapshotError,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
    VolumeSnapshotStatus,
)
from mooring.kube.quantity import format_bytes
from mooring.kube.reason import Reason
from mooring.kube.times import format_time
from mooring.volumes.claims import waits_for_copy_of

STILL_RESTORED = "SnapshotDeletePending"
"""Upstream's reason for an event on a snapshot that is being deleted, and that a claim is being made of."""
TOLD_AT_THE_END = (STILL_RESTORED, UNKNOWN_POLICY)
"""Why a snapshot that is being deleted stays: what its user, or an administrator, has to do."""
FINALIZERS = frozenset({SNAPSHOT_FINALIZER, SOURCE_FINALIZER})


class Action(Enum):
    """The next step for a VolumeSnapshot."""

    CREATE_CONTENT = "CreateContent"  # store the finalizer, then create the content
    BIND = "Bind"  # store the finalizer, then write its uid on the content that it names
    COPY_STATUS = "CopyStatus"  # copy the content's status into the snapshot's
    DELETE_CONTENT = "DeleteContent"
    RELEASE = "Release"  # the storage keeps nothing: remove the finalizer
    WAIT = "Wait"
    SETTLED = "Settled"


def content_name(snapshot: VolumeSnapshot) -> str:
    """Returns the name of the snapshot's own content, or of the one that it names."""
    return snapshot.spec.source.volume_snapshot_content_name or f"snapcontent-{snapshot.uid}"


def class_of(
    snapshot: VolumeSnapshot, classes: Iterable[VolumeSnapshotClass], driver: str
) -> VolumeSnapshotClass | Reason:
    """Returns the class that the snapshot names, else the driver's default; or the reason
    why there is none."""
    wanted = snapshot.spec.volume_snapshot_class_name
    of_driver = [each for each in classes if each.driver == driver]
    if wanted:
        named = next((each for each in classes if each.name == wanted), None)
        if named is None:
            return Reason("SnapshotClassNotFound", f"VolumeSnapshotClass {wanted} does not exist: create it")
        if named.driver != driver:
            message = f"VolumeSnapshotClass {wanted} is of driver {named.driver}, the volume of {driver}"
            return Reason("SnapshotClassMismatch", message)
        return named
    defaults = [each for each in of_driver if each.metadata.annotations.get(DEFAULT_CLASS) == "true"]
    if len(defaults) == 1:
        return defaults[0]
    which = f"{len(defaults)} default classes" if defaults else "no default class"
    return Reason("NoSnapshotClass", f"driver {driver} has {which}: name one in volumeSnapshotClassName")


def is_being_taken(snapshot: VolumeSnapshot) -> bool:
    """Whether the claim that it is taken of has to stay: the storage has not all of it yet. Upstream:
    `isPVCBeingUsed`."""
    return not snapshot.status.ready_to_use


def was_told_of_content(snapshot: VolumeSnapshot) -> bool:
    """Whether it names its content, or says which one it has, or had."""
    return bool(
        snapshot.spec.source.volume_snapshot_content_name
        or snapshot.status.bound_volume_snapshot_content_name
    )


def restored_from(claim: PersistentVolumeClaim) -> list[str]:
    """Returns the key of the VolumeSnapshot that the claim's volume is being made of, or is to be: that stays
    until it is made. Upstream: `isVolumeBeingCreatedFromSnapshot`."""
    return waits_for_copy_of(claim, GROUP, "VolumeSnapshot")


def decide(
    snapshot: VolumeSnapshot,
    content: VolumeSnapshotContent | None,
    claim: PersistentVolumeClaim | None,
    restored: Collection[str] = (),
) -> Decision[Action]:
    """Returns what to do. `content` is the object of `content_name`; `claim` is the snapshot's source, if it
    names one; `restored` are the claims that are being made of it."""
    if snapshot.deleting:
        return _on_its_way_out(snapshot, content, restored)
    if content is None:
        return _without_content(snapshot, claim)
    if not belongs(content, snapshot):
        reference = content.spec.volume_snapshot_ref
        message = f"VolumeSnapshotContent {content.name} is of {reference.namespace}/{reference.name}"
        return Decision(Action.WAIT, Reason("SnapshotContentMismatch", message))
    if not content.spec.volume_snapshot_ref.uid:
        if content.deleting:  # with what the storage keeps: it waits for no VolumeSnapshot
            return Decision(
                Action.WAIT,
                Reason("SnapshotContentMissing", f"VolumeSnapshotContent {content.name} is being deleted"),
            )
        return Decision(
            Action.BIND, Reason("Binding", f"VolumeSnapshotContent {content.name} is not bound yet")
        )
    if snapshot.status != status_of(content, snapshot.status):
        return Decision(
            Action.COPY_STATUS,
            Reason("ContentChanged", "the snapshot does not say yet what its content says"),
        )
    if content.status.error is not None:
        return Decision(Action.WAIT, Reason("SnapshotCreationFailed", content.status.error.message))
    return Decision(Action.SETTLED, Reason("Told", "the snapshot says what its content says"))


def status_of(content: VolumeSnapshotContent, before: VolumeSnapshotStatus) -> VolumeSnapshotStatus:
    """Returns the status that a snapshot should have. The time of an error changes only with its message."""
    shown, error = content.status, content.status.error
    if error is not None and before.error is not None and error.message == before.error.message:
        error = before.error
    created = datetime.fromtimestamp(shown.creation_time // 10**9, UTC) if shown.creation_time else None
    return VolumeSnapshotStatus(
        bound_volume_snapshot_content_name=content.name,
        creation_time=format_time(created) if created else None,
        ready_to_use=shown.ready_to_use,
        restore_size=format_bytes(shown.restore_size) if shown.restore_size else None,
        error=SnapshotError(time=error.time, message=error.message) if error else None,
    )


def _without_content(snapshot: VolumeSnapshot, claim: PersistentVolumeClaim | None) -> Decision[Action]:
    source = snapshot.spec.source
    if source.volume_snapshot_content_name:
        message = f"VolumeSnapshotContent {source.volume_snapshot_content_name} does not exist: create it"
        return Decision(Action.WAIT, Reason("SnapshotContentMissing", message))
    if snapshot.status.bound_volume_snapshot_content_name:
        message = f"VolumeSnapshotContent {snapshot.status.bound_volume_snapshot_content_name} is gone"
        return Decision(Action.WAIT, Reason("SnapshotContentMissing", message))
    name = source.persistent_volume_claim_name
    if claim is None:
        return Decision(
            Action.WAIT, Reason("ClaimNotFound", f"claim {snapshot.namespace}/{name} does not exist")
        )
    if claim.status.phase != "Bound":
        return Decision(
            Action.WAIT, Reason("ClaimNotBound", f"claim {claim.key} is not bound to a volume yet")
        )
    return Decision(
        Action.CREATE_CONTENT,
        Reason("CreatingSnapshot", f"Waiting for a snapshot {snapshot.key} to be created."),
    )


def _on_its_way_out(
    snapshot: VolumeSnapshot, content: VolumeSnapshotContent | None, restored: Collection[str]
) -> Decision[Action]:
    if FINALIZERS.isdisjoint(snapshot.metadata.finalizers):
        return Decision(Action.SETTLED, Reason("Deleted", "the snapshot is being deleted"))
    if content is None or not belongs(content, snapshot):
        return Decision(Action.RELEASE, Reason("NothingLeft", "the storage keeps nothing for the snapshot"))
    if (unknown := unknown_policy(content)) is not None:
        return Decision(Action.WAIT, unknown)
    marked = BEING_DELETED in content.metadata.annotations
    if restored and not marked:
        message = (
            f"the snapshot stays until what is made of it has a volume: claim {', '.join(sorted(restored))}"
        )
        return Decision(Action.WAIT, Reason(STILL_RESTORED, message))
    if is_retained(content) and marked:
        if handle_of(content) is None:
            return Decision(
                Action.WAIT, Reason("NotAnswered", "the storage may have taken what it is to keep")
            )
        return Decision(Action.RELEASE, Reason("Retained", "the storage is to keep the snapshot"))
    if marked and content.deleting:
        return Decision(Action.WAIT, Reason("Deleting", "the storage deletes the snapshot first"))
    return Decision(Action.DELETE_CONTENT, Reason("Deleting", "the storage deletes the snapshot first"))


def is_retained(content: VolumeSnapshotContent) -> bool:
    """Whether it stays when its VolumeSnapshot goes, with what the storage keeps, or may have taken: of
    nothing, nothing is kept."""
    return content.spec.deletion_policy == "Retain" and not has_nothing(content)


def belongs(content: VolumeSnapshotContent, snapshot: VolumeSnapshot) -> bool:
    """Whether the content is of this very snapshot, or is to be bound to it."""
    reference = content.spec.volume_snapshot_ref
    named = (reference.namespace, reference.name) == (snapshot.namespace, snapshot.name)
    return named and reference.uid in ("", snapshot.uid)


def content_body(
    snapshot: VolumeSnapshot, of_class: VolumeSnapshotClass, volume_handle: str, mode: str
) -> dict[str, Any]:
    """Returns the content object of a snapshot that is to be taken. What its deletion needs is written on it,
    because the class may be gone by then."""
    name = content_name(snapshot)
    secret = class_secret(of_class.parameters, name, snapshot.namespace, snapshot.name)
    annotations = (
        {DELETION_SECRET_NAME: secret.name, DELETION_SECRET_NAMESPACE: secret.namespace} if secret else {}
    )
    return {
        "metadata": {"name": name, "finalizers": [CONTENT_FINALIZER], "annotations": annotations},
        "spec": {
            "deletionPolicy": of_class.deletion_policy,
            "driver": of_class.driver,
            "source": {"volumeHandle": volume_handle},
            "sourceVolumeMode": mode,
            "volumeSnapshotClassName": of_class.name,
            "volumeSnapshotRef": {
                "apiVersion": snapshot.RESOURCE.api_version,
                "kind": snapshot.RESOURCE.kind,
                "namespace": snapshot.namespace,
                "name": snapshot.name,
                "uid": snapshot.uid,
            },
        },
    }
