"""NFS volumes of pods on machines with a kernel of their own: a real server, and one that has gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.machines.machines import inside
from tests.machines.pods import ended, gone, pod, running, told

from mooring.cluster import control
from mooring.cluster.layout import ClusterError
from mooring.cluster.stage import Stage
from mooring.cluster.storage import programs
from mooring.cluster.storage.record import Kind
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim

pytestmark = [pytest.mark.root, pytest.mark.timeout(600), pytest.mark.soak]

ONE, TWO = "node-1", "node-2"
WAITS = "trap 'exit 0' TERM; sleep 1000 & wait"


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    try:
        programs.check(Kind.NFS)
    except ClusterError as error:
        pytest.skip(str(error))


async def volume(stage: Stage, name: str, server: str, path: str, **fields: Any) -> None:
    """A PersistentVolume of that export, and the claim of that name that has it."""
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    nfs = {"server": server, "path": path}
    of = {**spec, "capacity": {"storage": "64Mi"}, "nfs": nfs, "mountOptions": ["nfsvers=4.2"], **fields}
    await stage.client.create(PersistentVolume, {"metadata": {"name": name}, "spec": of})
    claim = {**spec, "volumeName": name, "resources": {"requests": {"storage": "64Mi"}}}
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": claim}, "default")


async def unmounted(stage: Stage, node: str, patience: float = 60) -> None:
    async def nothing() -> bool:
        return not await inside(stage, "grep kubernetes.io~nfs /proc/mounts; true", node)

    await stage.until(f"{node} has unmounted", nothing, patience=patience)


async def test_two_machines_share_an_export_and_a_server_that_goes_keeps_no_pod(
    stage: Stage, data_dir: Path
) -> None:
    status, answer = await stage.command("storage", "nfs", "files", "--size", "64Mi")
    assert status == 0, answer
    (server,) = json.loads(await control.say(stage.layout.control, "storage-list", ""))
    address = server["address"].partition(":")[0]
    await volume(stage, "shared", address, "/")
    await pod(
        stage,
        "holder",
        TWO,
        "trap 'exit 0' TERM; while ! cat /d/file; do sleep 1; done; sleep 1000 & wait",
        d="shared",
    )
    await running(stage, "holder")
    await pod(stage, "writer", ONE, "echo written > /d/file && sync", d="shared")
    await ended(stage, "writer")
    await unmounted(stage, ONE)

    await volume(stage, "wrong", address, "/nowhere")
    await pod(stage, "refused", ONE, "true", d="wrong")
    await told(stage, "refused", f"cannot mount {address}:/nowhere")
    await gone(stage, "refused")

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

    # The server has gone for the second machine: its pod goes, and another pod there runs.
    status, answer = await stage.command("node", "cut", TWO, "--from", "storage")
    assert status == 0, answer
    await pod(stage, "beside", TWO, "echo runs")
    await gone(stage, "holder")
    assert await ended(stage, "beside") == "runs"
    await unmounted(stage, TWO, patience=240)
    await pod(stage, "late", TWO, "true", d="shared")
    await told(stage, "late", address)
    await stage.command("node", "heal", TWO)
    await gone(stage, "late")
