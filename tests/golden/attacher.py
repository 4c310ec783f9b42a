"""C15: the attacher and a storage whose requests may be carried out long after they were sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from controller_stage import ControllerStage
from disk_record import reconciled, unanswered, wanted, wanted_again
from tests.conftest import virtual_now
from tests.golden.recorder import Recorder
from tests.golden.scene import Scene

from mooring.apiserver import Server
from mooring.controllers.attacher import requests
from mooring.controllers.attacher.controller import AttacherController
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.parts.array_plugin import ArrayPlugin
from mooring.simulation.parts.faulty_transport import FaultyTransport, faulty_client
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager

VALIDITY_S = 100.0


class SlowArrayPlugin(ArrayPlugin):
    """Its requests may be carried out for VALIDITY_S after they were sent."""

    def capabilities(self, spec: Any) -> Any:
        return replace(super().capabilities(spec), request_validity_s=VALIDITY_S)


class AttacherScene(ControllerStage, Scene):
    """One attacher after the other, at a storage that says what is attached."""

    def __init__(self) -> None:
        super().__init__(Server.in_memory(now=virtual_now, random=Random(1)), virtual_now)
        self.recorder = Recorder()
        self.recorder.aliases = {"pv": "d1"}
        self.look, _ = faulty_client(self.server)
        transport = self.api.transport
        assert isinstance(transport, FaultyTransport)
        self.sender = self.recorder.sender(transport, "controller", reads=False)

    async def begin(self) -> None:
        await self.server.start()

    def plugins(self) -> PluginManager:
        return PluginManager([SlowArrayPlugin(self.array)], ControllerVolumeHost(self.now))

    def attacher(self) -> AttacherController:
        return self.make(AttacherController, plugins=self.plugins())

    async def truths(self) -> AsyncIterator[str]:
        record = await self.look.find(VolumeAttachment, "va")
        state = "no VolumeAttachment"
        if record is not None:
            attached = "attached" if record.status.attached else "not attached"
            state = f"VolumeAttachment {'is being deleted' if record.deleting else attached}"
        where = self.array.attached.get("d")
        harm = ""
        if where and record is None:
            harm = ", HARM: attached without a VolumeAttachment, so every other node is refused for ever"
        if not where and record is not None and record.status.attached and not record.deleting:
            harm = ", HARM: the VolumeAttachment says attached"
        yield f"{state}; the storage has d1 {f'on {where}' if where else 'on no node'}{harm}"


async def reconciles(scene: AttacherScene, who: str, attacher: AttacherController) -> None:
    scene.sender.who = who
    try:
        await reconciled(scene, attacher)
    except TimeoutError:
        scene.say("the storage does not answer")
    scene.sender.who = "controller"


async def late_attach(scene: AttacherScene) -> None:
    await scene.step("d1 is wanted on n")
    await wanted(scene)
    await scene.step("An attacher asks the storage to attach it, gets no answer, and crashes")
    late = unanswered(scene, "attach")
    await reconciles(scene, "attacher", scene.attacher())
    await scene.step("No pod wants d1 on n any more")
    await scene.api.delete(VolumeAttachment, "va")
    await scene.step('The attacher\'s successor asks the storage, which says "not attached"')
    successor = scene.attacher()
    await reconciles(scene, "successor", successor)
    await scene.step("The attach that was not answered is carried out")
    await late[0]()
    await scene.step(f"{VALIDITY_S:g} s after it was sent, no request can take effect any more")
    await asyncio.sleep(VALIDITY_S)
    if await scene.look.find(VolumeAttachment, "va") is not None:
        await reconciles(scene, "successor", successor)


async def late_detach(scene: AttacherScene) -> None:
    await scene.step("d1 is attached to n")
    await wanted(scene)
    attacher = scene.attacher()
    await reconciles(scene, "attacher", attacher)
    await scene.step(
        "No pod wants d1 on n any more. The attacher asks the storage to detach it, and gets no answer"
    )
    await scene.api.delete(VolumeAttachment, "va")
    late = unanswered(scene, "detach")
    await reconciles(scene, "attacher", attacher)
    await scene.step("It asks again, and the storage detaches")
    await reconciles(scene, "attacher", attacher)
    if await scene.look.find(VolumeAttachment, "va") is None:
        await scene.step("d1 is wanted on n again, and attached")
        await wanted_again(scene)
        await reconciles(scene, "attacher", attacher)
    await scene.step("The detach that was not answered is carried out")
    await late[0]()


def takes_nothing_for_outstanding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(requests, "outstanding_for", lambda unanswered, now, validity_s: 0.0)
