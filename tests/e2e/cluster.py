"""The cluster that upstream's end-to-end suite runs against: `mooring up` with two CSI drivers.

Three nodes, instances of a cloud (`ebs.csi.aws.com`), and `disk.mooring.dev` with one process for each
node, as any driver that its author brings. Everything is below one work folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from mooring.cluster.processes import mooring
from mooring.cluster.stage import Stage
from mooring.kube.objects import CSIDriver, CSINode, Service
from mooring.volumes.plugins.disk_array import DiskArray

DISK = "disk.mooring.dev"
NODES = ("node-1", "node-2", "node-3")
MAX_VOLUMES = 20
QUICK_CLOUD = (
    "attaching_s=0.5", "detaching_s=0.5", "creating_s=0.2", "deleting_s=0.2", "snapshot_s=1", "modifying_s=0.5",
    "optimizing_s=1",
)  # fmt: skip
"""EC2's own delays would make the suite wait, and are tested elsewhere."""


@asynccontextmanager
async def cluster(work: Path, images: Path) -> AsyncIterator[Stage]:
    """A cluster that is ready for the suite; `work` is a short path, as sockets are in it."""
    stage = Stage(work / "d", cloud=True)
    array = DiskArray(work / "array")
    async with AsyncExitStack() as stack:
        for node in NODES:
            await stack.enter_async_context(_disk_driver(work, node))
            stack.callback(array.power_off, node)
        stack.push_async_callback(stage.down)
        settings = [word for setting in QUICK_CLOUD for word in ("--cloud-set", setting)]
        await stage.up(
            "--nodes", str(len(NODES)), "--port", "0", "--images", str(images), "--cloud", *settings,
            "--csi", f"{DISK}=unix://{work}/disk-{{node}}.sock",
        )  # fmt: skip
        await stage.until("all nodes are Ready", lambda: stage.ready_nodes(len(NODES)))
        await stage.until("all nodes know the disk driver", lambda: _registered(stage))
        await _what_every_cluster_has(stage)
        yield stage


@asynccontextmanager
async def _disk_driver(work: Path, node: str) -> AsyncIterator[None]:
    command = mooring(
        "csi", "disk-driver", "--endpoint", f"unix://{work}/disk-{node}.sock", "--node-id", node,
        "--array", str(work / "array"), "--allow-path", str(work / "d"), "--machine", "lab",
        "--max-volumes", str(MAX_VOLUMES),
    )  # fmt: skip
    with (work / f"disk-{node}.log").open("wb") as log:
        driver = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        try:
            yield
        finally:
            if driver.returncode is None:
                driver.terminate()
            await driver.wait()


async def _registered(stage: Stage) -> bool:
    nodes = (await stage.client.list(CSINode)).items
    return sum(any(driver.name == DISK for driver in node.spec.drivers) for node in nodes) == len(NODES)


async def _what_every_cluster_has(stage: Stage) -> None:
    """The Service that an API server of Kubernetes makes of itself, and what a driver's author applies."""
    service: dict[str, Any] = {"metadata": {"name": "kubernetes"}, "spec": {"ports": [{"port": 443}]}}
    await stage.client.create(Service, service, "default")
    driver: dict[str, Any] = {"metadata": {"name": DISK}, "spec": {"fsGroupPolicy": "File"}}
    await stage.client.create(CSIDriver, driver)
