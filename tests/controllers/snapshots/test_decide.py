"""A snapshot gets its content and its content's status, and is deleted after it."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.snapshots.content_decisions import UNKNOWN_POLICY
from mooring.controllers.snapshots.decide import Action, class_of, content_body, decide, status_of
from mooring.controllers.snapshots.names import BEING_CREATED, DEFAULT_CLASS, SNAPSHOT_FINALIZER
from mooring.kube.objects import (
    ObjectMeta,
    ObjectReference,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
)
from mooring.kube.objects.snapshots import (
    BEING_DELETED,
    SnapshotError,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
    VolumeSnapshotContentSource,
    VolumeSnapshotContentSpec,
    VolumeSnapshotContentStatus,
    VolumeSnapshotSource,
    VolumeSnapshotSpec,
    VolumeSnapshotStatus,
)
from mooring.kube.reason import Reason


def snapshot(
    *,
    ready: bool = False,
    deleting: bool = False,
    held: bool = True,
    of_class: str | None = None,
    **source: Any,
) -> VolumeSnapshot:
    metadata = ObjectMeta(
        name="s",
        namespace="ns",
        uid="u",
        deletion_timestamp="t" if deleting else None,
        finalizers=(SNAPSHOT_FINALIZER,) if held else (),
    )
    given = source or {"persistent_volume_claim_name": "c"}
    return VolumeSnapshot(
        metadata=metadata,
        spec=VolumeSnapshotSpec(source=VolumeSnapshotSource(**given), volume_snapshot_class_name=of_class),
        status=VolumeSnapshotStatus(
            ready_to_use=ready,
            bound_volume_snapshot_content_name="snapcontent-u" if ready else None,
            restore_size="1Ki" if ready else None,
        ),
    )


def content(
    *,
    ready: bool = False,
    uid: str = "u",
    policy: str = "Delete",
    name: str = "snapcontent-u",
    deleting: bool = False,
    being_deleted: bool = False,
    asked: bool = False,
    error: SnapshotError | None = None,
) -> VolumeSnapshotContent:
    notes = {name: "yes" for name, has in ((BEING_DELETED, being_deleted), (BEING_CREATED, asked)) if has}
    return VolumeSnapshotContent(
        metadata=ObjectMeta(name=name, annotations=notes, deletion_timestamp="t" if deleting else None),
        spec=VolumeSnapshotContentSpec(
            deletion_policy=policy,
            source=VolumeSnapshotContentSource(volume_handle="v"),
            volume_snapshot_ref=ObjectReference(namespace="ns", name="s", uid=uid),
        ),
        status=VolumeSnapshotContentStatus(
            ready_to_use=ready,
            snapshot_handle="h" if ready else None,
            restore_size=1024 if ready else None,
            error=error,
        ),
    )


def claim(phase: str = "Bound") -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", namespace="ns"), status=PersistentVolumeClaimStatus(phase=phase)
    )


@pytest.mark.parametrize(
    ("given", "held", "of", "action", "code"),
    [
        (snapshot(), None, None, Action.WAIT, "ClaimNotFound"),
        (snapshot(), None, claim("Pending"), Action.WAIT, "ClaimNotBound"),
        (snapshot(), None, claim(), Action.CREATE_CONTENT, "CreatingSnapshot"),
        (snapshot(), content(), claim(), Action.COPY_STATUS, "ContentChanged"),
        (snapshot(), content(ready=True), None, Action.COPY_STATUS, "ContentChanged"),
        (snapshot(ready=True), content(ready=True), None, Action.SETTLED, "Told"),
        (snapshot(ready=True), content(), None, Action.COPY_STATUS, "ContentChanged"),
        (snapshot(ready=True), None, claim(), Action.WAIT, "SnapshotContentMissing"),
        (snapshot(), content(uid="another"), claim(), Action.WAIT, "SnapshotContentMismatch"),
        (snapshot(volume_snapshot_content_name="kept"), None, None, Action.WAIT, "SnapshotContentMissing"),
        (
            snapshot(volume_snapshot_content_name="kept"),
            content(name="kept", uid=""),
            None,
            Action.BIND,
            "Binding",
        ),
        (
            snapshot(volume_snapshot_content_name="kept"),
            content(name="kept", uid="", deleting=True),
            None,
            Action.WAIT,
            "SnapshotContentMissing",
        ),
        (snapshot(deleting=True), content(ready=True), None, Action.DELETE_CONTENT, "Deleting"),
        (snapshot(deleting=True), content(deleting=True), None, Action.DELETE_CONTENT, "Deleting"),
        (snapshot(deleting=True), content(being_deleted=True), None, Action.DELETE_CONTENT, "Deleting"),
        (snapshot(deleting=True), content(being_deleted=True, deleting=True), None, Action.WAIT, "Deleting"),
        (snapshot(deleting=True), content(policy="Retain"), None, Action.DELETE_CONTENT, "Deleting"),
        (snapshot(deleting=True), content(policy="Archive"), None, Action.WAIT, UNKNOWN_POLICY),
        (
            snapshot(deleting=True),
            content(policy="Retain", being_deleted=True, ready=True),
            None,
            Action.RELEASE,
            "Retained",
        ),
        (
            snapshot(deleting=True),
            content(policy="Retain", being_deleted=True, asked=True),
            None,
            Action.WAIT,
            "NotAnswered",
        ),
        (
            snapshot(deleting=True),
            content(policy="Retain", being_deleted=True),
            None,
            Action.DELETE_CONTENT,
            "Deleting",
        ),
        (snapshot(deleting=True), content(uid="another"), None, Action.RELEASE, "NothingLeft"),
        (snapshot(deleting=True), None, None, Action.RELEASE, "NothingLeft"),
        (snapshot(deleting=True, held=False), None, None, Action.SETTLED, "Deleted"),
    ],
)
def test_the_next_step(
    given: VolumeSnapshot,
    held: VolumeSnapshotContent | None,
    of: PersistentVolumeClaim | None,
    action: Action,
    code: str,
):
    step = decide(given, held, of)
    assert (step.action, step.reason.code) == (action, code)


def a_class(name: str, driver: str = "d", *, default: bool = False) -> VolumeSnapshotClass:
    annotations = {DEFAULT_CLASS: "true"} if default else {}
    return VolumeSnapshotClass(metadata=ObjectMeta(name=name, annotations=annotations), driver=driver)


def test_the_class_is_the_one_named_or_the_drivers_only_default():
    classes = [a_class("a"), a_class("b", default=True), a_class("other", "x", default=True)]
    assert class_of(snapshot(), classes, "d") is classes[1]
    assert class_of(snapshot(of_class="a"), classes, "d") is classes[0]
    for of_class, code in (("other", "SnapshotClassMismatch"), ("none", "SnapshotClassNotFound")):
        reason = class_of(snapshot(of_class=of_class), classes, "d")
        assert isinstance(reason, Reason)
        assert reason.code == code
    for some in ([a_class("a")], [a_class("a", default=True), a_class("b", default=True)]):
        reason = class_of(snapshot(), some, "d")
        assert isinstance(reason, Reason)
        assert reason.code == "NoSnapshotClass"


def test_the_content_names_the_volume_and_the_very_snapshot():
    body = content_body(snapshot(), a_class("a"), "v", "Block")
    assert body["spec"]["source"] == {"volumeHandle": "v"}
    assert body["spec"]["volumeSnapshotRef"]["uid"] == "u"
    assert body["spec"]["sourceVolumeMode"] == "Block"
    assert body["metadata"]["finalizers"]


def test_the_same_error_at_another_time_is_nothing_new():
    failed = content(error=SnapshotError(time="t1", message="full"))
    once = status_of(failed, VolumeSnapshotStatus())
    assert once.error == SnapshotError(time="t1", message="full")
    assert status_of(content(error=SnapshotError(time="t2", message="full")), once) == once
    assert status_of(content(), once).error is None
