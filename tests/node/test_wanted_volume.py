"""What is known of one volume, and what follows from it: what is found after a restart, what is in use, and
when what has failed is tried again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from mooring.kube.objects import ObjectMeta, PersistentVolume, Pod
from mooring.kube.reason import Reason
from mooring.node.volumes.decide import Action, Presence, VolumeState
from mooring.node.volumes.records import DeviceRecord, PodRecord, VolumeRecord
from mooring.node.volumes.volume import WAITING, PodOperation, Want, WantedVolume
from mooring.volumes.attachment_lock import ATTACHED_TO
from mooring.volumes.spec import VolumeSpec

NODE = "node-1"
PRESENT, UNCERTAIN, ABSENT = Presence.PRESENT, Presence.UNCERTAIN, Presence.ABSENT
SPEC = VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv")))
DEVICE = DeviceRecord("/m", "attachment", "node")


def record(**more: Any) -> VolumeRecord:
    one = VolumeRecord("example.com/disk/d1", "example.com/disk", attachable=True)
    return msgspec.structs.replace(one, **more)


def want(uid: str, spec: VolumeSpec = SPEC, **more: Any) -> Want:
    return Want(Pod(metadata=ObjectMeta(name=uid, uid=uid)), ("data", "again"), spec, 0.0, **more)


def wanted(*uids: str, **more: Any) -> WantedVolume:
    """A volume that these pods want."""
    return WantedVolume(record(), wants={uid: want(uid) for uid in uids}, **more)


# --- after a restart


@pytest.mark.parametrize(
    ("device", "mounted", "presence"),
    [
        (DEVICE, True, PRESENT),
        (DEVICE, False, UNCERTAIN),
        (DeviceRecord("/m", "attachment", "node", leaving=True), True, UNCERTAIN),
        (DeviceRecord("/m", "attachment", "node", unfinished=True), True, UNCERTAIN),
        (None, True, ABSENT),
    ],
)
def test_a_recorded_device_is_there_if_it_is_mounted_and_nothing_was_under_way(
    device: DeviceRecord | None, mounted: bool, presence: Presence
):
    found = WantedVolume.found(record(device=device), {"/m"} if mounted else set())
    assert found.device is presence


def test_what_pods_had_stays_theirs_until_the_api_has_shown_them():
    half = PodRecord("pv", "/c", unfinished=True)
    goes = PodRecord("pv", "/d", leaving=True)
    pods = {"a": PodRecord("pv", "/a"), "b": PodRecord("pv", "/b"), "c": half, "d": goes}
    found = WantedVolume.found(record(pods=pods), {"/a", "/c", "/d"})
    assert found.pods == {"a": PRESENT, "b": UNCERTAIN, "c": UNCERTAIN, "d": UNCERTAIN}
    assert found.adopted == {"a", "b", "c"}
    assert not found.to_grow, "whether its claim asks for it is looked at later, at each claim's own time"
    assert found.state(published=True, reported=True, now=0.0, one_at_a_time=False).wanted_by == {
        "a",
        "b",
        "c",
    }


@pytest.mark.parametrize(
    ("changes", "unverified"),
    [
        ({"device": DEVICE}, True),
        ({"device": DEVICE, "attachable": False}, False),
        ({"device": DEVICE, "attached_here": True}, False),
        ({}, False),
    ],
)
def test_an_attachment_is_looked_at_where_a_controller_made_one_for_what_is_mounted(
    changes: dict[str, Any], unverified: bool
):
    assert WantedVolume.found(record(**changes), set()).unverified is unverified


def test_what_this_agent_has_attached_and_not_mounted_is_let_go_of():
    assert WantedVolume.found(record(attached_here=True), set()).device is UNCERTAIN


# --- in use


MAKING: dict[str, Any] = {"operations": {"a": PodOperation(Action.SET_UP)}}
FAILED: dict[str, Any] = {"operations": {"a": PodOperation(Action.SET_UP, under_way=False)}}


@pytest.mark.parametrize(
    ("volume", "in_use"),
    [
        (WantedVolume(record()), False),
        (wanted("a"), True),
        (WantedVolume(record(device=DEVICE)), True),
        (WantedVolume(record(pods={"a": PodRecord("pv", "/a")})), True),
        (WantedVolume(record(attached_here=True)), True),
        (WantedVolume(record(), mounting=True), True),
        (WantedVolume(record(), **MAKING), True),
        (WantedVolume(record(), **FAILED), False),
        (WantedVolume(record(attachable=False, device=DEVICE)), False),
    ],
)
def test_a_volume_is_in_use_while_it_is_wanted_or_may_be_here(volume: WantedVolume, in_use: bool):
    assert volume.in_use is in_use


def taken_from(node: str, epoch: int) -> VolumeSpec:
    """A PersistentVolume that was taken by force from a node."""
    lock = json.dumps({"epoch": epoch, "closed": {node: {"epoch": epoch}}})
    metadata = ObjectMeta(name="pv", annotations={ATTACHED_TO: lock})
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=metadata))


def test_of_a_volume_that_was_taken_by_force_the_latest_epoch_that_a_pod_has_seen_is_said():
    volume = wanted("a")
    assert volume.awaited_epoch(NODE) is None
    volume.wants["b"] = want("b", taken_from(NODE, 4))
    volume.wants["c"] = want("c", taken_from(NODE, 7))
    volume.wants["d"] = want("d", taken_from("another", 9))
    assert volume.awaited_epoch(NODE) == 7


@pytest.mark.parametrize("left", [{"mounting": True}, MAKING, {"record": record(device=DEVICE)}])
def test_nothing_is_said_of_it_while_anything_of_it_may_be_mounted(left: dict[str, Any]):
    seen = {"a": want("a", taken_from(NODE, 4))}
    assert WantedVolume(record(), wants=seen).awaited_epoch(NODE) == 4
    volume = replace(WantedVolume(record(), wants=seen), **left)
    assert volume.awaited_epoch(NODE) is None


# --- operations for pods


def test_what_fails_is_tried_again_after_half_a_second_that_doubles_to_two_minutes():
    operation = PodOperation(Action.SET_UP)
    assert [operation.failed(10.0) for _ in range(10)] == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122]
    assert operation == PodOperation(Action.SET_UP, under_way=False, failures=10, again_at=132.0)
    assert {operation.failed(10.0) for _ in range(2000)} == {122}  # it may go on for days


def test_failures_count_on_for_the_same_operation_and_begin_anew_for_another():
    volume = wanted("a")
    assert volume.begin("a", Action.SET_UP) == PodOperation(Action.SET_UP, True, 0, 0.0)
    volume.operations["a"].failed(10.0)
    assert volume.begin("a", Action.SET_UP).failures == 1
    assert volume.begin("a", Action.TEAR_DOWN).failures == 0
    assert volume.operations == {"a": PodOperation(Action.TEAR_DOWN)}


def test_an_operation_that_failed_rests_until_its_time_or_until_something_changes():
    volume = wanted("a", "b", "c")
    for uid, again in (("a", 30.0), ("b", 20.0), ("c", 10.0)):
        volume.begin(uid, Action.SET_UP).rests(again)
    volume.begin("d", Action.TEAR_DOWN).again_at = 40.0  # whatever it says: it is under way

    def resting(now: float) -> VolumeState:
        return volume.state(published=True, reported=True, now=now, one_at_a_time=False)

    assert volume.rest(10.0) == 10.0
    assert resting(10.0).resting == {"a": Action.SET_UP, "b": Action.SET_UP}
    assert resting(10.0).under_way == {"d"}
    volume.rouse("b")
    volume.rouse("of which nothing is known")
    assert volume.rest(10.0) == 20.0
    assert resting(0.0).resting == {"a": Action.SET_UP, "c": Action.SET_UP}
    assert volume.rest(30.0) is None
    assert volume.rest(29.5) == 0.5


@pytest.mark.parametrize(
    ("volume", "left"),
    [
        (wanted("b"), False),
        (wanted("a"), True),
        (wanted("b", pods={"a": UNCERTAIN}), True),
        (wanted("b", pods={"a": ABSENT}), False),
    ],
)
def test_what_failed_for_a_pod_is_forgotten_when_it_neither_wants_nor_holds_the_volume(
    volume: WantedVolume, left: bool
):
    volume.begin("a", Action.SET_UP)
    volume.forget_operation("a")
    assert volume.operations, "it is under way"
    volume.operations["a"].failed(10.0)
    volume.forget_operation("a")
    volume.forget_operation("b")
    assert bool(volume.operations) is left


def test_a_pod_that_lets_go_wants_it_no_more_whether_it_was_shown_or_adopted():
    volume = wanted("a", adopted={"b"}, operations={"a": PodOperation(Action.SET_UP, under_way=False)})
    assert volume.drop("a")
    assert volume.drop("b")
    assert not volume.drop("a")
    assert volume == WantedVolume(record())


# --- what it shows


def test_content_that_ages_is_outdated_when_its_time_has_come():
    """What an earlier agent has set up, at a time unknown (c), is so at once; what a pod has not got (d), or
    what never ages (e), is not."""
    volume = wanted("a", "b", "c", "d", "e")
    volume.pods = dict.fromkeys("abce", PRESENT) | {"d": UNCERTAIN}
    volume.set_up_at = {"a": 90.0, "b": 40.0, "d": 0.0, "e": 0.0}

    def period(want: Want) -> float | None:
        return None if want.pod.uid == "e" else 60.0

    assert volume.age(period, 99.5) == 0.5
    assert volume.outdated == {"c"}
    assert volume.age(period, 100.0) == 50.0
    assert volume.outdated == {"b", "c"}
    assert volume.age(period, 150.0) is None
    assert volume.outdated == {"a", "b", "c"}


def test_a_pod_sees_a_path_for_what_it_has_and_a_reason_for_what_it_waits_for():
    volume = wanted("a", "b")
    volume.record = record(pods={"a": PodRecord("pv", "/a"), "b": PodRecord("pv", "/b")})
    volume.pods = {"a": PRESENT, "b": UNCERTAIN}
    volume.wants["b"].problem = Reason("NotAttached", "not yet")
    mounted, waiting = {"other": "/o"}, {"another": WAITING}
    for uid in ("a", "b", "c"):
        volume.set_pod_view(uid, mounted, waiting)
    assert mounted == {"other": "/o", "data": "/a", "again": "/a"}
    reason = Reason("NotAttached", "not yet")
    assert waiting == {"another": WAITING, "data": reason, "again": reason}


def test_a_pods_names_that_may_only_be_read_are_its_own():
    volume = wanted("a")
    volume.wants["b"] = want("b", read_only=frozenset({"again"}))
    assert [volume.read_only_names(uid) for uid in ("a", "b", "c")] == [set(), {"again"}, set()]


def test_another_attachment_than_the_one_it_was_mounted_under_has_taken_it_over():
    assert WantedVolume(record(device=DEVICE)).taken_over("the next")
    assert not WantedVolume(record(device=DEVICE)).taken_over("attachment")
    assert not WantedVolume(record()).taken_over("the next")


def test_all_that_is_known_is_judged():
    volume = wanted("a", "b", adopted={"c"}, outdated={"a"}, device=PRESENT, stale=True, to_grow=True)
    volume.pods = {"a": PRESENT}
    volume.wants["b"].starting = False
    volume.begin("a", Action.SET_UP)
    volume.begin("b", Action.TEAR_DOWN).rests(20.0)
    expected = VolumeState(
        attachable=True,
        has_device=False,
        wanted_by=frozenset("abc"),
        starting=frozenset("a"),
        pods={"a": PRESENT},
        outdated=frozenset("a"),
        under_way=frozenset("a"),
        resting={"b": Action.TEAR_DOWN},
        one_at_a_time=False,
        device=PRESENT,
        published=True,
        reported=False,
        to_grow=True,
        stale=False,  # nothing is left of it that could be
    )
    assert volume.state(published=True, reported=False, now=10.0, one_at_a_time=False) == expected
    volume.record = record(device=DEVICE)
    assert volume.state(published=True, reported=False, now=10.0, one_at_a_time=False) == replace(
        expected, stale=True
    )


def test_what_fails_after_something_has_changed_does_not_rest():
    """Else what has appeared just after it was looked for is seen only when the backoff is over."""
    volume = WantedVolume(record())
    operation = volume.begin("a", Action.SET_UP)
    volume.rouse("a")
    operation.failed(10.0)
    assert (operation.under_way, operation.again_at, operation.failures) == (False, 0.0, 1)
    again = volume.begin("a", Action.SET_UP)
    again.failed(10.0)
    assert (again.again_at, again.failures) == (11.0, 2), "nothing has changed since that began"
