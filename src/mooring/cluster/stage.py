"""The stage on which the demo (and the tests that play stories) act: a cluster of real processes, driven from
outside.

Knows how to start `mooring up`, speak to it with kubectl (or, where there is none, with our own client), wait
for something with a limit, and look at what is true inside a machine. It has no privileged way into any part.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from mooring.cluster import control
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines import looking
from mooring.cluster.machines.links import tables
from mooring.cluster.machines.network import plugged
from mooring.cluster.processes import Running, load, mooring
from mooring.cluster.storage import addresses, servers
from mooring.cluster.truth import ArrayTruth, CloudTruth, Truth
from mooring.kube import config
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, KubeError
from mooring.kube.objects import ConfigMap, Node, Object, Pod, Service, StatefulSet
from mooring.mounts.interface import Mount
from mooring.node.network import claimed
from mooring.volumes.plugins.disk_array import DiskArray

KINDS: dict[str, type[Object]] = {kind.RESOURCE.kind: kind for kind in (ConfigMap, Service, StatefulSet)}
PATIENCE_S = 60.0


class Disappointed(Exception):
    """What was waited for did not come, or a check did not hold; the message says which."""


class Stage:
    """A cluster under a data directory."""

    def __init__(self, data_dir: Path, *, rootless: bool = False, cloud: bool = False) -> None:
        self.layout = Layout(data_dir)
        self.array = DiskArray(self.layout.array, "directory" if rootless else "loop")
        self.truth: Truth = CloudTruth(self.layout) if cloud else ArrayTruth(self.layout, self.array)
        self.kubectl = os.environ.get("MOORING_KUBECTL") or shutil.which("kubectl")
        self.client: Client
        self._up: asyncio.subprocess.Process | None = None

    async def up(self, *flags: str) -> None:
        """Starts `mooring up` and waits until all nodes are Ready."""
        self.layout.root.mkdir(parents=True, exist_ok=True)
        with (self.layout.root / "up.log").open("ab") as log:
            self._up = await asyncio.create_subprocess_exec(
                *mooring("up", "--data-dir", str(self.layout.root), *flags),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await self.until("the cluster is up", self._answers)
        self.client = config.load(self.layout.kubeconfig)
        if isinstance(self.truth, CloudTruth):
            await self.truth.learn()

    async def _answers(self) -> bool:
        if self._up is None or self._up.returncode is not None:
            tail = (self.layout.root / "up.log").read_text()[-2000:]
            raise Disappointed(f"`mooring up` ended:\n{tail}")
        return self.layout.control.exists()

    async def until(
        self, what: str, holds: Callable[[], Awaitable[Any] | Any], *, patience: float = PATIENCE_S
    ) -> Any:
        """Waits until `holds()` is true and returns what it gave; Disappointed after `patience` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while True:
            try:
                given = holds()
                found: Any = await given if inspect.isawaitable(given) else given
            except KubeError:
                found = None
            if found:
                return found
            if loop.time() > deadline:
                raise Disappointed(f"after {patience:g} s still not: {what}")
            await asyncio.sleep(0.03)

    async def ready_nodes(self, count: int) -> bool:
        """Whether that many nodes are Ready."""
        return sum(node.ready == "True" for node in (await self.client.list(Node)).items) >= count

    async def command(self, *words: str) -> tuple[int, str]:
        """Runs `mooring WORDS…` on this cluster; its exit status and what it printed."""
        return await run(mooring(*words, "--data-dir", str(self.layout.root)))

    async def apply(self, manifest: Path) -> str:
        """Applies a manifest, with kubectl if there is one; says with which."""
        if self.kubectl:
            await self.kubectl_do("apply", "-f", str(manifest))
            return "kubectl"
        for document in yaml.safe_load_all(manifest.read_text()):
            namespace = document["metadata"].setdefault("namespace", "default")
            try:
                await self.client.create(KINDS[document["kind"]], document, namespace)
            except AlreadyExists:
                continue
        return "mooring's own client"

    async def kubectl_do(self, *words: str) -> str:
        """Runs kubectl; Disappointed with its output if it fails."""
        assert self.kubectl is not None
        environ = {**os.environ, "KUBECONFIG": str(self.layout.kubeconfig), "HOME": str(self.layout.root)}
        status, output = await run([self.kubectl, *words], environ)
        if status != 0:
            raise Disappointed(f"kubectl {' '.join(words)} failed: {output}")
        return output

    async def cordon(self, node: str, unschedulable: bool = True) -> None:
        """Takes a node out of scheduling, or back in."""
        await self.client.patch(Node, node, {"spec": {"unschedulable": unschedulable or None}})

    async def drain(self, node: str) -> None:
        """Cordons a node and evicts its pods, with kubectl if there is one."""
        if self.kubectl:
            await self.kubectl_do(
                "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s"
            )
            return
        await self.cordon(node)
        for pod in (await self.client.list(Pod, field_selector=f"spec.nodeName={node}")).items:
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": pod.namespace},
            }
            await self.client.create_raw(Pod, body, name=pod.name, namespace=pod.namespace, sub="eviction")

    def machine(self, node: str) -> Running | None:
        """The first process of a node's machine, by its pid here; None if it has no power, or a kernel of its
        own."""
        return looking.first_process(self.layout, node)

    def mounts(self, node: str) -> tuple[Mount, ...] | None:
        """The mount table of a node's machine; None if it has no power."""
        return looking.mount_table(self.layout, node)

    def part(self, name: str) -> Running | None:
        """The API server's or the controllers' process."""
        return load(self.layout.run / f"{name}.json")

    def kill_part(self, name: str) -> None:
        """kill -9; Disappointed if it does not run."""
        running = self.part(name)
        if running is None:
            raise Disappointed(f"{name} does not run, so it cannot be killed")
        running.send(signal.SIGKILL)

    def has_power(self, node: str) -> bool:
        """Whether anything of a node's machine runs, by the kernel's word."""
        return looking.has_power(self.layout, node)

    async def run_in(self, node: str, script: str) -> tuple[int, str]:
        """Runs a shell script in a node's machine, as at its console. Raises ClusterError."""
        done = json.loads(await control.say(self.layout.control, "run", node, {"script": script}))
        return int(done["status"]), str(done["output"])

    async def file_of(self, node: str, path: Path, *, at_most: int = 1 << 15) -> str | None:
        """The end of a file of a node's machine; None if it is not there, or the machine is off."""
        if self.own_kernel(node):
            with contextlib.suppress(ClusterError):
                status, text = await self.run_in(node, f"tail -c {at_most} '{path}'")
                return text if status == 0 else None
            return None
        mine = self.inside_path(node, path)
        return mine.read_text(errors="replace")[-at_most:] if mine is not None and mine.exists() else None

    def own_kernel(self, node: str) -> bool:
        """Whether the node's machine has a kernel of its own."""
        return (self.layout.machine(node) / "state.img").exists()

    def inside_path(self, node: str, path: Path) -> Path | None:
        """A path of a machine that shares this host's kernel, from here; None if it is off."""
        init = self.machine(node)
        return Path(f"/proc/{init.pid}/root{path}") if init is not None else None

    def inside(self, node: str, disk: str) -> Path | None:
        """The disk's mount point on a node, reached from outside the machine; None if the machine is off."""
        return self.inside_path(node, self.truth.staged_at(disk, node))

    def log_of(self, node: str, pod_uid: str, container: str) -> str:
        """A container's output so far, of the attempts that are kept."""
        logs = (self.layout.node(node) / "pods" / pod_uid / "logs").glob(f"{container}.*.log")
        return "".join(
            path.read_text(errors="replace") for path in sorted(logs, key=lambda path: path.stat().st_mtime)
        )

    async def logs(self, node: str, pod_uid: str, container: str) -> str | None:
        """The same on any kind of machine, also while its network is cut; None if the machine is off."""
        if not self.own_kernel(node):
            return self.log_of(node, pod_uid, container)
        where = self.layout.node(node) / "pods" / pod_uid / "logs"
        with contextlib.suppress(ClusterError):
            status, text = await self.run_in(
                node, f"cd '{where}' && cat $(ls -tr {container}.*.log) | tail -c 30000"
            )
            return text if status == 0 else ""
        return None

    async def down(self) -> tuple[int, str]:
        """`mooring down`; and waits for `mooring up` to end."""
        if hasattr(self, "client"):
            await self.client.close()
        result = await self.command("down")
        if self._up is not None:
            await self._up.wait()
        return result

    def leftovers(self) -> list[str]:
        """What of the cluster is still on this machine: mounts, loop devices, processes, addresses of
        pods, taps, rules."""
        root = str(self.layout.root)
        nodes = [node for node in self.layout.nodes.glob("*") if node.is_dir()]
        found = [
            f"mount {line.split()[4]}"
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if root in line
        ]
        for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
            if backing.read_text().startswith(root):
                found.append(f"loop device {backing.parts[3]}")
        for process in Path("/proc").glob("[0-9]*"):
            if int(process.name) != os.getpid() and root in _command_line(process) + _directory(process):
                found.append(f"process {process.name}: {_command_line(process)[:80]}")
        found += [f"nftables' {family} table {name}" for family, name in tables(self.layout.root)]
        found += [f"machine of {node.name}" for node in nodes if looking.has_power(self.layout, node.name)]
        found += [f"pod network of {node.name}" for node in nodes if claimed(node)]
        for storage in servers.directories(self.layout):
            found += [f"address of storage server {storage.name}"] if addresses.held(storage) else []
            machine = f"storage-{storage.name}"
            found += (
                [f"machine of storage server {storage.name}"]
                if looking.has_power(self.layout, machine)
                else []
            )
        return found + [f"network of machine {node.name}" for node in nodes if plugged(node)]


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _directory(process: Path) -> str:
    try:
        return os.readlink(process / "cwd")
    except OSError:
        return ""


async def run(command: list[str], environ: dict[str, str] | None = None) -> tuple[int, str]:
    """Runs a program to its end; exit status and all its output."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environ,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace").strip()
