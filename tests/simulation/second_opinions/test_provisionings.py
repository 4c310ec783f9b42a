"""Second opinions about volumes that are made and reclaimed: none to what is right, one to each kind of wrong
answer."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock, create_autospec

import hypothesis.strategies as st
import msgspec
import pytest
from claims_and_volumes import claim, volume
from hypothesis import given
from msgspec.structs import replace

from mooring.controllers.provisioning import controller
from mooring.controllers.provisioning.decide import (
    ClaimAction,
    VolumeAction,
    decide_claim,
    decide_volume,
    finalizer_of,
    is_held,
    made_by,
    volume_name,
)
from mooring.controllers.provisioning.reclaim import Reclaimer, has_no_claim, may_have_mounted
from mooring.kube.decision import Decision
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from mooring.kube.objects.volumes import AWSElasticBlockStoreVolumeSource, CSIPersistentVolumeSource
from mooring.kube.reason import Reason
from mooring.simulation.checks.second_opinions import provisionings, reclaiming
from mooring.volumes.claims import users_of_claim
from mooring.volumes.interfaces import (
    ContentSource,
    DeletableVolumePlugin,
    SnapshottableVolumePlugin,
    VolumePlugin,
)
from mooring.volumes.reclaim import to_be_reclaimed

WHY = Reason("Any", "words")
DISK, EBS, OTHER = "example.com/disk", "ebs.csi.aws.com", "other.example.com"
OURS = {DISK, EBS}
CLASSES = {
    name: StorageClass(metadata=ObjectMeta(name="disk"), provisioner=name, volume_binding_mode=mode)
    for name, mode in (
        (DISK, "Immediate"),
        ("kubernetes.io/aws-ebs", "WaitForFirstConsumer"),
        (OTHER, "Immediate"),
    )
}
NOW, LATE, FOREIGN = CLASSES.values()


def asked_for(
    provisioner: str | None, *, selected: bool = False, bound: bool = False, begun: bool = False,
    deleting: bool = False, **spec: Any,
) -> PersistentVolumeClaim:  # fmt: skip
    annotations = {
        **({"volume.kubernetes.io/storage-provisioner": provisioner} if provisioner else {}),
        **({"volume.kubernetes.io/selected-node": "n"} if selected else {}),
        **({"pv.kubernetes.io/bind-completed": "yes"} if bound else {}),
    }
    given_claim = claim(annotations=annotations, **spec)
    finalizers = ("mooring.dev/provisioning",) if begun else ()
    metadata = replace(
        given_claim.metadata, finalizers=finalizers, deletion_timestamp="t" if deleting else None
    )
    return replace(given_claim, metadata=metadata)


BOOLEANS = st.booleans()
RARELY = st.sampled_from((False, False, False, True))
CLAIMS = st.builds(
    asked_for,
    st.sampled_from((DISK, EBS, OTHER, None)),
    selected=BOOLEANS,
    bound=RARELY,
    begun=BOOLEANS,
    deleting=RARELY,
    volume_name=st.sampled_from(("", "", "", "pv")),
)


@given(CLAIMS, st.sampled_from((None, NOW, LATE, FOREIGN)), RARELY)
def test_what_is_decided_about_a_claim_is_not_objected_to(
    given_claim: PersistentVolumeClaim, of_class: StorageClass | None, made: bool
):
    answer = decide_claim(given_claim, of_class, OURS, made=made)
    assert [*provisionings.of_claim(answer, given_claim, of_class, OURS, made=made)] == []


SETTLED, PROVISION, FINISH, ASK = (
    ClaimAction.SETTLED,
    ClaimAction.PROVISION,
    ClaimAction.FINISH,
    ClaimAction.ASK,
)


@pytest.mark.parametrize(
    ("given_claim", "of_class", "made", "wrong"),
    [
        (asked_for(DISK), NOW, False, SETTLED),
        (asked_for(DISK), NOW, True, PROVISION),
        (asked_for(DISK), NOW, True, FINISH),
        (asked_for(DISK), None, False, ASK),
        (asked_for(None), NOW, False, PROVISION),
        (asked_for(EBS), NOW, False, PROVISION),
        (asked_for(OTHER), FOREIGN, False, PROVISION),
        (asked_for(DISK, deleting=True), NOW, False, PROVISION),
        (asked_for(DISK, bound=True), NOW, False, PROVISION),
        (asked_for(DISK, volume_name="pv"), NOW, False, PROVISION),
        (asked_for(EBS), LATE, False, PROVISION),
        (asked_for(EBS, selected=True), LATE, False, SETTLED),
        (asked_for(DISK, begun=True), NOW, True, SETTLED),
        (asked_for(DISK, begun=True, deleting=True), NOW, False, SETTLED),
        (asked_for(DISK, begun=True), None, False, SETTLED),
        (asked_for(DISK, begun=True), FOREIGN, False, SETTLED),
        (asked_for(DISK, begun=True), FOREIGN, False, PROVISION),
        (asked_for(OTHER, begun=True), FOREIGN, False, PROVISION),
        (asked_for(OTHER, begun=True), NOW, False, ASK),
        (asked_for(None, begun=True), NOW, False, SETTLED),
    ],
)
def test_what_is_not_to_be_done_about_a_claim_is_objected_to(
    given_claim: PersistentVolumeClaim, of_class: StorageClass | None, made: bool, wrong: ClaimAction
):
    assert [*provisionings.of_claim(Decision(wrong, WHY), given_claim, of_class, OURS, made=made)]


STARTED = "mooring.dev/provisioning"
PLUGINS, DRIVERS = "mooring.dev/provisioned", "external-provisioner.volume.kubernetes.io/finalizer"


def of_maker(
    maker: str = DISK, *, policy: str = "Delete", phase: str = "Released", held: str = "",
    deleting: bool = False, **given_volume: Any,
) -> PersistentVolume:  # fmt: skip
    pv = volume(phase=phase, deleting=deleting, persistent_volume_reclaim_policy=policy, **given_volume)
    annotations = {"pv.kubernetes.io/provisioned-by": maker} if maker else {}
    finalizers = (held,) if held else ()
    return replace(pv, metadata=replace(pv.metadata, annotations=annotations, finalizers=finalizers))


VOLUMES = st.builds(
    of_maker,
    st.sampled_from((DISK, EBS, "kubernetes.io/aws-ebs", OTHER, "")),
    policy=st.sampled_from(("Delete", "Delete", "Retain", "Recycle")),
    phase=st.sampled_from(("Available", "Bound", "Released", "Failed")),
    held=st.sampled_from((PLUGINS, DRIVERS, "")),
    deleting=BOOLEANS,
    to=st.sampled_from((None, "", "u")),
)


@given(VOLUMES, st.sampled_from((None, True, False)), st.none() | CLAIMS)
def test_what_is_decided_about_a_volume_is_not_objected_to(
    pv: PersistentVolume, deletable: bool | None, given_claim: PersistentVolumeClaim | None
):
    answer = decide_volume(pv, OURS, deletable=deletable)
    assert [*provisionings.of_volume(answer, pv, OURS, deletable=deletable)] == []
    for opinion, real in (
        (reclaiming.of_held, is_held(pv)),
        (reclaiming.of_mark, to_be_reclaimed(pv)),
    ):
        assert ([*opinion(real, pv)], len([*opinion(not real, pv)])) == ([], 1)
    gone = has_no_claim(pv, given_claim)
    assert [*reclaiming.of_end(gone, pv, given_claim)] == []
    assert [*reclaiming.of_end(not gone, pv, given_claim)]


KEEP, DELETE, RECYCLE, FAIL, RELEASE = (
    VolumeAction.KEEP,
    VolumeAction.DELETE,
    VolumeAction.RECYCLE,
    VolumeAction.FAIL,
    VolumeAction.RELEASE,
)


@pytest.mark.parametrize(
    ("pv", "deletable", "wrong"),
    [
        (of_maker(), None, KEEP),
        (of_maker(phase="Bound"), None, DELETE),
        (of_maker(OTHER), None, DELETE),
        (of_maker(OTHER), True, DELETE),
        (of_maker("kubernetes.io/aws-ebs"), None, KEEP),
        (of_maker(policy="Retain"), None, DELETE),
        (of_maker(""), None, DELETE),
        (of_maker(""), None, FAIL),
        (of_maker(""), True, KEEP),
        (of_maker(""), False, KEEP),
        (of_maker("", phase="Failed"), False, FAIL),
        (of_maker("", policy="Recycle"), None, KEEP),
        (of_maker(policy="Recycle", phase="Bound"), None, RECYCLE),
        (of_maker(policy="Retain", held=PLUGINS, deleting=True), None, KEEP),
        (of_maker(policy="Retain", held=PLUGINS), None, RELEASE),
        (of_maker(policy="Retain", deleting=True), None, RELEASE),
        (of_maker(EBS, policy="Retain", held=PLUGINS, deleting=True), None, RELEASE),
        (of_maker(OTHER, policy="Retain", held=DRIVERS, deleting=True), None, RELEASE),
        (of_maker(phase="Bound", held=PLUGINS, deleting=True), None, RELEASE),
    ],
)
def test_what_is_not_to_be_done_about_a_volume_is_objected_to(
    pv: PersistentVolume, deletable: bool | None, wrong: VolumeAction
):
    assert [*provisionings.of_volume(Decision(wrong, WHY), pv, OURS, deletable=deletable)]


@pytest.mark.parametrize("maker", [DISK, EBS, "kubernetes.io/aws-ebs", ""])
def test_names_of_makers_and_finalizers_are_right_and_others_objected_to(maker: str):
    pv = of_maker(maker)
    assert [*reclaiming.of_maker(made_by(pv), pv)] == []
    assert [*reclaiming.of_maker(OTHER, pv)]
    right = finalizer_of(made_by(pv))
    assert [*reclaiming.of_finalizer(right, made_by(pv))] == []
    assert [*reclaiming.of_finalizer(PLUGINS if right == DRIVERS else DRIVERS, made_by(pv))]


def test_a_volume_of_another_name_than_its_claims_uid_is_objected_to():
    assert [*provisionings.of_name(volume_name(claim()), claim())] == []
    assert [*provisionings.of_name("pvc-c", claim())]


def plugin(*, deletes: bool = True, supports: bool = True) -> Any:
    made = create_autospec(DeletableVolumePlugin if deletes else VolumePlugin, instance=True)
    made.can_support.return_value = supports
    return made


CSI = volume(csi=CSIPersistentVolumeSource(driver=EBS, volume_handle="h"))
AWS = volume(aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(volume_id="h"))


@pytest.mark.parametrize(
    ("pv", "static", "plugins", "right"),
    [
        (volume(), True, [plugin()], True),
        (volume(), True, [plugin(), plugin(supports=False)], True),
        (volume(), True, [plugin(deletes=False)], False),
        (volume(), True, [plugin(supports=False)], False),
        (volume(), False, [plugin()], None),
        (CSI, True, [plugin()], None),
        (AWS, True, [plugin()], None),
    ],
)
def test_whether_a_plugin_deletes_a_volume_is_right_and_other_answers_objected_to(
    pv: PersistentVolume, static: bool, plugins: list[Any], right: bool | None
):
    asked = Mock(_static_volumes=static, _plugins=Mock(plugins=plugins))
    for answer in (True, False, None):
        assert bool([*provisionings.of_deletable(answer, asked, pv)]) == (answer is not right)


def made(name: str = "pvc-u", *, maker: str = DISK, size: str = "1Gi", **spec: Any) -> PersistentVolume:
    given_spec: dict[str, Any] = {"policy": "Delete", "mount_options": ("ro",), **spec}
    return of_maker(maker, name=name, size=size, **given_spec)


@pytest.mark.parametrize(
    ("answer", "objected"),
    [
        (made(), 0),
        (made(size="2Gi", access_modes=("ReadWriteOnce", "ReadOnlyMany")), 0),
        (made("pvc-other"), 1),
        (made(maker=EBS), 1),
        (made(storage_class_name=""), 1),
        (made(policy="Retain"), 1),
        (made(mount_options=()), 1),
        (made(volume_mode="Block"), 1),
        (made(access_modes=("ReadOnlyMany",)), 1),
        (made(volume_attributes_class_name="x"), 1),
        (made(size="1Mi"), 1),
    ],
)
def test_a_volume_that_is_made_otherwise_is_objected_to(answer: PersistentVolume, objected: int):
    of_class = replace(NOW, mount_options=("ro",))
    assert len([*provisionings.of_made(answer, None, claim(), of_class)]) == objected


def test_a_raw_device_needs_no_mount_options():
    of_class = replace(NOW, mount_options=("ro",))
    answer = made(volume_mode="Block", mount_options=())
    assert [*provisionings.of_made(answer, None, claim(volume_mode="Block"), of_class)] == []


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
@pytest.mark.parametrize("maker", [DISK, EBS])
def test_the_body_of_what_was_made_is_not_objected_to(maker: str, policy: str):
    pv = made(maker=maker, policy=policy, held="example.com/own")
    assert [*provisionings.of_body(controller.body_of(pv, claim()), pv, claim())] == []


@pytest.mark.parametrize(
    ("policy", "part", "change"),
    [
        ("Delete", "spec", {"claimRef": {"namespace": "ns", "name": "c", "uid": "other"}}),
        ("Delete", "spec", {"claimRef": None}),
        ("Delete", "metadata", {"finalizers": []}),
        ("Delete", "metadata", {"finalizers": [DRIVERS]}),
        ("Retain", "metadata", {"finalizers": [PLUGINS]}),
        ("Delete", "metadata", {"annotations": {}}),
        ("Delete", "spec", {"capacity": {}}),
    ],
)
def test_a_body_that_is_not_of_the_claim_or_not_held_is_objected_to(
    policy: str, part: str, change: dict[str, Any]
):
    pv = made(policy=policy)
    body = controller.body_of(pv, claim())
    body[part] |= change
    assert len([*provisionings.of_body(body, pv, claim())]) == 1


SIGNED_BY = "mooring.dev/provisioning-asked-by"
NO_NODE: dict[str, str | None] = {"volume.kubernetes.io/selected-node": None}
UNSIGNED: dict[str, str | None] = {SIGNED_BY: None}


@pytest.mark.parametrize(
    ("signed", "finalizers", "annotations", "objected"),
    [
        ("", [STARTED], {SIGNED_BY: "7"}, 0),
        ("3", [STARTED], {SIGNED_BY: "3 7"}, 0),
        ("1 2 3 4 5 6 5 6", [STARTED], {SIGNED_BY: "2 3 4 5 6 5 6 7"}, 0),
        ("3 5", [STARTED], {SIGNED_BY: "3 7"}, 0),
        ("3 5", [STARTED], {SIGNED_BY: "3 5 7"}, 0),
        ("3 5", [STARTED], {SIGNED_BY: "3"}, 0),
        ("3 5", [STARTED], {SIGNED_BY: "5 7"}, 1),
        ("3 5", [STARTED], {SIGNED_BY: "5"}, 1),
        ("3", [], UNSIGNED, 0),
        ("3", [], UNSIGNED | NO_NODE, 0),
        ("3", [STARTED], {SIGNED_BY: "7"}, 1),
        ("3", [STARTED], {SIGNED_BY: "3"}, 1),
        ("3", [STARTED], {SIGNED_BY: "3 7"} | NO_NODE, 1),
        ("", [STARTED], {}, 1),
        ("", [], UNSIGNED, 1),
        ("3", ["other"], UNSIGNED, 1),
        ("3", [STARTED, "other"], {SIGNED_BY: "3 7"}, 1),
        ("", [STARTED], {SIGNED_BY: "7"} | NO_NODE, 1),
        ("3", [], {}, 1),
        ("3", [], NO_NODE, 1),
    ],
)
def test_finalizers_of_a_claim_that_come_or_go_by_mistake_are_objected_to(
    signed: str, finalizers: list[str], annotations: dict[str, str | None], objected: int
):
    given_claim = asked_for(DISK, begun=bool(signed))
    metadata = replace(given_claim.metadata, annotations={SIGNED_BY: signed}, resource_version="7")
    given_claim = replace(given_claim, metadata=metadata)
    found = provisionings.of_finalizers(given_claim, "5", None, given_claim, finalizers, annotations)
    assert len([*found]) == objected


def test_a_volume_that_is_released_and_still_held_is_objected_to():
    held, free = of_maker(held=PLUGINS), of_maker()
    assert [*reclaiming.of_release(free, None, held)] == [*reclaiming.of_release(free, None, free)] == []
    assert [*reclaiming.of_release(held, None, held)]
    assert [*reclaiming.of_release(free, None, of_maker(held="example.com/own"))]


SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
COPY = {"kind": "PersistentVolumeClaim", "name": "original"}
DISK_1, SNAP_1 = ContentSource(volume="disk-1"), ContentSource(snapshot="snap-1")


def of_copy(answer: ContentSource | None, copy: Any, claims: Any, volumes: Any, plugin: Any) -> list[str]:
    original = provisionings.original_of(None, copy, claims, volumes, plugin)
    return [*provisionings.of_content(answer, original, None, copy, claims, volumes, plugin, None)]


@pytest.mark.parametrize(
    ("source", "answer", "objected"),
    [
        (None, None, False),
        (None, DISK_1, True),
        (SNAPSHOT, SNAP_1, False),
        (SNAPSHOT, None, True),
        (SNAPSHOT, DISK_1, True),
        (SNAPSHOT | {"namespace": "ns"}, SNAP_1, False),
        (SNAPSHOT | {"namespace": "other"}, SNAP_1, True),
        ({"kind": "Other", "name": "s"}, SNAP_1, True),
        (COPY, DISK_1, False),
        (COPY, ContentSource(volume="disk-2"), True),
        (COPY, None, True),
        (COPY | {"name": "absent"}, DISK_1, True),
    ],
)
@pytest.mark.parametrize("field", ["data_source", "data_source_ref"])
def test_other_content_than_the_claims_source_is_objected_to(
    field: str, source: Any, answer: ContentSource | None, objected: bool
):
    copied = create_autospec(SnapshottableVolumePlugin, instance=True)
    copied.can_support.return_value = True
    copied.get_volume_name.return_value = "disk-1"
    claims, volumes = {"ns/original": claim(volume_name="pv")}, {"pv": volume(to="u")}
    given_claim = claim(**{field: source})
    assert bool(of_copy(answer, given_claim, claims, volumes, copied)) == objected


def test_a_copy_of_what_is_on_another_storage_is_objected_to():
    copied = create_autospec(SnapshottableVolumePlugin, instance=True)
    copied.can_support.return_value = False
    copied.get_volume_name.return_value = "disk-1"
    claims, volumes = {"ns/original": claim(volume_name="pv")}, {"pv": volume(to="u")}
    assert of_copy(DISK_1, claim(data_source=COPY), claims, volumes, copied)


def test_an_original_that_is_made_anew_while_its_volume_is_read_is_judged_as_it_was():
    copied = create_autospec(SnapshottableVolumePlugin, instance=True)
    copied.get_volume_name.return_value = "disk-1"
    copy, original, volumes = claim(data_source=COPY), claim(volume_name="pv"), {"pv": volume(to="u")}
    anew = {"ns/original": claim(volume_name="pv-2")}
    assert not [*provisionings.of_content(DISK_1, original, None, copy, anew, volumes, copied, None)]
    assert [*provisionings.of_content(DISK_1, anew["ns/original"], None, copy, anew, volumes, copied, None)]


@pytest.mark.parametrize("to", [None, "", "other"])
def test_a_copy_of_a_volume_that_is_not_the_claims_is_objected_to(to: str | None):
    copied = create_autospec(SnapshottableVolumePlugin, instance=True)
    copied.get_volume_name.return_value = "disk-1"
    claims, volumes = {"ns/original": claim(volume_name="pv")}, {"pv": volume(to=to)}
    assert of_copy(DISK_1, claim(data_source=COPY), claims, volumes, copied)


def test_the_claims_of_a_class_are_marked_and_no_others():
    asked = Mock(_claims=Mock(items=Mock(return_value=[claim(), claim(storage_class_name="x")])))
    assert [*provisionings.of_claims_of_class([ClaimKey("ns/c")], asked, NOW)] == []
    assert [*provisionings.of_claims_of_class([], asked, NOW)]


def record(pv: str | None, node: str = "n") -> VolumeAttachment:
    fields = {"spec": {"nodeName": node, "source": {"persistentVolumeName": pv}}}
    return msgspec.convert(fields, VolumeAttachment)


@pytest.mark.parametrize(("pv", "wrong"), [("pv", []), (None, [VolumeKey("")]), ("pv", [VolumeKey("x")])])
def test_the_volume_of_an_attachment_is_marked_and_no_other(pv: str | None, wrong: list[VolumeKey]):
    real = vars(controller)["_volumes_of"](record(pv))
    assert [*provisionings.of_attachment(real, record(pv))] == []
    assert [*provisionings.of_attachment(wrong, record(pv))]


def test_the_nodes_that_have_a_volume_are_known_all_and_no_others():
    asked = Mock(_attachments=Mock(items=Mock(return_value=[record("pv"), record("pv", "m"), record("x")])))
    assert [*reclaiming.of_known_nodes(["m", "n"], asked, volume())] == []
    assert [*reclaiming.of_known_nodes(["n"], asked, volume())]
    assert "_known_nodes" in vars(Reclaimer)


def pod(*, claimed: str = "c", node: str = "n", phase: str = "Running", born: str = "2") -> Pod:
    fields = {
        "metadata": {"name": "pod", "namespace": "ns", "creationTimestamp": born},
        "spec": {
            "nodeName": node,
            "volumes": [
                {"name": "own", "ephemeral": {}},
                {"name": "x", "persistentVolumeClaim": {"claimName": claimed}},
            ],
        },
        "status": {"phase": phase},
    }
    return msgspec.convert(fields, Pod)


PODS = st.lists(
    st.builds(
        pod,
        claimed=st.sampled_from(("c", "other")),
        node=st.sampled_from(("n", "")),
        phase=st.sampled_from(("Running", "Pending", "Failed", "Succeeded")),
        born=st.sampled_from("123"),
    ),
    max_size=3,
    unique_by=str,
)


@given(PODS, st.sampled_from(("ns/c", "ns/pod-own", "other/c")))
def test_who_uses_a_claim_is_right_and_other_answers_objected_to(pods: list[Pod], key: str):
    real = users_of_claim(key, pods)
    assert [*reclaiming.of_users(real, key, pods)] == []
    for each in pods:
        wrong = [other for other in real if other != each] if each in real else [*real, each]
        assert len([*reclaiming.of_users(wrong, key, pods)]) == 1


@given(PODS, st.sampled_from((None, "1", "2", "3")), st.sampled_from(("u", "v")), BOOLEANS)
def test_who_may_have_the_volume_is_right_and_other_answers_objected_to(
    pods: list[Pod], born: str | None, uid: str, attached: bool
):
    metadata = ObjectMeta(name="c", namespace="ns", uid=uid, creation_timestamp=born)
    asked = pods, volume(to="u"), PersistentVolumeClaim(metadata=metadata) if born else None
    real = may_have_mounted(*asked, attached=attached)
    assert [*reclaiming.of_former_users(real, *asked, attached=attached)] == []
    for each in pods:
        wrong = [other for other in real if other != each] if each in real else [*real, each]
        assert len([*reclaiming.of_former_users(wrong, *asked, attached=attached)]) == 1


@pytest.mark.parametrize(
    ("attached", "delayed", "objected"), [(True, True, 1), (True, False, 0), (False, True, 0)]
)
def test_a_volume_that_is_looked_at_again_while_it_is_attached_is_objected_to(
    attached: bool, delayed: bool, objected: int
):
    attachments = Mock(items=Mock(return_value=[record("pv")] if attached else [record("x")]))
    queue = Mock(is_delayed=Mock(return_value=delayed))
    asked = Mock(_reclaimer=Mock(_attachments=attachments), queue=queue)
    assert len([*reclaiming.of_what_is_left(None, False, asked, volume("pv"))]) == objected
