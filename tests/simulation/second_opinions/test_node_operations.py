"""The second opinion about operations on a node's volumes: one about each wrong outcome."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mooring.kube.objects import (
    ManagedMeta,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
)
from mooring.kube.reason import Reason
from mooring.node.volumes.decide import Action, Decision, Presence
from mooring.node.volumes.handshake import Permission
from mooring.node.volumes.node_volumes import NodeVolumes
from mooring.node.volumes.records import DeviceRecord, PodRecord, VolumeRecord
from mooring.node.volumes.volume import PodOperation, Want, WantedVolume
from mooring.simulation.checks.second_opinions import node_operations
from mooring.volumes.attachment_lock import Closed, Lock, annotation
from mooring.volumes.errors import VolumeError
from mooring.volumes.names import AWAITED
from mooring.volumes.spec import VolumeSpec

NAME = "example.com/disk/d1"
UID = Permission({}, "va-1", "u")
MOUNTED = DeviceRecord("/d", "va-1")


def pod(*, labels: dict[str, str] | None = None) -> Pod:
    return Pod(metadata=ObjectMeta(name="web", namespace="default", uid="a", labels=labels or {}))


def volume(device: DeviceRecord | None = MOUNTED, **spec: Any) -> WantedVolume:
    """One that a pod has."""
    lock = annotation(Lock(4, closed={"n0": Closed(4)}))
    pv = PersistentVolume(metadata=ObjectMeta(name="pv", annotations=lock), spec=PersistentVolumeSpec(**spec))
    record = VolumeRecord(
        NAME, "example.com/disk", True, True, device=device, pods={"a": PodRecord("v", "/a")}
    )
    want = Want(pod(), ("data",), VolumeSpec.of_persistent_volume(pv), 0.0)
    return WantedVolume(
        record, device=Presence.PRESENT, pods={"a": Presence.PRESENT}, wants={"a": want}, set_up_at={"a": 1.0}
    )


class Plugin:
    def supports_mount_option(self) -> bool:
        return False

    def requires_remount(self) -> bool:
        return True


def asked(*known: WantedVolume, says: str = "{}") -> Any:
    """As a volume manager, and its operations, as far as the opinions look."""

    def plugin(name: str) -> Plugin:
        return Plugin()

    volumes = NodeVolumes("n0")
    for each in known:
        for want in each.wants.values():
            volumes.want(each, want)
    plugins = SimpleNamespace(find_plugin_by_name=plugin)
    return SimpleNamespace(
        _known=volumes,
        _plugins=plugins,
        _operations=SimpleNamespace(_plugins=plugins),
        _node_name="n0",
        _publisher=SimpleNamespace(node=Node(metadata=ManagedMeta(name="n0", annotations={AWAITED: says}))),
    )


def test_what_is_as_it_must_be_is_not_objected_to():
    assert not [*node_operations.has_been_set_up(None, asked(), volume(), "a")]
    assert not [*node_operations.device_mounted(None, True, asked(), volume(), UID)]
    gone = WantedVolume(VolumeRecord(NAME, "example.com/disk"))
    assert not [*node_operations.has_been_torn_down(None, asked(), gone, "a")]
    assert not [*node_operations.device_unmounted(None, asked(), gone, "n0")]


def test_a_pod_beside_another_one_of_a_volume_of_one_pod_is_objected_to():
    shared = volume(access_modes=("ReadWriteOncePod",))
    shared.pods["b"] = Presence.UNCERTAIN
    assert [*node_operations.has_been_set_up(None, asked(), shared, "a")]


def test_mount_options_that_are_not_honoured_are_objected_to():
    assert [*node_operations.has_been_set_up(None, asked(), volume(mount_options=("noatime",)), "a")]


def test_a_pod_whose_volume_is_not_recorded_is_objected_to():
    forgotten = volume()
    forgotten.set_up_at.clear()
    assert [*node_operations.has_been_set_up(None, asked(), forgotten, "a")]


def test_a_volume_that_stays_a_pods_is_objected_to():
    assert [*node_operations.has_been_torn_down(None, asked(), volume(), "a")]


@pytest.mark.parametrize(
    "device", [None, DeviceRecord("/d", "va-2"), DeviceRecord("/d", "va-1", leaving=True), DeviceRecord("/d")]
)
def test_a_mount_that_is_recorded_otherwise_is_objected_to(device: DeviceRecord | None):
    assert [*node_operations.device_mounted(None, True, asked(), volume(device), UID)]


def test_a_device_that_stays_is_objected_to():
    assert [*node_operations.device_unmounted(None, asked(), volume(), "n0")]


@pytest.mark.parametrize(
    ("says", "objected"), [("{}", True), (f'{{"{NAME}":3}}', True), (f'{{"{NAME}":4}}', False)]
)
def test_a_volume_whose_wait_the_node_does_not_tell_is_objected_to(says: str, objected: bool):
    awaited = volume(device=None)
    awaited.record = VolumeRecord(NAME, "example.com/disk", attachable=True)
    decision = Decision(Action.WAIT_FOR_ATTACH, Reason("WaitingForAttach", ""), frozenset("a"))
    found = [*node_operations.taken_step(False, asked(says=says), awaited, decision)]
    assert (found != []) == objected


def test_a_growth_that_failed_and_is_not_tried_again_is_objected_to():
    decision = Decision(Action.GROW, Reason("Resizing", ""))
    assert [*node_operations.grown(TimeoutError(), asked(), volume(), decision)]


def test_labels_that_a_pod_is_not_shown_are_objected_to():
    shows, other = volume(), pod(labels={"a": "b"})
    manager = asked(shows)
    before = node_operations.metadata_before(manager, pod(), other)
    assert [*node_operations.pod_shown(None, before, manager, pod(), other)]
    shows.outdated.add("a")
    assert not [*node_operations.pod_shown(None, before, manager, pod(), other)]


def test_a_pod_that_is_gone_and_still_gets_something_is_objected_to():
    assert [*node_operations.pod_shown(None, {}, asked(volume()), pod(), None)]
    assert [*node_operations.ends(None, asked(volume()), "a")]
    assert [*node_operations.let_go(None, asked(volume()), "a")]


def test_content_that_is_not_shown_and_what_rests_after_a_change_are_objected_to():
    assert [*node_operations.content_shown(None, asked(volume()), "a", NAME)]
    rests = volume()
    rests.outdated.add("a")
    rests.operations["a"] = PodOperation(Action.SET_UP, under_way=False, again_at=9.0)
    assert [*node_operations.content_shown(None, asked(rests), "a", NAME)]


def test_what_is_told_before_an_agent_has_looked_is_objected_to():
    knows: Any = SimpleNamespace(remembered=dict)
    knows_nothing: Any = SimpleNamespace(remembered=lambda: None)
    assert not node_operations.has_looked(knows_nothing)
    assert not [*node_operations.looked(None, False, knows)]
    assert [*node_operations.looked(None, True, knows)]
    assert [*node_operations.looked(None, False, knows_nothing)]
    assert not [*node_operations.told_in_use((), knows)]
    assert [*node_operations.told_in_use((), knows_nothing)]


@pytest.mark.parametrize(
    ("modes", "options", "other", "refused"),
    [
        ((), (), Presence.PRESENT, False),
        (("ReadWriteOncePod",), (), Presence.PRESENT, True),
        (("ReadWriteOncePod",), (), Presence.ABSENT, False),
        ((), ("ro",), Presence.ABSENT, True),
    ],
)
def test_a_refusal_without_a_reason_and_a_reason_without_a_refusal_are_objected_to(
    modes: tuple[str, ...], options: tuple[str, ...], other: Presence, refused: bool
):
    one = volume(access_modes=modes, mount_options=options)
    one.pods["b"] = other
    given: Any = (asked(one), one, one.wants["a"], Plugin())
    for answer in (None, VolumeError("")):
        right = (answer is not None) == refused
        assert (not [*node_operations.of_a_refusal(answer, *given)]) is right


def test_content_that_others_use_and_is_not_watched_any_more_is_objected_to():
    source, other = ("v1", "ns", "one"), ("v1", "ns", "two")
    watches: Any = SimpleNamespace(
        _users={source: {("a", "v"), ("b", "v")}, other: {("a", "v")}}, _watches={source: None, other: None}
    )
    left = node_operations.follows(watches, "a", "v")
    assert left == {source: {("b", "v")}}
    assert [*node_operations.unfollowed(None, left, watches, "a", "v")]
    watches._users = {source: {("b", "v")}}
    assert [*node_operations.unfollowed(None, left, watches, "a", "v")]
    del watches._watches[other]
    assert not [*node_operations.unfollowed(None, left, watches, "a", "v")]
