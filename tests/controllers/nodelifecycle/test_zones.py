"""How fast the nodes of a zone lose their pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from controller_stage import ControllerStage, Play

from mooring.controllers.nodelifecycle.controller import NodeLifecycleController
from mooring.controllers.nodelifecycle.zones import EVERY_S, LARGE, SLOW_S, Zones, ZoneState, zone_of
from mooring.kube.objects import Condition, ManagedMeta, Node, NodeStatus

LONG = 1e5


def node(name: str, ready: str = "True", zone: str = "z") -> Node:
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    conditions = (Condition(type="Ready", status=ready),)
    return Node(metadata=ManagedMeta(name=name, labels=labels), status=NodeStatus(conditions=conditions))


def zones(*nodes: Node) -> Zones:
    found = Zones()
    for each in nodes:
        found.note(None, each)
    return found


@pytest.mark.parametrize(
    ("answering", "silent", "pause"),
    [
        (1, 0, EVERY_S),
        (1, 2, EVERY_S),
        (3, 3, EVERY_S),
        (2, 3, None),
        (LARGE, LARGE, EVERY_S),
        (LARGE // 2, LARGE, SLOW_S),
        (0, 1, None),
    ],
)
def test_the_pause_between_two_nodes_of_a_zone(answering: int, silent: int, pause: float | None):
    counted = zones(
        *(node(f"a{each}") for each in range(answering)),
        *(node(f"s{each}", "Unknown") for each in range(silent)),
    )
    assert counted.pause(zone_of(node("any"))) == pause


def test_a_zone_that_is_silent_alone_is_emptied_and_if_all_are_none_is():
    one, other = node("n", "Unknown", "z1"), node("m", "True", "z2")
    counted = zones(one, other)
    assert counted.pause(zone_of(one)) == EVERY_S
    assert counted.note(other, node("m", "Unknown", "z2"))
    assert counted.all_silent
    assert counted.pause(zone_of(one)) is None


def test_only_a_change_of_a_state_is_told():
    counted = zones(node("n1"), node("n2"), node("n3"))
    assert not counted.note(node("n1"), node("n1", "Unknown"))
    assert not counted.note(node("n1", "Unknown"), node("n1", "False"))
    assert not counted.note(node("n2"), None)
    assert counted.note(node("n3"), node("n3", "Unknown"))
    assert counted.states() == {":\x00:z": ZoneState.FULL}
    assert not counted.note(node("n3", "Unknown"), None)
    assert counted.note(node("n1", "Unknown"), None)
    assert counted.states() == {}


async def evicting(stage: ControllerStage) -> list[str]:
    """The nodes whose pods have to go."""
    nodes = (await stage.api.list(Node)).items
    return [each.name for each in nodes if any(taint.effect == "NoExecute" for taint in each.spec.taints)]


async def told(stage: ControllerStage, names: Iterable[str], ready: str) -> None:
    """The nodes are so from now on."""
    for name in names:
        status = {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
        if await stage.api.find(Node, name) is None:
            await stage.api.create(Node, {"metadata": {"name": name}, **status})
        await stage.api.patch(Node, name, status, subresource="status", strategy="strategic")


def test_nodes_that_fall_silent_together_lose_their_pods_one_after_the_other(play: Play):
    async def story(stage: ControllerStage):
        await told(stage, ["a", "b", "c", "d"], "True")
        task = asyncio.create_task(stage.make(NodeLifecycleController, grace_period=LONG).run())
        await asyncio.sleep(1)
        await told(stage, ["a", "b"], "Unknown")
        await asyncio.sleep(1)
        assert len(await evicting(stage)) == 1
        await asyncio.sleep(EVERY_S)
        assert await evicting(stage) == ["a", "b"]
        task.cancel()

    play(story)


def test_where_no_node_answers_no_pod_has_to_go_until_one_does(play: Play):
    """The controller may be the one that hears nothing."""

    async def story(stage: ControllerStage):
        await told(stage, ["a", "b"], "True")
        task = asyncio.create_task(stage.make(NodeLifecycleController, grace_period=LONG).run())
        await asyncio.sleep(1)
        await told(stage, ["a"], "Unknown")
        await asyncio.sleep(1)
        assert await evicting(stage) == ["a"]
        await told(stage, ["b"], "Unknown")
        await asyncio.sleep(1)
        assert await evicting(stage) == []
        [taint] = (await stage.api.get(Node, "a")).spec.taints
        assert (taint.key, taint.effect) == ("node.kubernetes.io/unreachable", "NoSchedule")
        await told(stage, ["b"], "True")
        await asyncio.sleep(2 * EVERY_S)
        assert await evicting(stage) == ["a"]
        task.cancel()

    play(story)
