"""How long a volume was waited for, as the metrics tell it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mooring.controllers.attachdetach.metrics import Volumes
from mooring.controllers.attachdetach.state import Action, Demand, VolumeDecision, VolumeState
from mooring.kube.metrics import REGISTRY
from mooring.kube.reason import Reason

IN_USE = "storage_count_attachable_volumes_in_use"
NAME = "mooring_attachdetach_desired_to_attached_seconds_sum"


def waits(node: str) -> VolumeDecision:
    return VolumeDecision(Action.BLOCKED, Reason("MultiAttach", "it is elsewhere"), node, ("default/p",))


def has(node: str) -> VolumeDecision:
    return VolumeDecision(Action.SETTLED, Reason("Attached", "attached"), node, ("default/p",))


def waited(run: Callable[[Any], Any], *looks: tuple[float, list[VolumeDecision]]) -> float:
    """Seconds that were told, of looks at a volume and the seconds before each."""

    async def story() -> None:
        volumes = Volumes()
        for seconds, decisions in looks:
            await asyncio.sleep(seconds)
            volumes.note(VolumeState("example.com/disk/waited-for", False, (), (), {}), decisions)

    before = REGISTRY.get_sample_value(NAME) or 0.0
    run(story())
    return round((REGISTRY.get_sample_value(NAME) or 0.0) - before, 3)


def test_a_node_has_waited_since_it_was_first_seen_to_want_the_volume(run: Callable[[Any], Any]):
    assert waited(run, (0, [waits("n0")]), (5, [waits("n0")]), (5, [has("n0")])) == 10


def test_a_node_that_wanted_it_no_more_in_between_has_not_waited_then(run: Callable[[Any], Any]):
    assert waited(run, (0, [waits("n0")]), (5, [waits("n1")]), (100, [waits("n0")]), (5, [has("n0")])) == 5


def test_what_a_node_has_is_told_once(run: Callable[[Any], Any]):
    assert waited(run, (0, [waits("n0")]), (5, [has("n0")]), (5, [has("n0")])) == 5


def test_nothing_is_kept_of_nodes_that_have_come_and_gone(run: Callable[[Any], Any]):
    def nodes() -> int:
        return sum(len(each.samples) for each in REGISTRY.collect() if each.name == IN_USE)

    async def story() -> None:
        volumes = Volumes()
        for number in range(300):
            wanted = (Demand(f"node-{number}", (), "", True),)
            volumes.note(VolumeState("example.com/disk/moves", False, wanted, (), {}), [])
        assert nodes() == before + 1
        volumes.clear()

    before = nodes()
    run(story())
    assert nodes() == before
