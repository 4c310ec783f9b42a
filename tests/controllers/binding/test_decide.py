"""What becomes of a claim, and which phase a volume has."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.binding.decide import Claim, decide_claim, decide_phase
from mooring.kube.objects import (
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeResourceRequirements,
)
from mooring.volumes.free_volumes import FreeVolumes

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = {"volume.kubernetes.io/selected-node": "n"}


def claim(
    *, annotations: dict[str, str] | None = None, size: str = "1Gi", uid: str = "u", **spec: Any
) -> PersistentVolumeClaim:
    given_spec: dict[str, Any] = {"access_modes": ("ReadWriteOnce",), "storage_class_name": "disk", **spec}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", namespace="ns", uid=uid, annotations=annotations or {}),
        spec=PersistentVolumeClaimSpec(resources=VolumeResourceRequirements(requests={"storage": size}), **given_spec),
    )


def volume(
    name: str = "pv", *, size: str = "1Gi", to: str | None = None, phase: str = "Available", deleting: bool = False,
    labels: dict[str, str] | None = None, **spec: Any,
) -> PersistentVolume:  # fmt: skip
    """`to`: the uid in a claimRef that names ns/c; "" for a reservation."""
    reference = ObjectReference(namespace="ns", name="c", uid=to) if to is not None else None
    given_spec: dict[str, Any] = {"access_modes": ("ReadWriteOnce",), "storage_class_name": "disk", **spec}
    return PersistentVolume(
        metadata=ObjectMeta(name=name, labels=labels or {}, deletion_timestamp="t" if deleting else None),
        spec=PersistentVolumeSpec(capacity={"storage": size}, **{"claim_ref": reference, **given_spec}),
        status=PersistentVolumeStatus(phase=phase),
    )


def storage_class(provisioner: str = "example.com/disk", mode: str = "Immediate") -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name="disk"), provisioner=provisioner, volume_binding_mode=mode)


OTHER = ObjectReference(namespace="ns", name="other", uid="o")
LATE = storage_class(mode="WaitForFirstConsumer")


@pytest.mark.parametrize(
    ("given_claim", "named", "volumes", "of_class", "action", "code"),
    [
        (claim(), None, [volume()], None, Claim.BIND, "Matched"),
        (claim(), None, [], storage_class(), Claim.PROVISION, "ExternalProvisioning"),
        (claim(), None, [], None, Claim.WAIT, "ProvisioningFailed"),
        (claim(storage_class_name=""), None, [], None, Claim.WAIT, "FailedBinding"),
        (claim(), None, [], storage_class("kubernetes.io/no-provisioner"), Claim.WAIT, "FailedBinding"),
        (claim(), None, [volume()], LATE, Claim.WAIT, "WaitForFirstConsumer"),
        (claim(annotations=SELECTED), None, [volume()], LATE, Claim.PROVISION, "ExternalProvisioning"),
        (claim(), None, [volume(to="")], LATE, Claim.BIND, "Matched"),
        (claim(volume_name="pv"), None, [], None, Claim.WAIT, "FailedBinding"),
        (claim(volume_name="pv"), volume(), [], None, Claim.BIND, "Named"),
        (claim(volume_name="pv"), volume(to=""), [], None, Claim.BIND, "Named"),
        (claim(volume_name="pv"), volume(claim_ref=OTHER), [], None, Claim.WAIT, "FailedBinding"),
        (claim(volume_name="pv"), volume(to="former"), [], None, Claim.WAIT, "FailedBinding"),
        (claim(volume_name="pv", size="2Gi"), volume(), [], None, Claim.WAIT, "VolumeMismatch"),
        (claim(volume_name="pv", annotations=BOUND), volume(to="u"), [], None, Claim.BIND, "Bound"),
        (claim(volume_name="pv", annotations=BOUND), None, [], None, Claim.LOST, "ClaimLost"),
        (claim(annotations=BOUND), None, [volume()], None, Claim.LOST, "ClaimLost"),
        (claim(volume_name="pv", annotations=BOUND), volume(claim_ref=OTHER), [], None, Claim.LOST, "ClaimMisbound"),
    ],
)
def test_what_becomes_of_a_claim(
    given_claim: PersistentVolumeClaim,
    named: PersistentVolume | None,
    volumes: list[PersistentVolume],
    of_class: StorageClass | None,
    action: Claim,
    code: str,
):
    decision = decide_claim(given_claim, named, FreeVolumes(volumes), of_class)
    assert (decision.action, decision.reason.code) == (action, code)
    assert (decision.volume is not None) == (action is Claim.BIND)


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
def test_the_phase_of_a_volume(pv: PersistentVolume, of: PersistentVolumeClaim | None, elsewhere: bool, phase: str):
    assert decide_phase(pv, of, elsewhere) == phase
