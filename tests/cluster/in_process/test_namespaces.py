"""A namespace whose pod is on a lost node is not gone until an operator confirms what became of the
node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from in_process_cluster import InProcessCluster, claim_spec, pod_spec

from mooring.kube.objects import Namespace, PersistentVolumeClaim, Pod
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING

Play = Callable[[Any], Any]


def test_its_deletion_waits_for_the_lost_node(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start(controllers=(ATTACHING, PLACING, WATCHING, ("cleanup",)))
        await cluster.api.create(Namespace, {"metadata": {"name": "team"}})
        await cluster.api.create(
            PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": claim_spec("disk")}, "team"
        )
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        spec = {**pod_spec(), "volumes": [volume], "nodeName": "n0"}
        await cluster.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "team")

        async def runs() -> bool:
            pod = await cluster.api.find(Pod, "p", "team")
            return pod is not None and pod.status.phase == "Running"

        await cluster.until(runs)
        await cluster.machines["n0"].power_off()
        await cluster.api.delete(Namespace, "team")
        await asyncio.sleep(600)
        held = await cluster.api.get(Namespace, "team")
        assert held.deleting
        assert await cluster.api.find(Pod, "p", "team") is not None
        assert list(cluster.array.attached.values()) == ["n0"]
        await cluster.out_of_service("n0")

        async def gone() -> bool:
            return await cluster.api.find(Namespace, "team") is None and not cluster.array.disks

        await cluster.until(gone)

    play(story)
