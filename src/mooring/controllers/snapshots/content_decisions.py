"""What to do about a VolumeSnapshotContent. Pure.

No snapshot is left behind in the storage: before the storage is asked for a snapshot, that is stored on the
content. As long as the storage has not answered, a content that is being deleted asks again under the same
name, and deletes what it gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from mooring.controllers.snapshots.names import (
    BEING_CREATED,
    CONTENT_FINALIZER,
    DELETION_SECRET_NAME,
    DELETION_SECRET_NAMESPACE,
)
from mooring.kube.decision import Decision
from mooring.kube.objects import SecretReference
from mooring.kube.objects.snapshots import BEING_DELETED, VolumeSnapshotContent
from mooring.kube.reason import Reason
from mooring.volumes.errors import InvalidSpec, NotAsked, StorageRefused
from mooring.volumes.secrets import PREFIX, secret_reference

UNKNOWN_POLICY = "SnapshotUnknownDeletionPolicy"


class Action(Enum):
    """The next step for a VolumeSnapshotContent."""

    HOLD = "Hold"  # store the finalizer: what the storage keeps goes before its content
    TAKE = "Take"  # ask the storage for the snapshot, or whether it can be used
    DELETE = "Delete"  # the storage's snapshot, then the finalizer
    RELEASE = "Release"  # remove the finalizer
    ANSWERED = "Answered"  # remove the mark of an unanswered request
    WAIT = "Wait"
    SETTLED = "Settled"


def decide(content: VolumeSnapshotContent) -> Decision[Action]:
    """The next step, and why."""
    if content.deleting:
        return _on_its_way_out(content)
    if CONTENT_FINALIZER not in content.metadata.finalizers:
        return Decision(Action.HOLD, Reason("NotHeld", "the content would go before what the storage keeps"))
    if BEING_DELETED in content.metadata.annotations and has_nothing(content):
        return Decision(Action.SETTLED, Reason("NotTaken", "its VolumeSnapshot is deleted: none is taken"))
    if not content.status.ready_to_use:
        return Decision(Action.TAKE, Reason("Creating", "the snapshot is being taken, or is not ready"))
    if BEING_CREATED in content.metadata.annotations:
        return Decision(Action.ANSWERED, Reason("Answered", "the storage has answered"))
    return Decision(Action.SETTLED, Reason("SnapshotReady", "the snapshot is ready to use"))


def _on_its_way_out(content: VolumeSnapshotContent) -> Decision[Action]:
    notes, spec = content.metadata.annotations, content.spec
    if CONTENT_FINALIZER not in content.metadata.finalizers:
        return Decision(Action.SETTLED, Reason("Deleted", "the content is being deleted"))
    never_bound = spec.source.snapshot_handle and not spec.volume_snapshot_ref.uid
    if not never_bound and BEING_DELETED not in notes:
        return Decision(
            Action.WAIT, Reason("SnapshotInUse", "the content goes when its VolumeSnapshot is deleted")
        )
    if (unknown := unknown_policy(content)) is not None:
        return Decision(Action.WAIT, unknown)
    if spec.deletion_policy == "Retain":
        return Decision(Action.RELEASE, Reason("Retained", "the storage is to keep the snapshot"))
    if handle_of(content):
        return Decision(Action.DELETE, Reason("Deleting", "the storage deletes the snapshot first"))
    if BEING_CREATED in notes:
        return Decision(
            Action.TAKE, Reason("NotAnswered", "it may have been taken: asked for again, it can be deleted")
        )
    return Decision(Action.RELEASE, Reason("NothingLeft", "the storage was never asked for the snapshot"))


def has_nothing(content: VolumeSnapshotContent) -> bool:
    """Whether the storage has no snapshot for it, and was not asked for one that may come."""
    return not handle_of(content) and BEING_CREATED not in content.metadata.annotations


def unknown_policy(content: VolumeSnapshotContent) -> Reason | None:
    """Why nothing is done about the storage's snapshot, with upstream's code: it is deleted on the word
    Delete alone, and a newer API may have other words. None for one that is known."""
    policy = content.spec.deletion_policy
    if policy in ("Delete", "Retain"):
        return None
    message = f"deletionPolicy {policy!r} of VolumeSnapshotContent {content.name} is not known: set Delete or Retain"
    return Reason(UNKNOWN_POLICY, message)


def handle_of(content: VolumeSnapshotContent) -> str | None:
    """Returns the storage's name of the snapshot, if it is known."""
    return content.status.snapshot_handle or content.spec.source.snapshot_handle


def is_answered(error: Exception, *, asked_before: bool) -> bool:
    """Whether no request for the snapshot is outstanding after this error. `asked_before`:
    an earlier request was. Of any other error than these it is not known (`mooring.volumes.errors`)."""
    if isinstance(error, NotAsked):
        return not asked_before
    return isinstance(error, (StorageRefused, InvalidSpec))


def storage_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Returns a class's parameters without those for the snapshotter."""
    return {key: value for key, value in parameters.items() if not key.startswith(PREFIX)}


def creation_secret(parameters: Mapping[str, str], content: VolumeSnapshotContent) -> SecretReference | None:
    """Returns the Secret that the class names for taking a snapshot. Raises InvalidSpec."""
    reference = content.spec.volume_snapshot_ref
    return class_secret(parameters, content.name, reference.namespace, reference.name)


def class_secret(
    parameters: Mapping[str, str], content: str, namespace: str, snapshot: str
) -> SecretReference | None:
    """Returns the Secret that a class's parameters name, with the names of content and snapshot filled in."""
    values = {
        "volumesnapshotcontent.name": content,
        "volumesnapshot.namespace": namespace,
        "volumesnapshot.name": snapshot,
    }
    return secret_reference(parameters, "snapshotter", values)


def deletion_secret(content: VolumeSnapshotContent) -> SecretReference | None:
    """Returns the Secret with which the snapshot is to be deleted."""
    annotations = content.metadata.annotations
    name = annotations.get(DELETION_SECRET_NAME)
    return (
        SecretReference(name=name, namespace=annotations.get(DELETION_SECRET_NAMESPACE, "")) if name else None
    )
