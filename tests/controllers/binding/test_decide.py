"""What becomes of a claim, which phase a volume has, and which volume fits which claim."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mooring.controllers.binding.decide import Claim, decide_claim, decide_phase
from mooring.kube.objects import (
    LabelSelector,
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
from mooring.volumes.matching import find_match, mismatch

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
    decision = decide_claim(given_claim, named, volumes, of_class)
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


# --- which volume fits (mooring.volumes.matching) -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pv", "words"),
    [
        (volume(size="512Mi"), "bytes"),
        (volume(storage_class_name="other"), "storage class"),
        (volume(volume_mode="Block"), "volumeMode"),
        (volume(access_modes=("ReadOnlyMany",)), "access mode ReadWriteOnce"),
        (volume(deleting=True), "being deleted"),
    ],
)
def test_why_a_volume_does_not_fit_is_said(pv: PersistentVolume, words: str):
    assert words in (mismatch(pv, claim()) or "")
    assert find_match(claim(), [pv]) is None


def test_a_volume_reserved_for_the_claim_goes_before_all_others():
    volumes = [volume("small"), volume("reserved", size="10Gi", to="", phase="")]
    assert find_match(claim(), volumes) is volumes[1]


def test_the_fewest_modes_then_the_smallest_then_the_name():
    wide = volume("a-wide", access_modes=("ReadWriteOnce", "ReadOnlyMany"))
    big, small, twin = volume("a-big", size="5Gi"), volume("b-small", size="2Gi"), volume("c-small", size="2Gi")
    assert find_match(claim(), [wide, big, twin, small]) is small
    assert find_match(claim(), [wide, big]) is big


def test_volumes_of_others_and_volumes_that_are_not_available_are_left_alone():
    assert find_match(claim(), [volume(claim_ref=OTHER), volume(to="former"), volume(phase="Released")]) is None


def test_a_selector_chooses_among_free_volumes():
    chosen = volume("b", labels={"tier": "fast"})
    wanted = claim(selector=LabelSelector(match_labels={"tier": "fast"}))
    assert find_match(wanted, [volume("a"), chosen]) is chosen


PVS = st.builds(
    lambda name, size, to, phase: volume(name, size=size, to=to, phase=phase),
    st.sampled_from("abcd"),
    st.sampled_from(["512Mi", "1Gi", "2Gi"]),
    st.sampled_from([None, "", "u", "former"]),
    st.sampled_from(["Available", "Bound", "Released"]),
)


@given(st.lists(PVS, max_size=5))
def test_whatever_is_found_is_large_enough_and_nobody_elses(volumes: list[PersistentVolume]):
    found = find_match(claim(), volumes)
    if found is not None:
        assert mismatch(found, claim()) is None
        assert found.spec.claim_ref is None or found.spec.claim_ref.uid in ("", "u")


@given(st.lists(PVS, max_size=5, unique_by=lambda pv: pv.name), st.randoms())
def test_a_free_volume_is_chosen_whatever_the_order(volumes: list[PersistentVolume], random: Any):
    free = [pv for pv in volumes if pv.spec.claim_ref is None]
    turned = random.sample(free, len(free))
    assert find_match(claim(), free) is find_match(claim(), turned)
