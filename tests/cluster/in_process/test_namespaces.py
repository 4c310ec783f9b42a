"""A namespace whose pod is on a lost node is not gone until somebody who knows says what became of the
node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from world import World, claim_spec, pod_spec

from mooring.kube.objects import Namespace, PersistentVolumeClaim, Pod
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING

Play = Callable[[Any], Any]


def test_its_deletion_waits_for_the_lost_node(play: Play):
    async def story(world: World):
        await world.start(controllers=(ATTACHING, PLACING, WATCHING, ("cleanup",)))
        await world.api.create(Namespace, {"metadata": {"name": "team"}})
        await world.api.create(
            PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": claim_spec("disk")}, "team"
        )
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        spec = {**pod_spec(), "volumes": [volume], "nodeName": "n0"}
        await world.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "team")

        async def runs() -> bool:
            pod = await world.api.find(Pod, "p", "team")
            return pod is not None and pod.status.phase == "Running"

        await world.until(runs)
        await world.machines["n0"].power_off()
        await world.api.delete(Namespace, "team")
        await asyncio.sleep(600)
        held = await world.api.get(Namespace, "team")
        assert held.deleting
        assert await world.api.find(Pod, "p", "team") is not None
        assert list(world.array.attached.values()) == ["n0"]
        await world.out_of_service("n0")

        async def gone() -> bool:
            return await world.api.find(Namespace, "team") is None and not world.array.disks

        await world.until(gone)

    play(story)
