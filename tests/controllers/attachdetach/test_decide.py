"""Every rule of attaching and detaching, one by one, and what must hold for every input."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from decide_values import ATTACHED, NODE
from hypothesis import example, given
from msgspec.structs import replace

from mooring.controllers.attachdetach.decide import (
    Action,
    Attachment,
    Demand,
    NodeState,
    VolumeDecision,
    VolumeState,
    decide,
    demands_of,
    may_release,
    reported_volumes,
)
from mooring.kube.objects import (
    AttachedVolume,
    Condition,
    ManagedMeta,
    Node,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
    VolumeAttachment,
    VolumeAttachmentStatus,
    VolumeError,
)
from mooring.volumes.attachment_lock import Closed, Lock
from mooring.volumes.statements import Evidence

VOLUME = "example.com/disk/d1"

SILENT = {"ready": "Unknown", "in_use": True}


def node(name: str = "n0", **changes: Any) -> NodeState:
    return replace(NODE, name=name, uid=f"uid-{name}", **changes)


def attachment(name: str = "n0", **changes: Any) -> Attachment:
    return replace(ATTACHED, name=f"va-{name}", node=name, node_uid=f"uid-{name}", **changes)


def demand(name: str = "n0", since: str = "1", starting: bool = True) -> Demand:
    return Demand(name, (f"default/pod-{name}",), since, starting)


def state(
    *,
    demands: tuple[Demand, ...] = (),
    attachments: tuple[Attachment, ...] = (),
    nodes: tuple[NodeState, ...] = (NODE,),
    several_nodes: bool = False,
) -> VolumeState:
    return VolumeState(VOLUME, several_nodes, demands, attachments, {each.name: each for each in nodes})


def only(given_state: VolumeState) -> VolumeDecision:
    (decision,) = decide(given_state)
    return decision


def outcome(given_state: VolumeState) -> tuple[Action, str]:
    decision = only(given_state)
    return decision.action, decision.reason.code


# --- a node wants the volume


def test_a_wanted_volume_is_attached():
    assert outcome(state(demands=(demand(),))) == (Action.ATTACH, "Wanted")


def test_pods_that_are_all_being_deleted_get_nothing_new():
    assert outcome(state(demands=(demand(starting=False),))) == (Action.SETTLED, "PodEnding")


def test_nothing_is_attached_to_a_node_that_does_not_exist():
    assert outcome(state(demands=(demand(),), nodes=())) == (Action.BLOCKED, "NodeGone")


def test_nothing_is_attached_to_a_node_that_attaches_volumes_itself():
    assert outcome(state(demands=(demand(),), nodes=(node(managed=False),))) == (
        Action.SETTLED,
        "NodeAttaches",
    )


def test_of_two_nodes_that_want_a_free_volume_the_one_with_the_older_pod_gets_it():
    both = state(demands=(demand("n0", since="2"), demand("n1", since="1")), nodes=(node("n0"), node("n1")))
    assert [(each.node, each.action) for each in decide(both)] == [
        ("n0", Action.BLOCKED),
        ("n1", Action.ATTACH),
    ]


@pytest.mark.parametrize(
    "held", [attachment(), attachment(attached=False), attachment(marked=True), attachment(deleting=True)]
)
@pytest.mark.parametrize("nodes", [(), (node("n0"),), (node("n0", **SILENT),)])
def test_an_attachment_in_any_state_keeps_the_volume_from_another_node(
    held: Attachment, nodes: tuple[NodeState, ...]
):
    given_state = state(demands=(demand("n1"),), attachments=(held,), nodes=(*nodes, node("n1")))
    about = next(each for each in decide(given_state) if each.node == "n1")
    assert (about.action, about.reason.code) == (Action.BLOCKED, "MultiAttach")
    assert "n0" in about.reason.message


def test_what_the_storage_has_detached_keeps_only_its_own_node_from_the_volume():
    out = attachment(deleting=True, detached=True)
    both = state(
        demands=(demand("n0"), demand("n1", since="0")), attachments=(out,), nodes=(node("n0"), node("n1"))
    )
    assert [(each.node, each.action, each.reason.code) for each in decide(both)] == [
        ("n0", Action.WAIT, "Detached"),
        ("n1", Action.ATTACH, "Wanted"),
    ]


def test_what_the_storage_has_detached_does_not_make_another_attachment_a_second_one():
    kept = (attachment(deleting=True, detached=True), attachment("n1"))
    observed = state(demands=(demand("n1"),), attachments=kept, nodes=(node("n0"), node("n1")))
    assert [(each.node, each.action) for each in decide(observed)] == [
        ("n0", Action.WAIT),
        ("n1", Action.REPORT),
    ]


@pytest.mark.parametrize("deletion", ["2030-01-01T00:00:00Z", None])
def test_the_word_that_it_is_detached_counts_only_for_a_record_that_is_being_deleted(deletion: str | None):
    metadata = {"name": "va", "annotations": {"mooring.dev/detached": "now"}, "deletionTimestamp": deletion}
    record = msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n0"}}, VolumeAttachment)
    assert Attachment.of(record).detached is (deletion is not None)


def test_why_the_other_node_keeps_it_is_in_the_message():
    silent = state(
        demands=(demand("n1"),), attachments=(attachment(),), nodes=(node("n0", **SILENT), node("n1"))
    )
    assert "mooring node confirm-dead n0" in decide(silent)[1].reason.message
    used = state(
        demands=(demand("n0"), demand("n1")), attachments=(attachment(),), nodes=(node("n0"), node("n1"))
    )
    assert "for default/pod-n0" in decide(used)[1].reason.message
    failing = state(
        demands=(demand("n1"),),
        attachments=(attachment(deleting=True, detach_error="busy"),),
        nodes=(node("n1"),),
    )
    assert "busy" in decide(failing)[1].reason.message


def test_a_volume_for_several_nodes_is_attached_to_each_that_wants_it():
    shared = state(
        demands=(demand("n0"), demand("n1")),
        attachments=(attachment("n0"),),
        nodes=(node("n0", reported=True), node("n1")),
        several_nodes=True,
    )
    assert [each.action for each in decide(shared)] == [Action.SETTLED, Action.ATTACH]


# --- a node wants the volume and has an attachment


@pytest.mark.parametrize(
    ("held", "there", "expected"),
    [
        (attachment(), node(), (Action.REPORT, "Attached")),
        (attachment(), node(reported=True), (Action.SETTLED, "Attached")),
        (attachment(attached=False), node(), (Action.WAIT, "Attaching")),
        (attachment(marked=True), node(), (Action.RESTORE, "WantedAgain")),
        (attachment(marked=True, attached=False), node(), (Action.RESTORE, "WantedAgain")),
        (attachment(deleting=True), node(reported=True), (Action.WAIT, "Detaching")),
        (attachment(deleting=True, marked=True), node(), (Action.WAIT, "Detaching")),
        (replace(attachment(), node_uid="former"), node(), (Action.RESTAMP, "NodeRegisteredAnew")),
        (
            replace(attachment(), node_uid="former"),
            node(reconstructed=False, reported=True),
            (Action.SETTLED, "Attached"),
        ),
    ],
)
def test_what_is_done_about_an_attachment_that_is_wanted(
    held: Attachment, there: NodeState, expected: tuple[Action, str]
):
    assert outcome(state(demands=(demand(),), attachments=(held,), nodes=(there,))) == expected


def test_an_attach_that_fails_says_why():
    failing = state(
        demands=(demand(),), attachments=(attachment(attached=False, attach_error="no such disk"),)
    )
    assert "no such disk" in only(failing).reason.message


def test_pods_that_are_ending_keep_what_they_have():
    ending = state(
        demands=(demand(starting=False),), attachments=(attachment(),), nodes=(node(reported=True),)
    )
    assert outcome(ending) == (Action.SETTLED, "Attached")


FENCED = Evidence("uid-n0", "boot", begun="2030-01-01T00:00:00Z", by="NodeFence f")
LOST = node(
    ready="Unknown",
    in_use=True,
    node=Node(
        metadata=ManagedMeta(name="n0", uid="uid-n0"),
        status=NodeStatus(node_info=NodeSystemInfo(boot_id="boot")),
    ),
)


@pytest.mark.parametrize(
    ("starting", "evidence", "there", "expected"),
    [
        (False, FENCED, LOST, (Action.DETACH, "Fenced")),
        (True, FENCED, LOST, (Action.REPORT, "Attached")),
        (False, None, LOST, (Action.REPORT, "Attached")),
        (False, replace(FENCED, boot_id="other"), LOST, (Action.REPORT, "Attached")),
        (False, FENCED, replace(LOST, ready="True"), (Action.REPORT, "Attached")),
        (False, FENCED, replace(LOST, in_use=False), (Action.DETACH, "NotInUse")),
        (False, None, replace(LOST, in_use=False), (Action.REPORT, "Attached")),
        (False, FENCED, replace(LOST, in_use=False, ready="True"), (Action.REPORT, "Attached")),
    ],
    ids=[
        *("a fence has shown it", "a pod starts", "no fence", "another boot", "it answers"),
        *(
            "a fence has shown it, and it was never mounted",
            "never mounted, no fence",
            "never mounted, it answers",
        ),
    ],
)
def test_pods_that_are_ending_on_a_fenced_node_keep_no_volume_that_it_cannot_write(
    starting: bool, evidence: Evidence | None, there: NodeState, expected: tuple[Action, str]
):
    held = attachment(evidence=evidence)
    about = state(demands=(demand(starting=starting),), attachments=(held,), nodes=(there,))
    assert outcome(about) == expected


@pytest.mark.parametrize(
    ("phase", "wanted"), [("Pending", True), ("Running", True), ("Succeeded", False), ("Failed", False)]
)
def test_pods_that_have_ended_want_nothing(phase: str, wanted: bool):
    pod = Pod(
        metadata=ObjectMeta(name="p", namespace="default"),
        spec=PodSpec(node_name="n0"),
        status=PodStatus(phase=phase),
    )
    assert bool(demands_of([pod])) is wanted


# --- no pod wants the volume on a node that has it


@pytest.mark.parametrize(
    ("held", "there", "expected"),
    [
        (attachment(), node(reported=True), (Action.DETACH, "NotInUse")),
        (attachment(attached=False), node(), (Action.DETACH, "NotInUse")),
        (attachment(marked=True), node(), (Action.DETACH, "NotInUse")),
        (attachment(), node(in_use=True, reported=True), (Action.WAIT, "InUse")),
        (attachment(), node(in_use=True), (Action.REPORT, "InUse")),
        (attachment(marked=True), node(in_use=True), (Action.RESTORE, "InUse")),
        (attachment(), node(in_use=True, ready="False", reported=True), (Action.WAIT, "InUse")),
        (attachment(), node(**SILENT), (Action.BLOCKED, "NodeNotAnswering")),
        (attachment(), node(**SILENT, tainted=True, taint_spent=True), (Action.BLOCKED, "TaintSpent")),
        (attachment(), node(**SILENT, tainted=True, out_of_service=True), (Action.DETACH, "OutOfService")),
        (attachment(), node(ready="Unknown"), (Action.DETACH, "NotInUse")),
        (attachment(), None, (Action.BLOCKED, "NodeGone")),
        (attachment(marked=True), None, (Action.BLOCKED, "NodeGone")),
        (attachment(deleting=True), None, (Action.WAIT, "Detaching")),
        (
            replace(attachment(), node_uid="former"),
            node(reconstructed=False, reported=True),
            (Action.WAIT, "InUse"),
        ),
        (replace(attachment(), node_uid="former"), node(), (Action.DETACH, "NotInUse")),
    ],
)
def test_what_is_done_about_an_attachment_that_nobody_wants(
    held: Attachment, there: NodeState | None, expected: tuple[Action, str]
):
    assert outcome(state(attachments=(held,), nodes=(there,) if there else ())) == expected


def test_a_release_against_the_nodes_word_is_called_forced():
    assert may_release(node(**SILENT, tainted=True, out_of_service=True), attachment()).forced
    assert not may_release(node(), attachment()).forced


# --- the lock


def under_lock(lock: Lock | None, nodes: tuple[NodeState, ...] = (NODE,), **changes: Any) -> VolumeState:
    """The volume is wanted where it has an attachment of the epoch 1, and is locked."""
    wanted = state(demands=(demand(),), attachments=(attachment(epoch=1),), nodes=nodes)
    return replace(wanted, locked=True, lock=lock, **changes)


def shown(*, in_use: bool) -> NodeState:
    """The node, with the object that says whether the volume is in use."""
    status = NodeStatus(conditions=(Condition("Ready", "True"),), volumes_in_use=(VOLUME,) if in_use else ())
    return node(node=Node(metadata=ObjectMeta(name="n0", uid="uid-n0"), status=status))


def test_an_attachment_of_the_present_epoch_is_reported():
    assert outcome(under_lock(Lock(epoch=1))) == (Action.REPORT, "Attached")


def test_a_wanted_attachment_of_an_older_epoch_is_granted_the_lock_anew():
    decision = only(under_lock(Lock(epoch=2)))
    assert (decision.action, decision.reason.code) == (Action.GRANT, "StaleEpoch")
    assert (decision.node, decision.pods) == ("n0", ("default/pod-n0",))


def test_the_lock_is_not_granted_to_a_node_that_does_not_exist():
    assert outcome(under_lock(Lock(epoch=2), nodes=())) == (Action.BLOCKED, "NodeGone")


@pytest.mark.parametrize(
    ("in_use", "expected"),
    [(True, (Action.BLOCKED, "ClosedNode")), (False, (Action.GRANT, "StaleEpoch"))],
)
def test_the_lock_is_granted_to_a_closed_node_once_it_says_that_nothing_is_mounted(
    in_use: bool, expected: tuple[Action, str]
):
    lock = Lock(epoch=2, closed={"n0": Closed(2, "")})
    assert outcome(under_lock(lock, (shown(in_use=in_use),))) == expected


def test_a_volume_for_several_nodes_is_used_under_any_epoch():
    assert outcome(under_lock(Lock(epoch=2), several_nodes=True)) == (Action.REPORT, "Attached")


def test_a_lock_that_cannot_be_read_keeps_the_volume_as_it_is():
    assert outcome(under_lock(None)) == (Action.BLOCKED, "LockDamaged")


# --- whatever is thrown at it

NAMES = ("n0", "n1", "n2")
BOOLEANS = st.booleans()


@st.composite
def node_states(draw: st.DrawFn, name: str) -> NodeState:
    tainted, spent = draw(BOOLEANS), draw(BOOLEANS)
    ready = draw(st.sampled_from(["True", "False", "Unknown"]))
    return NodeState(
        name=name,
        uid=draw(st.sampled_from([f"uid-{name}", f"new-{name}"])),
        ready=ready,
        managed=draw(BOOLEANS),
        reconstructed=draw(BOOLEANS),
        reported=draw(BOOLEANS),
        in_use=draw(BOOLEANS),
        tainted=tainted,
        taint_spent=tainted and spent,
        out_of_service=tainted and not spent and ready == "Unknown",
    )


@st.composite
def states(draw: st.DrawFn) -> VolumeState:
    nodes = {name: draw(node_states(name)) for name in NAMES if draw(BOOLEANS)}
    held = [
        attachment(name, attached=draw(BOOLEANS), marked=draw(BOOLEANS), deleting=draw(BOOLEANS))
        for name in NAMES
        if draw(BOOLEANS)
    ]
    wanted = [demand(name, draw(st.sampled_from("123")), draw(BOOLEANS)) for name in NAMES if draw(BOOLEANS)]
    return VolumeState(VOLUME, draw(BOOLEANS), tuple(wanted), tuple(held), nodes)


@given(states())
def test_every_node_concerned_gets_exactly_one_decision(given_state: VolumeState):
    concerned = {each.node for each in given_state.demands} | {each.node for each in given_state.attachments}
    decided = [each.node for each in decide(given_state)]
    assert sorted(decided) == sorted(concerned)


@given(states())
def test_an_exclusive_volume_that_anybody_has_is_attached_nowhere(given_state: VolumeState):
    exclusive = replace(given_state, several_nodes=False)
    attached = [each for each in decide(exclusive) if each.action is Action.ATTACH]
    assert len(attached) <= 1
    assert not (attached and exclusive.attachments)


@given(states())
def test_only_a_usable_attachment_is_reported(given_state: VolumeState):
    held = {each.node: each for each in given_state.attachments}
    for each in decide(given_state):
        if each.action is Action.REPORT:
            found = held[each.node]
            assert found.attached
            assert not found.marked
            assert not found.deleting


@given(states())
def test_a_volume_in_use_is_detached_only_from_a_silent_node_under_a_taint_in_force(given_state: VolumeState):
    for each in decide(given_state):
        there = given_state.nodes.get(each.node)
        if each.action is Action.DETACH:
            assert there is not None, "the deletion of a Node releases nothing"
            assert not there.in_use or (there.ready == "Unknown" and there.out_of_service)


@given(node_states("n0"), st.sampled_from(["", "uid-n0", "new-n0"]))
def test_a_node_that_answers_and_uses_the_volume_never_loses_it(there: NodeState, recorded: str):
    for ready in ("True", "False"):
        using = replace(there, in_use=True, ready=ready, out_of_service=False)
        assert not may_release(using, replace(ATTACHED, node_uid=recorded)).allowed


@given(node_states("n0"), st.sampled_from(["uid-n0", "new-n0"]))
def test_a_node_registered_anew_counts_as_using_it_until_its_agent_has_looked(
    there: NodeState, recorded: str
):
    anew = replace(there, uid="another", reconstructed=False)
    verdict = may_release(anew, replace(ATTACHED, node_uid=recorded))
    assert not verdict.allowed or verdict.forced


@given(states())
def test_an_attachment_that_pods_use_is_never_detached(given_state: VolumeState):
    wanted = {each.node for each in given_state.demands}
    detached = [each for each in decide(given_state) if each.action is Action.DETACH and each.node in wanted]
    assert all(each.reason.code == "SecondAttachment" for each in detached)
    assert len(given_state.attachments) > 1 or not detached


@given(states())
def test_the_same_state_gives_the_same_decisions_in_whatever_order_its_nodes_are_known(
    given_state: VolumeState,
):
    turned = replace(given_state, nodes=dict(reversed(given_state.nodes.items())))
    assert decide(turned) == decide(given_state)


@given(states())
def test_every_decision_has_a_reason_for_people(given_state: VolumeState):
    for each in decide(given_state):
        assert each.reason.code.isalnum()
        assert each.reason.message


# --- from objects to values


def a_node(**changes: Any) -> Node:
    status = NodeStatus(
        conditions=(Condition(type="Ready", status=changes.pop("ready", "Unknown")),),
        volumes_attached=tuple(
            AttachedVolume(name=name, device_path=f"/dev/{name}") for name in changes.pop("listed", ())
        ),
        volumes_in_use=changes.pop("in_use", ()),
    )
    taint = Taint(
        key="node.kubernetes.io/out-of-service", effect="NoExecute", time_added=changes.pop("taint", None)
    )
    annotations = changes.pop("annotations", {})
    spec = NodeSpec(taints=(taint,) if taint.time_added else ())
    assert not changes
    return Node(
        metadata=ManagedMeta(name="n0", uid="uid-n0", annotations=annotations), spec=spec, status=status
    )


def test_a_nodes_state_is_read_from_the_node():
    there = NodeState.of(a_node(listed=(VOLUME,), in_use=(VOLUME,), ready="True"), VOLUME)
    assert (there.reported, there.in_use, there.ready, there.managed, there.reconstructed) == (
        True, True, "True", False, False,
    )  # fmt: skip
    assert not NodeState.of(a_node(listed=("other",), in_use=("other",)), VOLUME).in_use


def test_a_taint_is_in_force_until_the_node_has_reported_under_it():
    fresh = NodeState.of(a_node(taint="t1"), VOLUME)
    spent = NodeState.of(a_node(taint="t1", annotations={"mooring.dev/out-of-service-seen": "t1"}), VOLUME)
    anew = NodeState.of(a_node(taint="t2", annotations={"mooring.dev/out-of-service-seen": "t1"}), VOLUME)
    alive = NodeState.of(a_node(taint="t1", ready="False"), VOLUME)
    assert [each.out_of_service for each in (fresh, spent, anew, alive)] == [True, False, True, False]


def test_an_attachments_state_is_read_from_the_record():
    record = VolumeAttachment(
        metadata=ObjectMeta(name="va", annotations={"mooring.dev/detaching": "t"}, deletion_timestamp="t"),
        status=VolumeAttachmentStatus(attached=True, detach_error=VolumeError(message="busy")),
    )
    found = Attachment.of(record)
    assert (found.attached, found.marked, found.deleting, found.detach_error) == (True, True, True, "busy")
    assert not found.usable


# --- the derived list

VOLUMES = st.sets(st.sampled_from(["a", "b", "c", "d"]))


@given(listed=VOLUMES, usable=VOLUMES, others=VOLUMES)
@example(listed={"a"}, usable=set(), others=set())
def test_the_list_is_what_is_usable_and_what_is_somebody_elses(
    listed: set[str], usable: set[str], others: set[str]
):
    ours = {"a", "b", "c", "d"} - others
    paths = {name: f"/dev/{name}" for name in usable & ours}
    found = reported_volumes(a_node(listed=sorted(listed)), paths, ours)
    names = [entry["name"] for entry in found]
    assert names == sorted((usable & ours) | (listed & others))
    assert all(entry["devicePath"] == f"/dev/{entry['name']}" for entry in found)


@given(listed=VOLUMES, usable=VOLUMES)
def test_what_is_to_be_left_out_is_not_in_the_list(listed: set[str], usable: set[str]):
    paths = dict.fromkeys(usable, "")
    assert "a" not in {
        e["name"] for e in reported_volumes(a_node(listed=sorted(listed)), paths, (), without="a")
    }


# --- another machine of the same name


def taken(**changes: Any) -> NodeState:
    """A Node of a machine that is not the one that the volume was attached to."""
    info = NodeSystemInfo(boot_id="b2", system_uuid="present")
    there = Node(metadata=ManagedMeta(name="n0", uid="uid-n0"), status=NodeStatus(node_info=info))
    return node(node=there, **changes)


OF_FORMER = {"machine": "former "}


@pytest.mark.parametrize("reported", [False, True])
def test_pods_on_the_machine_that_has_taken_a_name_wait_for_the_volume_of_the_former_one(reported: bool):
    found = only(
        state(
            demands=(demand(),),
            attachments=(attachment(**OF_FORMER),),
            nodes=(taken(reported=reported, reconstructed=True),),
        )
    )
    assert (found.action, found.reason.code) == (Action.BLOCKED, "AnotherMachine")
    assert found.pods == ("default/pod-n0",)


def test_it_is_detached_for_them_once_the_former_machine_is_stated_to_be_dead():
    shown = Evidence("uid-n0", "b1", absent=True)
    held = attachment(evidence=shown, **OF_FORMER)
    found = only(state(demands=(demand(),), attachments=(held,), nodes=(taken(),)))
    assert (found.action, found.reason.code) == (Action.DETACH, "Fenced")


def test_the_clock_of_a_force_detach_runs_although_another_machine_answers_and_pods_wait():
    held = attachment(force_since="2030-01-01T00:00:00Z", **OF_FORMER)
    found = only(state(demands=(demand(),), attachments=(held,), nodes=(taken(),)))
    assert found.action is not Action.NOTE


def test_a_volume_of_several_nodes_goes_over_to_the_machine_that_has_taken_the_name():
    held = attachment(**OF_FORMER)
    given_state = state(
        demands=(demand(),), attachments=(held,), nodes=(taken(reconstructed=True),), several_nodes=True
    )
    assert only(given_state).action is Action.RESTAMP


def test_a_pod_elsewhere_hears_that_the_former_machine_has_the_volume():
    found = decide(
        state(
            demands=(demand(), demand("n1")),
            attachments=(attachment(**OF_FORMER),),
            nodes=(taken(), node("n1")),
        )
    )
    assert "another machine is node n0 now" in found[1].reason.message
