"""Which claims get a volume made, and which volumes are deleted."""

from __future__ import annotations

import pytest

from mooring.controllers.provisioning.decide import (
    BEGUN,
    ClaimAction,
    VolumeAction,
    decide_claim,
    decide_volume,
    finalizer_of,
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


@pytest.mark.parametrize(
    ("annotations", "begun", "of_class", "made", "action"),
    [
        pytest.param(ASKED, True, None, True, ClaimAction.FINISH, id="its volume is there"),
        pytest.param(ASKED, True, FOREIGN, True, ClaimAction.FINISH, id="the class does not matter then"),
        pytest.param(ASKED, False, NOW, True, ClaimAction.SETTLED, id="it is finished already"),
        pytest.param(ASKED, False, None, False, ClaimAction.SETTLED, id="nothing was begun of its class"),
        pytest.param({}, True, None, False, ClaimAction.ASK, id="who began it is not known"),
        pytest.param({}, False, NOW, False, ClaimAction.SETTLED, id="its provisioner was not asked yet"),
        pytest.param(ASKED, False, NOW, False, ClaimAction.PROVISION, id="its provisioner was asked"),
    ],
)
def test_what_is_done_about_a_claim(
    annotations: dict[str, str], begun: bool, of_class: StorageClass | None, made: bool, action: ClaimAction
):
    assert decide_claim(claim(annotations, begun=begun), of_class, OURS, made=made).action is action


def pv(
    phase: str = "Released",
    policy: str = "Delete",
    by: str = "example.com/disk",
    deleting: bool = False,
    held: tuple[str, ...] = (),
) -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(
            name="pv",
            annotations={"pv.kubernetes.io/provisioned-by": by} if by else {},
            deletion_timestamp="t" if deleting else None,
            finalizers=held,
        ),
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
        (pv(by=""), None, VolumeAction.KEEP),
        (pv("Failed", by=""), False, VolumeAction.KEEP),
        (pv("Bound", by=""), True, VolumeAction.KEEP),
        (pv(by="", policy="Retain"), True, VolumeAction.KEEP),
        (pv(by="example.org/other"), True, VolumeAction.KEEP),
        (pv(by="example.org/other"), False, VolumeAction.KEEP),
    ],
)
def test_a_volume_that_no_provisioner_made_is_deleted_by_the_plugin_of_its_source_or_fails(
    given_pv: PersistentVolume, deletable: bool | None, action: VolumeAction
):
    assert decide_volume(given_pv, OURS, deletable=deletable).action is action


HELD = ("mooring.dev/provisioned",)


@pytest.mark.parametrize(
    ("given_pv", "released"),
    [
        (pv("Bound", "Retain", deleting=True, held=HELD), True),
        (pv("Released", "Retain", deleting=True, held=HELD), True),
        (pv("Bound", "Retain", held=HELD), False),
        (pv("Bound", "Retain", deleting=True), False),
        (pv("Bound", "Delete", deleting=True, held=HELD), False),
        (pv("Bound", "Retain", "example.org/other", deleting=True, held=HELD), False),
    ],
)
def test_a_volume_that_is_deleted_and_to_be_retained_is_let_go_by_who_made_it(
    given_pv: PersistentVolume, released: bool
):
    """Its disk stays."""
    assert (decide_volume(given_pv, OURS).action is VolumeAction.RELEASE) is released


@pytest.mark.parametrize(
    ("provisioner", "finalizer"),
    [
        ("example.com/disk", "mooring.dev/provisioned"),
        ("", "mooring.dev/provisioned"),
        ("disk.example.com", "external-provisioner.volume.kubernetes.io/finalizer"),
    ],
)
def test_volumes_of_drivers_are_held_under_the_name_that_their_own_provisioner_knows(
    provisioner: str, finalizer: str
):
    assert finalizer_of(provisioner) == finalizer


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
