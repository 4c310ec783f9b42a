"""The next step about one volume on a node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod_volumes import volume_state

from mooring.node.volumes.decide import Action, Presence, VolumeState, decide

PODS: tuple[str, ...] = ("a", "b", "c")
subsets = st.frozensets(st.sampled_from(PODS))
A, AB, NONE = frozenset("a"), frozenset("ab"), frozenset[str]()
NEW = volume_state(wanted_by=AB, starting=AB)
"""Nothing has been done about it yet."""


@st.composite
def volumes(draw: st.DrawFn) -> VolumeState:
    attachable = draw(st.booleans())
    has_device = attachable or draw(st.booleans())
    wanted_by = draw(subsets)
    return VolumeState(
        attachable=attachable,
        has_device=has_device,
        wanted_by=wanted_by,
        starting=draw(subsets) & wanted_by,
        pods=draw(st.dictionaries(st.sampled_from(PODS), st.sampled_from(Presence))),
        outdated=draw(subsets),
        device=draw(st.sampled_from(Presence)) if has_device else Presence.ABSENT,
        published=attachable and draw(st.booleans()),
        reported=attachable and draw(st.booleans()),
        stale=attachable and draw(st.booleans()),
        under_way=draw(subsets),
        resting=draw(
            st.dictionaries(st.sampled_from(PODS), st.sampled_from([Action.SET_UP, Action.TEAR_DOWN]))
        ),
        one_at_a_time=draw(st.booleans()),
        to_grow=draw(st.booleans()),
    )


def held(volume: VolumeState) -> set[str]:
    return {pod for pod, presence in volume.pods.items() if presence is not Presence.ABSENT}


def quiet(volume: VolumeState) -> VolumeState:
    """The volume without an operation for any pod."""
    return replace(volume, under_way=frozenset(), resting={})


FOR_PODS = (Action.SET_UP, Action.TEAR_DOWN)


@given(volumes())
def test_an_operation_for_a_pod_waits_for_its_own_and_not_for_those_of_other_pods(
    volume: VolumeState,
) -> None:
    volume = replace(volume, one_at_a_time=False)
    alone, step = decide(quiet(volume)), decide(volume)
    free = {pod for pod in alone.pods - volume.under_way if volume.resting.get(pod) is not alone.action}
    if alone.action in FOR_PODS and free:
        assert (step.action, step.pods) == (alone.action, free)
    if step.action in FOR_PODS:
        assert not step.pods & volume.under_way
        assert all(volume.resting.get(pod) is not step.action for pod in step.pods)


@given(volumes())
def test_an_operation_that_failed_keeps_none_of_another_kind_away(volume: VolumeState) -> None:
    step = decide(quiet(volume))
    kinds = {Action.SET_UP: Action.TEAR_DOWN, Action.TEAR_DOWN: Action.SET_UP}
    if other := kinds.get(step.action):
        assert decide(replace(quiet(volume), resting=dict.fromkeys(PODS, other))) == step


@given(volumes())
def test_nothing_is_done_with_a_device_while_anything_is_done_for_a_pod(volume: VolumeState) -> None:
    if volume.under_way:
        device = (Action.MOUNT_DEVICE, Action.UNMOUNT_DEVICE, Action.GROW, Action.UNPUBLISH)
        assert decide(volume).action not in device


@given(volumes())
def test_a_driver_of_one_call_at_a_time_gets_one(volume: VolumeState) -> None:
    step = decide(replace(volume, one_at_a_time=True))
    if step.action in FOR_PODS:
        assert len(step.pods) == 1
        assert not volume.under_way


@given(volumes())
def test_nothing_is_handed_out_before_both_sides_have_published(volume: VolumeState) -> None:
    if volume.attachable and decide(volume).action in (Action.MOUNT_DEVICE, Action.SET_UP):
        assert volume.published
        assert volume.reported
        assert not volume.stale


@given(volumes())
def test_the_device_is_unmounted_only_when_no_pod_has_it(volume: VolumeState) -> None:
    if decide(volume).action is Action.UNMOUNT_DEVICE:
        assert not held(volume)
        assert volume.device is not Presence.ABSENT
        assert volume.stale or not volume.wanted_by or not volume.reported


def test_a_mount_that_no_pod_has_does_not_wait_for_a_volume_that_is_being_detached() -> None:
    """Storage that refuses to detach what is mounted would wait for the node, and the node for the
    storage."""
    new = frozenset({"new"})
    waits = replace(NEW, wanted_by=new, starting=new, device=Presence.PRESENT, published=True)
    assert decide(waits).action is Action.UNMOUNT_DEVICE
    assert decide(replace(waits, pods={"old": Presence.PRESENT})).action is Action.TEAR_DOWN
    assert decide(replace(waits, reported=True)).action is Action.SET_UP


@given(volumes())
def test_a_volume_leaves_volumes_in_use_only_when_nothing_of_it_is_left(volume: VolumeState) -> None:
    if decide(volume).action is Action.UNPUBLISH:
        assert not held(volume)
        assert volume.device is Presence.ABSENT
        assert not volume.wanted_by


@given(volumes())
def test_only_pods_that_do_not_want_it_are_torn_down(volume: VolumeState) -> None:
    step = decide(volume)
    if step.action is Action.TEAR_DOWN:
        assert step.pods <= held(volume) - volume.wanted_by


@given(volumes())
def test_a_pod_that_terminates_gets_nothing_new(volume: VolumeState) -> None:
    step = decide(volume)
    if step.action in (Action.SET_UP, Action.MOUNT_DEVICE):
        assert step.pods
        assert step.pods <= volume.starting


@given(volumes().map(quiet))
def test_a_settled_volume_lacks_nothing_and_keeps_nothing(volume: VolumeState) -> None:
    if decide(volume).action is Action.SETTLED and not volume.stale:
        assert all(volume.pods.get(pod) is Presence.PRESENT for pod in volume.starting)
        assert held(volume) <= volume.wanted_by
        assert volume.wanted_by


def carried_out(volume: VolumeState) -> VolumeState:
    """The volume after its next step has succeeded, with a controller and pods that play along."""
    step = decide(volume)
    match step.action:
        case Action.PUBLISH:
            return replace(volume, published=True)
        case Action.WAIT_FOR_ATTACH:
            return replace(volume, reported=True)
        case Action.MOUNT_DEVICE:
            return replace(volume, device=Presence.PRESENT)
        case Action.SET_UP:
            present = dict.fromkeys(step.pods, Presence.PRESENT)
            return replace(volume, pods={**volume.pods, **present}, outdated=volume.outdated - step.pods)
        case Action.GROW:
            return replace(volume, to_grow=False)
        case Action.TEAR_DOWN:
            return replace(volume, pods={pod: p for pod, p in volume.pods.items() if pod not in step.pods})
        case Action.END_PODS:
            return replace(
                volume, wanted_by=volume.wanted_by - step.pods, starting=volume.starting - step.pods
            )
        case Action.UNMOUNT_DEVICE:
            return replace(volume, device=Presence.ABSENT, stale=False)
        case Action.UNPUBLISH:
            return replace(volume, published=False)
        case Action.SETTLED:
            return quiet(volume)


@given(volumes())
def test_every_volume_comes_to_rest(volume: VolumeState) -> None:
    for _ in range(20):
        if decide(quiet(volume)).action in (Action.SETTLED, Action.UNPUBLISH):
            return
        volume = carried_out(volume)
    raise AssertionError(f"still busy: {decide(volume)} {volume}")


PUBLISHED = replace(NEW, published=True)
REPORTED = replace(PUBLISHED, reported=True)
MOUNTED = replace(REPORTED, device=Presence.PRESENT)
IN_USE = replace(MOUNTED, pods={"a": Presence.PRESENT, "b": Presence.PRESENT})
LEFT = replace(MOUNTED, wanted_by=NONE, starting=NONE)
TAKEN = replace(IN_USE, wanted_by=NONE, starting=NONE, stale=True, to_grow=True)
LOCAL = replace(NEW, attachable=False, has_device=False)
ENDING = {"starting": A}
"""Pod b is being terminated."""
B = frozenset("b")


@pytest.mark.parametrize(
    ("volume", "action", "pods", "code"),
    [
        (NEW, Action.PUBLISH, AB, "NotPublished"),
        (replace(NEW, reported=True), Action.PUBLISH, AB, "NotPublished"),
        (PUBLISHED, Action.WAIT_FOR_ATTACH, AB, "WaitingForAttach"),
        (replace(PUBLISHED, under_way=A), Action.WAIT_FOR_ATTACH, B, "WaitingForAttach"),
        (replace(PUBLISHED, **ENDING), Action.WAIT_FOR_ATTACH, A, "WaitingForAttach"),
        (REPORTED, Action.MOUNT_DEVICE, AB, "Mounting"),
        (replace(REPORTED, under_way=A), Action.SETTLED, NONE, "Settled"),
        (replace(REPORTED, device=Presence.UNCERTAIN), Action.MOUNT_DEVICE, AB, "Mounting"),
        (MOUNTED, Action.SET_UP, AB, "Mounting"),
        (replace(MOUNTED, **ENDING), Action.SET_UP, A, "Mounting"),
        (replace(MOUNTED, pods={"a": Presence.UNCERTAIN}), Action.SET_UP, AB, "Mounting"),
        (replace(IN_USE, outdated=frozenset("bc")), Action.SET_UP, B, "Mounting"),
        (replace(IN_USE, outdated=AB, **ENDING), Action.SET_UP, A, "Mounting"),
        (LOCAL, Action.SET_UP, AB, "Mounting"),
        (replace(LOCAL, has_device=True), Action.MOUNT_DEVICE, AB, "Mounting"),
        (IN_USE, Action.SETTLED, NONE, "Settled"),
        (replace(IN_USE, **ENDING), Action.SETTLED, NONE, "Settled"),
        (replace(IN_USE, reported=False), Action.SETTLED, NONE, "Settled"),
        (replace(IN_USE, to_grow=True, **ENDING), Action.GROW, A, "Resizing"),
        (replace(IN_USE, to_grow=True, under_way=A), Action.SETTLED, NONE, "Settled"),
        (replace(IN_USE, to_grow=True, device=Presence.UNCERTAIN), Action.SETTLED, NONE, "Settled"),
        (replace(IN_USE, wanted_by=A, starting=A), Action.TEAR_DOWN, B, "NotWanted"),
        (replace(IN_USE, wanted_by=NONE, starting=NONE), Action.TEAR_DOWN, AB, "NotWanted"),
        (replace(IN_USE, stale=True), Action.END_PODS, AB, "StaleMount"),
        (replace(IN_USE, stale=True, wanted_by=A, under_way=B), Action.END_PODS, A, "StaleMount"),
        (replace(MOUNTED, stale=True), Action.UNMOUNT_DEVICE, NONE, "StaleMount"),
        (replace(MOUNTED, stale=True, under_way=A), Action.SETTLED, NONE, "Settled"),
        (replace(MOUNTED, reported=False), Action.UNMOUNT_DEVICE, NONE, "NotAttached"),
        (replace(TAKEN, resting=dict.fromkeys("ab", Action.TEAR_DOWN)), Action.SETTLED, NONE, "Settled"),
        (LEFT, Action.UNMOUNT_DEVICE, NONE, "NotWanted"),
        (replace(LEFT, device=Presence.UNCERTAIN), Action.UNMOUNT_DEVICE, NONE, "NotWanted"),
        (replace(LEFT, under_way=A), Action.SETTLED, NONE, "Settled"),
        (replace(LEFT, under_way=A, published=False), Action.SETTLED, NONE, "Settled"),
        (replace(LEFT, device=Presence.ABSENT), Action.UNPUBLISH, NONE, "NotWanted"),
        (replace(LEFT, device=Presence.ABSENT, under_way=A), Action.SETTLED, NONE, "Settled"),
    ],
)
def test_each_step_names_its_pods_and_its_reason(
    volume: VolumeState, action: Action, pods: frozenset[str], code: str
) -> None:
    step = decide(volume)
    assert (step.action, step.pods, step.reason.code) == (action, pods, code)


def test_a_driver_of_one_call_at_a_time_gets_the_first_of_the_pods() -> None:
    first = replace(MOUNTED, one_at_a_time=True)
    assert decide(first).pods == A
    assert decide(replace(first, under_way=A)).action is Action.SETTLED
    assert decide(replace(first, pods={"a": Presence.PRESENT})).pods == B
