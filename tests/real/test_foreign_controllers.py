"""The real kube-scheduler and kube-controller-manager, by their default flags, do their job on the embedded server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.real.server import HOST, free_ports, process

from mooring.apiserver import Server
from mooring.apiserver.entry import serve

Obj = dict[str, Any]
NS = "/api/v1/namespaces/work"
STATEFULSETS = "/apis/apps/v1/namespaces/work/statefulsets"
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}
READY = [{"type": "Ready", "status": "True"}]
NODE = {"metadata": {"name": "n1"}, "status": {"capacity": ROOM, "allocatable": ROOM, "conditions": READY}}
PATIENCE_SECONDS = 90.0


def volume(name: str) -> Obj:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual"}
    return {"metadata": {"name": name}, "spec": spec | {"hostPath": {"path": f"/nowhere/{name}"}}}


def statefulset(replicas: int) -> Obj:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": wanted | {"storageClassName": "manual"}}],
        },
    }


class Api:
    """Requests to a server of this process."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def send(self, method: str, path: str, body: Any = b"", content: str = "application/json") -> Obj:
        answer = await self._server.call(method, path, (), {"content-type": content}, body)
        assert answer.status < 300, f"{method} {path}: {answer.body.decode()}"
        return json.loads(answer.body)

    async def items(self, path: str) -> list[Obj]:
        return (await self.send("GET", path))["items"]


async def play_node(api: Api) -> None:
    """A node agent that pretends: pods that are bound run, pods that are deleted stop."""
    merge = "application/merge-patch+json"
    while True:
        for pod in await api.items("/api/v1/pods"):
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            if "deletionTimestamp" in pod["metadata"]:
                await api.send("DELETE", path, {"gracePeriodSeconds": 0})
            elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                status = {"phase": "Running", "conditions": READY}
                await api.send("PATCH", f"{path}/status", {"status": status}, merge)
        await asyncio.sleep(0.2)


@contextmanager
def controllers(programs: Path, folder: Path, kubeconfig: Path) -> Iterator[None]:
    """Both programs, as they come but for what keeps them on loopback."""
    with ExitStack() as stack:
        for name, port in zip(("kube-controller-manager", "kube-scheduler"), free_ports(2), strict=True):
            flags = [f"--kubeconfig={kubeconfig}", f"--bind-address={HOST}", f"--secure-port={port}"]
            command = [str(programs / name), *flags, f"--cert-dir={folder / name}"]
            stack.enter_context(process(command, folder / f"{name}.log"))
        yield


@pytest.fixture
async def api(programs: Path, tmp_path: Path) -> AsyncIterator[Api]:
    for name in ("kube-controller-manager", "kube-scheduler"):
        if not (programs / name).exists():
            pytest.skip(f"needs {name}: run `make assets`")
    running = await serve(data_dir=tmp_path / "data", secure=True)
    agent: asyncio.Task[None] | None = None
    try:
        with controllers(programs, tmp_path, running.kubeconfig):
            found = Api(running.server)
            agent = asyncio.create_task(play_node(found))
            yield found
    finally:
        if agent is not None:
            agent.cancel()
        await running.close()


async def until(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds; fail with `what` if it takes too long."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await holds():  # noqa: ASYNC110 - others, in processes of their own, make it true
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"still not so: {what}")


async def test_a_statefulset_lives_and_ends_by_the_real_controllers(api: Api) -> None:
    """Claims are made and bound, pods made in order and scheduled, status counted; the namespace takes all with it."""
    await api.send("POST", "/api/v1/nodes", NODE)
    await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "work"}})
    for name in ("pv-0", "pv-1"):
        await api.send("POST", "/api/v1/persistentvolumes", volume(name))
    await api.send("POST", STATEFULSETS, statefulset(2))

    async def ready() -> bool:
        return (await api.send("GET", f"{STATEFULSETS}/web"))["status"].get("readyReplicas") == 2

    await until("both pods of the StatefulSet are ready", ready)
    pods = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await api.items(f"{NS}/pods")}
    assert pods == {"web-0": "n1", "web-1": "n1"}
    claims = await api.items(f"{NS}/persistentvolumeclaims")
    assert {claim["spec"]["volumeName"] for claim in claims} == {"pv-0", "pv-1"}
    assert {claim["status"]["phase"] for claim in claims} == {"Bound"}

    await api.send("DELETE", "/api/v1/namespaces/work")

    async def gone() -> bool:
        names = {each["metadata"]["name"] for each in await api.items("/api/v1/namespaces")}
        return "work" not in names

    await until("the namespace is gone, with all that was in it", gone)

    async def released() -> bool:
        phases = {each["status"]["phase"] for each in await api.items("/api/v1/persistentvolumes")}
        return phases == {"Released"}

    await until("the volumes are released", released)
