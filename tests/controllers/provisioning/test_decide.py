"""Which claims get a volume made, and which volumes are deleted."""

from __future__ import annotations

import pytest

from mooring.controllers.provisioning.decide import (
    BEGUN,
    ClaimAction,
    VolumeAction,
    decide_claim,
    decide_volume,
    volume_name,
    wants_volume,
)
from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
)

OURS = {"example.com/disk"}
ASKED = {"volume.kubernetes.io/storage-provisioner": "example.com/disk"}
SELECTED = {"volume.kubernetes.io/selected-node": "n"}


def claim(
    annotations: dict[str, str], *, deleting: bool = False, volume: str = "", begun: bool = False
) -> PersistentVolumeClaim:
    metadata = ObjectMeta(
        name="c",
        uid="u",
        annotations=annotations,
        deletion_timestamp="t" if deleting else None,
        finalizers=(BEGUN,) if begun else (),
    )
    return PersistentVolumeClaim(metadata=metadata, spec=PersistentVolumeClaimSpec(volume_name=volume))


NOW = StorageClass(provisioner="example.com/disk")
LATE = StorageClass(provisioner="example.com/disk", volume_binding_mode="WaitForFirstConsumer")
FOREIGN = StorageClass(provisioner="example.org/other")


@pytest.mark.parametrize(
    ("given_claim", "of_class", "wants"),
    [
        (claim(ASKED), NOW, True),
        (claim({}), NOW, False),
        (claim(ASKED), None, False),
        (claim(ASKED), FOREIGN, False),
        (claim({"volume.kubernetes.io/storage-provisioner": "example.org/other"}), FOREIGN, False),
        (claim(ASKED), LATE, False),
        (claim(ASKED | SELECTED), LATE, True),
        (claim(ASKED, deleting=True), NOW, False),
        (claim(ASKED, volume="pv"), NOW, False),
        (claim(ASKED | {"pv.kubernetes.io/bind-completed": "yes"}), NOW, False),
    ],
)
def test_which_claims_want_a_volume(
    given_claim: PersistentVolumeClaim, of_class: StorageClass | None, wants: bool
):
    assert wants_volume(given_claim, of_class, OURS) is wants


OTHERS = {"volume.kubernetes.io/storage-provisioner": "example.org/other"}


@pytest.mark.parametrize(
    ("annotations", "of_class", "deleting", "action"),
    [
        (ASKED, NOW, False, ClaimAction.PROVISION),
        (ASKED, NOW, True, ClaimAction.PROVISION),
        ({}, NOW, False, ClaimAction.PROVISION),
        (ASKED, None, False, ClaimAction.ASK),
        (ASKED, FOREIGN, False, ClaimAction.ASK),
        (OTHERS, FOREIGN, False, ClaimAction.SETTLED),
        (OTHERS, FOREIGN, True, ClaimAction.SETTLED),
        (OTHERS, NOW, False, ClaimAction.SETTLED),
        ({}, FOREIGN, False, ClaimAction.SETTLED),
    ],
)
def test_a_claim_that_was_begun_is_finished_by_the_provisioner_that_was_asked_and_left_alone_by_others(
    annotations: dict[str, str], of_class: StorageClass | None, deleting: bool, action: ClaimAction
):
    given = claim(annotations, deleting=deleting, begun=True)
    assert decide_claim(given, of_class, OURS, made=False).action is action


def pv(phase: str = "Released", policy: str = "Delete", by: str = "example.com/disk") -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(name="pv", annotations={"pv.kubernetes.io/provisioned-by": by} if by else {}),
        spec=PersistentVolumeSpec(persistent_volume_reclaim_policy=policy),
        status=PersistentVolumeStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("given_pv", "deleted"),
    [
        (pv(), True),
        (pv("Failed"), True),
        (pv("Bound"), False),
        (pv("Available"), False),
        (pv(policy="Retain"), False),
        (pv(by="example.org/other"), False),
        (pv(by=""), False),
    ],
)
def test_which_volumes_are_deleted(given_pv: PersistentVolume, deleted: bool):
    assert (decide_volume(given_pv, OURS).action is VolumeAction.DELETE) is deleted


@pytest.mark.parametrize(
    ("given_pv", "deletable", "action"),
    [
        (pv(by=""), True, VolumeAction.DELETE),
        (pv("Failed", by=""), True, VolumeAction.DELETE),
        (pv(by=""), False, VolumeAction.FAIL),
        (pv("Failed", by=""), False, VolumeAction.KEEP),
        (pv("Bound", by=""), True, VolumeAction.KEEP),
        (pv(by="", policy="Retain"), True, VolumeAction.KEEP),
        (pv(by="example.org/other"), True, VolumeAction.KEEP),
        (pv(by="example.org/other"), False, VolumeAction.KEEP),
    ],
)
def test_a_volume_that_no_provisioner_made_is_deleted_by_the_plugin_of_its_source_or_fails(
    given_pv: PersistentVolume, deletable: bool, action: VolumeAction
):
    assert decide_volume(given_pv, OURS, deletable=deletable).action is action


def test_a_volume_is_named_after_its_claims_uid():
    assert volume_name(claim({})) == "pvc-u"


FORMER = StorageClass(provisioner="kubernetes.io/aws-ebs")
EBS = {"ebs.csi.aws.com"}


def test_a_class_of_a_former_provisioner_is_its_drivers():
    asked = {"volume.kubernetes.io/storage-provisioner": "ebs.csi.aws.com"}
    assert wants_volume(claim(asked), FORMER, EBS)
    assert not wants_volume(claim(asked), FORMER, OURS)
    assert not wants_volume(
        claim({"volume.kubernetes.io/storage-provisioner": "kubernetes.io/aws-ebs"}), FORMER, EBS
    )
    decided = decide_claim(claim(asked), FORMER, EBS, made=False)
    assert decided.action is ClaimAction.PROVISION
    assert "ebs.csi.aws.com" in decided.reason.message


def test_what_began_under_the_drivers_own_class_goes_on_under_that_of_the_former_provisioner():
    asked = {"volume.kubernetes.io/storage-provisioner": "ebs.csi.aws.com"}
    assert decide_claim(claim(asked, begun=True), FORMER, EBS, made=False).action is ClaimAction.PROVISION


def test_a_volume_that_a_former_provisioner_made_is_deleted_by_its_driver():
    metadata = ObjectMeta(name="pv", annotations={"pv.kubernetes.io/provisioned-by": "kubernetes.io/aws-ebs"})
    spec = PersistentVolumeSpec(persistent_volume_reclaim_policy="Delete")
    pv = PersistentVolume(metadata=metadata, spec=spec, status=PersistentVolumeStatus(phase="Released"))
    assert decide_volume(pv, EBS).action is VolumeAction.DELETE
    assert decide_volume(pv, OURS).action is VolumeAction.KEEP
