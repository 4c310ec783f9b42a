"""The handshake under faults: a correct controller and our agent, requests lost, late and slow, agents
killed.

What is checked is the truth, not what the API says: no disk is detached while it is mounted, none is mounted
while it is not attached, and when the faults end, the pods that exist run and nothing else is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from random import Random
from typing import Any

import pytest

from mooring.kube.errors import ApiError, Conflict, NotFound, Unreachable
from mooring.kube.objects import Node, Pod, VolumeAttachment
from mooring.kube.transport import InProcess, Request
from mooring.volumes.names import INLINE_VOLUME, volume_attachment_name

NODE = "node-1"
DISK = "example.com/disk"
VOLUME = f"{DISK}/d1"
ATTACHMENT = volume_attachment_name(DISK, "d1", NODE)
Play = Callable[[Any], None]


class Faults:
    """Loses, delays and repeats the agent's requests."""

    def __init__(self, stage: Any, random: Random) -> None:
        self._world = stage
        self._random = random
        self._late: set[asyncio.Task[Any]] = set()
        self.on = True

    async def __call__(self, request: Request) -> None:
        chance = self._random.random() if self.on else 1.0
        if chance < 0.05:
            raise Unreachable("lost on its way")
        if chance < 0.15 and request.method != "GET":
            self._late.add(asyncio.create_task(self._deliver(request)))
            raise Unreachable("its answer was lost, or it arrives later")
        if chance < 0.4:
            await asyncio.sleep(self._random.random() * 3)

    async def slow(self, stream: Any) -> AsyncGenerator[bytes, None]:
        """A watch that lags."""
        try:
            async for piece in stream:
                if self.on and self._random.random() < 0.3:
                    await asyncio.sleep(self._random.random() * 6)
                yield piece
        finally:
            await stream.aclose()

    async def _deliver(self, request: Request) -> None:
        await asyncio.sleep(self._random.random() * 20 if self._random.random() < 0.7 else 0)
        await InProcess(self._world.server.call, self._world.server.tokens.node(NODE)).send(request)


class ObedientController:
    """Attaches what a pod wants and detaches what none wants, by the book; the storage does as it says at
    once.

    With `late_reports` what it puts into volumesAttached may arrive much later and without a resourceVersion,
    as an old leader's request would: it keeps R1 and R2 only. A node that reads the VolumeAttachment live
    (R5) is safe even then (docs/protocol.md).
    """

    def __init__(self, stage: Any, random: Random, *, late_reports: bool) -> None:
        self._world = stage
        self._random = random
        self._late_reports = late_reports
        self._late: set[asyncio.Task[None]] = set()
        self.attached = False
        self.detaches = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._random.random() * 2)
            try:
                await (self._attach() if await self._wanted() else self._detach())
            except (Conflict, NotFound):
                continue  # begin again

    async def _wanted(self) -> bool:
        return bool((await self._world.api.list(Pod, "default")).items)

    async def _attach(self) -> None:
        record = await self._world.api.find(VolumeAttachment, ATTACHMENT)
        if record is None:
            spec = {
                "attacher": "plugins.mooring.dev",
                "nodeName": NODE,
                "source": {"persistentVolumeName": "x"},
            }
            inline = {"name": ATTACHMENT, "annotations": {INLINE_VOLUME: "{}"}}
            await self._world.api.create(VolumeAttachment, {"metadata": inline, "spec": spec})
            return
        if "mooring.dev/detaching" in record.metadata.annotations:
            await self._mark(record, None)
            return
        if not record.status.attached:
            self.attached = True
            await self._world.api.patch(
                VolumeAttachment, ATTACHMENT, {"status": {"attached": True}}, subresource="status"
            )
        node = await self._world.api.get(Node, NODE)
        live = await self._world.api.get(VolumeAttachment, ATTACHMENT)
        if live.status.attached and "mooring.dev/detaching" not in live.metadata.annotations:
            if self._late_reports:
                self._late.add(asyncio.create_task(self._report_late()))
            else:
                await self._list(node, [{"name": VOLUME, "devicePath": "/dev/d1"}])

    async def _report_late(self) -> None:
        await asyncio.sleep(self._random.random() * 10)
        listed = [{"name": VOLUME, "devicePath": "/dev/d1"}]
        await self._world.api.patch(Node, NODE, {"status": {"volumesAttached": listed}}, subresource="status")

    async def _detach(self) -> None:
        record = await self._world.api.find(VolumeAttachment, ATTACHMENT)
        if record is None:
            return
        token = str(self._random.random())
        marked = await self._mark(record, token)
        await asyncio.sleep(self._random.random())
        node = await self._world.api.get(Node, NODE)
        answer = await self._list(node, [], {"mooring.dev/volumes-attached-write": token})
        await asyncio.sleep(self._random.random())
        if VOLUME in answer.status.volumes_in_use:
            await self._mark(marked, None)
            return
        await self._world.api.delete(
            VolumeAttachment, ATTACHMENT, uid=marked.uid, resource_version=marked.metadata.resource_version
        )
        assert not self._world.machine.mounts, "the disk is detached under a mount"
        self.attached = False
        self.detaches += 1

    async def _mark(self, record: Any, token: str | None) -> Any:
        return await self._world.api.patch(
            VolumeAttachment,
            ATTACHMENT,
            {"metadata": {"annotations": {"mooring.dev/detaching": token}}},
            uid=record.uid,
            resource_version=record.metadata.resource_version,
        )

    async def _list(self, node: Any, volumes: Any, annotations: Any = None) -> Any:
        return await self._world.api.patch(
            Node,
            NODE,
            {"metadata": {"annotations": annotations or {}}, "status": {"volumesAttached": volumes}},
            subresource="status",
            uid=node.uid,
            resource_version=node.metadata.resource_version,
        )


def watch_truth(stage: Any, controller: ObedientController) -> list[str]:
    """Every mount is checked at the moment at which it is made; returns the violations, as they come."""
    act = stage.machine.act
    violations: list[str] = []

    def checked(what: str, pod_uid: str = "") -> None:
        if what.startswith(("mount-device", "set-up")) and not controller.attached:
            violations.append(f"{what} while the disk is not attached")
        if what.startswith("set-up") and not any("mounts/d1" in point for point in stage.machine.mounts):
            violations.append("set up without the device")
        act(what, pod_uid)

    stage.machine.act = checked
    return violations


async def disturb(stage: Any, random: Random) -> None:
    """One thing that users or accidents do."""
    name = f"web-{random.randrange(2)}"
    chance = random.random()
    try:
        if chance < 0.35:
            await stage.create_disk_pod(name)
        elif chance < 0.6:
            await stage.api.delete(Pod, name, "default", grace_period_seconds=random.randrange(5))
        elif chance < 0.7:
            await stage.kill()
            await asyncio.sleep(random.random() * 10)
            await stage.start()
        elif chance < 0.75 and stage.machine.sandboxes:
            await restart_machine(stage)
    except ApiError:
        pass  # it is there already, or was not


async def restart_machine(stage: Any) -> None:
    """Power off and on: processes and mounts are gone, directories stay."""
    await stage.kill()
    for uid in list(stage.machine.sandboxes):
        stage.machine.sandboxes[uid] = stage.machine.ended(uid)
    stage.machine.mounts.clear()
    await stage.start(boot_id=f"boot-{len(stage.requests)}")


@pytest.mark.parametrize("late_reports", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_truth_holds_under_faults(play: Play, seed: int, late_reports: bool) -> None:
    async def story(stage: Any) -> None:
        random = Random(seed)
        faults = Faults(stage, random)
        stage.gate, stage.slow = faults, faults.slow
        controller = ObedientController(stage, random, late_reports=late_reports)
        violations = watch_truth(stage, controller)
        await stage.start()
        running = asyncio.create_task(controller.run())
        for _ in range(40):
            await disturb(stage, random)
            await asyncio.sleep(random.random() * 8)
            assert not running.done(), running.result()
            assert violations == []
        faults.on = False
        await stage.until(lambda: at_rest(stage))
        for pod in (await stage.api.list(Pod, "default")).items:
            await stage.api.delete(Pod, pod.name, "default", grace_period_seconds=0)
        await stage.until(lambda: empty(stage))
        assert not running.done(), running.result()
        assert controller.detaches
        assert violations == []
        running.cancel()

    async def at_rest(stage: Any) -> bool:
        pods = (await stage.api.list(Pod, "default")).items
        return all(pod.status.phase == "Running" and not pod.deleting for pod in pods)

    async def empty(stage: Any) -> bool:
        gone = await stage.api.find(VolumeAttachment, ATTACHMENT) is None
        return gone and not stage.machine.mounts and not list((stage.root / "pods").glob("*"))

    play(story)
