"""What is decided about VolumeSnapshots, between users and what the storage keeps.

Source: the CSI community's external-snapshotter, its common controller: `syncSnapshot`,
`processSnapshotWithDeletionTimestamp`, `updateSnapshotStatus`, `SetDefaultSnapshotClass`, `isPVCBeingUsed`,
`isVolumeBeingCreatedFromSnapshot`; and its names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from mooring.controllers.snapshots import controller
from mooring.controllers.snapshots.decide import Action
from mooring.kube.decision import Decision
from mooring.kube.objects import PersistentVolumeClaim
from mooring.kube.objects.snapshots import (
    GROUP,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
    VolumeSnapshotStatus,
)
from mooring.kube.quantity import parse_bytes
from mooring.kube.reason import Reason
from mooring.simulation.checks.second_opinions import near_snapshots
from mooring.simulation.checks.second_opinions.question import Question

NAMES = "snapshot.storage.kubernetes.io/"
HELD = {f"{NAMES}volumesnapshot-bound-protection", f"{NAMES}volumesnapshot-as-source-protection"}
GOES, DEFAULT = f"{NAMES}volumesnapshot-being-deleted", f"{NAMES}is-default-class"
OF_CONTENT = f"{NAMES}volumesnapshotcontent-bound-protection"
UNANSWERED = f"{NAMES}volumesnapshot-being-created"


def is_its(content: VolumeSnapshotContent | None, snapshot: VolumeSnapshot) -> bool:
    """Whether the content is of the snapshot, or may be: a user who wrote it does not know the uid."""
    if content is None:
        return False
    named = content.spec.volume_snapshot_ref
    known = not named.uid or named.uid == snapshot.uid
    return known and f"{named.namespace}/{named.name}" == snapshot.key


def handle_in(content: VolumeSnapshotContent) -> str | None:
    """What the storage calls the snapshot, as far as the content says."""
    known = (content.status.snapshot_handle, content.spec.source.snapshot_handle)
    return next(filter(None, known), None)


def of_step(
    answer: Decision[Action],
    snapshot: VolumeSnapshot,
    content: VolumeSnapshotContent | None,
    claim: PersistentVolumeClaim | None,
    restored: Collection[str] = (),
) -> Iterator[str]:
    """What is asked for is made once, bound, and told of; what is deleted goes after its content."""
    if snapshot.deleting:
        expected = _of_the_end(snapshot, content, restored)
    elif content is None:
        expected = _of_the_beginning(snapshot, claim)
    else:
        expected = _of_its_content(snapshot, content)
    if answer.action is not expected:
        yield f"VolumeSnapshot {snapshot.key}: {answer.action.value}, and not {expected.value}"


def _of_the_end(
    snapshot: VolumeSnapshot, content: VolumeSnapshotContent | None, restored: Collection[str]
) -> Action:
    """Its content is marked first, for which no claim may be waiting; then it goes, unless the storage is to
    keep it; then the snapshot does."""
    if HELD.isdisjoint(snapshot.metadata.finalizers):
        return Action.SETTLED
    if content is None or not is_its(content, snapshot):
        return Action.RELEASE
    if GOES not in content.metadata.annotations:
        return Action.WAIT if restored else Action.DELETE_CONTENT
    if content.spec.deletion_policy == "Retain":
        if handle_in(content):
            return Action.RELEASE
        if UNANSWERED in content.metadata.annotations:
            return Action.WAIT
    return Action.WAIT if content.deleting else Action.DELETE_CONTENT


def _of_the_beginning(snapshot: VolumeSnapshot, claim: PersistentVolumeClaim | None) -> Action:
    """A content is made for it once, of a claim that has a volume. One that a user is to write, and one that
    has gone, are not made."""
    had_one = snapshot.spec.source.volume_snapshot_content_name or (
        snapshot.status.bound_volume_snapshot_content_name
    )
    bound = claim is not None and claim.status.phase == "Bound"
    return Action.CREATE_CONTENT if bound and not had_one else Action.WAIT


def _of_its_content(snapshot: VolumeSnapshot, content: VolumeSnapshotContent) -> Action:
    if not is_its(content, snapshot):
        return Action.WAIT
    if not content.spec.volume_snapshot_ref.uid:  # bound to none, it goes without waiting
        return Action.WAIT if content.deleting else Action.BIND
    if [*_untold(snapshot.status, content, snapshot.status)]:
        return Action.COPY_STATUS
    return Action.WAIT if content.status.error is not None else Action.SETTLED


def _untold(
    told: VolumeSnapshotStatus, content: VolumeSnapshotContent, before: VolumeSnapshotStatus
) -> Iterator[str]:
    """What of its content a snapshot does not say, or says otherwise. An error that stays has the time at
    which it was told first."""
    says, error, known = content.status, content.status.error, before.error
    seconds = (says.creation_time or 0) // 10**9
    if told.bound_volume_snapshot_content_name != content.name:
        yield "the name"
    if told.ready_to_use != says.ready_to_use:
        yield "whether it is ready"
    if (int(datetime.fromisoformat(told.creation_time).timestamp()) if told.creation_time else 0) != seconds:
        yield "when it was taken"
    if (parse_bytes(told.restore_size) if told.restore_size else 0) != (says.restore_size or 0):
        yield "the size"
    if (told.error.message if told.error else None) != (error.message if error else None):
        yield "the error"
    elif error is not None and told.error is not None:
        stays = known is not None and known.message == error.message
        if told.error.time != (known.time if stays and known is not None else error.time):
            yield "since when it has failed"


def of_status(
    answer: VolumeSnapshotStatus, content: VolumeSnapshotContent, before: VolumeSnapshotStatus
) -> Iterator[str]:
    for what in _untold(answer, content, before):
        yield f"of VolumeSnapshotContent {content.name} {what} is not told"


def of_name(answer: str, snapshot: VolumeSnapshot) -> Iterator[str]:
    """The content that it names; else there is one name for one snapshot, so that it never gets two."""
    if answer != (snapshot.spec.source.volume_snapshot_content_name or f"snapcontent-{snapshot.uid}"):
        yield f"the content of VolumeSnapshot {snapshot.key} is {answer}"


def of_class(
    answer: VolumeSnapshotClass | Reason,
    snapshot: VolumeSnapshot,
    classes: Iterable[VolumeSnapshotClass],
    driver: str,
) -> Iterator[str]:
    """That of its name, or the one that is its driver's default; one of another driver takes nothing."""
    name = snapshot.spec.volume_snapshot_class_name
    fitting = [
        each
        for each in classes
        if each.driver == driver
        if (each.name == name if name else each.metadata.annotations.get(DEFAULT) == "true")
    ]
    expected = fitting[0] if len(fitting) == 1 else None
    if (answer if isinstance(answer, VolumeSnapshotClass) else None) != expected:
        yield f"VolumeSnapshot {snapshot.key} of driver {driver} gets class {answer}, and not {expected}"


def of_body(
    answer: dict[str, Any], snapshot: VolumeSnapshot, of_class: VolumeSnapshotClass, volume: str, mode: str
) -> Iterator[str]:
    """It is the snapshot's from the beginning, of that volume, goes as its class says, and is held."""
    metadata, spec = answer["metadata"], answer["spec"]
    named: Mapping[str, str] = spec["volumeSnapshotRef"]
    found = {
        "name": (metadata["name"], f"snapcontent-{snapshot.uid}"),
        "finalizers": (metadata["finalizers"], [OF_CONTENT]),
        "snapshot": (
            (named["namespace"], named["name"], named["uid"]),
            (*snapshot.key.split("/"), snapshot.uid),
        ),
        "source": (spec["source"], {"volumeHandle": volume}),
        "mode": (spec["sourceVolumeMode"], mode),
        "policy": (spec["deletionPolicy"], of_class.deletion_policy),
        "class": ((spec["volumeSnapshotClassName"], spec["driver"]), (of_class.name, of_class.driver)),
    }
    for what, (given, expected) in found.items():
        if given != expected:
            yield f"the {what} of the content of {snapshot.key} is {given}, and not {expected}"


def of_being_taken(answer: bool, snapshot: VolumeSnapshot) -> Iterator[str]:
    """The claim stays until the snapshot is ready."""
    if answer == snapshot.status.ready_to_use:
        yield f"VolumeSnapshot {snapshot.key} is being taken: {answer}"


def of_restored(answer: Sequence[str], claim: PersistentVolumeClaim) -> Iterator[str]:
    """A snapshot stays while a claim of its namespace is Pending whose source it is."""
    source = claim.spec.data_source_ref or claim.spec.data_source or {}
    is_snapshot = source.get("kind") == "VolumeSnapshot" and source.get("apiGroup") == GROUP
    pending = claim.status.phase not in ("Bound", "Lost")
    expected = [f"{claim.namespace}/{source['name']}"] if is_snapshot and pending else []
    if [*answer] != expected:
        yield f"claim {claim.key} is made of {answer}, and not of {expected}"


QUESTIONS = (
    Question(controller, "decide", of_step, near=near_snapshots.OF_STEP),
    Question(controller, "status_of", of_status, near=near_snapshots.OF_STATUS),
    Question(controller, "content_name", of_name, near=near_snapshots.OF_NAME),
    Question(controller, "class_of", of_class, near=near_snapshots.OF_CLASS),
    Question(controller, "content_body", of_body),
    Question(controller, "is_being_taken", of_being_taken, near=near_snapshots.OF_NAME),
    Question(controller, "restored_from", of_restored, near=near_snapshots.OF_RESTORED),
)
