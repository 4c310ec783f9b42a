"""What is requested of the storage for a VolumeSnapshotContent; no lost answer leaves a snapshot behind."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.snapshots.content_decisions import UNKNOWN_POLICY, Action, decide, is_answered
from mooring.controllers.snapshots.names import BEING_CREATED, CONTENT_FINALIZER
from mooring.kube.objects import ObjectMeta, ObjectReference
from mooring.kube.objects.snapshots import (
    BEING_DELETED,
    VolumeSnapshotContent,
    VolumeSnapshotContentSource,
    VolumeSnapshotContentSpec,
    VolumeSnapshotContentStatus,
)
from mooring.volumes.errors import InvalidSpec, NotAsked, OutcomeUnknown, StorageRefused, VolumeError


def content(
    *notes: str,
    deleting: bool = False,
    held: bool = True,
    policy: str = "Delete",
    uid: str = "u",
    ready: bool = False,
    handle: str | None = None,
    **source: Any,
) -> VolumeSnapshotContent:
    metadata = ObjectMeta(
        name="c",
        annotations=dict.fromkeys(notes, "yes"),
        finalizers=(CONTENT_FINALIZER,) if held else (),
        deletion_timestamp="t" if deleting else None,
    )
    spec = VolumeSnapshotContentSpec(
        deletion_policy=policy,
        source=VolumeSnapshotContentSource(**(source or {"volume_handle": "v"})),
        volume_snapshot_ref=ObjectReference(namespace="ns", name="s", uid=uid),
    )
    status = VolumeSnapshotContentStatus(ready_to_use=ready, snapshot_handle=handle)
    return VolumeSnapshotContent(metadata=metadata, spec=spec, status=status)


@pytest.mark.parametrize(
    ("given", "action", "code"),
    [
        (content(held=False), Action.HOLD, "NotHeld"),
        (content(held=False, handle="h", ready=True), Action.HOLD, "NotHeld"),
        (content(held=False, uid="", snapshot_handle="h"), Action.HOLD, "NotHeld"),
        (content(), Action.TAKE, "Creating"),
        (content(handle="h"), Action.TAKE, "Creating"),
        (content(handle="h", ready=True), Action.SETTLED, "SnapshotReady"),
        (content(BEING_CREATED, handle="h", ready=True), Action.ANSWERED, "Answered"),
        (content(BEING_DELETED), Action.SETTLED, "NotTaken"),
        (content(BEING_DELETED, BEING_CREATED), Action.TAKE, "Creating"),
        (content(BEING_DELETED, handle="h"), Action.TAKE, "Creating"),
        (content(deleting=True, handle="h"), Action.WAIT, "SnapshotInUse"),
        (content(BEING_DELETED, deleting=True, handle="h"), Action.DELETE, "Deleting"),
        (content(BEING_DELETED, deleting=True, held=False, handle="h"), Action.SETTLED, "Deleted"),
        (content(BEING_DELETED, deleting=True, handle="h", policy="Retain"), Action.RELEASE, "Retained"),
        (content(BEING_DELETED, deleting=True, handle="h", policy="Archive"), Action.WAIT, UNKNOWN_POLICY),
        (content(BEING_DELETED, deleting=True, handle="h", policy=""), Action.WAIT, UNKNOWN_POLICY),
        (content(BEING_DELETED, deleting=True), Action.RELEASE, "NothingLeft"),
        (content(BEING_DELETED, BEING_CREATED, deleting=True), Action.TAKE, "NotAnswered"),
        (content(deleting=True, uid="", snapshot_handle="h"), Action.DELETE, "Deleting"),
    ],
)
def test_the_next_step(given: VolumeSnapshotContent, action: Action, code: str):
    step = decide(given)
    assert (step.action, step.reason.code) == (action, code)


@pytest.mark.parametrize(
    ("error", "asked_before", "answered"),
    [
        (StorageRefused("no"), True, True),
        (NotAsked("away"), False, True),
        (NotAsked("away"), True, False),
        (InvalidSpec("what"), False, True),
        (OutcomeUnknown("late"), False, False),
        (VolumeError("a plugin's own word"), False, False),
        (RuntimeError("a bug"), False, False),
    ],
)
def test_only_an_answer_ends_a_request(error: Exception, asked_before: bool, answered: bool):
    assert is_answered(error, asked_before=asked_before) is answered
