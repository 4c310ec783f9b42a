"""Second opinions about what the attach/detach controller has done when an act of it ends, and about the
steps of its handshake."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from step_requests import patched, read, said_of
from tests.conftest import run_in_virtual_time

from mooring.controllers.attachdetach.events import EventText
from mooring.controllers.attachdetach.handshake import Released
from mooring.controllers.attachdetach.release import Release, ReleaseDecision
from mooring.controllers.attachdetach.state import Action, Policy, Terms, VolumeDecision
from mooring.kube.errors import NotFound, Unreachable
from mooring.kube.objects import (
    AttachedVolume,
    Node,
    NodeStatus,
    ObjectMeta,
    PersistentVolume,
    Pod,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from mooring.kube.reason import Reason
from mooring.kube.rests import Rests
from mooring.kube.workqueue import WorkQueue
from mooring.simulation.checks.second_opinions import attachdetach_acts as acts
from mooring.simulation.checks.second_opinions import handshakes
from mooring.volumes.attachment_lock import Closed, Lock, annotation
from mooring.volumes.names import (
    ATTACH_EPOCH,
    DETACHING,
    NODE_ABSENT_SINCE,
    NODE_UID,
    VOLUMES_ATTACHED_WRITE,
)

V = "csi/disk"
RECORD = VolumeAttachment(
    metadata=ObjectMeta(name="va", uid="uid", resource_version="5"), spec=VolumeAttachmentSpec(node_name="n0")
)
MARKED = replace(RECORD, metadata=replace(RECORD.metadata, annotations={DETACHING: "t"}))
NODE = Node(metadata=ObjectMeta(name="n0", uid="node"))


class Parts:
    """Of production code, those that an opinion looks at."""

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)


def controller(**parts: Any) -> Any:
    said = {
        "_settling": {},
        "_last_events": {},
        "_waiting_since": {},
        "_in_vain": {V: Rests()},
        "_deleted": {},
    }
    index = Parts(records={"va": RECORD})
    return Parts(queue=WorkQueue(), **(said | {"_index": index} | parts))


def decision(action: Action, after: float = 0.0) -> VolumeDecision:
    return VolumeDecision(action, Reason("Because", ""), node="n0", after=after)


def awaited(opinion: Any) -> Any:
    """What it returns, asked by a worker."""

    async def ask() -> Any:
        return opinion()

    return run_in_virtual_time(ask())


# --- one volume


@pytest.mark.parametrize(
    ("action", "parts", "wrong"),
    [
        (Action.WAIT, {}, False),
        (Action.WAIT, {"_settling": {V: (1, 0.0)}}, True),
        (Action.GRANT, {"_settling": {V: (1, 0.0)}}, False),
        (Action.WAIT, {"_last_events": {V: {"n0": ((), 0.0)}}}, False),
        (Action.WAIT, {"_last_events": {V: {"n1": ((), 0.0)}}}, True),
        (Action.WAIT, {"_waiting_since": {V: {"n1": ((), 0.0)}}}, True),
    ],
)
def test_what_is_remembered_of_what_is_over_is_objected_to(action: Action, parts: Any, wrong: bool):
    def ask() -> list[str]:
        asked = controller(**parts)
        acts.work_begins(asked, V)
        acts.decided(None, asked, decision(action), None)  # type: ignore[arg-type]
        return [*acts.worked(None, None, asked, V)]

    assert bool(awaited(ask)) == wrong


@pytest.mark.parametrize(("tried", "wrong"), [(Action.ATTACH, False), (Action.DETACH, True)])
def test_a_rest_of_what_is_not_decided_any_more_is_objected_to(tried: Action, wrong: bool):
    def ask() -> list[str]:
        asked = controller()
        asked._in_vain[V].note(("n0", tried), 0.0)
        acts.work_begins(asked, V)
        acts.decided(None, asked, decision(Action.ATTACH), None)  # type: ignore[arg-type]
        return [*acts.worked(None, None, asked, V)]

    assert bool(awaited(ask)) == wrong


@pytest.mark.parametrize(
    ("after", "timer", "wrong"), [(20.0, 20.0, False), (20.0, 30.0, True), (600.0, 60.0, False)]
)
def test_a_timer_that_runs_and_is_not_looked_at_is_objected_to(after: float, timer: float, wrong: bool):
    def ask() -> list[str]:
        asked = controller()
        asked.queue.add_after(V, timer)
        acts.work_begins(asked, V)
        acts.decided(None, asked, decision(Action.WAIT, after), None)  # type: ignore[arg-type]
        return [*acts.worked(None, None, asked, V)]

    assert bool(awaited(ask)) == wrong


# --- what was decided


@pytest.mark.parametrize(
    ("action", "done", "again", "wrong"),
    [
        (Action.ATTACH, "attach", False, False),
        (Action.ATTACH, "", False, True),
        (Action.ATTACH, "", True, False),
        (Action.ATTACH, "report", True, True),
        (Action.WAIT, "", False, False),
        (Action.WAIT, "attach", False, True),
        (Action.DETACH, "detach", False, False),
    ],
)
def test_what_is_decided_and_not_done_is_objected_to(action: Action, done: str, again: bool, wrong: bool):
    def ask() -> list[str]:
        asked, state = controller(), Parts()
        acts.carry_out_begins(asked, V, decision(action), state)  # type: ignore[arg-type]
        if done:
            [*handshakes.noting(done)(None, None, RECORD)]
        if again:
            asked.queue.add(V)
        return [*acts.carried_out(None, None, asked, V, decision(action), state)]  # type: ignore[arg-type]

    assert bool(awaited(ask)) == wrong


@pytest.mark.parametrize(("noted", "again", "wrong"), [(True, True, 0), (False, True, 1), (True, False, 1)])
def test_a_report_in_vain_that_is_not_noted_is_objected_to(noted: bool, again: bool, wrong: int):
    def ask() -> list[str]:
        asked, state, report = controller(), Parts(), decision(Action.REPORT)
        acts.carry_out_begins(asked, V, report, state)  # type: ignore[arg-type]
        [*handshakes.noting("report")(False, None, RECORD)]
        if noted:
            asked._in_vain[V].note(("n0", Action.REPORT), 0.0)
        if again:
            asked.queue.add(V)
        return [*acts.carried_out(None, None, asked, V, report, state)]  # type: ignore[arg-type]

    assert len(awaited(ask)) == wrong


@pytest.mark.parametrize(
    ("verdict", "again", "deleted", "wrong"),
    [
        (Release.ALLOW, True, True, False),
        (Release.ALLOW, True, False, True),
        (Release.FORCE, True, True, False),
        (Release.FORCE, False, True, True),
        (Release.LOOK, True, False, False),
        (Release.LOOK, True, True, True),
        (Release.KEEP, True, False, True),
    ],
)
def test_what_has_come_of_a_detach_and_is_not_noted_is_objected_to(
    verdict: Release, again: bool, deleted: bool, wrong: bool
):
    def ask() -> list[str]:
        asked, detach = controller(_deleted={"va": "uid"} if deleted else {}), decision(Action.DETACH)
        acts.carry_out_begins(asked, V, detach, None)  # type: ignore[arg-type]
        released = Released(ReleaseDecision(verdict, Reason("Because", "")), RECORD)
        [*handshakes.noting("detach")(released, None, RECORD)]
        if again:
            asked.queue.add(V)
        return [*acts.detached(None, asked, V, detach, None)]  # type: ignore[arg-type]

    assert bool(awaited(ask)) == wrong


@pytest.mark.parametrize(
    ("answer", "rests", "again", "wrong"),
    [
        (False, 0, False, False),
        (True, 0, False, True),
        (True, 2, True, False),
        (False, 2, True, True),
        (True, 2, False, True),
    ],
)
def test_a_rest_that_is_not_kept_or_not_looked_at_is_objected_to(
    answer: bool, rests: int, again: bool, wrong: bool
):
    def ask() -> list[str]:
        asked, attach = controller(), decision(Action.ATTACH)
        for _ in range(rests):
            asked._in_vain[V].note(("n0", Action.ATTACH), acts.now())
        if again:
            asked.queue.add_after(V, 1.0)
        return [*acts.too_early(answer, asked, V, attach)]

    assert bool(awaited(ask)) == wrong


# --- locks that settle


@pytest.mark.parametrize(
    ("lock", "stood", "grants", "again", "wrong"),
    [
        (Lock(epoch=3, node="n1"), 0.0, True, False, False),
        (Lock(epoch=3, node="n1"), 0.0, False, True, True),
        (Lock(epoch=3, node="n0"), 0.0, True, False, True),
        (Lock(epoch=3, node="n0"), 0.5, False, True, False),
        (Lock(epoch=3, node="n0"), 0.5, False, False, True),
        (Lock(epoch=3, node="n0"), 1.5, True, False, False),
        (Lock(epoch=3, node="n0"), 4.0, False, True, True),
    ],
)
def test_a_lock_that_is_granted_anew_too_early_or_never_is_objected_to(
    lock: Lock, stood: float, grants: bool, again: bool, wrong: bool
):
    def ask() -> list[str]:
        asked, grant = controller(_settling={V: (3, 0.0)}), decision(Action.GRANT)
        seen = acts.settling_before(asked, V, grant, lock)
        if seen is not None:
            seen = seen._replace(at=seen.at - stood)
        acts.carry_out_begins(asked, V, grant, None)  # type: ignore[arg-type]
        if grants:
            [*handshakes.noting("grant")(None, None, RECORD)]
        if again:
            asked.queue.add(V)
        return [*acts.granted(None, seen, asked, V, grant, lock)]

    assert bool(awaited(ask)) == wrong


# --- what is told

POD = Pod(metadata=ObjectMeta(name="web", uid="pod"))


@pytest.mark.parametrize(
    ("answer", "since", "kept", "again", "wrong"),
    [
        (False, 5.0, 5.0, True, False),
        (False, 5.0, 5.0, False, True),
        (False, 5.0, 0.0, True, True),
        (True, 5.0, 5.0, True, True),
        (True, 10.0, 10.0, False, False),
        (False, 10.0, 10.0, True, True),
    ],
)
def test_who_waits_and_is_told_too_early_or_late_is_objected_to(
    answer: bool, since: float, kept: float, again: bool, wrong: bool
):
    def ask() -> list[str]:
        before = ("pod",), acts.now() - since
        asked = controller(_waiting_since={V: {"n0": (("pod",), acts.now() - kept)}})
        if again:
            asked.queue.add(V)
        return [*acts.waited(answer, before, asked, V, "n0", [POD])]

    assert bool(awaited(ask)) == wrong


WARNING = [(POD, EventText("Warning", "FailedAttachVolume", "no"))]
CONTENT = ("pod", "Warning", "FailedAttachVolume", "no")


@pytest.mark.parametrize(
    ("found", "before", "kept", "again", "wrong"),
    [
        ([], None, None, False, False),
        ([], None, (CONTENT, 0.0), False, True),
        (WARNING, None, (CONTENT, 0.0), True, False),
        (WARNING, None, (CONTENT, 0.0), False, True),
        (WARNING, None, None, True, True),
        (WARNING, (CONTENT, -299.0), (CONTENT, -299.0), True, False),
        (WARNING, (CONTENT, -299.0), (CONTENT, 0.0), True, True),
        (WARNING, (CONTENT, -300.0), (CONTENT, 0.0), True, False),
        (WARNING, (("else",), -1.0), (CONTENT, 0.0), True, False),
    ],
)
def test_what_is_told_too_often_or_is_not_remembered_is_objected_to(
    found: Any, before: Any, kept: Any, again: bool, wrong: bool
):
    def ask() -> list[str]:
        asked = controller(_last_events={V: {"n0": kept}} if kept is not None else {})
        if again:
            asked.queue.add(V)
        return [*acts.told(None, before, asked, V, "n0", found)]

    assert bool(awaited(ask)) == wrong


# --- the handshake

TERMS = Terms(Policy(0.0, False), datetime(2030, 1, 1, tzinfo=UTC), False)


@pytest.mark.parametrize(
    ("verdict", "code", "steps", "about", "record", "wrong"),
    [
        (Release.ALLOW, "NotInUse", ["unreport", "_delete"], MARKED, MARKED, False),
        (Release.ALLOW, "NotInUse", ["_delete", "unreport"], MARKED, MARKED, True),
        (Release.ALLOW, "NotInUse", ["unreport"], MARKED, MARKED, True),
        (Release.ALLOW, "NotInUse", ["unreport", "_delete"], RECORD, MARKED, True),
        (Release.ALLOW, "NotInUse", ["unreport", "_delete"], RECORD, RECORD, True),
        (Release.KEEP, "InUse", ["unreport", "restore"], MARKED, MARKED, True),
        (Release.FORCE, "Broken", ["unreport", "_delete"], MARKED, MARKED, True),
    ],
)
def test_a_detach_that_does_not_go_as_it_should_is_objected_to(
    verdict: Release, code: str, steps: list[str], about: Any, record: Any, wrong: bool
):
    """Its Node shows that the volume is not in use there."""
    seen = replace(NODE, metadata=replace(NODE.metadata, annotations={"mooring.dev/reconstructed": "true"}))

    def ask() -> list[str]:
        asked: Any = Parts()
        handshakes.begin()
        begun = handshakes.walk_begins(asked, RECORD)
        for step in steps:
            answer, of = (seen, V) if step == "unreport" else (None, about)
            [*handshakes.noting(step)(answer, asked, of)]
        released = Released(ReleaseDecision(verdict, Reason(code, "")), record)
        return [*handshakes.walked(released, begun, asked, RECORD, TERMS)]

    assert bool(awaited(ask)) == wrong


@pytest.mark.parametrize(
    ("listed", "written", "wrong"),
    [([], True, False), ([V], True, True), (["other"], True, False), ([], False, True)],
)
def test_an_unreport_that_leaves_the_volume_or_changes_nothing_is_objected_to(
    listed: list[str], written: bool, wrong: bool
):
    annotations = {VOLUMES_ATTACHED_WRITE: "t"} if written else {}
    answer = Node(
        metadata=ObjectMeta(name="n0", annotations=annotations),
        status=NodeStatus(volumes_attached=tuple(AttachedVolume(name=each) for each in listed)),
    )
    assert bool(awaited(lambda: [*handshakes.unreported(answer, None, V, "n0", "t", MARKED)])) == wrong  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "cached", "wrong"), [(MARKED, MARKED, False), (RECORD, MARKED, True), (MARKED, None, False)]
)
def test_an_annotation_that_is_not_there_is_objected_to(answer: Any, cached: Any, wrong: bool):
    asked: Any = Parts(_records={"va": cached} if cached is not None else {})
    assert bool(awaited(lambda: [*handshakes.annotated(answer, asked, RECORD, {DETACHING: "t"})])) == wrong


def test_an_annotation_that_its_cache_does_not_know_is_objected_to():
    newer = replace(MARKED, metadata=replace(MARKED.metadata, resource_version="6"))
    asked: Any = Parts(_records={"va": RECORD})
    assert awaited(lambda: [*handshakes.annotated(newer, asked, RECORD, {DETACHING: "t"})])


@pytest.mark.parametrize(
    ("opinion", "wrote", "rest"),
    [
        (handshakes.restored, {DETACHING: None, NODE_ABSENT_SINCE: None}, ()),
        (handshakes.restamped, {NODE_UID: "node"}, (NODE,)),
        (handshakes.granted, {NODE_UID: "node", ATTACH_EPOCH: "7"}, (NODE, "pod")),
        (handshakes.noted, {"note": None}, ([("note", None)],)),
    ],
)
def test_a_step_that_writes_less_than_it_should_is_objected_to(
    opinion: Any, wrote: dict[str, Any], rest: Any
):
    def ask(said: dict[str, Any]) -> list[str]:
        handshakes.begin()
        [*handshakes.noting("epoch")(7, None, RECORD)]
        [*handshakes.annotated(RECORD, Parts(_records={}), RECORD, said)]  # type: ignore[arg-type]
        return [*opinion(None, None, RECORD, *rest)]

    assert awaited(lambda: ask(wrote)) == []
    for name in wrote:
        assert awaited(lambda name=name: ask({each: wrote[each] for each in wrote if each != name}))


GONE, UNREACHABLE = NotFound("", status=404), Unreachable("")


def locked(node: str, uid: str) -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name="pv", annotations=annotation(Lock(3, node, uid))))


@pytest.mark.parametrize(
    ("requests", "wrong"),
    [
        ([], True),
        ([read(PersistentVolume, "pv", GONE)], False),
        ([read(PersistentVolume, "pv", UNREACHABLE)], True),
        ([read(PersistentVolume, "pv", locked("n0", "node"))], False),
        ([read(PersistentVolume, "pv", locked("other", "before"))], False),
        ([read(PersistentVolume, "pv", locked("n0", "before"))], True),
        (
            [
                read(PersistentVolume, "pv", locked("n0", "before")),
                patched(PersistentVolume, "pv", locked("n0", "node")),
            ],
            False,
        ),
    ],
)
def test_a_lock_that_is_of_a_node_which_was_registered_before_is_objected_to(requests: Any, wrong: bool):
    asked: Any = None
    of = replace(
        RECORD, spec=replace(RECORD.spec, source=VolumeAttachmentSource(persistent_volume_name="pv"))
    )
    assert bool(said_of(lambda m: handshakes.lock_restamped(None, m, asked, of, NODE), *requests)) == wrong


def taken(epoch: int, *closed: str) -> PersistentVolume:
    lock = Lock(epoch, "n0", closed={each: Closed(epoch) for each in closed})
    return PersistentVolume(metadata=ObjectMeta(name="pv", annotations=annotation(lock)))


@pytest.mark.parametrize(
    ("requests", "exclusive", "wrong"),
    [
        ([], True, True),
        ([read(PersistentVolume, "pv", GONE)], True, False),
        ([read(PersistentVolume, "pv", UNREACHABLE)], True, True),
        ([read(PersistentVolume, "pv", taken(3))], True, True),
        (
            [read(PersistentVolume, "pv", taken(3)), patched(PersistentVolume, "pv", taken(4, "n0"))],
            True,
            False,
        ),
        (
            [read(PersistentVolume, "pv", taken(3)), patched(PersistentVolume, "pv", taken(4, "n1"))],
            True,
            True,
        ),
        (
            [read(PersistentVolume, "pv", taken(3)), patched(PersistentVolume, "pv", taken(3, "n0"))],
            True,
            True,
        ),
        (
            [read(PersistentVolume, "pv", taken(3)), patched(PersistentVolume, "pv", taken(3, "n0"))],
            False,
            False,
        ),
    ],
)
def test_what_is_taken_by_force_and_whose_lock_does_not_say_so_is_objected_to(
    requests: Any, exclusive: bool, wrong: bool
):
    asked: Any = None
    of = replace(
        RECORD, spec=replace(RECORD.spec, source=VolumeAttachmentSource(persistent_volume_name="pv"))
    )
    found = said_of(
        lambda m: handshakes.lock_released(None, m, asked, of, NODE, exclusive=exclusive), *requests
    )
    assert bool(found) == wrong
