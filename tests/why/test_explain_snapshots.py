"""What is said of a VolumeSnapshot that is not ready, or not gone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mooring.controllers.snapshots.names import SNAPSHOT_FINALIZER
from mooring.kube.objects import (
    CSIDriver,
    CSIPersistentVolumeSource,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
)
from mooring.kube.objects.snapshots import (
    SnapshotError,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
    VolumeSnapshotContentSpec,
    VolumeSnapshotContentStatus,
    VolumeSnapshotSource,
    VolumeSnapshotSpec,
    VolumeSnapshotStatus,
)
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager
from mooring.why.cause import Cause
from mooring.why.explain import explain, stuck
from mooring.why.snapshot import Snapshot

DRIVER = "disk.example.com"
CONTENT = "snapcontent-u"
CLAIM = PersistentVolumeClaim(
    metadata=ObjectMeta(name="c", namespace="default"),
    spec=PersistentVolumeClaimSpec(volume_name="pv"),
    status=PersistentVolumeClaimStatus(phase="Bound"),
)
PV = PersistentVolume(
    metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(csi=CSIPersistentVolumeSource(driver=DRIVER))
)
CLASS = VolumeSnapshotClass(metadata=ObjectMeta(name="quick"), driver=DRIVER)


def snapshot(*, wants: str | None = "quick", deleted: bool = False, **status: Any) -> VolumeSnapshot:
    source = VolumeSnapshotSource(persistent_volume_claim_name="c")
    return VolumeSnapshot(
        metadata=ObjectMeta(
            name="s",
            namespace="default",
            uid="u",
            deletion_timestamp="2030-01-01T00:00:00Z" if deleted else None,
            finalizers=(SNAPSHOT_FINALIZER,),
        ),
        spec=VolumeSnapshotSpec(source=source, volume_snapshot_class_name=wants),
        status=VolumeSnapshotStatus(**status),
    )


def content(**status: Any) -> VolumeSnapshotContent:
    reference = ObjectReference(namespace="default", name="s", uid="u")
    return VolumeSnapshotContent(
        metadata=ObjectMeta(name=CONTENT),
        spec=VolumeSnapshotContentSpec(driver=DRIVER, volume_snapshot_ref=reference),
        status=VolumeSnapshotContentStatus(**status),
    )


def known(
    of: VolumeSnapshot,
    *held: VolumeSnapshotContent,
    claim: PersistentVolumeClaim | None = CLAIM,
    driver: bool = True,
) -> Snapshot:
    registered = CSIDriver(metadata=ObjectMeta(name=DRIVER))
    return Snapshot(
        PluginManager([], ControllerVolumeHost(now=lambda: datetime(2030, 1, 1, tzinfo=UTC))),
        pods={},
        claims={claim.key: claim} if claim else {},
        volumes={"pv": PV},
        classes={},
        nodes={},
        attachments={},
        drivers={DRIVER: registered} if driver else {},
        csi_nodes={},
        namespaces={},
        fences={},
        events={},
        snapshots={of.key: of},
        snapshot_contents={each.name: each for each in held},
        snapshot_classes={"quick": CLASS},
    )


def why(of: VolumeSnapshot, *held: VolumeSnapshotContent, **more: Any) -> Cause:
    return explain("volumesnapshot/s", "default", known(of, *held, **more))


def test_nothing_is_wrong_with_a_snapshot_that_is_ready():
    ready = snapshot(ready_to_use=True, bound_volume_snapshot_content_name=CONTENT)
    cause = why(ready, content(ready_to_use=True))
    assert cause.ok
    assert cause.reason.message == "snapshot default/s of claim default/c is ready to use"


def test_a_claim_that_is_not_there_is_named():
    cause = why(snapshot(), claim=None)
    assert cause.reason == ("ClaimNotFound", "claim default/c does not exist")
    assert cause.next_step


def test_a_claim_that_is_not_bound_is_explained():
    unbound = PersistentVolumeClaim(metadata=ObjectMeta(name="c", namespace="default"))
    cause = why(snapshot(), claim=unbound)
    assert [each.about for each in cause.causes] == ["pvc/default/c"]


@pytest.mark.parametrize(
    ("wants", "code"), [("polaroid", "SnapshotClassNotFound"), (None, "NoSnapshotClass")]
)
def test_a_class_that_is_missing_is_told_with_those_that_there_are(wants: str | None, code: str):
    cause = why(snapshot(wants=wants))
    assert cause.reason.code == code
    assert cause.next_step.endswith("there are: quick")


def test_what_the_storage_says_is_the_reason():
    failed = SnapshotError(time="2030-01-01T00:00:00Z", message="no room")
    told = snapshot(error=failed, bound_volume_snapshot_content_name=CONTENT)
    cause = why(told, content(error=failed))
    assert cause.reason == ("SnapshotCreationFailed", "no room")
    assert cause.since == "2030-01-01T00:00:00Z"


def test_a_driver_that_is_not_there_is_named():
    told = snapshot(bound_volume_snapshot_content_name=CONTENT)
    assert [each.reason.code for each in why(told, content(), driver=False).roots] == ["DriverMissing"]
    assert [each.reason.code for each in why(told, content()).roots] == ["TakingSnapshot"]


def test_one_that_is_not_gone_says_what_the_storage_answers():
    cause = why(snapshot(deleted=True), content(error=SnapshotError(message="it is in use")))
    assert cause.reason.code == "HeldByFinalizer"
    assert [each.reason.message for each in cause.causes] == ["it is in use"]


def test_it_is_among_what_is_stuck():
    assert "snapshot/default/s" in [each.about for each in stuck(known(snapshot(), claim=None))]
