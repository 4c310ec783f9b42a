"""Second opinions about claims and volumes: none to what is right, one to each kind of wrong answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import hypothesis.strategies as st
import msgspec
import pytest
from claims_and_volumes import claim, volume
from hypothesis import given
from msgspec.structs import replace

from mooring.controllers.binding import controller
from mooring.controllers.binding.controller import BindingController
from mooring.controllers.binding.decide import (
    Action,
    ClaimDecision,
    VolumeAction,
    VolumeDecision,
    decide_claim,
    decide_volume,
    resizer_of,
)
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import (
    LabelSelector,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    Pod,
    StorageClass,
    Volume,
)
from mooring.kube.objects.meta import LabelSelectorRequirement
from mooring.kube.objects.pods import PodSpec
from mooring.kube.objects.volumes import (
    AWSElasticBlockStoreVolumeSource,
    CSIPersistentVolumeSource,
    GCEPersistentDiskVolumeSource,
)
from mooring.kube.reason import Reason
from mooring.simulation.checks.second_opinions import binding_writes, bindings
from mooring.volumes.default_class import default_class
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.matching import unbound

WHY = Reason("Any", "words")
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = {"volume.kubernetes.io/selected-node": "n"}
BETA = {"volume.beta.kubernetes.io/storage-class": ""}
NOW = StorageClass(metadata=ObjectMeta(name="disk"), provisioner="d.example.com")
LATE = replace(NOW, volume_binding_mode="WaitForFirstConsumer")
NONE = replace(NOW, provisioner="kubernetes.io/no-provisioner")
RW, RO = "ReadWriteOnce", "ReadOnlyMany"
OTHER = ObjectReference(namespace="ns", name="other", uid="o")


def selector(operator: str, *values: str, **labels: str) -> LabelSelector:
    return LabelSelector(
        match_labels=labels,
        match_expressions=(LabelSelectorRequirement(key="zone", operator=operator, values=values),),
    )


SELECTORS = st.sampled_from(
    (
        None,
        None,
        LabelSelector(match_labels={"zone": "a"}),
        selector("In", "a", "b"),
        selector("NotIn", "a"),
        selector("Exists", tier="x"),
        selector("DoesNotExist"),
    )
)
MODES = st.sampled_from(((RW,), (RW,), (RW, RO)))
CLAIMS = st.builds(
    claim,
    annotations=st.sampled_from(({}, {}, BOUND, SELECTED, BETA)),
    size=st.sampled_from(("1Gi", "1Gi", "1500Mi")),
    uid=st.sampled_from(("u", "v")),
    storage_class_name=st.sampled_from(("disk", "disk", "", None)),
    volume_name=st.sampled_from(("", "", "pv0")),
    volume_mode=st.sampled_from(("Filesystem", "Filesystem", "Block")),
    access_modes=MODES,
    selector=SELECTORS,
    volume_attributes_class_name=st.sampled_from((None, None, "", "gold")),
)


def listed(volumes: list[PersistentVolume]) -> list[PersistentVolume]:
    """Each with a name of its own."""
    return [replace(pv, metadata=replace(pv.metadata, name=f"pv{n}")) for n, pv in enumerate(volumes)]


def one_volume(
    finalizers: tuple[str, ...], annotations: dict[str, str], **given_volume: Any
) -> PersistentVolume:
    pv = volume(**given_volume)
    return replace(pv, metadata=replace(pv.metadata, finalizers=finalizers, annotations=annotations))


MADE = {"pv.kubernetes.io/provisioned-by": "d.example.com"}
CHOSEN = {"pv.kubernetes.io/bound-by-controller": "yes"}
VOLUME = st.builds(
    one_volume,
    st.sampled_from(
        ((), ("mooring.dev/provisioned",), ("external-provisioner.volume.kubernetes.io/finalizer",))
    ),
    st.sampled_from(({}, MADE, CHOSEN, MADE | CHOSEN)),
    size=st.sampled_from(("1Gi", "2Gi", "1073741823")),
    to=st.sampled_from((None, None, None, "", "u", "v")),
    phase=st.sampled_from(("Available", "Available", "Released", "Failed", "Bound")),
    deleting=st.sampled_from((False, False, False, True)),
    labels=st.sampled_from(({}, {"zone": "a"}, {"zone": "c", "tier": "x"})),
    storage_class_name=st.sampled_from(("disk", "disk", "")),
    volume_mode=st.sampled_from(("Filesystem", "Filesystem", "Block")),
    access_modes=MODES,
    volume_attributes_class_name=st.sampled_from((None, None, "gold")),
    persistent_volume_reclaim_policy=st.sampled_from(("Retain", "Delete")),
)
VOLUMES = st.lists(VOLUME, max_size=5).map(listed)
CLASSES = st.sampled_from((NOW, NOW, LATE, NONE, None))


@given(CLAIMS, VOLUMES, CLASSES, st.sampled_from((None, NOW)), st.sets(st.sampled_from(("pv0", "pv2"))))
def test_what_is_decided_about_a_claim_is_not_objected_to(
    given_claim: PersistentVolumeClaim,
    volumes: list[PersistentVolume],
    of_class: StorageClass | None,
    default: StorageClass | None,
    taken: set[str],
):
    named = next((pv for pv in volumes if pv.name == given_claim.spec.volume_name), None)
    asked = given_claim, named, FreeVolumes(volumes), of_class, default, taken
    assert [*bindings.of_claim(decide_claim(*asked), *asked)] == []


def bound_to(reference: ObjectReference) -> PersistentVolume:
    return volume("pv0", claim_ref=reference)


@pytest.mark.parametrize(
    ("given_claim", "volumes", "of_class", "wrong", "name"),
    [
        # Bound before.
        (claim(annotations=BOUND), [], None, Action.WAIT, None),
        (claim(annotations=BOUND, volume_name="pv0"), [], None, Action.WAIT, None),
        (claim(annotations=BOUND, volume_name="pv0"), [bound_to(OTHER)], None, Action.BIND, "pv0"),
        (claim(annotations=BOUND, volume_name="pv0"), [volume("pv0", to="x")], None, Action.BIND, "pv0"),
        (claim(annotations=BOUND, volume_name="pv0"), [volume("pv0", to="u")], None, Action.LOST, None),
        (claim(annotations=BOUND, volume_name="pv0"), [volume("pv0")], None, Action.LOST, None),
        # Names a volume.
        (claim(volume_name="pv0"), [], NOW, Action.PROVISION, None),
        (claim(volume_name="pv0"), [bound_to(OTHER)], NOW, Action.BIND, "pv0"),
        (claim(volume_name="pv0", size="2Gi"), [volume("pv0")], NOW, Action.BIND, "pv0"),
        (claim(volume_name="pv0"), [volume("pv0")], NOW, Action.WAIT, None),
        (claim(volume_name="pv0"), [volume("pv0", storage_class_name="x")], NOW, Action.BIND, "pv0"),
        (claim(volume_name="pv0"), [volume("pv0", storage_class_name="x", to="")], NOW, Action.WAIT, None),
        # Any volume that fits: of the same size, too.
        (claim(), [volume("pv0")], NOW, Action.PROVISION, None),
        (claim(), [volume("pv0")], LATE, Action.BIND, "pv0"),
        (claim(), [volume("pv0", to="")], LATE, Action.WAIT, None),
        (claim(), [volume("pv0", size="2Gi"), volume("pv1")], NOW, Action.BIND, "pv0"),
        (claim(), [volume("pv0", access_modes=(RW, RO)), volume("pv1")], NOW, Action.BIND, "pv0"),
        (claim(), [volume("pv0"), volume("pv1", to="u")], NOW, Action.BIND, "pv0"),
        (claim(), [volume("taken"), volume("pv1")], NOW, Action.BIND, "taken"),
        (claim(), [volume("pv0", size="1Mi")], NOW, Action.BIND, "pv0"),
        (claim(), [volume("pv0", storage_class_name="")], NOW, Action.BIND, "pv0"),
        (claim(), [volume("pv0", volume_mode="Block")], NOW, Action.BIND, "pv0"),
        (claim(), [volume("pv0", access_modes=(RO,))], NOW, Action.BIND, "pv0"),
        (claim(), [volume("pv0", volume_attributes_class_name="x")], NOW, Action.BIND, "pv0"),
        (claim(), [volume("pv0", deleting=True)], NOW, Action.BIND, "pv0"),
        (claim(), [volume("pv0", to="u", deleting=True)], NOW, Action.BIND, "pv0"),
        (claim(), [volume("pv0", phase="Released")], NOW, Action.BIND, "pv0"),
        (claim(), [bound_to(OTHER)], NOW, Action.BIND, "pv0"),
        (claim(selector=selector("In", "a")), [volume("pv0")], NOW, Action.BIND, "pv0"),
        (claim(selector=selector("NotIn", "a")), [volume("pv0")], NOW, Action.PROVISION, None),
        # Nothing fits.
        (claim(), [], NOW, Action.WAIT, None),
        (claim(), [], None, Action.PROVISION, None),
        (claim(), [], NONE, Action.PROVISION, None),
        (claim(), [], LATE, Action.PROVISION, None),
        (claim(annotations=SELECTED), [], LATE, Action.WAIT, None),
        (claim(storage_class_name=""), [], None, Action.ASSIGN_CLASS, None),
        (claim(storage_class_name=None), [], None, Action.WAIT, None),
        (claim(storage_class_name=None, annotations=BETA), [], None, Action.ASSIGN_CLASS, None),
    ],
)
def test_what_a_claim_is_not_to_get_is_objected_to(
    given_claim: PersistentVolumeClaim,
    volumes: list[PersistentVolume],
    of_class: StorageClass | None,
    wrong: Action,
    name: str | None,
):
    named = next((pv for pv in volumes if pv.name == given_claim.spec.volume_name), None)
    answer = ClaimDecision(wrong, WHY, next((pv for pv in volumes if pv.name == name), None), normal=True)
    asked = given_claim, named, FreeVolumes(volumes), of_class, NOW, {"taken"}
    assert any("and not" in each for each in bindings.of_claim(answer, *asked))


@pytest.mark.parametrize(
    ("given_claim", "of_class", "wrong"),
    [
        (claim(storage_class_name=""), None, False),
        (claim(), LATE, False),
        (claim(), NONE, False),
        (claim(), None, True),
        (claim(volume_name="pv"), NOW, True),
    ],
)
def test_a_wait_that_is_told_as_an_error_or_is_one_and_not_told_so_is_objected_to(
    given_claim: PersistentVolumeClaim, of_class: StorageClass | None, wrong: bool
):
    asked = given_claim, None, FreeVolumes(), of_class
    assert len([*bindings.of_claim(ClaimDecision(Action.WAIT, WHY, normal=wrong), *asked)]) == 1
    assert [*bindings.of_claim(ClaimDecision(Action.WAIT, WHY, normal=not wrong), *asked)] == []


HOLDERS = st.builds(
    claim,
    volume_name=st.sampled_from(("", "pv", "else")),
    volume_mode=st.sampled_from(("Filesystem", "Block")),
)


@given(VOLUME, st.none() | HOLDERS)
def test_what_is_decided_about_a_volume_is_not_objected_to(
    pv: PersistentVolume, given_claim: PersistentVolumeClaim | None
):
    if pv.spec.claim_ref is None or pv.spec.claim_ref.uid != "u":
        given_claim = None
    assert [*bindings.of_volume(decide_volume(pv, given_claim), pv, given_claim)] == []
    assert [*binding_writes.of_written_volume(pv, None, pv, unbound(pv))] == []


def made(annotations: dict[str, str], policy: str = "Delete", phase: str = "Bound") -> PersistentVolume:
    return one_volume((), annotations, to="u", phase=phase, persistent_volume_reclaim_policy=policy)


ELSEWHERE = claim(volume_name="else")


@pytest.mark.parametrize(
    ("pv", "given_claim", "action", "phase"),
    [
        (volume(), None, VolumeAction.PHASE, "Bound"),
        (volume(to=""), None, VolumeAction.PHASE, "Released"),
        (volume(to="u"), None, VolumeAction.PHASE, "Available"),
        (volume(to="u", phase="Failed"), None, VolumeAction.PHASE, "Released"),
        (volume(to="u"), claim(volume_name="pv"), VolumeAction.PHASE, "Released"),
        (volume(to="u"), claim(), VolumeAction.PHASE, "Bound"),
        (volume(to="u"), claim(), VolumeAction.MISMATCH, ""),
        (volume(to="u"), claim(volume_mode="Block"), VolumeAction.CLAIM, ""),
        (made(MADE), ELSEWHERE, VolumeAction.UNBIND, ""),
        (made(MADE | CHOSEN), ELSEWHERE, VolumeAction.PHASE, "Released"),
        (made(MADE, "Retain"), ELSEWHERE, VolumeAction.PHASE, "Released"),
        (made({}), ELSEWHERE, VolumeAction.PHASE, "Released"),
        (volume(to="u"), claim(uid="v", volume_name="pv"), VolumeAction.PHASE, "Bound"),
    ],
)
def test_what_a_volume_is_not_is_objected_to(
    pv: PersistentVolume, given_claim: PersistentVolumeClaim | None, action: VolumeAction, phase: str
):
    assert [*bindings.of_volume(VolumeDecision(action, WHY, phase), pv, given_claim)]


def growing(asked_for: str, has: str, **source: Any) -> tuple[PersistentVolumeClaim, PersistentVolume]:
    status = PersistentVolumeClaimStatus(capacity={"storage": has})
    return replace(claim(size=asked_for), status=status), volume(**source)


AWS = {"aws_elastic_block_store": AWSElasticBlockStoreVolumeSource(volume_id="vol-1")}
GCE = {"gce_persistent_disk": GCEPersistentDiskVolumeSource(pd_name="x")}
CSI = {"csi": CSIPersistentVolumeSource(driver="ebs.csi.aws.com", volume_handle="vol-1")}


@pytest.mark.parametrize("source", [AWS, GCE, CSI])
@pytest.mark.parametrize(("asked_for", "has"), [("2Gi", "1Gi"), ("1Gi", "1Gi"), ("1Gi", "2Gi")])
def test_who_grows_a_volume_is_not_objected_to(source: dict[str, Any], asked_for: str, has: str):
    asked = growing(asked_for, has, **source)
    assert [*bindings.of_resizer(resizer_of(*asked), *asked)] == []


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        (growing("2Gi", "1Gi", **AWS), None),
        (growing("1Gi", "1Gi", **AWS), "ebs.csi.aws.com"),
        (growing("2Gi", "1Gi", **CSI), "ebs.csi.aws.com"),
        (growing("2Gi", "1Gi", **GCE), "ebs.csi.aws.com"),
    ],
)
def test_another_resizer_is_objected_to(asked: Any, wrong: str | None):
    assert [*bindings.of_resizer(wrong, *asked)]


def of_age(name: str, born: str | None, *, default: str = "", key: str = "storageclass") -> StorageClass:
    annotations = {f"{key}.kubernetes.io/is-default-class": default}
    return StorageClass(metadata=ObjectMeta(name=name, creation_timestamp=born, annotations=annotations))


DEFAULTS = st.lists(
    st.builds(
        of_age,
        st.sampled_from("abc"),
        st.sampled_from(("2030", "2031", None)),
        default=st.sampled_from(("true", "true", "false")),
        key=st.sampled_from(("storageclass", "storageclass.beta")),
    ),
    max_size=3,
    unique_by=lambda each: each.name,
)


@given(DEFAULTS)
def test_one_default_class_is_right_and_every_other_answer_objected_to(classes: list[StorageClass]):
    right = default_class(classes)
    assert [*bindings.of_default(right, classes)] == []
    assert all([*bindings.of_default(each, classes)] for each in (*classes, None) if each is not right)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("phase", "Pending"),
        ("accessModes", []),
        ("capacity", {}),
        ("capacity", {"storage": "2Gi"}),
        ("currentVolumeAttributesClassName", "x"),
    ],
)
def test_a_status_that_does_not_show_the_volume_is_objected_to(field: str, wrong: Any):
    pv = volume(size="2Gi")
    grown = {"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"}
    pv = replace(pv, metadata=replace(pv.metadata, annotations=grown))
    right: dict[str, Any] = vars(controller)["_bound_status"](pv)
    assert [*bindings.of_bound_status(right, pv)] == []
    assert [*bindings.of_bound_status({**right, field: wrong}, pv)]


def pod(*, node: str = "n", namespace: str = "ns", removed: bool = False, own: bool = False) -> Pod:
    """Names claim ns/c; or, with `own`, has its generic ephemeral volume: claim ns/pod-x."""
    source = {"ephemeral": {}} if own else {"persistentVolumeClaim": {"claimName": "c"}}
    times: dict[str, Any] = {"deletion_timestamp": "t", "deletion_grace_period_seconds": 0} if removed else {}
    return Pod(
        metadata=ObjectMeta(name="pod", namespace=namespace, **times),
        spec=PodSpec(node_name=node, volumes=(msgspec.convert({"name": "x", **source}, Volume),)),
    )


OWN = replace(claim(), metadata=ObjectMeta(name="pod-x", namespace="ns"))


@pytest.mark.parametrize(
    ("given_claim", "pods", "used"),
    [
        (claim(), [], False),
        (claim(), [pod()], True),
        (claim(), [pod(node="")], False),
        (claim(), [pod(node=""), pod()], True),
        (claim(), [pod(namespace="other")], False),
        (claim(), [pod(removed=True)], True),
        (OWN, [pod()], False),
        (OWN, [pod(own=True)], True),
        (OWN, [pod(own=True, removed=True)], False),
    ],
)
def test_who_uses_a_claim_is_right_and_the_contrary_objected_to(
    given_claim: PersistentVolumeClaim, pods: list[Pod], used: bool
):
    real = BindingController.__dict__["_used"](None, given_claim, pods)
    assert real == used
    assert [*bindings.of_use(used, None, given_claim, pods)] == []
    assert [*bindings.of_use(not used, None, given_claim, pods)]


IN_USE, PROTECTED = ("kubernetes.io/pvc-protection",), ("kubernetes.io/pv-protection",)
FREED = {
    "spec": {"claimRef": None},
    "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": None}},
}


KEPT = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}


def held(each: Any, finalizers: tuple[str, ...], *, deleting: bool = True, **metadata: Any) -> Any:
    metadata |= {"finalizers": finalizers, "deletion_timestamp": "t" if deleting else None}
    return replace(each, metadata=replace(each.metadata, **metadata))


def gives(name: str, *annotations: str, volume_name: str = "volumeName") -> dict[str, Any]:
    marks = {f"pv.kubernetes.io/{each}": "yes" for each in annotations}
    return {"metadata": {"annotations": marks}, "spec": {volume_name: name}}


def status(phase: str) -> dict[str, Any]:
    return {"status": {"phase": phase, "message": None}}


def finalizers(*rest: str) -> dict[str, Any]:
    return {"metadata": {"finalizers": [*rest] or None}}


@pytest.mark.parametrize(
    ("given_claim", "right", "wrong"),
    [
        (claim(), gives("pv", "bind-completed", "bound-by-controller"), gives("pv", "bind-completed")),
        (claim(), gives("pv", "bind-completed", "bound-by-controller"), gives("pv", "bound-by-controller")),
        (claim(volume_name="pv"), gives("pv", "bind-completed"), gives("x", "bind-completed")),
        (
            claim(volume_name="pv"),
            gives("pv", "bind-completed"),
            gives("pv", "bind-completed", "bound-by-controller"),
        ),
        (claim(annotations=BOUND), status("Bound"), status("Pending")),
        (claim(annotations=BOUND), status("Lost"), gives("pv", "bind-completed", volume_name="x")),
        (claim(), status("Pending"), status("Bound")),
        (claim(), status("Pending"), status("Lost")),
        (claim(storage_class_name=None), {"spec": {"storageClassName": "disk"}}, status("Lost")),
        (claim(), status("Pending"), {"spec": {"storageClassName": "other"}}),
        (held(claim(), ("x", *IN_USE)), finalizers("x"), finalizers()),
        (held(claim(), IN_USE), finalizers(), finalizers(*IN_USE)),
        (held(claim(), ("x",), deleting=False), finalizers("x", *IN_USE), finalizers(*IN_USE)),
    ],
)
def test_a_write_of_a_claim_that_says_what_is_not_so_is_objected_to(
    given_claim: PersistentVolumeClaim, right: dict[str, Any], wrong: dict[str, Any]
):
    assert [*binding_writes.of_written_claim(given_claim, None, given_claim, right, tell=False)] == []
    assert len([*binding_writes.of_written_claim(given_claim, None, given_claim, wrong, tell=False)]) == 1


def reserves(uid: str = "u", *, name: str = "c", chosen: bool = False) -> dict[str, Any]:
    reference = {"namespace": "ns", "name": name, "uid": uid}
    annotations = {"pv.kubernetes.io/bound-by-controller": "yes"} if chosen else {}
    return {"spec": {"claimRef": reference}, "metadata": {"annotations": annotations}}


@pytest.mark.parametrize(
    ("pv", "right", "wrong"),
    [
        (volume(), reserves(chosen=True), reserves()),
        (volume(to=""), reserves(), reserves(chosen=True)),
        (volume(to=""), reserves(), reserves(name="other")),
        (volume(to="v"), reserves("v"), reserves("u")),
        (volume(to="u"), status("Bound"), status("Available")),
        (volume(to="u", phase="Bound"), status("Released"), status("Bound")),
        (volume(to="", phase=""), status("Available"), status("Bound")),
        (volume(phase="Failed"), status("Available"), {"status": {"phase": "Available"}}),
        (held(volume(to="u"), (), annotations=CHOSEN), FREED, KEPT),
        (volume(to="u"), KEPT, FREED),
        (held(volume(), PROTECTED), finalizers(), finalizers("x")),
        (held(volume(), (), deleting=False), finalizers(*PROTECTED), finalizers()),
        (held(volume(), PROTECTED), finalizers(), finalizers(*PROTECTED)),
    ],
)
def test_a_write_of_a_volume_that_says_what_is_not_so_is_objected_to(
    pv: PersistentVolume, right: dict[str, Any], wrong: dict[str, Any]
):
    assert [*binding_writes.of_written_volume(pv, None, pv, right, tell=False)] == []
    assert len([*binding_writes.of_written_volume(pv, None, pv, wrong, tell=False)]) == 1


def test_a_bound_volume_that_loses_its_protection_is_objected_to():
    pv = held(volume(to="u", phase="Bound"), PROTECTED)
    assert len([*binding_writes.of_written_volume(pv, None, pv, finalizers())]) == 1


def binder(*known: Any, told: Reason | None = None) -> Any:
    """A binder that knows these objects, and has told this of the claim."""
    objects = {each.key: each for each in known}
    return Mock(_claims=objects, _volumes=objects, recorder=Mock(_last_reasons={("u", ""): told}))


def shows(phase: str, **fields: Any) -> PersistentVolumeClaim:
    status = PersistentVolumeClaimStatus(phase=phase, **fields)
    return replace(claim(annotations=BOUND, volume_name="pv"), status=status)


WAITS, LOSES = ClaimDecision(Action.WAIT, WHY), ClaimDecision(Action.LOST, WHY)


@pytest.mark.parametrize(
    ("given_claim", "known", "told", "objected"),
    [
        (shows("Pending"), shows("Pending"), WHY, 0),
        (shows("Pending"), shows("Pending"), None, 1),
        (shows("Lost"), shows("Pending"), WHY, 0),
        (shows("Lost"), None, WHY, 1),
        (shows("", access_modes=(RW,)), None, WHY, 1),
        (shows("", capacity={"storage": "1"}), None, WHY, 1),
    ],
)
def test_a_claim_that_waits_and_does_not_say_so_is_objected_to(
    given_claim: PersistentVolumeClaim,
    known: PersistentVolumeClaim | None,
    told: Reason | None,
    objected: int,
):
    asked = binder(known or given_claim, told=told)
    assert len([*binding_writes.of_waiting(None, asked, given_claim, WAITS)]) == objected


def test_a_claim_that_is_lost_and_does_not_say_so_is_objected_to():
    lost, bound = shows("Lost"), shows("Bound")
    assert [*binding_writes.of_losing(None, binder(lost, told=WHY), bound, LOSES)] == []
    for told in (None, WHY):  # as when it was lost before
        there = binder(bound, volume(to="u"), told=told)
        assert [*binding_writes.of_losing(None, there, bound, LOSES)] == []
    assert len([*binding_writes.of_losing(None, binder(lost), bound, LOSES)]) == 1
    assert len([*binding_writes.of_losing(None, binder(bound, told=WHY), bound, LOSES)]) == 1


def grown(
    phase: str = "Bound", *, names: str = "pv", resizer: str = "ebs.csi.aws.com"
) -> PersistentVolumeClaim:
    annotations = BOUND | {"volume.kubernetes.io/storage-resizer": resizer}
    return replace(
        claim(annotations=annotations, volume_name=names, size="2Gi"),
        status=PersistentVolumeClaimStatus(phase=phase, capacity={"storage": "1Gi"}),
    )


@pytest.mark.parametrize(
    ("given_claim", "pv", "objected"),
    [
        (grown(), volume(to="u", phase="Bound", **AWS), 0),
        (grown(resizer="other"), volume(to="u", phase="Bound", **AWS), 1),
        (grown("Pending"), volume(to="u", phase="Bound"), 1),
        (grown(names="other"), volume(to="u", phase="Bound"), 1),
        (grown(), volume(to="", phase="Bound"), 1),
        (grown(), volume(to="u"), 1),
        (claim(), volume(), 2),
    ],
)
def test_a_claim_that_is_not_bound_and_to_which_nothing_is_written_is_objected_to(
    given_claim: PersistentVolumeClaim, pv: PersistentVolume, objected: int
):
    assert len([*binding_writes.of_binding(None, binder(given_claim, pv), given_claim, pv)]) == objected
    assert [*binding_writes.of_binding(None, binder(), given_claim, pv)] == []


CACHES: Any = SimpleNamespace(
    _claims=SimpleNamespace(
        items=lambda: [
            claim(),
            replace(claim(volume_name="pv"), metadata=ObjectMeta(name="names", namespace="ns")),
            replace(claim(), metadata=ObjectMeta(name="bound", namespace="ns", annotations=BOUND)),
            replace(claim(storage_class_name=None), metadata=ObjectMeta(name="any", namespace="ns")),
        ]
    ),
    _volumes=SimpleNamespace(items=lambda: [volume("pv", to="u"), volume("free")]),
)
DEFAULT = replace(NOW, metadata=of_age("disk", None, default="true").metadata)


def keys(claims: str, *volumes: str) -> set[object]:
    return {*(ClaimKey(f"ns/{each}") for each in claims.split()), *map(VolumeKey, volumes)}


@pytest.mark.parametrize(
    ("opinion", "asked", "right"),
    [
        (binding_writes.of_changed_claim, (claim(),), keys("c", "pv")),
        (binding_writes.of_new_volume, (volume("pv", to="u"),), keys("c names", "pv")),
        (binding_writes.of_new_volume, (volume("free"),), keys("c names", "free")),
        (binding_writes.of_new_volume, (volume("free", phase="Released"),), keys("", "free")),
        (binding_writes.of_changed_volume, (volume("pv"), volume("pv", to="u")), keys("c names", "pv")),
        (binding_writes.of_changed_volume, (volume("x", to="u"), volume("x", phase="")), keys("c", "x")),
        (binding_writes.of_changed_volume, (volume("x", phase=""), volume("x")), keys("c names", "x")),
        (binding_writes.of_changed_class, (NOW,), keys("c names")),
        (binding_writes.of_changed_class, (DEFAULT,), keys("c names any")),
    ],
)
def test_each_key_that_is_marked_or_missing_by_mistake_is_objected_to(
    opinion: Any, asked: tuple[Any, ...], right: set[object]
):
    assert [*opinion(right, CACHES, *asked)] == []
    for each in right:
        assert len([*opinion(right - {each}, CACHES, *asked)]) == 1
    assert len([*opinion(right | {ClaimKey("ns/bound")}, CACHES, *asked)]) == 1


@pytest.mark.parametrize(
    ("pv", "chosen", "queued", "objected"),
    [
        (volume("pv", to="u", phase="Bound"), (), keys("", "pv"), 0),
        (volume("pv"), (), keys("c names", "pv"), 0),
        (volume("pv"), (), keys("", "pv"), 2),
        (volume("pv"), (), keys("c names", ""), 1),
        (volume("pv"), ("pv",), keys("c names", "pv"), 1),
    ],
)
def test_a_volume_that_stays_free_and_those_that_wait_for_it_are_looked_at_again(
    pv: PersistentVolume, chosen: tuple[str, ...], queued: set[object], objected: int
):
    asked = Mock(_claims=CACHES._claims, _volumes={"pv": pv}, _chosen=chosen, queue=queued)
    of_it = replace(claim(), metadata=ObjectMeta(name="bound", namespace="ns"))
    assert len([*binding_writes.of_an_end(None, asked, of_it, pv)]) == objected
