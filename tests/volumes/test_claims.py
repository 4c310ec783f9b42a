"""From a pod's volume to its spec: the error names every link that can be missing."""

from __future__ import annotations

import msgspec
import pytest

from mooring.kube.objects import (
    Container,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    PodStatus,
    Volume,
    VolumeDevice,
    VolumeMount,
)
from mooring.volumes.claims import (
    claim_name,
    not_of_successor,
    refuse_being_deleted,
    refuse_wrong_use,
    users_of_claim,
    volume_spec,
)
from mooring.volumes.errors import ClaimError
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))
DATA = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="data-web-0"))
SCRATCH = Volume(name="scratch", ephemeral=EphemeralVolumeSource(volume_claim_template={}))
CLAIM = PersistentVolumeClaim(
    metadata=ObjectMeta(name="data-web-0", namespace="shop", uid="claim-uid"),
    spec=PersistentVolumeClaimSpec(volume_name="pv-1"),
    status=PersistentVolumeClaimStatus(phase="Bound"),
)
PV = PersistentVolume(
    metadata=ObjectMeta(name="pv-1"),
    spec=PersistentVolumeSpec(
        claim_ref=ObjectReference(namespace="shop", name="data-web-0", uid="claim-uid")
    ),
)


def resolve(
    volume: Volume,
    claim: PersistentVolumeClaim | None = CLAIM,
    pv: PersistentVolume | None = PV,
    pod: Pod = POD,
) -> VolumeSpec:
    claims = {(claim.namespace, claim.name): claim} if claim else {}
    pvs = {pv.name: pv} if pv else {}
    return volume_spec(pod, volume, lambda namespace, name: claims.get((namespace, name)), pvs.get)


def refusal(
    volume: Volume, claim: PersistentVolumeClaim | None = CLAIM, pv: PersistentVolume | None = PV
) -> ClaimError:
    with pytest.raises(ClaimError) as caught:
        resolve(volume, claim, pv)
    return caught.value


def test_a_volume_without_claim_is_its_own_spec():
    volume = Volume(name="cache", empty_dir=EmptyDirVolumeSource())
    assert resolve(volume, None, None) == VolumeSpec("cache", volume=volume)


def test_a_bound_claim_leads_to_its_volume():
    assert resolve(DATA) == VolumeSpec("pv-1", persistent_volume=PV)


def test_read_only_in_the_pod_is_kept():
    read_only = PersistentVolumeClaimVolumeSource(claim_name="data-web-0", read_only=True)
    assert resolve(Volume(name="data", persistent_volume_claim=read_only)).read_only


def test_a_missing_claim_is_named():
    error = refusal(DATA, claim=None)
    assert (error.reason, error.object) == ("ClaimNotFound", "PersistentVolumeClaim shop/data-web-0")


@pytest.mark.parametrize("phase", ["", "Pending", "Lost"])
def test_a_claim_that_is_not_bound_is_refused(phase: str):
    claim = msgspec.structs.replace(CLAIM, status=PersistentVolumeClaimStatus(phase=phase))
    assert refusal(DATA, claim).reason == "ClaimNotBound"


def test_a_claim_that_says_bound_but_names_no_volume_is_refused():
    claim = msgspec.structs.replace(CLAIM, spec=PersistentVolumeClaimSpec())
    assert refusal(DATA, claim).reason == "ClaimNotBound"


def test_a_missing_volume_is_named():
    error = refusal(DATA, pv=None)
    assert (error.reason, error.object) == ("VolumeNotFound", "PersistentVolume pv-1")


@pytest.mark.parametrize(
    "reference", [None, ObjectReference(namespace="shop", name="data-web-0", uid="older")]
)
def test_a_volume_that_belongs_to_another_claim_of_the_same_name_is_refused(
    reference: ObjectReference | None,
):
    pv = msgspec.structs.replace(PV, spec=PersistentVolumeSpec(claim_ref=reference))
    assert refusal(DATA, pv=pv).reason == "VolumeNotOfClaim"


def test_an_ephemeral_volume_has_a_claim_named_after_pod_and_volume():
    assert claim_name(POD, SCRATCH) == "web-0-scratch"


def owned_by(uid: str, controller: bool = True) -> PersistentVolumeClaim:
    owner = OwnerReference(kind="Pod", name="web-0", uid=uid, controller=controller)
    metadata = ObjectMeta(name="web-0-scratch", namespace="shop", uid="claim-uid", owner_references=(owner,))
    return msgspec.structs.replace(CLAIM, metadata=metadata)


def test_an_ephemeral_volume_uses_the_claim_made_for_its_pod():
    assert resolve(SCRATCH, owned_by("pod-uid")).name == "pv-1"


@pytest.mark.parametrize("claim", [owned_by("another pod"), owned_by("pod-uid", controller=False)])
def test_an_ephemeral_volume_never_uses_somebody_elses_claim(claim: PersistentVolumeClaim):
    assert refusal(SCRATCH, claim).reason == "ClaimNotOwned"


def deleted(*finalizers: str) -> PersistentVolumeClaim:
    metadata = ObjectMeta(
        name="c", namespace="shop", deletion_timestamp="2030-01-01T00:00:00Z", finalizers=finalizers
    )
    return PersistentVolumeClaim(metadata=metadata)


def test_a_claim_that_is_being_deleted_is_mounted_anew_only_while_it_is_protected():
    refuse_being_deleted(deleted("kubernetes.io/pvc-protection"))
    with pytest.raises(ClaimError, match="is being deleted"):
        refuse_being_deleted(deleted("example.com/other"))


BLOCK = msgspec.structs.replace(PV, spec=PersistentVolumeSpec(volume_mode="Block"))
MOUNTS = Container(name="c", volume_mounts=(VolumeMount(name="data", mount_path="/data"),))
DEVICES = Container(name="c", volume_devices=(VolumeDevice(name="data", device_path="/dev/data"),))


def refusal_of_use(pv: PersistentVolume, spec: PodSpec) -> str:
    """The reason for which a pod cannot use the volume; "" if it can."""
    try:
        refuse_wrong_use(msgspec.structs.replace(POD, spec=spec), DATA, VolumeSpec.of_persistent_volume(pv))
    except ClaimError as error:
        return error.reason
    return ""


@pytest.mark.parametrize(("pv", "container"), [(BLOCK, MOUNTS), (PV, DEVICES)])
def test_a_device_cannot_be_mounted_nor_a_file_system_be_a_device(pv: PersistentVolume, container: Container):
    for spec in (PodSpec(containers=(container,)), PodSpec(init_containers=(container,))):
        assert refusal_of_use(pv, spec) == "VolumeModeMismatch"


@pytest.mark.parametrize(("pv", "container"), [(PV, MOUNTS), (BLOCK, DEVICES)])
def test_each_kind_of_volume_can_be_used_as_what_it_is(pv: PersistentVolume, container: Container):
    assert refusal_of_use(pv, PodSpec(containers=(container,))) == ""


def a_user(created: str = "2026-01-01T00:00:10Z", node: str = "n", phase: str = "Running") -> Pod:
    return msgspec.structs.replace(
        POD,
        metadata=ObjectMeta(name="web-0", namespace="shop", creation_timestamp=created),
        spec=PodSpec(node_name=node, volumes=(DATA,)),
        status=PodStatus(phase=phase),
    )


@pytest.mark.parametrize(("pod", "counts"), [
    (a_user(), True),
    (a_user(node=""), False),
    (a_user(phase="Succeeded"), False),
    (a_user(phase="Unknown"), True),
])  # fmt: skip
def test_which_pods_may_have_mounted_a_claims_volume(pod: Pod, counts: bool):
    assert users_of_claim("shop/data-web-0", [pod]) == ([pod] if counts else [])
    assert users_of_claim("shop/another", [pod]) == []


@pytest.mark.parametrize(("successor_born", "attached", "counts"), [
    (None, True, True),
    ("2026-01-01T00:00:09Z", False, False),
    ("2026-01-01T00:00:10Z", False, True),
    ("2026-01-01T00:00:10Z", True, False),
    ("2026-01-01T00:00:11Z", True, False),
    ("2026-01-01T00:00:11Z", False, True),
])  # fmt: skip
def test_which_of_them_have_the_volume_of_the_claim_that_is_gone(
    successor_born: str | None, attached: bool, counts: bool
):
    metadata = ObjectMeta(name="data-web-0", namespace="shop", creation_timestamp=successor_born)
    successor = msgspec.structs.replace(CLAIM, metadata=metadata) if successor_born else None
    assert not_of_successor([a_user()], successor, attached=attached) == ([a_user()] if counts else [])
