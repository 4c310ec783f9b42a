"""`mooring up --csi`: a driver outside the nodes, one process for each, serves claims and pods on them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.cluster.stage import Stage, run
from mooring.kube.objects import (
    CSINode,
    Event,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from mooring.mounts.table import read_mount_table
from mooring.volumes.plugins.disk_array import DiskArray

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(170)]
NAME = "disk.mooring.dev"


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """One of our own commands, until the end; its first line has come."""
    command = [sys.executable, "-m", "mooring.cli.main", *arguments]
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    assert running.stdout is not None
    line = (await running.stdout.readline()).decode()
    reading = asyncio.create_task(running.stdout.read())
    try:
        assert "listens at" in line or "offered at" in line, line
        yield running
    finally:
        if running.returncode is None:
            running.terminate()
        await running.wait()
        await reading


class Drivers:
    """The driver's processes, by node."""

    def __init__(self, root: Path, allowed: Path) -> None:
        self.root, self.allowed = root, allowed
        self.array = DiskArray(root / "array")
        self.stacks: dict[str, AsyncExitStack] = {}

    def socket(self, node: str) -> Path:
        return self.root / f"{node}.sock"

    async def start(self, node: str) -> None:
        where = ["--endpoint", f"unix://{self.socket(node)}", "--node-id", node, "--machine", "here"]
        what = ["--array", str(self.root / "array"), "--allow-path", str(self.allowed)]
        self.stacks[node] = stack = AsyncExitStack()
        await stack.enter_async_context(process("csi", "disk-driver", *where, *what))

    async def stop(self, node: str) -> None:
        await self.stacks.pop(node).aclose()


@asynccontextmanager
async def staged(data_dir: Path, *options: str) -> AsyncIterator[tuple[Stage, Drivers]]:
    """Two nodes, and a driver's process for each. Afterwards nothing of either is left."""
    root = data_dir / "csi"
    root.mkdir()
    stage, drivers = Stage(data_dir / "d"), Drivers(root, data_dir)
    try:
        for node in ("node-1", "node-2"):
            await drivers.start(node)
        socket = f"{NAME}=unix://{root}/{{node}}.sock"
        await stage.up(
            "--nodes", "2", "--port", "0", "--node-monitor-grace-period", "8", "--csi", socket, *options
        )
        await stage.until("both nodes know the driver", lambda: registered(stage))
        yield stage, drivers
    finally:
        await stage.down()
        for node in list(drivers.stacks):
            await drivers.stop(node)
        for node in ("node-1", "node-2"):
            drivers.array.power_off(node)
    left = [mount.mount_point for mount in read_mount_table() if mount.mount_point.startswith(str(data_dir))]
    assert left == []


async def registered(stage: Stage) -> bool:
    nodes = (await stage.client.list(CSINode)).items
    return len([node for node in nodes if any(each.name == NAME for each in node.spec.drivers)]) == 2


async def claimed(stage: Stage, name: str, mode: str = "Filesystem", **spec: Any) -> None:
    body = {
        "storageClassName": "disk-csi",
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": mode,
        "resources": {"requests": {"storage": "16Mi"}},
        **spec,
    }
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": body}, "default")


async def storage_class(stage: Stage) -> None:
    body = {"provisioner": NAME, "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": True}
    await stage.client.create(StorageClass, {"metadata": {"name": "disk-csi"}, **body})


async def pod(
    stage: Stage, name: str, node: str, script: str, claim: str, *, raw: bool = False, read_only: bool = False
) -> None:
    use: dict[str, Any] = {"volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}]}
    if not raw:
        use = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    container = {"name": "main", "image": "host", "command": ["sh", "-c", script], **use}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}}],
    }
    await stage.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")


async def ready(stage: Stage, name: str) -> bool:
    found = await stage.client.get(Pod, name, "default")
    return any(each.type == "Ready" and each.status == "True" for each in found.status.conditions)


async def gone(stage: Stage, kind: Any, namespace: str = "") -> bool:
    return not (await stage.client.list(kind, namespace)).items


def calls(stage: Stage, data_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (data_dir / "d/logs/csi.jsonl").read_text().splitlines()]


async def test_a_volume_moves_from_node_to_node_with_what_was_written(data_dir: Path) -> None:
    async with staged(data_dir) as (stage, drivers):
        await storage_class(stage)
        await claimed(stage, "c")
        await pod(stage, "first", "node-1", "echo written > /data/word; sync; sleep 1000", "c")
        await stage.until("the first pod runs", lambda: ready(stage, "first"))
        await stage.client.delete(Pod, "first", "default")
        await pod(stage, "second", "node-2", "grep written /data/word && sleep 1000", "c")
        await stage.until("the second pod runs", lambda: ready(stage, "second"))
        ((disk, held),) = drivers.array.list().items()
        assert tuple(held.nodes) == ("node-2",)
        await stage.client.delete(Pod, "second", "default")
        await stage.client.delete(PersistentVolumeClaim, "c", "default")
        await stage.until("the volume is gone", lambda: gone(stage, PersistentVolume))
        assert drivers.array.list() == {}, disk
        assert await gone(stage, VolumeAttachment)
        names = [call["method"] for call in calls(stage, data_dir) if "Get" not in call["method"]]
        assert names.count("ControllerPublishVolume") == 2, "one for each attach"
        assert {
            "CreateVolume",
            "NodeStageVolume",
            "NodePublishVolume",
            "NodeUnstageVolume",
            "DeleteVolume",
        } <= set(names)


async def test_a_pod_that_uses_a_claim_read_only_cannot_write_it(data_dir: Path) -> None:
    """The driver makes its mount read-only in a second step, which no other mount namespace is told of."""
    async with staged(data_dir) as (stage, _):
        await storage_class(stage)
        await claimed(stage, "c")
        script = "touch /data/x && exec sleep 1000; grep ' /data ro' /proc/self/mountinfo && exec sleep 1001"
        await pod(stage, "p", "node-1", script, "c", read_only=True)
        await stage.until("the pod runs", lambda: ready(stage, "p"))
        assert await commands(stage, "node-1") & {"sleep 1000", "sleep 1001"} == {"sleep 1001"}


async def commands(stage: Stage, node: str) -> set[str]:
    """What runs on a node's machine."""
    init = stage.machine(node)
    assert init is not None
    status, answer = await run(["nsenter", "-t", str(init.pid), "-p", "-m", "ps", "-eo", "args"])
    assert status == 0, answer
    return set(answer.splitlines())


async def test_a_node_that_loses_power_comes_back_and_its_driver_mounts_again(data_dir: Path) -> None:
    async with staged(data_dir) as (stage, _):
        await storage_class(stage)
        await claimed(stage, "c")
        await pod(stage, "p", "node-1", "echo x >> /data/word; sync; sleep 1000", "c")
        await stage.until("the pod runs", lambda: ready(stage, "p"))
        assert (await stage.command("node", "kill", "node-1"))[0] == 0
        machine = f"{data_dir}/d/nodes/node-1/"
        below = [mount for mount in read_mount_table() if mount.mount_point.startswith(machine)]
        assert below == [], "what the driver had mounted went with the machine"
        assert (await stage.command("node", "start", "node-1"))[0] == 0
        await stage.until("it is back", lambda: restarted(stage, "p"))


async def restarted(stage: Stage, name: str) -> bool:
    found = await stage.client.get(Pod, name, "default")
    return await ready(stage, name) and any(each.restart_count for each in found.status.container_statuses)


async def test_a_driver_that_is_away_is_waited_for_and_faults_are_survived(data_dir: Path) -> None:
    faults = ("NodeStageVolume:after-UNAVAILABLE:0.3", "CreateVolume:after-DEADLINE_EXCEEDED:0.3")
    options = [flag for fault in faults for flag in ("--csi-fault", fault)]
    async with staged(data_dir, *options) as (stage, drivers):
        await storage_class(stage)
        await drivers.stop("node-1")
        await claimed(stage, "c")
        await pod(stage, "p", "node-1", "sleep 1000", "c")
        await stage.until("an event says that it is away", lambda: has_event(stage, "no driver answers"))
        await drivers.start("node-1")
        await stage.until("the pod runs", lambda: ready(stage, "p"), patience=120)
        assert len(drivers.array.list()) == 1, "never two volumes for a claim"


async def has_event(stage: Stage, words: str) -> bool:
    return any(words in (event.message or "") for event in (await stage.client.list(Event, "default")).items)


async def test_a_raw_device_of_a_driver_is_the_pods_own(data_dir: Path) -> None:
    async with staged(data_dir) as (stage, drivers):
        await storage_class(stage)
        await claimed(stage, "raw", mode="Block")
        await pod(stage, "p", "node-2", "echo block > /dev/xvda && sync && sleep 1000", "raw", raw=True)
        await stage.until("the pod runs", lambda: ready(stage, "p"))
        (disk,) = drivers.array.list()
        await stage.until("the disk has it", lambda: written(drivers, disk))


async def written(drivers: Drivers, disk: str) -> bool:
    return (drivers.root / "array" / "disks" / disk / "disk.img").read_bytes()[:5] == b"block"
