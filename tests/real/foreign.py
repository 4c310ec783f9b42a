"""A cluster of strangers: the real kube-scheduler and kube-controller-manager, by their default flags, on the
embedded server; and a node agent that pretends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import waiting
from tests.real.server import HOST, free_ports, process

from mooring.apiserver import Server
from mooring.apiserver.process import serve

Obj = dict[str, Any]
PROGRAMS = ("kube-controller-manager", "kube-scheduler")
MERGE = "application/merge-patch+json"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
PATIENCE_SECONDS = 120.0
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}
READY = [{"type": "Ready", "status": "True"}]
WORKER, SILENT = "worker", "silent"
"""A node whose agent answers, and one whose agent never does."""


class ProcessApi:
    """Requests to a server of this process. A `namespace` of its own is where a test works."""

    def __init__(self, server: Server, namespace: str = "default") -> None:
        self._server = server
        self.namespace = namespace

    def within(self, namespace: str) -> ProcessApi:
        return ProcessApi(self._server, namespace)

    def path(self, plural: str, group: str = "") -> str:
        """The collection of a kind in the test's namespace; `group` with its version."""
        return f"/{f'apis/{group}' if group else 'api/v1'}/namespaces/{self.namespace}/{plural}"

    async def ask(
        self, method: str, path: str, body: Any = b"", content: str = "application/json"
    ) -> tuple[int, Obj]:
        answer = await self._server.call(method, path, (), {"content-type": content}, body)
        return answer.status, json.loads(answer.body)

    async def send(self, method: str, path: str, body: Any = b"", content: str = "application/json") -> Obj:
        status, answer = await self.ask(method, path, body, content)
        assert status < 300, f"{method} {path}: {answer}"
        return answer

    async def get(self, path: str) -> Obj:
        return await self.send("GET", path)

    async def create(self, path: str, body: Obj) -> Obj:
        return await self.send("POST", path, body)

    async def merge(self, path: str, body: Obj) -> Obj:
        return await self.send("PATCH", path, body, MERGE)

    async def delete(self, path: str, **options: Any) -> None:
        await self.send("DELETE", path, options)

    async def items(self, path: str) -> list[Obj]:
        return (await self.get(path))["items"]

    async def names(self, path: str) -> set[str]:
        return {each["metadata"]["name"] for each in await self.items(path)}

    async def gone(self, path: str) -> bool:
        return (await self.ask("GET", path))[0] == 404


async def until(what: str, holds: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until something holds, and give it; fail with `what` if it takes too long."""
    return await waiting.until(holds, what, seconds=PATIENCE_SECONDS, every_s=0.1)


def node(name: str) -> Obj:
    """A Node as an agent registers it; its attachments are the controller's work. A silent one is
    cordoned."""
    annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": annotations}
    status = {"capacity": ROOM, "allocatable": ROOM, "conditions": READY}
    return {"metadata": metadata, "spec": {"unschedulable": name == SILENT}, "status": status}


def lease(name: str) -> Obj:
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()}
    return {"metadata": {"name": name}, "spec": spec}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def play_agent(api: ProcessApi, name: str) -> None:
    """The agent of a node: its lease is renewed, pods that are bound run, pods that are deleted stop."""
    while True:
        await api.merge(f"{LEASES}/{name}", {"spec": {"renewTime": now()}})
        for pod in await api.items("/api/v1/pods"):
            if pod["spec"].get("nodeName") == name:
                await _play_pod(api, pod)
        await asyncio.sleep(0.2)


async def _play_pod(api: ProcessApi, pod: Obj) -> None:
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    ends = pod["spec"]["restartPolicy"] == "Never"
    if "deletionTimestamp" in pod["metadata"]:
        await api.ask("DELETE", path, {"gracePeriodSeconds": 0})
    elif pod["status"]["phase"] == "Pending":
        status = {
            "phase": "Succeeded" if ends else "Running",
            "conditions": [] if ends else READY,
            "podIP": "10.0.0.9",
        }
        await api.ask(
            "PATCH", f"{path}/status", {"status": {**status, "podIPs": [{"ip": "10.0.0.9"}]}}, MERGE
        )


def _start(programs: Path, logs: Path, kubeconfig: Path) -> ExitStack:
    """Both programs, as they come but for what keeps them on loopback; they end with the stack."""
    with ExitStack() as stack:
        for name, port in zip(PROGRAMS, free_ports(len(PROGRAMS)), strict=True):
            flags = [f"--kubeconfig={kubeconfig}", f"--bind-address={HOST}", f"--secure-port={port}"]
            command = [str(programs / name), *flags, f"--cert-dir={logs / name}"]
            stack.enter_context(process(command, logs / f"{name}.log"))
        return stack.pop_all()


@asynccontextmanager
async def foreign_cluster(programs: Path, folder: Path) -> AsyncIterator[ProcessApi]:
    """The server, both programs, whose logs are in `folder`, and two nodes, one of which never answers."""
    async with AsyncExitStack() as stack:
        server = await serve(data_dir=folder / "data")
        stack.push_async_callback(server.close)
        running = _start(programs, folder, server.kubeconfig)
        # They take leave of the server, which must answer meanwhile.
        stack.push_async_callback(asyncio.to_thread, running.close)
        api = ProcessApi(server.server)
        for name in (WORKER, SILENT):
            await api.create("/api/v1/nodes", node(name))
            await api.create(LEASES, lease(name))
        agent = asyncio.create_task(play_agent(api, WORKER))
        stack.callback(agent.cancel)
        yield api
        assert not agent.done(), agent.result()
