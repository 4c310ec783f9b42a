"""A node agent as a process of its own, real pods on a real disk. The test plays the controllers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.apiserver.entry import Running, serve, write_kubeconfig
from mooring.kube.client import Client
from mooring.kube.http import HttpTransport
from mooring.kube.objects import ConfigMap, Event, Node, Pod, VolumeAttachment
from mooring.kube.tls import Trust
from mooring.mounts import loop, syscalls
from mooring.mounts.commands import run
from mooring.mounts.errors import DeviceBusy
from mooring.mounts.table import mounts_below, read_mount_table
from mooring.volumes.names import volume_attachment_name
from mooring.volumes.plugins.disk_array import DiskArray
from mooring.volumes.plugins.disk_source import PLUGIN_NAME

pytestmark = pytest.mark.root

NODE = "node-1"
SIZE = 16 * 1024 * 1024
VOLUME = f"{PLUGIN_NAME}/d"
WRITER = 'echo "$POD on $(hostname)" >> /data/log; cat /data/log; exec sleep 1000'


class World:
    """An API server, an array with one disk, and the agent's process."""

    def __init__(self, root: Path, api: Running) -> None:
        self.root = root
        self.node_root = root / "node"
        authority = api.authority.read_bytes()
        self.api = Client(HttpTransport(api.url, token=api.tokens.admin(), trust=Trust(authority)))
        self.array = DiskArray(root / "array")
        self.kubeconfig = root / "node.kubeconfig"
        write_kubeconfig(self.kubeconfig, api.url, api.tokens.node(NODE), authority)
        self.agent: asyncio.subprocess.Process | None = None

    async def start(self, boot_id: str = "boot-1") -> None:
        log = os.open(self.root / "agent.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self.agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from mooring.cli.main import main; main()", "agent", "--name", NODE),
            *("--root-dir", str(self.node_root), "--kubeconfig", str(self.kubeconfig), "--hide", str(self.root)),
            *("--lease-duration", "4", "--plugin-setting", f"{PLUGIN_NAME}:array={self.root / 'array'}"),
            env=os.environ | {"MOORING_BOOT_ID": boot_id},
            stdout=log,
            stderr=log,
        )
        os.close(log)
        await self.until(self.ready)

    async def stop(self, number: int) -> int:
        assert self.agent is not None
        self.agent.send_signal(number)
        return await self.agent.wait()

    async def ready(self) -> bool:
        node = await self.api.find(Node, NODE)
        return node is not None and node.ready == "True"

    async def until(self, condition: Callable[[], Any]) -> Any:
        try:
            async with asyncio.timeout(30):
                while True:
                    found = condition()
                    if asyncio.iscoroutine(found):
                        found = await found
                    if found:
                        return found
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"never came true:\n{(self.root / 'agent.log').read_text()}") from None

    async def create_pod(self, script: str = WRITER, name: str = "web-0", **spec: Any) -> Pod:
        disk = {"flexVolume": {"driver": PLUGIN_NAME, "fsType": "ext4", "options": {"disk": "d"}}}
        container = {
            "name": "main",
            "image": "shell",
            "command": ["/bin/sh", "-c", script],
            "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "volumeMounts": [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in spec["volumes"]]
            if "volumes" in spec
            else [{"name": "data", "mountPath": "/data"}],
        }
        volumes = spec.pop("volumes", [{"name": "data", **disk}])
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": NODE,
                "containers": [container],
                "volumes": volumes,
                "terminationGracePeriodSeconds": 2,
                **spec,
            },
        }
        return await self.api.create(Pod, body, "default")

    async def attach(self) -> None:
        self.array.attach("d", NODE)
        name = volume_attachment_name(PLUGIN_NAME, "d", NODE)
        source = {"persistentVolumeName": "x"}
        spec = {"attacher": "plugins.mooring.dev", "nodeName": NODE, "source": source}
        await self.api.create(VolumeAttachment, {"metadata": {"name": name}, "spec": spec})
        await self.api.patch(VolumeAttachment, name, {"status": {"attached": True}}, subresource="status")
        await self.report([{"name": VOLUME, "devicePath": self.array.device_path("d", NODE)}])

    async def report(self, volumes: list[dict[str, str]]) -> None:
        await self.api.patch(Node, NODE, {"status": {"volumesAttached": volumes}}, subresource="status")

    async def running(self, name: str = "web-0") -> bool:
        pod = await self.api.find(Pod, name, "default")
        return pod is not None and pod.status.phase == "Running"

    async def gone(self, name: str = "web-0") -> bool:
        return await self.api.find(Pod, name, "default") is None

    async def unused(self) -> bool:
        return (await self.api.get(Node, NODE)).status.volumes_in_use == ()

    async def event(self, reason: str) -> str | None:
        events = await self.api.list(Event, "default")
        return next((event.message for event in events.items if event.reason == reason), None)

    def mounts(self) -> list[str]:
        return [mount.mount_point for mount in mounts_below(read_mount_table(), str(self.node_root))]

    def log(self, pod: Pod) -> list[str]:
        logs = sorted((self.node_root / "pods" / pod.uid / "logs").glob("main.*.log"))
        return [line.split(" ", 3)[3] for path in logs for line in path.read_text().splitlines()]

    def supervisors(self) -> list[int]:
        agent = self.agent.pid if self.agent is not None else 0  # it opens files of pods, too, for moments
        pids = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != agent]
        return [int(entry.name) for entry in pids if self._belongs(entry)]

    def _belongs(self, process: Path) -> bool:
        """A supervisor has the pod's lock open."""
        try:
            return any(os.readlink(fd).startswith(f"{self.node_root}/pods") for fd in (process / "fd").iterdir())
        except OSError:
            return False

    async def clean_up(self) -> None:
        if self.agent is not None and self.agent.returncode is None:
            await self.stop(signal.SIGKILL)
        for pid in self.supervisors():
            os.kill(pid, signal.SIGKILL)
        await self.until(lambda: not self.supervisors())
        for mount in reversed(self.mounts()):
            syscalls.unmount(mount)
        await self.until(self.devices_removed)
        await self.api.close()

    def devices_removed(self) -> bool:
        """The kernel may still be dropping the mounts of a pod that was killed."""
        try:
            for device in loop.devices_of(str(self.root / "array" / "disks" / "d" / "disk.img")):
                loop.remove(device)
        except DeviceBusy:
            return False
        return True


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    api = await serve(data_dir=tmp_path / "api")
    world = World(tmp_path, api)
    world.array.create("d", SIZE)
    yield world
    await world.clean_up()
    await api.close()


async def test_a_pod_writes_to_its_disk_and_its_successor_reads_it(world: World) -> None:
    await world.start()
    first = await world.create_pod()
    await world.attach()
    await world.until(world.running)
    await world.until(lambda: world.log(first) == ["web-0 on web-0"])
    await world.api.delete(Pod, "web-0", "default")
    await world.until(world.gone)
    await world.until(world.unused)
    assert world.mounts() == []
    world.array.detach("d", NODE)
    world.array.attach("d", NODE)
    second = await world.create_pod(name="web-1")
    await world.until(lambda: world.log(second) == ["web-0 on web-0", "web-1 on web-1"])


async def test_a_killed_agent_disturbs_nothing_and_the_next_one_takes_over(world: World) -> None:
    await world.start()
    pod = await world.create_pod()
    await world.attach()
    await world.until(world.running)
    mounts, supervisors = world.mounts(), world.supervisors()
    assert len(mounts) == 2
    await world.stop(signal.SIGKILL)
    await world.start()
    await asyncio.sleep(0.5)
    assert world.mounts() == mounts
    await world.until(lambda: world.supervisors() == supervisors)
    await world.api.delete(Pod, "web-0", "default")
    await world.until(world.gone)
    await world.until(world.unused)
    assert world.mounts() == []
    await world.until(lambda: not (world.node_root / "pods" / pod.uid).exists())


async def test_a_pod_that_went_while_no_agent_was_there_is_cleaned_up(world: World) -> None:
    await world.start()
    await world.create_pod()
    await world.attach()
    await world.until(world.running)
    await world.stop(signal.SIGKILL)
    await world.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
    assert (await world.api.get(Node, NODE)).status.volumes_in_use == (VOLUME,)
    await world.start()
    await world.until(world.unused)
    await world.until(lambda: not world.supervisors())
    assert world.mounts() == []


async def test_an_attachment_that_is_taken_away_ends_the_pod(world: World) -> None:
    await world.start()
    await world.create_pod()
    await world.attach()
    await world.until(world.running)
    await world.api.delete(VolumeAttachment, volume_attachment_name(PLUGIN_NAME, "d", NODE))
    await world.report([])
    await world.until(lambda: not world.mounts())
    assert world.supervisors() == []
    assert await world.event("VolumeLost")


async def test_a_foreign_file_system_is_refused_and_not_touched(world: World) -> None:
    device = world.array.attach("d", NODE)
    await run("mkfs.ext4", "-q", "-L", "precious", device)
    await world.start()
    flex = {"driver": PLUGIN_NAME, "fsType": "xfs", "options": {"disk": "d"}}
    await world.create_pod(volumes=[{"name": "data", "flexVolume": flex}])
    await world.attach()
    told = await world.until(lambda: world.event("FailedMount"))
    assert "xfs" in told
    assert "precious" in (await run("blkid", "-p", device)).output
    await world.api.delete(Pod, "web-0", "default")
    await world.until(world.gone)
    await world.until(world.unused)


async def test_the_node_shuts_down_when_it_is_told_so(world: World) -> None:
    await world.start()
    await world.create_pod()
    await world.attach()
    await world.until(world.running)
    assert await world.stop(signal.SIGUSR1) == 0
    node = await world.api.get(Node, NODE)
    assert node.ready == "False"
    assert node.status.volumes_in_use == ()
    assert world.mounts() == []
    assert world.supervisors() == []


async def test_an_agent_that_is_stopped_leaves_its_pods_running(world: World) -> None:
    await world.start()
    await world.create_pod()
    await world.attach()
    await world.until(world.running)
    assert await world.stop(signal.SIGTERM) == 0
    assert len(world.supervisors()) == 1
    assert len(world.mounts()) == 2


async def test_a_config_map_and_an_empty_dir_are_there_and_follow_changes(world: World) -> None:
    await world.start()
    await world.api.create(ConfigMap, {"metadata": {"name": "settings"}, "data": {"mode": "slow"}}, "default")
    pod = await world.create_pod(
        "echo x > /scratch/file; while :; do cat /conf/mode; echo; sleep 0.1; done",
        volumes=[{"name": "conf", "configMap": {"name": "settings"}}, {"name": "scratch", "emptyDir": {}}],
    )
    await world.until(lambda: "slow" in world.log(pod))
    await world.api.patch(ConfigMap, "settings", {"data": {"mode": "fast"}}, "default")
    await world.until(lambda: "fast" in world.log(pod))
    await world.api.delete(Pod, "web-0", "default")
    await world.until(world.gone)
    await world.until(lambda: not (world.node_root / "pods" / pod.uid).exists())


async def test_a_second_agent_on_the_same_directory_is_refused(world: World) -> None:
    await world.start()
    first = world.agent
    await world.start()
    assert world.agent is not None
    assert await world.agent.wait() != 0
    world.agent = first
