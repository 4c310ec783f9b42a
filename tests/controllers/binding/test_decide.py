"""What is done about a claim, and which phase a volume has."""

from __future__ import annotations

import pytest
from claims_and_volumes import claim, volume
from msgspec.structs import replace

from mooring.controllers.binding.decide import Action, VolumeAction, decide_claim, decide_volume, resizer_of
from mooring.kube.objects import (
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    StorageClass,
)
from mooring.kube.objects.volumes import AWSElasticBlockStoreVolumeSource
from mooring.volumes.free_volumes import FreeVolumes

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = {"volume.kubernetes.io/selected-node": "n"}


def storage_class(provisioner: str = "example.com/disk", mode: str = "Immediate") -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name="disk"), provisioner=provisioner, volume_binding_mode=mode)


OTHER = ObjectReference(namespace="ns", name="other", uid="o")
LATE = storage_class(mode="WaitForFirstConsumer")


def deleted(*finalizers: str, to: str = "u") -> PersistentVolume:
    """A volume that is made for a claim, and that a user has deleted before it was bound."""
    pv = volume(to=to)
    return replace(pv, metadata=replace(pv.metadata, deletion_timestamp="now", finalizers=finalizers))


@pytest.mark.parametrize(
    ("given_claim", "named", "volumes", "of_class", "action", "code"),
    [
        (claim(), None, [volume()], None, Action.BIND, "Matched"),
        (claim(), None, [], storage_class(), Action.PROVISION, "ExternalProvisioning"),
        (claim(), None, [], None, Action.WAIT, "ProvisioningFailed"),
        (claim(storage_class_name=""), None, [], None, Action.WAIT, "FailedBinding"),
        (claim(), None, [], storage_class("kubernetes.io/no-provisioner"), Action.WAIT, "FailedBinding"),
        (claim(), None, [volume()], LATE, Action.WAIT, "WaitForFirstConsumer"),
        (claim(annotations=SELECTED), None, [volume()], LATE, Action.PROVISION, "ExternalProvisioning"),
        (claim(), None, [volume(to="")], LATE, Action.BIND, "Matched"),
        (claim(), None, [deleted("mooring.dev/provisioned")], LATE, Action.BIND, "Matched"),
        (claim(), None, [deleted("mooring.dev/provisioned")], storage_class(), Action.BIND, "Matched"),
        (
            claim(),
            None,
            [deleted("example.com/hold")],
            storage_class(),
            Action.PROVISION,
            "ExternalProvisioning",
        ),
        (claim(), None, [deleted("mooring.dev/provisioned", to="")], None, Action.WAIT, "ProvisioningFailed"),
        (claim(volume_name="pv"), None, [], None, Action.WAIT, "FailedBinding"),
        (claim(volume_name="pv"), volume(), [], None, Action.BIND, "Named"),
        (claim(volume_name="pv"), volume(to=""), [], None, Action.BIND, "Named"),
        (claim(volume_name="pv"), volume(claim_ref=OTHER), [], None, Action.WAIT, "FailedBinding"),
        (claim(volume_name="pv"), volume(to="former"), [], None, Action.WAIT, "FailedBinding"),
        (claim(volume_name="pv", size="2Gi"), volume(), [], None, Action.WAIT, "VolumeMismatch"),
        (claim(volume_name="pv"), volume(storage_class_name="x"), [], None, Action.WAIT, "VolumeMismatch"),
        (claim(volume_name="pv"), volume(to="", storage_class_name="x"), [], None, Action.BIND, "Named"),
        (claim(volume_name="pv", annotations=BOUND), volume(to="u"), [], None, Action.BIND, "Bound"),
        (claim(volume_name="pv", annotations=BOUND), None, [], None, Action.LOST, "ClaimLost"),
        (claim(annotations=BOUND), None, [volume()], None, Action.LOST, "ClaimLost"),
        (
            claim(volume_name="pv", annotations=BOUND),
            volume(claim_ref=OTHER),
            [],
            None,
            Action.LOST,
            "ClaimMisbound",
        ),
    ],
)
def test_what_becomes_of_a_claim(
    given_claim: PersistentVolumeClaim,
    named: PersistentVolume | None,
    volumes: list[PersistentVolume],
    of_class: StorageClass | None,
    action: Action,
    code: str,
):
    decision = decide_claim(given_claim, named, FreeVolumes(volumes), of_class)
    assert (decision.action, decision.reason.code) == (action, code)
    assert (decision.volume is not None) == (action is Action.BIND)


MADE = {"pv.kubernetes.io/provisioned-by": "example.com/disk"}
CHOSEN = {"pv.kubernetes.io/bound-by-controller": "yes"}


def annotated(pv: PersistentVolume, annotations: dict[str, str]) -> PersistentVolume:
    return replace(pv, metadata=replace(pv.metadata, annotations=annotations))


@pytest.mark.parametrize(
    ("pv", "of", "action", "phase"),
    [
        (volume(), None, VolumeAction.PHASE, "Available"),
        (volume(to=""), None, VolumeAction.PHASE, "Available"),
        (volume(to="u"), None, VolumeAction.PHASE, "Released"),
        (volume(to="u", phase="Failed"), None, VolumeAction.PHASE, "Failed"),
        (volume(to="u"), claim(volume_name="pv"), VolumeAction.PHASE, "Bound"),
        (volume(to="u"), claim(), VolumeAction.CLAIM, ""),
        (volume(to="u", volume_mode="Block"), claim(), VolumeAction.MISMATCH, ""),
        (volume(to="u"), claim(volume_name="other"), VolumeAction.UNBIND, ""),
    ],
)
def test_what_becomes_of_a_volume(
    pv: PersistentVolume, of: PersistentVolumeClaim | None, action: VolumeAction, phase: str
):
    decision = decide_volume(pv, of)
    assert (decision.action, decision.phase) == (action, phase)


@pytest.mark.parametrize(
    ("policy", "annotations", "action"),
    [
        ("Delete", MADE, VolumeAction.PHASE),
        ("Retain", MADE, VolumeAction.UNBIND),
        ("Delete", {}, VolumeAction.UNBIND),
        ("Delete", {**MADE, **CHOSEN}, VolumeAction.UNBIND),
    ],
)
def test_of_the_volumes_whose_claim_has_another_only_those_made_for_it_are_released(
    policy: str, annotations: dict[str, str], action: VolumeAction
):
    pv = annotated(volume(to="u", persistent_volume_reclaim_policy=policy), annotations)
    assert decide_volume(pv, claim(volume_name="other")).action is action


@pytest.mark.parametrize(
    ("asked", "has", "resizer"),
    [
        ("2Gi", {"storage": "1Gi"}, "ebs.csi.aws.com"),
        ("1Gi", {"storage": "1Gi"}, None),
        ("1", {}, "ebs.csi.aws.com"),
    ],
)
def test_the_resizer_of_a_former_in_tree_volume_is_named_while_it_is_too_small(
    asked: str, has: dict[str, str], resizer: str | None
):
    source = AWSElasticBlockStoreVolumeSource(volume_id="vol-1")
    pv = volume()
    in_tree = replace(pv, spec=replace(pv.spec, aws_elastic_block_store=source))
    wanted = replace(claim(size=asked), status=PersistentVolumeClaimStatus(capacity=has))
    assert resizer_of(wanted, in_tree) == resizer
    assert resizer_of(wanted, pv) is None
