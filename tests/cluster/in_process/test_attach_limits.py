"""A node that takes no further volume is passed over, and `why` says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from in_process_cluster import InProcessCluster

from mooring.kube.objects import Pod
from mooring.simulation.parts.array_plugin import ArrayPlugin
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager
from mooring.why.explain import explain
from mooring.why.snapshot import read

Play = Callable[[Any], Any]


def test_pods_wait_until_a_node_has_room_for_their_volumes(play: Play):
    async def story(cluster: InProcessCluster):
        cluster.array.limit = 1
        await cluster.start()
        for name in ("a", "b", "c"):
            await cluster.claim(name)
            await cluster.create_pod(name, name)

        async def placed() -> dict[str, str]:
            pods = {pod.name: pod.spec.node_name for pod in (await cluster.api.list(Pod, "default")).items}
            return pods if len({node for node in pods.values() if node}) == 2 else {}

        pods = await cluster.until(placed)
        (waiting,) = [name for name, node in pods.items() if not node]
        await asyncio.sleep(10)
        known = await read(
            cluster.api, PluginManager([ArrayPlugin(cluster.array)], ControllerVolumeHost(cluster.now))
        )
        cause = explain(f"pod/{waiting}", "default", known)
        assert "2 node(s) exceed max volume count" in cause.reason.message
        assert "detach volumes" in cause.next_step
        await cluster.api.delete(Pod, next(name for name in pods if name != waiting), "default")
        await cluster.until(lambda: cluster.running(waiting))

    play(story)
