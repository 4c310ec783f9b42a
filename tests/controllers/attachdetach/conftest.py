"""Two leaders that do not know of each other, a node that obeys upstream's rules only, and a
server between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from random import Random
from typing import Any

import pytest
from virtual_server import not_stuck, started

from mooring.apiserver import Server
from mooring.controllers.attachdetach.handshake import Handshake
from mooring.controllers.attachdetach.state import Attachment, Policy, Terms
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import Node, ObjectMeta, PersistentVolume, VolumeAttachment
from mooring.kube.times import parse_time
from mooring.simulation.parts.faulty_transport import faulty_client
from mooring.volumes.names import CONTROLLER_MANAGED, RECONSTRUCTED, volume_attachment_name
from mooring.volumes.out_of_service import SEEN, TAINT, identity, taint_of
from mooring.volumes.spec import VolumeSpec

DISK = "example.com/disk"


class Leader:
    """A controller's handshake with caches of its own, which can be frozen."""

    def __init__(self, server: Server, now: Callable[[], datetime], seed: int) -> None:
        self.client, self.wire = faulty_client(server)
        random = Random(seed)
        self.records = Informer(
            self.client,
            VolumeAttachment,
            random=random,
            indexers={"node": lambda record: [record.spec.node_name]},
        )
        self.nodes = Informer(self.client, Node, random=random)
        self.handshake = Handshake(
            self.client, self.records, self.nodes, now=now, random=random, answers_for=lambda name: True
        )
        self.handshake.lists.versions_comparable = True
        self._tasks = [asyncio.create_task(each.run()) for each in (self.records, self.nodes)]

    async def synced(self) -> Leader:
        await self.records.synced()
        await self.nodes.synced()
        return self

    def freeze(self) -> None:
        """From now on its caches are stale."""
        for task in self._tasks:
            task.cancel()

    def terms(self, stage: TwoLeaders, **policy: Any) -> Terms:
        """The present terms of a release: a policy, and storage that revokes."""
        held = [Attachment.of(each) for each in self.records.items()]
        begun = {time for each in held for time in (each.force_since, each.absent_since) if time}
        ages = {time: (stage.now() - parse_time(time)).total_seconds() for time in begun}
        return Terms(Policy(**{"force_detach_after": 0.0, **policy}), stage.now(), True, ages)

    def record(self, disk: str = "d1", node: str = "n0") -> VolumeAttachment:
        found = self.records.get(volume_attachment_name(DISK, disk, node))
        assert found is not None
        return found


class UpstreamKubelet:
    """A node whose agent reads its Node only, never the VolumeAttachment, as upstream's kubelet does."""

    def __init__(self, api: Client, name: str) -> None:
        self.api, self.name = api, name
        self.mounted: set[str] = set()

    async def register(self, *, in_use: tuple[str, ...] = (), reconstructed: bool = True) -> Node:
        annotations = {CONTROLLER_MANAGED: "true"} | ({RECONSTRUCTED: "boot"} if reconstructed else {})
        status = {"conditions": [{"type": "Ready", "status": "True"}], "volumesInUse": list(in_use)}
        status["volumesAttached"] = []
        return await self.api.create(
            Node, {"metadata": {"name": self.name, "annotations": annotations}, "status": status}
        )

    async def report(self, *, ready: str = "True", in_use: tuple[str, ...] | None = None) -> None:
        """A status write of the agent; spends the out-of-service taint that it sees."""
        node = await self.api.get(Node, self.name)
        taint = taint_of(node)
        status: dict[str, Any] = {"conditions": [{"type": "Ready", "status": ready}]}
        if in_use is not None:
            status["volumesInUse"] = list(in_use)
        seen = {SEEN: identity(taint) if taint else None}
        await self.api.patch(
            Node, self.name, {"metadata": {"annotations": seen}, "status": status}, subresource="status"
        )

    async def falls_silent(self) -> None:
        """What the node life-cycle controller writes about it."""
        status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
        await self.api.patch(Node, self.name, {"status": status}, subresource="status")

    async def taint(self, added: str) -> None:
        taint = {"key": TAINT, "value": "nodeshutdown", "effect": "NoExecute", "timeAdded": added}
        await self.api.patch(Node, self.name, {"spec": {"taints": [taint]}})

    async def listed(self) -> set[str]:
        node = await self.api.get(Node, self.name)
        return {entry.name for entry in node.status.volumes_attached}

    async def mount(self, disk: str = "d1") -> bool:
        """Publishes, looks, mounts if what it sees permits that."""
        volume = f"{DISK}/{disk}"
        await self.report(in_use=tuple({*self.mounted, volume}))
        if volume not in await self.listed():
            return False
        self.mounted.add(volume)
        return True


class TwoLeaders:
    """`a` and `b` are leaders; `api` is the client of every other part."""

    def __init__(self, server: Server, now: Callable[[], datetime]) -> None:
        self.server, self.now = server, now
        self.api, _ = faulty_client(server)
        self.n0, self.n1 = UpstreamKubelet(self.api, "n0"), UpstreamKubelet(self.api, "n1")
        self._seed = 0

    async def leader(self) -> Leader:
        self._seed += 1
        return await Leader(self.server, self.now, self._seed).synced()

    async def attached(self, leader: Leader, disk: str = "d1", node: str = "n0") -> VolumeAttachment:
        """Creates a VolumeAttachment as the leader, carries it out as the attacher, and puts
        it into all caches."""
        spec = VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name=f"pv-{disk}")))
        holder = await self.api.get(Node, node)
        record = await leader.handshake.attach(f"{DISK}/{disk}", holder, spec, locked=False, pod="")
        done = await self.fulfilled(record, disk)
        await asyncio.sleep(0.1)
        return done

    async def fulfilled(self, record: VolumeAttachment, disk: str = "d1") -> VolumeAttachment:
        """As the attacher writes it."""
        status = {"attached": True, "attachmentMetadata": {"devicePath": f"/dev/{disk}"}}
        return await self.api.patch(VolumeAttachment, record.name, {"status": status}, subresource="status")

    async def persistent_volume(self, disk: str = "d1") -> None:
        """Creates the PersistentVolume of the disk, if it does not exist yet."""
        source = {"flexVolume": {"driver": DISK, "options": {"disk": disk}}}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
        if await self.api.find(PersistentVolume, f"pv-{disk}") is None:
            await self.api.create(PersistentVolume, {"metadata": {"name": f"pv-{disk}"}, "spec": spec})

    async def find(self, disk: str = "d1", node: str = "n0") -> VolumeAttachment | None:
        return await self.api.find(VolumeAttachment, volume_attachment_name(DISK, disk, node))

    async def harm(self, disk: str = "d1") -> bool:
        """Whether there is a mount without a VolumeAttachment: the next node may write, too."""
        return f"{DISK}/{disk}" in self.n0.mounted and await self.find(disk) is None


@pytest.fixture
def play(
    run: Callable[[Any], Any], now: Callable[[], datetime]
) -> Callable[[Callable[..., Coroutine[Any, Any, Any]]], Any]:
    """Plays a schedule on a fresh server with a node n0 and two leaders."""

    def play_schedule(schedule: Callable[..., Coroutine[Any, Any, Any]]) -> Any:
        async def on_server() -> Any:
            stage = TwoLeaders(await started(now), now)
            await stage.n0.register()
            return await schedule(stage, await stage.leader(), await stage.leader())

        return run(not_stuck(on_server()))

    return play_schedule
