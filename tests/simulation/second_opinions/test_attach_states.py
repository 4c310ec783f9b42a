"""The second opinions about what the attach/detach controller knows, keeps in its caches and writes: none
about production's answers, one about each wrong one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from mooring.controllers.attachdetach import trimming
from mooring.controllers.attachdetach.decide import reported_volumes
from mooring.controllers.attachdetach.release import is_same_node
from mooring.controllers.attachdetach.state import (
    Attachment,
    Demand,
    NodeState,
    VolumeState,
    demands_of,
    is_usable,
)
from mooring.kube.objects import (
    AttachedVolume,
    Condition,
    CSIPersistentVolumeSource,
    ManagedFieldsEntry,
    ManagedMeta,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
    VolumeAttachment,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
)
from mooring.kube.objects.meta import OwnedFields
from mooring.kube.objects.storage import VolumeError
from mooring.simulation.checks.second_opinions import (
    SecondOpinions,
    attach_caches,
    attach_states,
    attach_writes,
)
from mooring.simulation.engine.trace import Trace
from mooring.volumes import names
from mooring.volumes.attachment_lock import Closed, Lock, annotation, is_current, lock_of
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.out_of_service import SEEN, TAINT
from mooring.volumes.spec import VolumeSpec

VOLUME = "example.com/disk/d1"
yes_or_no = st.booleans()

# --- nodes


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    annotations = {
        each: "t" for each in (SEEN, names.RECONSTRUCTED, attach_states.MANAGED) if draw(yes_or_no)
    }
    written = [
        ManagedFieldsEntry(
            manager=draw(st.sampled_from(["kubelet", "kubectl", "mooring"])),
            subresource=draw(st.sampled_from(["", "status"])),
            time=draw(st.sampled_from([None, "2030-01-01T00:00:00Z", "2030-01-01T00:00:09Z"])),
            fields_v1=OwnedFields(spec={"f:taints": {}}) if draw(yes_or_no) else OwnedFields(),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    taint = Taint(
        key=draw(st.sampled_from([TAINT, TAINT, "other"])),
        effect=draw(st.sampled_from(["NoExecute", "NoExecute", "NoSchedule"])),
        time_added=draw(st.sampled_from([None, "t", "2030-01-01T00:00:09Z"])) if not written else None,
    )
    return Node(
        metadata=ManagedMeta(name="n0", uid="u", annotations=annotations, managed_fields=tuple(written)),
        spec=NodeSpec(taints=(taint,) if draw(yes_or_no) else ()),
        status=NodeStatus(
            conditions=(
                Condition(
                    type="Ready",
                    status=draw(st.sampled_from(["True", "False", "Unknown"])),
                    last_heartbeat_time=draw(st.sampled_from([None, "t"])),
                ),
            ),
            volumes_in_use=(VOLUME,) if draw(yes_or_no) else (),
            volumes_attached=(AttachedVolume(name=VOLUME),) if draw(yes_or_no) else (),
        ),
    )


def knows(*there: Node) -> Any:
    """A controller whose cache has these Nodes."""
    by_name = {node.name: node for node in there}
    records = SimpleNamespace(by_index=lambda index, value: [])  # pyright: ignore[reportUnknownLambdaType]
    revokes = SimpleNamespace(revokes=lambda volume, spec: False)  # pyright: ignore[reportUnknownLambdaType]
    index = SimpleNamespace(
        nodes=by_name,
        records=records,
        attachability=revokes,
        spec_of=lambda volume: None,  # pyright: ignore[reportUnknownLambdaType]
    )
    return SimpleNamespace(_index=index, _deleted={})


def of_node(known: NodeState) -> VolumeState:
    wants = Demand(node="n0", pods=("default/web",), since="", starting=True)
    return VolumeState(VOLUME, False, (wants,), (), {"n0": known})


@given(nodes())
def test_production_knows_what_a_node_says(node: Node):
    assert [*attach_states.volume_state(of_node(NodeState.of(node, VOLUME)), knows(node), VOLUME)] == []


@pytest.mark.parametrize(
    "name", ["managed", "reconstructed", "reported", "in_use", "tainted", "taint_spent", "out_of_service"]
)
@given(nodes())
def test_what_a_node_does_not_say_is_objected_to(name: str, node: Node):
    known = NodeState.of(node, VOLUME)
    other: dict[str, Any] = {name: not getattr(known, name)}
    assert [*attach_states.volume_state(of_node(replace(known, **other)), knows(node), VOLUME)]


def test_a_node_that_is_there_and_not_known_is_objected_to():
    node = Node(metadata=ManagedMeta(name="n0"))
    assert [
        *attach_states.volume_state(
            replace(of_node(NodeState.of(node, VOLUME)), nodes={}), knows(node), VOLUME
        )
    ]
    assert [*attach_states.volume_state(of_node(NodeState.of(node, VOLUME)), knows(), VOLUME)]


# --- VolumeAttachments, locks and pods


@st.composite
def records(draw: st.DrawFn) -> VolumeAttachment:
    said = {
        names.CONFIRMED_DEAD: ['{"nodeUID":"u","report":"r1"}', "damaged", '{"bootID":"b"}'],
        names.FENCE_EVIDENCE: ['{"nodeUID":"u","absent":true}', "7"],
        names.ATTACH_EPOCH: ["3", "none"],
        names.DETACHING: ["t"],
        names.DETACHED: ["t"],
        names.NODE_UID: ["u"],
        names.FORCE_DETACH_SINCE: ["t", "2030-01-01T00:00:00Z"],
        names.FORCE_DETACH_REPORT: ["r"],
        names.NODE_ABSENT_SINCE: ["9999-01-01T00:00:00Z", "2030-01-01T00:00:00Z"],
        names.BROKEN: ["by me"],
        names.NODE_MACHINE: ["m p"],
    }
    annotations = {name: draw(st.sampled_from(values)) for name, values in said.items() if draw(yes_or_no)}
    error = VolumeError(message="no")
    return VolumeAttachment(
        metadata=ObjectMeta(
            name="va",
            uid="v",
            annotations=annotations,
            finalizers=("f",),
            deletion_timestamp="t" if draw(yes_or_no) else None,
        ),
        spec=VolumeAttachmentSpec(node_name="n0"),
        status=VolumeAttachmentStatus(
            attached=draw(yes_or_no),
            attach_error=error if draw(yes_or_no) else None,
            detach_error=error if draw(yes_or_no) else None,
        ),
    )


@given(records())
def test_production_knows_what_a_volume_attachment_says(record: VolumeAttachment):
    assert [*attach_states.attachment(Attachment.of(record), False, knows(), record)] == []


@pytest.mark.parametrize("name", ["attached", "marked", "detached"])
@given(records())
def test_what_a_volume_attachment_does_not_say_is_objected_to(name: str, record: VolumeAttachment):
    known = Attachment.of(record)
    other: dict[str, Any] = {name: not getattr(known, name)}
    assert [*attach_states.attachment(replace(known, **other), False, knows(), record)]


@pytest.mark.parametrize(
    "name", ["node_uid", "machine", "broken", "force_since", "force_report", "absent_since", "attach_error"]
)
@given(records())
def test_another_word_of_a_volume_attachment_is_objected_to(name: str, record: VolumeAttachment):
    other: dict[str, Any] = {name: "else"}
    assert [*attach_states.attachment(replace(Attachment.of(record), **other), False, knows(), record)]


def test_a_deletion_that_was_requested_and_does_not_count_is_objected_to():
    record = VolumeAttachment(metadata=ObjectMeta(name="va", uid="v", finalizers=("f",)))
    asked = knows()
    vars(asked)["_deleted"]["va"] = "v"
    assert attach_states.was_requested(asked, record)
    assert [*attach_states.attachment(Attachment.of(record), True, asked, record)]
    vars(asked)["_deleted"] = {}
    assert [*attach_states.attachment(replace(Attachment.of(record), deleting=True), True, asked, record)]


LOCK = Lock(4, "n0", "u", "p", {"n1": Closed(3, "b")})


def locked(text: str) -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name="pv", annotations={"mooring.dev/attached-to": text}))


@pytest.mark.parametrize(
    "text", [*annotation(LOCK).values(), "", "{", "[]", '{"epoch":"x"}', '{"closed":[]}']
)
def test_production_reads_a_lock_as_it_is_written(text: str):
    def read() -> Lock | InvalidSpec:
        try:
            return lock_of(locked(text))
        except InvalidSpec as error:
            return error

    assert [*attach_states.lock(read(), locked(text))] == []


@pytest.mark.parametrize(
    "answer", [None, Lock(), replace(LOCK, epoch=5), replace(LOCK, node="n1"), replace(LOCK, closed={})]
)
def test_a_lock_that_is_read_otherwise_is_objected_to(answer: Lock | None):
    assert [*attach_states.lock(answer, locked(annotation(LOCK)["mooring.dev/attached-to"]))]


def pod(name: str, *, born: str = "t", phase: str = "Running", ends: bool = False, node: str = "n0") -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="default", creation_timestamp=born, deletion_timestamp="t" if ends else None
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase),
    )


pods = st.builds(
    pod,
    st.sampled_from(["a", "b", "c"]),
    born=st.sampled_from(["t1", "t2"]),
    phase=st.sampled_from(["Running", "Failed", "Succeeded"]),
    ends=yes_or_no,
    node=st.sampled_from(["", "n0", "n1"]),
)


@given(st.lists(pods, max_size=4))
def test_production_knows_what_pods_want(users: list[Pod]):
    assert heard(lambda: demands_of(users)) == []


def heard(done: Callable[[], Any]) -> list[str]:
    """What is objected to meanwhile."""
    found, opinions = list[str](), SecondOpinions()
    opinions.follow(Trace(lambda: 0.0), lambda name, words, event: found.append(words))
    questions = (*attach_states.QUESTIONS, *attach_writes.QUESTIONS)
    with opinions.heard(questions):
        done()
    return found


WANT = Demand(node="n0", pods=("default/a", "default/b"), since="t1", starting=True)


@pytest.mark.parametrize(
    ("answer", "of"),
    [
        (WANT, [pod("a", born="t1"), pod("b", born="t2", phase="Failed")]),
        (WANT, [pod("a", born="t1"), pod("b", born="t2", node="n1")]),
        (WANT, [pod("a", born="t2"), pod("b", born="t1")]),
        (WANT, [pod("a", born="t1", ends=True), pod("b", born="t2", ends=True)]),
        (replace(WANT, starting=False), [pod("a", born="t1", ends=True), pod("b", born="t2")]),
        (replace(WANT, since="t2"), [pod("a", born="t1"), pod("b", born="t2")]),
    ],
)
def test_pods_that_want_something_else_are_objected_to(answer: Demand, of: list[Pod]):
    assert [*attach_states.demand(answer, "n0", of)]


# --- caches

CLAIM = PersistentVolumeClaim(
    metadata=ObjectMeta(name="data", namespace="default", uid="c", labels={"a": "b"}),
    spec=PersistentVolumeClaimSpec(volume_name="pv"),
)
PV = PersistentVolume(
    metadata=ObjectMeta(name="pv", uid="p", labels={"a": "b"}, annotations={"x": "y"}),
    spec=PersistentVolumeSpec(
        capacity={"storage": "1Gi"},
        access_modes=("ReadWriteOnce",),
        claim_ref=ObjectReference(namespace="default", name="data", uid="c"),
        csi=CSIPersistentVolumeSource(driver="d", volume_handle="h"),
    ),
)
RECORD = VolumeAttachment(
    metadata=ObjectMeta(name="va", uid="v", labels={"a": "b"}, annotations={"x": "y"}, finalizers=("f",)),
    spec=VolumeAttachmentSpec(node_name="n0"),
    status=VolumeAttachmentStatus(attached=True, attachment_metadata={"devicePath": "/dev/x"}),
)


def no_claim(key: str) -> PersistentVolumeClaim | None:
    return None


def test_production_caches_what_decisions_need():
    whole = pod("a")
    found = [
        *attach_caches.pod(trimming.trimmed_pod(whole, [], no_claim), whole, [], no_claim),
        *attach_caches.claim(trimming.trimmed_claim(CLAIM), CLAIM),
        *attach_caches.volume(trimming.trimmed_volume(PV, CLAIM), PV, CLAIM),
        *attach_caches.record(trimming.trimmed_record(RECORD, None, None), RECORD, None, None),
    ]
    assert found == []


@pytest.mark.parametrize(
    "other", [pod("a", phase="Failed"), pod("a", node="n1"), pod("b"), pod("a", ends=True)]
)
def test_a_pod_that_is_cached_as_another_is_objected_to(other: Pod):
    assert [*attach_caches.pod(trimming.trimmed_pod(other, [], no_claim), pod("a"), [], no_claim)]


@pytest.mark.parametrize(
    "other",
    [
        CLAIM,
        replace(CLAIM, spec=PersistentVolumeClaimSpec(volume_name="else"), metadata=ObjectMeta(name="data")),
    ],
)
def test_a_claim_that_is_cached_whole_or_otherwise_is_objected_to(other: PersistentVolumeClaim):
    assert [*attach_caches.claim(other, CLAIM)]


@pytest.mark.parametrize(
    "change", [{"access_modes": ()}, {"claim_ref": None}, {"csi": None}, {"capacity": {"a": 1}}]
)
def test_a_volume_that_is_cached_otherwise_is_objected_to(change: dict[str, Any]):
    cached = trimming.trimmed_volume(PV, CLAIM)
    assert [*attach_caches.volume(replace(cached, spec=replace(cached.spec, **change)), PV, CLAIM)]


@pytest.mark.parametrize(
    "change", [{"annotations": {}}, {"finalizers": ()}, {"labels": {"a": "b"}}, {"uid": "w"}]
)
def test_a_record_that_is_cached_otherwise_is_objected_to(change: dict[str, Any]):
    cached = trimming.trimmed_record(RECORD, None, None)
    other = replace(cached, metadata=replace(cached.metadata, **change))
    assert [*attach_caches.record(other, RECORD, None, None)]


# --- writes

LISTED = Node(
    metadata=ManagedMeta(name="n0", uid="u", resource_version="7"),
    status=NodeStatus(
        volumes_attached=(
            AttachedVolume(name="a", device_path="/a"),
            AttachedVolume(name="z", device_path="/z"),
        )
    ),
)


@given(st.dictionaries(st.sampled_from("abc"), st.just("/dev")), st.sets(st.sampled_from("abc")))
def test_production_lists_what_the_rules_say(usable: dict[str, str], without: set[str]):
    ours = {"a", "b", "c"}
    answer = reported_volumes(LISTED, usable, ours, without)
    assert [*attach_writes.listed(answer, LISTED, usable, ours, without)] == []


@pytest.mark.parametrize("listed", [["a", "b", "z"], ["b"], ["z"], ["z", "b"], ["b", "b", "z"]])
def test_another_list_is_objected_to(listed: list[str]):
    paths = {"a": "/a", "b": "/dev", "z": "/z"}
    answer = [{"name": name, "devicePath": paths[name]} for name in listed]
    assert [*attach_writes.listed(answer, LISTED, {"b": "/dev"}, {"a", "b"})]


@given(records())
def test_production_reports_what_the_rules_say(record: VolumeAttachment):
    node, held = NodeState.of(LISTED, VOLUME), Attachment.of(record)
    assert [*attach_writes.usable(is_usable(record), record)] == []
    assert [*attach_writes.usable(not is_usable(record), record)]
    assert [*attach_writes.for_this_node(is_same_node(node, held), node, held)] == []
    assert [*attach_writes.for_this_node(not is_same_node(node, held), node, held)]


@pytest.mark.parametrize(("version", "comparable"), [(6, True), (7, False), (7, True)])
def test_a_cache_that_is_believed_or_not_against_the_rule_is_objected_to(version: int, comparable: bool):
    lists: Any = SimpleNamespace(_records=SimpleNamespace(version=version), versions_comparable=comparable)
    does = version >= 7 and comparable
    assert [*attach_writes.new_enough(not does, lists, LISTED)]
    assert not [*attach_writes.new_enough(does, lists, LISTED)]


@pytest.mark.parametrize("cache_does", [True, False])
def test_a_live_read_in_place_of_a_cache_that_does_is_objected_to(cache_does: bool):
    lists: Any = SimpleNamespace(
        _records=SimpleNamespace(version=7 if cache_does else 6, get={"va": RECORD}.get),
        versions_comparable=True,
    )
    before = attach_writes.cache_before(lists, LISTED, "va")
    assert ([*attach_writes.looked(MADE, before, lists, LISTED, "va")] != []) == cache_does
    assert not [*attach_writes.looked(RECORD, before, lists, LISTED, "va")]


def test_versions_that_are_not_compared_are_objected_to():
    assert [*attach_writes.comparable(False, None)]
    assert not [*attach_writes.comparable(True, None)]


@given(st.sampled_from([Lock(), LOCK]), yes_or_no)
def test_production_grants_and_releases_as_the_rules_say(lock: Lock, advance: bool):
    def change() -> None:
        lock.granted(LISTED, "default/web", first=9)
        lock.released("n1", "b2", advance=advance, first=9)

    assert heard(change) == []


GRANTED = LOCK.granted(LISTED, "default/web")


@pytest.mark.parametrize(
    "change", [{"epoch": 4}, {"epoch": 6}, {"node": "n1"}, {"pod": "else"}, {"closed": {}}]
)
def test_another_grant_is_objected_to(change: dict[str, Any]):
    assert [*attach_writes.granted(replace(GRANTED, **change), LOCK, LISTED, "default/web")]


@pytest.mark.parametrize("change", [{"epoch": 4}, {"node": ""}, {"closed": LOCK.closed}])
def test_another_force_detach_is_objected_to(change: dict[str, Any]):
    right = LOCK.released("n0", "b", advance=True)
    assert [*attach_writes.released(replace(right, **change), LOCK, "n0", "b", advance=True)]


@pytest.mark.parametrize("epoch", ["4", "3", "none"])
@pytest.mark.parametrize("text", [*annotation(LOCK).values(), ""])
def test_an_epoch_that_is_taken_for_the_present_one_or_not_is_objected_to(epoch: str, text: str):
    record = VolumeAttachment(metadata=ObjectMeta(name="va", annotations={names.ATTACH_EPOCH: epoch}))
    right = is_current(record, locked(text))
    assert [*attach_writes.current(right, record, locked(text))] == []
    assert [*attach_writes.current(not right, record, locked(text))]


MADE = VolumeAttachment(
    metadata=ObjectMeta(
        name="va",
        annotations={
            names.PLUGIN: "example.com/disk",
            names.VOLUME_NAME: "d1",
            names.NODE_UID: "u",
            names.ATTACH_EPOCH: "5",
        },
    ),
    spec=VolumeAttachmentSpec(
        node_name="n0", source=replace(VolumeAttachmentSpec().source, persistent_volume_name="pv")
    ),
)


@pytest.mark.parametrize("lost", [names.PLUGIN, names.VOLUME_NAME, names.NODE_UID, names.ATTACH_EPOCH])
def test_a_volume_attachment_that_does_not_say_what_it_is_about_is_objected_to(lost: str):
    spec = VolumeSpec.of_persistent_volume(PV)
    said = {name: each for name, each in MADE.metadata.annotations.items() if name != lost}
    silent = replace(MADE, metadata=replace(MADE.metadata, annotations=said))
    asked: Any = SimpleNamespace(_records=Cache(MADE))
    assert [*attach_writes.created(silent, asked, VOLUME, LISTED, spec, locked=True)]
    assert not [*attach_writes.created(MADE, asked, VOLUME, LISTED, spec, locked=True)]


@pytest.mark.parametrize(("version", "objected"), [(4, True), (9, False)])
def test_one_that_was_made_and_is_not_known_at_once_is_objected_to(version: int, objected: bool):
    """Unless its cache has got further: then it is gone already."""
    spec, made = (
        VolumeSpec.of_persistent_volume(PV),
        replace(MADE, metadata=replace(MADE.metadata, resource_version="5")),
    )
    asked: Any = SimpleNamespace(_records=Cache(version=version))
    assert bool([*attach_writes.created(made, asked, VOLUME, LISTED, spec, locked=True)]) == objected


class Cache:
    """Of VolumeAttachments."""

    def __init__(self, *held: VolumeAttachment, version: int = 0) -> None:
        self._held, self.version = {each.metadata.name: each for each in held}, version

    def get(self, name: str) -> VolumeAttachment | None:
        return self._held.get(name)
