"""The second opinion about attaching and detaching: none about production's answers, one about each wrong
one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from decide_values import ATTACHED
from hypothesis import given
from msgspec.structs import replace
from volume_states import AGES, JUST_NOW, LONG_AGO, NOW, ON_N0, STATES, VOLUME, held, node, state

from mooring.controllers.attachdetach.decide import decide
from mooring.controllers.attachdetach.release import Release, ReleaseDecision, may_release
from mooring.controllers.attachdetach.state import (
    Action,
    Attachment,
    Demand,
    NodeState,
    Policy,
    Terms,
    VolumeDecision,
    VolumeState,
)
from mooring.kube.objects import (
    AttachedVolume,
    Condition,
    ManagedMeta,
    Node,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from mooring.kube.reason import Reason
from mooring.simulation.checks.second_opinions.attaching import decisions
from mooring.simulation.checks.second_opinions.releasing import release
from mooring.volumes.attachment_lock import Closed, Lock
from mooring.volumes.names import (
    AWAITED,
    CONTROLLER_MANAGED,
    FORCE_DETACH_SINCE,
    NODE_ABSENT_SINCE,
    RECONSTRUCTED,
    STATUS_WRITE,
)
from mooring.volumes.out_of_service import SEEN, TAINT
from mooring.volumes.statements import Evidence, Statement

SINCE = st.sampled_from(["", "", LONG_AGO, JUST_NOW, "2030-01-01T00:09:20Z"])
UUIDS = ("", "4c4c4544-0042-3510-8052-b4c04f4e3132", "44454c4c-4200-1035-8052-b4c04f4e3132", "other")
mostly_no = st.sampled_from([False, False, False, True])


@st.composite
def the_nodes(draw: st.DrawFn, name: str) -> Node:
    annotations = {STATUS_WRITE: draw(st.sampled_from(["r1", "r2"]))}
    if draw(st.booleans()):
        annotations[RECONSTRUCTED] = "b1"
    if draw(st.sampled_from([True, True, True, False])):
        annotations[CONTROLLER_MANAGED] = "true"
    if draw(st.booleans()):
        annotations[AWAITED] = json.dumps({VOLUME: draw(st.sampled_from([3, 4]))})
    taints = (Taint(key=TAINT, effect="NoExecute", time_added="t"),) if draw(mostly_no) else ()
    if draw(st.booleans()):
        annotations[SEEN] = "t"
    return Node(
        metadata=ManagedMeta(
            name=name,
            uid=draw(st.sampled_from(["uid", "uid", "uid-2"])),
            creation_timestamp=draw(st.sampled_from([LONG_AGO, JUST_NOW])),
            annotations=annotations,
        ),
        spec=NodeSpec(taints=taints, provider_id=draw(st.sampled_from(["", "p", "q"]))),
        status=NodeStatus(
            conditions=(Condition(type="Ready", status=draw(st.sampled_from(["True", "False", "Unknown"]))),),
            node_info=NodeSystemInfo(
                boot_id=draw(st.sampled_from(["b1", "b2", ""])), system_uuid=draw(st.sampled_from(UUIDS))
            ),
            volumes_in_use=(VOLUME,) if draw(st.booleans()) else (),
            volumes_attached=(AttachedVolume(name=VOLUME),) if draw(st.booleans()) else (),
        ),
    )


@st.composite
def attachments(draw: st.DrawFn, node: str) -> Attachment:
    said = draw(st.sampled_from(["none", "none", "evidence", "statement"]))
    absent = draw(st.booleans())
    about: dict[str, Any] = {
        "node_uid": draw(st.sampled_from(["uid", "uid", "uid-2"])),
        "boot_id": "b1",
        "absent": absent,
    }
    machine = draw(st.sampled_from(["", "", f"{UUIDS[1]} p", f"{UUIDS[1]} ", " p"]))
    deleting = draw(mostly_no)
    return replace(
        ATTACHED,
        name=f"va-{node}",
        node=node,
        attached=draw(st.booleans()),
        marked=draw(mostly_no),
        deleting=deleting,
        detached=deleting and draw(st.booleans()),
        node_uid=draw(st.sampled_from(["uid", "uid", "uid-2", ""])),
        attach_error=draw(st.sampled_from(["", "no slot"])),
        detach_error=draw(st.sampled_from(["", "no answer"])),
        created=draw(st.sampled_from(["", LONG_AGO, JUST_NOW])),
        epoch=draw(st.sampled_from([0, 3, 4])),
        force_since=draw(SINCE),
        force_report=draw(st.sampled_from(["", "r1", "r2"])),
        absent_since=draw(SINCE),
        broken=draw(st.sampled_from(["", "", "", "", "by me"])),
        evidence=Evidence(**about) if said == "evidence" else None,
        statement=Statement(**about, report="" if absent else "r1") if said == "statement" else None,
        machine=machine,
    )


terms = st.builds(
    Terms,
    policy=st.builds(
        Policy,
        force_detach_after=st.sampled_from([0.0, 10.0, 360.0]),
        node_deletion_confirms_death=st.booleans(),
    ),
    now=st.just(NOW),
    revokes=st.booleans(),
    ages=st.just(AGES),
)


@st.composite
def states(draw: st.DrawFn) -> VolumeState:
    names = ["n0", "n1", "n2"]
    there = [name for name in names if draw(st.sampled_from([True, True, True, False]))]
    closed = {name: Closed(4, draw(st.sampled_from(["b1", ""]))) for name in names if draw(mostly_no)}
    lock = Lock(epoch=draw(st.sampled_from([0, 3, 4])), closed=closed)
    wanting = [name for name in names if draw(st.booleans())]
    demands = [
        Demand(
            node=name,
            pods=(f"default/web-{name}",),
            since=draw(st.sampled_from([LONG_AGO, JUST_NOW])),
            starting=draw(st.booleans()),
        )
        for name in wanting
    ]
    held = [name for name in names if draw(st.booleans())]
    return VolumeState(
        volume=VOLUME,
        several_nodes=draw(mostly_no),
        demands=tuple(demands),
        attachments=tuple(draw(attachments(name)) for name in held),
        nodes={name: NodeState.of(draw(the_nodes(name)), VOLUME) for name in there},
        terms=draw(terms),
        lock=draw(st.sampled_from([lock, lock, lock, None])),
    )


def objections(state: VolumeState, answer: Sequence[VolumeDecision] | None = None) -> list[str]:
    return [*decisions(tuple(answer) if answer is not None else decide(state), state)]


@given(states())
def test_production_decides_as_the_rules_say(state: VolumeState):
    assert objections(state) == []


@given(st.data(), attachments("n0"), terms, st.booleans())
def test_production_releases_as_the_rules_say(
    data: st.DataObject, held: Attachment, given_: Terms, there: bool
):
    node = NodeState.of(data.draw(the_nodes("n0")), VOLUME) if there else None
    assert [*release(may_release(node, held, given_), node, held, given_)] == []


# --- each wrong answer is objected to


@pytest.mark.parametrize("which", [*STATES])
@pytest.mark.parametrize("action", [*Action])
def test_another_step_is_objected_to(which: str, action: Action):
    found = decide(STATES[which])
    for at, each in enumerate(found):
        if each.action is not action:
            wrong = [*found[:at], replace(each, action=action), *found[at + 1 :]]
            assert objections(STATES[which], wrong)


@pytest.mark.parametrize("which", [*STATES])
def test_another_reason_other_pods_another_timer_and_other_notes_are_objected_to(which: str):
    found = decide(STATES[which])
    others: list[dict[str, Any]] = [
        {"reason": Reason("Else", found[0].reason.message)},
        {"pods": (*found[0].pods, "default/other")},
        {"after": found[0].after + 1},
        {"notes": (*found[0].notes, ("x", None))},
    ]
    for other in others:
        assert objections(STATES[which], [replace(found[0], **other), *found[1:]])


@pytest.mark.parametrize("which", [*STATES])
def test_a_node_that_is_left_out_is_objected_to(which: str):
    assert objections(STATES[which], decide(STATES[which])[1:])


def test_a_node_that_has_it_and_is_not_named_is_objected_to():
    (decided, other) = decide(STATES["another node has it"])
    silent = replace(other, reason=Reason("MultiAttach", "another node has it"))
    assert objections(STATES["another node has it"], [decided, silent])


def test_a_last_error_that_is_not_said_is_objected_to():
    failing = state(node(), held=[held(attached=False, attach_error="no slot")], wanted=[ON_N0])
    (decided,) = decide(failing)
    assert objections(failing, [replace(decided, reason=Reason("Attaching", "it is being attached"))])


KEEP = ReleaseDecision(Release.KEEP, Reason("NodeNotAnswering", ""), after=0.0)
SILENT = node(ready="Unknown", uses=True)
TIMED = Terms(Policy(360.0, True), NOW, True, AGES)
FENCE = Evidence(node_uid="uid", boot_id="b1")
DEAD = Statement(node_uid="uid", boot_id="b1")


@pytest.mark.parametrize(
    ("seen", "attachment", "answer"),
    [
        (node(), held(), KEEP),
        (node(uses=True), held(), ReleaseDecision(Release.ALLOW, Reason("NotInUse", ""))),
        (node(uses=True), held(broken="by me"), ReleaseDecision(Release.KEEP, Reason("InUse", ""))),
        (
            node(uid="uid-2", uses=True),
            held(evidence=FENCE),
            ReleaseDecision(Release.FORCE, Reason("Fenced", "")),
        ),
        (SILENT, held(), ReleaseDecision(Release.FORCE, Reason("ForceDetachTimeout", ""))),
        (SILENT, held(), KEEP),
        (SILENT, held(force_since=JUST_NOW), replace(KEEP, begin=FORCE_DETACH_SINCE)),
        (SILENT, held(force_since=JUST_NOW), replace(KEEP, after=349.0)),
        (SILENT, held(force_since=LONG_AGO), replace(KEEP, after=-240.0)),
        (SILENT, held(evidence=FENCE, force_since=JUST_NOW), replace(KEEP, after=350.0)),
        (SILENT, held(statement=DEAD, force_since=JUST_NOW), replace(KEEP, after=350.0)),
        (SILENT, held(evidence=FENCE), ReleaseDecision(Release.FORCE, Reason("ConfirmedDead", ""))),
        (None, held(), ReleaseDecision(Release.FORCE, Reason("NodeDeleted", ""))),
        (None, held(), ReleaseDecision(Release.KEEP, Reason("NodeDeleted", ""))),
        (
            None,
            held(marked=True, absent_since=JUST_NOW),
            ReleaseDecision(Release.FORCE, Reason("NodeDeleted", "")),
        ),
        (
            None,
            held(marked=True, absent_since=LONG_AGO),
            ReleaseDecision(Release.LOOK, Reason("NodeDeleted", ""), begin=NODE_ABSENT_SINCE),
        ),
        (None, held(evidence=FENCE), ReleaseDecision(Release.FORCE, Reason("Fenced", ""))),
        (None, held(statement=DEAD), ReleaseDecision(Release.FORCE, Reason("ConfirmedDead", ""))),
    ],
)
def test_another_word_than_those_that_hold_is_objected_to(
    seen: NodeState | None, attachment: Attachment, answer: ReleaseDecision
):
    assert [*release(answer, seen, attachment, TIMED)]
