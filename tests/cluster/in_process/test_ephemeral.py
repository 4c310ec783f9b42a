"""A generic ephemeral volume lives as long as its pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from world import World, claim_spec

from mooring.kube.objects import PersistentVolumeClaim, Pod
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING

Play = Callable[[Any], Any]


def test_it_comes_and_goes_with_its_pod(play: Play):
    async def story(world: World):
        await world.start(controllers=(ATTACHING, PLACING, WATCHING, ("cleanup",)))
        scratch = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec("disk")}}}
        await world.create_pod("p", "unused", volumes=[scratch])
        node = await world.until(lambda: world.running("p"))
        await world.settled(node)
        await world.api.delete(Pod, "p", "default")

        async def gone() -> bool:
            return not (await world.api.list(PersistentVolumeClaim)).items and not world.array.disks

        await world.until(gone)

    play(story)
