"""Each CSI role is killed at each of its requests to the API server and at each call of the
driver, before and after its effect.

Its successor finishes the work: nothing is made twice, nothing leaks, no record is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from controller_stage import DriverStage, Play
from played_driver import NAME, Storage

from mooring.apiserver import Server
from mooring.controllers.attacher.controller import AttacherController
from mooring.controllers.expansion.controller import ExpansionController
from mooring.controllers.modification.controller import ModificationController
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.kube.client import Client
from mooring.kube.objects import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumeAttributesClass,
)
from mooring.simulation.parts.faulty_transport import FaultyTransport, role
from mooring.volumes.names import CSI_PLUGIN, volume_attachment_name

ROLES = {
    AttacherController: "attacher",
    ProvisioningController: "provisioner",
    ExpansionController: "resizer",
    ModificationController: "resizer",
}
"""The rights with which each role works here: those that `deploy/` grants."""
RECORD = volume_attachment_name(CSI_PLUGIN, f"{NAME}^v", "n")


class Mortal(Storage):
    """A storage whose caller may die at its n-th call, before it or after its effect."""

    def __init__(self) -> None:
        super().__init__()
        self.die_at: int | None = None
        self.after = False
        self.died = asyncio.Event()

    async def play(self, name: str, request: Any, act: Callable[[], Any]) -> Any:
        if self.died.is_set():
            await asyncio.Event().wait()
        if self.die_at is not None:
            self.die_at -= 1
            if self.die_at < 0:
                self.die_at = None
                if self.after:
                    await super().play(name, request, act)
                self.died.set()
                await asyncio.Event().wait()
        return await super().play(name, request, act)


class MortalRole(DriverStage):
    """A role with its own rights that is started again and again."""

    storage: Mortal

    def __init__(self, server: Server, now: Callable[[], datetime], kind: type[Any]) -> None:
        super().__init__(server, now, Mortal())
        self.kind = kind

    def start(self) -> tuple[asyncio.Task[None], FaultyTransport]:
        wire = FaultyTransport(role(self.server, ROLES[self.kind]))
        client = Client(wire)
        return asyncio.create_task(self.make(self.kind, client, plugins=self.driver(client)).run()), wire

    async def volume(self, claim_uid: str = "") -> None:
        spec: dict[str, Any] = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        spec |= {"csi": {"driver": NAME, "volumeHandle": "v"}, "storageClassName": "k"}
        if claim_uid:
            spec["claimRef"] = {"namespace": "default", "name": "c", "uid": claim_uid}
        await self.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": spec})

    async def bound(self, size: str = "1Gi", **fields: Any) -> None:
        """A claim that is bound to the volume, and asks for that size."""
        body = {"metadata": {"name": "k"}, "provisioner": NAME, "allowVolumeExpansion": True}
        await self.api.create(StorageClass, body)
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "k", "volumeName": "pv", **fields}
        requests = {"resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "c"}, "spec": {**spec, **requests}}
        made = await self.api.create(PersistentVolumeClaim, claim, "default")
        status = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
        await self.api.patch(PersistentVolumeClaim, "c", status, "default", subresource="status")
        await self.volume(made.uid)
        patch = {"spec": {"resources": {"requests": {"storage": size}}}}
        await self.api.patch(PersistentVolumeClaim, "c", patch, "default")


@dataclass(frozen=True)
class RoleWork:
    """What is requested (`begin`), when that is done, and what must be true then."""

    kind: type[Any]
    begin: Callable[[MortalRole], Awaitable[None]]
    done: Callable[[MortalRole], Awaitable[bool]]
    true: Callable[[MortalRole], Awaitable[None]]
    requests: int
    calls: int


async def attach(stage: MortalRole) -> None:
    drivers = [{"name": NAME, "nodeID": "i-1", "topologyKeys": None}]
    await stage.api.create(CSINode, {"metadata": {"name": "n"}, "spec": {"drivers": drivers}})
    await stage.volume()
    spec = {"attacher": NAME, "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    await stage.api.create(VolumeAttachment, {"metadata": {"name": RECORD}, "spec": spec})


async def is_attached(stage: MortalRole) -> bool:
    record = await stage.api.find(VolumeAttachment, RECORD)
    return record is not None and record.status.attached


async def attached_once(stage: MortalRole) -> None:
    assert stage.storage.published["v"] == {"i-1"}


async def attach_and_delete(stage: MortalRole) -> None:
    await attach(stage)
    task, _ = stage.start()
    for _ in range(100):
        await asyncio.sleep(0.1)
    assert await is_attached(stage)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await stage.api.delete(VolumeAttachment, RECORD)


async def is_gone(stage: MortalRole) -> bool:
    return await stage.api.find(VolumeAttachment, RECORD) is None


async def detached(stage: MortalRole) -> None:
    assert stage.storage.published["v"] == set()


async def claim(stage: MortalRole) -> None:
    body = {"metadata": {"name": "k"}, "provisioner": NAME, "volumeBindingMode": "Immediate"}
    await stage.api.create(StorageClass, body)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "k",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    asked = {"volume.kubernetes.io/storage-provisioner": NAME}
    await stage.api.create(
        PersistentVolumeClaim, {"metadata": {"name": "c", "annotations": asked}, "spec": spec}, "default"
    )


async def is_made(stage: MortalRole) -> bool:
    claims = (await stage.api.list(PersistentVolumeClaim)).items
    made = (await stage.api.list(PersistentVolume)).items
    return len(made) == 1 and not any("provisioning" in each for each in claims[0].metadata.finalizers)


async def made_once(stage: MortalRole) -> None:
    (pv,) = (await stage.api.list(PersistentVolume)).items
    assert list(stage.storage.volumes) == [pv.name]


async def made_and_given_back(stage: MortalRole) -> None:
    """A volume was made for a claim, and the claim is gone."""
    await claim(stage)
    task, _ = stage.start()
    for _ in range(100):
        await asyncio.sleep(0.1)
    assert await is_made(stage)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (pv,) = (await stage.api.list(PersistentVolume)).items
    await stage.api.delete(PersistentVolumeClaim, "c", "default")
    if await stage.api.find(PersistentVolumeClaim, "c", "default") is not None:  # it is protected
        await stage.api.patch(PersistentVolumeClaim, "c", {"metadata": {"finalizers": None}}, "default")
    released = {"status": {"phase": "Released"}}
    await stage.api.patch(PersistentVolume, pv.name, released, subresource="status")


async def is_reclaimed(stage: MortalRole) -> bool:
    found = (await stage.api.list(PersistentVolume)).items  # another controller removes the protection
    return all(pv.deleting and pv.metadata.finalizers == ("kubernetes.io/pv-protection",) for pv in found)


async def nothing_left(stage: MortalRole) -> None:
    assert stage.storage.volumes == {}


async def grow(stage: MortalRole) -> None:
    await stage.bound("2Gi")


async def node_is_asked(stage: MortalRole) -> bool:
    found = await stage.api.get(PersistentVolumeClaim, "c", "default")
    return any(each.type == "FileSystemResizePending" for each in found.status.conditions)


async def grown(stage: MortalRole) -> None:
    assert stage.storage.grown == {"v": 2 * 1024**3}
    assert (await stage.api.get(PersistentVolume, "pv")).spec.capacity["storage"] == "2Gi"


async def change(stage: MortalRole) -> None:
    gold = {"metadata": {"name": "gold"}, "driverName": NAME, "parameters": {"iops": "9"}}
    await stage.api.create(VolumeAttributesClass, gold)
    await stage.bound(volumeAttributesClassName="gold")


async def is_changed(stage: MortalRole) -> bool:
    status = (await stage.api.get(PersistentVolumeClaim, "c", "default")).status
    return status.current_volume_attributes_class_name == "gold" and status.modify_volume_status is None


async def changed(stage: MortalRole) -> None:
    assert stage.storage.attributes == {"v": {"iops": "9"}}
    assert (await stage.api.get(PersistentVolume, "pv")).spec.volume_attributes_class_name == "gold"


WORK = {
    "attach": RoleWork(AttacherController, attach, is_attached, attached_once, 3, 1),
    "detach": RoleWork(AttacherController, attach_and_delete, is_gone, detached, 2, 1),
    "provision": RoleWork(ProvisioningController, claim, is_made, made_once, 3, 1),
    "reclaim": RoleWork(ProvisioningController, made_and_given_back, is_reclaimed, nothing_left, 2, 1),
    "grow": RoleWork(ExpansionController, grow, node_is_asked, grown, 3, 1),
    "change": RoleWork(ModificationController, change, is_changed, changed, 3, 1),
}


async def survives(stage: MortalRole, work: RoleWork, number: int, *, after: bool, at_calls: bool) -> bool:
    """Plays it with a death at that request or call. Returns whether there were so many."""
    await work.begin(stage)
    task, wire = stage.start()
    if at_calls:
        stage.storage.die_at, stage.storage.after = number, after
    else:
        wire.crash_at(number, after=after)
    died = stage.storage.died if at_calls else wire.crashed
    for _ in range(600):
        if died.is_set() or await work.done(stage):
            break
        await asyncio.sleep(0.1)
    struck = died.is_set()
    wire.spare()
    stage.storage.die_at = None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    stage.storage.died = asyncio.Event()
    successor, _ = stage.start()
    for _ in range(3000):
        if await work.done(stage):
            break
        await asyncio.sleep(0.1)
    assert await work.done(stage), f"a successor does not finish what was begun: {stage.storage.methods()}"
    await asyncio.sleep(5)
    await work.true(stage)
    successor.cancel()
    await asyncio.gather(successor, return_exceptions=True)
    return struck


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after its effect"])
@pytest.mark.parametrize("at_calls", [False, True], ids=["a request", "a call"])
@pytest.mark.parametrize("name", WORK)
def test_whoever_comes_next_finishes_the_work(play: Play, name: str, at_calls: bool, after: bool):
    work, number = WORK[name], 0

    async def story(stage: MortalRole) -> bool:
        return await survives(stage, work, number, after=after, at_calls=at_calls)

    while play(story, stage=MortalRole, kind=work.kind):
        number += 1
    assert number >= (work.calls if at_calls else work.requests), f"it died only {number} times"
