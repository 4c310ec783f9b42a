"""The rest of a cluster, played without any delay: kubelets and an external attacher that need no time.

Knows no controller: what it notes is when the API server told that a VolumeAttachment came or went, and that
a node's status named a volume. Volumes are PersistentVolumes of a CSI driver, bound to claims from the start.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from mooring.kube.client import Client
from mooring.kube.errors import NotFound, Unreachable
from mooring.kube.objects import (
    CSIDriver,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeAttachment,
)
from mooring.volumes.names import (
    CONTROLLER_MANAGED,
    CSI_PLUGIN,
    csi_volume_name,
    split_csi_volume_name,
    split_volume_name,
)

DRIVER = "bench.csi.example"
IN_FLIGHT = 48


async def each(work: Callable[[int], Awaitable[Any]], numbers: Iterable[int]) -> None:
    """Does `work` for every number, many at a time."""
    queue = iter(numbers)

    async def worker() -> None:
        for number in queue:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())


class PlayedCluster:
    """`nodes` nodes; volume N is for node N modulo that. Moments are seconds of `time.perf_counter`."""

    def __init__(self, client: Client, nodes: int) -> None:
        self._client = client
        self._nodes = nodes
        self.attached: dict[int, float] = {}
        """When the VolumeAttachment of a volume came."""
        self.reported: dict[int, float] = {}
        """When its node's status named it."""
        self.gone: dict[int, float] = {}
        """When the VolumeAttachment went."""
        self.node_writes = 0
        self._listed: dict[str, set[int]] = defaultdict(set)  # what each node's status names
        self._in_use: dict[str, set[str]] = defaultdict(set)
        self._said: dict[str, set[str]] = {}
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._busy = asyncio.Semaphore(IN_FLIGHT)
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- what is there from the start

    async def prepare(self, volumes: int) -> None:
        """Nodes, and volumes bound to claims."""
        body = {"metadata": {"name": DRIVER}, "spec": {"attachRequired": True, "podInfoOnMount": False}}
        await self._client.create(CSIDriver, body)
        await each(self._prepare_node, range(self._nodes))
        await each(self._prepare_volume, range(volumes))

    async def _prepare_node(self, number: int) -> None:
        name = _node(number)
        metadata = {"name": name, "annotations": {CONTROLLER_MANAGED: "true"}}
        await self._client.create(Node, {"metadata": metadata})
        await self._client.patch(
            Node,
            name,
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            subresource="status",
        )

    async def _prepare_volume(self, number: int) -> None:
        name = _volume(number)
        shape = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        claim = {**shape, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        created = await self._client.create(
            PersistentVolumeClaim, {"metadata": {"name": name}, "spec": claim}, "default"
        )
        reference = {
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": name,
            "uid": created.uid,
        }
        source = {"driver": DRIVER, "volumeHandle": name}
        spec = {**shape, "capacity": {"storage": "1Gi"}, "csi": source, "claimRef": reference}
        await self._client.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
        bound = {"status": {"phase": "Bound"}}
        await self._client.patch(PersistentVolume, name, bound, subresource="status")
        await self._client.patch(PersistentVolumeClaim, name, bound, "default", subresource="status")

    # --- what users do

    async def create_pod(self, number: int) -> float:
        """A pod that is bound to its node at once, whose kubelet wants its volume from then on, and says so.
        When the API server had it."""
        name = _volume(number)
        container = {
            "name": "main",
            "image": "none",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        spec = {"nodeName": _node(number % self._nodes), "containers": [container], "volumes": [volume]}
        await self._client.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")
        created = time.perf_counter()
        self._do(self._use(_node(number % self._nodes), number, in_use=True))
        return created

    async def delete_pod(self, number: int) -> float:
        """Its kubelet has unmounted by then. When the API server had let it go."""
        await self._use(_node(number % self._nodes), number, in_use=False)
        await self._client.delete(Pod, _volume(number), "default", grace_period_seconds=0)
        return time.perf_counter()

    # --- what the rest of the cluster does

    async def run(self) -> None:
        """Plays until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(VolumeAttachment, self._attachment_changed))
            group.create_task(self._follow(Node, self._node_changed))

    async def until(self, what: str, holds: Callable[[], bool], patience: float = 900.0) -> None:
        """Waits for what is noted; TimeoutError naming `what` after `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"after {patience:g} s still not so: {what}") from None

    async def _follow(self, kind: type[Object], changed: Callable[[str, Any], None]) -> None:
        listed = await self._client.list(kind)
        for item in listed.items:
            changed("ADDED", item)
        version = listed.resource_version
        while True:
            async for event in self._client.watch(kind, resource_version=version):
                version = event.resource_version
                if event.object is not None:
                    changed(event.type, event.object)
                    self._changed.set()

    def _attachment_changed(self, event: str, record: VolumeAttachment) -> None:
        number = int((record.spec.source.persistent_volume_name or "").removeprefix("volume-"))
        if event == "DELETED":
            self.gone[number] = time.perf_counter()
            self.attached.pop(number, None)
        elif number not in self.attached:
            self.attached[number] = time.perf_counter()
            self._do(self._attach(record))

    def _node_changed(self, event: str, node: Node) -> None:
        self.node_writes += 1
        now = time.perf_counter()
        before, listed = (
            self._listed[node.name],
            {_number(entry.name) for entry in node.status.volumes_attached},
        )
        self._listed[node.name] = listed
        self.reported |= dict.fromkeys(listed - before, now)
        for number in before - listed:
            del self.reported[number]

    async def _attach(self, record: VolumeAttachment) -> None:
        async with self._busy:
            with suppress(NotFound):
                await self._told(VolumeAttachment, record.name, {"attached": True})

    async def _use(self, node: str, number: int, *, in_use: bool) -> None:
        name = f"{CSI_PLUGIN}/{csi_volume_name(DRIVER, _volume(number))}"
        held = self._in_use[node]
        (held.add if in_use else held.discard)(name)
        async with self._locks[node]:
            if self._said.get(node) != held:  # else what came meanwhile has been said together
                self._said[node] = set(held)
                await self._told(Node, node, {"volumesInUse": sorted(held)})

    async def _told(self, kind: type[Object], name: str, status: dict[str, Any]) -> None:
        """Says so until the API server has heard it, as real ones would: a machine may stand still for a
        while."""
        while True:
            try:
                await self._client.patch(kind, name, {"status": status}, subresource="status")
            except Unreachable as error:
                print(f"again: {error}", file=sys.stderr, flush=True)
            else:
                return

    def _do(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        task.result()


def _node(number: int) -> str:
    return f"node-{number:04}"


def _volume(number: int) -> str:
    return f"volume-{number:06}"


def _number(unique_name: str) -> int:
    handle = split_csi_volume_name(split_volume_name(unique_name)[1])[1]
    return int(handle.removeprefix("volume-"))
