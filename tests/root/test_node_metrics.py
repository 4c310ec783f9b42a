"""What an agent's process serves at /metrics, with a file system that really stops answering."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import silent_fuse
from agent_process import AgentProcess, agent_world

from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs /dev/fuse"),
]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
async def world(tmp_path: Path, port: int) -> AsyncIterator[AgentProcess]:
    async with agent_world(tmp_path) as world:
        await world.start("boot-1", "--metrics-port", str(port))
        yield world


async def bound(world: AgentProcess, name: str, path: Path) -> None:
    """A claim on a directory of the node."""
    modes, size = ["ReadWriteOnce"], {"storage": "1Gi"}
    reference = {"namespace": "default", "name": name}
    volume = {"hostPath": {"path": str(path)}, "capacity": size, "accessModes": modes, "claimRef": reference}
    await world.api.create(PersistentVolume, {"metadata": {"name": name}, "spec": volume})
    claim = {
        "accessModes": modes,
        "resources": {"requests": size},
        "volumeName": name,
        "storageClassName": "",
    }
    body = {"metadata": {"name": name}, "spec": claim}
    made = await world.api.create(PersistentVolumeClaim, body, "default")
    claimed = {"spec": {"claimRef": {**reference, "uid": made.uid}}}
    await world.api.patch(PersistentVolume, name, claimed)
    bound = {"status": {"phase": "Bound"}}
    await world.api.patch(PersistentVolumeClaim, name, bound, "default", subresource="status")


async def scrape(port: int) -> dict[str, float]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        assert answer.status == 200
        lines = (await answer.text()).splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def of_claim(found: dict[str, float], what: str, claim: str) -> float | None:
    labels = f'{{namespace="default",persistentvolumeclaim="{claim}"}}'
    return found.get(f"kubelet_volume_stats_{what}{labels}")


async def test_claims_volumes_are_shown_and_one_that_does_not_answer_hangs_nothing(
    world: AgentProcess, port: int, tmp_path: Path
) -> None:
    (tmp_path / "well").mkdir()
    with silent_fuse.mounted(tmp_path / "gone") as fuse:
        for name in ("well", "gone"):
            await bound(world, name, tmp_path / name)
        volumes: list[Any] = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("well", "gone")
        ]
        await world.create_pod("exec sleep 1000", volumes=volumes)
        await world.until(lambda: runs(world, "web-0"))
        fuse.silent.set()
        found = await asyncio.wait_for(scrape(port), 30)
        await world.until(lambda: fuse.waiting)  # it was really asked, and is
        whole = os.statvfs(tmp_path)
        assert of_claim(found, "capacity_bytes", "well") == whole.f_blocks * whole.f_frsize
        assert of_claim(found, "inodes", "well") == whole.f_files
        assert of_claim(found, "capacity_bytes", "gone") is None
        assert found["mooring_node_volumes_unanswered"] == 1
        for _ in range(3):
            await asyncio.wait_for(scrape(port), 30)
        assert len(fuse.waiting) == 1
        assert "has not said within 5 s how full it is" in (world.root / "agent.log").read_text()
        page = await world.api.request("GET", "/api/v1/nodes/node-1/proxy/stats/summary")
        assert b'"name": "well"' in page or b'"name":"well"' in page
        await world.create_pod("exec sleep 1000", name="web-1", volumes=[{"name": "e", "emptyDir": {}}])
        await world.until(lambda: runs(world, "web-1"))
        assert await world.stop(signal.SIGTERM) == 0, "the agent ends, whatever it has asked"


async def test_a_volume_that_answers_is_shown_with_its_figures_and_operations_are_timed(
    world: AgentProcess, port: int, tmp_path: Path
) -> None:
    with silent_fuse.mounted(tmp_path / "here"):
        await bound(world, "db", tmp_path / "here")
        volumes = [{"name": "db", "persistentVolumeClaim": {"claimName": "db"}}]
        await world.create_pod("exec sleep 1000", volumes=volumes)
        await world.until(lambda: runs(world, "web-0"))
        found = await scrape(port)
        figures = ("capacity_bytes", "available_bytes", "used_bytes", "inodes", "inodes_free", "inodes_used")
        shown = [of_claim(found, each, "db") for each in figures]
        assert shown == [1000 * 4096, 250 * 4096, 750 * 4096, 100, 60, 40]
        timed = [name for name in found if re.match(r"storage_operation_duration_seconds_count\b", name)]
        (only,) = [name for name in timed if "host-path" in name]
        assert 'operation_name="volume_mount"' in only
        assert 'status="success"' in only


async def test_a_port_that_is_taken_is_said(world: AgentProcess, port: int) -> None:
    await world.stop(signal.SIGTERM)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen()
        await world.start("boot-1", "--metrics-port", str(port))
        assert world.agent is not None
        assert await world.agent.wait() == 1
        assert f"metrics cannot be served on 127.0.0.1:{port}" in (world.root / "agent.log").read_text()


async def runs(world: AgentProcess, name: str) -> bool:
    pod = await world.api.find(Pod, name, "default")
    return pod is not None and pod.status.phase == "Running"
