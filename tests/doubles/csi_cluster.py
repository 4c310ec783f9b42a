"""The attach/detach controller on an API server in this loop, with CSI volumes: kubelets and the driver's
attacher are played. A kubelet here obeys upstream's rules only, and tells what it does in `volumesInUse`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from random import Random
from typing import Any

import waiting
from virtual_server import not_stuck

from mooring.apiserver import Server
from mooring.controllers.attachdetach.controller import AttachDetachController, AttachDetachOptions
from mooring.kube.client import Client
from mooring.kube.errors import NotFound
from mooring.kube.informer import Informer
from mooring.kube.objects import (
    CSIDriver,
    Event,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeAttachment,
)
from mooring.simulation.parts.faulty_transport import FaultyTransport, faulty_client, role
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import CSI_PLUGIN, volume_attachment_name
from mooring.volumes.plugin_manager import PluginManager

DRIVER = "csi.example.com"
FINALIZER = "external-attacher/csi-example-com"


def unique_name(disk: str) -> str:
    return f"{CSI_PLUGIN}/{DRIVER}^{disk}"


def record_name(disk: str, node: str) -> str:
    return volume_attachment_name(CSI_PLUGIN, f"{DRIVER}^{disk}", node)


class CsiCluster:
    """`api` is the administrator's client. A volume, its claim and its disk have one name."""

    def __init__(self, now: Callable[[], datetime], api: Client | None = None) -> None:
        """On a server of its own in this loop, or on the one that `api` speaks to."""
        self.now = now
        self.server = Server.in_memory(now=now, random=Random(1))
        self._own_server = api is None
        self.api = api or faulty_client(self.server)[0]
        self.attached: set[tuple[str, str]] = set()  # disk, node: the truth at the storage
        self.both: list[tuple[str, str]] = []  # what was attached while another node had it
        self.detach_fails = False
        self._tasks: list[asyncio.Task[Any]] = []
        self._seed = 0

    async def start(self, nodes: Iterable[str] = ("n0", "n1"), **driver: Any) -> None:
        if self._own_server:
            await self.server.start()
        annotations = driver.pop("annotations", {})
        await self.api.create(
            CSIDriver, {"metadata": {"name": DRIVER, "annotations": annotations}, "spec": driver}
        )
        for name in nodes:
            await self.node(name)
        self.attacher = self.spawn(self._play_attacher())

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        self._tasks.append(asyncio.create_task(work))
        return self._tasks[-1]

    def controller(
        self, options: AttachDetachOptions | None = None
    ) -> tuple[AttachDetachController, FaultyTransport]:
        """One that runs, on a wire of its own."""
        self._seed += 1
        wire = FaultyTransport(role(self.server, "attach-detach"))
        controller = AttachDetachController(
            Client(wire),
            PluginManager([], ControllerVolumeHost(self.now)),
            now=self.now,
            random=Random(self._seed),
            options=options or AttachDetachOptions(),
        )
        controller.task = self.spawn(controller.run())  # type: ignore[attr-defined]
        return controller, wire

    async def stop(self) -> None:
        """Ends everything that it has started."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until(self, condition: Callable[[], Any], seconds: float = 120) -> Any:
        """Waits in virtual time; see `waiting.until`."""

        def check() -> None:
            for task in self._tasks:
                if task.done() and not task.cancelled():
                    task.result()

        return await waiting.until(condition, seconds=seconds, check=check, state=self.records)

    # --- objects

    async def node(self, name: str, **annotations: str) -> Node:
        managed = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
        status = {
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2030-01-01T00:00:00Z"}]
        }
        status["nodeInfo"] = {"bootID": "b1"}  # type: ignore[assignment]
        return await self.api.create(
            Node, {"metadata": {"name": name, "annotations": managed | annotations}, "status": status}
        )

    async def volume(
        self, name: str, modes: Iterable[str] = ("ReadWriteOnce",), *, namespace: str = "default"
    ) -> None:
        """A PersistentVolume bound to its claim."""
        modes = list(modes)
        resources = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": modes, "resources": resources, "volumeName": name, "storageClassName": ""}
        claim = await self.api.create(
            PersistentVolumeClaim, {"metadata": {"name": name}, "spec": spec}, namespace
        )
        status = {"status": {"phase": "Bound"}}
        await self.api.patch(PersistentVolumeClaim, name, status, namespace, subresource="status")
        reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": claim.uid}
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": modes, "claimRef": reference, **source}
        await self.api.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})

    async def pod(self, name: str, volume: str, node: str, *, namespace: str = "default", **spec: Any) -> Pod:
        source = {"name": "data", "persistentVolumeClaim": {"claimName": volume}}
        container = {"name": "main", "image": "app"}
        spec = {"nodeName": node, "containers": [container], "volumes": [source], **spec}
        return await self.api.create(Pod, {"metadata": {"name": name}, "spec": spec}, namespace)

    async def end_pod(self, name: str, namespace: str = "default") -> None:
        await self.api.delete(Pod, name, namespace, grace_period_seconds=0)

    async def upstreams_record(self, volume: str, node: str, *, name: str = "") -> VolumeAttachment:
        """As kube-controller-manager makes it: without a word about the volume but its PersistentVolume."""
        spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}}
        body = {"metadata": {"name": name or record_name(volume, node)}, "spec": spec}
        return await self.api.create(VolumeAttachment, body)

    # --- what nodes say

    async def say(self, node: str, **status: Any) -> None:
        await self.api.patch(Node, node, {"status": status}, subresource="status")

    async def in_use(self, node: str, *disks: str) -> None:
        await self.say(node, volumesInUse=[unique_name(disk) for disk in disks])

    async def ready(self, node: str, status: str, heartbeat: str = "2030-01-01T00:00:00Z") -> None:
        await self.say(node, conditions=[{"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}])

    async def listed(self, node: str) -> list[str]:
        found = await self.api.get(Node, node)
        return [entry.name.rpartition("^")[2] for entry in found.status.volumes_attached]

    # --- what is

    async def records(self) -> list[VolumeAttachment]:
        return (await self.api.list(VolumeAttachment)).items

    async def on(self, disk: str) -> list[str]:
        """The nodes for which the disk has VolumeAttachments."""
        found = await self.records()
        return sorted(
            each.spec.node_name for each in found if each.name == record_name(disk, each.spec.node_name)
        )

    async def events(self, reason: str, about: str = "") -> list[str]:
        found = (await self.api.list(Event)).items
        return [e.message for e in found if e.reason == reason and about in ("", e.involved_object.name)]

    # --- the driver's attacher

    async def _play_attacher(self) -> None:
        records, changed = Informer(self.api, VolumeAttachment, random=Random(0)), asyncio.Event()
        records.add_handler(lambda old, new: changed.set())
        self.spawn(records.run())
        while True:
            await changed.wait()
            changed.clear()
            for record in await self.records():
                try:
                    await self._fulfil(record)
                except NotFound:
                    continue

    async def _fulfil(self, record: VolumeAttachment) -> None:
        persistent_volume = record.spec.source.persistent_volume_name or ""
        place = (persistent_volume, record.spec.node_name)
        if record.deleting:
            if self.detach_fails:
                error = {"status": {"detachError": {"message": "the array is on fire"}}}
                if record.status.detach_error is None:
                    await self.api.patch(VolumeAttachment, record.name, error, subresource="status")
                return
            self.attached.discard(place)
            await self.api.patch(VolumeAttachment, record.name, {"metadata": {"finalizers": None}})
        elif not record.status.attached:
            if FINALIZER not in record.metadata.finalizers:
                await self.api.patch(VolumeAttachment, record.name, {"metadata": {"finalizers": [FINALIZER]}})
            if any(disk == persistent_volume and node != place[1] for disk, node in self.attached):
                self.both.append(place)
            self.attached.add(place)
            await self.api.patch(
                VolumeAttachment, record.name, {"status": {"attached": True}}, subresource="status"
            )


def player(run: Callable[[Any], Any], now: Callable[[], Any]) -> Callable[..., Any]:
    """Plays a story in a cluster of its own."""

    def play_story(story: Callable[[CsiCluster], Any], **start: Any) -> Any:
        async def in_cluster() -> Any:
            cluster = CsiCluster(now)
            await cluster.start(**start)
            return await story(cluster)

        return run(not_stuck(in_cluster()))

    return play_story
