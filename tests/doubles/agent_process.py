"""A node agent as a process of its own, with an API server and a disk array in this process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import waiting

from mooring.apiserver.process import Running, serve, write_kubeconfig
from mooring.kube.client import Client
from mooring.kube.http import HttpTransport
from mooring.kube.objects import Event, Node, Pod, VolumeAttachment
from mooring.kube.tls import Trust
from mooring.mounts import loop, syscalls
from mooring.mounts.errors import DeviceBusy
from mooring.mounts.table import mounts_below, read_mount_table
from mooring.node.network import release
from mooring.volumes.names import INLINE_VOLUME, volume_attachment_name
from mooring.volumes.plugins.disk_array import DiskArray
from mooring.volumes.plugins.disk_source import PLUGIN_NAME

NODE = "node-1"
SIZE = 16 * 1024 * 1024
VOLUME = f"{PLUGIN_NAME}/d"
WRITER = 'echo "$POD on $(hostname)" >> /data/log; cat /data/log; exec sleep 1000'


class AgentProcess:
    """An API server, an array with one disk, and the agent's process."""

    def __init__(self, root: Path, api: Running) -> None:
        self.root = root
        self.node_root = root / "node"
        authority = api.authority.read_bytes()
        self.api = Client(HttpTransport(api.url, token=api.tokens.admin(), trust=Trust(authority)))
        self.array = DiskArray(root / "array")
        self.url, self.admin_kubeconfig = api.url, api.kubeconfig
        self.kubeconfig = root / "node.kubeconfig"
        self.endpoint_token = root / "endpoint.token"
        self.endpoint_token.write_text(api.tokens.endpoint(NODE))
        write_kubeconfig(self.kubeconfig, api.url, api.tokens.node(NODE), authority)
        self.agent: asyncio.subprocess.Process | None = None
        self.boot_id = ""

    async def start(self, boot_id: str = "boot-1", *flags: str) -> None:
        log = os.open(self.root / "agent.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self.agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from mooring.cli.main import main; main()", "agent", "--name", NODE),
            *(
                "--root-dir",
                str(self.node_root),
                "--kubeconfig",
                str(self.kubeconfig),
                "--hide",
                str(self.root),
            ),
            *("--lease-duration", "4", "--plugin-setting", f"{PLUGIN_NAME}:array={self.root / 'array'}"),
            *("--endpoint-token-file", str(self.endpoint_token), *flags),
            env=os.environ | {"MOORING_BOOT_ID": boot_id, "MOORING_ENDED_BOOT_ID": self.boot_id},
            stdout=log,
            stderr=log,
        )
        os.close(log)
        self.boot_id = boot_id
        await self.until(self.ready)

    async def stop(self, number: int) -> int:
        assert self.agent is not None
        self.agent.send_signal(number)
        return await self.agent.wait()

    async def ready(self) -> bool:
        node = await self.api.find(Node, NODE)
        return node is not None and node.ready == "True"

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Waits; see `waiting.until`."""
        return await waiting.until(condition, seconds=30, state=(self.root / "agent.log").read_text)

    async def create_pod(self, script: str = WRITER, name: str = "web-0", **spec: Any) -> Pod:
        disk = {"flexVolume": {"driver": PLUGIN_NAME, "fsType": "ext4", "options": {"disk": "d"}}}
        container = {
            "name": "main",
            "image": "shell",
            "command": ["/bin/sh", "-c", script],
            "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "volumeMounts": [
                {"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in spec["volumes"]
            ]
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
        metadata = {"name": name, "annotations": {INLINE_VOLUME: "{}"}}
        await self.api.create(VolumeAttachment, {"metadata": metadata, "spec": spec})
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
        pids = [
            entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != agent
        ]
        return [int(entry.name) for entry in pids if self._belongs(entry)]

    def _belongs(self, process: Path) -> bool:
        """A supervisor has the pod's lock open."""
        try:
            return any(
                os.readlink(fd).startswith(f"{self.node_root}/pods") for fd in (process / "fd").iterdir()
            )
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
        release(self.node_root)
        await self.api.close()

    def devices_removed(self) -> bool:
        """The kernel may still be dropping the mounts of a pod that was killed."""
        medium = str(self.root / "array" / "disks" / "d" / "disk.img")
        try:
            for device in loop.devices_of(medium):
                loop.remove(device, medium)
        except DeviceBusy:
            return False
        return True


@asynccontextmanager
async def agent_world(root: Path) -> AsyncIterator[AgentProcess]:
    """With one disk, `d`. Nothing is left of it afterwards."""
    api = await serve(data_dir=root / "api")
    world = AgentProcess(root, api)
    world.array.create("d", SIZE)
    try:
        yield world
    finally:
        await world.clean_up()
        await api.close()
