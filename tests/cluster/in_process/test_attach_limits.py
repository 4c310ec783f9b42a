"""A node that takes no further volume is passed over, and `why` says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from world import World

from mooring.kube.objects import Pod
from mooring.simulation.array import ArrayPlugin
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager
from mooring.why.explain import explain
from mooring.why.snapshot import read

Play = Callable[[Any], Any]


def test_pods_wait_until_a_node_has_room_for_their_volumes(play: Play):
    async def story(world: World):
        world.array.limit = 1
        await world.start()
        for name in ("a", "b", "c"):
            await world.claim(name)
            await world.create_pod(name, name)
        for name in ("a", "b"):
            await world.until(lambda name=name: world.running(name))
        assert await world.running("a") != await world.running("b")

        async def told() -> bool:
            known = await read(world.api, PluginManager([ArrayPlugin(world.array)], ControllerVolumeHost(world.now)))
            cause = explain("pod/c", "default", known)
            return "2 node(s) exceed max volume count" in cause.reason.message and "detach volumes" in cause.next_step

        await world.until(told)
        await world.api.delete(Pod, "a", "default")
        await world.until(lambda: world.running("c"))

    play(story)
