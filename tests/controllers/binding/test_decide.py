"""What is done about a claim, and which phase a volume has."""

from __future__ import annotations

import pytest
from claims_and_volumes import claim, volume

from mooring.controllers.binding.decide import Action, decide_claim, phase_of
from mooring.kube.objects import (
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from mooring.volumes.free_volumes import FreeVolumes

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = {"volume.kubernetes.io/selected-node": "n"}


def storage_class(provisioner: str = "example.com/disk", mode: str = "Immediate") -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name="disk"), provisioner=provisioner, volume_binding_mode=mode)


OTHER = ObjectReference(namespace="ns", name="other", uid="o")
LATE = storage_class(mode="WaitForFirstConsumer")


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
        (claim(volume_name="pv"), None, [], None, Action.WAIT, "FailedBinding"),
        (claim(volume_name="pv"), volume(), [], None, Action.BIND, "Named"),
        (claim(volume_name="pv"), volume(to=""), [], None, Action.BIND, "Named"),
        (claim(volume_name="pv"), volume(claim_ref=OTHER), [], None, Action.WAIT, "FailedBinding"),
        (claim(volume_name="pv"), volume(to="former"), [], None, Action.WAIT, "FailedBinding"),
        (claim(volume_name="pv", size="2Gi"), volume(), [], None, Action.WAIT, "VolumeMismatch"),
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


@pytest.mark.parametrize(
    ("pv", "of", "elsewhere", "phase"),
    [
        (volume(), None, False, "Available"),
        (volume(to=""), None, False, "Available"),
        (volume(to="u"), claim(), False, "Bound"),
        (volume(to="u"), None, False, "Released"),
        (volume(to="u"), claim(), True, "Released"),
        (volume(to="u", phase="Failed"), None, False, "Failed"),
    ],
)
def test_the_phase_of_a_volume(
    pv: PersistentVolume, of: PersistentVolumeClaim | None, elsewhere: bool, phase: str
):
    assert phase_of(pv, of, elsewhere) == phase
