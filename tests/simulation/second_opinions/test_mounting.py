"""The second opinion about the volumes of a node: none about production's answers, one about each wrong
one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pod_volumes import volume_state

from mooring.kube.objects import (
    ManagedMeta,
    Node,
    ObjectMeta,
    Pod,
    VolumeAttachment,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
)
from mooring.kube.reason import Reason
from mooring.node.volumes.decide import Action, Presence, VolumeState, decide
from mooring.node.volumes.node_volumes import NodeVolumes
from mooring.node.volumes.records import DeviceRecord, PodRecord, VolumeRecord
from mooring.node.volumes.volume import PodOperation, Want, WantedVolume
from mooring.simulation.checks.second_opinions import SecondOpinions, node_states
from mooring.simulation.checks.second_opinions.mounting import hindrance, next_step
from mooring.simulation.engine.trace import Trace
from mooring.volumes.names import DETACHING
from mooring.volumes.spec import VolumeSpec

PODS: tuple[str, ...] = ("a", "b", "c")
subsets = st.frozensets(st.sampled_from(PODS))
presences: st.SearchStrategy[dict[str, Presence]] = st.dictionaries(
    st.sampled_from(PODS), st.sampled_from(Presence)
)


@st.composite
def states(draw: st.DrawFn) -> VolumeState:
    attachable, wanted_by = draw(st.booleans()), draw(subsets)
    has_device = attachable or draw(st.booleans())
    operations = st.sampled_from([Action.SET_UP, Action.TEAR_DOWN])
    return VolumeState(
        attachable=attachable,
        has_device=has_device,
        wanted_by=wanted_by,
        starting=draw(subsets) & wanted_by,
        pods=draw(presences),
        outdated=draw(subsets),
        under_way=draw(st.sampled_from([frozenset[str](), frozenset({"a"})])),
        resting=draw(st.dictionaries(st.sampled_from(PODS), operations)),
        one_at_a_time=draw(st.booleans()),
        device=draw(st.sampled_from(Presence)) if has_device else Presence.ABSENT,
        published=draw(st.booleans()),
        reported=draw(st.booleans()),
        to_grow=draw(st.booleans()),
        stale=draw(st.booleans()),
    )


@given(states())
def test_production_takes_the_next_step_as_the_rules_say(volume: VolumeState):
    assert [*next_step(decide(volume), volume)] == []


WANTED = volume_state(wanted_by=frozenset("a"), starting=frozenset("a"), published=True)
MOUNTED = replace(WANTED, reported=True, device=Presence.PRESENT)
STEPS = {
    Action.PUBLISH: replace(WANTED, published=False),
    Action.WAIT_FOR_ATTACH: WANTED,
    Action.MOUNT_DEVICE: replace(WANTED, reported=True),
    Action.SET_UP: MOUNTED,
    Action.GROW: replace(MOUNTED, pods={"a": Presence.PRESENT}, to_grow=True),
    Action.TEAR_DOWN: replace(MOUNTED, pods={"b": Presence.UNCERTAIN}),
    Action.UNMOUNT_DEVICE: replace(MOUNTED, wanted_by=frozenset(), starting=frozenset()),
    Action.END_PODS: replace(MOUNTED, pods={"a": Presence.PRESENT}, stale=True),
    Action.UNPUBLISH: replace(WANTED, wanted_by=frozenset(), starting=frozenset()),
    Action.SETTLED: replace(MOUNTED, pods={"a": Presence.PRESENT}),
}


@pytest.mark.parametrize("due", [*Action])
@pytest.mark.parametrize("taken", [*Action])
def test_another_step_is_objected_to(due: Action, taken: Action):
    answer = decide(STEPS[due])
    assert answer.action is due
    wrong = [*next_step(type(answer)(taken, answer.reason, answer.pods), STEPS[due])]
    assert (wrong == []) == (taken is due)


@pytest.mark.parametrize("due", [*Action])
def test_other_pods_and_another_reason_are_objected_to(due: Action):
    answer = decide(STEPS[due])
    assert [*next_step(type(answer)(due, answer.reason, answer.pods ^ {"z"}), STEPS[due])]
    assert [*next_step(type(answer)(due, Reason("Else", ""), answer.pods), STEPS[due])]


# --- the live look


def record(
    *, attached: bool = True, node: str = "n0", marked: bool = False, ends: bool = False
) -> VolumeAttachment:
    return VolumeAttachment(
        metadata=ObjectMeta(
            name="va",
            annotations={DETACHING: "t"} if marked else {},
            deletion_timestamp="t" if ends else None,
        ),
        spec=VolumeAttachmentSpec(node_name=node),
        status=VolumeAttachmentStatus(attached=attached),
    )


@pytest.mark.parametrize(
    ("seen", "permits"),
    [
        (record(), True),
        (record(attached=False), False),
        (record(node="n1"), False),
        (record(marked=True), False),
        (record(ends=True), False),
    ],
)
def test_a_look_that_permits_what_it_must_not_is_objected_to(seen: VolumeAttachment, permits: bool):
    node = Node(metadata=ManagedMeta(name="n0"))
    assert ([*hindrance("", seen, node)] == []) == permits
    assert ([*hindrance("is not attached", seen, node)] == []) == (not permits)


# --- what is known of a volume: production is listened to, and then asked again with one of its parts wrong


def heard(done: Callable[[], Any]) -> list[str]:
    """What is objected to meanwhile."""
    found, opinions = list[str](), SecondOpinions()
    opinions.follow(Trace(lambda: 0.0), lambda name, words, event: found.append(words))
    with opinions.heard(node_states.QUESTIONS):
        done()
    return found


def pod(uid: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=f"pod-{uid}", namespace="default", uid=uid))


def want(uid: str, *, starting: bool = True) -> Want:
    return Want(pod(uid), ("data",), VolumeSpec("data"), 0.0, frozenset({"data"}), starting=starting)


@st.composite
def volumes(draw: st.DrawFn) -> WantedVolume:
    device = draw(
        st.sampled_from([None, DeviceRecord("/d", "va-1"), DeviceRecord("/d", "va-1", leaving=True)])
    )
    pods = draw(presences)
    there = {uid for uid, presence in pods.items() if presence is not Presence.ABSENT}
    record = VolumeRecord(
        "example.com/disk/d1",
        "example.com/disk",
        attachable=draw(st.booleans()),
        has_device=device is not None or draw(st.booleans()),
        attached_here=draw(st.booleans()),
        device=device,
        pods={uid: PodRecord("data", f"/p/{uid}") for uid in there},
    )
    operation = st.builds(
        PodOperation,
        action=st.sampled_from([Action.SET_UP, Action.TEAR_DOWN]),
        under_way=st.booleans(),
        failures=st.integers(0, 12),
        again_at=st.sampled_from([0.0, 90.0, 100.0, 110.0]),
    )
    return WantedVolume(
        record,
        device=draw(st.sampled_from(Presence)),
        pods=pods,
        wants={uid: want(uid, starting=draw(st.booleans())) for uid in draw(subsets)},
        adopted=set(draw(subsets)),
        outdated=set(draw(subsets)),
        set_up_at=draw(st.dictionaries(st.sampled_from(PODS), st.sampled_from([10.0, 95.0]))),
        stale=record.attachable and draw(st.booleans()),
        mounting=draw(st.booleans()),
        operations=draw(st.dictionaries(st.sampled_from(PODS), operation)),
        to_grow=draw(st.booleans()),
    )


@given(volumes(), st.sampled_from(PODS), st.sampled_from([Action.SET_UP, Action.TEAR_DOWN]))
def test_production_knows_a_volume_as_the_rules_say(volume: WantedVolume, uid: str, action: Action):
    def ask() -> None:
        volume.state(published=True, reported=False, now=100.0, one_at_a_time=False)
        volume.awaited_epoch("n0")
        volume.rest(100.0)
        volume.age(lambda each: 20.0 if each.starting else None, 100.0)
        volume.taken_over("va-1")
        volume.begin(uid, action).failed(100.0)
        volume.forget_operation(uid)
        volume.drop(uid)

    assert heard(ask) == []


@given(st.lists(volumes(), max_size=1), st.sampled_from(PODS))
def test_production_knows_a_nodes_volumes_as_the_rules_say(found: list[WantedVolume], uid: str):
    def ask() -> None:
        known = NodeVolumes("n0")
        for volume in found:
            known.found(volume.record, {"/d", "/p/a"})
            known.want(volume, want(uid))
            volume.pods[uid] = Presence.ABSENT
            known.in_use()
            known.state(uid, None)
            known.forget(volume)

    assert heard(ask) == []


def busy() -> WantedVolume:
    record = VolumeRecord("example.com/disk/d1", "example.com/disk", attachable=True, has_device=True)
    return WantedVolume(record, wants={"a": want("a")}, operations={"a": PodOperation(Action.SET_UP)})


def resting() -> WantedVolume:
    volume = busy()
    volume.operations["a"].failed(100.0)
    return volume


def wrong(opinion: Callable[..., Any], answer: Any, *asked: Any, **more: Any) -> list[str]:
    return [*opinion(answer, *asked, **more)]


@pytest.mark.parametrize("name", ["wanted_by", "starting", "under_way", "outdated"])
def test_pods_that_count_wrongly_are_objected_to(name: str):
    volume = busy()
    more: dict[str, Any] = {"published": True, "reported": False, "now": 1.0, "one_at_a_time": False}
    answer = volume.state(**more)
    other: dict[str, Any] = {name: getattr(answer, name) ^ {"a"}}
    assert wrong(node_states.volume_state, replace(answer, **other), volume, **more)


@pytest.mark.parametrize("name", ["attachable", "has_device", "published", "reported", "to_grow", "stale"])
def test_a_fact_that_is_turned_round_is_objected_to(name: str):
    volume = busy()
    more: dict[str, Any] = {"published": True, "reported": False, "now": 1.0, "one_at_a_time": False}
    answer = volume.state(**more)
    other: dict[str, Any] = {name: not getattr(answer, name)}
    assert wrong(node_states.volume_state, replace(answer, **other), volume, **more)


def test_a_backoff_that_is_over_or_not_is_objected_to():
    volume = resting()
    more: dict[str, Any] = {"published": True, "reported": False, "now": 100.1, "one_at_a_time": False}
    early = replace(volume.state(**more), resting={})
    assert wrong(node_states.volume_state, early, volume, **more)


@pytest.mark.parametrize("roused", [False, True])
def test_what_has_failed_rests_unless_something_has_changed(roused: bool):
    operation = PodOperation(Action.SET_UP, roused=roused)
    answer = operation.failed(100.0)
    assert not wrong(node_states.failed, answer, 0, operation, 100.0)
    operation.again_at = 100.5 if roused else 0.0
    assert wrong(node_states.failed, answer, 0, operation, 100.0)


@pytest.mark.parametrize("answer", [0.25, 1.0, 0.0])
def test_another_backoff_is_objected_to(answer: float):
    operation = PodOperation(Action.SET_UP)
    operation.failed(100.0)
    assert wrong(node_states.failed, answer, 0, operation, 100.0)


@pytest.mark.parametrize("answer", [None, 0.1])
def test_a_look_that_does_not_come_in_time_is_objected_to(answer: float | None):
    assert wrong(node_states.rest, answer, resting(), 100.0)


def five_seconds(of: Want) -> float:
    return 5.0


def test_an_age_that_is_not_noticed_is_objected_to():
    volume = WantedVolume(busy().record, wants={"a": want("a")}, pods={"a": Presence.PRESENT})
    assert wrong(node_states.aged, None, volume, five_seconds, 100.0)


def test_an_operation_that_counts_failures_of_another_kind_is_objected_to():
    volume = busy()
    begun = volume.operations["a"] = PodOperation(Action.TEAR_DOWN, failures=2)
    before = node_states.Before(Action.SET_UP, 2)
    assert wrong(node_states.begun, begun, before, volume, "a", Action.TEAR_DOWN)


def test_a_wish_that_stays_is_objected_to():
    assert wrong(node_states.dropped, True, True, busy(), "a")


def test_an_operation_of_a_pod_that_is_gone_is_objected_to():
    volume = resting()
    volume.wants.clear()
    assert wrong(node_states.operation_forgotten, None, volume, "a")


def test_a_device_that_is_taken_over_unseen_is_objected_to():
    record = VolumeRecord("d", "p", device=DeviceRecord("/d", "va-1"))
    assert wrong(node_states.another_attachment, False, WantedVolume(record), "va-2")


def test_volumes_in_use_that_are_not_said_are_objected_to():
    known = NodeVolumes("n0")
    known.want(busy(), want("a"))
    assert wrong(node_states.in_use, (), known)


@pytest.mark.parametrize(
    "change", [{"mounted": {"data": "/"}}, {"waiting": {}}, {"held": True}, {"stale": True}]
)
def test_another_view_of_a_pod_is_objected_to(change: dict[str, Any]):
    known = NodeVolumes("n0")
    known.want(busy(), want("a"))
    assert wrong(node_states.pods_view, replace(known.state("a", None), **change), known, "a", None)


@pytest.mark.parametrize("surely", [True, False])
def test_what_is_found_after_a_restart_and_taken_for_something_else_is_objected_to(surely: bool):
    known = NodeVolumes("n0")
    record = VolumeRecord(
        "d", "p", has_device=True, device=DeviceRecord("/d"), pods={"a": PodRecord("v", "/a")}
    )
    known.found(record, {"/d", "/a"} if surely else set())
    assert wrong(node_states.found_again, None, known, record, set() if surely else {"/d", "/a"})


def test_a_volume_that_is_forgotten_while_it_is_wanted_is_objected_to():
    assert wrong(node_states.forgotten, None, True, NodeVolumes("n0"), busy())
