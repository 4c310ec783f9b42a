"""With upstream's controllers alone, what a fence releases moves: kube-controller-manager acts on the
taint."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from played_mechanism import Machines, Manner, PlayedMechanism
from tests.real.hazards.control_plane import UPSTREAM, stage
from tests.real.hazards.stage import HazardCluster
from tests.real.server import real_server

from mooring.controllers.fencing.controller import FencingController
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.kube.errors import NotFound
from mooring.kube.objects import Node, Pod
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.kube.times import wall_clock
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager

pytestmark = pytest.mark.timeout(400)
OLD, NEW = "fence-old", "fence-new"


async def taught(played: HazardCluster) -> None:
    for body in FENCING_KINDS:
        await played.client.create(CustomResourceDefinition, body)

    async def served() -> bool:
        try:
            for kind in (FencePolicy, FenceMechanism, NodeFence):
                await played.client.list(kind)
        except NotFound:
            return False
        return True

    await played.until("the kinds are served", served)
    client = played.client
    await client.create(FenceMechanism, {"metadata": {"name": "bmc"}, "spec": {"type": "played"}})
    await client.create(
        FencePolicy, {"metadata": {"name": "p"}, "spec": {"ladder": [{"mechanism": "bmc", "retries": 0}]}}
    )


async def boots(played: HazardCluster, node: str, boot: str) -> None:
    await played.client.patch(Node, node, {"status": {"nodeInfo": {"bootID": boot}}}, subresource="status")


async def silence(played: HazardCluster, node: str) -> None:
    """Its kubelet does not answer any more, and the API shows it."""
    played.kubelets[node].answers = False
    condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    await played.client.patch(Node, node, {"status": {"conditions": [condition]}}, subresource="status")


@pytest.mark.parametrize("manner", [Manner.HONEST, Manner.SILENT])
async def test_what_a_fence_has_shown_moves_and_nothing_before(
    programs: Path, tmp_path: Path, manner: Manner
):
    if not (programs / "kube-controller-manager").exists():
        pytest.skip("needs kube-controller-manager: run `make assets`")
    machines = Machines()
    mechanism = PlayedMechanism(machines, takes_s=0.1)
    with real_server(programs, tmp_path) as server:
        async with stage(server, programs, tmp_path, UPSTREAM) as (played, _):
            await taught(played)
            fencing = FencingController(
                played.client,
                {"played": mechanism},
                PluginManager([], ControllerVolumeHost(wall_clock)),
                now=wall_clock,
                random=Random(1),
            )
            working = asyncio.create_task(fencing.run())
            for name in (OLD, NEW):
                await played.node(name)
                await boots(played, name, f"{name}-1")
            await played.volume("v")
            await played.pod("a", OLD, "v", tolerates=False)
            await played.kubelets[OLD].mount("v")

            async def asked() -> bool:
                return len((await played.client.get(FenceMechanism, "bmc")).status.nodes) == 2

            await played.until("the mechanism was asked", asked)
            mechanism.manner = manner
            await played.pod("b", NEW, "v", tolerates=False)
            await silence(played, OLD)
            if manner is Manner.HONEST:
                await played.until("the volume moves", lambda: played.attached_to("v", NEW), 120)
                assert machines.off == {OLD}

                async def gone() -> bool:
                    return await played.client.find(Pod, "a", "default") is None

                await played.until("its pod is removed", gone, 60)
            else:
                await asyncio.sleep(20)
                assert await played.attached_to("v", OLD)
                assert not await played.attached_to("v", NEW)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
