"""Second opinions about what a node agent has made of news about its volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import run_in_virtual_time
from tests.simulation.second_opinions.test_node_operations import NAME, pod, volume
from tests.simulation.second_opinions.test_node_operations import asked as manager

from mooring.kube.objects import AttachedVolume, ManagedMeta, Node
from mooring.kube.objects.nodes import NodeStatus
from mooring.kube.workqueue import WorkQueue
from mooring.node.volumes.decide import Action
from mooring.node.volumes.volume import PodOperation, WantedVolume
from mooring.simulation.checks.second_opinions import node_acts
from mooring.volumes.names import VOLUMES_ATTACHED_WRITE
from mooring.volumes.spec import VolumeSpec


def objects(
    made: WantedVolume,
    opinion: Callable[[Any], Iterable[str]],
    *,
    marked: bool = True,
    timer: float | None = None,
    readers: Iterable[VolumeSpec] = (),
) -> bool:
    """Whether it does. `marked`: the volume is worked on at once; `timer`: in so many seconds. `readers`:
    what may only be read."""

    async def ask() -> bool:
        asked, queue = manager(made), WorkQueue[str]()
        asked._queue, asked._attaches = queue, False
        asked._operations = SimpleNamespace(
            is_read_only=lambda spec, pod: any(spec is each for each in readers)
        )
        if marked:
            queue.add(NAME)
        if timer is not None:
            queue.add_after(NAME, timer)
        return [*opinion(asked)] != []

    return run_in_virtual_time(ask())


def resting(until: float) -> WantedVolume:
    made = volume()
    made.operations["a"] = PodOperation(Action.SET_UP, under_way=False, failures=1, again_at=until)
    return made


# --- a pod's wish


def wished(made: WantedVolume, *names: str, **how: Any) -> bool:
    specs = dict.fromkeys(names, made.wants["a"].spec)
    return objects(made, lambda asked: node_acts.wanted(None, asked, pod(), specs), **how)


def test_a_volume_that_is_wanted_is_looked_at():
    assert not wished(volume(), "data")
    assert wished(volume(), "data", marked=False)
    assert wished(resting(5.0), "data")
    assert not wished(resting(0.0), "data")


def test_each_name_that_a_pod_has_for_a_volume_is_known():
    assert wished(volume(), "data", "other")


@pytest.mark.parametrize(
    ("mounted", "read_only", "wrong"),
    [
        ("writes", {"reads"}, False),
        ("reads", {"reads"}, True),
        ("writes", set[str](), True),
        ("writes", {"reads", "writes"}, True),
    ],
)
def test_what_is_written_under_one_name_is_mounted_to_be_written(
    mounted: str, read_only: set[str], wrong: bool
):
    made = volume()
    specs = {name: VolumeSpec(name) for name in ("reads", "writes")}
    want = made.wants["a"]
    want.names, want.spec, want.read_only = tuple(specs), specs[mounted], frozenset(read_only)
    found = objects(made, lambda asked: node_acts.wanted(None, asked, pod(), specs), readers=[specs["reads"]])
    assert found is wrong


# --- its Node


def node(*listed: str, token: str = "t", uid: str = "u") -> Node:
    return Node(
        metadata=ManagedMeta(name="n0", uid=uid, annotations={VOLUMES_ATTACHED_WRITE: token}),
        status=NodeStatus(volumes_attached=tuple(AttachedVolume(name=each) for each in listed)),
    )


HERE, AWAY = node(NAME), node()


@pytest.mark.parametrize(
    ("old", "new", "verifies", "looks"),
    [
        (HERE, HERE, False, False),
        (HERE, AWAY, True, True),
        (AWAY, HERE, False, True),
        (HERE, node(NAME, token="t2"), True, True),
        (HERE, node(NAME, uid="u2"), True, True),
        (None, HERE, True, True),
        (HERE, None, True, True),
    ],
)
def test_what_a_change_of_the_node_concerns_is_looked_at_and_verified(
    old: Node | None, new: Node | None, verifies: bool, looks: bool
):
    def objected(unverified: bool, marked: bool, held: bool = True) -> bool:
        made = volume() if held else volume(device=None)
        made.unverified = unverified
        return objects(
            made,
            lambda asked: node_acts.node_has_changed(None, set(), asked, old, new),
            marked=marked,
        )

    assert not objected(verifies, looks)
    assert objected(not verifies, looks)
    assert objected(verifies, not looks) is looks
    assert not objected(False, looks, held=False)


def test_what_was_to_be_verified_before_still_is():
    made = volume()
    made.unverified = True
    before = run_in_virtual_time(_before(made))
    assert before == {NAME}
    assert not objects(made, lambda asked: node_acts.node_has_changed(None, before, asked, HERE, HERE))
    assert objects(volume(), lambda asked: node_acts.node_has_changed(None, before, asked, HERE, HERE))


async def _before(made: WantedVolume) -> set[str]:
    return node_acts.unverified(manager(made), None, None)


# --- what is verified


@pytest.mark.parametrize(
    ("unverified", "timer", "wrong"),
    [(False, None, False), (True, 1.0, False), (True, None, True), (True, 9.0, True)],
)
def test_what_could_not_be_verified_is_tried_again_soon(unverified: bool, timer: float | None, wrong: bool):
    made = volume()
    made.unverified = True
    assert node_acts.to_verify(manager(made), made)
    made.unverified = unverified
    found = objects(
        made, lambda asked: node_acts.verified(None, True, asked, made), marked=False, timer=timer
    )
    assert found is wrong
