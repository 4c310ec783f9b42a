"""Where golden traces are played: steps in words, what each side asks of the API server, and what is true
then."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from tests.conftest import virtual_now
from tests.controllers.attachdetach.conftest import DISK, Leader, TwoLeaders, UpstreamKubelet
from tests.golden.recorder import Recorder

from mooring.apiserver import Server
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.simulation.parts.faulty_transport import faulty_client
from mooring.volumes.attachment_lock import lock_of
from mooring.volumes.names import DETACHING, volume_attachment_name

VOLUMES = ("d1", "d2")


class Scene(ABC):
    """What all scenes have."""

    recorder: Recorder

    @abstractmethod
    async def begin(self) -> None:
        """Starts what has to be there before the first step."""

    @abstractmethod
    async def truths(self) -> AsyncIterator[str]:
        """What is true now, line by line."""
        yield ""

    def end(self) -> None:
        """Removes what it has on disk."""
        return

    async def step(self, text: str) -> None:
        """Says what is true after the step before, and what happens next."""
        await asyncio.sleep(0.1)  # caches that are not frozen learn of it
        if self.recorder.lines:
            await self.say_what_is_true()
        self.recorder.lines += ["", text]

    async def say_what_is_true(self) -> None:
        async for truth in self.truths():
            self.recorder.note("=", truth)

    def say(self, text: str) -> None:
        self.recorder.note("*", text)


class InstancesScene(TwoLeaders, Scene):
    """Two instances A and B of the attach/detach controller, and two nodes that obey upstream's kubelet's
    rules only: they look at their Node, never at the VolumeAttachment. So what protects the volume is the
    controller's side alone.

    `revokes`: a node that the storage has detached cannot write, whatever it has mounted.
    """

    a: Leader
    b: Leader
    trusts_deletion = False

    def __init__(self) -> None:
        super().__init__(Server.in_memory(now=virtual_now, random=Random(1)), virtual_now)
        self.recorder = Recorder()
        self.revokes = False
        self.n0, self.n1 = self._machine("n0"), self._machine("n1")
        self.n0_seen = UpstreamKubelet(self.api, "n0")  # as others write to its Node
        self.others = self.recorder.sender(self.api.transport, "attacher", reads=False)
        self.look, _ = faulty_client(self.server)  # is not recorded
        self.volumes: tuple[str, ...] = ("d1",)
        self.nodes: tuple[str, ...] = ("n0",)

    async def begin(self) -> None:
        await self.server.start()
        self.recorder.know("nodes", await self.n0.register())
        self.a, self.b = await self.leader(), await self.leader()
        self.recorder.sender(self.a.wire, "A")
        self.recorder.sender(self.b.wire, "B")

    def _machine(self, name: str) -> UpstreamKubelet:
        client, transport = faulty_client(self.server)
        self.recorder.sender(transport, name)
        return UpstreamKubelet(client, name)

    def who(self, name: str) -> None:
        """Who acts through `api` from now on."""
        self.others.who = name

    async def step(self, text: str) -> None:
        await super().step(text)
        self.who("attacher")

    async def truths(self) -> AsyncIterator[str]:
        for volume in self.volumes:
            for node in self.nodes:
                yield f"{volume} on {node}: {await self._truth(volume, node)}"
        if lock := await self._lock():
            yield lock

    async def _truth(self, disk: str, name: str) -> str:
        machine, volume = getattr(self, name), f"{DISK}/{disk}"
        record = await self.look.find(VolumeAttachment, volume_attachment_name(DISK, disk, name))
        node = await self.look.find(Node, name)
        truths = [self._state(record)]
        if node is not None:
            truths += (
                ["reported"] if any(each.name == volume for each in node.status.volumes_attached) else []
            )
            truths += ["in use"] if volume in node.status.volumes_in_use else []
        truths += ["mounted"] if volume in machine.mounted else []
        if volume in machine.mounted and record is None:
            truths.append("cut off" if self.revokes else "HARM: another node may get it, and this one writes")
        return ", ".join(truths)

    async def _lock(self) -> str:
        volume = await self.look.find(PersistentVolume, "pv-d1")
        lock = lock_of(volume) if volume is not None else None
        if lock is None or not lock.epoch:
            return ""
        closed = f", closed for {', '.join(sorted(lock.closed))}" if lock.closed else ""
        return f"lock of d1: epoch {lock.epoch}, granted to {lock.node or 'no node'}{closed}"

    @staticmethod
    def _state(record: VolumeAttachment | None) -> str:
        if record is None:
            return "no VolumeAttachment"
        if record.deleting:
            return "VolumeAttachment is being deleted"
        marked = ", marked" if DETACHING in record.metadata.annotations else ""
        return f"VolumeAttachment {'attached' if record.status.attached else 'not attached yet'}{marked}"

    # --- what happens in many schedules

    async def report(self, leader: Any, disk: str = "d1", **options: Any) -> bool:
        """The instance reports the volume; whether it has."""
        done = await leader.handshake.report(leader.record(disk), **{"locked": False} | options)
        if not done:
            self.say("the volume may not be reported")
        return done

    async def detach(self, leader: Any, *terms: Any, disk: str = "d1", node: str = "n0") -> None:
        """The instance walks through a detach, and says how it was judged."""
        found = await leader.handshake.detach(leader.record(disk, node), *terms)
        verdict = found.verdict
        forced = "by force" if verdict.forced else "released" if verdict.allowed else "kept"
        self.say(f"judged on the un-report's answer: {forced} ({verdict.reason.code})")

    async def mounts(self, name: str = "n0", disk: str = "d1") -> None:
        """A pod is there: the node publishes, looks, and mounts if its Node lists the volume."""
        done = await getattr(self, name).mount(disk)
        self.say(f"{name} {'mounts' if done else 'does not mount: the volume is not reported'}")
