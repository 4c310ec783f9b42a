"""NFS volumes of pods on machines with a kernel of their own: a real server, and one that has gone."""

from __future__ import annotations

import json
import os
import shlex
import sys
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
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment

soak = pytest.mark.skipif("MOORING_SOAK" not in os.environ, reason="minutes: `make soak` plays it")
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
    spec = {"accessModes": [fields.pop("mode", "ReadWriteMany")], "storageClassName": ""}
    nfs = {"server": server, "path": path}
    of = {**spec, "capacity": {"storage": "64Mi"}, "nfs": nfs, "mountOptions": ["nfsvers=4.2"], **fields}
    await stage.client.create(PersistentVolume, {"metadata": {"name": name}, "spec": of})
    claim = {**spec, "volumeName": name, "resources": {"requests": {"storage": "64Mi"}}}
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": claim}, "default")


async def served(stage: Stage) -> str:
    """The address of a server that exports `/`."""
    status, answer = await stage.command("storage", "nfs", "files", "--size", "64Mi")
    assert status == 0, answer
    (server,) = json.loads(await control.say(stage.layout.control, "storage-list", ""))
    return str(server["address"].partition(":")[0])


async def unmounted(stage: Stage, node: str, patience: float = 60) -> None:
    async def nothing() -> bool:
        return not await inside(stage, "grep kubernetes.io~nfs /proc/mounts; true", node)

    await stage.until(f"{node} has unmounted", nothing, patience=patience)


@soak
async def test_two_machines_share_an_export_and_a_server_that_goes_keeps_no_pod(
    stage: Stage, data_dir: Path
) -> None:
    address = await served(stage)
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


async def test_an_export_for_one_node_goes_from_one_to_the_other_with_what_was_written(stage: Stage) -> None:
    await volume(stage, "own", await served(stage), "/", mode="ReadWriteOnce")
    writes = "trap 'sleep 3; echo last >> /d/file; exit 0' TERM; echo first > /d/file; sleep 1000 & wait"
    await pod(stage, "one", ONE, writes, grace_s=20, d="own")
    await running(stage, "one")
    (held,) = (await stage.client.list(VolumeAttachment)).items
    assert (held.spec.node_name, held.status.attached) == (ONE, True)

    # The second pod waits for the lock, also while the first one ends, and finds all that it wrote.
    await pod(stage, "two", TWO, f"cat /d/file; {WAITS}", d="own")
    await told(stage, "two", "Multi-Attach")
    assert not await inside(stage, "grep kubernetes.io~nfs /proc/mounts; true", TWO)
    agent = "pgrep -f 'agent .*--name node-1' | head -n 1"
    await inside(stage, f"kill -9 $({agent})", ONE)
    await gone(stage, "one")
    await running(stage, "two")
    await unmounted(stage, ONE)
    live = await stage.client.get(Pod, "two", "default")
    assert "last" in (await stage.logs(live.spec.node_name, live.uid, "main") or "")
    await gone(stage, "two")
    await unmounted(stage, TWO)

    async def detached() -> bool:
        return not (await stage.client.list(VolumeAttachment)).items

    await stage.until("it is detached", detached)


def on_export(address: str, work: str) -> str:
    """What a controller runs on its machine, run on this one."""
    program = (
        "import asyncio; from mooring.volumes.plugins.nfs_directories import Directories; "
        f"from mooring.volumes.plugins.programs import run; at = {address + ':/'!r}, ['nfsvers=4.2']; "
        f"asyncio.run(Directories(run).{work})"
    )
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}"


async def test_a_directory_for_each_claim_is_made_emptied_and_removed_on_a_real_server(stage: Stage) -> None:
    """As the controllers do it where their machine has NFS, which this host's kernel may not have."""
    address = await served(stage)
    names = "['shop', 'data-pvc-1']"
    for _ in range(2):
        await inside(stage, on_export(address, f"make(*at, {names}, '0777')"), ONE)
    await volume(stage, "made", address, "/shop/data-pvc-1")
    await pod(
        stage, "writer", TWO, "mkdir /d/a && ln -s / /d/a/link && echo x > /d/a/.file && sync", d="made"
    )
    await ended(stage, "writer")
    await unmounted(stage, TWO)

    # It is emptied as a volume of its own, and then removed from the export that it is in.
    at = on_export(address, "empty(*at, 0)").replace(f"{address}:/", f"{address}:/shop/data-pvc-1")
    await inside(stage, at, ONE)
    await pod(stage, "looks", TWO, "ls -A /d | wc -l", d="made")
    assert await ended(stage, "looks") == "0"
    await unmounted(stage, TWO)
    for _ in range(2):
        await inside(stage, on_export(address, f"remove(*at, {names}, 0)"), ONE)
    await pod(stage, "late", TWO, "true", d="made")
    await told(stage, "late", "the server exports no such path")
    await gone(stage, "late")
    assert not await inside(
        stage, "grep -E 'nfs4? ' /proc/mounts; ls -d /tmp/mooring-nfs-* 2> /dev/null; true", ONE
    )

    # A server that does not answer: it ends in bounds, and leaves nothing.
    await stage.command("node", "cut", ONE, "--from", "storage")
    makes = on_export(address, f"make(*at, {names}, '0777')")
    await inside(stage, f"({makes} > /run/said 2>&1; echo $? > /run/ended) > /dev/null 2>&1 &", ONE)

    async def over() -> bool:
        return await inside(stage, "cat /run/ended 2> /dev/null; true", ONE) != ""

    await stage.until("the work on a server that has gone has ended", over, patience=120)
    assert await inside(stage, "cat /run/ended", ONE) != "0"
    assert address in await inside(stage, "cat /run/said", ONE)
    assert not await inside(
        stage, "grep -E 'nfs4? ' /proc/mounts; ls -d /tmp/mooring-nfs-* 2> /dev/null; true", ONE
    )
