"""All controllers, real node agents on played machines, a played array, and the embedded API server: in one
loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import waiting

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.kube.objects import (
    Event,
    Node,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING, make_controller
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.array_plugin import DISK, Array
from mooring.simulation.parts.faulty_transport import FaultyTransport, admin, faulty_client
from mooring.simulation.parts.plugins import MakePlugins, array_plugins
from mooring.testing.played_node import PlayedNode
from mooring.volumes.out_of_service import TAINT

GRACE_S = 10.0


class Process:
    """Controllers that live and die together."""

    def __init__(self, cluster: InProcessCluster, names: Iterable[str], seed: int) -> None:
        self.wire = FaultyTransport(admin(cluster.server))
        self.controllers = [
            make_controller(
                name,
                Client(self.wire),
                make_plugins=cluster.make_plugins,
                now=cluster.now,
                random=Random(f"{name} {seed}"),
                scenario=Scenario(grace_period_s=GRACE_S),
                trace=Trace(asyncio.get_running_loop().time),
            )
            for name in names
        ]
        self.tasks = [asyncio.create_task(each.run()) for each in self.controllers]

    async def kill(self) -> None:
        """Gone from one moment to the next, wherever each of them is."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def check(self) -> None:
        for task in self.tasks:
            if task.done() and not task.cancelled():
                task.result()


class InProcessCluster:
    """`api` is the administrator's client. The played array's plugin is there, or those of `make_plugins`."""

    def __init__(
        self,
        root: Path,
        now: Callable[[], datetime],
        make_plugins: MakePlugins | None = None,
    ) -> None:
        self.now = now
        self.array = Array()
        self.make_plugins = make_plugins or array_plugins(self.array)
        self.server = Server.in_memory(now=now, random=Random(1))
        self.api, _ = faulty_client(self.server)
        self.machines = {f"n{i}": self._machine(f"n{i}", root) for i in range(3)}
        self.processes: list[Process] = []
        self._seeds = 0

    def _machine(self, name: str, root: Path) -> PlayedNode:
        return PlayedNode(name, self.server, self.array, root / name, self.now, self.make_plugins)

    async def start(
        self, nodes: int = 2, controllers: Iterable[Iterable[str]] = (ATTACHING, PLACING, WATCHING)
    ) -> None:
        await self.server.start()
        await self.storage_class("disk")
        for names in controllers:
            self.run(names)
        for name in list(self.machines)[:nodes]:
            self.machines[name].start_agent()
        await self.until(lambda: self.all_ready(nodes))

    def run(self, names: Iterable[str]) -> Process:
        self._seeds += 1
        self.processes.append(Process(self, names, self._seeds))
        return self.processes[-1]

    async def kill(self, process: Process) -> None:
        self.processes.remove(process)
        await process.kill()

    async def until(self, condition: Callable[[], Any], seconds: float = 300) -> Any:
        """Waits in virtual time; see `waiting.until`."""

        def check() -> None:
            for part in (*self.processes, *self.machines.values()):
                part.check()

        return await waiting.until(condition, seconds=seconds, every_s=0.1, check=check, state=self.summary)

    async def summary(self) -> str:
        pods = [
            (p.name, p.spec.node_name, p.status.phase, p.deleting) for p in (await self.api.list(Pod)).items
        ]
        return f"pods {pods}, array {self.array.attached}, {self.array.history}, events {await self.events()}"

    # --- what is

    async def all_ready(self, nodes: int) -> bool:
        found = (await self.api.list(Node)).items
        return len(found) == nodes and all(node.ready == "True" for node in found)

    async def pod(self, name: str = "app-0") -> Pod | None:
        return await self.api.find(Pod, name, "default")

    async def running(self, name: str = "app-0", *, on: str = "", other_than: str = "") -> str:
        """The node on which the pod runs and is ready, if that is the one asked for."""
        pod = await self.pod(name)
        if pod is None or pod.deleting or pod.status.phase != "Running":
            return ""
        if not any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions):
            return ""
        node = pod.spec.node_name
        return node if on in ("", node) and node != other_than else ""

    async def records(self) -> list[VolumeAttachment]:
        return (await self.api.list(VolumeAttachment)).items

    async def events(self) -> list[tuple[str, str, str]]:
        found = (await self.api.list(Event)).items
        return [(event.involved_object.kind, event.reason, event.message) for event in found]

    async def event(self, reason: str, words: str = "") -> bool:
        return any(each[1] == reason and words in each[2] for each in await self.events())

    async def settled(self, node: str) -> None:
        """One disk, one record, one node: for the API, the array, and the node's own mounts."""
        (disk,) = self.array.disks
        assert self.array.attached == {disk: node}
        assert self.array.mounted == {(disk, node)}
        (record,) = await self.records()
        assert (record.spec.node_name, record.status.attached, record.deleting) == (node, True, False)
        assert "mooring.dev/detaching" not in record.metadata.annotations
        for each in (await self.api.list(Node)).items:
            listed = [entry.name for entry in each.status.volumes_attached]
            assert listed == ([f"{DISK}/{disk}"] if each.name == node else []), each.name
        assert not self.array.harms
        assert not self.array.refused

    # --- what people do

    async def storage_class(self, name: str, provisioner: str = DISK, **more: Any) -> None:
        body = {"metadata": {"name": name}, "provisioner": provisioner, "reclaimPolicy": "Delete", **more}
        await self.api.create(StorageClass, body)

    async def claim(self, name: str, storage_class: str = "disk", **spec: Any) -> None:
        await self.api.create(
            PersistentVolumeClaim,
            {"metadata": {"name": name}, "spec": claim_spec(storage_class, **spec)},
            "default",
        )

    async def create_pod(self, name: str, claim: str, **spec: Any) -> None:
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
        await self.api.create(
            Pod, {"metadata": {"name": name}, "spec": {**pod_spec(), "volumes": [volume], **spec}}, "default"
        )

    async def stateful_set(self, replicas: int = 1, storage_class: str = "disk") -> None:
        template = {"metadata": {"labels": {"app": "app"}}, "spec": pod_spec()}
        claim = {"metadata": {"name": "data"}, "spec": claim_spec(storage_class)}
        spec = {
            "replicas": replicas,
            "serviceName": "app",
            "selector": {"matchLabels": {"app": "app"}},
            "template": template,
            "volumeClaimTemplates": [claim],
        }
        await self.api.create(StatefulSet, {"metadata": {"name": "app"}, "spec": spec}, "default")

    async def drain(self, node: str) -> None:
        await self.api.patch(Node, node, {"spec": {"unschedulable": True}})
        for pod in (await self.api.list(Pod, field_selector=f"spec.nodeName={node}")).items:
            await self.api.delete(Pod, pod.name, pod.namespace)

    async def uncordon(self, node: str) -> None:
        await self.api.patch(Node, node, {"spec": {"unschedulable": None}})

    async def out_of_service(self, node: str) -> None:
        found = await self.api.get(Node, node)
        others = [
            {"key": t.key, "effect": t.effect, "value": t.value} for t in found.spec.taints if t.key != TAINT
        ]
        taint = {"key": TAINT, "value": "nodeshutdown", "effect": "NoExecute"}
        await self.api.patch(Node, node, {"spec": {"taints": [*others, taint]}})


async def loses_power(cluster: InProcessCluster) -> str:
    """A pod runs; its node loses power, and its pod is evicted."""
    await cluster.start()
    await cluster.stateful_set()
    node = await cluster.until(cluster.running)
    await cluster.machines[node].power_off()

    async def evicted() -> bool:
        pod = await cluster.pod()
        return pod is not None and pod.deleting

    await cluster.until(evicted)
    return node


def claim_spec(storage_class: str, **spec: Any) -> dict[str, Any]:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
        **spec,
    }


def pod_spec() -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "app",
        "command": ["run"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    unready = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 5,
        }
        for key in ("unreachable", "not-ready")
    ]
    return {"containers": [container], "terminationGracePeriodSeconds": 5, "tolerations": unready}
