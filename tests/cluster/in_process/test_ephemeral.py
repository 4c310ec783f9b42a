"""A generic ephemeral volume lives as long as its pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from in_process_cluster import InProcessCluster, claim_spec

from mooring.kube.objects import PersistentVolumeClaim, Pod
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING

Play = Callable[[Any], Any]


def test_it_comes_and_goes_with_its_pod(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start(controllers=(ATTACHING, PLACING, WATCHING, ("cleanup",)))
        scratch = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec("disk")}}}
        await cluster.create_pod("p", "unused", volumes=[scratch])
        node = await cluster.until(lambda: cluster.running("p"))
        await cluster.settled(node)
        await cluster.api.delete(Pod, "p", "default")

        async def gone() -> bool:
            return not (await cluster.api.list(PersistentVolumeClaim)).items and not cluster.array.disks

        await cluster.until(gone)

    play(story)
