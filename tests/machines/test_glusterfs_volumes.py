"""GlusterFS volumes of pods on machines with a kernel of their own: a real server, and one that has gone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.machines.example_files import applied, written_and_read
from tests.machines.machines import inside
from tests.machines.pods import ended, gone, pod, running, told
from tests.machines.servers import BridgedServer

from mooring.cluster.stage import Stage
from mooring.kube.objects import Endpoints, Namespace, PersistentVolume, PersistentVolumeClaim
from mooring.mounts.blocking import blocking

pytestmark = [pytest.mark.root, pytest.mark.timeout(400), pytest.mark.soak]

ONE, TWO = "node-1", "node-2"
WAITS = "trap 'exit 0' TERM; sleep 1000 & wait"
SERVES = """
set -e
for each in /var/lib/glusterd /var/log/glusterfs /run {directory}; do mkdir -p $each; mount -t tmpfs state $each; done
mkdir /run/gluster
glusterd -N -l /var/log/glusterfs/glusterd.log &
create='volume create shared {address}:{directory}/brick force'
timeout 30 sh -c "until gluster --mode=script $create; do sleep 0.2; done"
gluster volume set shared network.ping-timeout 4
gluster volume start shared
echo serves
wait
"""


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    for program, package in (("glusterd", "glusterfs-server"), ("mount.glusterfs", "glusterfs-client")):
        if shutil.which(program, path="/usr/sbin:/sbin") is None:
            pytest.skip(f"needs {program}: apt-get install {package}")


@pytest.fixture
def server(stage: Stage) -> Iterator[BridgedServer]:
    made = BridgedServer("gluster", f"10.88.0.{254 - os.getpid() % 50}", SERVES)
    try:
        made.start()
        yield made
    finally:
        made.stop()


async def volume(stage: Stage, name: str, path: str) -> None:
    """A PersistentVolume of those servers, and the claim of that name that has it."""
    spec: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    source = {"endpoints": "servers", "endpointsNamespace": "gluster", "path": path}
    of = {**spec, "capacity": {"storage": "64Mi"}, "glusterfs": source}
    await stage.client.create(PersistentVolume, {"metadata": {"name": name}, "spec": of})
    claim = {**spec, "volumeName": name, "resources": {"requests": {"storage": "64Mi"}}}
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": claim}, "default")


async def unmounted(stage: Stage, node: str, patience: float = 60) -> None:
    """No mount is left on the node, and no client."""

    async def nothing() -> bool:
        left = "grep kubernetes.io~glusterfs /proc/mounts; pgrep -af '^/usr/sbin/glusterfs .*fuse'; true"
        return not await inside(stage, left, node)

    await stage.until(f"{node} has unmounted", nothing, patience=patience)


async def test_two_machines_share_a_volume_and_neither_a_dead_client_nor_a_dead_server_keeps_a_pod(
    stage: Stage, server: BridgedServer
) -> None:
    await stage.client.create(Namespace, {"metadata": {"name": "gluster"}})
    addresses = [{"ip": "10.88.0.1"}, {"ip": server.address}]  # no glusterd answers at the first
    subsets = [{"addresses": addresses, "ports": [{"port": 1}]}]
    endpoints = {"metadata": {"name": "servers"}, "subsets": subsets}
    await stage.client.create(Endpoints, endpoints, "gluster")
    await volume(stage, "shared", "shared")
    await volume(stage, "wrong", "nowhere")

    await pod(stage, "holder", TWO, f"while ! cat /d/file; do sleep 1; done; {WAITS}", d="shared")
    await pod(stage, "writer", ONE, "echo written > /d/file", d="shared")
    await pod(stage, "refused", ONE, "true", d="wrong")
    await ended(stage, "writer")
    await running(stage, "holder")
    await told(
        stage, "refused", f"cannot mount nowhere of {server.address}, 10.88.0.1 (volume wrong): the servers"
    )
    await gone(stage, "refused")
    await unmounted(stage, ONE)

    # The agent is killed while it is mounted: the next one unmounts.
    await pod(stage, "reader", ONE, f"cat /d/file; {WAITS}", d="shared")
    await running(stage, "reader")
    agent = "pgrep -f 'agent .*--name node-1' | head -n 1"
    before = await inside(stage, agent, ONE)
    await inside(stage, f"kill -9 {before}", ONE)

    async def again() -> bool:
        return await inside(stage, agent, ONE) not in ("", before)

    await stage.until("the agent is back", again, patience=60)
    await gone(stage, "reader")
    await unmounted(stage, ONE)

    # The client is killed: the pod sees that, and no other directory in its place.
    loses = "until cat /d/file 2>&1 | grep 'not connected'; do sleep 1; done"
    await pod(stage, "loses", ONE, loses, d="shared")
    await running(stage, "loses")
    await inside(stage, "pkill -9 glusterfs", ONE)
    assert "Transport endpoint is not connected" in await ended(stage, "loses")
    await unmounted(stage, ONE)

    # The server has gone: the pod goes, and another pod there runs.
    await blocking(server.reachable, False)
    await pod(stage, "beside", TWO, "echo runs")
    await gone(stage, "holder")
    assert await ended(stage, "beside") == "runs"
    await unmounted(stage, TWO, patience=120)
    await pod(stage, "late", TWO, "cat /d/file", d="shared")
    await told(stage, "late", "no GlusterFS server answers there")
    await blocking(server.reachable, True)
    assert await ended(stage, "late") == "written"


async def test_the_example_is_played(stage: Stage, server: BridgedServer, tmp_path: Path) -> None:
    await applied(
        stage, "glusterfs.yaml", tmp_path, {"SERVER": server.address, "path: files": "path: shared"}
    )
    await written_and_read(stage)
