"""The driver dies at every step of every operation; the next one completes what was begun, and does nothing
twice."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crashes import ended_at

from mooring.csi.client import Client
from mooring.csi.errors import CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Controller, Node, Rpc
from mooring.mounts.table import mounts_below, read_mount_table

from .conftest import SIZE, TIMEOUT_S, Disks, mounted

pytestmark = pytest.mark.root


def requests(disks: Disks) -> dict[str, tuple[Rpc[Any, Any], Any]]:
    staging, target, use = str(disks.staging()), str(disks.target()), mounted()
    size = csi.CapacityRange(required_bytes=SIZE)
    return {
        "create": (
            Controller.create_volume,
            csi.CreateVolumeRequest(name="v1", capacity_range=size, volume_capabilities=[use]),
        ),
        "attach": (
            Controller.controller_publish_volume,
            csi.ControllerPublishVolumeRequest(volume_id="v1", node_id="n1", volume_capability=use),
        ),
        "stage": (
            Node.node_stage_volume,
            csi.NodeStageVolumeRequest(volume_id="v1", staging_target_path=staging, volume_capability=use),
        ),
        "publish": (
            Node.node_publish_volume,
            csi.NodePublishVolumeRequest(
                volume_id="v1", staging_target_path=staging, target_path=target, volume_capability=use
            ),
        ),
        "snapshot": (
            Controller.create_snapshot,
            csi.CreateSnapshotRequest(source_volume_id="v1", name="s1"),
        ),
        "unpublish": (
            Node.node_unpublish_volume,
            csi.NodeUnpublishVolumeRequest(volume_id="v1", target_path=target),
        ),
        "unstage": (
            Node.node_unstage_volume,
            csi.NodeUnstageVolumeRequest(volume_id="v1", staging_target_path=staging),
        ),
        "detach": (
            Controller.controller_unpublish_volume,
            csi.ControllerUnpublishVolumeRequest(volume_id="v1", node_id="n1"),
        ),
        "delete": (Controller.delete_volume, csi.DeleteVolumeRequest(volume_id="v1")),
    }


def truth(disks: Disks) -> dict[str, Any]:
    """What there is at the storage and on the node."""
    mounts = [mount.mount_point for mount in mounts_below(read_mount_table(), str(disks.kubelet))]
    return {"disks": disks.array.list(), "devices": len(disks.array.devices("n1")), "mounts": sorted(mounts)}


async def died(disks: Disks, rpc: Rpc[Any, Any], request: Any, steps: int) -> bool:
    """The driver's own method, ended at its await number `steps`, as with its process. False if it had ended
    before."""
    driver = disks.dispatcher.driver
    service: Any = driver.controller if rpc.service == Controller.create_volume.service else driver.node
    return await ended_at(getattr(service, rpc.attribute)(request), steps)


async def test_at_every_step_of_every_operation(disks: Disks, tmp_path: Path) -> None:
    await disks.node.node_get_info(csi.NodeGetInfoRequest(), timeout_s=TIMEOUT_S)
    after: dict[str, Any] = {}
    for name, (rpc, request) in requests(disks).items():  # once without a death: what is to come out
        await disks.client.call(rpc, request, TIMEOUT_S)
        after[name] = truth(disks)
    deaths, steps = 1, 0
    while deaths:
        deaths = 0
        for name, (rpc, request) in requests(disks).items():
            deaths += await died(disks, rpc, request, steps)
            await disks.client.call(rpc, request, TIMEOUT_S)
            assert truth(disks) == after[name], (name, steps)
        steps += 1
    assert steps > 5


def start(disks: Disks) -> subprocess.Popen[bytes]:
    flags = [
        f"--endpoint=unix://{disks.root}/csi.sock",
        f"--array={disks.root}/array",
        f"--allow-path={disks.kubelet}",
    ]
    command = [
        sys.executable,
        "-m",
        "mooring.cli.main",
        "csi",
        "disk-driver",
        "--node-id=n1",
        "--log-level=error",
    ]
    return subprocess.Popen([*command, *flags], stdout=subprocess.DEVNULL)


async def insist(client: Client, rpc: Rpc[Any, Any], request: Any) -> None:
    while True:
        try:
            await client.call(rpc, request, TIMEOUT_S)
            return
        except CsiError:
            await asyncio.sleep(0.02)


async def test_killed_at_random_moments_it_goes_on_with_the_same_requests(disks: Disks) -> None:
    """Each process of the driver is killed without warning; its socket stays behind, and the next one takes
    it over."""
    rng, enough = random.Random(8), asyncio.Event()
    process = start(disks)
    try:
        async with Client(f"unix://{disks.root}/csi.sock") as client:

            async def story() -> None:
                await insist(client, Node.node_get_info, csi.NodeGetInfoRequest())
                while not enough.is_set():
                    for rpc, request in requests(disks).values():
                        await insist(client, rpc, request)

            playing = asyncio.ensure_future(story())
            for _ in range(5):
                await asyncio.sleep(rng.uniform(0.7, 1.0))
                process.kill()
                process.wait()
                process = start(disks)
            enough.set()
            await playing
    finally:
        process.kill()
        process.wait()
    assert truth(disks) == {"disks": {}, "devices": 0, "mounts": []}
