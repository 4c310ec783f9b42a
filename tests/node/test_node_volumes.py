"""What is known of the volumes of a node, by volume and by pod."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from pod_volumes import pod_volumes

from mooring.kube.objects import ObjectMeta, PersistentVolume, Pod
from mooring.kube.reason import Reason
from mooring.node.volumes.node_volumes import NodeVolumes
from mooring.node.volumes.records import DeviceRecord, PodRecord, VolumeRecord
from mooring.node.volumes.volume import WAITING, Want, WantedVolume
from mooring.volumes.attachment_lock import ATTACHED_TO
from mooring.volumes.spec import VolumeSpec

DISK_A, DISK_B = "disk/a", "disk/b"


def record(name: str, **more: Any) -> VolumeRecord:
    return msgspec.structs.replace(VolumeRecord(name, "disk", attachable=True, has_device=True), **more)


def held_by(uid: str, name: str) -> VolumeRecord:
    return record(name, pods={uid: PodRecord(name, f"/pods/{uid}/{name}")})


def want(uid: str, *names: str, annotations: dict[str, str] | None = None, read_only: str = "") -> Want:
    metadata = ObjectMeta(name="pv", annotations=annotations or {})
    spec = VolumeSpec.of_persistent_volume(PersistentVolume(metadata=metadata))
    return Want(Pod(metadata=ObjectMeta(name=uid, uid=uid)), names, spec, 0.0, frozenset(read_only.split()))


def found(*records: VolumeRecord, mounted: set[str] | None = None) -> NodeVolumes:
    known = NodeVolumes("n1")
    for each in records:
        known.found(each, mounted or set())
    return known


def names_of(known: NodeVolumes, uid: str) -> list[str]:
    return [each.record.unique_name for each in known.of(uid)]


def test_a_pod_is_known_until_the_last_of_its_volumes_is_forgotten():
    known = found(held_by("u", DISK_A), held_by("u", DISK_B))
    known.forget_pod("u", DISK_A)
    assert names_of(known, "u") == [DISK_B]
    assert known.pods() == ["u"]
    known.forget_pod("u", DISK_B)
    assert known.pods() == []


def test_a_pods_volumes_come_in_the_order_of_their_names_and_another_has_none():
    known = found(held_by("u", DISK_B), held_by("u", DISK_A))
    assert names_of(known, "u") == [DISK_A, DISK_B]
    assert names_of(known, "another") == []
    assert known.pods() == ["u"], "asking makes no pod known"


def test_in_use_are_those_attachable_ones_that_are_wanted_or_here():
    known = found(held_by("u", DISK_B), held_by("u", DISK_A), held_by("u", "local/x"), record("disk/idle"))
    known.volumes["local/x"].record = msgspec.structs.replace(
        known.volumes["local/x"].record, attachable=False
    )
    assert known.in_use() == (DISK_A, DISK_B)


def test_only_volumes_that_were_taken_by_force_are_said_to_be_awaited():
    closed = {ATTACHED_TO: json.dumps({"epoch": 4, "closed": {"n1": {"epoch": 4}}})}
    known = NodeVolumes("n1")
    known.want(WantedVolume(record(DISK_A)), want("u", "data", annotations=closed))
    known.want(WantedVolume(record(DISK_B)), want("u", "other"))
    assert known.awaited() == {DISK_A: 4}


def test_what_pods_have_set_up_is_what_both_want_and_have():
    known = found(held_by("u", DISK_A), held_by("v", DISK_B), mounted={"/pods/u/disk/a", "/pods/v/disk/b"})
    both, waits = want("u", "data"), want("w", "data")
    known.want(known.volumes[DISK_A], both)
    known.want(known.volumes[DISK_A], waits)
    assert [*known.set_up()] == [(known.volumes[DISK_A], both)]


# --- what a pod has


PATHS = {"/pods/u/disk/a", "/pods/u/disk/b"}


def test_a_pod_has_what_is_mounted_for_it_and_waits_for_the_rest():
    known = found(held_by("u", DISK_A), mounted=PATHS)
    known.wanting("u")
    known.want(known.volumes[DISK_A], want("u", "data", read_only="data"))
    known.want(WantedVolume(record(DISK_B)), want("u", "more", "again", read_only="again"))
    assert known.state("u", None) == pod_volumes(
        wanted=True,
        mounted={"data": "/pods/u/disk/a"},
        waiting={"more": WAITING, "again": WAITING},
        read_only=frozenset({"data", "again"}),
        held=True,
    )


def test_a_pod_of_which_nothing_is_known_has_nothing():
    why = Reason("Evicted", "too much")
    assert found().state("u", why) == pod_volumes(evicted=why)


def test_what_an_earlier_agent_left_to_a_pod_is_held_and_not_being_let_go():
    assert found(held_by("u", DISK_A), mounted=PATHS).state("u", None) == pod_volumes(held=True)


def test_a_pod_that_has_let_go_holds_its_volumes_until_they_are_unmounted():
    known = found(held_by("u", DISK_A), held_by("u", DISK_B), mounted=PATHS)
    known.wanting("u")
    known.want(known.volumes[DISK_A], want("u", "data"))
    assert known.release("u") == [known.volumes[DISK_A], known.volumes[DISK_B]]
    assert known.state("u", None) == pod_volumes(held=True, releasing=True)
    assert known.release("u") == [], "that is not news any more"


def test_a_pod_must_not_use_what_it_holds_of_a_volume_that_was_taken_away():
    known = found(held_by("u", DISK_A), mounted=PATHS)
    known.want(known.volumes[DISK_A], want("u", "data"))
    known.want(known.volumes[DISK_A], want("waits", "data"))
    known.volumes[DISK_A].stale = True
    known.want(WantedVolume(record(DISK_B)), want("u", "more"))
    assert known.state("u", None).stale
    assert not known.state("waits", None).stale
    assert not known.state("waits", None).held


def test_a_pod_that_the_api_shows_has_its_volume_as_its_own():
    known = found(held_by("u", DISK_A))
    volume, its = known.volumes[DISK_A], want("u", "data")
    assert volume.adopted == {"u"}
    known.want(volume, its)
    assert volume.adopted == set()
    assert volume.wants == {"u": its}


# --- forgetting


@pytest.mark.parametrize(
    ("left", "forgotten"),
    [
        ({}, True),
        ({"device": DeviceRecord("/m")}, False),
        ({"attachable": False, "device": DeviceRecord("/m")}, False),
    ],
)
def test_a_volume_is_forgotten_when_nothing_is_left_of_it(left: dict[str, Any], forgotten: bool):
    known = found(record(DISK_A, **left))
    known.forget(known.volumes[DISK_A])
    assert (DISK_A not in known.volumes) is forgotten


@pytest.mark.parametrize("attachable", [True, False])
def test_a_volume_that_a_pod_wants_is_not_forgotten(attachable: bool):
    known = NodeVolumes("n1")
    volume = WantedVolume(record(DISK_A, attachable=attachable))
    known.want(volume, want("u", "data"))
    known.forget(volume)
    assert known.volumes == {DISK_A: volume}


def test_a_volume_that_is_being_mounted_is_not_forgotten():
    known = found(record(DISK_A))
    known.volumes[DISK_A].mounting = True
    known.forget(known.volumes[DISK_A])
    assert list(known.volumes) == [DISK_A]


def test_a_volume_that_has_another_in_its_place_takes_that_one_not_with_it():
    known = found(record(DISK_A))
    former = WantedVolume(record(DISK_A))
    successor = known.volumes[DISK_A]
    known.forget(former)
    assert known.volumes[DISK_A] is successor


async def test_a_node_is_drained_when_the_last_volume_is_forgotten():
    known = found(record(DISK_A), record(DISK_B))
    drained = asyncio.create_task(known.drained())
    for name in (DISK_A, DISK_B):
        await asyncio.sleep(0)
        assert not drained.done()
        known.forget(known.volumes[name])
    await drained


async def test_a_node_without_volumes_is_drained():
    await found().drained()
